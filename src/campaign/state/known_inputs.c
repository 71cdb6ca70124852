/* known_inputs.c — see known_inputs.h: a hash table with linear probing. */
#include "src/campaign/state/known_inputs.h"

#include "core/base/mem.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

struct tt_known_inputs {
  const tt_net_inputs *net;
  int64_t width; /* D + 1: the inputs, and the number of the row if a text is no level, else 0 */
  int64_t count; /* rows in the set */
  int64_t slots; /* a power of two, at least twice the rows */
  int64_t *slot; /* [slots] index of a row + 1; 0 = free */
  int64_t *id;   /* [rows] */
  double *x;     /* [rows][width] */
  double *looked_up; /* [width] */
};

static tt_err allocate(tt_known_inputs *k, int64_t rows)
{
  for (k->slots = 2; k->slots < 2 * rows;) k->slots *= 2;
  TT_TRY(TT_ALLOC(k->slot, k->slots));
  TT_TRY(TT_ALLOC(k->id, rows));
  TT_TRY(TT_ALLOC(k->x, rows * k->width));
  return TT_ALLOC(k->looked_up, k->width);
}

tt_err tt_known_inputs_create(int64_t inputs, int64_t rows, const tt_net_inputs *net,
                              tt_known_inputs **out)
{
  TT_TRY(TT_ALLOC(*out, 1));
  (*out)->net = net;
  (*out)->width = inputs + 1;
  tt_err e = allocate(*out, rows);
  if (e) tt_known_inputs_destroy(out);
  return e;
}

void tt_known_inputs_destroy(tt_known_inputs **k)
{
  if (!*k) return;
  tt_free_all(&(*k)->slot, &(*k)->id, &(*k)->x, &(*k)->looked_up, k);
}

/* The slot of the row in k->looked_up, or the free slot where it belongs. */
static int64_t *find_slot(const tt_known_inputs *k)
{
  size_t bytes = (size_t)k->width * sizeof *k->x;
  uint64_t offset = XXH3_64bits(k->looked_up, bytes);
  for (;; offset++) {
    int64_t *slot = &k->slot[offset & (uint64_t)(k->slots - 1)];
    if (!*slot || !memcmp(k->x + (*slot - 1) * k->width, k->looked_up, bytes)) return slot;
  }
}

/* Store equal inputs as equal bytes. */
static void look_up(tt_known_inputs *k, int64_t row, const double *x)
{
  int64_t inputs = k->width - 1;
  k->looked_up[inputs] = 0.0;
  for (int64_t d = 0; d < inputs; d++) {
    k->looked_up[d] = isnan(x[d]) ? (double)NAN : x[d] + 0.0;
    if (k->net && x[d] == -1.0 && tt_net_inputs_levels_are_texts(k->net, d))
      k->looked_up[inputs] = (double)row;
  }
}

void tt_known_inputs_add(tt_known_inputs *k, int64_t id, int64_t row, const double *x)
{
  look_up(k, row, x);
  int64_t *slot = find_slot(k);
  if (*slot) return;
  memcpy(k->x + k->count * k->width, k->looked_up, (size_t)k->width * sizeof *k->x);
  k->id[k->count++] = id;
  *slot = k->count;
}

int64_t tt_known_inputs_find(tt_known_inputs *k, int64_t row, const double *x)
{
  look_up(k, row, x);
  int64_t offset = *find_slot(k);
  return offset ? k->id[offset - 1] : -1;
}
