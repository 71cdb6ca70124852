/* test_traps.c — twelve mistakes seen in programs that train ensembles, each a test by its name.
 * The ninth, inference that reads the weights again for every batch, needs a file: it is in
 * tests/mpi/train/test_trap_inference.c. */
#include "core/stats/metrics.h"
#include "core/stats/mixture.h"
#include "tests/support/plain_model.h"
#include "tests/support/problem.h"
#include "tests/support/trained.h"

enum { MEMBERS = 4, ROWS = 67, EPOCHS = 4, BATCH = 8 };

static problem make(way variant, tt_optimizer optimizer)
{
  const int64_t hidden[] = {5};
  problem p = problem_make(ROWS, 3, 1, 1, MEMBERS, hidden, 1, TT_ACT_tanh, TT_OUTPUT_mean);
  p.by = variant;
  p.c.optimizer = optimizer;
  p.c.batch_size = BATCH;
  p.c.max_epochs = EPOCHS;
  for (int i = 0; i < MEMBERS; i++) {
    p.c.member[i].hyper.epochs = EPOCHS;
    p.c.member[i].hyper.learning_rate = 1e-2f;
  }
  return p;
}

static void each_way(void (*law)(way variant))
{
  for (const way *w = every_way(); w->name; w++)
    if (takes(*w, (int)w->use.path)) law(*w);
}

/* `change` modifies the hyper-parameters of the other members: member 0 keeps its bits. */
static void keeps_its_bits(way variant, tt_optimizer optimizer, void (*usual)(tt_hyper *),
                           void (*change)(tt_hyper *), const char *what)
{
  problem p = make(variant, optimizer), q = make(variant, optimizer),
          alone = make(variant, optimizer);
  for (int i = 0; usual && i < MEMBERS; i++) {
    usual(&p.c.member[i].hyper);
    usual(&q.c.member[i].hyper);
    usual(&alone.c.member[i].hyper);
  }
  for (int i = 1; i < MEMBERS; i++) change(&q.c.member[i].hyper);
  tt_state *a = problem_run(&p, variant, everyone(&p), 3);
  tt_state *b = problem_run(&q, variant, everyone(&q), 3);
  tt_state *c = problem_run(&alone, variant, (tt_slice){0, 1}, 3);
  same_member(a, b, 0, what);
  same_member(a, c, 0, what);
  tt_state_destroy(&a);
  tt_state_destroy(&b);
  tt_state_destroy(&c);
  problem_free(&p);
  problem_free(&q);
  problem_free(&alone);
}

/* members with the same prediction for every row: mean[i], variance[i] */

enum { SAYING = 3 };

static tt_trained_ensemble *sayings(int64_t members, const double *mean, const double *variance,
                                    const double *share)
{
  tt_trained_ensemble *c = NULL;
  tt_model m;
  TT_CHECK_OK(tt_model_plain(1, 1, NULL, 0, TT_ACT_identity, TT_OUTPUT_mean_variance, &m));
  TT_CHECK_OK(trained_create(&m, 1, members, &c));
  c->ensemble[0] = (tt_ensemble){.members = members, .targets = 1};
  TT_CHECK_OK(TT_ALLOC(c->ensemble[0].column, 1));
  for (int64_t i = 0; i < members; i++) {
    float *w = c->w + i * m.params; /* W (mean, raw), b (mean, raw) */
    w[0] = w[1] = 0.0f;
    w[2] = (float)mean[i];
    w[3] = (float)log(expm1(variance[i]));
    c->weight[i] = share[i];
  }
  return c;
}

static tt_uncertainty says(way variant, const tt_trained_ensemble *c, float *members)
{
  const float x = 0.5f;
  tt_moments *m = NULL;
  TT_CHECK_OK(tt_moments_create(1, 1, &m));
  TT_CHECK_OK(variant.ops->predict(c, &variant.use, 1, &x, m, members));
  tt_uncertainty uncertainty = tt_moments_at(m, 0, 0);
  tt_moments_destroy(&m);
  return uncertainty;
}

