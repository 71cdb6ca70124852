/* history.c — see history.h. */
#include "core/stats/history.h"

#include "core/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const tt_stage_name[] = {
#define X(name, meaning) #name,
    TT_STAGES(X)
#undef X
        NULL};

tt_err tt_history_create(int64_t inputs, int64_t targets, tt_history **out)
{
  *out = NULL;
  TT_TRY(TT_ALLOC(*out, 1));
  (*out)->inputs = inputs;
  (*out)->targets = targets;
  (*out)->ended = -1;
  return TT_OK;
}

/* rmse, nll and spread are one block, which begins with rmse. */
static void free_rounds(tt_history *h, int64_t from)
{
  for (int64_t i = from; i < h->rounds; i++)
    tt_free(h->round[i].rmse);
}

void tt_history_destroy(tt_history **h)
{
  if (!*h) return;
  free_rounds(*h, 0);
  tt_free((*h)->round);
  tt_free((*h)->pick);
  tt_free((*h)->x);
  tt_free((*h)->y);
  tt_free(*h);
}

/* Room for `n` elements at least: a power of two, so that many small additions stay cheap. */
static int64_t room_for(int64_t n)
{
  int64_t room = 16;
  while (room < n)
    room *= 2;
  return room;
}

/* Make the block *array (a pointer to the pointer) with `used` elements fit for `wanted` of them.
 */
static tt_err grow(void *array, int64_t used, int64_t wanted, size_t size)
{
  void *old, *fresh = NULL;
  memcpy(&old, array, sizeof old);
  if (old && room_for(wanted) == room_for(used)) return TT_OK;
  TT_TRY(tt_alloc_bytes(&fresh, room_for(wanted), size, "history"));
  if (used) memcpy(fresh, old, (size_t)used * size);
  tt_free(old);
  memcpy(array, &fresh, sizeof fresh);
  return TT_OK;
}

tt_err tt_history_add_round(tt_history *h, int64_t columns, tt_round **out)
{
  double *block = NULL;
  if (h->rounds && columns != h->columns)
    return TT_FAIL(INTERNAL, "a round of %lld columns in a history of %lld", (long long)columns,
                   (long long)h->columns);
  TT_TRY(grow(&h->round, h->rounds, h->rounds + 1, sizeof *h->round));
  TT_TRY(TT_ALLOC(block, 3 * columns));
  for (int64_t i = 0; i < 3 * columns; i++)
    block[i] = NAN;
  tt_round *r = &h->round[h->rounds++];
  *r = (tt_round){.rmse = block, .nll = block + columns, .spread = block + 2 * columns};
#define X(name, meaning) r->name = NAN;
  TT_ROUND_NUMBERS(X)
#undef X
  h->columns = columns;
  *out = r;
  return TT_OK;
}

tt_err tt_history_add_picks(tt_history *h, int64_t count, const tt_picked *pick, const double *x,
                            const double *y)
{
  int64_t n = h->picks, d = h->inputs, t = h->targets;
  TT_TRY(grow(&h->pick, n, n + count, sizeof *h->pick));
  TT_TRY(grow(&h->x, n * d, (n + count) * d, sizeof *h->x));
  TT_TRY(grow(&h->y, n * t, (n + count) * t, sizeof *h->y));
  if (count == 0) return TT_OK;
  memcpy(h->pick + n, pick, (size_t)count * sizeof *pick);
  memcpy(h->x + n * d, x, (size_t)(count * d) * sizeof *x);
  memcpy(h->y + n * t, y, (size_t)(count * t) * sizeof *y);
  h->picks += count;
  return TT_OK;
}

void tt_history_cut(tt_history *h, int64_t round)
{
  int64_t keep = round < 1 ? 0 : round - 1;
  if (keep < h->rounds) {
    free_rounds(h, keep);
    h->rounds = keep;
  }
  while (h->picks && h->pick[h->picks - 1].round > keep)
    h->picks--;
  if (h->rounds == 0) h->columns = 0;
  h->ended = -1;
}

/* ---- What is taken -----------------------------------------------------------------------------
 */

static int ascending(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

tt_err tt_history_taken(const tt_history *h, tt_taken *out)
{
  *out = (tt_taken){0};
  TT_TRY(TT_ALLOC(out->row, h->picks));
  for (int64_t i = 0; i < h->picks; i++)
    out->row[i] = h->pick[i].row;
  if (h->picks) qsort(out->row, (size_t)h->picks, sizeof *out->row, ascending);
  for (int64_t i = 0; i < h->picks; i++)
    if (i == 0 || out->row[i] != out->row[i - 1]) out->row[out->count++] = out->row[i];
  return TT_OK;
}

void tt_taken_free(tt_taken *t)
{
  tt_free(t->row);
  t->count = 0;
}

int64_t tt_taken_below(const tt_taken *t, int64_t row)
{
  int64_t low = 0, high = t->count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (t->row[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

int tt_is_taken(const tt_taken *t, int64_t row)
{
  int64_t i = tt_taken_below(t, row);
  return i < t->count && t->row[i] == row;
}
