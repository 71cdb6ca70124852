/* gemm.cu — products of training steps in tf32, by cuBLAS; see layered_internal.cuh.
 *
 * cuBLAS is column-major: a row-major [rows][n] is its n x rows, a weight matrix [out][in] its in x
 * out, so that no product needs a transposed copy:
 *   Z = W X         out x rows   (in x out)^T  (in x rows)
 *   dL/dX = W^T D   in x rows    (in x out)    (out x rows)
 *   gradient        in x out     (in x rows)   (out x rows)^T */
#include "cuda/common/device_matmul.cuh"
#include "cuda/layered/layered_internal.cuh"

enum {
  TYPICAL_TILES = 128, /* tiles of 128 x 128 values: about one per multiprocessor */
  LEAST_TYPICAL = 4,
  MOST_TYPICAL = 64
};

int tt_layered_uses_gemm(const tt_engine *e, const tt_layered_pass *pass, const tt_layer *layer)
{
  return pass->keep && e->precision != TT_PRECISION_fp32 && !tt_layered_is_narrow(layer);
}

int tt_layered_opens_gemm(const tt_engine *e)
{
  const tt_model *m = &e->cohort->model;
  int wide = 0;
  for (int l = 0; l < m->layers; l++) wide += !tt_layered_is_narrow(&m->layer[l]);
  return e->precision != TT_PRECISION_fp32 && wide > 0;
}

/* Members for which cuBLAS chooses its algorithms: they fill a GPU once. */
static int64_t typical_members(const tt_cohort *c)
{
  const int64_t side = 128, most_rows = 65536;
  int64_t widest = 1, members = LEAST_TYPICAL;
  int64_t rows = c->batch_size < most_rows ? c->batch_size : most_rows;
  for (int l = 0; l < c->model.layers; l++)
    if (c->model.layer[l].out > widest) widest = c->model.layer[l].out;
  int64_t tiles = tt_ceil_div(rows, side) * tt_ceil_div(widest, side);
  while (members * tiles < TYPICAL_TILES && members < MOST_TYPICAL) members *= 2;
  return members;
}

tt_err tt_layered_open_gemm(tt_engine *e)
{
  tt_layered *own = tt_layered_of(e);
  if (!tt_layered_opens_gemm(e)) return TT_OK;
  own->typical = typical_members(e->cohort);
  return e->dev.blas ? TT_OK : tt_dev_open_blas(&e->dev);
}

/* One matrix per member: column-major, `step` floats from one member to the next. */
typedef struct gemm_operand {
  const float *at;
  int64_t ld, step;
  int64_t transposed; /* 1: the product uses the transpose */
} gemm_operand;

/* c [m x n] = a [m x k] b [k x n] for the members of the pass. */
static tt_err multiply(tt_engine *e, const tt_layered_pass *pass, int64_t m, int64_t n, int64_t k,
                       gemm_operand a, gemm_operand b, float *c, int64_t c_stride)
{
  const tt_layered *own = tt_layered_of(e);
  tt_matmul_shape shape = {m,
                           n,
                           k,
                           a.transposed,
                           b.transposed,
                           a.ld,
                           b.ld,
                           m,
                           a.step,
                           b.step,
                           c_stride,
                           tt_matmul_alignment(a.at, a.step),
                           tt_matmul_alignment(b.at, b.step),
                           tt_matmul_alignment(c, c_stride),
                           1,
                           own->typical};
  return tt_dev_multiply(&e->dev, &shape, a.at, b.at, c, pass->members);
}

static gemm_operand operand(const tt_factor &f, int64_t transposed)
{
  gemm_operand o = {f.at, f.ld, f.step, transposed};
  return o;
}

tt_err tt_layered_gemm_forward(tt_engine *e, const tt_layered_pass *pass, const tt_product_args &a)
{
  return multiply(e, pass, a.n, a.m, a.k, operand(a.right, 1), operand(a.left, 0), a.result,
                  a.step);
}

tt_err tt_layered_gemm_backward(tt_engine *e, const tt_layered_pass *pass, const tt_product_args &a)
{
  return multiply(e, pass, a.n, a.m, a.k, operand(a.right, 0), operand(a.left, 0), a.result,
                  a.step);
}

tt_err tt_layered_gemm_gradient(tt_engine *e, const tt_layered_pass *pass, const tt_product_args &a)
{
  return multiply(e, pass, a.n, a.m, a.k, operand(a.right, 0), operand(a.left, 1), a.result,
                  a.step);
}
