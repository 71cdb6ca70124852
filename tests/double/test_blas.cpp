/* test_blas.cpp — the double's matrix products against sums in double precision: all transposes,
 * strides, leading dimensions larger than needed. */
#include "cuda/common/device_matmul.cuh"
#include "tests/double/rig.h"

/* One product of several matrices. */
typedef struct product_case : tt_matmul_shape {
  int64_t batch;
} product_case;

static product_case make_case(int code)
{
  product_case s = {};
  s.transposed_a = code & 1;
  s.transposed_b = code & 2 ? 1 : 0;
  s.m = code & 4 ? 7 : 1;
  s.n = 5;
  s.k = code & 8 ? 9 : 1;
  int slack = code & 16 ? 3 : 0;
  s.ld_a = (s.transposed_a ? s.k : s.m) + slack;
  s.ld_b = (s.transposed_b ? s.n : s.k) + slack;
  s.ld_c = s.m + slack;
  s.batch = 3;
  s.typical = 2;
  s.step_a = s.ld_a * (s.transposed_a ? s.m : s.k) + 2 * slack;
  s.step_b = code & 32 ? 0 : s.ld_b * (s.transposed_b ? s.k : s.n); /* 0: one for all */
  s.step_c = s.ld_c * s.n + slack;
  s.align_a = s.align_b = s.align_c = sizeof(float);
  return s;
}

/* Element (row, column) of op(x), column-major. */
static double at(const float *x, int64_t transposed, int64_t ld, int64_t row, int64_t column)
{
  return transposed ? x[row * ld + column] : x[column * ld + row];
}

static double wanted(const product_case &s, const float *a, const float *b, int64_t row,
                     int64_t column)
{
  double sum = 0;
  for (int64_t i = 0; i < s.k; i++)
    sum += at(a, s.transposed_a, s.ld_a, row, i) * at(b, s.transposed_b, s.ld_b, i, column);
  return sum;
}

static std::vector<float> product(const product_case &s, const std::vector<float> &a,
                                  const std::vector<float> &b, const std::vector<float> &c)
{
  float *dev_a = on_device(a), *dev_b = on_device(b), *dev_c = on_device(c);
  TT_CHECK_OK(tt_dev_multiply(&dev, &s, dev_a, dev_b, dev_c, s.batch));
  std::vector<float> out = from_device(dev_c, (int64_t)c.size());
  tt_dev_free(dev_a);
  tt_dev_free(dev_b);
  tt_dev_free(dev_c);
  return out;
}

static void check_case(const product_case &s, double tolerance)
{
  std::vector<float> a = numbers((int)(s.step_a * s.batch)), b = numbers((int)(3 * s.ld_b * 9)),
                     c = numbers((int)(s.step_c * s.batch));
  for (float &x : c) x = NAN; /* must not be read */
  std::vector<float> got = product(s, a, b, c);
  for (int64_t i = 0; i < s.batch; i++)
    for (int64_t column = 0; column < s.n; column++)
      for (int64_t row = 0; row < s.m; row++) {
        size_t where = (size_t)(i * s.step_c + column * s.ld_c + row);
        double right = wanted(s, a.data() + i * s.step_a, b.data() + i * s.step_b, row, column);
        TT_CHECK(fabs(got[where] - right), <=, tolerance);
      }
  for (size_t k = 0; k < c.size(); k++) { /* between the columns nothing changes */
    bool inside = (int64_t)k % s.step_c < s.ld_c * s.n && (int64_t)k % s.step_c % s.ld_c < s.m;
    if (!inside) TT_CHECK(memcmp(&got[k], &c[k], sizeof(float)), ==, 0);
  }
}

TT_TEST (products_equal_sums_in_double_for_every_transpose) {
  for (int code = 0; code < 64; code++) check_case(make_case(code), 4e-6);
}

TT_TEST (tf32_rounds_the_operands_alone) {
  product_case s = make_case(4 + 8);
  std::vector<float> a = numbers(7 * 9 * 3), b = numbers(3 * 9 * 9), c(7 * 5 * 3, 0.0f);
  std::vector<float> full = product(s, a, b, c);
  s.tf32 = 1;
  std::vector<float> rounded = product(s, a, b, c);
  double largest = 0;
  for (size_t i = 0; i < full.size(); i++) largest = fmax(largest, fabs(full[i] - rounded[i]));
  TT_CHECK(largest, >, 1e-5);
  TT_CHECK(largest, <, 1e-2); /* 9 products of two numbers off by 2^-11 */
}

TT_TEST (operands_outside_their_memory_and_wrong_sizes_are_told) {
  product_case s = make_case(4 + 8);
  std::vector<float> a = numbers(7 * 9 * 3), b = numbers(3 * 9 * 9), c(7 * 5 * 3, 0.0f);
  std::vector<float> short_a(a.begin(), a.end() - 1);
  TT_CHECK_DIES("cublasLtMatmul: A", product(s, short_a, b, c));
  std::vector<float> short_c(c.begin(), c.end() - 1);
  TT_CHECK_DIES("cublasLtMatmul: C", product(s, a, b, short_c));
  s.ld_a = s.m - 1;
  float *x = on_device(a);
  TT_CHECK(tt_dev_multiply(&dev, &s, x, x, x, s.batch), ==, TT_E_INTERNAL);
  TT_CHECK_HAS(tt_err_last(), "CUBLAS_STATUS_INVALID_VALUE");
  s.ld_a = s.m;
  s.align_a = 16;
  TT_CHECK_DIES("alignment", tt_dev_multiply(&dev, &s, x + 1, x, x, s.batch));
  tt_double_fail_call(1, cudaErrorECCUncorrectable);
  TT_CHECK(tt_dev_multiply(&dev, &s, x, x, x, s.batch), ==, TT_E_UNAVAILABLE);
  TT_CHECK_HAS(tt_err_last(), "uncorrectable ECC error");
  tt_double_reset();
  tt_dev_free(x);
}

/* The bits of a matrix depend neither on the number of matrices nor on its place among them; they
 * would if the algorithm were chosen for that number. */
TT_TEST (bits_do_not_depend_on_the_number_of_matrices) {
  enum { MATRICES = 40 };
  int differences = 0;
  for (int64_t k = 20; k < 30; k++) {
    product_case s = make_case(4);
    s.k = s.ld_b = k;
    s.step_a = s.m * k;
    s.step_b = k * s.n;
    s.batch = MATRICES;
    std::vector<float> a = numbers((int)(s.step_a * MATRICES)),
                       b = numbers((int)(s.step_b * MATRICES)),
                       c((size_t)(s.step_c * MATRICES), 0.0f), all = product(s, a, b, c);
    for (int64_t count : {1, 2, 3, 17}) {
      int64_t first = MATRICES - count;
      std::vector<float> some_a(a.begin() + first * s.step_a, a.end()),
          some_b(b.begin() + first * s.step_b, b.end()), some_c((size_t)(s.step_c * count), 0.0f);
      s.batch = count;
      std::vector<float> some = product(s, some_a, some_b, some_c);
      TT_CHECK(memcmp(some.data(), all.data() + first * s.step_c, some.size() * sizeof(float)), ==,
               0);
      s.typical = count;
      some = product(s, some_a, some_b, some_c);
      differences +=
          memcmp(some.data(), all.data() + first * s.step_c, some.size() * sizeof(float)) != 0;
      s.typical = 2;
    }
  }
  TT_CHECK(differences, >, 0);
}

static int open_with_blas(void **state)
{
  return open_device(state) || tt_dev_open_blas(&dev) ? -1 : 0;
}

TT_SUITE(open_with_blas, close_device)
