/* kernels_body.h — the loops of kernels.h, compiled once per instruction set.
 *
 * The including file defines: VECTOR (a vector type of WIDTH floats, 16 a multiple of WIDTH),
 * FMA(a, b, c) on it, the register tiles PRODUCT_OUT x PRODUCT_ROWS (vectors), GRAD_OUT x GRAD_IN
 * and 1 x GRAD_LINE (each at most 16), SUMS_OUT (outputs at a time of the gradient of few rows; not
 * for a WIDTH below 8), KERNEL_TABLE (name of the table), KERNEL_NAME, ARITHMETIC.
 */
#include "src/cpu/kernels/kernels.h"

#include "core/formulas/layer_norm.h"

#include <string.h>

#define REGISTERS (TT_LANES / WIDTH) /* registers of 16 lanes */
#define INLINE static inline __attribute__((always_inline))

/* The order matters: fragments use functions of earlier ones. */
/* clang-format off */
#include "src/cpu/kernels/kernels_gemm_body.h"
#include "src/cpu/kernels/kernels_layers_body.h"
#include "src/cpu/kernels/kernels_front_body.h"
#include "src/cpu/kernels/kernels_conv_gradient_body.h"
#include "src/cpu/kernels/kernels_batch_norm_body.h"
#include "src/cpu/kernels/kernels_loss_body.h"
#include "src/cpu/kernels/kernels_optimizer_body.h"
#include "src/cpu/kernels/kernels_sampler_body.h"
/* clang-format on */

const tt_kernels KERNEL_TABLE = {
    .name = KERNEL_NAME,
    .arithmetic = ARITHMETIC,
    .product = product,
    .weight_gradient = weight_gradient,
    .activate = activate,
    .loss = loss,
    .step = step,
    .square_sum = square_sum,
    .order = order,
    .gather = gather,
    .norm = norm,
    .norm_gradient = norm_gradient,
    .moments = moments,
    .normalize = normalize,
    .delta_sums = delta_sums,
    .normalize_gradient = normalize_gradient,
    .drop = drop,
    .add = add,
    .times = times,
    .convolve = convolve,
    .convolve_gradient = convolve_gradient,
    .pool = pool,
    .pool_gradient = pool_gradient,
};
