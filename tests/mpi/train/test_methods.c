/* test_methods.c — laws of training methods with more than one member or attempt: retries, ensemble
 * early stopping, fusion. On any number of ranks the bits are those of a plain loop over one engine
 * that holds all members. */
#include "tests/support/problem.h"
#include "tests/support/ranks.h"

#include "core/base/log.h"
#include "core/stats/ensemble_loss.h"
#include "src/train/shard/ensemble_early_stopping.h"
#include "src/train/shard/ensemble_training.h"
#include "src/train/shard/fusion.h"
#include "src/train/shard/retry.h"

enum { ROWS = 150, EPOCHS = 6, EACH = 3, BAD = 1, MOST_CALLS = 200 };

static const tt_resources use = {.threads = 1, .simd = TT_SIMD_generic};

static way plain(void) { return (way){.name = "cpu", .ops = &tt_engine_cpu, .use = use}; }

/* Two ensembles of three members, with one target each. */
static problem make(tt_output output)
{
  const int64_t hidden[] = {5};
  problem p = problem_make(ROWS, 3, 2, 2, EACH, hidden, 1, TT_ACT_tanh, output);
  p.c.retry_lr_scale = 1e-6f;
  p.c.retry_reseed = 1;
  return p;
}

static tt_shard shard_start(problem *p, tt_slice slice)
{
  tt_shard w = {.cohort = &p->c, .ops = &tt_engine_cpu, .use = &use, .data = p->d, .slice = slice};
  TT_CHECK_OK(tt_state_create(slice, tt_cohort_state_shape(&p->c), &w.state));
  if (slice.count == 0) return w;
  TT_CHECK_OK(w.ops->create(&p->c, slice, &use, &w.engine));
  TT_CHECK_OK(w.ops->set_data(w.engine, p->d, NULL));
  TT_CHECK_OK(w.ops->init(w.engine));
  return w;
}

static void shard_stop(tt_shard *w)
{
  w->ops->destroy(&w->engine);
  tt_state_destroy(&w->state);
}

/* Killed and started again from the saved state. */
static void shard_restart(problem *p, tt_shard *w)
{
  TT_CHECK_OK(tt_shard_save_local(w));
  tt_shard again = shard_start(p, w->slice);
  tt_state *fresh = again.state;
  again.state = w->state;
  w->state = fresh;
  TT_CHECK_OK(tt_shard_load_local(&again));
  again.local_progress = w->local_progress;
  shard_stop(w);
  *w = again;
}

static tt_slice my_slice(const problem *p)
{
  tt_slice s;
  TT_CHECK_OK(tt_partition_even(p->c.members, tt_comm_ranks(comm), tt_comm_rank(comm), &s));
  return s;
}

static int64_t still_training(const tt_shard *w)
{
  int64_t n = w->local_progress.training;
  tt_allreduce_sum_i64(comm, &n, 1);
  return n;
}

/* retries */

static void poison(problem *p)
{
  p->c.optimizer = TT_OPT_sgd;
  p->c.member[BAD].hyper.learning_rate = 1e4f; /* diverges; 1e-6 of it does not */
}

static void finish_apart(problem *p, tt_shard *w, int64_t steps, int restart)
{
  int calls = 0;
  do {
    TT_CHECK_OK(tt_shard_train_local(w, steps));
    TT_CHECK_OK(tt_retry_diverged_local(w));
    if (restart) shard_restart(p, w);
  } while (w->local_progress.training > 0 && ++calls < MOST_CALLS);
  TT_CHECK(calls, <, MOST_CALLS);
  TT_CHECK_OK(tt_shard_save_local(w));
}

/* All members, with member BAD in its first retry from the start. */
static tt_state *with_first_retry(problem *p)
{
  problem_start(p, plain(), everyone(p));
  tt_state *s = problem_state(p, everyone(p));
  TT_FIELD(s, attempt)[BAD] = 1;
  TT_FIELD(s, lr_factor)[BAD] = p->c.retry_lr_scale;
  tt_member_init_weights(&p->c, &p->c.member[BAD], 1, TT_FIELD(s, weights) + BAD * s->params);
  TT_CHECK_OK(p->by.ops->load(p->engine, everyone(p), s));
  tt_state_destroy(&s);
  problem_finish(p, 3);
  s = problem_state(p, everyone(p));
  problem_stop(p);
  return s;
}

