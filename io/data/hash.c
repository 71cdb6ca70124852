/* hash.c — the hash of everything in the data that training uses, and those of rows; see
 * data_internal.h. */
#include "io/data/data_internal.h"

#include "core/base/mem.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

static uint64_t hash_net_input(const tt_net_input *i, uint64_t h)
{
  const double part[] = {(double)i->column, (double)i->kind, i->level};
  h = XXH3_64bits_withSeed(part, sizeof part, h);
  return i->is_text ? XXH3_64bits_withSeed(i->name, strlen(i->name), h) : h;
}

static uint64_t hash_dataset(const tt_dataset *d, const uint64_t *block, int64_t count)
{
  const int64_t shape[] = {d->rows, d->scaler.inputs, d->targets, d->weight != NULL};
  uint64_t h = XXH3_64bits(shape, sizeof shape);
  h = XXH3_64bits_withSeed(block, (size_t)count * sizeof *block, h);
  h = XXH3_64bits_withSeed(d->split, (size_t)d->rows, h);
  if (d->selections) h = XXH3_64bits_withSeed(d->selected, (size_t)(d->selections * d->rows), h);
  if (d->unit) h = XXH3_64bits_withSeed(d->unit, (size_t)d->rows * sizeof *d->unit, h);
  for (int64_t i = 0; !tt_net_inputs_are_amounts(&d->scaler.net) && i < d->inputs; i++)
    h = hash_net_input(&d->scaler.net.at[i], h);
  for (int64_t k = 0; k < d->targets; k++)
    h = XXH3_64bits_withSeed(d->target.name[k], strlen(d->target.name[k]), h);
  return h;
}

static uint64_t hash_part(const tt_fit_rows *p, int64_t block)
{
  int64_t begin, rows;
  tt_fit_block(p, block, &begin, &rows);
  return XXH3_64bits(p->own + begin * p->columns, (size_t)(rows * p->columns) * sizeof *p->own);
}

tt_err tt_data_gather_hash(tt_comm *c, const tt_fit_rows *part, int64_t parts, tt_dataset *d)
{
  uint64_t *mine = NULL, *all = NULL;
  int64_t hashes = part->block.count * parts;
  tt_err e = TT_ALLOC(mine, hashes);
  if (!e) e = TT_ALLOC(all, part->blocks * parts);
  e = tt_agree(c, e);
  if (!e) {
    for (int64_t i = 0; i < hashes; i++) mine[i] = hash_part(&part[i % parts], i / parts);
    tt_allgatherv(c, mine, hashes * (int64_t)sizeof *mine, all, NULL);
    d->hash = hash_dataset(d, all, part->blocks * parts);
  }
  tt_free_all(&mine, &all);
  return e;
}

tt_err tt_data_row_keys_local(int64_t count, int64_t inputs, const double *x, tt_row_key *key)
{
  double *row = NULL;
  TT_TRY(TT_ALLOC(row, inputs));
  for (int64_t r = 0; r < count; r++, x += inputs) {
    for (int64_t k = 0; k < inputs; k++) row[k] = isnan(x[k]) ? (double)NAN : x[k] + 0.0;
    XXH128_hash_t h = XXH3_128bits(row, (size_t)inputs * sizeof *row);
    key[r] = (tt_row_key){h.low64, h.high64};
  }
  tt_free(row);
  return TT_OK;
}

tt_err tt_data_gather_row_keys(tt_comm *c, const tt_fit_rows *x, int64_t rows, tt_row_key **key)
{
  tt_row_key *mine = NULL;
  tt_err e = TT_ALLOC(mine, x->count);
  if (!e) e = TT_ALLOC(*key, rows);
  if (!e) e = tt_data_row_keys_local(x->count, x->columns, x->own, mine);
  e = tt_agree(c, e);
  if (!e) tt_allgatherv(c, mine, x->count * (int64_t)sizeof *mine, *key, NULL);
  tt_free(mine);
  return e;
}
