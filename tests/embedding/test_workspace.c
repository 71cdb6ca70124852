/* test_workspace.c — law: for every activation and output, with and without layer_norm and residual
 * layers, and with a front, the derivatives that tutti_predict returns with a workspace are those
 * that are computed in double, with the values and their bits of many rows; and such a call
 * allocates nothing. */
#include "io/model/model_file.h"
#include "src/api/tutti.h"
#include "src/predict/row_slopes.h"
#include "tests/embedding/allocations.h"
#include "tests/support/made_up.h"

#include <stdlib.h>

enum { ROWS = 11, MEMBERS = 5, COLUMNS = 2 * MADE_UP_K * (1 + 9), PARTS = 4 };
enum { CELLS = ROWS * COLUMNS, SLOPES = CELLS * MADE_UP_INPUTS };
enum { DENSE = 4, KINDS = DENSE + 1 }; /* layer_norm, residual, both, none; a front */

static double x[ROWS * MADE_UP_INPUTS];

/* The linker puts these in place of the functions that allocate, in all code of tutti. */
int allocations;
#define COUNTED(result, name, parameters, arguments)                                               \
  result *__real_##name parameters;                                                                \
  result *__wrap_##name parameters;                                                                \
  result *__wrap_##name parameters                                                                 \
  {                                                                                                \
    allocations++;                                                                                 \
    return __real_##name arguments;                                                                \
  }
COUNTED(void, malloc, (size_t size), (size))
COUNTED(void, calloc, (size_t count, size_t size), (count, size))
COUNTED(void, realloc, (void *place, size_t size), (place, size))
COUNTED(void, aligned_alloc, (size_t align, size_t size), (align, size))

/* Everything with one number for a column, or one for a column and an input. */
typedef struct moments {
  double value[PARTS][CELLS], slope[PARTS][SLOPES];
} moments;

static tutti_prediction wanted(moments *m, tutti_workspace *work, int64_t row)
{
  tutti_prediction out = {.size = sizeof out, .workspace = work};
  double **value[] = {&out.mean, &out.total, &out.aleatoric, &out.epistemic};
  double **slope[] = {&out.mean_gradient, &out.total_gradient, &out.aleatoric_gradient,
                      &out.epistemic_gradient};
  for (int p = 0; p < PARTS; p++) {
    *value[p] = m->value[p] + row;
    *slope[p] = m->slope[p] + row * MADE_UP_INPUTS;
  }
  return out;
}

/* A model of this kind, and its file. */
static tutti_model *make(tt_activation activation, tt_output output, int kind, const char *file)
{
  static const double level[] = {0.05, 0.25, 0.5, 0.75, 0.95};
  static const int64_t hidden[] = {19, 19, 6}, size[] = {1, MADE_UP_INPUTS};
  int possible;
  tt_front front = {0};
  tt_front_fault fault;
  tutti_model *model = NULL;
  tt_provenance provenance = made_up_provenance(comm);
  tt_model_shape shape = {.targets = MADE_UP_K,
                          .hidden = hidden,
                          .layers = 3,
                          .activation = activation,
                          .output = output,
                          .layer_norm = kind % 2,
                          .residual = kind / 2 % 2,
                          .levels = tt_output_max_levels(output) ? 5 : 0,
                          .level = level};
  const tt_front_shape of = {.dims = 1, .size = size, .activation = activation};
  if (kind == DENSE) {
    TT_CHECK_OK(tt_front_read("conv 4 2", &of, &front, &possible, &fault));
    TT_CHECK(possible, ==, 1);
    shape.front = &front;
  }
  tt_trained_ensemble *m = made_up_shape(MEMBERS, shape);
  tt_front_destroy(&front);
  for (int64_t i = 0; i < MEMBERS * m->model.params; i++) m->w[i] *= 0.3f;
  for (int i = 0; i < MEMBERS; i++) m->weight[i] *= 1.0 + i;
  const tt_trained_ensembles only = {.count = 1, .at = &m};
  tt_model_shard all = {{0, MEMBERS}, m->w};
  TT_CHECK_OK(tt_model_write(comm, file, &only, &all, &provenance));
  tt_trained_ensemble_destroy(&m);
  TT_CHECK(tutti_open(file, &model), ==, 0);
  return model;
}