/* The retried member equals one that starts with the retry, and the others do not change; for any
 * lengths of calls and any number of kills. */
TT_TEST (a_retry_is_a_new_start) {
  for (int reseed = 0; reseed < 2; reseed++) {
    problem p = make(TT_OUTPUT_mean);
    p.c.retries = 2;
    p.c.retry_reseed = reseed;
    poison(&p);
    tt_state *wanted = with_first_retry(&p);
    TT_CHECK(TT_FIELD(wanted, status)[BAD], ==, TT_STATUS_finished);
    const int64_t steps[] = {1, 7, 1000};
    for (int i = 0; i < 6; i++) {
      tt_shard w = shard_start(&p, my_slice(&p));
      if (w.engine) finish_apart(&p, &w, steps[i % 3], i / 3);
      for (int64_t m = w.slice.first; m < w.slice.first + w.slice.count; m++)
        same_member(wanted, w.state, m, "retried");
      TT_CHECK(w.local_progress.diverged, ==, 0);
      shard_stop(&w);
    }
    tt_state_destroy(&wanted);
    problem_free(&p);
  }
}

TT_TEST (a_member_without_retries_left_is_diverged) {
  for (int retries = 0; retries < 3; retries++) {
    problem p = make(TT_OUTPUT_mean);
    p.c.retries = retries;
    p.c.retry_lr_scale = 1.0f;
    poison(&p);
    tt_shard w = shard_start(&p, everyone(&p));
    finish_apart(&p, &w, 5, 1);
    TT_CHECK(w.local_progress.diverged, ==, 1);
    TT_CHECK(TT_FIELD(w.state, attempt)[BAD], ==, retries);
    TT_CHECK(TT_FIELD(w.state, status)[BAD], ==, TT_STATUS_diverged);
    shard_stop(&w);
    problem_free(&p);
  }
}

/* stop: ensemble */

/* Validation loss of the mixture of members [first, first + count) of a state, by the textbook
 * formula. */
static double book_loss(const problem *p, const tt_ensemble *e, const tt_state *s)
{
  const tt_model *m = &p->c.model;
  double sum = 0.0;
  int64_t rows = 0;
  tt_ensemble one = *e;
  one.first = 0;
  tt_trained_ensemble some = {.model = *m,
                              .variance_floor = p->c.variance_floor,
                              .ensembles = 1,
                              .ensemble = &one,
                              .members = e->members,
                              .w = TT_FIELD(s, weights) + e->first * m->params};
  double weight[EACH] = {1.0, 1.0, 1.0};
  float said[EACH * 2];
  some.weight = weight;
  for (int64_t r = 0; r < p->d->rows; r++) {
    double mean = 0.0, square = 0.0, within = 0.0;
    if (p->d->split[r] != TT_VALIDATION) continue;
    TT_CHECK_OK(tt_engine_cpu.predict(&some, &use, 1, p->d->x + r * p->d->inputs, NULL, said));
    for (int i = 0; i < EACH; i++) {
      mean += (double)said[2 * i] / EACH;
      square += (double)said[2 * i] * (double)said[2 * i] / EACH;
      within += (double)said[2 * i + 1] / EACH;
    }
    double off = mean - (double)p->d->y[r * p->d->targets + e->column[0]];
    double v = within + square - mean * mean;
    sum += p->c.loss == TT_LOSS_mse ? off * off : 0.5 * (log(v) + off * off / v);
    rows++;
  }
  return sum / (double)rows;
}

/* Best epoch and early stopping of one ensemble, epoch by epoch. Fills the expected history. */
static void book_stop(const problem *p, const tt_ensemble *e, double *loss, int *best, int *last)
{
  problem alone = *p;
  problem_start(&alone, plain(), everyone(p));
  double lowest = INFINITY;
  *best = -1;
  for (*last = 0; *last < EPOCHS; ++*last) {
    tt_progress progress;
    TT_CHECK_OK(alone.by.ops->train(alone.engine, INT64_MAX, &progress));
    tt_state *s = problem_state(&alone, everyone(p));
    loss[*last] = book_loss(p, e, s);
    tt_state_destroy(&s);
    if (loss[*last] < lowest) *best = *last;
    if (loss[*last] < lowest) lowest = loss[*last];
    int patience = p->c.member[e->first].hyper.patience;
    if (patience > 0 && *last - *best >= patience) break;
  }
  if (*last == EPOCHS) --*last;
  problem_stop(&alone);
}

