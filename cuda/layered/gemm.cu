/* gemm.cu — products of all members at once, by cuBLAS, in the precision of the training
 * steps; see layered_internal.cuh. */
#include "cuda/common/mma.cuh"
#include "cuda/layered/layered_internal.cuh"

enum { SPLIT_ELEMENTS = 1024 }; /* per block */

/* Floats of the largest matrix of a product on tensor cores; 0 if there is none. Whole float4,
 * so that all parts have the same alignment. */
static int64_t largest_operand(const tt_model *m, int64_t rows)
{
  int64_t most = 0;
  for (int l = 0; l < m->layers; l++) {
    int64_t in = m->layer[l].in, out = m->layer[l].out, wide = in > out ? in : out;
    if (tt_layered_is_narrow(&m->layer[l])) continue;
    if (rows * wide > most) most = rows * wide;
    if (in * out > most) most = in * out;
  }
  return (most + 3) / 4 * 4;
}

tt_err tt_layered_open_gemm(tt_engine *e)
{
  tt_layered *own = tt_layered_of(e);
  own->factor = largest_operand(&e->cohort->model, own->rows);
  if (!own->factor) return TT_OK;
  if (e->precision == TT_PRECISION_3xtf32)
    TT_TRY(
        tt_dev_alloc(&own->parts, TT_TF32_MATRICES * own->group * own->factor, "parts of factors"));
  return e->dev.blas ? TT_OK : tt_dev_open_blas(&e->dev);
}

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

/* Matrices of one cuBLAS call. */
typedef struct gemm_call {
  int64_t m, n, k;
  tt_gemm_operand a, b;
  float *c;
  int64_t c_stride;
} gemm_call;

/* c = a b + beta c for one group. */
static tt_err gemm_group(tt_engine *e, const gemm_call *p, float beta)
{
  const float one = 1.0f;
  return TT_CUBLAS(cublasSgemmStridedBatched(e->dev.blas, p->a.op, p->b.op, (int)p->m, (int)p->n,
                                             (int)p->k, &one, p->a.at, (int)p->a.ld, p->a.step,
                                             p->b.at, (int)p->b.ld, p->b.step, &beta, p->c,
                                             (int)p->m, p->c_stride, (int)tt_layered_of(e)->group));
}

/* Split one group's `x`, `count` numbers per matrix, into parts 2 `which` and 2 `which` + 1. */
static tt_err split_group(tt_engine *e, tt_gemm_operand x, int64_t count, int which,
                          tt_gemm_operand *high, tt_gemm_operand *low)
{
  const tt_layered *own = tt_layered_of(e);
  float *at = own->parts + 2 * which * own->group * own->factor;
  split_args a = {};
  a.from = x.at;
  a.high = at;
  a.low = at + own->group * own->factor;
  a.step = x.step;
  a.count = count;
  a.blocks = (int32_t)tt_grid_size(count, SPLIT_ELEMENTS);
  *high = *low = x;
  high->step = low->step = count;
  high->at = a.high;
  low->at = a.low;
  return tt_launch(split_to_tf32, (unsigned)own->group * (unsigned)a.blocks, TT_LAYERED_THREADS, 0,
                   e->dev.stream, a);
}

/* The same with three products of the parts, the small ones first. */
static tt_err gemm_group_3xtf32(tt_engine *e, const gemm_call *p)
{
  tt_gemm_operand high_a, low_a, high_b, low_b;
  gemm_call part = *p;
  TT_TRY(split_group(e, p->a, p->m * p->k, 0, &high_a, &low_a));
  TT_TRY(split_group(e, p->b, p->k * p->n, 1, &high_b, &low_b));
  part.a = low_a;
  part.b = high_b;
  TT_TRY(gemm_group(e, &part, 0.0f));
  part.a = high_a;
  part.b = low_b;
  TT_TRY(gemm_group(e, &part, 1.0f));
  part.b = high_b;
  return gemm_group(e, &part, 1.0f);
}

tt_err tt_layered_gemm(tt_engine *e, const tt_layered_pass *pass, int64_t m, int64_t n, int64_t k,
                       tt_gemm_operand a, tt_gemm_operand b, float *c, int64_t c_stride)
{
  tt_precision precision = pass->keep ? e->precision : TT_PRECISION_fp32;
  int64_t group = tt_layered_of(e)->group;
  TT_TRY(tt_dev_set_tf32(&e->dev, precision != TT_PRECISION_fp32));
  for (int64_t first = 0; first < pass->members; first += group) {
    gemm_call p = {m, n, k, a, b, c + first * c_stride, c_stride};
    p.a.at += first * a.step;
    p.b.at += first * b.step;
    TT_TRY(precision == TT_PRECISION_3xtf32 ? gemm_group_3xtf32(e, &p) : gemm_group(e, &p, 0.0f));
  }
  return TT_OK;
}
