/* device_matmul.cu — see device_matmul.cuh. */
#include "cuda/common/device_matmul.cuh"

#include "core/base/mem.h"

#include <inttypes.h>
#include <string.h>

/* Matrices of one call: a grid has 65,535 blocks in this direction. */
static const int64_t max_count = 32768;

/* What cuBLASLt needs for one shape. */
typedef struct matmul {
  tt_matmul_shape shape;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t a, b, c;
  cublasLtMatmulAlgo_t algorithm;
  struct matmul *next;
} matmul;

struct tt_blas {
  cublasLtHandle_t handle;
  matmul *first;
};

static void destroy_matmul(matmul **which)
{
  matmul *p = *which;
  if (p->operation) cublasLtMatmulDescDestroy(p->operation);
  if (p->a) cublasLtMatrixLayoutDestroy(p->a);
  if (p->b) cublasLtMatrixLayoutDestroy(p->b);
  if (p->c) cublasLtMatrixLayoutDestroy(p->c);
  tt_free(*which);
}

static void close_blas(tt_blas **b)
{
  for (matmul *p = (*b)->first, *next; p; p = next) {
    next = p->next;
    destroy_matmul(&p);
  }
  cublasLtDestroy((*b)->handle);
  tt_free(*b);
}

tt_err tt_dev_open_blas(tt_dev *d)
{
  TT_TRY(TT_ALLOC(d->blas, 1));
  tt_err e = TT_CUBLAS(cublasLtCreate(&d->blas->handle));
  d->close_blas = close_blas;
  if (e) tt_free(d->blas);
  return e;
}

int64_t tt_matmul_alignment(const float *place, int64_t step)
{
  uint64_t bits = reinterpret_cast<uintptr_t>(place) | (uint64_t)step * sizeof(float) | 16;
  return (int64_t)(bits & -bits);
}

static tt_err create_layout(cublasLtMatrixLayout_t *out, int64_t rows, int64_t columns, int64_t ld,
                            int64_t step)
{
  TT_TRY(TT_CUBLAS(
      cublasLtMatrixLayoutCreate(out, CUDA_R_32F, (uint64_t)rows, (uint64_t)columns, ld)));
  return TT_CUBLAS(cublasLtMatrixLayoutSetAttribute(
      *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step));
}

static tt_err set_count(matmul *p, int64_t count)
{
  cublasLtMatrixLayout_t all[] = {p->a, p->b, p->c};
  int32_t n = (int32_t)count;
  for (cublasLtMatrixLayout_t layout : all)
    TT_TRY(TT_CUBLAS(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                      &n, sizeof n)));
  return TT_OK;
}

static tt_err describe(matmul *p)
{
  const tt_matmul_shape *s = &p->shape;
  cublasOperation_t op_a = s->transposed_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t op_b = s->transposed_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  TT_TRY(TT_CUBLAS(cublasLtMatmulDescCreate(
      &p->operation, s->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F)));
  TT_TRY(TT_CUBLAS(cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &op_a,
                                                  sizeof op_a)));
  TT_TRY(TT_CUBLAS(cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSB, &op_b,
                                                  sizeof op_b)));
  TT_TRY(create_layout(&p->a, s->transposed_a ? s->k : s->m, s->transposed_a ? s->m : s->k, s->ld_a,
                       s->step_a));
  TT_TRY(create_layout(&p->b, s->transposed_b ? s->n : s->k, s->transposed_b ? s->k : s->n, s->ld_b,
                       s->step_b));
  TT_TRY(create_layout(&p->c, s->m, s->n, s->ld_c, s->step_c));
  return set_count(p, s->typical);
}

/* The conditions of the choice, see the head of device_matmul.cuh. */
static tt_err set_conditions(const tt_matmul_shape *s, cublasLtMatmulPreference_t conditions)
{
  uint64_t workspace = 0;
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE;
  uint32_t align[] = {(uint32_t)s->align_a, (uint32_t)s->align_b, (uint32_t)s->align_c};
  const struct {
    cublasLtMatmulPreferenceAttributes_t name;
    const void *value;
    size_t bytes;
  } all[] = {
      {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
      {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align[0], sizeof align[0]},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align[1], sizeof align[1]},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align[2], sizeof align[2]},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align[2], sizeof align[2]},
  };
  for (const auto &one : all)
    TT_TRY(TT_CUBLAS(
        cublasLtMatmulPreferenceSetAttribute(conditions, one.name, one.value, one.bytes)));
  return TT_OK;
}

static tt_err choose_algorithm(tt_blas *b, matmul *p)
{
  cublasLtMatmulPreference_t conditions = NULL;
  cublasLtMatmulHeuristicResult_t best = {};
  int found = 0;
  TT_TRY(TT_CUBLAS(cublasLtMatmulPreferenceCreate(&conditions)));
  tt_err e = set_conditions(&p->shape, conditions);
  if (!e)
    e = TT_CUBLAS(cublasLtMatmulAlgoGetHeuristic(b->handle, p->operation, p->a, p->b, p->c, p->c,
                                                 conditions, 1, &best, &found));
  cublasLtMatmulPreferenceDestroy(conditions);
  if (!e && !found)
    e = TT_FAIL(INTERNAL,
                "cuBLAS has no algorithm for products of %" PRId64 " x %" PRId64 " x %" PRId64,
                p->shape.m, p->shape.n, p->shape.k);
  p->algorithm = best.algo;
  return e;
}

/* The product of a shape, created at its first use. */
static tt_err find_matmul(tt_blas *b, const tt_matmul_shape *shape, matmul **out)
{
  for (*out = b->first; *out; *out = (*out)->next)
    if (!memcmp(&(*out)->shape, shape, sizeof *shape)) return TT_OK;
  matmul *p = NULL;
  TT_TRY(TT_ALLOC(p, 1));
  p->shape = *shape;
  tt_err e = describe(p);
  if (!e) e = choose_algorithm(b, p);
  if (e) {
    destroy_matmul(&p);
    return e;
  }
  p->next = b->first;
  *out = b->first = p;
  return TT_OK;
}

tt_err tt_dev_multiply(tt_dev *d, const tt_matmul_shape *shape, const float *a, const float *b,
                       float *c, int64_t count)
{
  const float one = 1.0f, none = 0.0f;
  matmul *p;
  TT_TRY(find_matmul(d->blas, shape, &p));
  for (int64_t left = count; left > 0; left -= max_count) {
    TT_TRY(set_count(p, left < max_count ? left : max_count));
    TT_TRY(TT_CUBLAS(cublasLtMatmul(d->blas->handle, p->operation, &one, a, p->a, b, p->b, &none, c,
                                    p->c, c, p->c, &p->algorithm, NULL, 0, d->stream)));
    a += max_count * shape->step_a;
    b += max_count * shape->step_b;
    c += max_count * shape->step_c;
  }
  return TT_OK;
}
