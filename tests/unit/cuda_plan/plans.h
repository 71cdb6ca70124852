/* plans.h — what the tests of plans for the GPU share: devices, shapes, and a map of memory in
 * which arrays must not overlap. */
#ifndef TT_TEST_PLANS_H
#define TT_TEST_PLANS_H
#include "core/model/cohort.h"
#include "tests/support/check.h"
#include "tests/support/plain_model.h"

enum { AMPERE = 166912, ADA = 101376, HOPPER = 232448 }; /* bytes a block can have */
static const int64_t devices[] = {ADA, AMPERE, HOPPER};

static inline tt_cohort shape(int64_t inputs, const int64_t *hidden, int64_t layers,
                              int64_t targets, tt_activation activation, int64_t batch)
{
  tt_cohort c = {.optimizer = TT_OPT_adam, .batch_size = batch};
  TT_CHECK_OK(
      tt_model_plain(inputs, targets, hidden, layers, activation, TT_OUTPUT_mean, &c.model));
  return c;
}

static inline tt_cohort wide(int64_t inputs, int64_t width, int64_t layers, int64_t batch)
{
  int64_t hidden[8];
  for (int i = 0; i < layers; i++) hidden[i] = width;
  return shape(inputs, hidden, layers, 1, TT_ACT_relu, batch);
}

/* Each float of memory belongs to one array at most; memory before `first` belongs to none. */
typedef struct map {
  char taken[HOPPER / 4];
  int64_t first, floats;
} map;

static inline map map_of(int64_t first, int64_t floats)
{
  map m = {.first = first, .floats = floats};
  return m;
}

static inline void take(map *m, int64_t offset, int64_t count)
{
  TT_CHECK(offset % 4, ==, 0);
  TT_CHECK(offset, >=, m->first);
  TT_CHECK(offset + count, <=, m->floats);
  for (int64_t k = offset; k < offset + count; k++) {
    TT_CHECK(m->taken[k], ==, 0);
    m->taken[k] = 1;
  }
}
#endif
