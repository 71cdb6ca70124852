/* hash.c — the hash of everything in the data that training uses; see data_internal.h. */
#include "io/data/data_internal.h"

#include <string.h>
#include <xxhash.h>

static uint64_t hash_net_input(const tt_net_input *i, uint64_t h)
{
  const double part[] = {(double)i->column, (double)i->kind, i->level};
  h = XXH3_64bits_withSeed(part, sizeof part, h);
  return i->is_text ? XXH3_64bits_withSeed(i->name, strlen(i->name), h) : h;
}

/* Names of targets are hashed too: the configuration chooses targets by name. */
uint64_t tt_data_hash(const tt_dataset *d, const uint64_t *block, int64_t count)
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
