/* single_row.h — predictions of single rows, and their derivatives, with little latency. The
 * kernels compute batches of 16 rows, so that one row takes as long as 16. Here the units of a
 * layer take the place of the rows: the same kernel then computes one row, and adds in the same
 * order, so that the bits of predictions are those of tt_engine_cpu.predict. All local. */
#ifndef TT_SINGLE_ROW_H
#define TT_SINGLE_ROW_H
#include "core/model/trained_ensemble.h"
#include "core/stats/moments.h"

/* The weights of the members that predictions use, transposed. They do not change after create, so
 * that several threads may use them. */
typedef struct tt_single_row tt_single_row;

/* The ensemble is borrowed; simd as in tt_resources. *out is NULL if the weights take more than
 * 64 MiB, where memory would limit the speed, or if the networks have a front or predict
 * components of the targets. Owner: the caller.
 * Errors: MEM, UNAVAILABLE (simd). */
tt_err tt_single_row_create(const tt_trained_ensemble *m, tt_simd simd, tt_single_row **out);
void tt_single_row_destroy(tt_single_row **s); /* accepts NULL */

/* Size of `scratch`, in floats; it is 64-byte aligned and belongs to one call at a time. */
int64_t tt_single_row_scratch(const tt_single_row *s);

/* Outputs o[outputs] of the last layer of a member, by reverse differentiation also the derivatives
 * of the first `slopes` outputs by its inputs, in single precision.
 *   x    [D] normalized inputs
 *   d_o  [slopes][D], not used if slopes is 0 */
void tt_single_row_member(const tt_single_row *s, int64_t member, const float *x, int64_t slopes,
                          float *scratch, float *o, float *d_o);

/* Add the prediction of a member of weight > 0, in member order.
 *   o     [outputs] of this member
 *   dst   one row, all columns of the ensemble */
void tt_single_row_add(const tt_single_row *s, int64_t member, const float *o, float *scratch,
                       tt_moments *dst);

/* Moments of one row, overwritten, from its normalized inputs x[D]. */
void tt_single_row_predict(const tt_single_row *s, const float *x, float *scratch, tt_moments *dst);
#endif
