/* test_block.cpp — threads of a block: races change results, correct kernels do not depend on the
 * schedule, impossible barriers are reported, warp functions and sums give the right values. */
#include "tests/double/formulas.cuh"
#include "tests/double/sample.cuh"

#include "tests/double/rig.h"

enum { BLOCKS = 3, THREADS = 96, N = BLOCKS * THREADS };

/* Hashes of the kernel's results, schedule by schedule. */
static std::vector<uint64_t> results_of(void (*kernel)(sample_args))
{
  std::vector<uint64_t> hashes;
  float *in = on_device(numbers(N)), *out = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&out, N, "result"));
  for (const schedule &s : schedules) {
    use_schedule(s);
    sample_args a = {out, in, N, 9};
    TT_CHECK_OK(tt_launch(kernel, BLOCKS, THREADS, THREADS * sizeof(float), dev.stream, a));
    hashes.push_back(hash_of(from_device(out, N)));
  }
  tt_double_reset();
  tt_dev_free(in);
  tt_dev_free(out);
  return hashes;
}

TT_TEST (a_right_kernel_gives_the_same_bits_in_every_schedule) {
  for (auto kernel : {neighbors<true>, warp_neighbors<true>, sums_in_a_row<true>})
    for (uint64_t hash : results_of(kernel)) TT_CHECK(hash, ==, results_of(kernel)[0]);
}

TT_TEST (a_missing_barrier_gives_other_bits_in_every_other_schedule) {
  for (auto kernel : {neighbors<false>, warp_neighbors<false>, sums_in_a_row<false>}) {
    std::vector<uint64_t> hashes = results_of(kernel);
    for (size_t i = 1; i < hashes.size(); i++) TT_CHECK(hashes[i], !=, hashes[0]);
    for (size_t i = 0; i < hashes.size(); i++) TT_CHECK(hashes[i], ==, results_of(kernel)[i]);
  }
}

/* Result of the kernel with a race, which depends on the schedule. */
static uint64_t trace_of_schedule(void)
{
  float *in = on_device(numbers(N)), *out = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&out, N, "result"));
  sample_args a = {out, in, N, 9};
  TT_CHECK_OK(tt_launch(neighbors<false>, BLOCKS, THREADS, 512, dev.stream, a));
  uint64_t hash = hash_of(from_device(out, N));
  tt_dev_free(in);
  tt_dev_free(out);
  return hash;
}

TT_TEST (the_environment_chooses_the_schedule) {
  uint64_t forward = trace_of_schedule();
  tt_double_set_schedule(TT_DOUBLE_RANDOM, 7);
  uint64_t random = trace_of_schedule();
  setenv("TT_DOUBLE_SCHEDULE", "random:7", 1);
  tt_double_reset();
  TT_CHECK(trace_of_schedule(), ==, random);
  unsetenv("TT_DOUBLE_SCHEDULE");
  tt_double_reset();
  TT_CHECK(trace_of_schedule(), ==, forward);
  TT_CHECK(forward, !=, random);
}

/* Check one schedule's results of `sums` against the host's. */
static void check_sums(const std::vector<float> &in, const sum_args &a)
{
  std::vector<float> warp = from_device(a.warp, N), block = from_device(a.block, N);
  std::vector<double> squares = from_device(a.block_double, N);
  std::vector<unsigned> ballot = from_device(a.ballot, N);
  std::vector<int> count = from_device(a.count, N);
  std::vector<float> swapped[4];
  for (int k = 0; k < 4; k++) swapped[k] = from_device(a.swapped[k], N);
  for (int i = 0; i < N; i++) {
    int lane = i % 32, warp0 = i - lane, block0 = i / THREADS * THREADS;
    double warp_sum = 0, block_sum = 0, square_sum = 0;
    unsigned bits = 0;
    int positive = 0;
    for (int j = 0; j < 32; j++) {
      warp_sum += in[(size_t)(warp0 + j)];
      bits |= (in[(size_t)(warp0 + j)] > 0.0f ? 1u : 0u) << j;
    }
    for (int j = block0; j < block0 + THREADS; j++) {
      double x = in[(size_t)j];
      block_sum += x;
      square_sum += x * x;
      positive += x > 0.0;
    }
    size_t at = (size_t)i;
    TT_CHECK(fabs(warp[at] - warp_sum), <, 1e-5);
    TT_CHECK(fabs(block[at] - block_sum), <, 1e-5);
    TT_CHECK(fabs(squares[at] - square_sum), <, 1e-12);
    TT_CHECK(block[at], ==, block[(size_t)block0]); /* the same bits in every thread */
    TT_CHECK(ballot[at], ==, bits);
    TT_CHECK(count[at], ==, positive);
    TT_CHECK(swapped[0][at], ==, in[(size_t)(warp0 + (lane ^ 5))]);
    TT_CHECK(swapped[1][at], ==, in[(size_t)(warp0 + (lane & ~7) + 3)]);
    TT_CHECK(swapped[2][at], ==, in[(size_t)(lane >= 2 ? i - 2 : i)]);
    TT_CHECK(swapped[3][at], ==, in[(size_t)(lane % 16 < 14 ? i + 2 : i)]);
  }
}

