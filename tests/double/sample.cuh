/* sample.cuh — small kernels for the tests of the double, right ones and deliberately wrong ones;
 * nvcc compiles them too. A block has `blockDim.x` threads; arrays are one value per thread of the
 * grid unless a comment says more. */
#ifndef TT_DOUBLE_SAMPLE_CUH
#define TT_DOUBLE_SAMPLE_CUH
#include "cuda/common/device.cuh"

/* On the host several files of one program include them; nvcc takes no inline kernels. */
#ifdef __CUDACC__
#define TT_SAMPLE_KERNEL __global__
#else
#define TT_SAMPLE_KERNEL inline __global__
#endif

typedef struct sample_args {
  float *out;
  const float *in;
  int n, steps;
} sample_args;

static __device__ __forceinline__ int sample_thread()
{
  return (int)(blockIdx.x * blockDim.x + threadIdx.x);
}

/* In each of `steps` steps, every thread adds the value of its right neighbor. The second barrier
 * keeps a fast thread from overwriting values that a slow one has not read yet. */
template <bool SECOND_BARRIER> __global__ void neighbors(sample_args a)
{
  TT_SHARED_MEMORY(float, value);
  int t = (int)threadIdx.x, right = (t + 1) % (int)blockDim.x;
  float mine = a.in[sample_thread()];
  for (int step = 0; step < a.steps; step++) {
    value[t] = mine;
    __syncthreads();
    mine = 0.75f * mine + 0.25f * value[right];
    if (SECOND_BARRIER) __syncthreads();
  }
  a.out[sample_thread()] = mine;
}

/* The same inside one warp, with __syncwarp. */
template <bool SECOND_BARRIER> __global__ void warp_neighbors(sample_args a)
{
  TT_SHARED_MEMORY(float, value);
  int t = (int)threadIdx.x, right = (t & ~31) | ((t + 1) & 31);
  float mine = a.in[sample_thread()];
  for (int step = 0; step < a.steps; step++) {
    value[t] = mine;
    __syncwarp();
    mine = 0.75f * mine + 0.25f * value[right];
    if (SECOND_BARRIER) __syncwarp();
  }
  a.out[sample_thread()] = mine;
}

/* Sums over the block, one after another in the same scratch. Without the second barrier a warp
 * that runs ahead writes its part of the next sum while others still read this one. */
template <bool SECOND_BARRIER> __global__ void sums_in_a_row(sample_args a)
{
  TT_SHARED_MEMORY(float, scratch);
  float mine = a.in[sample_thread()];
  for (int step = 0; step < a.steps; step++) {
    float part = tt_warp_sum(mine), sum = 0.0f;
    if (threadIdx.x % TT_WARP_SIZE == 0) scratch[threadIdx.x / TT_WARP_SIZE] = part;
    __syncthreads();
    for (int warp = 0; warp < (int)blockDim.x / TT_WARP_SIZE; warp++) sum += scratch[warp];
    if (SECOND_BARRIER) __syncthreads();
    mine = 0.5f * mine + 0.25f * sum;
  }
  a.out[sample_thread()] = mine;
}

typedef struct sum_args {
  const float *in;
  float *warp, *block; /* sums that each thread sees */
  double *block_double;
  float *swapped[4]; /* shuffles: xor 5; from lane 3 of 8; up 2; down 2 of 16 lanes */
  unsigned *ballot;  /* of in > 0 */
  int *count;        /* of in > 0 in the block */
} sum_args;

TT_SAMPLE_KERNEL void sums(sum_args a)
{
  TT_SHARED_MEMORY(double, scratch);
  float *float_scratch = reinterpret_cast<float *>(scratch);
  int i = sample_thread();
  float x = a.in[i];
  a.warp[i] = tt_warp_sum(x);
  a.block[i] = tt_block_sum(x, float_scratch);
  a.block_double[i] = tt_block_sum((double)x * x, scratch);
  a.swapped[0][i] = tt_shuffle_xor(x, 5);
  a.swapped[1][i] = __shfl_sync(TT_FULL_WARP_MASK, x, 3, 8);
  a.swapped[2][i] = __shfl_up_sync(TT_FULL_WARP_MASK, x, 2);
  a.swapped[3][i] = __shfl_down_sync(TT_FULL_WARP_MASK, x, 2, 16);
  a.ballot[i] = __ballot_sync(TT_FULL_WARP_MASK, x > 0.0f);
  a.count[i] = __syncthreads_count(x > 0.0f);
}

