/* test_trap_inference.c — mistake 9 of tests/laws/test_traps.c: inference that reads the weights
 * again for every batch. A model is read once, with its calibration; then the file may be deleted.
 */
#include "core/base/mem.h"
#include "core/engine/engine.h"
#include "io/model/model_file.h"
#include "tests/support/check.h"
#include "tests/support/made_up.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { MEMBERS = 5, ROWS = 300, BATCH = 7 };

static void calibrate(tt_trained_ensemble *m)
{
  const double level[] = {0.5, 0.9};
  TT_CHECK_OK(tt_calibration_create(tt_trained_ensemble_columns(m), 2, level, &m->calibration));
  for (int64_t i = 0; i < m->calibration.columns; i++) {
    m->calibration.std_scale[i] = 1.0 + 0.25 * (double)i;
    m->calibration.noise[i] = 0.125 * (double)i;
    m->calibration.rows[i] = 10 + i;
    m->calibration.width[i] = 0.5 * (double)i; /* of 0.5; that of 0.9 stays infinite */
  }
}

static void same_calibration(const tt_calibration *a, const tt_calibration *b)
{
  TT_CHECK(a->columns, ==, b->columns);
  TT_CHECK(a->levels, ==, b->levels);
  for (int64_t i = 0; i < a->levels; i++) TT_CHECK(a->level[i], ==, b->level[i]);
  for (int64_t i = 0; i < a->columns; i++) {
    TT_CHECK(a->std_scale[i], ==, b->std_scale[i]);
    TT_CHECK(a->noise[i], ==, b->noise[i]);
    TT_CHECK(a->rows[i], ==, b->rows[i]);
  }
  for (int64_t i = 0; i < a->levels * a->columns; i++) TT_CHECK(a->width[i], ==, b->width[i]);
}

/* Means of the ensembles, `batch` rows at a time: [ROWS][columns]. */
static void predict(const tt_trained_ensemble *m, const float *x, int64_t batch, double *mean)
{
  const tt_resources use = {.threads = 1};
  int64_t columns = tt_trained_ensemble_columns(m);
  for (int64_t first = 0; first < ROWS; first += batch) {
    tt_moments *moments = NULL;
    int64_t rows = ROWS - first < batch ? ROWS - first : batch;
    TT_CHECK_OK(tt_moments_create(rows, columns, &moments));
    TT_CHECK_OK(tt_engine_cpu.predict(m, &use, rows, x + first * MADE_UP_INPUTS, moments, NULL));
    memcpy(mean + first * columns, moments->mean, (size_t)(rows * columns) * sizeof *mean);
    tt_moments_destroy(&moments);
  }
}

TT_TEST (inference_reloads_weights) {
  const int64_t hidden[] = {6};
  static float x[ROWS * MADE_UP_INPUTS];
  static double want[ROWS * 2 * MADE_UP_K], got[ROWS * 2 * MADE_UP_K];
  tt_trained_ensemble *m = made_up_committee(MEMBERS, hidden, 1, TT_OUTPUT_mean_variance);
  const tt_trained_ensembles only = {.count = 1, .at = &m};
  tt_provenance provenance = made_up_provenance(comm);
  tt_trained_ensembles back = {0};
  tt_model_shard part = {.w = m->w};
  for (int i = 0; i < ROWS * MADE_UP_INPUTS; i++) x[i] = made_up_number(i);
  TT_CHECK_OK(tt_partition_even(MEMBERS, tt_comm_ranks(comm), tt_comm_rank(comm), &part.slice));
  part.w = m->w + part.slice.first * m->model.params;
  calibrate(m);
  TT_CHECK_OK(tt_model_write(comm, at("once.h5"), &only, &part, &provenance));
  TT_CHECK_OK(tt_model_read(comm, at("once.h5"), &back));
  tt_barrier(comm);
  if (tt_comm_is_root(comm)) TT_CHECK(unlink(at("once.h5")), ==, 0);
  tt_barrier(comm);
  same_calibration(&m->calibration, &back.at[0]->calibration);
  predict(m, x, ROWS, want);
  predict(back.at[0], x, BATCH, got);
  TT_CHECK(memcmp(want, got, sizeof want), ==, 0);
  tt_trained_ensembles_destroy(&back);
  tt_trained_ensemble_destroy(&m);
}
