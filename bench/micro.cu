/* micro.cu — what the predictions of NOTES.md assume of a GPU, measured: a line of JSON each.
 *
 *   micro        all measurements; exit status 69 without a GPU
 *
 * ffma       TFLOP/s of fused multiply-adds of the whole GPU
 * mma_tf32   the same of mma.sync.m16n8k8 in TF32
 * shared     clocks of a 16-byte load from shared memory, by the pattern of the 32 addresses: by
 *            what each bit of the lane's number moves the address, in units of 16 bytes
 * cluster    clocks of a barrier of a cluster of 1, 2, 4 and 8 blocks
 * graph      microseconds of an empty kernel in a CUDA graph */
#include "core/base/clock.h"
#include "cuda/cluster/thread_block_cluster.cuh"
#include "cuda/common/device.cuh"

#include <cstdio>

namespace
{
enum { ROUNDS = 2048, CHAINS = 8, THREADS = 1024, NODES = 1000, LAUNCHES = 20, WORDS = 8192 };

/* Results of a kernel: clocks of block 0, and a value that keeps the computation alive. */
struct micro_args {
  long long *clocks;
  float *kept;
  int pattern;
};

/* Address of a lane, in units of 16 bytes: the sum of weight[k] for the bits k of its number. */
enum { BITS = 5 };
struct pattern {
  int weight[BITS];
};

struct shared_args {
  micro_args common;
  pattern lanes;
};

__global__ void run_ffma(micro_args a)
{
  float x[CHAINS], y = 1.0f + 1e-7f * (float)threadIdx.x;
  for (int i = 0; i < CHAINS; i++) x[i] = (float)i;
  for (int k = 0; k < ROUNDS; k++)
#pragma unroll
    for (int i = 0; i < CHAINS; i++) x[i] = fmaf(x[i], y, 0.5f);
  float sum = 0.0f;
  for (int i = 0; i < CHAINS; i++) sum += x[i];
  a.kept[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__global__ void run_mma(micro_args a)
{
  float d[CHAINS][4] = {};
  unsigned left = threadIdx.x, right = threadIdx.x + 1;
  for (int k = 0; k < ROUNDS; k++)
#pragma unroll
    for (int i = 0; i < CHAINS; i++)
      asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
                   "{%4, %4, %4, %4}, {%5, %5}, {%0, %1, %2, %3};"
                   : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
                   : "r"(left), "r"(right));
  float sum = 0.0f;
  for (int i = 0; i < CHAINS; i++) sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
  a.kept[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/* 8 warps load at the same time, so that wavefronts count and not the latency. All four numbers are
 * used: otherwise nvcc makes narrower loads. */
__global__ void count_loads(shared_args a)
{
  TT_SHARED_MEMORY(float4, words);
  for (int i = threadIdx.x; i < WORDS / 4; i += blockDim.x) words[i] = make_float4(0, 0, 0, 0);
  __syncthreads();
  int lane = threadIdx.x % TT_WARP_SIZE, step = 0, at = 0;
  for (int k = 0; k < BITS; k++) at += (lane >> k & 1) * a.lanes.weight[k];
  float sum = 0.0f;
  long long begin = clock64();
  for (int k = 0; k < ROUNDS; k++) {
    float4 v[CHAINS];
#pragma unroll
    for (int i = 0; i < CHAINS; i++) v[i] = words[at + step + 64 * i];
#pragma unroll
    for (int i = 0; i < CHAINS; i++) sum += v[i].x + v[i].y + v[i].z + v[i].w;
    step = sum > 1.0f ? 1 : 0; /* never, but the loads cannot leave the loop */
  }
  __syncthreads();
  long long taken = clock64() - begin;
  a.common.kept[threadIdx.x] = sum;
  if (threadIdx.x == 0) *a.common.clocks = taken;
}

__global__ void count_barriers(micro_args a)
{
  tt_cluster_sync();
  long long begin = clock64();
  for (int k = 0; k < ROUNDS; k++) tt_cluster_sync();
  long long taken = clock64() - begin;
  if (blockIdx.x == 0 && threadIdx.x == 0) *a.clocks = taken;
}

__global__ void do_nothing(micro_args a)
{
  if (a.pattern < 0) *a.clocks = 0;
}

/* the host */

struct bench {
  tt_dev dev;
  micro_args args;
};

tt_err read_clocks(const bench *b, double *out)
{
  long long clocks = 0;
  TT_TRY(tt_dev_download_sync(&clocks, b->args.clocks, 1, b->dev.stream));
  *out = (double)clocks;
  return TT_OK;
}

/* Prints TFLOP/s of the whole GPU, after a first launch, which also loads the kernel. `each`:
 * multiply-adds that one instruction of a warp does. */
tt_err measure_rate(const bench *b, const char *name, void (*kernel)(micro_args), double each)
{
  const unsigned blocks = 2 * (unsigned)b->dev.multiprocessors;
  double begin = 0.0, warps = (double)blocks * THREADS / TT_WARP_SIZE;
  for (int turn = 0; turn <= LAUNCHES; turn++) {
    TT_TRY(tt_launch(kernel, blocks, THREADS, 0, b->dev.stream, b->args));
    if (turn == 0) TT_TRY(tt_stream_synchronize(b->dev.stream));
    if (turn == 0) begin = tt_monotonic_seconds();
  }
  TT_TRY(tt_stream_synchronize(b->dev.stream));
  double seconds = tt_monotonic_seconds() - begin;
  printf("{\"program\":\"micro\",\"what\":\"%s\",\"tflops\":%.1f}\n", name,
         2e-12 * LAUNCHES * warps * ROUNDS * CHAINS * each / seconds);
  return TT_OK;
}

tt_err measure_pattern(const bench *b, pattern p)
{
  double clocks = 0.0;
  const int threads = 8 * TT_WARP_SIZE;
  shared_args args = {b->args, p};
  for (int turn = 0; turn < 2; turn++)
    TT_TRY(tt_launch(count_loads, 1, threads, WORDS * sizeof(float), b->dev.stream, args));
  TT_TRY(read_clocks(b, &clocks));
  printf("{\"program\":\"micro\",\"what\":\"shared\",\"moves\":[%d,%d,%d,%d,%d],"
         "\"clocks_per_load\":%.2f}\n",
         p.weight[0], p.weight[1], p.weight[2], p.weight[3], p.weight[4],
         clocks / (8.0 * ROUNDS * CHAINS));
  return TT_OK;
}

/* A power of two of rows, `stride` apart, numbered by some of the bits of a lane: every choice. */
tt_err measure_shared(const bench *b, int stride)
{
  for (int chosen = 0; chosen < 1 << BITS; chosen++) {
    pattern p = {};
    int next = stride;
    for (int k = 0; k < BITS; k++)
      if (chosen >> k & 1) p.weight[k] = next, next *= 2;
    TT_TRY(measure_pattern(b, p));
  }
  return TT_OK;
}

tt_err measure_barrier(const bench *b, int ranks)
{
  double clocks = 0.0;
  for (int turn = 0; turn < 2; turn++)
    TT_TRY(
        tt_launch_cluster(count_barriers, ranks, (unsigned)ranks, 256, 0, b->dev.stream, b->args));
  TT_TRY(read_clocks(b, &clocks));
  printf("{\"program\":\"micro\",\"what\":\"cluster\",\"blocks\":%d,\"clocks_per_barrier\":%.1f}\n",
         ranks, clocks / ROUNDS);
  return TT_OK;
}

tt_err measure_graph(const bench *b)
{
  cudaGraphExec_t graph = NULL;
  tt_err e = tt_launch(do_nothing, 1, 32, 0, b->dev.stream, b->args);
  if (!e) e = tt_graph_begin(b->dev.stream);
  if (e) return e;
  for (int i = 0; !e && i < NODES; i++) e = tt_launch(do_nothing, 1, 32, 0, b->dev.stream, b->args);
  tt_err ended = tt_graph_end(b->dev.stream, &graph);
  if (!e) e = ended;
  if (!e) e = tt_graph_launch(graph, b->dev.stream);
  if (!e) e = tt_stream_synchronize(b->dev.stream);
  double begin = tt_monotonic_seconds();
  for (int i = 0; !e && i < LAUNCHES; i++) e = tt_graph_launch(graph, b->dev.stream);
  if (!e) e = tt_stream_synchronize(b->dev.stream);
  double seconds = tt_monotonic_seconds() - begin;
  tt_graph_destroy(&graph);
  if (!e)
    printf("{\"program\":\"micro\",\"what\":\"graph\",\"us_per_node\":%.3f}\n",
           1e6 * seconds / (NODES * LAUNCHES));
  return e;
}

tt_err measure_all(bench *b)
{
  TT_TRY(tt_dev_open(0, &b->dev));
  TT_TRY(tt_dev_alloc(&b->args.clocks, 1, "clocks"));
  TT_TRY(tt_dev_alloc(&b->args.kept, (int64_t)2 * b->dev.multiprocessors * THREADS, "results"));
  TT_TRY(measure_rate(b, "ffma", run_ffma, TT_WARP_SIZE));
  TT_TRY(measure_rate(b, "mma_tf32", run_mma, 16 * 8 * 8));
  TT_TRY(measure_shared(b, 1));
  TT_TRY(measure_shared(b, 9));
  for (int ranks = 1; b->dev.capability >= 90 && ranks <= 8; ranks *= 2)
    TT_TRY(measure_barrier(b, ranks));
  return measure_graph(b);
}
} // namespace

int main()
{
  bench b = {};
  tt_err e = measure_all(&b);
  tt_dev_free(b.args.clocks);
  tt_dev_free(b.args.kept);
  tt_dev_close(&b.dev);
  if (e) fprintf(stderr, "micro: %s\n", tt_err_last());
  return tt_err_exit_code(e);
}
