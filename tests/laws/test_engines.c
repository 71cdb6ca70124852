/* test_engines.c — law: all engines compute the same values. Initial weights are bit-identical;
 * losses, weights and predictions agree up to rounding; reports agree with the states. */
#include "tests/support/reference.h"
#include "tests/support/trained.h"

#include "core/model/trained_ensemble.h"
#include "src/cpu/single_row.h"

enum { STEPS = DOUBLE ? 20 : 50, MEMBERS = 3 };

static const way plain = {"generic", &tt_engine_cpu, {.threads = 1, .simd = TT_SIMD_generic}, 0, 0,
                          1};

static problem usual(tt_loss loss, tt_optimizer optimizer, tt_activation activation)
{
  const int64_t hidden[] = {10, 7};
  problem p = problem_make(60, 3, 2, 2, MEMBERS, hidden, 2, activation, tt_loss_output_head(loss));
  p.c.loss = loss;
  p.c.optimizer = optimizer;
  p.c.nesterov = 1;
  p.c.resample = TT_RESAMPLE_bootstrap;
  p.c.max_epochs = STEPS;
  for (int64_t i = 0; i < p.c.members; i++) {
    tt_hyper *h = &p.c.member[i].hyper;
    h->epochs = STEPS;
    h->learning_rate = 1e-3f * (float)(1 + i);
    h->momentum = 0.5f;
    h->l2 = 1e-3f;
    h->epsilon = 1e-4f; /* without it Adam divides by tiny roots, which amplifies rounding */
    h->clip_norm = i % 2 ? 0.5f : 0.0f;
    if (optimizer != TT_OPT_rmsprop) continue;
    h->learning_rate *= 0.2f; /* its first steps are 1 / sqrt(1 - beta2) times as long */
    h->beta2 = 0.9f;
  }
  return p;
}

/* Largest difference, relative to the largest value. */
static double apart(const float *a, const float *b, int64_t n)
{
  double worst = 0.0, size = 0.0;
  for (int64_t i = 0; i < n; i++) {
    double gap = fabs((double)a[i] - (double)b[i]);
    if (isnan(a[i]) && isnan(b[i])) continue;
    worst = fmax(worst, isnan(gap) ? INFINITY : gap);
    size = fmax(size, fabs((double)a[i]));
  }
  return size > 0.0 ? worst / size : worst;
}

TT_TEST (first_weights_are_the_same_bits) {
  for (const way *w = every_way(); w->name; w++)
    for (int init = 0; init < TT_INIT_COUNT; init++) {
      problem p = usual(TT_LOSS_gaussian_nll, TT_OPT_adam, TT_ACT_tanh);
      p.c.init = (tt_init)init;
      problem_start(&p, plain, everyone(&p));
      tt_state *want = problem_state(&p, everyone(&p));
      problem_stop(&p);
      problem_start(&p, *w, (tt_slice){1, 4});
      tt_state *got = problem_state(&p, (tt_slice){1, 4});
      for (int64_t m = 1; m < 5; m++) same_member(want, got, m, w->name);
      tt_state_destroy(&want);
      tt_state_destroy(&got);
      problem_free(&p);
    }
}

static int asked;
static const char *at_the_third_member(void) { return ++asked == 3 ? "SIGTERM" : NULL; }

TT_TEST (a_request_to_stop_ends_the_set_up) {
  for (const way *w = every_way(); w->name; w++) {
    problem p = usual(TT_LOSS_mse, TT_OPT_adam, TT_ACT_tanh);
    asked = 0;
    p.by = *w;
    p.by.use.stop = at_the_third_member;
    TT_CHECK_OK(p.by.ops->create(&p.c, everyone(&p), &p.by.use, &p.engine));
    TT_CHECK_OK(p.by.ops->set_data(p.engine, p.d, NULL));
    TT_CHECK((int)p.by.ops->init(p.engine), ==, (int)TT_E_STOPPED);
    TT_CHECK(asked, ==, 3);
    problem_free(&p);
  }
}

/* The state after some steps; losses of the validation rows in loss[members]. */
static tt_state *walk(problem *p, way variant, double *loss)
{
  tt_progress progress;
  problem_start(p, variant, everyone(p));
  TT_CHECK_OK(variant.ops->train(p->engine, STEPS, &progress));
  TT_CHECK(progress.member_steps, ==, p->c.members * STEPS);
  TT_CHECK_OK(variant.ops->evaluate(p->engine, TT_VALIDATION, loss));
  tt_state *s = problem_state(p, everyone(p));
  problem_stop(p);
  return s;
}