/* Largest difference of the derivatives of a cell, relative to the largest of them. */
static double difference(const double *got, const double *want)
{
  double most = 1e-3, worst = 0.0;
  for (int d = 0; d < MADE_UP_INPUTS; d++) {
    most = fmax(most, fabs(want[d]));
    worst = fmax(worst, fabs(got[d] - want[d]));
  }
  return isfinite(worst) ? worst / most : (double)INFINITY;
}

static void check_slopes(const char *file, int64_t cells, int exact, const moments *got)
{
  static double want[PARTS][SLOPES];
  tt_trained_ensembles all = {0};
  const tt_jacobian jacobian = {want[0], want[1], want[2], want[3]};
  TT_CHECK_OK(tt_model_read_local(file, &all));
  TT_CHECK_OK(tt_jacobian_compute(&all, 1, ROWS, x, &jacobian));
  for (int p = 0; p < PARTS; p++)
    for (int64_t c = 0; c < cells; c++)
      TT_CHECK(difference(got->slope[p] + c * MADE_UP_INPUTS, want[p] + c * MADE_UP_INPUTS), <=,
               exact ? 0.0 : 3e-5);
  tt_trained_ensembles_destroy(&all);
}

static void check_model(tt_activation activation, tt_output output, int kind)
{
  static moments all, alone, values, mean;
  tutti_workspace *work = NULL;
  char file[2 * SCRATCH_ROOM];
  snprintf(file, sizeof file, "%s", at("workspace.h5"));
  tutti_model *model = make(activation, output, kind, file);
  int64_t columns = tutti_columns(model), slopes = ROWS * columns * MADE_UP_INPUTS;
  TT_CHECK(tutti_workspace_create(model, 2, &work), ==, 0);
  tutti_prediction out = wanted(&all, work, 0);
  TT_CHECK(tutti_predict(model, ROWS, x, 2, &out), ==, 0);
  check_slopes(file, ROWS * columns, kind == DENSE, &all);
  const tutti_prediction block = {.size = sizeof block, /* a way of its own */
                                  .mean = values.value[0],
                                  .total = values.value[1],
                                  .aleatoric = values.value[2],
                                  .epistemic = values.value[3]};
  TT_CHECK(tutti_predict(model, ROWS, x, 1, &block), ==, 0);
  int before = allocations;
  for (int64_t r = 0; r < ROWS; r++) {
    tutti_prediction row = wanted(&alone, work, r * columns);
    TT_CHECK(tutti_predict(model, 1, x + r * MADE_UP_INPUTS, 1, &row), ==, 0);
  }
  const tutti_prediction force = {
      .size = sizeof force, .workspace = work, .mean_gradient = mean.slope[0]};
  TT_CHECK(tutti_predict(model, ROWS, x, 1, &force), ==, 0);
  if (kind != DENSE) TT_CHECK(allocations, ==, before);
  for (int p = 0; p < PARTS; p++) {
    size_t size = (size_t)(ROWS * columns) * sizeof(double);
    TT_CHECK(memcmp(all.value[p], values.value[p], size), ==, 0);
    TT_CHECK(memcmp(alone.value[p], values.value[p], size), ==, 0);
    TT_CHECK(memcmp(alone.slope[p], all.slope[p], (size_t)slopes * sizeof(double)), ==, 0);
  }
  TT_CHECK(memcmp(mean.slope[0], all.slope[0], (size_t)slopes * sizeof(double)), ==, 0);
  tutti_workspace_destroy(&work);
  tutti_close(&model);
}

TT_TEST (derivatives_with_a_workspace_are_those_in_double) {
  for (int i = 0; i < ROWS * MADE_UP_INPUTS; i++) x[i] = 2.0 * sin(1.0 + i);
  for (int a = 0; a < TT_ACT_COUNT; a++)
    for (int o = 0; o < TT_OUTPUT_COUNT; o++)
      check_model((tt_activation)a, (tt_output)o, (a + o) % KINDS);
}
