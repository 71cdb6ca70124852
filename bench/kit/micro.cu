/* micro.cu — what the predictions of NOTES.md assume of a GPU, measured: a line of JSON each.
 *
 *   micro        all measurements; exit status 69 without a GPU
 *
 * ffma       TFLOP/s of fused multiply-adds of the whole GPU
 * mma_tf32   the same of mma.sync.m16n8k8 in TF32
 * shared     clocks of a 16-byte load from shared memory, by the pattern of the 32 addresses: by
 *            what each bit of the lane's number moves the address, in units of 16 bytes
 * cluster    clocks of a barrier of a cluster of 1, 2, 4 and 8 blocks, by way: barrier.cluster, as
 *            tt_cluster_sync; mbarrier, which orders memory as well; relaxed, barrier.cluster that
 *            does not order memory: what the order costs
 * fragments  clocks of a warp for 32 x 64 x 8 products in TF32, with both factors in shared memory, as
 *            the forward pass of block/products_mma.cuh: 24 loads of 4 bytes (loads), or 6 ldmatrix;
 *            same: 1 if both gave the same bits
 * graph      microseconds of an empty kernel in a CUDA graph */
#include "core/base/clock.h"
#include "cuda/common/mma.cuh"
#include "cuda/common/thread_block_cluster.cuh"

#include <cstdio>
#include <cstring>

/* barrier.cluster.arrive.relaxed, and mbarrier with the scope of a cluster: CUDA 12, capability 9. */
#if TT_HAS_CLUSTERS && __CUDACC_VER_MAJOR__ >= 12
#define HAS_WAYS 1
#else
#define HAS_WAYS 0
#endif

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
  int lane = threadIdx.x % TT_WARP_SIZE, step = 0, index = 0;
  for (int k = 0; k < BITS; k++) index += (lane >> k & 1) * a.lanes.weight[k];
  float sum = 0.0f;
  long long begin = clock64();
  for (int k = 0; k < ROUNDS; k++) {
    float4 v[CHAINS];
#pragma unroll
    for (int i = 0; i < CHAINS; i++) v[i] = words[index + step + 64 * i];
#pragma unroll
    for (int i = 0; i < CHAINS; i++) sum += v[i].x + v[i].y + v[i].z + v[i].w;
    step = sum > 1.0f ? 1 : 0; /* never, but the loads cannot leave the loop */
  }
  __syncthreads();
  long long taken = clock64() - begin;
  a.common.kept[threadIdx.x] = sum;
  if (threadIdx.x == 0) *a.common.clocks = taken;
}

/* Barriers of a cluster. Each has begin(), called by all threads before the first barrier, and
 * sync(round, ranks). */
struct cluster_barrier {
  static __device__ __forceinline__ void begin(unsigned long long *, int) {}
  static __device__ __forceinline__ void sync(unsigned long long *, int, int) { tt_cluster_sync(); }
};

struct relaxed_barrier : cluster_barrier {
  static __device__ __forceinline__ void sync(unsigned long long *, int, int)
  {
#if HAS_WAYS
    asm volatile("barrier.cluster.arrive.relaxed;\n\tbarrier.cluster.wait;" ::: "memory");
#endif
  }
};

/* Every block has two mbarriers, for even and odd rounds, so that no block can arrive for a round
 * while another one still waits for the round before the last. After __syncthreads, thread r
 * arrives at the mbarrier of block r: a release of what all threads of its block wrote. */
struct remote_arrivals {
  static __device__ __forceinline__ void begin(unsigned long long *barrier, int ranks)
  {
#if HAS_WAYS
    if (threadIdx.x < 2)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(
                       (unsigned)__cvta_generic_to_shared(barrier + threadIdx.x)),
                   "r"(ranks));
#else
    (void)barrier, (void)ranks;
#endif
  }

  static __device__ __forceinline__ void sync(unsigned long long *barrier, int round, int ranks)
  {
#if HAS_WAYS
    unsigned index = (unsigned)__cvta_generic_to_shared(barrier + round % 2), done = 0;
    __syncthreads();
    if ((int)threadIdx.x < ranks)
      asm volatile(
          "{\n\t.reg .b32 there;\n\t"
          "mapa.shared::cluster.u32 there, %0, %1;\n\t"
          "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n\t}" ::"r"(index),
          "r"(threadIdx.x)
          : "memory");
    while (!done)
      asm volatile("{\n\t.reg .pred p;\n\t"
                   "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
                   "selp.u32 %0, 1, 0, p;\n\t}"
                   : "=r"(done)
                   : "r"(index), "r"(round / 2 % 2)
                   : "memory");
#else
    (void)barrier, (void)round, (void)ranks;
#endif
  }
};

/* a.pattern: blocks of the cluster. */
template <class BARRIER> __global__ void count_barriers(micro_args a)
{
  __shared__ unsigned long long barrier[2];
  BARRIER::begin(barrier, a.pattern);
  tt_cluster_sync();
  long long begin = clock64();
  for (int k = 0; k < ROUNDS; k++) BARRIER::sync(barrier, k, a.pattern);
  long long taken = clock64() - begin;
  tt_cluster_sync(); /* no block ends while another one arrives at it */
  if (blockIdx.x == 0 && threadIdx.x == 0) *a.clocks = taken;
}

/* Fragments of a tile of 32 x 64: TALL of its rows and WIDE of its columns, which lie in arrays with
 * the inner index along rows, STRIDE floats apart: an odd number of float4. */
enum { TALL = 2, WIDE = 8, STRIDE = 36, TILE_ROWS = 32 + 64 };

