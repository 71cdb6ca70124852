/* scored.h — a campaign that can be scored: a job file, a model of two trained ensembles (cohorts)
 * with two ensembles each, in another order than in the file, and inputs. For tests of stage score.
 */
#ifndef TT_SCORED_H
#define TT_SCORED_H
#include "src/campaign/pool/pool_scorer.h"
#include "tests/support/made_up.h"

enum { D = MADE_UP_INPUTS, K = MADE_UP_K, FIRST = 1000, E = 4, LEVELS = 3 };
enum { MOST_COLUMNS = E * K * (LEVELS + 1) };

static tt_resources use __attribute__((unused)) = {.threads = 1, .simd = TT_SIMD_generic};
static const double best[MADE_UP_TARGETS] = {0.5, -0.25, 1.5, 0.75};
static const char job[] =
    "data: {file: d.h5}\npool: {file: p.h5}\nlabel: {command: [f]}\nrun: {seed: 5}\n"
    "ensembles: [{name: fourth, targets: [u, v]}, {name: cooling, targets: [u, v]},\n"
    "  {name: third, targets: [u, v]}, {name: heating-1, targets: [u, v]}]\n"
    "score: {target_reduction: weighted, target_weights: [1, 3], ensemble_reduction: weighted, "
    "weights: [1, 2, 3, "
    "4]}\n";

/* a model of two cohorts, its job file, and a pool */

static inline tt_trained_ensemble *committee(int64_t members, int64_t width, tt_output output,
                                             const char *one, const char *two)
{
  static const double level[LEVELS] = {0.1, 0.45, 0.9};
  tt_trained_ensemble *m = made_up_shape(members, (tt_model_shape){.targets = K,
                                                                   .hidden = &width,
                                                                   .layers = 1,
                                                                   .activation = TT_ACT_tanh,
                                                                   .output = output,
                                                                   .levels = LEVELS,
                                                                   .level = level});
  TT_CHECK_OK(tt_text_set(&m->ensemble[0].name, one));
  TT_CHECK_OK(tt_text_set(&m->ensemble[1].name, two));
  for (int i = 0; i < MADE_UP_TARGETS; i++) m->scaler.y_mean[i] = 0.5 * i - 1.0;
  for (int64_t i = 0; i < members; i++)
    if (m->weight[i] > 0.0) m->weight[i] = 0.1 * (double)(1 + i);
  return m;
}

static inline tt_trained_ensembles model_of(tt_output output)
{
  tt_trained_ensembles m = {0};
  TT_CHECK_OK(tt_trained_ensembles_create(2, &m));
  m.at[0] = committee(7, 5, output, "heating-1", "cooling");
  m.at[1] = committee(4, 3, output, "third", "fourth");
  return m;
}

static inline tt_config *config(tt_acquisition acquisition)
{
  tt_config *c = NULL;
  TT_CHECK_OK(tt_config_parse("job.yaml", job, (int64_t)strlen(job), NULL, 0, &c));
  c->score_acquisition = (int)acquisition;
  return c;
}

static inline tt_score_pool_args scoring(const tt_config *cfg, const tt_trained_ensembles *m)
{
  static const tt_used_rows nobody = {0};
  return (tt_score_pool_args){.cfg = cfg,
                              .model = m,
                              .ops = &tt_engine_cpu,
                              .use = &use,
                              .used_rows = &nobody,
                              .best = best,
                              .round = 3};
}

/* Inputs of the predictor of the next function. */
static inline tt_err read_inputs(void *x, int64_t first, int64_t count, float *dst)
{
  memcpy(dst, (const float *)x + first * D, (size_t)(count * D) * sizeof *dst);
  return TT_OK;
}

/* Predicts normalized inputs x [rows][D] in this process alone. */
static inline tt_row_predictor *predictor_of(const tt_score_pool_args *what, int64_t rows, float *x)
{
  tt_row_predictor *p = NULL;
  const tt_row_options o = {.all = what->model,
                            .ops = what->ops,
                            .use = what->use,
                            .rows = rows,
                            .block = 1,
                            .read_local = read_inputs,
                            .with = x};
  TT_CHECK_OK(tt_row_predictor_open(&o, &p));
  return p;
}

/* Raw inputs of candidate FIRST + r. */
static inline void inputs(int64_t rows, double *x)
{
  for (int64_t i = 0; i < rows * D; i++)
    x[i] =
        (double)(2.0f * tt_uniform(tt_random(1, 2, TT_PURPOSE_LABEL_NOISE, 0, (uint32_t)i).v[0]) -
                 1.0f);
}
#endif
