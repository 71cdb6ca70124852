/* round_data.c — the initial data of a campaign, and the data of its rounds; see campaign_files.h.
 */
#include "io/campaign/campaign_files.h"
#include "io/data/raw_data.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <string.h>

static tt_err move_dataset_local(tt_dataset *d, tt_initial_data **out)
{
  tt_initial_data *b = NULL;
  TT_TRY(TT_ALLOC(b, 1));
  *out = b;
  b->rows = d->rows;
  b->inputs = d->scaler.inputs;
  b->targets = d->targets;
  b->hash = d->hash;
  b->split = d->split;
  b->unit = d->unit;
  b->net = d->scaler.net;
  d->split = NULL;
  d->unit = NULL;
  d->scaler.net = (tt_net_inputs){0};
  TT_TRY(tt_columns_copy(&d->input, &b->input));
  return tt_columns_copy(&d->target, &b->target);
}

tt_err tt_initial_data_read(tt_comm *c, const tt_config *cfg, tt_initial_data **out)
{
  tt_dataset *d = NULL;
  tt_initial_data *b = NULL;
  double *x = NULL, *y = NULL;
  *out = NULL;
  tt_err e = tt_data_read_raw(c, cfg, &d, &x, &y);
  if (!e) e = tt_agree(c, move_dataset_local(d, &b));
  if (!e) {
    b->x = x;
    b->y = y;
    *out = b;
  } else {
    tt_free(x);
    tt_free(y);
    tt_initial_data_destroy(&b);
  }
  tt_dataset_destroy(&d);
  return e;
}

void tt_initial_data_destroy(tt_initial_data **d)
{
  tt_initial_data *b = *d;
  if (!b) return;
  tt_free_all(&b->x, &b->y, &b->split, &b->unit);
  tt_columns_free(&b->input);
  tt_columns_free(&b->target);
  tt_net_inputs_free(&b->net);
  tt_free(*d);
}

/* The data of a round */

typedef struct rows {
  int64_t count;
  double *x, *y;
  int8_t *split;
  uint64_t *unit; /* NULL: none */
} rows;

static void append_rows(rows *r, int64_t count, int64_t inputs, int64_t targets, const double *x,
                        const double *y, const int8_t *split)
{
  memcpy(r->x + r->count * inputs, x, (size_t)(count * inputs) * sizeof *x);
  memcpy(r->y + r->count * targets, y, (size_t)(count * targets) * sizeof *y);
  memcpy(r->split + r->count, split, (size_t)count);
  r->count += count;
}

static tt_err concatenate_local(const tt_initial_data *b, const tt_history *h, rows *r)
{
  int64_t d = b->inputs, t = b->targets, most = b->rows + h->queries;
  if (h->queries && (h->inputs != d || h->targets != t))
    return TT_FAIL(INTERNAL,
                   "queries have %" PRId64 " inputs and %" PRId64
                   " targets, but the data have %" PRId64 " and %" PRId64,
                   h->inputs, h->targets, d, t);
  TT_TRY(TT_ALLOC(r->x, most * d));
  TT_TRY(TT_ALLOC(r->y, most * t));
  TT_TRY(TT_ALLOC(r->split, most));
  if (b->unit) TT_TRY(TT_ALLOC(r->unit, most));
  append_rows(r, b->rows, d, t, b->x, b->y, b->split);
  if (b->unit) memcpy(r->unit, b->unit, (size_t)b->rows * sizeof *b->unit);
  /* a new label is a group of its own, or the last one in the order */
  for (int64_t i = b->rows; b->unit && i < most; i++)
    r->unit[i] = UINT64_MAX - (uint64_t)(most - i);
  for (int64_t i = 0; i < h->queries; i++)
    if (h->query[i].label_status == TT_LABEL_STATUS_labeled)
      append_rows(r, 1, d, t, h->x + i * d, h->y + i * t, &h->query[i].split);
  return TT_OK;
}

tt_err tt_round_data_create(tt_comm *c, const tt_config *cfg, const tt_initial_data *base,
                            const tt_history *h, tt_dataset **out)
{
  rows r = {0};
  tt_err e = tt_agree(c, concatenate_local(base, h, &r));
  if (!e) {
    const tt_raw_dataset t = {"data.file and the labels of the campaign",
                              r.count,
                              &base->input,
                              &base->target,
                              &base->net,
                              r.x,
                              r.y,
                              r.split,
                              r.unit};
    e = tt_data_from_memory(c, cfg, &t, out);
  }
  tt_free_all(&r.x, &r.y, &r.split, &r.unit);
  return e;
}
