/* test_memory.cpp — device memory: poisoned, bounded, not accessible by the host; errors with a
 * remedy; injected faults. */
#include "tests/double/rig.h"
#include "tests/double/sample.cuh"

enum { N = 100 };

TT_TEST (blocks_are_zeroed_and_copies_go_there_and_back) {
  std::vector<float> in = numbers(N);
  float *a = nullptr, *b = nullptr, *pinned = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&a, N, "a"));
  for (float x : from_device(a, N)) TT_CHECK(x, ==, 0.0f);
  TT_CHECK_OK(tt_dev_alloc(&b, N, "b"));
  TT_CHECK_OK(tt_pinned_alloc(&pinned, N, "pinned"));
  TT_CHECK(tt_dev_memory_allocated().device_bytes, ==, (int64_t)(2 * N * sizeof(float)));
  TT_CHECK(tt_dev_memory_allocated().pinned_blocks, ==, 1);
  memcpy(pinned, in.data(), N * sizeof(float));
  TT_CHECK_OK(tt_dev_upload(a, pinned, N, dev.stream));
  TT_CHECK_OK(tt_dev_copy(b + 10, a + 20, 30, dev.stream));
  TT_CHECK_OK(tt_dev_zero(b + 15, 2, dev.stream));
  std::vector<float> out = from_device(b, N);
  for (int i = 0; i < N; i++) {
    bool copied = i >= 10 && i < 40 && i != 15 && i != 16;
    TT_CHECK(out[(size_t)i], ==, copied ? in[(size_t)(i + 10)] : 0.0f);
  }
  tt_dev_free(a);
  tt_dev_free(b);
  tt_pinned_free(pinned);
  TT_CHECK(a == nullptr, ==, true);
}

TT_TEST (empty_blocks_are_valid_and_sizes_are_checked) {
  float *a = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&a, 0, "nothing"));
  TT_CHECK(a != nullptr, ==, true);
  TT_CHECK_OK(tt_dev_upload(a, (const float *)nullptr, 0, dev.stream));
  tt_dev_free(a);
  tt_dev_free(a);
  TT_CHECK(tt_dev_alloc(&a, INT64_MAX / 2, "too much"), ==, TT_E_MEM);
  TT_CHECK_HAS(tt_err_last(), "too much");
}

TT_TEST (copies_outside_an_allocation_stop_the_program) {
  std::vector<float> host((size_t)N + 1);
  float *a = nullptr, *b = nullptr, *pinned = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&a, N, "a"));
  TT_CHECK_OK(tt_dev_alloc(&b, N, "b"));
  TT_CHECK_OK(tt_pinned_alloc(&pinned, N, "pinned"));
  TT_CHECK_DIES("bytes 0 to 404 of allocation", tt_dev_upload(a, host.data(), N + 1, dev.stream));
  TT_CHECK_DIES("bytes 4 to 404", tt_dev_download(host.data(), a + 1, N, dev.stream));
  TT_CHECK_DIES("bytes 200 to 404", tt_dev_zero(a + 50, 51, dev.stream));
  TT_CHECK_DIES("host memory where device memory",
                tt_dev_upload(host.data(), host.data() + 1, 1, dev.stream));
  TT_CHECK_DIES("device memory where host memory", tt_dev_download(a, b, 1, dev.stream));
  TT_CHECK_DIES("of a pinned block", tt_dev_download(pinned + 1, b, N, dev.stream));
  TT_CHECK_DIES("overlap", tt_dev_copy(a, a + 1, 2, dev.stream));
  TT_CHECK_DIES("no longer", cudaFree(b), tt_dev_upload(b, host.data(), 1, dev.stream));
  TT_CHECK_DIES("cudaFree", cudaFree(b), cudaFree(b));
  TT_CHECK_DIES("cudaFree", cudaFree(host.data()));
  TT_CHECK_DIES("cudaFreeHost", cudaFreeHost(host.data()));
  tt_dev_free(a);
  tt_dev_free(b);
  tt_pinned_free(pinned);
}

TT_TEST (the_host_cannot_touch_device_memory) {
  volatile float *a = nullptr;
  float *block = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&block, N, "a"));
  a = block;
  TT_CHECK_DIES("the host touched device memory", a[3] = 1.0f);
  TT_CHECK_DIES("the host touched device memory", if (a[3] > 0.0f) puts("read"));
  tt_dev_free(block);
}

static tt_err fill_and_wait(float *out, int n)
{
  fill_args a = {out, 2.0f, n};
  TT_TRY(tt_launch(fill, tt_grid_size(n, 128), 128, 0, dev.stream, a));
  return tt_stream_synchronize(dev.stream);
}

TT_TEST (kernels_cannot_leave_their_arrays) {
  float host[N], *a = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&a, N, "a"));
  TT_CHECK_OK(fill_and_wait(a, N));
  TT_CHECK(from_device(a, N)[N - 1], ==, 2.0f);
  TT_CHECK_DIES("written behind allocation", fill_and_wait(a, N + 1));
  TT_CHECK_DIES("tt_launch(fill", fill_and_wait(a, N + 1));
  TT_CHECK_DIES("written before allocation", fill_and_wait(a - 1, N));
  TT_CHECK_DIES("host memory", fill_and_wait(host, N));
  tt_dev_free(a);
}

TT_TEST (a_misaligned_vector_stops_the_program) {
  float *a = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&a, N, "a"));
  for (int words : {2, 4})
    for (int offset = 0; offset <= 8; offset++) {
      vector_args v = {a, offset, words};
      auto copy = [&] { return tt_launch(copy_vector, 1, 32, 128, dev.stream, v); };
      if (offset % words == 0)
        TT_CHECK_OK(copy());
      else
        TT_CHECK_DIES("which is not a multiple of", (void)copy());
    }
  tt_dev_free(a);
}

