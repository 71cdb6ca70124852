/* eigen.h — eigenvalues and eigenvectors of a symmetric matrix, with one row per target. Each rank
 * computes them and must get the same bits; LAPACK libraries choose their code by the processor, so
 * that nodes of two kinds would differ. All local. */
#ifndef TT_EIGEN_H
#define TT_EIGEN_H
#include "core/base/err.h"

#include <stdint.h>

/* By Householder reflections and the implicit QL method (Martin, Reinsch & Wilkinson 1968; Bowdler
 * et al. 1968; EISPACK tred2 and tql2), about 10 n^3 operations. The same bits in each call.
 *   a      [n][n] symmetric, finite; becomes the eigenvectors: row i belongs to value[i], length 1,
 *          its largest component is positive
 *   value  [n] descending
 * Errors: MEM, INTERNAL (no convergence). */
tt_err tt_eigen_symmetric(int64_t n, double *a, double *value);
#endif
