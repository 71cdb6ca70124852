/* test_launch.cpp — launches: the double refuses whatever a GPU refuses, with the same error; the
 * limit of dynamic shared memory belongs to a kernel, and no launch takes it from another. */
#include "tests/double/cluster_sample.cuh"

#include "tests/double/rig.h"

enum { N = 1024, KIB = 1024 };

static float *out, *in;

static cudaError_t raw_launch(dim3 grid, dim3 block, size_t shared_bytes)
{
  sample_args a = {out, nullptr, 0, 0};
  void *list[] = {&a};
  cudaError_t e = cudaLaunchKernel(write_shared, grid, block, list, shared_bytes, dev.stream);
  TT_CHECK(cudaGetLastError(), ==, e);
  return e;
}

static cudaError_t raw_cluster(unsigned x, unsigned y, unsigned blocks, size_t shared_bytes)
{
  ring_args a = {out, in, (int)x, 1};
  cudaLaunchAttribute size;
  cudaLaunchConfig_t config = tt_cluster_launch_config((int)x, blocks, 64, shared_bytes, &size);
  size.val.clusterDim.y = y;
  config.stream = dev.stream;
  cudaError_t e = cudaLaunchKernelEx(&config, ring<true>, a);
  TT_CHECK(cudaGetLastError(), ==, e);
  return e;
}

static void set_limit(int bytes, cudaError_t expected)
{
  cudaError_t e =
      cudaFuncSetAttribute(write_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  TT_CHECK(e, ==, expected);
  cudaGetLastError();
}

static void describe(int registers, int static_bytes)
{
  tt_double_set_kernel(reinterpret_cast<void (*)()>(write_shared), registers, static_bytes);
}

static int blocks_of(int threads, size_t shared_bytes)
{
  int blocks = -1;
  TT_CHECK(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, write_shared, threads, shared_bytes),
      ==, cudaSuccess);
  return blocks;
}

TT_TEST (dimensions_beyond_the_limits_are_refused) {
  const cudaError_t bad = cudaErrorInvalidConfiguration;
  const dim3 one(1), grids[] = {dim3(0),        dim3(1, 0),        dim3(1, 1, 0),
                                dim3(1, 65536), dim3(1, 1, 65536), dim3(1u << 31)};
  const dim3 blocks[] = {dim3(0),      dim3(32, 0),   dim3(32, 1, 0), dim3(1025),
                         dim3(32, 33), dim3(1, 1025), dim3(1, 1, 65)};
  for (dim3 grid : grids) TT_CHECK(raw_launch(grid, dim3(32), 64), ==, bad);
  for (dim3 block : blocks) TT_CHECK(raw_launch(one, block, 64), ==, bad);
  TT_CHECK(raw_launch(one, dim3(32, 32), 64), ==, cudaSuccess);
  TT_CHECK(raw_launch(dim3(1, 2, 2), dim3(1, 1, 64), 64), ==, cudaSuccess);
}

TT_TEST (clusters_beyond_the_limits_are_refused) {
  TT_CHECK(raw_cluster(16, 1, 16, 256), ==, cudaErrorInvalidClusterSize);
  TT_CHECK(raw_cluster(0, 1, 16, 256), ==, cudaErrorInvalidClusterSize);
  TT_CHECK(raw_cluster(2, 2, 16, 256), ==, cudaErrorInvalidClusterSize);
  TT_CHECK(raw_cluster(4, 1, 6, 256), ==, cudaErrorInvalidConfiguration);
  TT_CHECK(raw_cluster(4, 1, 8, 256), ==, cudaSuccess);
  TT_CHECK(raw_cluster(2, 1, 2, 48 * KIB + 1), ==, cudaErrorInvalidValue);
}

TT_TEST (shared_memory_needs_the_attribute_of_the_kernel) {
  TT_CHECK(raw_launch(1, 64, 48 * KIB), ==, cudaSuccess);
  TT_CHECK(raw_launch(1, 64, 48 * KIB + 1), ==, cudaErrorInvalidValue);
  TT_CHECK(blocks_of(64, 48 * KIB + 1), ==, 0);
  set_limit(100 * KIB, cudaSuccess);
  TT_CHECK(raw_launch(1, 64, 100 * KIB), ==, cudaSuccess);
  TT_CHECK(raw_launch(1, 64, 100 * KIB + 1), ==, cudaErrorInvalidValue);
  TT_CHECK(blocks_of(64, 100 * KIB), ==, 2);
  set_limit(20 * KIB, cudaSuccess); /* the attribute also lowers the limit */
  TT_CHECK(raw_launch(1, 64, 20 * KIB), ==, cudaSuccess);
  TT_CHECK(raw_launch(1, 64, 20 * KIB + 1), ==, cudaErrorInvalidValue);
  set_limit(227 * KIB, cudaSuccess);
  set_limit(227 * KIB + 1, cudaErrorInvalidValue);
  set_limit(-1, cudaErrorInvalidValue);
  TT_CHECK(raw_launch(1, 64, 227 * KIB), ==, cudaSuccess);
  set_limit(48 * KIB, cudaSuccess);
}