static void near(double got, double want)
{
  TT_CHECK(fabs(got - want), <=, 1e-5 * (1.0 + fabs(want)));
}

/* 1. The mixture of N(-3, 1) and N(3, 1) is not N(0, 1). */
static void parameters_are_not_averaged(way variant)
{
  const double mean[] = {-3.0, 3.0}, variance[] = {1.0, 1.0}, share[] = {1.0, 1.0};
  tt_trained_ensemble *c = sayings(2, mean, variance, share);
  tt_uncertainty uncertainty = says(variant, c, NULL);
  near(uncertainty.mean, 0.0);
  near(uncertainty.aleatoric, 1.0);
  near(uncertainty.epistemic, 3.0);
  near(uncertainty.total * uncertainty.total, 10.0);
  near(tt_crps_mixture(2, share, mean, variance, 3.0, NULL), 1.61685); /* of N(0, 1) 2.4366 */
  tt_trained_ensemble_destroy(&c);
}
TT_TEST (averaged_parameters) {
  each_way(parameters_are_not_averaged);
}

/* 2. The best weights of a member are those of its own best epoch. */
static double least(const float *loss, int *epoch)
{
  *epoch = 0;
  for (int e = 1; e < EPOCHS; e++)
    if (loss[e] < loss[*epoch]) *epoch = e;
  return (double)loss[*epoch];
}

static void best_weights_are_each_members_own(way variant)
{
  problem p = make(variant, TT_OPT_adam);
  for (int i = 0; i < MEMBERS; i++) p.c.member[i].hyper.learning_rate = i % 2 ? 0.8f : 1e-3f;
  problem_start(&p, variant, everyone(&p));
  problem_finish(&p, 3);
  tt_state *s = problem_state(&p, everyone(&p));
  double loss[MEMBERS];
  int differ = 0;
  TT_CHECK_OK(variant.ops->evaluate(p.engine, TT_VALIDATION, loss));
  for (int i = 0; i < MEMBERS; i++) {
    int epoch;
    double want = least(TT_FIELD(s, loss_validation) + i * EPOCHS, &epoch);
    TT_CHECK(TT_FIELD(s, best_epoch)[i], ==, epoch);
    TT_CHECK(fabs(TT_FIELD(s, best_loss)[i] - want), <=, 1e-6 * want);
    TT_CHECK(fabs(loss[i] - want), <=, 1e-5 * want); /* the weights give the recorded loss */
    differ |= TT_FIELD(s, best_epoch)[i] != TT_FIELD(s, best_epoch)[0];
  }
  TT_CHECK(differ, ==, 1);
  tt_state_destroy(&s);
  problem_free(&p);
}
TT_TEST (best_weights_of_the_whole_ensemble) {
  each_way(best_weights_are_each_members_own);
}

/* 3. Members share no trained value: members with learning rate 0 do not change the others. */
static void stand_still(tt_hyper *h) { h->learning_rate = 0.0f; }
static void parameters_are_own(way variant)
{
  keeps_its_bits(variant, TT_OPT_adam, NULL, stand_still, "shared parameters");
}
TT_TEST (shared_parameters) {
  each_way(parameters_are_own);
}

/* 4. Plain gradient descent depends on the scale of the loss: the step is the same with more
 * members. */
static void faster(tt_hyper *h) { h->learning_rate *= 7.0f; }
static void losses_are_summed(way variant)
{
  keeps_its_bits(variant, TT_OPT_sgd, NULL, faster, "mean over members");
}
TT_TEST (mean_over_members_loss) {
  each_way(losses_are_summed);
}

/* 5. A large gradient of one member does not clip that of another. */
static void clip(tt_hyper *h) { h->clip_norm = 0.05f; }
static void large(tt_hyper *h) { h->init_scale = 50.0f; }
static void clipping_is_own(way variant)
{
  keeps_its_bits(variant, TT_OPT_sgd, clip, large, "joint clipping");
  problem p = make(variant, TT_OPT_sgd), q = make(variant, TT_OPT_sgd);
  clip(&p.c.member[0].hyper);
  tt_state *a = problem_run(&p, variant, everyone(&p), 3),
           *b = problem_run(&q, variant, everyone(&q), 3);
  TT_CHECK(TT_FIELD(a, weights)[0] != TT_FIELD(b, weights)[0], ==, 1); /* it was clipped */
  tt_state_destroy(&a);
  tt_state_destroy(&b);
  problem_free(&p);
  problem_free(&q);
}
TT_TEST (joint_clipping) {
  each_way(clipping_is_own);
}