/* 16 rows x 8 numbers from `index` on, in the order of mma.cuh; of `lane`: its row and its pair. */
struct four_loads {
  static __device__ __forceinline__ void get(const float *index, int lane, float (&to)[4])
  {
    const float *own = index + lane / 4 * STRIDE + lane % 4;
    for (int q = 0; q < 4; q++) to[q] = own[q % 2 * 8 * STRIDE + q / 2 * 4];
  }
};

/* A matrix of 8 rows x 4 numbers of 32 bits is one of 8 x 8 numbers of 16 bits: each lane gets two of
 * those, one number, and the address that it gives is that of a row. */
struct one_ldmatrix {
  static __device__ __forceinline__ void get(const float *index, int lane, float (&to)[4])
  {
    const float *row = index + lane % 16 * STRIDE + lane / 16 * 4;
    unsigned x[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)));
    for (int q = 0; q < 4; q++) to[q] = __uint_as_float(x[q]);
  }
};

/* All 8 warps of a block multiply the same tile. One load brings two fragments of its columns, so
 * WIDE / 2 loads bring all. */
template <class LOAD> __global__ void count_fragments(micro_args a)
{
  TT_SHARED_MEMORY(float, tile);
  for (int i = threadIdx.x; i < TILE_ROWS * STRIDE; i += blockDim.x)
    tile[i] = (float)(i % 61) - 30.0f;
  __syncthreads();
  int lane = threadIdx.x % TT_WARP_SIZE, step = 0;
  float sum[TALL][WIDE][4] = {};
  long long begin = clock64();
#pragma unroll 1
  for (int k = 0; k < ROUNDS; k++) {
    tt_mma_fragment<4> u[TALL];
    tt_mma_fragment<2> v[WIDE];
    float x[4];
#pragma unroll
    for (int i = 0; i < TALL; i++) {
      LOAD::get(tile + 16 * i * STRIDE + step, lane, x);
      for (int q = 0; q < 4; q++) u[i].v[q] = tt_round_to_tf32(x[q]);
    }
#pragma unroll
    for (int j = 0; j < WIDE; j += 2) {
      LOAD::get(tile + (32 + 8 * j) * STRIDE + step, lane, x);
      for (int q = 0; q < 4; q++) v[j + q % 2].v[q / 2] = tt_round_to_tf32(x[q]);
    }
    tt_mma_multiply_add(sum, u, v);
    step = (step + TT_MMA_INNER) % 32;
  }
  __syncthreads();
  long long taken = clock64() - begin;
  float all = 0.0f;
  for (int i = 0; i < TALL; i++)
    for (int j = 0; j < WIDE; j++)
      for (int q = 0; q < 4; q++) all += sum[i][j][q] * (float)(q + 4 * j + 1);
  a.kept[threadIdx.x] = all;
  if (threadIdx.x == 0) *a.clocks = taken;
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

tt_err measure_barrier(const bench *b, const char *way, void (*kernel)(micro_args), int ranks)
{
  double clocks = 0.0;
  micro_args args = b->args;
  args.pattern = ranks;
  for (int turn = 0; turn < 2; turn++)
    TT_TRY(tt_launch_cluster(kernel, ranks, (unsigned)ranks, 256, 0, b->dev.stream, args));
  TT_TRY(read_clocks(b, &clocks));
  printf("{\"program\":\"micro\",\"what\":\"cluster\",\"way\":\"%s\",\"blocks\":%d,"
         "\"clocks_per_barrier\":%.1f}\n",
         way, ranks, clocks / ROUNDS);
  return TT_OK;
}

tt_err measure_barriers(const bench *b)
{
  for (int ranks = 1; b->dev.capability >= 90 && ranks <= 8; ranks *= 2) {
    TT_TRY(measure_barrier(b, "barrier.cluster", count_barriers<cluster_barrier>, ranks));
    if (__CUDACC_VER_MAJOR__ < 12) continue;
    TT_TRY(measure_barrier(b, "mbarrier", count_barriers<remote_arrivals>, ranks));
    TT_TRY(measure_barrier(b, "relaxed", count_barriers<relaxed_barrier>, ranks));
  }
  return TT_OK;
}

tt_err measure_fragments(const bench *b)
{
  enum { PROGRAMS = 2, WARPS = 8 };
  static const char *const way[PROGRAMS] = {"loads", "ldmatrix"};
  void (*const kernel[PROGRAMS])(micro_args) = {count_fragments<four_loads>,
                                                count_fragments<one_ldmatrix>};
  float sum[PROGRAMS][WARPS * TT_WARP_SIZE];
  double clocks[PROGRAMS];
  for (int i = 0; i < PROGRAMS; i++) {
    for (int turn = 0; turn < 2; turn++)
      TT_TRY(tt_launch(kernel[i], 1, WARPS * TT_WARP_SIZE, TILE_ROWS * STRIDE * sizeof(float),
                       b->dev.stream, b->args));
    TT_TRY(read_clocks(b, &clocks[i]));
    TT_TRY(tt_dev_download_sync(sum[i], b->args.kept, WARPS * TT_WARP_SIZE, b->dev.stream));
  }
  for (int i = 0; i < PROGRAMS; i++)
    printf("{\"program\":\"micro\",\"what\":\"fragments\",\"way\":\"%s\",\"clocks\":%.1f,"
           "\"same\":%d}\n",
           way[i], clocks[i] / (WARPS * ROUNDS), memcmp(sum[0], sum[1], sizeof sum[0]) == 0);
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
  TT_TRY(measure_barriers(b));
  TT_TRY(measure_fragments(b));
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
