/* block_pass.cuh — a thread block passes over rows with one member: load rows, forward, loss,
 * backward.
 *
 * The weights stay in shared memory for all steps of a launch. A pass splits a list of rows into
 * pieces of R: load the rows, run the layers forward, turn the outputs into dL/dz, run the layers
 * backward; dL/dz of a layer overwrites its outputs. A batch is a pass followed by an optimizer
 * step, validation is a pass followed by the end of the epoch.
 *
 * The plan alone decides the order of all sums. Barriers: a function whose results other threads
 * read ends with a barrier, unless its comment says otherwise. */
#ifndef TT_BLOCK_PASS_CUH
#define TT_BLOCK_PASS_CUH
#include "cuda/block/products_mma.cuh"
#include "cuda/common/engine_internal.cuh"

/* Arguments of the kernel. */
typedef struct tt_block_args {
  tt_cuda_state view;
  tt_block_plan plan;
  int64_t steps; /* steps per member in this launch */
  tt_member_queue queue;
  float *scratch; /* [blocks][tt_block_scratch_floats] */
} tt_block_args;

/* State that all threads share, written by thread 0. It is in shared memory, in front of the
 * arrays, so that the products can use the registers. */
typedef struct tt_block_context {
  double sums[TT_BLOCK_CHUNKS];         /* of the losses of chunks of rows; of squares of slices */
  double loss[TT_BLOCK_CHUNKS];         /* of the parts of the running pass */
  double loss_sum;                      /* of the running epoch */
  int64_t step, last;                   /* steps done, and the step to stop at */
  tt_sampler order;                     /* of the running epoch */
  tt_optimizer_args args;               /* of the running step */
  int32_t member, training;             /* its index; 1 while it trains */
  int32_t batch, rows, validation_rows; /* batches done; rows of an epoch, of its validation */
  int32_t best;                         /* whether the last validation loss is the lowest */
  int32_t part_chunks;                  /* of the running pass: tt_block_loss_part */
} tt_block_context;
static_assert(sizeof(tt_block_context) <= TT_BLOCK_HEADER_FLOATS * sizeof(float),
              "it fits in front");

__device__ __forceinline__ tt_block_context *tt_block_context_of(float *shared)
{
  return reinterpret_cast<tt_block_context *>(shared);
}

/* The gradient and slot k, [Q] each, in shared or in device memory. */
__device__ __forceinline__ float *tt_block_gradient_array(const tt_block_args &a, float *shared)
{
  const tt_block_plan &p = a.plan;
  if (p.gradient_shared) return shared + p.gradient;
  return a.scratch + (int64_t)blockIdx.x * tt_block_scratch_floats(&p);
}
__device__ __forceinline__ float *tt_block_slot_array(const tt_block_args &a, float *shared, int k)
{
  const tt_block_plan &p = a.plan;
  if (k < p.slots_shared) return shared + p.slot + k * p.params;
  int before = k - p.slots_shared + (p.gradient_shared ? 0 : 1);
  return a.scratch + (int64_t)blockIdx.x * tt_block_scratch_floats(&p) + before * p.params;
}

/* Call f(r, c) for all (r, c) in [0, rows) x [0, columns), one thread per pair. */
template <class F> __device__ __forceinline__ void tt_block_for_each(int rows, int columns, F f)
{
  int threads = (int)blockDim.x, thread = (int)threadIdx.x;
  int r = thread / columns, c = thread % columns;
  int down = threads / columns, right = threads % columns;
  while (r < rows) {
    f(r, c);
    r += down;
    c += right;
    if (c >= columns) {
      c -= columns;
      r++;
    }
  }
}

/* Call f(q, p) for every parameter: index q in the padded [Q], p in [P]. */
template <class F>
__device__ __forceinline__ void tt_block_for_each_param(const tt_block_plan &plan, F f)
{
  for (int l = 0; l < plan.layers; l++) {
    const tt_block_layer &n = plan.layer[l];
    tt_block_for_each(n.out, n.in, [&](int r, int c) {
      f(n.weight + r * n.stride + c, n.source + r * n.in + c);
    });
    tt_block_for_each(1, n.out, [&](int, int c) { f(n.bias + c, n.source + n.out * n.in + c); });
  }
}

__device__ __forceinline__ void tt_block_zero(float *place, int count)
{
  for (int k = (int)threadIdx.x; k < count; k += (int)blockDim.x) place[k] = 0.0f;
}

/* load and store a member */