/* 6. No output depends on another member's weights. */
static void members_do_not_talk(way variant)
{
  const double mean[] = {1.0, 2.0, 3.0}, variance[] = {0.5, 0.25, 2.0}, share[] = {1.0, 1.0, 1.0};
  tt_trained_ensemble *c = sayings(SAYING, mean, variance, share);
  float before[2 * SAYING], after[2 * SAYING];
  says(variant, c, before);
  for (int64_t i = 0; i < c->model.params; i++) c->w[c->model.params + i] += 10.0f;
  says(variant, c, after);
  for (int i = 0; i < SAYING; i++) {
    TT_CHECK(before[2 * i] == after[2 * i], ==, i != 1);
    TT_CHECK(before[2 * i + 1] == after[2 * i + 1], ==, i != 1);
  }
  tt_trained_ensemble_destroy(&c);
}
TT_TEST (cross_talk) {
  each_way(members_do_not_talk);
}

/* 7. Errors cancel: the ensemble is right although every member is wrong. */
static void the_ensemble_is_not_a_member(way variant)
{
  const double mean[] = {-1.0, 1.0, 0.0}, variance[] = {1.0, 1.0, 1.0}, share[] = {1.0, 1.0, 0.0};
  tt_trained_ensemble *c = sayings(SAYING, mean, variance, share);
  float said[2 * SAYING];
  double tally[3][64] = {{0}};
  tt_uncertainty uncertainty = says(variant, c, said);
  TT_CHECK(tt_tally_size(&c->model), <=, 64);
  for (int i = 0; i < 3; i++) {
    double own = i < 2 ? (double)said[2 * i] : uncertainty.mean;
    tt_forecast f = {.quantity = &own, .variance = 1.0};
    tt_tally_add(&c->model, &f, 0.0, 1.0, tally[i]);
  }
  near(tt_tally_metric(&c->model, tally[0], TT_METRIC_rmse), 1.0);
  near(tt_tally_metric(&c->model, tally[1], TT_METRIC_rmse), 1.0);
  near(tt_tally_metric(&c->model, tally[2], TT_METRIC_rmse), 0.0);
  tt_trained_ensemble_destroy(&c);
}
TT_TEST (one_member_reported_as_the_ensemble) {
  each_way(the_ensemble_is_not_a_member);
}

/* 8. Weight 2 equals the member twice, in both parts of the variance; weight 0 equals no member. */
static void weights_count(way variant)
{
  const double mean[] = {-1.0, 2.0, 2.0}, variance[] = {1.0, 0.25, 0.25};
  const double once[] = {1.0, 1.0, 1.0}, twice[] = {1.0, 2.0, 0.0};
  tt_trained_ensemble *a = sayings(SAYING, mean, variance, once),
                      *b = sayings(2, mean, variance, twice);
  tt_trained_ensemble *c = sayings(SAYING, mean, variance, twice);
  tt_uncertainty x = says(variant, a, NULL), y = says(variant, b, NULL), z = says(variant, c, NULL);
  near(x.mean, y.mean);
  near(x.aleatoric, y.aleatoric);
  near(x.epistemic, y.epistemic);
  near(x.epistemic, sqrt(2.0));
  TT_CHECK(memcmp(&y, &z, sizeof y), ==, 0);
  near(tt_gaussian_mixture_quantile(3, once, mean, variance, 0.3),
       tt_gaussian_mixture_quantile(2, twice, mean, variance, 0.3));
  near(tt_crps_mixture(3, once, mean, variance, 0.3, NULL),
       tt_crps_mixture(2, twice, mean, variance, 0.3, NULL));
  tt_trained_ensemble_destroy(&a);
  tt_trained_ensemble_destroy(&b);
  tt_trained_ensemble_destroy(&c);
}
TT_TEST (weights_ignored) {
  each_way(weights_count);
}

