/* parts.h — the parts of a batch (train.parts) and the order in which their gradients are added.
 * No MPI, no CUDA.
 *
 * The parts are the leaves of a binary tree: node i of level k is the sum over the parts
 * [i 2^k, (i + 1) 2^k), cut at the last part: the sum of its two children, the left one first. A
 * node whose right child has no part is its left child. So the bits of the sum depend on the number
 * of parts, but not on who computes which parts. */
#ifndef TT_PARTS_H
#define TT_PARTS_H
#include "core/base/int.h"
#include "core/model/partition.h"
TT_BEGIN_C

enum {
  TT_MAX_PARTS = 1024,
  TT_PART_LANES = 16, /* parts are cut at multiples of this number of rows */
  /* The sum of squares of a gradient is computed in blocks, which are added in order; segments of
   * the parameters end at the end of a block. */
  TT_NORM_BLOCK = 4096,
  TT_MAX_PART_SUMS = 21 /* largest number of sums of a slice that wait for a partner */
};

/* Rows of a part: blocks of TT_PART_LANES rows are dealt evenly, so that a batch with fewer blocks
 * than parts has parts without rows; these count as gradient 0 and loss 0.
 *   rows  of the batch;  parts  >= 1 */
TT_HD tt_slice tt_part_rows(int64_t rows, int64_t parts, int64_t part)
{
  int64_t blocks = tt_ceil_div(rows, TT_PART_LANES);
  int64_t first = blocks * part / parts * TT_PART_LANES;
  int64_t end = blocks * (part + 1) / parts * TT_PART_LANES;
  tt_slice s;
  s.first = first < rows ? first : rows;
  s.count = (end < rows ? end : rows) - s.first;
  return s;
}

/* Most rows of a part, of a batch of up to `rows` rows. */
int64_t tt_part_max_rows(int64_t rows, int64_t parts);

/* The parts that rank `rank` of `ranks` computes, at most `parts` ranks; the parameters, of all or
 * of `params`, that it updates, which end at a multiple of TT_NORM_BLOCK or with the last one; the
 * blocks of TT_NORM_BLOCK parameters that `params` have. */
tt_slice tt_part_slice(int64_t parts, int ranks, int rank);
tt_slice tt_part_segment(int64_t params, int ranks, int rank);
tt_slice tt_part_segment_of(tt_slice params, int ranks, int rank);
int64_t tt_norm_blocks(int64_t params);

/* The blocks of TT_NORM_BLOCK parameters that begin in a segment: of segments that cover the
 * parameters, each block belongs to one. */
tt_slice tt_norm_blocks_of(tt_slice segment);

/* Sums of parts that are still to be added: nodes of the tree, from left to right. */
typedef struct tt_part_sums {
  int64_t parts; /* of the batch */
  int count;
  struct {
    int64_t index;
    int level;
  } node[TT_MAX_PART_SUMS];
} tt_part_sums;

/* Append a part, or a node of the tree: its number on this level. */
void tt_part_sums_push(tt_part_sums *s, int64_t index, int level);

/* If the last two sums are children of one node, replace them by it and return 1: the caller adds
 * sum `count` (after the call) to sum `count` - 1. Call it until it returns 0. */
int tt_part_sums_merge(tt_part_sums *s);

/* The sums that remain when all parts of a slice are pushed and merged; *most, unless NULL, is the
 * largest number that is pending at a time. */
tt_part_sums tt_part_sums_of(int64_t parts, tt_slice slice, int *most);
TT_END_C
#endif
