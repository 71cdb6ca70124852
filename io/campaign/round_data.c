/* round_data.c — the data of a round of a campaign; see campaign_files.h. */
#include "io/campaign/campaign_files.h"
#include "io/data/raw_data.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct rows {
  int64_t count;
  double *x, *y, *sigma; /* sigma NULL: none */
  int8_t *split;
  uint64_t *unit; /* NULL: none */
} rows;

static void append_rows(rows *r, int64_t count, int64_t inputs, int64_t targets, const double *x,
                        const double *y, const double *sigma, const int8_t *split)
{
  if (sigma)
    memcpy(r->sigma + r->count * targets, sigma, (size_t)(count * targets) * sizeof *sigma);

  memcpy(r->x + r->count * inputs, x, (size_t)(count * inputs) * sizeof *x);
  memcpy(r->y + r->count * targets, y, (size_t)(count * targets) * sizeof *y);
  memcpy(r->split + r->count, split, (size_t)count);
  r->count += count;
}

static tt_err concatenate_local(const tt_config *cfg, const tt_dataset *b, const double *x,
                                const double *y, const double *sigma, const tt_history *h, rows *r)
{
  int64_t d = b->input.count, t = b->targets, most = b->rows + h->queries, w = sigma ? 2 * t : t;
  if (h->queries && (h->inputs != d || h->targets != w))
    return TT_FAIL(INTERNAL,
                   "queries have %" PRId64 " inputs and %" PRId64
                   " targets, but the data have %" PRId64 " and %" PRId64,
                   h->inputs, h->targets, d, w);
  TT_TRY(TT_ALLOC(r->x, most * d));
  TT_TRY(TT_ALLOC(r->y, most * t));
  TT_TRY(TT_ALLOC(r->split, most));
  if (sigma) TT_TRY(TT_ALLOC(r->sigma, most * t));
  if (b->unit) TT_TRY(TT_ALLOC(r->unit, most));
  append_rows(r, b->rows, d, t, x, y, sigma, b->split);
  if (b->unit) memcpy(r->unit, b->unit, (size_t)b->rows * sizeof *b->unit);
  /* a new label is a group of its own, or the last one in the order */
  for (int64_t i = b->rows; b->unit && i < most; i++)
    r->unit[i] = UINT64_MAX - (uint64_t)(most - i);
  for (int64_t i = 0; i < h->queries; i++)
    if (h->query[i].label_status == TT_LABEL_STATUS_labeled)
      append_rows(r, 1, d, t, h->x + i * d, h->y + i * w, sigma ? h->y + i * w + t : NULL,
                  &h->query[i].split);
  for (int64_t i = b->rows * t; sigma && i < r->count * t; i++) {
    if (isnan(r->sigma[i])) r->sigma[i] = cfg->label_sigma;
    if (!isnan(r->y[i]) && !(r->sigma[i] >= 0.0))
      return TT_FAIL(DATA,
                     "a label of target '%s' that was told has no error bar ('sd_%s'): give "
                     "label.sigma, or tell it again with --replace",
                     b->target.name[i % t], b->target.name[i % t]);
  }
  return TT_OK;
}

tt_err tt_round_data_create(tt_comm *c, const tt_config *cfg, const tt_dataset *base,
                            const double *x, const double *y, const double *sigma,
                            const tt_history *h, tt_dataset **out)
{
  rows r = {0};
  char name[128];
  snprintf(name, sizeof name,
           "data.file and the labels of the campaign (rows from %" PRId64
           " on; tutti tell --replace)",
           base->rows);
  tt_err e = tt_agree(c, concatenate_local(cfg, base, x, y, sigma, h, &r));
  if (!e) {
    const tt_raw_dataset t = {name, r.count, &base->input, &base->target, &base->scaler.net,
                              r.x,  r.y,     r.sigma,      r.split,       r.unit};
    e = tt_data_from_memory(c, cfg, &t, out);
  }
  tt_free_all(&r.x, &r.y, &r.sigma, &r.split, &r.unit);
  return e;
}
