/* test_pool_scorer.c — a law of stage score: every score of every output equals its plain formula
 * over the predictions of the members. */
#include "src/predict/normalization.h"
#include "tests/support/plain_scores.h"
#include "tests/support/scored.h"

#include <float.h>

typedef struct said {
  float *members[2]; /* [G][2][K q][rows] of each trained ensemble */
  int64_t rows;
} said;

/* Predictions of the members for target k of ensemble e in row r. */
static double plain_of(const tt_config *cfg, const tt_trained_ensemble *m, const float *members,
                       int64_t rows, int64_t e, int64_t k, int64_t r)
{
  double w[8], mean[8], variance[8], p[8 * LEVELS];
  const tt_ensemble *member_entropy = &m->ensemble[e];
  const int32_t t = member_entropy->column[k], q = m->model.quantities;
  const int sigmoid = m->model.output == TT_OUTPUT_sigmoid, scaled = cfg->score_scaled;
  const int64_t pick = m->model.output == TT_OUTPUT_quantiles ? 1 : 0, width = K * q;
  double scale = m->scaler.y_scale[t], offset = m->scaler.y_mean[t], unit = scaled ? scale : 1.0;
  int classes = sigmoid ? 2 : m->model.output == TT_OUTPUT_softmax ? LEVELS : 0;
  for (int64_t i = 0; i < member_entropy->members; i++) {
    const float *place = members + ((member_entropy->first + i) * 2 * width + k * q) * rows + r;
    w[i] = m->weight[member_entropy->first + i];
    mean[i] = ((double)place[pick * rows] * scale + (scaled ? 0.0 : offset)) / unit;
    variance[i] = (double)place[(width + pick) * rows] * scale * scale / unit / unit;
    for (int c = 0; c < classes; c++)
      p[i * classes + c] =
          sigmoid ? (c ? (double)place[0] : 1.0 - (double)place[0]) : (double)place[c * rows];
  }
  plain o = {.members = (int)member_entropy->members,
             .classes = classes,
             .w = w,
             .mean = mean,
             .variance = variance,
             .p = p,
             .target_zero = scaled ? -offset / scale : 0.0,
             .best = scaled ? (best[t] - offset) / scale : best[t],
             .floor = cfg->score_floor,
             .kappa = cfg->score_kappa,
             .minimize = cfg->score_goal == TT_GOAL_minimize};
  return plain_score(tt_choice_acquisition[cfg->score_acquisition], &o);
}

/* Reduced with the weights of `job`: 1 and 3 for the targets, 1 to 4 for the ensembles. */
static double plain_row(const tt_config *cfg, const tt_trained_ensembles *m, const said *s,
                        int64_t r, double member_entropy[E])
{
  static const int place[2][2] = {{3, 1}, {2, 0}};
  double all = 0.0;
  for (int i = 0; i < 2; i++)
    for (int e = 0; e < 2; e++) {
      double u = plain_of(cfg, m->at[i], s->members[i], s->rows, e, 0, r);
      double v = plain_of(cfg, m->at[i], s->members[i], s->rows, e, 1, r);
      member_entropy[place[i][e]] =
          cfg->score_target_reduction == TT_TARGET_REDUCTION_weighted ? (u + 3.0 * v) / 4.0
          : cfg->score_target_reduction == TT_TARGET_REDUCTION_mean   ? (u + v) / 2.0
                                                                      : fmax(u, v);
    }
  for (int e = 0; e < E; e++) all += (e + 1.0) / 10.0 * member_entropy[e];
  return all;
}

static void check_close(const tt_config *cfg, tt_output output, double got, double wanted)
{
  double capacity =
      3e-6 * fmax(1.0, fabs(wanted)); /* scores are floats, and so is softmax's entropy */
  if (!(fabs(got - wanted) <= capacity))
    fprintf(stderr, "%s of %s: ", tt_choice_acquisition[cfg->score_acquisition],
            tt_choice_output[output]);
  TT_CHECK(fabs(got - wanted), <=, capacity);
}

static void check_scores(const tt_config *cfg, const tt_trained_ensembles *m, float *x,
                         const said *s)
{
  enum { N = 40 };
  static const int8_t skip[N];
  const tt_score_pool_args what = scoring(cfg, m);
  const tt_output output = m->at[0]->model.output;
  tt_pool_scorer *j = NULL;
  tt_partial_sum sums[MOST_COLUMNS + 1];
  float score[E * N];
  double most = -INFINITY, member_entropy[E];
  const tt_row_chunk *chunk = NULL;
  tt_row_predictor *p = predictor_of(&what, N, x);
  TT_CHECK_OK(tt_pool_scorer_create_local(&what, &j));
  TT_CHECK_OK(tt_row_predictor_next(p, TT_OK, &chunk));
  TT_CHECK(chunk->rows, ==, N);
  tt_pool_scorer_score(j, FIRST, chunk, skip, score, sums, &most);
  for (int64_t r = 0; r < N && cfg->score_acquisition != TT_ACQUISITION_random; r++) {
    double all = plain_row(cfg, m, s, r, member_entropy);
    if (tt_pool_scorer_lists(j) == 1) check_close(cfg, output, (double)score[r], all);
    for (int e = 0; tt_pool_scorer_lists(j) == E && e < E; e++)
      check_close(cfg, output, (double)score[e * N + r], member_entropy[e]);
  }
  for (int64_t r = 0; r < N * tt_pool_scorer_lists(j); r++) TT_CHECK(score[r] > -FLT_MAX, ==, 1);
  TT_CHECK(sums[tt_pool_scorer_columns(j)].count, ==, N);
  tt_pool_scorer_destroy_local(&j);
  tt_row_predictor_close(&p);
}

TT_TEST (every_score_of_every_output_is_its_plain_formula) {
  enum { N = 40 };
  static double raw[N * D];
  static float x[N * D];
  inputs(N, raw);
  for (int out = 0; out < TT_OUTPUT_COUNT; out++) {
    tt_trained_ensembles m = model_of((tt_output)out);
    said s = {.rows = N};
    tt_scaler_normalize_inputs(&m.at[0]->scaler, N, raw, x);
    for (int i = 0; i < 2; i++) {
      TT_CHECK_OK(
          TT_ALLOC(s.members[i], m.at[i]->members * 2 * tt_trained_ensemble_width(m.at[i]) * N));
      TT_CHECK_OK(tt_engine_cpu.predict(m.at[i], &use, N, x, NULL, s.members[i]));
    }
    for (int kind = 0; kind < TT_ACQUISITION_COUNT; kind++)
      for (int v = 0; v < 4 && tt_acquisition_supports((tt_acquisition)kind, (tt_output)out); v++) {
        tt_config *cfg = config((tt_acquisition)kind);
        cfg->score_scaled = v % 2;
        cfg->score_goal = v / 2;
        cfg->score_target_reduction = (v + kind) % TT_TARGET_REDUCTION_COUNT;
        cfg->score_ensemble_reduction =
            v / 2 ? TT_ENSEMBLE_REDUCTION_quota : TT_ENSEMBLE_REDUCTION_weighted;
        check_scores(cfg, &m, x, &s);
        tt_config_destroy(&cfg);
      }
    for (int i = 0; i < 2; i++) tt_free(s.members[i]);
    tt_trained_ensembles_destroy(&m);
  }
}
