/* test_member_weights.c — laws of combining members: with every rule, one member reproduces itself,
 * members that diverged have weight 0, and each rule gives the result of its source on problems
 * with a known solution. */
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "core/stats/member_weights.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

enum { MOST = 8, CELLS = 60 };

typedef struct capacity {
  tt_model model;
  tt_member_predictions s;
  float part[CELLS * MOST * 4];
  double y[CELLS];
  int8_t alive[MOST];
  double share[MOST], best;
} capacity;

static void start(capacity *r, tt_loss loss, int64_t members)
{
  static const double level[] = {0.1, 0.5, 0.9};
  tt_model_shape shape = {
      .inputs = 1, .targets = 1, .output = tt_loss_output_head(loss), .levels = 3, .level = level};
  memset(r, 0, sizeof *r);
  TT_CHECK_OK(tt_model_lay_out(&shape, &r->model));
  r->s = (tt_member_predictions){.model = &r->model,
                                 .loss = loss,
                                 .args = {1e-6f, 1.0f, 1.0f, 0.5f},
                                 .members = members,
                                 .cells = CELLS,
                                 .stride = MOST,
                                 .part = r->part,
                                 .y = r->y,
                                 .alive = r->alive};
  memset(r->alive, 1, sizeof r->alive);
}

static void say(capacity *r, int64_t cell, int64_t member, const float *mean, const float *variance)
{
  int32_t n = tt_member_prediction_size(&r->model);
  tt_member_prediction_pack(&r->model, mean, variance, 1, r->y[cell],
                            r->part + (cell * MOST + member) * n);
}

/* Cells with label noise; member i is off by offset[i]. */
static void numbers(capacity *r, const double *offset)
{
  for (uint32_t c = 0; c < CELLS; c++) {
    tt_random4 u = tt_random(1, 2, TT_PURPOSE_INIT, 0, c);
    r->y[c] = 4.0 * (double)tt_uniform(u.v[0]);
    for (int64_t i = 0; i < r->s.members; i++) {
      float mean[4], variance[4] = {0.5f, 0, 0, 0};
      for (int j = 0; j < 4; j++) mean[j] = (float)(r->y[c] + offset[i]);
      if (r->model.output == TT_OUTPUT_softmax) {
        r->y[c] = (double)(c % 3);
        for (int j = 0; j < 3; j++) mean[j] = j == (int)(c % 3) ? 0.9f - (float)offset[i] : 0.05f;
      }
      if (r->model.output == TT_OUTPUT_sigmoid) {
        r->y[c] = (double)(c % 2);
        mean[0] = c % 2 ? 0.9f - (float)offset[i] : 0.1f;
      }
      if (r->model.output == TT_OUTPUT_rate) mean[0] = 4.0f + mean[0];
      say(r, c, i, mean, variance);
    }
  }
}

static tt_combine_options rule_of(tt_combine method)
{
  return (tt_combine_options){.method = method, .k = 2, .rounds = 20, .temperature = 0.1};
}

static void combine(capacity *r, tt_combine_options rule)
{
  TT_CHECK_OK(tt_member_weights_compute(&rule, &r->s, r->share, &r->best));
}

TT_TEST (one_member_reproduces_itself) {
  const double offset[] = {0.25};
  for (int loss = 0; loss < TT_LOSS_COUNT; loss++)
    for (int method = 0; method < TT_COMBINE_COUNT; method++) {
      capacity r, alone;
      start(&r, (tt_loss)loss, 1);
      numbers(&r, offset);
      combine(&r, rule_of((tt_combine)method));
      start(&alone, (tt_loss)loss, 1);
      numbers(&alone, offset);
      combine(&alone, rule_of(TT_COMBINE_mean));
      TT_CHECK(r.share[0], >, 0.0);
      TT_CHECK(fabs(r.best - alone.best), <=, 1e-12 * (1.0 + fabs(r.best)));
    }
}

/* Members with equal predictions have equal weights; top_k and greedy use the first. */
TT_TEST (equal_members_have_equal_weights) {
  const double offset[] = {0.25, 0.25, 0.25, 0.25};
  for (int loss = 0; loss < TT_LOSS_COUNT; loss++) {
    capacity r;
    start(&r, (tt_loss)loss, 4);
    numbers(&r, offset);
    combine(&r, rule_of(TT_COMBINE_weights));
    for (int i = 0; i < 4; i++) TT_CHECK(r.share[i], ==, 1.0);
    combine(&r, rule_of(TT_COMBINE_top_k));
    TT_CHECK(r.share[0] + r.share[1], ==, 2.0);
    TT_CHECK(r.share[2] + r.share[3], ==, 0.0);
  }
}