static void finish_together(problem *p, tt_shard *w, int restart)
{
  int calls = 0;
  do {
    TT_CHECK_OK(tt_ensemble_train_epoch(comm, w, 1));
    if (restart) shard_restart(p, w);
  } while (still_training(w) > 0 && ++calls < MOST_CALLS);
  TT_CHECK(calls, <, MOST_CALLS);
  TT_CHECK_OK(tt_shard_save_local(w));
}

static problem make_together(tt_output output)
{
  problem p = make(output);
  p.c.stop = TT_EARLY_STOPPING_ensemble;
  for (int64_t i = 0; i < p.c.members; i++) {
    p.c.member[i].hyper.learning_rate = i < EACH ? 0.08f : 0.02f; /* ensemble 0 overfits */
    p.c.member[i].hyper.patience = i < EACH ? 1 : 0;
  }
  return p;
}

TT_TEST (an_ensemble_stops_all_its_members) {
  const tt_output outputs[] = {TT_OUTPUT_mean, TT_OUTPUT_mean_variance};
  for (int o = 0; o < 2; o++) {
    problem p = make_together(outputs[o]);
    tt_shard w = shard_start(&p, my_slice(&p));
    finish_together(&p, &w, o);
    const tt_state *s = w.state;
    for (int64_t n = 0; n < p.c.ensembles; n++) {
      const tt_ensemble *e = &p.c.ensemble[n];
      double loss[EPOCHS];
      int best, last;
      book_stop(&p, e, loss, &best, &last);
      for (int64_t m = e->first; m < e->first + e->members; m++) {
        int64_t i = m - w.slice.first;
        if (i < 0 || i >= w.slice.count) continue;
        TT_CHECK(TT_FIELD(s, best_epoch)[i], ==, best);
        TT_CHECK(TT_FIELD(s, epoch)[i], ==, last + 1);
        TT_CHECK(fabs(TT_FIELD(s, best_loss)[i] - loss[best]), <, 1e-5);
        for (int k = 0; k <= last; k++)
          TT_CHECK(fabs((double)TT_FIELD(s, loss_ensemble)[i * EPOCHS + k] - loss[k]), <, 1e-5);
        int early = last < EPOCHS - 1 || (last - best >= 1 && n == 0);
        TT_CHECK(TT_FIELD(s, status)[i], ==, early ? TT_STATUS_early_stopped : TT_STATUS_finished);
      }
    }
    shard_stop(&w);
    problem_free(&p);
  }
}

/* fusion */

static problem make_fusion(tt_output output, tt_loss loss, int weighted)
{
  problem p = make(output);
  p.c.loss = loss;
  p.c.method = TT_METHOD_fusion;
  p.c.stop = TT_EARLY_STOPPING_ensemble;
  p.c.batch_size = 32; /* 90 rows: the last batch has 26 */
  if (weighted) TT_CHECK_OK(TT_ALLOC(p.d->weight, ROWS));
  for (int r = 0; weighted && r < ROWS; r++) p.d->weight[r] = r % 3 ? 0.7f : 1.6f;
  for (int64_t i = 0; i < p.c.members; i++) p.c.member[i].hyper.batch_order = TT_BATCH_ORDER_shared;
  return p;
}

