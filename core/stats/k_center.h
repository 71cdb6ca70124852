/* k_center.h — greedy k-center selection: candidates that are far from each other. Keeps the
 * distance of each candidate to the nearest center and finds the next candidate. Local.
 *
 * A candidate has a position in a list over all ranks; a part holds some of the list. The next
 * candidate of a part is given as a key: the caller chooses the largest key over all parts; for
 * equal values the lower position has the larger key. So the result does not depend on how the list
 * is distributed. Distances are between normalized inputs, in float; a distance depends only on its
 * two points. */
#ifndef TT_K_CENTER_H
#define TT_K_CENTER_H
#include "core/base/err.h"

#include <stdint.h>
TT_BEGIN_C

typedef struct tt_k_center {
  int64_t first, count;          /* positions [first, first + count); below 2^32 */
  int64_t inputs;                /* D */
  float *x;                      /* [D][count] */
  float *min_distance;           /* [count] squared distance to the nearest center; infinite = no
                                  * center yet, -1 = already chosen */
  double *score;                 /* [count] >= 0, for the penalty */
  float *value, *value_distance; /* [count] penalized score, and the distance it was computed for */
} tt_k_center;

/* score [count] of this part is copied; NULL: no penalty. Call tt_k_center_load before the others.
 * Errors: MEM. */
tt_err tt_k_center_create(int64_t first, int64_t count, int64_t inputs, const double *score,
                          tt_k_center *out);
/* x [n][D] of the candidates from, from + 1, ... of this part. */
void tt_k_center_load(tt_k_center *a, int64_t begin, int64_t n, const float *x);
void tt_k_center_free(tt_k_center *a); /* accepts a zeroed one */

/* Add n centers [n][D]. */
void tt_k_center_add_centers(tt_k_center *a, const float *center, int64_t n);
/* Mark a candidate as chosen. If it is in this part: copy its inputs to x [D] and return 1; else 0.
 */
int tt_k_center_choose(tt_k_center *a, int64_t position, float *x);

enum { TT_K_CENTER_NONE = -1 }; /* the key of a part without candidates */

/* k-center, greedy: the candidate furthest from all centers (Gonzalez 1985; for active learning
 * Sener & Savarese 2018). */
int64_t tt_k_center_farthest(const tt_k_center *a);
/* The candidate with the largest score * (1 - exp(-(d / length)^2)), d = root mean square over the
 * inputs of the difference to the nearest center; without centers the largest score. */
int64_t tt_k_center_penalized(tt_k_center *a, double length);

/* The position in a key. */
static inline int64_t tt_k_center_position(int64_t key)
{
  return (int64_t)(0xFFFFFFFFu - (uint32_t)((uint64_t)key & 0xFFFFFFFFu));
}
TT_END_C
#endif
