/* k_center.h — candidates that lie apart from each other: nearest distances, updated with every
 * new centre, and which candidate is next. Floor 1; local.
 *
 * Candidates have positions in a list that all ranks share; a part holds some of them. What is next
 * is a key: the largest over all parts wins, of equal values that of the lower position. So the
 * same candidates are chosen however the list is dealt. Distances are between normalised inputs, in
 * float; a distance depends on its two points alone. */
#ifndef TT_K_CENTER_H
#define TT_K_CENTER_H
#include "core/base/err.h"

#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_k_center {
  int64_t first, count; /* positions [first, first + count); below 2^32 */
  int64_t inputs;       /* D */
  float *x;             /* [D][count] */
  float *min_distance;  /* [count] squared distance to the nearest centre; infinite = no centre yet,
                   -1 = taken */
  double *score;        /* [count] of the penalty: >= 0 */
  float *value, *value_distance; /* [count] of the penalty, and the distance it was computed for */
} tt_k_center;

/* score [count] of this part is copied; NULL: no penalty. Load the inputs before anything else.
 * Errors: MEM. */
tt_err tt_k_center_create(int64_t first, int64_t count, int64_t inputs, const double *score,
                          tt_k_center *out);
/* x [n][D] of the candidates from, from + 1, ... of this part. */
void tt_k_center_load(tt_k_center *a, int64_t from, int64_t n, const float *x);
void tt_k_center_free(tt_k_center *a); /* accepts a zeroed one */

/* n more centres [n][D]. */
void tt_k_center_add_centres(tt_k_center *a, const float *centre, int64_t n);
/* The candidate is chosen. Where it is of this part: its inputs in x [D], and 1; else 0. */
int tt_k_center_choose(tt_k_center *a, int64_t position, float *x);

enum { TT_K_CENTER_NONE = -1 }; /* the key of a part that has nothing left */

/* k-center, greedy: the candidate furthest from all centres (Gonzalez 1985; for active learning
 * Sener & Savarese 2018). */
int64_t tt_k_center_farthest(const tt_k_center *a);
/* The candidate with the largest score * (1 - exp(-(d / length)^2)), d = root mean square over the
 * inputs of the difference to the nearest centre; without centre the largest score. */
int64_t tt_k_center_penalised(tt_k_center *a, double length);

/* The position that a key names. */
static inline int64_t tt_k_center_position(int64_t key)
{
  return (int64_t)(0xFFFFFFFFu - (uint32_t)((uint64_t)key & 0xFFFFFFFFu));
}
#ifdef __cplusplus
}
#endif
#endif