/* The gradient is that of the loss of the mean, by finite differences of its own value. */
TT_TEST (the_gradient_of_fusion_is_that_of_the_mean) {
  for (int two = 0; two < 2; two++) {
    problem p = make_fusion(two ? TT_OUTPUT_mean_variance : TT_OUTPUT_mean,
                            two ? TT_LOSS_gaussian_nll : TT_LOSS_mse, two);
    p.c.nll_beta = 0.0f; /* otherwise the gradient of gaussian_nll is not that of its value */
    int64_t outputs = p.c.model.outputs, batch = p.c.batch_size, each = batch * outputs;
    float output[EACH * 64], delta[64], mean[2];
    int32_t row[32];
    int8_t finite[EACH];
    for (int r = 0; r < 32; r++) row[r] = r < 20 ? 3 * r : -1;
    for (int i = 0; i < EACH * each; i++)
      output[i] = tt_uniform(tt_random(8, 8, TT_PURPOSE_INIT, 0, (uint32_t)i).v[0]) - 0.5f;
    tt_fusion_batch f = {EACH, output, row, delta, mean, finite, 0.0};
    tt_fusion_loss_local(&p.c, p.d, &p.c.ensemble[1], &f);
    for (int64_t i = 0; i < 20 * outputs; i += 3) {
      float wanted = delta[i], kept = output[each + i], there[64];
      double sides[2];
      for (int side = 0; side < 2; side++) {
        tt_fusion_batch g = f;
        g.delta = there;
        output[each + i] = kept + (side ? 0.05f : -0.05f);
        tt_fusion_loss_local(&p.c, p.d, &p.c.ensemble[1], &g);
        sides[side] = g.loss / 20.0;
      }
      output[each + i] = kept;
      TT_CHECK(fabs((sides[1] - sides[0]) / 0.1 - (double)wanted), <, 2e-4);
    }
    for (int64_t i = 20 * outputs; i < each; i++) TT_CHECK(delta[i], ==, 0.0f);
    problem_free(&p);
  }
}

/* A member whose outputs are not finite is left out of the mean. */
TT_TEST (fusion_leaves_out_members_that_diverge) {
  problem p = make_fusion(TT_OUTPUT_mean, TT_LOSS_mse, 0);
  float output[EACH * 32] = {0}, two[2 * 32], delta[32], other[32], mean[1];
  int32_t row[32];
  int8_t finite[EACH];
  for (int r = 0; r < 32; r++) row[r] = r;
  for (int i = 0; i < 32; i++) {
    two[i] = output[i] = 0.01f * (float)i;
    two[32 + i] = output[64 + i] = 0.5f;
  }
  output[32 + 7] = INFINITY;
  tt_fusion_batch f = {EACH, output, row, delta, mean, finite, 0.0};
  tt_fusion_batch g = {2, two, row, other, mean, finite, 0.0};
  tt_fusion_loss_local(&p.c, p.d, &p.c.ensemble[0], &f);
  TT_CHECK(finite[0] + 10 * finite[1] + 100 * finite[2], ==, 101);
  tt_fusion_loss_local(&p.c, p.d, &p.c.ensemble[0], &g);
  TT_CHECK(f.loss, ==, g.loss);
  for (int i = 0; i < 32; i++) TT_CHECK(delta[i], ==, other[i]);
  problem_free(&p);
}

/* Fusion of all members in one engine, step by step, without ranks. */
static tt_state *fuse_by_the_book(problem *p)
{
  int64_t each = p->c.batch_size * p->c.model.outputs;
  float output[2 * EACH * 64], delta[2 * EACH * 64], gradient[64], mean[2];
  int32_t row[2 * EACH * 32];
  int8_t finite[EACH];
  double loss[2 * EACH];
  tt_progress progress;
  problem_start(p, plain(), everyone(p));
  do {
    TT_CHECK_OK(p->by.ops->forward(p->engine, output, row));
    for (int64_t e = 0; e < 2; e++) {
      tt_fusion_batch f = {EACH, output + e * EACH * each, row, gradient, mean, finite, 0.0};
      f.row = row + e * EACH * p->c.batch_size;
      tt_fusion_loss_local(&p->c, p->d, &p->c.ensemble[e], &f);
      for (int64_t m = e * EACH; m < (e + 1) * EACH; m++) {
        memcpy(delta + m * each, gradient, (size_t)each * sizeof *delta);
        loss[m] = f.loss;
      }
    }
    TT_CHECK_OK(p->by.ops->apply(p->engine, delta, loss));
    TT_CHECK_OK(p->by.ops->train(p->engine, 0, &progress));
  } while (progress.training > 0);
  tt_state *s = problem_state(p, everyone(p));
  problem_stop(p);
  return s;
}