/* All optional features of training steps; `number` selects some of them. */
static void enrich(problem *p, int number)
{
  const int64_t hidden[] = {9, 9};
  tt_model_shape shape = usual_shape(3, 1, hidden, 2, TT_ACT_tanh, tt_loss_output_head(p->c.loss));
  shape.layer_norm = number % 2;
  shape.residual = number % 3 != 0;
  TT_CHECK_OK(tt_model_lay_out(&shape, &p->c.model));
  p->c.resample = TT_RESAMPLE_kfold;
  p->c.schedule = (tt_schedule)(1 + number % (TT_SCHEDULE_COUNT - 1));
  p->c.schedule_options = (tt_schedule_options){2, {3, 8}, 1.5f, 0.3f};
  p->c.average = (tt_weight_average)(number % TT_AVERAGE_COUNT);
  for (int64_t i = 0; i < p->c.members; i++) {
    tt_hyper *h = &p->c.member[i].hyper;
    h->schedule_gamma = 0.9f;
    h->schedule_step = 3;
    h->dropout = 0.1f * (float)(i % 3);
    h->label_noise = 0.1f * (float)(i % 2);
    h->average_decay = 0.9f;
    h->average_start = (int32_t)i;
  }
}

/* `beyond`: which optional features, as in the function above; -1: none. */
static void compare(way variant, tt_loss loss, tt_optimizer optimizer, tt_activation activation,
                    int beyond)
{
  double mine[2 * MEMBERS], theirs[2 * MEMBERS];
  problem p = usual(loss, optimizer, activation);
  if (beyond >= 0) enrich(&p, beyond);
  if (!can(variant, &p.c)) {
    problem_free(&p);
    return;
  }
  tt_state *want = walk(&p, plain, theirs), *got = walk(&p, variant, mine);
  int64_t weights = want->count * want->params, losses = want->count * want->epochs;
  double w = apart(TT_FIELD(want, weights), TT_FIELD(got, weights), weights);
  double v = apart(TT_FIELD(want, loss_validation), TT_FIELD(got, loss_validation), losses);
  fprintf(stderr, "  %-21s %-5s %-12s weights %.1e, losses %.1e\n", variant.name,
          tt_choice_optimizer[optimizer], tt_choice_loss[loss], w, v);
  TT_CHECK(w, <=, 1e-5);
  TT_CHECK(v, <=, 1e-5);
  TT_CHECK(apart(TT_FIELD(want, best_weights), TT_FIELD(got, best_weights), weights), <=, 1e-5);
  TT_CHECK(apart(TT_FIELD(want, loss_train), TT_FIELD(got, loss_train), losses), <=, 1e-5);
  for (int64_t m = 0; m < want->count; m++) {
    TT_CHECK(TT_FIELD(got, best_epoch)[m], ==, TT_FIELD(want, best_epoch)[m]);
    TT_CHECK(fabs(mine[m] - theirs[m]), <=, 1e-5 * (1.0 + fabs(theirs[m])));
  }
  tt_state_destroy(&want);
  tt_state_destroy(&got);
  problem_free(&p);
}

TT_TEST (steps_agree) {
  for (const way *w = every_way(); w->name; w++)
    for (int k = 0; k < 15; k++)
      if (takes(*w, k))
        compare(*w, (tt_loss)(k % TT_LOSS_COUNT), (tt_optimizer)(k % TT_OPT_COUNT),
                k % 2 ? TT_ACT_tanh : TT_ACT_silu, -1);
}

TT_TEST (steps_with_every_feature_agree) {
  for (const way *w = every_way(); w->name; w++)
    for (int k = 0; k < 6; k++)
      if (takes(*w, k))
        compare(*w, k % 2 ? TT_LOSS_huber : TT_LOSS_quantile, (tt_optimizer)(k % TT_OPT_COUNT),
                TT_ACT_tanh, k);
}

