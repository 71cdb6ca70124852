/* test_blas.cpp — the double's matrix products against sums in double precision: all transposes,
 * strides, leading dimensions larger than needed, alpha and beta. */
#include "tests/double/rig.h"

/* One product of a batch. Shapes and places as in cublasSgemmStridedBatched. */
typedef struct shape {
  cublasOperation_t op_a, op_b;
  int m, n, k, lda, ldb, ldc, batch;
  long long stride_a, stride_b, stride_c;
  float alpha, beta;
} shape;

static shape make_shape(int code)
{
  shape s = {};
  s.op_a = code & 1 ? CUBLAS_OP_T : CUBLAS_OP_N;
  s.op_b = code & 2 ? CUBLAS_OP_T : CUBLAS_OP_N;
  s.m = code & 4 ? 7 : 1;
  s.n = 5;
  s.k = code & 8 ? 9 : 1;
  int slack = code & 16 ? 3 : 0;
  s.lda = (s.op_a == CUBLAS_OP_N ? s.m : s.k) + slack;
  s.ldb = (s.op_b == CUBLAS_OP_N ? s.k : s.n) + slack;
  s.ldc = s.m + slack;
  s.batch = 3;
  s.stride_a = s.lda * (s.op_a == CUBLAS_OP_N ? s.k : s.m) + 2 * slack;
  s.stride_b = code & 32 ? 0 : s.ldb * (s.op_b == CUBLAS_OP_N ? s.n : s.k); /* 0: one for all */
  s.stride_c = s.ldc * s.n + slack;
  s.alpha = 1.25f;
  s.beta = code & 64 ? -0.5f : 0.0f;
  return s;
}

/* Element (row, column) of op(x), column-major. */
static double at(const float *x, cublasOperation_t op, int ld, int row, int column)
{
  return op == CUBLAS_OP_N ? x[column * ld + row] : x[row * ld + column];
}

static double wanted(const shape &s, const float *a, const float *b, float old, int row, int column)
{
  double sum = 0;
  for (int i = 0; i < s.k; i++)
    sum += at(a, s.op_a, s.lda, row, i) * at(b, s.op_b, s.ldb, i, column);
  return s.alpha * sum + (s.beta == 0.0f ? 0.0 : (double)s.beta * old);
}

static std::vector<float> product(const shape &s, const std::vector<float> &a,
                                  const std::vector<float> &b, const std::vector<float> &c)
{
  float *dev_a = on_device(a), *dev_b = on_device(b), *dev_c = on_device(c);
  TT_CHECK_OK(TT_CUBLAS(cublasSgemmStridedBatched(
      dev.blas, s.op_a, s.op_b, s.m, s.n, s.k, &s.alpha, dev_a, s.lda, s.stride_a, dev_b, s.ldb,
      s.stride_b, &s.beta, dev_c, s.ldc, s.stride_c, s.batch)));
  std::vector<float> out = from_device(dev_c, (int64_t)c.size());
  tt_dev_free(dev_a);
  tt_dev_free(dev_b);
  tt_dev_free(dev_c);
  return out;
}

static void check_shape(const shape &s, double tolerance)
{
  std::vector<float> a = numbers((int)(s.stride_a * s.batch)), b = numbers(3 * s.ldb * 9),
                     c = numbers((int)(s.stride_c * s.batch));
  if (s.beta == 0.0f)
    for (float &x : c) x = NAN; /* must not be read */
  std::vector<float> got = product(s, a, b, c);
  for (int i = 0; i < s.batch; i++)
    for (int column = 0; column < s.n; column++)
      for (int row = 0; row < s.m; row++) {
        size_t where = (size_t)(i * s.stride_c + column * s.ldc + row);
        double right =
            wanted(s, a.data() + i * s.stride_a, b.data() + i * s.stride_b, c[where], row, column);
        TT_CHECK(fabs(got[where] - right), <=, tolerance);
      }
  for (size_t k = 0; k < c.size(); k++) { /* between the columns nothing changes */
    bool inside =
        (int64_t)k % s.stride_c < s.ldc * s.n && (int)((int64_t)k % s.stride_c) % s.ldc < s.m;
    if (!inside) TT_CHECK(memcmp(&got[k], &c[k], sizeof(float)), ==, 0);
  }
}

TT_TEST (products_equal_sums_in_double_for_every_transpose) {
  for (int code = 0; code < 128; code++) check_shape(make_shape(code), 4e-6);
}

TT_TEST (tf32_rounds_the_operands_alone) {
  shape s = make_shape(4 + 8);
  std::vector<float> a = numbers(7 * 9 * 3), b = numbers(3 * 9 * 9), c(7 * 5 * 3, 0.0f);
  std::vector<float> full = product(s, a, b, c);
  TT_CHECK_OK(tt_dev_set_tf32(&dev, 1));
  std::vector<float> rounded = product(s, a, b, c);
  TT_CHECK_OK(tt_dev_set_tf32(&dev, 0));
  double largest = 0;
  for (size_t i = 0; i < full.size(); i++) largest = fmax(largest, fabs(full[i] - rounded[i]));
  TT_CHECK(largest, >, 1e-5);
  TT_CHECK(largest, <, 1e-2); /* 9 products of two numbers off by 2^-11 */
}

TT_TEST (operands_outside_their_memory_and_wrong_sizes_are_told) {
  shape s = make_shape(4 + 8);
  std::vector<float> a = numbers(7 * 9 * 3), b = numbers(3 * 9 * 9), c(7 * 5 * 3, 0.0f);
  std::vector<float> short_a(a.begin(), a.end() - 1);
  TT_CHECK_DIES("cublasSgemm: A", product(s, short_a, b, c));
  std::vector<float> short_c(c.begin(), c.end() - 1);
  TT_CHECK_DIES("cublasSgemm: C", product(s, a, b, short_c));
  s.lda = s.m - 1;
  float *x = on_device(a);
  TT_CHECK(TT_CUBLAS(cublasSgemm(dev.blas, s.op_a, s.op_b, s.m, s.n, s.k, &s.alpha, x, s.lda, x,
                                 s.ldb, &s.beta, x, s.ldc)),
           ==, TT_E_INTERNAL);
  TT_CHECK_HAS(tt_err_last(), "CUBLAS_STATUS_INVALID_VALUE");
  tt_double_fail_call(1, cudaErrorECCUncorrectable);
  TT_CHECK(TT_CUBLAS(cublasSetMathMode(dev.blas, CUBLAS_DEFAULT_MATH)), ==, TT_E_UNAVAILABLE);
  TT_CHECK_HAS(tt_err_last(), "uncorrectable ECC error");
  tt_double_reset();
  tt_dev_free(x);
}

static int open_with_blas(void **state)
{
  return open_device(state) || tt_dev_open_blas(&dev) ? -1 : 0;
}

TT_SUITE(open_with_blas, close_device)