TT_TEST (the_better_member_counts_more) {
  const double offset[] = {0.4, 0.1, 0.3};
  for (int loss = 0; loss < TT_LOSS_COUNT; loss++) {
    capacity r;
    if (loss == TT_LOSS_poisson) continue; /* the loss of a count is lowest at the rate itself */
    start(&r, (tt_loss)loss, 3);
    numbers(&r, offset);
    combine(&r, rule_of(TT_COMBINE_weights));
    TT_CHECK(r.share[1], ==, 1.0);
    TT_CHECK(r.share[2], <, r.share[1]);
    TT_CHECK(r.share[0], <, r.share[2]);
    combine(&r, rule_of(TT_COMBINE_top_k));
    TT_CHECK(r.share[0], ==, 0.0);
    TT_CHECK(r.share[1] + r.share[2], ==, 2.0);
  }
}

TT_TEST (a_member_that_diverged_has_weight_zero) {
  const double offset[] = {0.4, 0.1, 0.3};
  for (int method = 0; method < TT_COMBINE_COUNT; method++) {
    capacity r;
    start(&r, TT_LOSS_gaussian_nll, 3);
    numbers(&r, offset);
    for (int c = 0; c < CELLS; c++) r.part[(c * MOST + 1) * 2] = NAN;
    r.alive[1] = 0;
    combine(&r, rule_of((tt_combine)method));
    TT_CHECK(r.share[1], ==, 0.0);
    TT_CHECK(r.share[0] + r.share[2], >, 0.0);
    TT_CHECK(isfinite(r.best), !=, 0);
  }
}

/* Offsets 1 and -2 with weights 2 to 1 cancel; the third member makes the ensemble worse. */
TT_TEST (greedy_finds_the_set_that_cancels) {
  const double offset[] = {1.0, -2.0, 5.0};
  capacity r;
  start(&r, TT_LOSS_mse, 3);
  numbers(&r, offset);
  combine(&r, rule_of(TT_COMBINE_greedy));
  TT_CHECK(r.share[0], ==, 2.0 * r.share[1]);
  TT_CHECK(r.share[2], ==, 0.0);
  TT_CHECK(r.best, <=, 1e-12);
}

/* The set is never worse than its best member, which greedy selects first. */
TT_TEST (greedy_is_no_worse_than_the_best_member) {
  for (int loss = 0; loss < TT_LOSS_COUNT; loss++) {
    const double offset[] = {0.4, 0.1, -0.3, 0.05};
    capacity r;
    start(&r, (tt_loss)loss, 4);
    numbers(&r, offset);
    combine(&r, rule_of(TT_COMBINE_greedy));
    double greedy = r.best;
    tt_combine_options one = rule_of(TT_COMBINE_top_k);
    one.k = 1;
    combine(&r, one);
    TT_CHECK(greedy, <=, r.best + 1e-12);
  }
}

/* A unit of several members has the weight that one member with their mean would have. */
TT_TEST (units_are_weighted_as_the_mean_of_their_members) {
  static const int64_t unit[] = {0, 3, 5, 6};
  static const double offset[] = {0.5, -0.25, 0.5, -0.1, 0.3, 0.2}, mean[] = {0.125, 0.1, 0.2};
  for (int method = 0; method < TT_COMBINE_COUNT; method++) {
    capacity r, few;
    start(&r, TT_LOSS_mse, 6);
    numbers(&r, offset);
    r.s.units = 3;
    r.s.unit = unit;
    r.alive[2] = 0; /* of the others of unit 0 the mean is 0.125 */
    combine(&r, rule_of((tt_combine)method));
    start(&few, TT_LOSS_mse, 3);
    numbers(&few, mean);
    combine(&few, rule_of((tt_combine)method));
    TT_CHECK(r.share[2], ==, 0.0);
    TT_CHECK(fabs(r.best - few.best), <=, 1e-6);
    for (int u = 0; u < 3; u++) {
      double all = 0.0;
      for (int64_t i = unit[u]; i < unit[u + 1]; i++) all += r.share[i];
      TT_CHECK(fabs(all - few.share[u]), <=, 1e-5);
      TT_CHECK(r.share[unit[u]], ==, r.share[unit[u + 1] - (u == 0 ? 2 : 1)]);
    }
  }
}

TT_TEST (rows_without_labels_or_weight_do_not_count) {
  const double offset[] = {0.4, 0.1, 0.3};
  float weight[CELLS];
  for (int method = 0; method < TT_COMBINE_COUNT; method++) {
    capacity r, few;
    start(&r, TT_LOSS_gaussian_nll, 3);
    numbers(&r, offset);
    start(&few, TT_LOSS_gaussian_nll, 3);
    numbers(&few, offset);
    for (int c = 0; c < CELLS; c++) {
      weight[c] = c % 3 ? 2.0f : 0.0f;
      if (c % 3 == 0) few.y[c] = NAN;
    }
    r.s.weight = weight;
    combine(&r, rule_of((tt_combine)method));
    combine(&few, rule_of((tt_combine)method));
    for (int i = 0; i < 3; i++) TT_CHECK(fabs(r.share[i] - few.share[i]), <=, 1e-12);
    TT_CHECK(fabs(r.best - few.best), <=, 1e-12);
    for (int c = 0; c < CELLS; c++) few.y[c] = NAN;
    combine(&few, rule_of((tt_combine)method));
    for (int i = 0; i < 3; i++) TT_CHECK(few.share[i], ==, 1.0);
  }
}