/* No step: nothing changes, and the report describes the state. */
TT_TEST (without_steps_the_report_describes_the_state) {
  for (const way *w = every_way(); w->name; w++) {
    tt_progress progress;
    problem p = usual(TT_LOSS_mse, TT_OPT_sgd, TT_ACT_relu);
    problem_start(&p, *w, everyone(&p));
    tt_state *s = problem_state(&p, everyone(&p));
    for (int64_t m = 0; m < s->count; m++) {
      TT_FIELD(s, epoch)[m] = (int32_t)m;
      TT_FIELD(s, step)[m] = 100;
      TT_FIELD(s, status)[m] = (int8_t)(m < 2 ? (int)TT_STATUS_training : 1 + (int)(m % 3));
      if (m) TT_FIELD(s, loss_train)[m * s->epochs + m - 1] = 10.0f - (float)m;
    }
    TT_CHECK_OK(w->ops->load(p.engine, everyone(&p), s));
    TT_CHECK_OK(w->ops->train(p.engine, 0, &progress));
    tt_state *now = problem_state(&p, everyone(&p));
    for (int64_t m = 0; m < s->count; m++) same_member(s, now, m, w->name);
    TT_CHECK(progress.member_steps, ==, 0);
    TT_CHECK(progress.training, ==, 2);
    TT_CHECK(progress.diverged, ==, 2); /* members 2 and 5 */
    TT_CHECK(progress.finished, ==, 1);
    TT_CHECK(progress.early_stopped, ==, 1);
    TT_CHECK(progress.epoch_min, ==, 0);
    TT_CHECK(progress.loss[0], ==, 6.0); /* of 6, 7, 9 */
    TT_CHECK(progress.loss[1], ==, 7.0);
    TT_CHECK(progress.loss[2], ==, 7.0);
    tt_state_destroy(&s);
    tt_state_destroy(&now);
    problem_free(&p);
  }
}

/* predictions */

typedef struct shape {
  int64_t rows, inputs, targets, hidden[2], layers;
  tt_output output;
  int layer_norm, residual;
} shape;

/* Fewer rows than any tile, several tiles, none hidden, wider than any fast memory; all outputs. */
#define X(name, ...) {17, 4, 2, {6, 5}, 2, TT_OUTPUT_##name, 1, 0},
static const shape shapes[] = {{5, 3, 1, {4}, 1, TT_OUTPUT_mean, 0, 0},
                               {150, 4, 2, {17, 9}, 2, TT_OUTPUT_mean_variance, 0, 0},
                               {70, 2, 3, {0}, 0, TT_OUTPUT_mean_variance, 0, 0},
                               {66, 3, 1, {700}, 1, TT_OUTPUT_mean, 0, 0},
                               {70, 3, 2, {5}, 1, TT_OUTPUT_quantiles, 0, 0},
                               {35, 2, 2, {8, 8}, 2, TT_OUTPUT_softmax, 1, 1},
                               {20, 3, 1, {9, 9}, 2, TT_OUTPUT_sigmoid, 0, 1},
                               TT_OUTPUTS(X)};
#undef X
enum { SHAPES = sizeof shapes / sizeof *shapes, CAST = 5 };

/* Two ensembles of three and two members; one member has weight 0. */
static tt_trained_ensemble *cast(const shape *s, tt_activation activation)
{
  tt_model m;
  tt_trained_ensemble *c = NULL;
  tt_model_shape of =
      usual_shape(s->inputs, s->targets, s->hidden, s->layers, activation, s->output);
  of.layer_norm = s->layer_norm;
  of.residual = s->residual;
  TT_CHECK_OK(tt_model_lay_out(&of, &m));
  TT_CHECK_OK(trained_create(&m, 2, CAST, &c));
  c->variance_floor = 1e-3f;
  for (int e = 0; e < 2; e++) {
    c->ensemble[e] = (tt_ensemble){.first = 3 * e, .members = 3 - e, .targets = s->targets};
    TT_CHECK_OK(TT_ALLOC(c->ensemble[e].column, s->targets));
  }
  for (int64_t i = 0; i < CAST; i++) {
    tt_model_init_weights(&m, TT_INIT_glorot_uniform, 3, (uint64_t)i, c->w + i * m.params);
    c->weight[i] = i == 1 ? 0.0 : 0.5 + (double)i;
  }
  return c;
}

typedef struct prediction {
  tt_moments *moments;
  float *members; /* [CAST][2][K q][rows] */
} prediction;

static prediction predict(const tt_trained_ensemble *c, const shape *s, way variant, const float *x)
{
  prediction out = {0};
  follow_schedule(variant);
  TT_CHECK_OK(tt_moments_create(s->rows, tt_trained_ensemble_columns(c), &out.moments));
  TT_CHECK_OK(TT_ALLOC(out.members, CAST * 2 * tt_trained_ensemble_width(c) * s->rows));
  TT_CHECK_OK(variant.ops->predict(c, &variant.use, s->rows, x, out.moments, out.members));
  return out;
}

static void prediction_free(prediction *p)
{
  tt_moments_destroy(&p->moments);
  tt_free(p->members);
}

