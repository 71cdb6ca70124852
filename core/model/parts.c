/* parts.c — see parts.h. */
#include "core/model/parts.h"

int64_t tt_part_max_rows(int64_t rows, int64_t parts)
{
  int64_t most = tt_ceil_div(tt_ceil_div(rows, TT_PART_LANES), parts) * TT_PART_LANES;
  return most < rows ? most : rows;
}

tt_slice tt_part_slice(int64_t parts, int ranks, int rank)
{
  int64_t first = parts * rank / ranks, end = parts * (rank + 1) / ranks;
  return (tt_slice){first, end - first};
}

int64_t tt_norm_blocks(int64_t params) { return tt_ceil_div(params, TT_NORM_BLOCK); }

tt_slice tt_norm_blocks_of(tt_slice segment)
{
  int64_t first = tt_norm_blocks(segment.first);
  return (tt_slice){first, tt_norm_blocks(segment.first + segment.count) - first};
}

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
  return value < least ? least : value > most ? most : value;
}

tt_slice tt_part_segment_of(tt_slice params, int ranks, int rank)
{
  int64_t last = params.first + params.count, block = params.first / TT_NORM_BLOCK;
  tt_slice blocks = tt_part_slice(tt_norm_blocks(last) - block, ranks, rank);
  int64_t first = (block + blocks.first) * TT_NORM_BLOCK;
  int64_t end = clamp(first + blocks.count * TT_NORM_BLOCK, params.first, last);
  first = clamp(first, params.first, last);
  return (tt_slice){first, end - first};
}

tt_slice tt_part_segment(int64_t params, int ranks, int rank)
{
  return tt_part_segment_of((tt_slice){0, params}, ranks, rank);
}

void tt_part_sums_push(tt_part_sums *s, int64_t index, int level)
{
  s->node[s->count].index = index;
  s->node[s->count++].level = level;
}

/* A node that ends at the last part and is a left child is also its parent. */
static void promote_last(tt_part_sums *s)
{
  int64_t *index = &s->node[s->count - 1].index;
  int *level = &s->node[s->count - 1].level;
  while (*index > 0 && *index % 2 == 0 && (*index + 1) << *level >= s->parts) {
    *index /= 2;
    ++*level;
  }
}

int tt_part_sums_merge(tt_part_sums *s)
{
  promote_last(s);
  if (s->count < 2) return 0;
  int64_t index = s->node[s->count - 1].index;
  int level = s->node[s->count - 1].level;
  if (index % 2 == 0 || s->node[s->count - 2].level != level) return 0;
  s->count -= 2;
  tt_part_sums_push(s, index / 2, level + 1);
  return 1;
}

tt_part_sums tt_part_sums_of(int64_t parts, tt_slice slice, int *most)
{
  tt_part_sums s = {.parts = parts};
  int largest = 0;
  for (int64_t i = 0; i < slice.count; i++) {
    tt_part_sums_push(&s, slice.first + i, 0);
    if (s.count > largest) largest = s.count;
    while (tt_part_sums_merge(&s)) {}
  }
  if (most) *most = largest;
  return s;
}
