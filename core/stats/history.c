/* history.c — see history.h. */
#include "core/stats/history.h"

#include "core/base/mem.h"
#include "core/base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const tt_stage_name[] = {TT_STAGES(TT_ROW_NAME) NULL};

tt_err tt_history_create(int64_t inputs, int64_t targets, tt_history **out)
{
  *out = NULL;
  TT_TRY(TT_ALLOC(*out, 1));
  (*out)->inputs = inputs;
  (*out)->targets = targets;
  (*out)->ended = -1;
  return TT_OK;
}

/* rmse, nll and spread share one allocation, which begins with rmse. */
static void free_rounds(tt_history *h, int64_t begin)
{
  for (int64_t i = begin; i < h->rounds; i++) tt_free(h->round[i].rmse);
}

void tt_history_destroy(tt_history **h)
{
  if (!*h) return;
  free_rounds(*h, 0);
  tt_free_all(&(*h)->round, &(*h)->query, &(*h)->x, &(*h)->y, h);
}

/* Capacity for at least `n` elements: a power of two, so that appending is amortised O(1). */
static int64_t capacity_for(int64_t n)
{
  int64_t capacity = 16;
  while (capacity < n) capacity *= 2;
  return capacity;
}

/* Grow the block with `used` elements to hold `wanted`; array: address of the pointer to the block.
 */
static tt_err reserve(void *array, int64_t used, int64_t wanted, size_t size)
{
  void *old, *new_block = NULL;
  memcpy(&old, array, sizeof old);
  if (old && capacity_for(wanted) == capacity_for(used)) return TT_OK;
  TT_TRY(tt_alloc_bytes(&new_block, capacity_for(wanted), size, "history"));
  if (used) memcpy(new_block, old, (size_t)used * size);
  tt_free(old);
  memcpy(array, &new_block, sizeof new_block);
  return TT_OK;
}

tt_err tt_history_add_round(tt_history *h, int64_t columns, tt_round **out)
{
  double *block = NULL;
  if (h->rounds && columns != h->columns)
    return TT_FAIL(INTERNAL, "a round has %lld columns, its history %lld", (long long)columns,
                   (long long)h->columns);
  TT_TRY(reserve(&h->round, h->rounds, h->rounds + 1, sizeof *h->round));
  TT_TRY(TT_ALLOC(block, 3 * columns));
  for (int64_t i = 0; i < 3 * columns; i++) block[i] = NAN;
  tt_round *r = &h->round[h->rounds++];
  *r = (tt_round){.rmse = block, .nll = block + columns, .spread = block + 2 * columns};
#define X(name, meaning) r->name = NAN;
  TT_ROUND_NUMBERS(X)
#undef X
  h->columns = columns;
  *out = r;
  return TT_OK;
}

tt_err tt_history_add_queries(tt_history *h, int64_t count, const tt_query *query, const double *x,
                              const double *y)
{
  int64_t n = h->queries, d = h->inputs, t = h->targets;
  TT_TRY(reserve(&h->query, n, n + count, sizeof *h->query));
  TT_TRY(reserve(&h->x, n * d, (n + count) * d, sizeof *h->x));
  TT_TRY(reserve(&h->y, n * t, (n + count) * t, sizeof *h->y));
  h->queries += count;
  if (count == 0 || !query) return TT_OK;
  memcpy(h->query + n, query, (size_t)count * sizeof *query);
  memcpy(h->x + n * d, x, (size_t)(count * d) * sizeof *x);
  memcpy(h->y + n * t, y, (size_t)(count * t) * sizeof *y);
  return TT_OK;
}

void tt_history_truncate(tt_history *h, int64_t round)
{
  int64_t keep = round < 1 ? 0 : round - 1;
  if (keep < h->rounds) {
    free_rounds(h, keep);
    h->rounds = keep;
  }
  while (h->queries && h->query[h->queries - 1].round > keep) h->queries--;
  if (h->rounds == 0) h->columns = 0;
  h->ended = -1;
}

/* Used rows */

tt_err tt_history_used_rows(const tt_history *h, tt_used_rows *out)
{
  *out = (tt_used_rows){0};
  TT_TRY(TT_ALLOC(out->row, h->queries));
  for (int64_t i = 0; i < h->queries; i++) out->row[i] = h->query[i].row;
  if (h->queries) qsort(out->row, (size_t)h->queries, sizeof *out->row, tt_compare_i64);
  for (int64_t i = 0; i < h->queries; i++)
    if (i == 0 || out->row[i] != out->row[i - 1]) out->row[out->count++] = out->row[i];
  return TT_OK;
}

void tt_used_rows_free(tt_used_rows *t)
{
  tt_free(t->row);
  t->count = 0;
}

int64_t tt_used_rows_below(const tt_used_rows *t, int64_t row)
{
  return tt_lower_bound(&row, t->row, t->count, sizeof *t->row, tt_compare_i64);
}

int tt_is_row_used(const tt_used_rows *t, int64_t row)
{
  int64_t i = tt_used_rows_below(t, row);
  return i < t->count && t->row[i] == row;
}