/* The moments are those that the members' own predictions give. */
static void add_up(const tt_trained_ensemble *c, const shape *s, const prediction *p)
{
  tt_moments *want = NULL;
  int64_t column = 0, width = tt_trained_ensemble_width(c), each = width * s->rows;
  int64_t cells = s->rows * p->moments->columns;
  TT_CHECK_OK(tt_moments_create(s->rows, p->moments->columns, &want));
  for (int e = 0; e < c->ensembles; e++, column += width)
    for (int64_t i = c->ensemble[e].first; i < c->ensemble[e].first + c->ensemble[e].members; i++)
      tt_moments_add(want, column, width, c->weight[i], p->members + 2 * i * each,
                     p->members + (2 * i + 1) * each, s->rows);
  const double *a[] = {want->mean, want->between, want->within, want->weight};
  const double *b[] = {p->moments->mean, p->moments->between, p->moments->within,
                       p->moments->weight};
  for (int k = 0; k < 4; k++)
    for (int64_t i = 0; i < (k < 3 ? cells : want->columns); i++) TT_CHECK(b[k][i], ==, a[k][i]);
  tt_moments_destroy(&want);
}

/* The predictions of the members do not depend on whether the moments are requested too. */
static void moments_alone(const tt_trained_ensemble *c, const shape *s, way variant, const float *x,
                          const prediction *p)
{
  tt_moments *m = NULL;
  TT_CHECK_OK(tt_moments_create(s->rows, p->moments->columns, &m));
  TT_CHECK_OK(variant.ops->predict(c, &variant.use, s->rows, x, m, NULL));
  for (int64_t i = 0; i < s->rows * m->columns; i++) {
    TT_CHECK(m->mean[i], ==, p->moments->mean[i]);
    TT_CHECK(m->between[i], ==, p->moments->between[i]);
    TT_CHECK(m->within[i], ==, p->moments->within[i]);
  }
  tt_moments_destroy(&m);
}

/* Predictions of the members, with the networks of reference.h. */
static void by_the_book(const tt_trained_ensemble *c, const shape *s, const float *x,
                        const prediction *p)
{
  static double w[4096], out[4096];
  const tt_model *m = &c->model;
  int64_t width = tt_trained_ensemble_width(c), q = m->quantities;
  if (m->params > 4096 || s->hidden[0] > REF_WIDEST) return;
  for (int64_t cell = 0; cell < CAST * s->rows; cell++) {
    int64_t i = cell / s->rows, r = cell % s->rows;
    double in[REF_WIDEST], mean, variance;
    for (int64_t k = 0; k < m->params; k++) w[k] = (double)c->w[i * m->params + k];
    for (int64_t k = 0; k < m->inputs; k++) in[k] = (double)x[r * m->inputs + k];
    ref_forward(m, w, in, NULL, out);
    for (int64_t k = 0; k < width; k++) {
      const float *got = p->members + 2 * i * width * s->rows + k * s->rows + r;
      ref_quantity(m, (double)c->variance_floor, out + k / q, (int32_t)(k % q), &mean, &variance);
      TT_CHECK(fabs((double)got[0] - mean), <=, 2e-6 * (1.0 + fabs(mean)));
      TT_CHECK(fabs((double)got[width * s->rows] - variance), <=, 2e-6 * (1.0 + variance));
    }
  }
}

static void predictions(way variant, const shape *s, int number, const float *x)
{
  tt_trained_ensemble *c = cast(s, TT_ACT_tanh);
  prediction want = predict(c, s, plain, x), got = predict(c, s, variant, x);
  double gap = apart(want.members, got.members, CAST * 2 * tt_trained_ensemble_width(c) * s->rows);
  fprintf(stderr, "  %-21s shape %d: %.1e apart\n", variant.name, number, gap);
  TT_CHECK(gap, <=, 1e-6);
  by_the_book(c, s, x, &want);
  add_up(c, s, &got);
  moments_alone(c, s, variant, x, &got);
  prediction_free(&want);
  prediction_free(&got);
  tt_trained_ensemble_destroy(&c);
}

TT_TEST (predictions_agree) {
  float *x = NULL;
  TT_CHECK_OK(TT_ALLOC(x, 150 * 4));
  for (int64_t i = 0; i < 150 * 4; i++) x[i] = sinf((float)i);
  for (const way *w = every_way(); w->name; w++)
    for (int k = 0; k < SHAPES; k++)
      if (takes(*w, k)) predictions(*w, &shapes[k], k, x);
  tt_free(x);
}