__device__ __forceinline__ void tt_block_load_member(const tt_block_args &a, float *shared)
{
  const tt_cuda_state &v = a.view;
  const tt_block_plan &plan = a.plan;
  tt_block_context *ctx = tt_block_context_of(shared);
  int i = ctx->member;
  float *dst = shared + plan.weights;
  tt_block_zero(dst, plan.params);
  for (int k = 0; k < plan.slots; k++)
    tt_block_zero(tt_block_slot_array(a, shared, k), plan.params);
  if (threadIdx.x == 0) {
    ctx->loss_sum = v.loss_sum[i];
    ctx->step = v.step[i];
    ctx->last = ctx->step + a.steps;
    ctx->order = tt_cuda_epoch_order(v, i);
    ctx->training = 1;
    ctx->batch = v.batch[i];
    ctx->rows = v.epoch_rows[i];
    ctx->validation_rows = tt_cuda_member_rows(v, i).count[TT_VALIDATION];
  }
  __syncthreads();
  const float *src = v.weights + (int64_t)i * v.param_stride;
  tt_block_for_each_param(plan, [&](int q, int p) { dst[q] = src[p]; });
  for (int k = 0; k < plan.slots; k++) {
    dst = tt_block_slot_array(a, shared, k);
    src = v.slots + ((int64_t)i * plan.slots + k) * v.param_stride;
    tt_block_for_each_param(plan, [&](int q, int p) { dst[q] = src[p]; });
  }
  __syncthreads();
}

/* No barrier at the end: no other thread reads what this function writes. */
__device__ __forceinline__ void tt_block_store_member(const tt_block_args &a, float *shared)
{
  const tt_cuda_state &v = a.view;
  const tt_block_plan &plan = a.plan;
  const tt_block_context *ctx = tt_block_context_of(shared);
  int i = ctx->member;
  const float *src = shared + plan.weights;
  float *dst = v.weights + (int64_t)i * v.param_stride;
  tt_block_for_each_param(plan, [&](int q, int p) { dst[p] = src[q]; });
  for (int k = 0; k < plan.slots; k++) {
    src = tt_block_slot_array(a, shared, k);
    dst = v.slots + ((int64_t)i * plan.slots + k) * v.param_stride;
    tt_block_for_each_param(plan, [&](int q, int p) { dst[p] = src[q]; });
  }
  if (threadIdx.x != 0) return;
  v.batch[i] = ctx->batch;
  v.step[i] = ctx->step;
  v.loss_sum[i] = ctx->loss_sum;
}

/* rows */

/* Before a warp reads outputs of the layer before. The products, the loader and the loss give row
 * block b to warp b modulo the number of warps where that number divides the blocks: then every
 * warp only reads what it wrote. */
__device__ __forceinline__ void tt_block_sync_rows(int rows)
{
  int blocks = (rows + TT_BLOCK_TILE_ROWS - 1) / TT_BLOCK_TILE_ROWS;
  if (blocks & (tt_block_warp_count() - 1)) /* a power of two */
    __syncthreads();
  else
    __syncwarp();
}

/* Copy x of the first `count` of 32 rows, whose numbers the lanes have, in vectors of V floats: a
 * power of two of lanes reads one row. */
template <int V>
__device__ __forceinline__ void tt_block_load_inputs(const tt_block_args &a, int number, int count,
                                                     float *x)
{
  int columns = a.view.inputs / V, bits = 0, lane = tt_block_lane_index();
  while (bits < 5 && 1 << bits < columns) bits++;
  int lanes = 1 << bits, together = TT_WARP_SIZE >> bits;
#pragma unroll 2
  for (int r = lane >> bits; r < TT_WARP_SIZE; r += together) {
    const float *src = a.view.x + (int64_t)tt_shuffle_from(number, r) * a.view.inputs;
    if (r < count)
      for (int c = lane & (lanes - 1); c < columns; c += lanes)
        tt_store_vector(x + r * a.plan.x_ld + V * c,
                        tt_load_vector(src + V * c, tt_block_vector<V>()));
  }
}

/* Load x, y and weights of rows [first, first + rows) of the epoch's order, or of the validation
 * list, into shared memory; a warp loads 32 rows. */
