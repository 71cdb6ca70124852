/* gemm.cu — products of training steps in tf32 and 3xtf32, by cuBLAS; see layered_internal.cuh.
 *
 * cuBLAS is column-major: a row-major [rows][n] is its n x rows, a weight matrix [out][in] its in x
 * out, so that no product needs a transposed copy:
 *   Z = W X         out x rows   (in x out)^T  (in x rows)
 *   dL/dX = W^T D   in x rows    (in x out)    (out x rows)
 *   gradient        in x out     (in x rows)   (out x rows)^T */
#include "cuda/common/device_matmul.cuh"
#include "cuda/common/mma.cuh"
#include "cuda/layered/layered_internal.cuh"

enum {
  SPLIT_ELEMENTS = 1024, /* per block */
  TYPICAL_TILES = 128,   /* tiles of 128 x 128 values: about one per multiprocessor */
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

typedef struct split_args {
  const float *from; /* [members][step], the first `count` are used */
  float *high, *low; /* [members][count] */
  int64_t step, count;
  int32_t blocks; /* per member */
} split_args;

static __global__ void split_to_tf32(split_args a)
{
  int64_t member = (int64_t)(blockIdx.x / (unsigned)a.blocks);
  int64_t first = (int64_t)(blockIdx.x % (unsigned)a.blocks) * SPLIT_ELEMENTS;
  int64_t end = first + SPLIT_ELEMENTS < a.count ? first + SPLIT_ELEMENTS : a.count;
  for (int64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
    tt_mma_fragment<1> part;
    tt_mma_round_fragment<TT_PRECISION_3xtf32>(0, a.from[member * a.step + i], part);
    a.high[member * a.count + i] = part.high[0];
    a.low[member * a.count + i] = part.low[0];
  }
}

/* Split the factors `x` of `members` members, `count` numbers each, into parts 2 `which` and
 * 2 `which` + 1. */
static tt_err split_factor(tt_engine *e, gemm_operand x, int64_t count, int which, int64_t members,
                           const float *part[2])
{
  const tt_layered *own = tt_layered_of(e);
  float *at = own->parts + 2 * which * own->size.split_members * own->size.factor;
  split_args a = {};
  a.from = x.at;
  a.high = at;
  a.low = at + own->size.split_members * own->size.factor;
  a.step = x.step;
  a.count = count;
  a.blocks = (int32_t)tt_grid_size(count, SPLIT_ELEMENTS);
  part[0] = a.high;
  part[1] = a.low;
  return tt_launch(split_to_tf32, (unsigned)members * (unsigned)a.blocks, TT_LAYERED_THREADS, 0,
                   e->dev.stream, a);
}

/* The product of 3xtf32 for `members` members: three products of the parts, the small ones
 * first. */
static tt_err gemm_3xtf32(tt_engine *e, tt_matmul_shape shape, gemm_operand a, gemm_operand b,
                          float *c, int64_t members)
{
  const float *part_a[2], *part_b[2];
  shape.step_a = shape.m * shape.k;
  shape.step_b = shape.k * shape.n;
  TT_TRY(split_factor(e, a, shape.step_a, 0, members, part_a));
  TT_TRY(split_factor(e, b, shape.step_b, 1, members, part_b));
  shape.align_a = tt_matmul_alignment(part_a[0], shape.step_a);
  shape.align_b = tt_matmul_alignment(part_b[0], shape.step_b);
  TT_TRY(tt_dev_multiply(&e->dev, &shape, part_a[1], part_b[0], 0.0f, c, members));
  TT_TRY(tt_dev_multiply(&e->dev, &shape, part_a[0], part_b[1], 1.0f, c, members));
  return tt_dev_multiply(&e->dev, &shape, part_a[0], part_b[0], 1.0f, c, members);
}

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
  if (e->precision != TT_PRECISION_3xtf32)
    return tt_dev_multiply(&e->dev, &shape, a.at, b.at, 0.0f, c, pass->members);
  const int64_t most = own->size.split_members;
  for (int64_t first = 0; first < pass->members; first += most) {
    int64_t left = pass->members - first;
    TT_TRY(gemm_3xtf32(e, shape, a, b, c, left < most ? left : most));
    a.at += most * a.step;
    b.at += most * b.step;
    c += most * c_stride;
  }
  return TT_OK;
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
