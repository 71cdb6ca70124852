/* test_cluster.cpp — blocks of a cluster: their own memory and barriers, barriers of the cluster,
 * access to the memory of other blocks while they run; missing barriers and impossible operations
 * are reported. */
#include "tests/double/cluster_sample.cuh"

#include "tests/double/rig.h"

enum { RANKS = 4, CLUSTERS = 2, THREADS = 64, N = CLUSTERS * RANKS * THREADS };
static const size_t shared_bytes = THREADS * sizeof(float);

static tt_err run(void (*kernel)(ring_args), ring_args a)
{
  unsigned blocks = (unsigned)(N / THREADS / RANKS * a.ranks);
  TT_TRY(tt_launch_cluster(kernel, a.ranks, blocks, THREADS, shared_bytes, dev.stream, a));
  return tt_stream_synchronize(dev.stream);
}

/* Hashes of the kernel's results, schedule by schedule. */
static std::vector<uint64_t> results_of(void (*kernel)(ring_args), std::vector<float> *last)
{
  std::vector<uint64_t> hashes;
  float *in = on_device(numbers(N)), *out = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&out, N, "result"));
  for (const schedule &s : schedules) {
    use_schedule(s);
    TT_CHECK_OK(run(kernel, {out, in, RANKS, 9}));
    *last = from_device(out, N);
    hashes.push_back(hash_of(*last));
  }
  tt_double_reset();
  tt_dev_free(in);
  tt_dev_free(out);
  return hashes;
}

/* The expected result of the kernel `ring`. */
static std::vector<float> ring_on_the_host()
{
  std::vector<float> now = numbers(N), then;
  for (int step = 0; step < 9; step++) {
    then = now;
    for (int i = 0; i < N; i++) {
      int block = i / THREADS, next = block / RANKS * RANKS + (block + 1) % RANKS;
      float far = then[(size_t)(next * THREADS + i % THREADS)];
      now[(size_t)i] = 0.75f * then[(size_t)i] + 0.25f * far;
    }
  }
  return now;
}

TT_TEST (a_right_kernel_gives_the_right_bits_in_every_schedule) {
  std::vector<float> got, want = ring_on_the_host();
  for (uint64_t hash : results_of(ring<true>, &got)) TT_CHECK(hash, ==, hash_of(want));
}

TT_TEST (a_missing_barrier_of_the_cluster_gives_other_bits) {
  std::vector<float> last;
  std::vector<uint64_t> hashes = results_of(ring<false>, &last);
  for (size_t i = 1; i < hashes.size(); i++) TT_CHECK(hashes[i], !=, hashes[0]);
  TT_CHECK(results_of(ring<false>, &last)[3], ==, hashes[3]);
}

TT_TEST (ranks_have_memories_and_barriers_of_their_own) {
  std::vector<float> got;
  std::vector<uint64_t> hashes = results_of(independent_ranks, &got);
  for (uint64_t hash : hashes) TT_CHECK(hash, ==, hashes[0]);
  for (int i = 0; i < N; i++) {
    int rank = i / THREADS % RANKS;
    TT_CHECK(got[(size_t)i], ==, (float)(100 * rank + 1 + rank));
  }
}

TT_TEST (memory_of_an_ended_rank_cannot_be_accessed) {
  float *out = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&out, N, "result"));
  ring_args a = {out, nullptr, 2, 5};
  TT_CHECK_DIES("shared memory of rank 0, which has ended", (void)run(ends_too_early, a));
  TT_CHECK_DIES("rank 0 of a cluster after it had ended", (void)run(writes_late, a));
  tt_double_set_schedule(TT_DOUBLE_REVERSE, 1); /* rank 1 is in time, by chance */
  TT_CHECK_DIES("rank 0 has ended without a barrier", (void)run(ends_too_early, a));
  tt_double_reset();
  tt_dev_free(out);
}

TT_TEST (impossible_cluster_operations_are_reported) {
  float *out = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&out, N, "result"));
  ring_args a = {out, nullptr, 2, 1};
  TT_CHECK_DIES("threads of one cluster at different barriers", (void)run(two_cluster_barriers, a));
  TT_CHECK_DIES("deadlock", (void)run(half_a_rank, a));
  TT_CHECK_DIES("is not in the block's own shared memory", (void)run(maps_wrongly, a));
  a.steps = 2;
  TT_CHECK_DIES("rank 2 of a smaller cluster", (void)run(maps_wrongly, a));
  tt_dev_free(out);
}

TT_SUITE(open_device, close_device)