TT_TEST (fusion_has_the_same_bits_on_any_ranks_through_restarts) {
  for (int n = 0; n < 3; n++) {
    problem p = make_fusion(n == 1 ? TT_OUTPUT_mean_variance : TT_OUTPUT_mean,
                            n == 1 ? TT_LOSS_gaussian_nll : TT_LOSS_mse, n == 2);
    tt_state *wanted = fuse_by_the_book(&p);
    tt_shard w = shard_start(&p, my_slice(&p));
    int calls = 0;
    do {
      TT_CHECK_OK(tt_fusion_train(comm, &w, n == 0 ? 1000 : 2));
      if (n) shard_restart(&p, &w);
    } while (still_training(&w) > 0 && ++calls < MOST_CALLS);
    TT_CHECK(calls, <, MOST_CALLS);
    TT_CHECK_OK(tt_shard_save_local(&w));
    for (int64_t i = 0; i < w.slice.count; i++) {
      int64_t m = w.slice.first + i, params = p.c.model.params;
      TT_CHECK(memcmp(TT_FIELD(w.state, weights) + i * params,
                      TT_FIELD(wanted, weights) + m * params, (size_t)params * 4),
               ==, 0);
      TT_CHECK(memcmp(TT_FIELD(w.state, loss_train) + i * EPOCHS,
                      TT_FIELD(wanted, loss_train) + m * EPOCHS, EPOCHS * 4),
               ==, 0);
      TT_CHECK(TT_FIELD(w.state, best_epoch)[i], >=, 0);
    }
    shard_stop(&w);
    tt_state_destroy(&wanted);
    problem_free(&p);
  }
}

/* Loss of the mean logits, or of the means of mean and raw variance, on the validation rows at the
 * present weights; the outputs of a member follow from what it predicts. */
static double fused_book_loss(const problem *p, const tt_ensemble *e, const tt_state *s)
{
  int sigmoid = p->c.loss == TT_LOSS_bce;
  double weight[EACH] = {1.0, 1.0, 1.0}, sum = 0.0, rows = 0.0;
  float said[EACH * 2];
  tt_ensemble one = *e;
  one.first = 0;
  tt_trained_ensemble some = {.model = p->c.model,
                              .variance_floor = p->c.variance_floor,
                              .ensembles = 1,
                              .ensemble = &one,
                              .members = EACH,
                              .weight = weight,
                              .w = TT_FIELD(s, weights) + e->first * p->c.model.params};
  for (int64_t r = 0; r < p->d->rows; r++) {
    double o0 = 0.0, o1 = 0.0, y = (double)p->d->y[r * p->d->targets + e->column[0]];
    if (p->d->split[r] != TT_VALIDATION) continue;
    TT_CHECK_OK(tt_engine_cpu.predict(&some, &use, 1, p->d->x + r * p->d->inputs, NULL, said));
    for (int i = 0; i < EACH; i++) {
      double mean = (double)said[2 * i], v = (double)(said[2 * i + 1] - p->c.variance_floor);
      o0 += (sigmoid ? log(mean / (1.0 - mean)) : mean) / EACH;
      o1 += sigmoid ? 0.0 : log(expm1(v)) / EACH;
    }
    double v = log1p(exp(o1)) + (double)p->c.variance_floor;
    sum += sigmoid ? log1p(exp(o0)) - y * o0 : 0.5 * (log(v) + (o0 - y) * (o0 - y) / v);
    rows += 1.0;
  }
  return sum / rows;
}

TT_TEST (fusion_validates_what_it_trains) {
  for (int n = 0; n < 2; n++) {
    problem p = make_fusion(n ? TT_OUTPUT_mean_variance : TT_OUTPUT_sigmoid,
                            n ? TT_LOSS_gaussian_nll : TT_LOSS_bce, 0);
    for (int64_t i = 0; i < p.c.members; i++) p.c.member[i].hyper.learning_rate = 0.2f;
    tt_state *last = fuse_by_the_book(&p);
    tt_shard w = shard_start(&p, my_slice(&p));
    TT_CHECK_OK(tt_fusion_train(comm, &w, 1000));
    TT_CHECK_OK(tt_shard_save_local(&w));
    for (int64_t i = 0; i < w.slice.count; i++) {
      const tt_ensemble *e = &p.c.ensemble[p.c.member[w.slice.first + i].ensemble];
      double got = (double)TT_FIELD(w.state, loss_ensemble)[i * EPOCHS + EPOCHS - 1];
      TT_CHECK(fabs(got - fused_book_loss(&p, e, last)), <, 1e-5);
    }
    shard_stop(&w);
    tt_state_destroy(&last);
    problem_free(&p);
  }
}

TT_SUITE(errors_only, NULL)