typedef struct fill_args {
  float *out;
  float value;
  int n;
} fill_args;

/* out = value in threads [0, n); the array is not read. */
TT_SAMPLE_KERNEL void fill(fill_args a)
{
  int i = sample_thread();
  if (i < a.n) a.out[i] = a.value;
}

/* out = 1 + 2 in: not commutative, so that the order of launches changes the result. */
TT_SAMPLE_KERNEL void shift_and_double(sample_args a)
{
  int i = sample_thread();
  if (i < a.n) a.out[i] = 1.0f + 2.0f * a.in[i];
}

/* The content of shared and device memory before the first write. */
TT_SAMPLE_KERNEL void read_unwritten(sample_args a)
{
  TT_SHARED_MEMORY(float, value);
  a.out[2 * sample_thread()] = value[threadIdx.x];
  a.out[2 * sample_thread() + 1] = a.in[sample_thread()];
}

/* Write element n of the shared memory: beyond its end if n is too large. */
TT_SAMPLE_KERNEL void write_shared(sample_args a)
{
  TT_SHARED_MEMORY(float, value);
  if (threadIdx.x == 0) value[a.n] = 1.0f;
  __syncthreads();
  a.out[sample_thread()] = 0.0f;
}

/* Half of the block never reaches the barrier at which the others wait. */
TT_SAMPLE_KERNEL void two_barriers(sample_args a)
{
  if ((int)threadIdx.x < a.n)
    __syncthreads();
  else
    __syncthreads();
  a.out[sample_thread()] = 1.0f;
}

/* Lanes below n shuffle, the others go directly to the barrier of the block. */
TT_SAMPLE_KERNEL void half_a_warp(sample_args a)
{
  float x = 1.0f;
  if ((int)threadIdx.x < a.n) x = tt_warp_sum(x);
  __syncthreads();
  a.out[sample_thread()] = x;
}

/* Some threads end early; the others continue without them. */
TT_SAMPLE_KERNEL void early_end(sample_args a)
{
  if ((int)threadIdx.x >= a.n) return;
  __syncthreads();
  a.out[sample_thread()] = 1.0f;
}

typedef struct vector_args {
  float *at; /* [32] */
  int offset, words;
} vector_args;

/* Copy 2 or 4 floats at once, from shared to device memory and back. */
TT_SAMPLE_KERNEL void copy_vector(vector_args a)
{
  TT_SHARED_MEMORY(float, value);
  value[threadIdx.x] = 1.0f;
  __syncthreads();
  if (threadIdx.x > 0) return;
  if (a.words == 4) {
    tt_store4(a.at + a.offset, tt_load4(value + a.offset));
    tt_store4(value + a.offset, tt_load4(a.at + a.offset));
  } else {
    tt_store2(a.at + a.offset, tt_load2(value + a.offset));
    tt_store2(value + a.offset, tt_load2(a.at + a.offset));
  }
}

typedef struct queue_args {
  int *next;  /* one counter, 0 at the start */
  int *taken; /* [items] times each was taken */
  int items;
} queue_args;

/* Blocks take items until there are none left. */
TT_SAMPLE_KERNEL void pull(queue_args a)
{
  TT_SHARED_MEMORY(int, item);
  for (;;) {
    if (threadIdx.x == 0) *item = atomicAdd(a.next, 1);
    __syncthreads();
    int mine = *item;
    __syncthreads();
    if (mine >= a.items) break;
    if (threadIdx.x == 0) a.taken[mine]++;
  }
}
#endif
