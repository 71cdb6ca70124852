/* test_ensemble_loss.c — laws of the loss of the mean prediction of an ensemble, for every row of
 * the table. */
#include "tests/support/check.h"

#include "core/base/rng.h"
#include "core/stats/ensemble_loss.h"

#include <math.h>

enum { LEVELS = 4, MOST = LEVELS + 1, DRAWS = 50, MEMBERS = 3 };

static tt_loss_args args(void)
{
  return (tt_loss_args){
      .variance_floor = 1e-4f, .inverse_targets = 1.0f, .huber_delta = 0.7f, .nll_beta = 0.5f};
}

static tt_model model_of(tt_loss loss)
{
  const double level[LEVELS] = {0.1, 0.3, 0.6, 0.9};
  tt_model m;
  tt_output output = tt_loss_output_head(loss);
  int wide = output == TT_OUTPUT_quantiles || output == TT_OUTPUT_softmax;
  tt_model_shape shape = {.inputs = 1,
                          .targets = 1,
                          .output = output,
                          .levels = wide ? LEVELS : 0,
                          .level = output == TT_OUTPUT_quantiles ? level : NULL};
  TT_CHECK_OK(tt_model_lay_out(&shape, &m));
  return m;
}

/* Raw outputs of the last layer; ascending, as quantiles that do not cross are. */
static void draw_outputs(int draw, int member, float o[LEVELS])
{
  tt_random4 r = tt_random(3, (uint64_t)member, TT_PURPOSE_INIT, 1, (uint32_t)draw);
  float level = -1.5f;
  for (int j = 0; j < LEVELS; j++) o[j] = level += 1.2f * tt_uniform(r.v[j]);
}

static float draw_label(tt_loss loss, int draw)
{
  float u = tt_uniform(tt_random(4, 0, TT_PURPOSE_INIT, 2, (uint32_t)draw).v[0]);
  if (loss == TT_LOSS_cross_entropy) return floorf(u * (float)LEVELS);
  if (loss == TT_LOSS_bce) return draw % 2 ? u : floorf(2.0f * u);
  if (tt_output_labels(tt_loss_output_head(loss)) == TT_LABEL_TYPE_count) return floorf(4.0f * u);
  return 4.0f * u - 2.0f;
}

/* Means, then variances, that one member predicts. */
static void predict(const tt_model *m, int draw, int member, float prediction[2 * MOST])
{
  float o[LEVELS];
  draw_outputs(draw, member, o);
  tt_output_predict(m->output, m->levels, args().variance_floor, o, 1, prediction,
                    prediction + MOST, 1);
}

/* Mean, and mean of the variances plus variance of the means, of members of equal weight. The mean of
 * quantity j of member i is output[i * each + j], its variance stands `variances` behind it.
 *   included  [members] 0: the member is left out */
static void mix(int members, const int8_t *included, int quantities, int each, int variances,
                const float *output, double *mean, double *variance)
{
  for (int j = 0; j < quantities; j++) {
    double n = 0.0, squares = 0.0;
    mean[j] = variance[j] = 0.0;
    for (int i = 0; i < members; i++) n += included[i];
    for (int i = 0; i < members; i++)
      if (included[i]) mean[j] += (double)output[i * each + j] / n;
    for (int i = 0; i < members; i++) {
      double off = (double)output[i * each + j] - mean[j];
      if (included[i]) squares += off * off + (double)output[i * each + j + variances];
    }
    variance[j] = squares / n;
  }
}

static double loss_of(tt_loss loss, const tt_model *m, int members, const int8_t *included,
                      int draw)
{
  float output[MEMBERS][2 * MOST];
  double mean[MOST], variance[MOST];
  for (int i = 0; i < members; i++) predict(m, draw, i, output[i]);
  mix(members, included, (int)m->quantities, 2 * MOST, MOST, output[0], mean, variance);
  return tt_ensemble_loss(m, loss, args(), mean, variance, (double)draw_label(loss, draw));
}

TT_TEST (one_member_has_its_own_loss) {
  const int8_t included[] = {1};
  for (int l = 0; l < TT_LOSS_COUNT; l++) {
    tt_loss loss = (tt_loss)l;
    tt_model m = model_of(loss);
    for (int draw = 0; draw < DRAWS; draw++) {
      float o[LEVELS];
      draw_outputs(draw, 0, o);
      tt_loss_sample w = {
          .n = m.each, .level = m.level, .o = o, .step = 1, .y = draw_label(loss, draw)};
      double alone = (double)tt_loss_target(loss, &w, args());
      double got = loss_of(loss, &m, 1, included, draw);
      if (fabs(got - alone) > 1e-5 * (1.0 + fabs(alone))) {
        fprintf(stderr, "loss %d, draw %d: %.9g against %.9g\n", l, draw, got, alone);
        fail();
      }
    }
  }
}

/* Also a label that no check has seen: it is never an index. */
TT_TEST (a_label_that_names_no_class_has_no_loss) {
  const float label[] = {-1.0f, (float)LEVELS, 1e6f, -1e8f, 3e9f, -INFINITY, INFINITY};
  tt_model m = model_of(TT_LOSS_cross_entropy);
  const double mean[MOST] = {0.25, 0.25, 0.25, 0.25};
  for (size_t i = 0; i < sizeof label / sizeof *label; i++) {
    float o[LEVELS], d[LEVELS];
    draw_outputs(0, 0, o);
    tt_loss_sample w = {.n = LEVELS, .o = o, .d = d, .step = 1, .y = label[i], .factor = 1.0f};
    TT_CHECK(isnan(tt_loss_target(TT_LOSS_cross_entropy, &w, args())), !=, 0);
    double loss = tt_ensemble_loss(&m, TT_LOSS_cross_entropy, args(), mean, mean, (double)label[i]);
    TT_CHECK(isnan(loss), !=, 0);
  }
}