__device__ __forceinline__ void tt_block_load_rows(const tt_block_args &a, float *shared,
                                                   int validating, int first, int rows)
{
  const tt_cuda_state &v = a.view;
  const tt_block_plan &p = a.plan;
  const tt_block_context *ctx = tt_block_context_of(shared);
  int i = ctx->member, ensemble = v.member[i].ensemble;
  const int32_t *column = v.column + ensemble * v.targets;
  for (int r0 = tt_block_warp_index() * TT_WARP_SIZE; r0 < rows; r0 += (int)blockDim.x) {
    int r = r0 + tt_block_lane_index(), slot = first + min(r, rows - 1);
    int number = validating ? v.lists[ensemble].row[TT_VALIDATION][slot]
                            : tt_cuda_epoch_row(v, i, ctx->order, slot);
    const float *y = v.y + (int64_t)number * v.columns;
    float weight = v.weight ? v.weight[number] : 1.0f, y0 = y[column[0]];
    int count = min(rows - r0, TT_WARP_SIZE);
    if (v.inputs % 4 == 0)
      tt_block_load_inputs<4>(a, number, count, shared + p.x + r0 * p.x_ld);
    else
      tt_block_load_inputs<1>(a, number, count, shared + p.x + r0 * p.x_ld);
    if (r >= rows) continue;
    shared[p.weight + r] = weight;
    shared[p.y + r * v.targets] = y0;
    for (int k = 1; k < v.targets; k++) shared[p.y + r * v.targets + k] = y[column[k]];
  }
  tt_block_sync_rows(rows);
}

/* forward */

/* z -> f(z) for the first `count` values of an array, a multiple of 4; f'(z) goes to `slope` if
 * it is another array. */
template <tt_activation A>
__device__ __forceinline__ void tt_block_apply_activation_as(float *z, float *slope, int count)
{
  for (int k = 4 * (int)threadIdx.x; k < count; k += 4 * (int)blockDim.x) {
    float4 x = tt_load4(z + k);
    float4 y = make_float4(tt_act(A, x.x), tt_act(A, x.y), tt_act(A, x.z), tt_act(A, x.w));
    tt_store4(z + k, y);
    if (slope != z)
      tt_store4(slope + k, make_float4(tt_act_grad(A, x.x, y.x), tt_act_grad(A, x.y, y.y),
                                       tt_act_grad(A, x.z, y.z), tt_act_grad(A, x.w, y.w)));
  }
}

/* y = f(z) -> f'(z), for activations whose derivative follows from y alone. */
template <tt_activation A>
__device__ __forceinline__ void tt_block_output_to_slope_as(float *y, int count)
{
  for (int k = 4 * (int)threadIdx.x; k < count; k += 4 * (int)blockDim.x) {
    float4 h = tt_load4(y + k);
    tt_store4(y + k, make_float4(tt_act_grad(A, h.x, h.x), tt_act_grad(A, h.y, h.y),
                                 tt_act_grad(A, h.z, h.z), tt_act_grad(A, h.w, h.w)));
  }
}

/* Switch on the activation once per array, not once per value. */
__device__ __forceinline__ void tt_block_apply_activation(tt_activation kind, float *z,
                                                          float *slope, int count)
{
  switch (kind) {
#define X(name, f, df, ...)                                                                        \
  case TT_ACT_##name: tt_block_apply_activation_as<TT_ACT_##name>(z, slope, count); break;
    TT_ACTIVATIONS(X)
#undef X
  default: break;
  }
}

__device__ __forceinline__ void tt_block_output_to_slope(tt_activation kind, float *y, int count)
{
  switch (kind) {
#define X(name, f, df, ...)                                                                        \
  case TT_ACT_##name: tt_block_output_to_slope_as<TT_ACT_##name>(y, count); break;
    TT_ACTIVATIONS(X)
#undef X
  default: break;
  }
}

/* Input of layer l: the output of layer l - 1, or x. */
__device__ __forceinline__ tt_block_matrix tt_block_layer_input(const tt_block_args &a,
                                                                float *shared, int l)
{
  const tt_block_plan &p = a.plan;
  int index = l ? p.layer[l - 1].output : p.x, ld = l ? p.layer[l - 1].ld : p.x_ld;
  tt_block_matrix m = {shared + index, ld};
  return m;
}

/* Floats of `rows` rows, rounded up to whole tiles, hence a multiple of 4. */
__device__ __forceinline__ int tt_block_padded_count(int rows, int ld)
{
  return (rows + TT_BLOCK_TILE_ROWS - 1) / TT_BLOCK_TILE_ROWS * TT_BLOCK_TILE_ROWS * ld;
}

