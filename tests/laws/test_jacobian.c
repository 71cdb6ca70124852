/* test_jacobian.c — law: for every activation, output and kind of layer, the Jacobians of mean and
 * standard deviations are the central differences of the textbook predictions in double
 * (reference.h). The points are not at a kink. */
#include "src/predict/jacobian.h"
#include "src/predict/prediction_block.h"
#include "tests/laws/reference.h"

enum { IN = 3, TARGETS = 2, CAST = 6, ROWS = 4, PARTS = 4 };

static float made_up_weight(int64_t i)
{
  return 1.6f * tt_uniform(tt_random(5, 6, TT_PURPOSE_INIT, 0, (uint32_t)i).v[0]) - 0.8f;
}

/* Two ensembles of three members; one member has weight 0, the weights of the others differ. */
static tt_trained_ensemble *cast(tt_activation activation, tt_output output, int kind)
{
  const int64_t hidden[] = {9, 9, 6};
  tt_model m;
  tt_trained_ensemble *c = NULL;
  tt_model_shape of = usual_shape(IN, TARGETS, hidden, 3, activation, output);
  of.layer_norm = kind % 2;
  of.residual = kind / 2;
  TT_CHECK_OK(tt_model_lay_out(&of, &m));
  TT_CHECK_OK(tt_trained_ensemble_create(&m, 2, CAST, &c));
  TT_CHECK_OK(tt_scaler_create(IN, TARGETS, &c->scaler));
  c->variance_floor = 1e-3f;
  for (int e = 0; e < 2; e++) {
    c->ensemble[e] = (tt_ensemble){.first = 3 * e, .members = 3, .targets = TARGETS};
    TT_CHECK_OK(TT_ALLOC(c->ensemble[e].column, TARGETS));
    for (int k = 0; k < TARGETS; k++) c->ensemble[e].column[k] = (e + k) % TARGETS;
  }
  for (int64_t i = 0; i < CAST; i++) c->weight[i] = i == 1 ? 0.0 : 0.5 + (double)i;
  for (int64_t i = 0; i < CAST * m.params; i++) c->w[i] = made_up_weight(i);
  for (int i = 0; i < IN; i++) c->scaler.x_mean[i] = 0.25 * i, c->scaler.x_scale[i] = 2.0 + i;
  for (int i = 0; i < TARGETS; i++) c->scaler.y_mean[i] = -1.0, c->scaler.y_scale[i] = 3.0 + i;
  TT_CHECK_OK(tt_calibration_create(tt_trained_ensemble_columns(c), 0, NULL, &c->calibration));
  for (int64_t i = 0; i < c->calibration.columns; i++) c->calibration.std_scale[i] = 1.0 + 0.1 * (double)i;
  return c;
}

/* Mean and variance of quantity j of target k of a member at the user's inputs x. */
static void member_at(const tt_trained_ensemble *c, int64_t member, int64_t k, int32_t j,
                      const double *x, double *mean, double *variance)
{
  const tt_model *m = &c->model;
  double w[REF_PARAMS], in[IN], out[REF_WIDEST];
  TT_CHECK(m->params, <=, (int64_t)REF_PARAMS);
  for (int64_t i = 0; i < m->params; i++) w[i] = (double)c->w[member * m->params + i];
  for (int i = 0; i < IN; i++) in[i] = (x[i] - c->scaler.x_mean[i]) / c->scaler.x_scale[i];
  ref_forward(m, w, in, NULL, out);
  ref_quantity(m, (double)c->variance_floor, out + k, j, mean, variance);
}

/* Mean, total, aleatoric and epistemic standard deviation of a column, in the user's units: the
 * mixture of the members, each in these units. */
static void predict_column(const tt_trained_ensemble *c, int64_t column, const double *x,
                           double *out)
{
  int64_t q = c->model.quantities, width = tt_trained_ensemble_width(c);
  double mu[CAST], v[CAST], all = 0.0, centre = 0.0, mean = 0.0, within = 0.0, between = 0.0;
  const tt_ensemble *e = &c->ensemble[column / width];
  int32_t target = e->column[column % width / q];
  double scale = c->scaler.y_scale[target], spread = scale * c->calibration.std_scale[column];
  tt_transform f = tt_normalize_transform((tt_normalize)c->scaler.y_normalize[target]);
  for (int64_t i = e->first; i < e->first + e->members; i++) {
    member_at(c, i, column % width / q, (int32_t)(column % q), x, &mu[i], &v[i]);
    all += c->weight[i];
    centre += c->weight[i] * mu[i];
  }
  centre /= all;
  for (int64_t i = e->first; i < e->first + e->members; i++) {
    tt_transform_moments user = tt_transform_undo_gaussian(
        f, c->scaler.y_lambda[target],
        c->scaler.y_mean[target] + scale * centre + spread * (mu[i] - centre),
        spread * spread * v[i]);
    mu[i] = user.mean;
    mean += c->weight[i] * user.mean / all;
    within += c->weight[i] * user.variance;
  }
  for (int64_t i = e->first; i < e->first + e->members; i++)
    between += c->weight[i] * (mu[i] - mean) * (mu[i] - mean);
  out[0] = mean;
  out[1] = sqrt((within + between) / all);
  out[2] = sqrt(within / all);
  out[3] = sqrt(between / all);
}

/* Largest difference of a row and column of the four Jacobians from central differences, relative
 * to the largest derivative by an input.
 *   got  [PARTS][IN] */
