/* test_jacobian.c — law: for every activation, output, kind of layer, front and normalization, also
 * where networks differ, the Jacobians of mean and standard deviations are the central differences
 * of the textbook predictions in double (reference.h). The points are not at a kink. */
#include "src/predict/prediction_block.h"
#include "src/predict/row_slopes.h"
#include "tests/support/reference.h"
#include "tests/support/trained.h"

enum { IN = 3, TARGETS = 2, CAST = 6, ROWS = 4, PARTS = 4 };

static float made_up_weight(int64_t i)
{
  return 1.6f * tt_uniform(tt_random(5, 6, TT_PURPOSE_INIT, 0, (uint32_t)i).v[0]) - 0.8f;
}

/* A front of IN inputs, a profile and an image in turn; %s is a pool. */
static const char *const fronts[] = {
    "conv 4 3, dropout, residual 2, conv 3 3, conv 4 2 dilation 2 pad 1, group_norm 2, "
    "pool %s 2, residual 1, pool %s 1, global_mean",
    "residual 1, group_norm 1, conv 4 2 pad 1, group_norm 2, pool %s 2 stride 1, "
    "conv 2 3 stride 2 groups 2",
    "pool %s 3 stride 2 pad 1, batch_norm, residual 3 project activate, conv 3 1, "
    "batch_norm, conv 4 3 stride 2, basic 2 stride 2 times 2",
    "conv 2 3 activation none, pool %s 3 stride 1 pad 1, bottleneck 2 5, residual 2 project, "
    "conv 3 1 stride 2 activation elu, group_norm 3"};

/* Kinds of networks: layer_norm, residual, both, none, then fronts with each pool. */
enum { DENSE = 4, FRONTS = sizeof fronts / sizeof *fronts };
enum { KINDS = DENSE + FRONTS * TT_POOLING_COUNT };

static tt_front front_of(int kind, tt_activation activation)
{
  static const int64_t size[2][3] = {{1, IN}, {1, IN, 1}};
  int image = kind % 2, possible = 0;
  const char *pool = tt_pooling_name[kind / FRONTS];
  char text[256];
  tt_front f;
  tt_front_fault fault;
  snprintf(text, sizeof text, fronts[kind % FRONTS], pool, pool);
  TT_CHECK_OK(tt_front_read(
      text, &(tt_front_shape){.dims = 1 + image, .size = size[image], .activation = activation}, &f,
      &possible, &fault));
  TT_CHECK(possible, ==, 1);
  return f;
}

/* Running variances are above 0. */
static void make_variances(const tt_front *f, float *w)
{
  for (int l = 0; l < f->layers; l++)
    for (int64_t c = 0; c < tt_front_running(&f->layer[l]) / 2; c++) {
      float *variance = &w[f->layer[l].running + f->layer[l].channels + c];
      *variance = 0.5f + fabsf(*variance);
    }
}

/* Two ensembles of three members; one member has weight 0, the weights of the others differ. */
static tt_trained_ensemble *cast(tt_activation activation, tt_output output, int kind)
{
  const int64_t hidden[] = {9, 9, 6};
  tt_model m;
  tt_trained_ensemble *c = NULL;
  tt_model_shape shape = usual_shape(IN, TARGETS, hidden, 3, activation, output);
  tt_front front = {0};
  if (kind >= DENSE) front = front_of(kind - DENSE, activation);
  shape.front = &front;
  shape.layer_norm = kind % 2;
  shape.residual = kind / 2 % 2;
  TT_CHECK_OK(tt_model_lay_out(&shape, &m));
  TT_CHECK_OK(trained_create(&m, 2, CAST, &c));
  TT_CHECK_OK(tt_scaler_create(IN, TARGETS, &c->scaler));
  c->variance_floor = 1e-3f;
  for (int e = 0; e < 2; e++) {
    c->ensemble[e] = (tt_ensemble){.first = 3 * e, .members = 3, .targets = TARGETS};
    TT_CHECK_OK(TT_ALLOC(c->ensemble[e].column, TARGETS));
    for (int k = 0; k < TARGETS; k++) c->ensemble[e].column[k] = (e + k) % TARGETS;
  }
  for (int64_t i = 0; i < CAST; i++) c->weight[i] = i == 1 ? 0.0 : 0.5 + (double)i;
  for (int64_t i = 0; i < CAST * m.params; i++) c->w[i] = made_up_weight(i);
  for (int64_t i = 0; i < CAST; i++) make_variances(&front, c->w + i * m.params);
  tt_front_destroy(&front);
  for (int i = 0; i < IN; i++) c->scaler.x_mean[i] = 0.25 * i, c->scaler.x_scale[i] = 2.0 + i;
  for (int i = 0; i < TARGETS; i++) c->scaler.y_mean[i] = -1.0, c->scaler.y_scale[i] = 3.0 + i;
  TT_CHECK_OK(tt_calibration_create(tt_trained_ensemble_columns(c), 0, NULL, &c->calibration));
  for (int64_t i = 0; i < c->calibration.columns; i++)
    c->calibration.std_scale[i] = 0.8 + 0.1 * (double)i,
    c->calibration.noise[i] = i % 2 ? 0.2 : 0.0;
  return c;
}

