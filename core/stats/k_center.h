/* k_center.h — candidates that lie apart from each other: nearest distances, updated with every
 * new centre, and which candidate is next. Floor 1; local.
 *
 * Candidates have positions in a list that all ranks share; a part holds some of them. What is next
 * is a key: the largest over all parts wins, of equal values that of the lower position. So the
 * same candidates are chosen however the list is dealt. Distances are between normalised inputs, in
 * float; a distance depends on its two points alone. */
#ifndef TT_DIVERSITY_H
#define TT_DIVERSITY_H
#include "core/base/err.h"

#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_apart {
  int64_t first, count; /* positions [first, first + count); below 2^32 */
  int64_t inputs;       /* D */
  float *x;             /* [D][count] */
  float *near;          /* [count] squared distance to the nearest centre; infinite = no centre yet,
                           -1 = taken */
  double *score;        /* [count] of the penalty: >= 0 */
  float *value, *seen;  /* [count] of the penalty, and the distance it was computed for */
} tt_apart;

/* score [count] of this part is copied; NULL: no penalty. Load the inputs before anything else.
 * Errors: MEM. */
tt_err tt_apart_create(int64_t first, int64_t count, int64_t inputs, const double *score,
                       tt_apart *out);
/* x [n][D] of the candidates from, from + 1, ... of this part. */
void tt_apart_load(tt_apart *a, int64_t from, int64_t n, const float *x);
void tt_apart_free(tt_apart *a); /* accepts a zeroed one */

/* n more centres [n][D]. */
void tt_apart_centres(tt_apart *a, const float *centre, int64_t n);
/* The candidate is chosen. Where it is of this part: its inputs in x [D], and 1; else 0. */
int tt_apart_take(tt_apart *a, int64_t position, float *x);

enum { TT_APART_NONE = -1 }; /* the key of a part that has nothing left */

/* k-center, greedy: the candidate furthest from all centres (Gonzalez 1985; for active learning
 * Sener & Savarese 2018). */
int64_t tt_apart_farthest(const tt_apart *a);
/* The candidate with the largest score * (1 - exp(-(d / length)^2)), d = root mean square over the
 * inputs of the difference to the nearest centre; without centre the largest score. */
int64_t tt_apart_penalised(tt_apart *a, double length);

/* The position that a key names. */
static inline int64_t tt_apart_position(int64_t key)
{
  return (int64_t)(0xFFFFFFFFu - (uint32_t)((uint64_t)key & 0xFFFFFFFFu));
}
#ifdef __cplusplus
}
#endif
#endif