static double largest_error(const tt_trained_ensemble *c, int64_t column, const double *x,
                            const double *const *got)
{
  const double step = 3e-5;
  double want[IN][PARTS], worst = 0.0;
  for (int d = 0; d < IN; d++) {
    double moved[IN], low[PARTS], high[PARTS];
    memcpy(moved, x, sizeof moved);
    moved[d] = x[d] - step;
    predict_column(c, column, moved, low);
    moved[d] = x[d] + step;
    predict_column(c, column, moved, high);
    for (int p = 0; p < PARTS; p++) want[d][p] = (high[p] - low[p]) / (2.0 * step);
  }
  for (int p = 0; p < PARTS; p++) {
    double size = 1e-4, error = 0.0;
    for (int d = 0; d < IN; d++) {
      size = fmax(size, fabs(want[d][p]));
      error = fmax(error, fabs(want[d][p] - got[p][d]));
    }
    worst = fmax(worst, isnan(error) ? (double)INFINITY : error / size);
  }
  return worst;
}

/* Targets with these normalisations; of a logarithm the members are nearly log-normal. */
static void normalize_targets(tt_trained_ensemble *c, const tt_normalize *by)
{
  static const double lambda[TARGETS] = {0.4, 1.7};
  for (int i = 0; i < TARGETS; i++) {
    c->scaler.y_normalize[i] = (int8_t)by[i];
    c->scaler.y_lambda[i] = lambda[i];
    if (by[i] != TT_NORMALIZE_standard) c->scaler.y_scale[i] *= 0.1;
  }
}

static void compare(tt_activation activation, tt_output output, int kind, const tt_normalize *by)
{
  tt_trained_ensemble *c = cast(activation, output, kind);
  normalize_targets(c, by);
  tt_trained_ensembles all = {1, &c};
  int64_t columns = tt_trained_ensemble_columns(c), row = columns * IN;
  double x[ROWS * IN], *part[PARTS] = {NULL}, worst = 0.0;
  for (int i = 0; i < ROWS * IN; i++) x[i] = 2.0 * sin(1.0 + i);
  for (int p = 0; p < PARTS; p++) TT_CHECK_OK(TT_ALLOC(part[p], ROWS * row));
  tt_jacobian out = {part[0], part[1], part[2], part[3]};
  TT_CHECK_OK(tt_jacobian_compute(&all, 2, ROWS, x, &out));
  for (int64_t i = 0; i < ROWS * columns; i++) {
    const double *got[PARTS];
    for (int p = 0; p < PARTS; p++) got[p] = part[p] + i * IN;
    worst = fmax(worst, largest_error(c, i % columns, x + i / columns * IN, got));
  }
  if (worst > 1e-5)
    fprintf(stderr, "%s, output %s, kind %d:\n", tt_choice_activation[activation],
            tt_choice_output[output], kind);
  TT_CHECK(worst, <=, 1e-5);
  for (int p = 0; p < PARTS; p++) tt_free(part[p]);
  tt_trained_ensemble_destroy(&c);
}

static const tt_normalize standard[TARGETS] = {TT_NORMALIZE_standard, TT_NORMALIZE_standard};

TT_TEST (jacobians_are_central_differences) {
  for (int a = 0; a < TT_ACT_COUNT; a++)
    for (int o = 0; o < TT_OUTPUT_COUNT; o++)
      for (int kind = 0; kind < 4; kind++) compare((tt_activation)a, (tt_output)o, kind, standard);
}

/* Of every output that measured values have, with every pair of normalisations. */
TT_TEST (jacobians_of_transformed_targets_are_central_differences) {
  for (int o = 0; o < TT_OUTPUT_COUNT; o++)
    for (int n = 0; n < TT_NORMALIZE_COUNT * TT_NORMALIZE_COUNT; n++) {
      const tt_normalize by[TARGETS] = {(tt_normalize)(n % TT_NORMALIZE_COUNT),
                                        (tt_normalize)(n / TT_NORMALIZE_COUNT)};
      if (tt_output_labels((tt_output)o) == TT_LABEL_TYPE_real)
        compare(TT_ACT_tanh, (tt_output)o, n % 4, by);
    }
}

/* A standard deviation that is 0 everywhere, without noise or with one member, has derivative 0; an
 * ensemble without members has none; the number of threads changes no bit. */
TT_TEST (jacobians_at_the_ends) {
  tt_trained_ensemble *c = cast(TT_ACT_tanh, TT_OUTPUT_mean, 0);
  tt_trained_ensembles all = {1, &c};
  enum { CELLS = ROWS * 2 * TARGETS * IN };
  double x[ROWS * IN], mean[2][CELLS], aleatoric[CELLS], epistemic[CELLS];
  for (int i = 0; i < ROWS * IN; i++) x[i] = cos(i);
  for (int i = 0; i < CAST; i++) c->weight[i] = i == 2 ? 0.5 : 0.0;
  tt_jacobian one = {.mean = mean[0], .aleatoric = aleatoric, .epistemic = epistemic};
  tt_jacobian other = {.mean = mean[1]};
  TT_CHECK_OK(tt_jacobian_compute(&all, 1, ROWS, x, &one));
  TT_CHECK_OK(tt_jacobian_compute(&all, 3, ROWS, x, &other));
  for (int i = 0; i < CELLS; i++) {
    int none = i / (TARGETS * IN) % 2; /* the second ensemble */
    TT_CHECK(isnan(mean[0][i]), ==, none);
    TT_CHECK(isnan(aleatoric[i]), ==, none);
    if (none) continue;
    TT_CHECK(mean[0][i], ==, mean[1][i]);
    TT_CHECK(aleatoric[i], ==, 0.0);
    TT_CHECK(epistemic[i], ==, 0.0);
  }
  tt_trained_ensemble_destroy(&c);
}
