/* samples.h — the samples that the tests read: values in memory, and a file as another program
 * writes it. */
#ifndef TT_TEST_SAMPLES_H
#define TT_TEST_SAMPLES_H
#include "core/base/mem.h"
#include "io/data/data.h"
#include "io/hdf5/h5.h"
#include "tests/support/check.h"
#include "tests/support/ranks.h"

#include <math.h>

enum { N = 2500, D = 3, T = 2, BLOCK = 1024 }; /* three blocks of rows, the last one short */
enum { CONSTANT = 2 };                         /* the constant input column */

static char file[SCRATCH_ROOM + 16];

/* For TT_SUITE: set `file`; warnings are not printed. */
static inline int name_samples(void **unused)
{
  snprintf(file, sizeof file, "%s/samples.h5", scratch);
  return errors_only(unused);
}

/* The samples of the tests; every value is exact in the type of its dataset. */
static float x[N * D];
static double y[N * T], w[N];
static int32_t part[N];
static int8_t mask[N], early[N];

static inline void make_values(void)
{
  for (int i = 0; i < N; i++) {
    for (int k = 0; k < D; k++)
      x[i * D + k] = (float)((i * 7919 + k * 104729) % 4001) / 8.0f - 40.0f; /* rows differ */
    for (int k = 0; k < T; k++) y[i * T + k] = 1e6 + (double)((i * 31 + k * 17) % 499) / 7.0;
    if (i % 5 == 2) y[i * T + 1] = NAN;
    x[i * D + CONSTANT] = 0.1f;
    w[i] = 0.5 + i % 3;
    mask[i] = i % 2 == 1;
    early[i] = i < 100;
    part[i] = i % 11 == 0 ? 1 : i % 13 == 0 ? -1 : 0;
  }
}

/* Collective. Write the present values to a file as another program writes it. */
static inline void put(void)
{
  const char *const features[] = {"a", "b", "c"}, *const targets[] = {"load", "state"};
  tt_h5_file *f = NULL;
  TT_CHECK_OK(tt_h5_create(comm, file, 0, &f));
  tt_h5_write_from_root(f, "x", TT_H5_F32, 2, (const int64_t[]){N, D}, x);
  tt_h5_write_from_root(f, "y", TT_H5_F64, 2, (const int64_t[]){N, T}, y);
  tt_h5_write_from_root(f, "w", TT_H5_F64, 1, (const int64_t[]){N}, w);
  tt_h5_write_from_root(f, "part", TT_H5_I32, 1, (const int64_t[]){N}, part);
  tt_h5_write_from_root(f, "short", TT_H5_F64, 1, (const int64_t[]){N - 1}, w);
  tt_h5_write_from_root(f, "z_mask", TT_H5_I8, 1, (const int64_t[]){N}, mask);
  tt_h5_write_from_root(f, "z_early", TT_H5_I8, 1, (const int64_t[]){N}, early);
  tt_h5_write_texts(f, "feature_name", D, 8, features);
  tt_h5_write_texts(f, "target_name", T, 8, targets);
  TT_CHECK_OK(tt_h5_commit(&f));
}

/* Every rank gets this error and a text with these parts. */
static inline void refused(const tt_config *cfg, tt_err wanted, const char *one, const char *two)
{
  tt_dataset *d = NULL;
  int64_t before = tt_mem_live_blocks();
  TT_CHECK((int)tt_data_read(comm, cfg, NULL, &d), ==, (int)wanted);
  TT_CHECK_HAS(tt_err_last(), one);
  TT_CHECK_HAS(tt_err_last(), two);
  TT_CHECK(d == NULL, ==, 1);
  TT_CHECK(tt_mem_live_blocks(), ==, before);
}
#endif
