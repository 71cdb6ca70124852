/* rows.c — the rows of `tutti explain`; see explain_internal.h. */
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "src/explain/explain_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CHUNK_ROWS = 1024 };

/* Rows of the file as they are read. */
typedef struct chunk {
  double *y, *weight;
  float *x;
} chunk;

void tt_explain_rows_free(tt_explain_rows *r) { tt_free_all(&r->x, &r->y, &r->weight, &r->place); }

static tt_err allocate(int64_t rows, int64_t most_rows, tt_explain_rows *r)
{
  if (rows < 2)
    return TT_FAIL(USAGE,
                   "tutti explain needs at least 2 rows of a weight above 0 to permute; the file "
                   "has %" PRId64,
                   rows);
  if (rows > UINT32_MAX)
    return TT_FAIL(DATA, "%" PRId64 " rows; tutti explain reads at most %" PRIu32, rows,
                   UINT32_MAX);
  r->rows = rows < most_rows ? rows : most_rows;
  TT_TRY(TT_ALLOC(r->x, r->rows * r->net->count));
  TT_TRY(TT_ALLOC(r->y, r->rows * r->targets));
  TT_TRY(TT_ALLOC(r->weight, r->rows));
  return TT_ALLOC(r->place, r->rows);
}

static void copy_row(const chunk *src, int64_t i, int64_t row, tt_explain_rows *r)
{
  size_t net = (size_t)r->net->count, targets = (size_t)r->targets;
  memcpy(r->x + (size_t)row * net, src->x + (size_t)i * net, net * sizeof *r->x);
  memcpy(r->y + row * r->targets, src->y + i * r->targets, targets * sizeof *r->y);
  r->weight[row] = src->weight[i];
}

/* Number of rows of a weight above 0: no other row is used. */
static tt_err count_rows_local(tt_score_file *file, int64_t *rows)
{
  int64_t all = tt_data_reader_shape(file->rows)->rows, n;
  double weight[CHUNK_ROWS];
  for (int64_t first = 0; first < all; first += n) {
    n = all - first < CHUNK_ROWS ? all - first : CHUNK_ROWS;
    TT_TRY(tt_score_file_read_weights_local(file, first, n, weight));
    for (int64_t i = 0; i < n; i++) *rows += weight[i] > 0.0;
  }
  return TT_OK;
}

/* Keep those of the `rows` rows of a weight above 0 whose number in the random order is below
 * r->rows, in the order of the file. */
static tt_err read_chosen(tt_score_file *file, int64_t rows, uint64_t seed, chunk *k,
                          tt_explain_rows *r)
{
  tt_shuffle order = tt_shuffle_make((uint32_t)rows, seed, 0, TT_PURPOSE_EXPLAIN, 0);
  int64_t all = tt_data_reader_shape(file->rows)->rows, kept = 0, n;
  uint32_t seen = 0;
  for (int64_t first = 0; first < all; first += n) {
    n = all - first < CHUNK_ROWS ? all - first : CHUNK_ROWS;
    TT_TRY(tt_score_file_read_local(file, first, n, k->x, k->y, k->weight));
    for (int64_t i = 0; i < n; i++)
      if (k->weight[i] > 0.0 && tt_shuffle_at(&order, seen++) < r->rows) copy_row(k, i, kept++, r);
  }
  return TT_OK;
}

static tt_err read_local(tt_score_file *file, int64_t rows, uint64_t seed, tt_explain_rows *r)
{
  chunk k = {0};
  tt_err e = TT_ALLOC(k.x, CHUNK_ROWS * r->net->count);
  if (!e) e = TT_ALLOC(k.y, CHUNK_ROWS * r->targets);
  if (!e) e = TT_ALLOC(k.weight, CHUNK_ROWS);
  if (!e) e = read_chosen(file, rows, seed, &k, r);
  tt_free_all(&k.x, &k.y, &k.weight);
  return e;
}

/* Place p is the row where the sum of the weights reaches the fraction (p + 1/2) / rows. */
static void find_places(tt_explain_rows *r)
{
  double all = 0.0, sum = r->weight[0];
  for (int64_t i = 0; i < r->rows; i++) all += r->weight[i];
  for (int64_t p = 0, at = 0; p < r->rows; p++) {
    double fraction = ((double)p + 0.5) / (double)r->rows;
    while (sum < fraction * all && at + 1 < r->rows) sum += r->weight[++at];
    r->place[p] = at;
  }
}

tt_err tt_explain_rows_read(tt_comm *c, tt_score_file *file, const tt_explain_options *o,
                            tt_explain_rows *out)
{
  int64_t rows = 0;
  *out = (tt_explain_rows){.net = &file->first->scaler.net,
                           .inputs = file->first->scaler.inputs,
                           .targets = file->first->target.count};
  tt_err e = tt_agree(c, tt_comm_is_root(c) ? count_rows_local(file, &rows) : TT_OK);
  if (e) return e;
  tt_bcast(c, &rows, sizeof rows);
  e = tt_agree(c, allocate(rows, o->most_rows, out));
  if (!e) e = tt_agree(c, tt_comm_is_root(c) ? read_local(file, rows, o->seed, out) : TT_OK);
  if (e) return e;
  tt_bcast(c, out->x, out->rows * out->net->count * (int64_t)sizeof *out->x);
  tt_bcast(c, out->y, out->rows * out->targets * (int64_t)sizeof *out->y);
  tt_bcast(c, out->weight, out->rows * (int64_t)sizeof *out->weight);
  find_places(out);
  return TT_OK;
}
