/* test_race.cpp — the check of races: two accesses to a byte, one of them a write, need the right
 * barrier between them, whatever their order was in this run. */
#include "tests/double/cluster_sample.cuh"

#include "tests/double/rig.h"

namespace
{
enum { THREADS = 64, BLOCKS = 4, CLUSTERS = 2, N = THREADS * BLOCKS * CLUSTERS };
enum barrier { NONE, SHUFFLE, WARP, BLOCK, CLUSTER };

struct race_args {
  float *out;
  int8_t *bytes;
  barrier order;
  int apart; /* a thread's partner: its own number xor `apart` */
};
} // namespace

static __device__ void pass(barrier kind)
{
  switch (kind) {
  case SHUFFLE: (void)tt_warp_sum(1.0f); break;
  case WARP: __syncwarp(); break;
  case BLOCK: __syncthreads(); break;
  case CLUSTER: tt_cluster_sync(); break;
  case NONE: break;
  }
}

/* The memory where thread t of the grid writes: in shared memory of its rank. */
static __device__ float *place(float *value, int t)
{
  int here = (int)blockIdx.x % BLOCKS, there = t / THREADS % BLOCKS;
  float *at = value + t % THREADS;
  return here == there ? at : tt_cluster_map_shared(at, there);
}

/* Every thread reads what its partner writes before. */
static __global__ void write_then_read(race_args a)
{
  TT_SHARED_MEMORY(float, value);
  int t = (int)(blockIdx.x * THREADS + threadIdx.x);
  value[threadIdx.x] = 1.0f;
  pass(a.order);
  a.out[t] = *place(value, t ^ a.apart);
  tt_cluster_sync();
}

/* Every thread reads what its partner writes later. */
static __global__ void read_then_write(race_args a)
{
  TT_SHARED_MEMORY(float, value);
  int t = (int)(blockIdx.x * THREADS + threadIdx.x);
  tt_cluster_sync();
  a.out[t] = *place(value, t ^ a.apart);
  pass(a.order);
  value[threadIdx.x] = 2.0f;
  tt_cluster_sync();
}

/* Neighbors in device memory: without a common byte, and with one. */
static __global__ void write_bytes(race_args a)
{
  int t = (int)(blockIdx.x * THREADS + threadIdx.x);
  a.bytes[t / a.apart] = 1;
}

static tt_err run(void (*kernel)(race_args), const race_args &a)
{
  TT_TRY(tt_launch_cluster(kernel, BLOCKS, BLOCKS * CLUSTERS, THREADS, THREADS * sizeof(float),
                           dev.stream, a));
  return tt_stream_synchronize(dev.stream);
}

#ifdef __SANITIZE_THREAD__ /* the check is compiled in */
TT_TEST (every_distance_needs_its_barrier) {
  const struct {
    int apart;
    barrier needs;
  } cases[] = {{0, NONE}, {1, WARP}, {TT_WARP_SIZE, BLOCK}, {THREADS, CLUSTER}};
  race_args a = {};
  TT_CHECK_OK(tt_dev_alloc(&a.out, N, "result"));
  for (auto kernel : {write_then_read, read_then_write})
    for (auto c : cases)
      for (barrier order : {NONE, SHUFFLE, WARP, BLOCK, CLUSTER}) {
        a.order = order;
        a.apart = c.apart;
        if (order >= c.needs)
          TT_CHECK_OK(run(kernel, a));
        else
          TT_CHECK_DIES("race: shared memory", (void)run(kernel, a));
      }
  tt_dev_free(a.out);
}

TT_TEST (bytes_of_device_memory_are_told_apart) {
  race_args a = {};
  TT_CHECK_OK(tt_dev_alloc(&a.bytes, N, "bytes"));
  a.apart = 1;
  TT_CHECK_OK(run(write_bytes, a));
  TT_CHECK_OK(run(write_bytes, a)); /* launches follow one another */
  a.apart = 2;
  TT_CHECK_DIES("race: device memory", (void)run(write_bytes, a));
  tt_dev_free(a.bytes);
}
#else
TT_TEST (right_kernels_run_without_the_check) {
  race_args a = {nullptr, nullptr, CLUSTER, 1};
  TT_CHECK_OK(tt_dev_alloc(&a.out, N, "result"));
  TT_CHECK_OK(tt_dev_alloc(&a.bytes, N, "bytes"));
  for (auto kernel : {write_then_read, read_then_write, write_bytes}) TT_CHECK_OK(run(kernel, a));
  tt_dev_free(a.out);
  tt_dev_free(a.bytes);
}
#endif

TT_SUITE(open_device, close_device)