/* x -> outputs of all layers. Validation uses fp32, so that it equals prediction. */
template <class KIND>
__device__ __forceinline__ void tt_block_network_forward(const tt_block_args &a, float *shared,
                                                         int rows, int validating)
{
  for (int l = 0; l < a.plan.layers; l++) {
    const tt_block_layer &n = a.plan.layer[l];
    int hidden = l < a.plan.layers - 1, relu = hidden && a.view.activation == TT_ACT_relu;
    tt_block_matrix x = tt_block_layer_input(a, shared, l),
                    z = tt_block_layer_input(a, shared, l + 1);
#define CALL(TM, TN) tt_block_forward<TM, TN>(n, shared + a.plan.weights, x, z, rows, relu)
#define MMA(N) tt_block_mma_forward<N>(n, shared + a.plan.weights, x, z, rows, relu)
    TT_BLOCK_SWITCH(validating ? KIND::fp32_tile(n.forward) : n.forward, CALL, MMA)
#undef CALL
#undef MMA
    if (!hidden || relu) {
      tt_block_sync_rows(rows);
      continue;
    }
    __syncthreads();
    tt_block_apply_activation(a.view.activation, z.at, shared + n.slope,
                              tt_block_padded_count(rows, n.ld));
    __syncthreads();
  }
}

/* loss */

/* Rare losses are a function call: inlined, they would take registers from the products. */
static __device__ TT_NOINLINE tt_loss_grad tt_block_noinline_loss(tt_loss kind, float o0, float o1,
                                                                  float y, tt_loss_args a)
{
  return tt_loss_two_outputs(kind, o0, o1, y, a);
}

__device__ __forceinline__ tt_loss_grad tt_block_loss_at(tt_loss kind, float o0, float o1, float y,
                                                         tt_loss_args a)
{
  switch (kind) {
  case TT_LOSS_mse: return tt_loss_mse(o0, o1, y, a);
  case TT_LOSS_gaussian_nll: return tt_loss_gaussian_nll(o0, o1, y, a);
  default: return tt_block_noinline_loss(kind, o0, o1, y, a);
  }
}

/* The loss of a row takes the place of the row's number; o [rows][O] becomes dL/do * factor. */
__device__ __forceinline__ void tt_block_loss_backward(const tt_block_args &a, float *shared,
                                                       int rows, float factor)
{
  const tt_cuda_state &v = a.view;
  tt_block_matrix o = tt_block_layer_input(a, shared, a.plan.layers);
  int two = tt_output_has_variance(v.output);
  for (int r = (int)threadIdx.x; r < rows; r += (int)blockDim.x) {
    float *place = o.at + r * o.ld, value = 0.0f, weight = shared[a.plan.weight + r];
    for (int k = 0; k < v.targets; k++) {
      float y = shared[a.plan.y + r * v.targets + k], raw = two ? place[v.targets + k] : 0.0f;
      tt_loss_grad g = tt_block_loss_at(v.loss, place[k], raw, y, v.loss_args);
      value += g.value;
      place[k] = g.d0 * (weight * factor);
      if (two) place[v.targets + k] = g.d1 * (weight * factor);
    }
    shared[a.plan.row + r] = value;
  }
  __syncthreads();
}

/* Rows of a chunk: in validation they must not follow from the rows for which there is memory. */
__device__ __forceinline__ int tt_block_loss_chunk(const tt_block_plan &p, int validating)
{
  return validating ? TT_BLOCK_TILE_ROWS : p.chunk;
}

/* Chunks of a part of the losses; a pass over `rows` rows, of all ranks, has at most
 * TT_BLOCK_CHUNKS parts. */
__device__ __forceinline__ int tt_block_loss_part(const tt_block_plan &p, int validating, int rows)
{
  enum { ROWS = TT_BLOCK_CHUNKS * TT_BLOCK_TILE_ROWS };
  return validating ? max(1, (rows + ROWS - 1) / ROWS) : p.pieces;
}

/* One warp adds the losses of `rows` rows, which follow `done` rows of the pass, to ctx->loss: four
 * lanes have a chunk, each every fourth row of it, then a lane has a part. No barrier at the end.
 */
__device__ __forceinline__ void tt_block_add_losses(const tt_block_args &a, float *shared,
                                                    int validating, int done, int rows)
{
  enum { LANES = TT_WARP_SIZE / TT_BLOCK_CHUNKS };
  tt_block_context *ctx = tt_block_context_of(shared);
  const float *weight = shared + a.plan.weight, *value = shared + a.plan.row;
  int lane = tt_block_lane_index(), each = tt_block_loss_chunk(a.plan, validating);
  int together = ctx->part_chunks, before = done / each;
  int begin = lane / LANES * each, end = min(rows, begin + each);
  double sum = 0.0;
#pragma unroll 8
  for (int r = begin + lane % LANES; r < end; r += LANES)
    sum += (double)weight[r] * (double)value[r];
  sum += tt_shuffle_xor(sum, 1);
  sum += tt_shuffle_xor(sum, 2);
  if (lane % LANES == 0) ctx->sums[lane / LANES] = sum;
  __syncwarp();
  int first = max(lane * together - before, 0);
  int last = min((lane + 1) * together - before, (rows + each - 1) / each);
  if (lane < TT_BLOCK_CHUNKS && first < last) {
    sum = ctx->loss[lane];
    for (int u = first; u < last; u++) sum += ctx->sums[u];
    ctx->loss[lane] = sum;
  }
  __syncwarp();
}