TT_TEST (sums_and_shuffles_are_those_of_the_host_and_the_same_bits_in_every_schedule) {
  std::vector<float> in = numbers(N);
  sum_args a = {};
  a.in = on_device(in);
  TT_CHECK_OK(tt_dev_alloc(&a.warp, N, "sums"));
  TT_CHECK_OK(tt_dev_alloc(&a.block, N, "sums"));
  TT_CHECK_OK(tt_dev_alloc(&a.block_double, N, "sums"));
  TT_CHECK_OK(tt_dev_alloc(&a.ballot, N, "votes"));
  TT_CHECK_OK(tt_dev_alloc(&a.count, N, "votes"));
  for (int k = 0; k < 4; k++) TT_CHECK_OK(tt_dev_alloc(&a.swapped[k], N, "shuffles"));
  uint64_t first = 0;
  for (const schedule &s : schedules) {
    use_schedule(s);
    TT_CHECK_OK(tt_launch(sums, BLOCKS, THREADS, TT_MAX_WARPS * sizeof(double), dev.stream, a));
    check_sums(in, a);
    uint64_t hash = hash_of(from_device(a.block, N)) ^ hash_of(from_device(a.block_double, N));
    if (!first) first = hash;
    TT_CHECK(hash, ==, first);
  }
  tt_double_reset();
  tt_dev_free(a.in);
  tt_dev_free(a.warp);
  tt_dev_free(a.block);
  tt_dev_free(a.block_double);
  tt_dev_free(a.ballot);
  tt_dev_free(a.count);
  for (int k = 0; k < 4; k++) tt_dev_free(a.swapped[k]);
}

static tt_err launch_and_wait(void (*kernel)(sample_args), int threads, sample_args a)
{
  TT_TRY(tt_launch(kernel, 1, threads, 256, dev.stream, a));
  return tt_stream_synchronize(dev.stream);
}

TT_TEST (impossible_barriers_are_reported_with_their_place) {
  float *out = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&out, 64, "result"));
  sample_args a = {out, nullptr, 40, 0};
  TT_CHECK_DIES("different barriers: __syncthreads", launch_and_wait(two_barriers, 64, a));
  TT_CHECK_DIES("sample.cuh", launch_and_wait(two_barriers, 64, a));
  TT_CHECK_DIES("deadlock", launch_and_wait(half_a_warp, 64, a));
  TT_CHECK_DIES("test_block.cpp", launch_and_wait(half_a_warp, 64, a));
  TT_CHECK_DIES("no multiple of 32", launch_and_wait(half_a_warp, 48, a));
  TT_CHECK_OK(launch_and_wait(early_end, 64, a));
  a.n = 32; /* whole warps may take another branch */
  TT_CHECK_OK(launch_and_wait(half_a_warp, 64, a));
  std::vector<float> sums_or_ones = from_device(out, 64);
  TT_CHECK(sums_or_ones[0], ==, 32.0f);
  TT_CHECK(sums_or_ones[63], ==, 1.0f);
  tt_dev_free(out);
}

TT_TEST (shared_memory_is_poisoned_and_bounded) {
  void *raw = nullptr;
  TT_CHECK(cudaMalloc(&raw, 64 * sizeof(float)), ==, cudaSuccess);
  float *out = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&out, 128, "result"));
  sample_args a = {out, static_cast<float *>(raw), 64, 0};
  TT_CHECK_OK(launch_and_wait(read_unwritten, 64, a));
  for (float x : from_device(out, 128)) TT_CHECK(isnan(x), !=, 0);
  a.n = 63;
  TT_CHECK_OK(launch_and_wait(write_shared, 64, a));
  a.n = 64;
  TT_CHECK_DIES("behind the block's 256 bytes of shared memory",
                launch_and_wait(write_shared, 64, a));
  a.n = -1;
  TT_CHECK_DIES("before the block's shared memory", launch_and_wait(write_shared, 64, a));
  TT_CHECK_DIES("0 bytes", (void)tt_launch(write_shared, 1, 64, 0, dev.stream, a));
  TT_CHECK(cudaFree(raw), ==, cudaSuccess);
  tt_dev_free(out);
}

TT_TEST (a_queue_hands_out_every_item_once) {
  enum { ITEMS = 37 };
  for (const schedule &s : schedules) {
    queue_args a = {nullptr, nullptr, ITEMS};
    use_schedule(s);
    TT_CHECK_OK(tt_dev_alloc(&a.next, 1, "queue"));
    TT_CHECK_OK(tt_dev_alloc(&a.taken, ITEMS, "queue"));
    TT_CHECK_OK(tt_launch(pull, 4, 64, sizeof(int), dev.stream, a));
    for (int times : from_device(a.taken, ITEMS)) TT_CHECK(times, ==, 1);
    tt_dev_free(a.next);
    tt_dev_free(a.taken);
  }
  tt_double_reset();
}

TT_TEST (formulas_are_the_same_in_kernels_and_on_the_host) {
  formula_args a = {};
  a.order.epoch = tt_shuffle_make(200, 5, 6, TT_PURPOSE_SHUFFLE, 0);
  a.order.subset = tt_shuffle_make(300, 5, 6, TT_PURPOSE_RESAMPLE, 0);
  a.order.labeled = 300;
  a.step = {1e-3f, 1e-4f, 1e-2f, 0.9f, 1.0f, 0.9f, 0.999f, 1e-8f, 0.0f, 0.0f};
  a.loss = {1e-6f, 0.5f, 1.0f, 0.5f};
  TT_CHECK_OK(tt_dev_alloc(&a.out, N, "results"));
  TT_CHECK_OK(tt_launch(formulas, 2, THREADS, 0, dev.stream, a));
  std::vector<formula_results> got = from_device(a.out, 2 * THREADS);
  for (uint32_t i = 0; i < 2 * THREADS; i++) {
    formula_results wanted = formulas_at(a, i);
    TT_CHECK(memcmp(&got[i], &wanted, sizeof wanted), ==, 0);
  }
  tt_dev_free(a.out);
}

TT_SUITE(open_device, close_device)