/* One ensemble of two and three members with different networks. */
static tt_trained_ensemble *mixed_cast(const shape *s)
{
  tt_network network[2] = {{.members = 2}, {.members = CAST - 2}};
  tt_trained_ensemble *c = NULL;
  tt_model_shape of =
      usual_shape(s->inputs, s->targets, s->hidden, s->layers, TT_ACT_tanh, s->output);
  TT_CHECK_OK(tt_model_lay_out(&of, &network[0].model));
  of = usual_shape(s->inputs, s->targets, (int64_t[]){11}, 1, TT_ACT_relu, s->output);
  of.layer_norm = 1;
  TT_CHECK_OK(tt_model_lay_out(&of, &network[1].model));
  TT_CHECK_OK(tt_trained_ensemble_create_mixed(2, network, 1, &c));
  c->variance_floor = 1e-3f;
  c->ensemble[0] = (tt_ensemble){.members = CAST, .targets = s->targets};
  TT_CHECK_OK(TT_ALLOC(c->ensemble[0].column, s->targets));
  for (int64_t i = 0; i < CAST; i++) {
    int64_t k = i >= 2;
    const tt_network *own = &c->network[k];
    tt_model_init_weights(&own->model, TT_INIT_glorot_uniform, 3, (uint64_t)i,
                          own->w + (i - own->first) * own->model.params);
    c->weight[i] = i == 1 ? 0.0 : 0.5 + (double)i;
  }
  return c;
}

/* The members of several networks predict as on their own, and their moments are those of all. */
TT_TEST (members_of_several_networks_predict_as_on_their_own) {
  static const shape s = {150, 4, 2, {17, 9}, 2, TT_OUTPUT_mean_variance, 0, 0};
  float *x = NULL, *alone = NULL;
  tt_trained_ensemble *c = mixed_cast(&s);
  int64_t each = 2 * tt_trained_ensemble_width(c) * s.rows;
  TT_CHECK_OK(TT_ALLOC(x, s.rows * s.inputs));
  TT_CHECK_OK(TT_ALLOC(alone, CAST * each));
  for (int64_t i = 0; i < s.rows * s.inputs; i++) x[i] = sinf((float)i);
  for (const way *w = every_way(); w->name; w++) {
    prediction got = predict(c, &s, *w, x);
    for (int64_t k = 0; k < 2; k++) {
      tt_ensemble own;
      tt_trained_ensemble part = tt_trained_ensemble_part(c, k, &own);
      float *dst = alone + tt_trained_ensemble_first(c, k) * each;
      TT_CHECK_OK(w->ops->predict(&part, &w->use, s.rows, x, NULL, dst));
    }
    TT_CHECK(memcmp(got.members, alone, (size_t)(CAST * each) * sizeof *alone), ==, 0);
    add_up(c, &s, &got);
    moments_alone(c, &s, *w, x, &got);
    prediction_free(&got);
  }
  tt_free(x);
  tt_free(alone);
  tt_trained_ensemble_destroy(&c);
}

/* One row at a time: the bits of the cpu engine, which computes batches. */
static void single_rows(way variant, const shape *s, tt_activation activation, const float *x)
{
  tt_trained_ensemble *c = cast(s, activation);
  prediction want = predict(c, s, variant, x);
  tt_single_row *single = NULL;
  tt_moments *got = NULL;
  float *scratch = NULL;
  int64_t columns = want.moments->columns;
  TT_CHECK_OK(tt_single_row_create(c, variant.use.simd, &single));
  TT_CHECK_OK(TT_ALLOC(scratch, tt_single_row_scratch(single)));
  TT_CHECK_OK(tt_moments_create(1, columns, &got));
  for (int64_t i = 0; i < s->rows * columns; i++) {
    if (i % columns == 0) tt_single_row_predict(single, x + i / columns * s->inputs, scratch, got);
    TT_CHECK(got->mean[i % columns], ==, want.moments->mean[i]);
    TT_CHECK(got->between[i % columns], ==, want.moments->between[i]);
    TT_CHECK(got->within[i % columns], ==, want.moments->within[i]);
    TT_CHECK(got->weight[i % columns], ==, want.moments->weight[i % columns]);
  }
  tt_moments_destroy(&got);
  tt_free(scratch);
  tt_single_row_destroy(&single);
  prediction_free(&want);
  tt_trained_ensemble_destroy(&c);
}

TT_TEST (single_rows_have_the_bits_of_batches) {
  way variant[MAX_WAYS];
  float *x = NULL;
  TT_CHECK_OK(TT_ALLOC(x, 150 * 4));
  for (int64_t i = 0; i < 150 * 4; i++) x[i] = sinf((float)i);
  for (int i = 0, n = cpu_ways(variant); i < n; i++)
    for (int k = 0; k < SHAPES; k++)
      for (int a = 0; a < TT_ACT_COUNT; a++)
        single_rows(variant[i], &shapes[k], (tt_activation)a, x);
  tt_free(x);
}