/* With four targets every loss, its gradient and the loss of the ensemble are a quarter of those
 * with one: the loss is the mean over targets. */
TT_TEST (every_loss_is_the_mean_over_targets) {
  for (int l = 0; l < TT_LOSS_COUNT; l++) {
    tt_loss loss = (tt_loss)l;
    tt_model one = model_of(loss), four = one;
    tt_loss_args a = args(), b = args();
    b.inverse_targets = 0.25f;
    four.targets = 4;
    for (int draw = 0; draw < DRAWS; draw++) {
      float o[LEVELS], d[2][LEVELS] = {{0}}, predicted[2 * MOST] = {0}, y = draw_label(loss, draw);
      double mean[MOST], variance[MOST];
      draw_outputs(draw, 0, o);
      tt_loss_sample w = {.n = one.each, .level = one.level, .o = o, .step = 1, .y = y};
      w.factor = 1.0f;
      w.d = d[0];
      float alone = tt_loss_target(loss, &w, a);
      w.d = d[1];
      TT_CHECK(alone, ==, 4.0f * tt_loss_target(loss, &w, b));
      for (int j = 0; j < one.each; j++) TT_CHECK(d[0][j], ==, 4.0f * d[1][j]);
      predict(&one, draw, 0, predicted);
      for (int j = 0; j < MOST; j++) mean[j] = (double)predicted[j];
      for (int j = 0; j < MOST; j++) variance[j] = (double)predicted[MOST + j];
      TT_CHECK(tt_ensemble_loss(&one, loss, a, mean, variance, (double)y), ==,
               4.0 * tt_ensemble_loss(&four, loss, b, mean, variance, (double)y));
    }
  }
}

/* A member with weight 0 changes nothing, and neither does a duplicate of a member. */
TT_TEST (only_members_that_count_are_mixed) {
  const int8_t all[] = {1, 1, 1}, first[] = {1, 0, 0}, one[] = {1};
  for (int l = 0; l < TT_LOSS_COUNT; l++) {
    tt_model m = model_of((tt_loss)l);
    for (int draw = 0; draw < DRAWS; draw++) {
      double alone = loss_of((tt_loss)l, &m, 1, one, draw);
      TT_CHECK(loss_of((tt_loss)l, &m, MEMBERS, first, draw), ==, alone);
      TT_CHECK(isfinite(loss_of((tt_loss)l, &m, MEMBERS, all, draw)), !=, 0);
    }
  }
}

/* The losses that are convex in what is averaged: the mixture is no worse than its members are on
 * average (Krogh & Vedelsby 1995). */
TT_TEST (the_mixture_is_no_worse_than_its_members) {
  const tt_loss convex[] = {TT_LOSS_mse, TT_LOSS_mae,           TT_LOSS_huber,  TT_LOSS_quantile,
                            TT_LOSS_bce, TT_LOSS_cross_entropy, TT_LOSS_poisson};
  const int8_t all[] = {1, 1, 1};
  for (size_t l = 0; l < sizeof convex / sizeof *convex; l++) {
    tt_model m = model_of(convex[l]);
    for (int draw = 0; draw < DRAWS; draw++) {
      double mean = 0.0;
      for (int i = 0; i < MEMBERS; i++) {
        const int8_t only[] = {i == 0, i == 1, i == 2};
        mean += loss_of(convex[l], &m, MEMBERS, only, draw) / MEMBERS;
      }
      TT_CHECK(loss_of(convex[l], &m, MEMBERS, all, draw), <=, mean + 1e-12);
    }
  }
}

/* Two members with logits a and b: the loss is that of the mean probability, also where
 * single precision rounds it to 0 or 1. Even a probability of 0 does not make it infinite. */
TT_TEST (probabilities_near_zero_and_one_keep_their_loss) {
  const float logit[][2] = {{40.0f, 40.0f}, {18.0f, 25.0f}, {30.0f, -2.0f}, {70.0f, 69.0f}};
  const int8_t both[] = {1, 1};
  tt_model m = model_of(TT_LOSS_bce);
  for (int i = 0; i < 4; i++)
    for (int y = 0; y < 2; y++) {
      float output[4];
      double mean, variance, wrong = 0.0;
      for (int k = 0; k < 2; k++) {
        float o = y ? -logit[i][k] : logit[i][k];
        wrong += 0.5 / (1.0 + exp((double)logit[i][k]));
        tt_predict_sigmoid(0, 0.0f, &o, 1, output + 2 * k, output + 2 * k + 1, 1);
      }
      mix(2, both, 1, 2, 1, output, &mean, &variance);
      double loss = tt_ensemble_loss(&m, TT_LOSS_bce, args(), &mean, &variance, (double)y);
      TT_CHECK(fabs(loss + log(wrong)), <=, 1e-5);
    }
  double mean = 0.0, variance = 0.0;
  TT_CHECK(tt_ensemble_loss(&m, TT_LOSS_bce, args(), &mean, &variance, 1.0), <, 88.0);
}
