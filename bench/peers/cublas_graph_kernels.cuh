/* cublas_graph_kernels.cuh — everything between the matrix products of cublas_graph.cu. Arrays of
 * activations are [M][B][width]. */
#ifndef BENCH_CUBLAS_GRAPH_KERNELS_CUH
#define BENCH_CUBLAS_GRAPH_KERNELS_CUH
#include "cuda/common/device.cuh"

enum { PEER_THREADS = 256, PEER_TILE = 32, PEER_LINES = 8 };

__device__ __forceinline__ int64_t peer_index()
{
  return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* The rows of step k, and Adam's correction of its moments for this step. */
struct peer_gather_args {
  const float *x, *y;
  const int32_t *order; /* [M][steps][B] */
  float *input, *target;
  const int64_t *taken; /* steps before this launch of the graph */
  float *correction;    /* [2] */
  int64_t members, batch, steps, n_in, n_out, k;
  double learning_rate, beta1, beta2;
};

__global__ void peer_gather(peer_gather_args a)
{
  int64_t i = peer_index();
  if (i == 0) {
    double t = (double)(*a.taken + a.k + 1);
    a.correction[0] = (float)(a.learning_rate / (1.0 - pow(a.beta1, t)));
    a.correction[1] = (float)(1.0 / sqrt(1.0 - pow(a.beta2, t)));
  }
  int64_t cell = i / a.n_in, column = i % a.n_in;
  if (cell >= a.members * a.batch) return;
  int64_t m = cell / a.batch, b = cell % a.batch;
  int64_t row = a.order[(m * a.steps + a.k) * a.batch + b];
  a.input[i] = a.x[row * a.n_in + column];
  for (int64_t j = column; j < a.n_out; j += a.n_in)
    a.target[cell * a.n_out + j] = a.y[row * a.n_out + j];
}

/* z = relu(z + bias) */
struct peer_activate_args {
  float *z;
  const float *bias; /* [M][width] */
  int64_t count, width, batch;
};

__global__ void peer_activate(peer_activate_args a)
{
  int64_t i = peer_index();
  if (i >= a.count) return;
  float z = a.z[i] + a.bias[i / (a.width * a.batch) * a.width + i % a.width];
  a.z[i] = z > 0.0f ? z : 0.0f;
}

/* Sum of all threads of a block of PEER_THREADS. */
__device__ __forceinline__ float peer_block_sum(float *capacity, float mine)
{
  int t = (int)threadIdx.x;
  __syncthreads();
  capacity[t] = mine;
  for (int n = PEER_THREADS / 2; n > 0; n /= 2) {
    __syncthreads();
    if (t < n) capacity[t] += capacity[t + n];
  }
  __syncthreads();
  return capacity[0];
}

/* Residuals of the last layer, its loss, the gradients of its outputs and biases. A block is a
 * member. */
struct peer_output_args {
  const float *z, *bias, *target;
  float *delta, *bias_gradient, *loss; /* loss [M] */
  int64_t batch, width;
};

__global__ void peer_output(peer_output_args a)
{
  TT_SHARED_MEMORY(float, capacity);
  int64_t m = blockIdx.x, first = m * a.batch * a.width;
  float scale = 2.0f / (float)(a.batch * a.width), squares = 0.0f;
  for (int64_t j = 0; j < a.width; j++) {
    float sum = 0.0f, bias = a.bias[m * a.width + j];
    for (int64_t b = threadIdx.x; b < a.batch; b += PEER_THREADS) {
      int64_t i = first + b * a.width + j;
      float residual = a.z[i] + bias - a.target[i];
      squares += residual * residual;
      a.delta[i] = scale * residual;
      sum += scale * residual;
    }
    sum = peer_block_sum(capacity, sum);
    if (threadIdx.x == 0) a.bias_gradient[m * a.width + j] = sum;
  }
  squares = peer_block_sum(capacity, squares);
  if (threadIdx.x == 0) a.loss[m] = squares / (float)(a.batch * a.width);
}

/* delta = 0 where relu was 0, and the column sums of delta. A block is PEER_TILE columns of a
 * member. */
struct peer_mask_args {
  float *delta;
  const float *h;
  float *bias_gradient;
  int64_t batch, width;
};

__global__ void peer_mask(peer_mask_args a)
{
  TT_SHARED_MEMORY(float, capacity); /* [PEER_LINES][PEER_TILE] */
  int64_t m = blockIdx.y, column = (int64_t)blockIdx.x * PEER_TILE + threadIdx.x;
  float sum = 0.0f;
  for (int64_t b = threadIdx.y; b < a.batch && column < a.width; b += PEER_LINES) {
    int64_t i = (m * a.batch + b) * a.width + column;
    float d = a.h[i] > 0.0f ? a.delta[i] : 0.0f;
    a.delta[i] = d;
    sum += d;
  }
  capacity[threadIdx.y * PEER_TILE + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= a.width) return;
  for (int line = 1; line < PEER_LINES; line++) sum += capacity[line * PEER_TILE + threadIdx.x];
  a.bias_gradient[m * a.width + column] = sum;
}

/* Adam on four parameters per thread. */
struct peer_adam_args {
  float *w;
  const float *g;
  float *m, *v;
  const float *correction;
  int64_t fours;
  float beta1, beta2, epsilon;
};

__global__ void peer_adam(peer_adam_args a)
{
  int64_t i = peer_index();
  if (i >= a.fours) return;
  const float step_size = a.correction[0], root = a.correction[1];
  float4 w = ((float4 *)a.w)[i], m = ((float4 *)a.m)[i], v = ((float4 *)a.v)[i];
  const float4 g = ((const float4 *)a.g)[i];
  auto one = [&](float &x, float &p, float &q, float d) {
    p = fmaf(1.0f - a.beta1, d - p, p);
    q = fmaf(1.0f - a.beta2, d * d - q, q);
    x -= step_size * p / (sqrtf(q) * root + a.epsilon);
  };
  one(w.x, m.x, v.x, g.x);
  one(w.y, m.y, v.y, g.y);
  one(w.z, m.z, v.z, g.z);
  one(w.w, m.w, v.w, g.w);
  ((float4 *)a.w)[i] = w;
  ((float4 *)a.m)[i] = m;
  ((float4 *)a.v)[i] = v;
}

struct peer_advance_args {
  int64_t *taken, steps;
};

__global__ void peer_advance(peer_advance_args a) { *a.taken += a.steps; }
#endif