/* Sum of one number per chunk or slice, in their order. */
__device__ __forceinline__ double tt_block_sum_chunks(const double *number)
{
  double sum = number[0];
#pragma unroll
  for (int u = 1; u < TT_BLOCK_CHUNKS; u++) sum += number[u];
  return sum;
}

/* backward */

/* dL/do -> the gradient of all layers.
 *   first  1: overwrite the gradient; 0: add to it */
template <class KIND>
__device__ __forceinline__ void tt_block_network_backward(const tt_block_args &a, float *shared,
                                                          int rows, int first)
{
  int relu = a.view.activation == TT_ACT_relu, apart = KIND::in_cluster ? a.plan.params : 0;
  for (int l = a.plan.layers - 1; l >= 0; l--) {
    const tt_block_layer &n = a.plan.layer[l];
    tt_block_matrix x = tt_block_layer_input(a, shared, l),
                    d = tt_block_layer_input(a, shared, l + 1);
    float *g = tt_block_gradient_array(a, shared);
#define CALL(TM, TN)                                                                               \
  tt_block_gradient<tt_block_weight_gradient_tile<TM, TN>>(n, d, x, rows, g, apart, first)
#define MMA(N)                                                                                     \
  tt_block_gradient<tt_block_mma_weight_gradient_tile<N>>(n, d, x, rows, g, apart, first)
    TT_BLOCK_SWITCH(n.gradient, CALL, MMA)
#undef CALL
#undef MMA
    __syncthreads();
    if (l == 0) return;
    if (!a.plan.stores_slope && !relu) {
      tt_block_output_to_slope(a.view.activation, x.at, tt_block_padded_count(rows, x.ld));
      __syncthreads();
    }
    const float *slope = shared + a.plan.layer[l - 1].slope;
#define CALL(TM, TN) tt_block_backward<TM, TN>(n, shared + a.plan.weights, d, x, slope, rows, relu)
#define MMA(N) tt_block_mma_backward<N>(n, shared + a.plan.weights, d, x, slope, rows, relu)
    TT_BLOCK_SWITCH(n.backward, CALL, MMA)
#undef CALL
#undef MMA
    __syncthreads();
  }
}

/* a pass */

/* One thread: arguments of the optimizer for the running step; divisions and roots in double. */
__device__ __forceinline__ void tt_block_set_step_args(const tt_block_args &a, float *shared)
{
  tt_block_context *ctx = tt_block_context_of(shared);
  ctx->args = tt_cuda_step_args(a.view, ctx->member, ctx->step + 1);
}

/* The losses of `count` rows from `first` on, in ctx->loss by parts. For a batch, also their
 * part of the gradient of the mean over `batch_rows` rows. */
template <class KIND>
__device__ __forceinline__ void tt_block_pass(const tt_block_args &a, float *shared, int validating,
                                              int first, int count, int batch_rows)
{
  tt_block_context *ctx = tt_block_context_of(shared);
  if (threadIdx.x < TT_BLOCK_CHUNKS) ctx->loss[threadIdx.x] = 0.0;
  if (threadIdx.x == 0) ctx->part_chunks = tt_block_loss_part(a.plan, validating, batch_rows);
  for (int done = 0; done < count; done += validating ? a.plan.rows : a.plan.piece) {
    int rows = min(validating ? a.plan.rows : a.plan.piece, count - done);
    tt_block_load_rows(a, shared, validating, first + done, rows);
    tt_block_network_forward<KIND>(a, shared, rows, validating);
    tt_block_loss_backward(a, shared, rows, 1.0f / (float)batch_rows);
    /* The last warps do this and the next, because they are the last ones to add to the gradient
     * of the last layer. */
    if (tt_block_warp_index() == tt_block_warp_count() - 1)
      tt_block_add_losses(a, shared, validating, done, rows);
    if (threadIdx.x == blockDim.x * 3 / 4 - 1 && !validating && done == 0)
      tt_block_set_step_args(a, shared);
    if (validating)
      __syncthreads();
    else
      tt_block_network_backward<KIND>(a, shared, rows, done == 0);
  }
}
#endif