TT_TEST (out_of_memory_names_sizes_and_knobs) {
  float *a = nullptr;
  tt_double_set_memory(1 << 20);
  TT_CHECK(tt_dev_alloc(&a, 1 << 20, "weights of 300 members"), ==, TT_E_MEM);
  TT_CHECK(a == nullptr, ==, true);
  for (const char *part : {"GPU 0 (test double", "0.00 GiB wanted for weights of 300 members",
                           "more ranks", "train.batch_size", "fewer members per rank"})
    TT_CHECK_HAS(tt_err_last(), part);
  tt_double_fail_alloc(2);
  float *b = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&a, 8, "first"));
  TT_CHECK(tt_dev_alloc(&b, 8, "second"), ==, TT_E_MEM);
  TT_CHECK_OK(tt_dev_alloc(&b, 8, "third"));
  tt_dev_free(a);
  tt_dev_free(b);
  TT_CHECK(cudaGetLastError(), ==, cudaSuccess); /* reported once, not again by the next launch */
  tt_double_reset();
}

/* Open, allocate, launch, copy, close; every step may fail. */
static tt_err whole_round(void)
{
  tt_dev d;
  float *a = nullptr, back[N];
  tt_err e = tt_dev_open(0, &d);
  if (!e) e = tt_dev_alloc(&a, N, "a");
  fill_args args = {a, 1.0f, N};
  if (!e) e = tt_launch(fill, 1, 128, 0, d.stream, args);
  if (!e) e = tt_dev_download_sync(back, a, N, d.stream);
  tt_dev_free(a);
  tt_dev_close(&d);
  return e;
}

TT_TEST (an_error_at_any_call_comes_back_and_nothing_is_lost) {
  tt_double_counts before = tt_double_count();
  TT_CHECK_OK(whole_round());
  int64_t calls = tt_double_count().calls - before.calls;
  TT_CHECK(calls, >, 10);
  for (int64_t n = 1; n <= calls; n++) {
    bool closing = n > calls - 3; /* closing reports no error, but must free everything */
    tt_double_fail_call(n, cudaErrorECCUncorrectable);
    tt_err e = whole_round();
    if (!closing) {
      TT_CHECK(e, ==, TT_E_UNAVAILABLE);
      TT_CHECK_HAS(tt_err_last(), "cudaErrorECCUncorrectable");
      TT_CHECK_HAS(tt_err_last(), "the checkpoint is whole: run again");
    }
    tt_double_reset();
    tt_double_counts after = tt_double_count();
    TT_CHECK(after.buffers, ==, before.buffers);
    TT_CHECK(after.streams, ==, before.streams);
  }
}

TT_TEST (an_error_of_the_device_sticks) {
  float *a = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&a, N, "a"));
  tt_double_fail_call(2, cudaErrorLaunchFailure);
  TT_CHECK_OK(tt_dev_zero(a, N, dev.stream));
  TT_CHECK(tt_stream_synchronize(dev.stream), ==, TT_E_INTERNAL);
  TT_CHECK_HAS(tt_err_last(), "unspecified launch failure");
  TT_CHECK_HAS(tt_err_last(), "run again");
  TT_CHECK(tt_dev_zero(a, N, dev.stream), ==, TT_E_INTERNAL);
  TT_CHECK(cudaGetLastError(), ==, cudaErrorLaunchFailure);
  tt_double_reset();
  TT_CHECK_OK(tt_dev_zero(a, N, dev.stream));
  tt_dev_free(a);
}

TT_TEST (devices_are_counted_and_described) {
  tt_dev d, other;
  int count = -1;
  tt_double_set_devices(2);
  TT_CHECK_OK(tt_dev_count(&count));
  TT_CHECK(count, ==, 2);
  TT_CHECK_OK(tt_dev_describe(0, &d));
  TT_CHECK_OK(tt_dev_describe(1, &other));
  TT_CHECK_HAS(d.uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
  TT_CHECK(strcmp(d.uuid, other.uuid), !=, 0);
  TT_CHECK(d.capability, ==, 90);
  TT_CHECK(d.multiprocessors, ==, 132);
  TT_CHECK(d.shared_bytes, ==, 227 * 1024);
  TT_CHECK(tt_dev_open(2, &d), ==, TT_E_UNAVAILABLE);
  TT_CHECK_HAS(tt_err_last(), "GPU 2 was requested, 2 found");
  tt_double_set_devices(0);
  TT_CHECK_OK(tt_dev_count(&count));
  TT_CHECK(count, ==, 0);
  TT_CHECK(tt_dev_open(0, &d), ==, TT_E_UNAVAILABLE);
  TT_CHECK_HAS(tt_err_last(), "run.device: cpu");
  tt_dev_close(&d);
  tt_double_reset();
}

/* The end of the child: blocks that it still holds make it fail, freed ones do not. */
static void end_with(bool leak)
{
  float *a = nullptr;
  if (tt_dev_alloc(&a, N, "a")) exit(2);
  if (!leak) tt_dev_free(a);
  tt_dev_close(&dev);
  exit(0);
}

TT_TEST (blocks_that_are_not_freed_are_reported_at_the_end) {
  TT_CHECK_DIES("not given back at the end: 1 buffers (400 bytes)", end_with(true));
  std::string said = output_of_aborted([] { end_with(false); });
  TT_CHECK(said.empty(), ==, true);
}

TT_SUITE(open_device, close_device)