/* 10. A checkpoint holds the optimizer state: a resumed training ends with the same bits, and
 * without the slots it does not. */
static void resume(way variant, int forget, const tt_state *want)
{
  problem p = make(variant, TT_OPT_adam);
  tt_progress progress;
  problem_start(&p, variant, everyone(&p));
  TT_CHECK_OK(variant.ops->train(p.engine, 7, &progress));
  tt_state *s = problem_state(&p, everyone(&p));
  variant.ops->destroy(&p.engine);
  if (forget)
    memset(TT_FIELD(s, slots), 0, (size_t)(s->count * s->slots * s->params) * sizeof(float));
  problem_start(&p, variant, everyone(&p));
  TT_CHECK_OK(variant.ops->load(p.engine, everyone(&p), s));
  problem_finish(&p, 5);
  tt_state *end = problem_state(&p, everyone(&p));
  for (int i = 0; !forget && i < MEMBERS; i++) same_member(end, want, i, "resumed");
  if (forget)
    TT_CHECK(memcmp(TT_FIELD(end, weights), TT_FIELD(want, weights),
                    (size_t)s->params * sizeof(float)) != 0,
             ==, 1);
  tt_state_destroy(&s);
  tt_state_destroy(&end);
  problem_free(&p);
}
static void slots_are_saved(way variant)
{
  problem p = make(variant, TT_OPT_adam);
  tt_state *want = problem_run(&p, variant, everyone(&p), 100);
  problem_free(&p);
  resume(variant, 0, want);
  resume(variant, 1, want);
  tt_state_destroy(&want);
}
TT_TEST (checkpoint_without_optimizer_state) {
  each_way(slots_are_saved);
}

/* 11. Any batch size: the last batch is smaller, and every row is used once per epoch. */
static void batches_need_not_divide(way variant)
{
  problem p = make(variant, TT_OPT_sgd);
  int64_t rows = 0;
  for (int64_t r = 0; r < ROWS; r++) rows += p.d->split[r] == TT_TRAIN;
  TT_CHECK(rows % BATCH, !=, 0);
  for (int i = 0; i < MEMBERS; i++) stand_still(&p.c.member[i].hyper);
  problem_start(&p, variant, everyone(&p));
  problem_finish(&p, 3);
  tt_state *s = problem_state(&p, everyone(&p));
  double loss[MEMBERS];
  TT_CHECK_OK(variant.ops->evaluate(p.engine, TT_TRAIN, loss));
  for (int i = 0; i < MEMBERS; i++) {
    TT_CHECK(TT_FIELD(s, step)[i], ==, (rows + BATCH - 1) / BATCH * EPOCHS);
    TT_CHECK(fabs((double)TT_FIELD(s, loss_train)[i * EPOCHS] - loss[i]), <=, 1e-5 * loss[i]);
  }
  tt_state_destroy(&s);
  problem_free(&p);
}
TT_TEST (batch_size_must_divide) {
  each_way(batches_need_not_divide);
}

/* 12. The prediction of an ensemble of one member equals that of the member, bit by bit. */
static void one_is_one(way variant)
{
  const double mean[] = {0.7}, variance[] = {0.3}, share[] = {0.4};
  tt_trained_ensemble *c = sayings(1, mean, variance, share);
  float said[2];
  tt_uncertainty uncertainty = says(variant, c, said);
  TT_CHECK(uncertainty.mean, ==, (double)said[0]);
  TT_CHECK(uncertainty.epistemic, ==, 0.0);
  TT_CHECK(uncertainty.total, ==, uncertainty.aleatoric);
  near(uncertainty.total * uncertainty.total, (double)said[1]);
  tt_trained_ensemble_destroy(&c);
}
TT_TEST (one_member_reduction) {
  each_way(one_is_one);
}