static double textbook_transform(tt_transform f, double p, double v)
{
  switch (f) {
  case TT_TRANSFORM_identity: return v;
  case TT_TRANSFORM_log: return log(v);
  case TT_TRANSFORM_log1p: return log(1.0 + v);
  case TT_TRANSFORM_yeo_johnson:
    if (v < 0.0) return p == 2.0 ? -log(1.0 - v) : -(pow(1.0 - v, 2.0 - p) - 1.0) / (2.0 - p);
    return p == 0.0 ? log(1.0 + v) : (pow(1.0 + v, p) - 1.0) / p;
  default: break;
  }
  ref_missing("transform number", (const char[]){(char)('0' + f), '\0'});
  return NAN;
}

/* Mean and variance of quantity j of target k of a member at the user's inputs x. */
static void member_at(const tt_trained_ensemble *c, int64_t member, int64_t k, int32_t j,
                      const double *x, double *mean, double *variance)
{
  const tt_model *m = &c->model;
  double w[REF_PARAMS], in[IN], out[REF_WIDEST];
  TT_CHECK(m->params, <=, (int64_t)REF_PARAMS);
  for (int64_t i = 0; i < m->params; i++) w[i] = (double)c->w[member * m->params + i];
  for (int i = 0; i < IN; i++) {
    tt_transform f = tt_normalize_transform((tt_normalize)c->scaler.x_normalize[i]);
    double value = isnan(x[i]) ? c->scaler.x_fill[i] : x[i];
    in[i] = (textbook_transform(f, c->scaler.x_lambda[i], value) - c->scaler.x_mean[i]) /
            c->scaler.x_scale[i];
  }
  ref_forward(m, w, in, NULL, out);
  ref_quantity(m, (double)c->variance_floor, out + k, j, mean, variance);
}

/* Mean, total, aleatoric and epistemic standard deviation of a column, in the user's units: the
 * mixture of the members, each in these units. */