TT_TEST (static_shared_memory_and_registers_count) {
  describe(64, 8 * KIB);
  set_limit(219 * KIB, cudaSuccess);
  set_limit(219 * KIB + 1, cudaErrorInvalidValue);
  TT_CHECK(raw_launch(1, 64, 219 * KIB), ==, cudaSuccess);
  TT_CHECK(raw_launch(1, 1024, 64), ==, cudaSuccess);
  describe(65, 0);
  TT_CHECK(raw_launch(1, 1024, 64), ==, cudaErrorLaunchOutOfResources);
  TT_CHECK(blocks_of(1024, 64), ==, 0);
  TT_CHECK(raw_launch(1, 896, 64), ==, cudaSuccess); /* 28 warps of 72 * 32 registers */
  describe(255, 0);
  TT_CHECK(raw_launch(1, 256, 64), ==, cudaSuccess);
  TT_CHECK(blocks_of(128, 64), ==, 2);
  TT_CHECK(raw_launch(1, 257, 64), ==, cudaErrorLaunchOutOfResources);
  tt_double_reset();
  TT_CHECK(raw_launch(1, 1024, 64), ==, cudaSuccess);
  set_limit(48 * KIB, cudaSuccess);
}

static tt_err launch_write(size_t shared_bytes)
{
  sample_args a = {out, nullptr, 0, 0};
  return tt_launch(write_shared, 1, 64, shared_bytes, dev.stream, a);
}

TT_TEST (the_layer_never_takes_shared_memory_from_another_launch) {
  const size_t sizes[] = {30 * KIB, 20 * KIB, 48 * KIB, 100 * KIB, 60 * KIB, 227 * KIB, KIB};
  int64_t most = 0;
  for (size_t prepared : sizes) {
    TT_CHECK_OK(tt_dev_max_active_blocks(&dev, write_shared, 64, prepared, &most));
    TT_CHECK(most, ==, dev.multiprocessors * (int64_t)blocks_of(64, prepared));
    for (size_t bytes : sizes) TT_CHECK_OK(launch_write(bytes));
  }
  for (size_t prepared : sizes) {
    ring_args a = {out, in, 2, 1};
    TT_CHECK_OK(tt_launch_cluster(ring<true>, 2, 2, 64, prepared, dev.stream, a));
    TT_CHECK_OK(tt_launch_cluster(ring<true>, 2, 2, 64, 40 * KIB, dev.stream, a));
  }
  TT_CHECK_OK(tt_stream_synchronize(dev.stream));
}

TT_TEST (a_refused_launch_names_itself_and_the_error) {
  TT_CHECK(launch_write((size_t)dev.shared_bytes + 1), ==, TT_E_INTERNAL);
  TT_CHECK_HAS(tt_err_last(), "tt_launch(write_shared, 1, 64, shared_bytes, dev.stream, a)");
  TT_CHECK_HAS(tt_err_last(), "cudaErrorInvalidValue");
  ring_args a = {out, in, 4, 1};
  TT_CHECK(tt_launch_cluster(ring<true>, 4, 6, 64, 256, dev.stream, a), ==, TT_E_INTERNAL);
  TT_CHECK_HAS(tt_err_last(), "tt_launch_cluster(ring<true>, 4, 6, 64, 256, dev.stream, a)");
  TT_CHECK_HAS(tt_err_last(), "cudaErrorInvalidConfiguration");
  a.ranks = 8; /* the largest cluster with the largest memory */
  TT_CHECK_OK(tt_launch_cluster(ring<true>, 8, 8, 64, (size_t)dev.shared_bytes, dev.stream, a));
}

static int open_with_arrays(void **state)
{
  if (open_device(state)) return -1;
  in = on_device(numbers(N));
  return tt_dev_alloc(&out, 4 * N, "result") ? -1 : 0;
}

static int free_arrays(void **state)
{
  tt_dev_free(in);
  tt_dev_free(out);
  return close_device(state);
}

TT_SUITE(open_with_arrays, free_arrays)