static void predict_column(const tt_trained_ensemble *c, int64_t column, const double *x,
                           double *out)
{
  int64_t q = c->model.quantities, width = tt_trained_ensemble_width(c);
  double mu[CAST], v[CAST], all = 0.0, center = 0.0, mean = 0.0, within = 0.0, between = 0.0;
  const tt_ensemble *e = &c->ensemble[column / width];
  int32_t target = e->column[column % width / q];
  double scale = c->scaler.y_scale[target], spread = scale * c->calibration.std_scale[column];
  double near = fmin(spread, scale), apart = 0.0, noise = scale * c->calibration.noise[column];
  tt_transform f = tt_normalize_transform((tt_normalize)c->scaler.y_normalize[target]);
  for (int64_t i = e->first; i < e->first + e->members; i++) {
    member_at(c, i, column % width / q, (int32_t)(column % q), x, &mu[i], &v[i]);
    all += c->weight[i];
    center += c->weight[i] * mu[i];
  }
  center /= all;
  for (int64_t i = e->first; i < e->first + e->members; i++)
    apart += c->weight[i] * (mu[i] - center) * (mu[i] - center) / all;
  for (int64_t i = e->first; i < e->first + e->members; i++) {
    double middle = c->scaler.y_mean[target] + scale * center + near * (mu[i] - center);
    double lambda = c->scaler.y_lambda[target], own = spread * spread * v[i] + noise * noise;
    tt_transform_moments user = tt_transform_undo_gaussian(
        f, lambda, middle, own + (spread * spread - near * near) * apart);
    own = tt_transform_undo_gaussian(f, lambda, middle, own).variance;
    mu[i] = user.mean;
    mean += c->weight[i] * user.mean / all;
    within += c->weight[i] * own;
    between += c->weight[i] * (user.variance - own);
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

/* Targets with these normalizations; of a logarithm the members are nearly log-normal. */
static void normalize_targets(tt_trained_ensemble *c, const tt_normalize *normalize)
{
  static const double lambda[TARGETS] = {0.4, 1.7};
  for (int i = 0; i < TARGETS; i++) {
    c->scaler.y_normalize[i] = (int8_t)normalize[i];
    c->scaler.y_lambda[i] = lambda[i];
    if (normalize[i] != TT_NORMALIZE_standard) c->scaler.y_scale[i] *= 0.1;
  }
}

/* Check the derivatives of all columns for rows x[ROWS][IN]; `what` is for the message. */
static void check_all(const tt_trained_ensembles *all, const double *x, const char *what)
{
  int64_t columns = tt_trained_ensembles_columns(all), first = 0;
  double *part[PARTS] = {NULL}, worst = 0.0;
  for (int p = 0; p < PARTS; p++) TT_CHECK_OK(TT_ALLOC(part[p], ROWS * columns * IN));
  tt_jacobian out = {part[0], part[1], part[2], part[3]};
  TT_CHECK_OK(tt_jacobian_compute(all, 2, ROWS, x, &out));
  for (int64_t i = 0; i < all->count; i++) {
    int64_t own = tt_trained_ensemble_columns(all->at[i]);
    for (int64_t cell = 0; cell < ROWS * own; cell++) {
      const double *got[PARTS];
      int64_t row = cell / own, column = cell % own;
      for (int p = 0; p < PARTS; p++) got[p] = part[p] + (row * columns + first + column) * IN;
      worst = fmax(worst, largest_error(all->at[i], column, x + row * IN, got));
    }
    first += own;
  }
  if (worst > 1e-5) fprintf(stderr, "%s:\n", what);
  TT_CHECK(worst, <=, 1e-5);
  for (int p = 0; p < PARTS; p++) tt_free(part[p]);
}

static void make_rows(double *x)
{
  for (int i = 0; i < ROWS * IN; i++) x[i] = 2.0 * sin(1.0 + i);
}

static void compare(tt_activation activation, tt_output output, int kind,
                    const tt_normalize *normalize)
{
  char what[128];
  double x[ROWS * IN];
  tt_trained_ensemble *c = cast(activation, output, kind);
  const tt_trained_ensembles all = {.count = 1, .at = &c};
  normalize_targets(c, normalize);
  make_rows(x);
  snprintf(what, sizeof what, "%s, output %s, kind %d, targets %s and %s",
           tt_choice_activation[activation], tt_choice_output[output], kind,
           tt_choice_normalize[normalize[0]], tt_choice_normalize[normalize[1]]);
  check_all(&all, x, what);
  tt_trained_ensemble_destroy(&c);
}

static const tt_normalize standard[TARGETS] = {TT_NORMALIZE_standard, TT_NORMALIZE_standard};

TT_TEST (jacobians_are_central_differences) {
  for (int a = 0; a < TT_ACT_COUNT; a++)
    for (int o = 0; o < TT_OUTPUT_COUNT; o++)
      for (int kind = 0; kind < KINDS; kind++)
        if (kind < DENSE || (a + o) % (KINDS - DENSE) == kind - DENSE)
          compare((tt_activation)a, (tt_output)o, kind, standard);
}

/* Of every output that measured values have, with every pair of normalizations. */
TT_TEST (jacobians_of_transformed_targets_are_central_differences) {
  for (int o = 0; o < TT_OUTPUT_COUNT; o++)
    for (int n = 0; n < TT_NORMALIZE_COUNT * TT_NORMALIZE_COUNT; n++) {
      const tt_normalize normalize[TARGETS] = {(tt_normalize)(n % TT_NORMALIZE_COUNT),
                                               (tt_normalize)(n / TT_NORMALIZE_COUNT)};
      if (tt_output_labels((tt_output)o) == TT_LABEL_TYPE_real)
        compare(TT_ACT_tanh, (tt_output)o, n % 4, normalize);
    }
}

/* The columns have the normalizations n, n + 1 and n + 2. */
static void normalize_inputs(tt_trained_ensemble *c, int n, double *x)
{
  static const double lambda[] = {0.0, 0.7, 2.0};
  for (int i = 0; i < IN; i++) {
    int normalize = (n + i) % TT_NORMALIZE_COUNT;
    c->scaler.x_normalize[i] = (int8_t)normalize;
    c->scaler.x_lambda[i] = lambda[n % 3];
    for (int r = 0; r < ROWS; r++) {
      double *v = &x[r * IN + i];
      if (!tt_transform_accepts(tt_normalize_transform((tt_normalize)normalize), *v)) *v = 0.2 - *v;
    }
  }
}

TT_TEST (jacobians_of_transformed_inputs_are_central_differences) {
  for (int n = 0; n < 3 * TT_NORMALIZE_COUNT; n++) {
    double x[ROWS * IN];
    tt_trained_ensemble *c = cast(TT_ACT_silu, (tt_output)(n % TT_OUTPUT_COUNT), n % 4);
    const tt_trained_ensembles all = {.count = 1, .at = &c};
    make_rows(x);
    normalize_inputs(c, n, x);
    check_all(&all, x, tt_choice_normalize[n % TT_NORMALIZE_COUNT]);
    tt_trained_ensemble_destroy(&c);
  }
}

/* One model with a network for each output, of different activations and layers, and a missing
 * input: nothing depends on it. */
TT_TEST (jacobians_of_several_networks_are_central_differences) {
  double x[ROWS * IN];
  tt_trained_ensemble *c[TT_OUTPUT_COUNT];
  const tt_trained_ensembles all = {.count = TT_OUTPUT_COUNT, .at = c};
  make_rows(x);
  x[1] = NAN;
  for (int i = 0; i < TT_OUTPUT_COUNT; i++) {
    c[i] = cast((tt_activation)((i + TT_ACT_tanh) % TT_ACT_COUNT), (tt_output)i, i % 4);
    c[i]->scaler.x_fill[1] = 0.75;
  }
  check_all(&all, x, "several networks");
  for (int i = 0; i < TT_OUTPUT_COUNT; i++) tt_trained_ensemble_destroy(&c[i]);
}

/* A standard deviation that is 0 everywhere, without noise or with one member, has derivative 0; an
 * ensemble without members has none; the number of threads changes no bit. */
TT_TEST (jacobians_at_the_ends) {
  tt_trained_ensemble *c = cast(TT_ACT_tanh, TT_OUTPUT_mean, 0);
  tt_trained_ensembles all = {.count = 1, .at = &c};
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

/* A member reproduces itself in the units of the user too, whatever its weight. */
TT_TEST (one_member_of_transformed_targets_has_no_epistemic_part) {
  for (int transform = 0; transform < TT_TRANSFORM_COUNT; transform++)
    for (int k = 0; k < 200; k++) {
      const tt_column_scale s = {0.3, 0.7, 1.0, 0.2, (tt_transform)transform, 0.6};
      const double weight[] = {0.0, 1.0 + k, 0.0};
      double mean[] = {NAN, 0.01 * k - 1.0, NAN}, variance[] = {NAN, 0.02, NAN};
      const tt_transform_moments own = tt_denormalize_member(&s, mean[1], variance[1] + 0.2 * 0.2);
      const tt_uncertainty uncertainty = tt_denormalize_mixture(&s, 3, weight, mean, variance);
      TT_CHECK(uncertainty.mean, ==, own.mean);
      TT_CHECK(uncertainty.epistemic, ==, 0.0);
      TT_CHECK(uncertainty.total, ==, uncertainty.aleatoric);
      TT_CHECK(fabs(uncertainty.aleatoric - sqrt(own.variance)), <=, 1e-12 * uncertainty.aleatoric);
    }
}
