/* predict.cu — predictions of a trained ensemble: rows in chunks, over two sets of buffers with
 * their own stream, device and pinned memory, so that the copies of one set overlap with the
 * kernels of the other.
 *
 * A chunk: every member over every tile of rows in parallel; then, for every row and column, the
 * moments over members in member order, with the arithmetic of tt_moments_add. With a front, its
 * features are computed first, for as many members at a time as there is memory for. */
#include "cuda/common/engine_functions.cuh"

#include "core/base/mem.h"
#include "core/engine/mixed_predict.h"
#include "cuda/common/forward_tile.cuh"
#include "cuda/front/front.cuh"
#include "cuda/plan/host_copy.h"

enum { BUFFER_SETS = 2, MOMENTS = 3, MOMENT_THREADS = 128 };
#ifdef TT_CUDA_DOUBLE
static const int64_t max_chunk_rows =
    TT_TILE_ROWS; /* rows of a chunk; few, so that tests have several chunks */
static const int64_t front_floats = 1 << 12; /* and several groups of members */
#else
static const int64_t max_chunk_rows = 1 << 16;
static const int64_t front_floats = 1 << 27; /* values of the layers of a front: 512 MiB */
#endif
static const int64_t chunk_floats = 1 << 25; /* predictions in a chunk: 128 MiB */

/* A predicted column: quantity k of K q of the members of one ensemble. */
typedef struct tt_prediction_column {
  int64_t first, members;
  int32_t k;
} tt_prediction_column;

/* The trained ensemble on the device. */
typedef struct tt_device_ensemble {
  tt_model *model;
  float *w;                        /* [G][stride] */
  int64_t stride;                  /* tt_param_stride(P) */
  double *share;                   /* [G] member weights */
  tt_prediction_column *column;    /* [columns] */
  int64_t members, columns, width; /* width: quantities of a member, K q */
  float variance_floor;
} tt_device_ensemble;

/* One of the two sets of buffers; rows [first, first + rows) are in progress, rows = 0: none. */
typedef struct tt_chunk_buffers {
  cudaStream_t stream;
  tt_tile_plan plan;
  float *x, *host_x; /* [chunk][D], device and pinned */
  float *each;       /* [G][2][K q][chunk] */
  int front_layers;
  tt_cuda_front_arrays *front;    /* [front_layers] y of `group` members; NULL: no front */
  int64_t group;                  /* members at a time: all, without a front */
  double *moments, *host_moments; /* [MOMENTS][chunk][columns]: mean, between, within */
  int64_t first, rows;
} tt_chunk_buffers;

typedef struct tt_prediction_job {
  const tt_trained_ensemble *c;
  tt_dev dev;
  tt_device_ensemble device_ensemble;
  tt_chunk_buffers buffer_set[BUFFER_SETS];
  int64_t chunk;
  int threads; /* of the host, for copies */
  const float *x;
  tt_moments *into;
  float *members;
  int64_t rows;
} tt_prediction_job;

typedef struct predict_args {
  tt_device_ensemble device_ensemble; /* some of the members */
  const float *x;                     /* [rows][inputs of layer 0]; next member: + x_step */
  float *out;                         /* [members][2][K q][chunk] */
  float *scratch;                     /* [blocks][floats] or NULL */
  int64_t floats, chunk, x_step;
  int32_t rows, all; /* all: also members with member weight 0 */
} predict_args;

static __device__ void store_predictions(const predict_args &a, const tt_model &model,
                                         int64_t member, int32_t first, const float *out)
{
  int32_t targets = (int32_t)model.targets, left = a.rows - first;
  for (int32_t k = (int32_t)threadIdx.x; k < targets * TT_TILE_ROWS; k += (int32_t)blockDim.x) {
    int32_t r = k % TT_TILE_ROWS, target = k / TT_TILE_ROWS;
    if (r >= left) continue;
    int64_t column = member * 2 * a.device_ensemble.width + target * model.quantities;
    float *mean = a.out + column * a.chunk + first + r;
    tt_output_predict(model.output, model.levels, a.device_ensemble.variance_floor,
                      out + target * TT_TILE_ROWS + r, targets * TT_TILE_ROWS, mean,
                      mean + a.device_ensemble.width * a.chunk, a.chunk);
  }
}

/* One block per member and tile of rows; tiles of one member follow each other, so that its
 * weights are still in the cache. */
template <bool SCRATCH> static __global__ void predict_members(predict_args a)
{
  TT_SHARED_MEMORY(float, shared);
  const tt_model &model = *a.device_ensemble.model;
  float *tile = SCRATCH ? a.scratch + blockIdx.x * a.floats : shared;
  int64_t tiles = (a.rows + TT_TILE_ROWS - 1) / TT_TILE_ROWS;
  for (int64_t work = blockIdx.x; work < a.device_ensemble.members * tiles; work += gridDim.x) {
    int64_t member = work / tiles;
    int32_t first = (int32_t)(work % tiles) * TT_TILE_ROWS;
    if (!a.all && !(a.device_ensemble.share[member] > 0.0)) continue;
    int32_t in = (int32_t)model.layer[0].in;
    tt_tile_load(a.x + member * a.x_step + first * (int64_t)in, in, NULL, a.rows - first, tile);
    store_predictions(a, model, member, first,
                      tt_tile_forward(model,
                                      a.device_ensemble.w + member * a.device_ensemble.stride, tile,
                                      a.floats));
    __syncthreads();
  }
}

typedef struct moment_args {
  tt_device_ensemble device_ensemble;
  const float *each; /* [G][2][K q][chunk] */
  double *out;       /* [MOMENTS][chunk][columns] */
  int64_t chunk;
  int32_t rows;
} moment_args;

static __global__ void combine_moments(moment_args a)
{
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a.rows * a.device_ensemble.columns) return;
  int64_t row = i % a.rows, c = i / a.rows;
  tt_prediction_column column = a.device_ensemble.column[c];
  double sum = 0.0, mean = 0.0, between = 0.0, within = 0.0;
  for (int64_t m = column.first; m < column.first + column.members; m++) {
    double w = a.device_ensemble.share[m];
    if (w <= 0.0) continue;
    const float *place = a.each + (m * 2 * a.device_ensemble.width + column.k) * a.chunk + row;
    double mu = (double)place[0], step = mu - mean;
    sum += w;
    mean += step * (w / sum);
    between += w * step * (mu - mean);
    within += w * (double)place[a.device_ensemble.width * a.chunk];
  }
  double *out = a.out + row * a.device_ensemble.columns + c;
  int64_t moment_stride = a.chunk * a.device_ensemble.columns;
  out[0] = mean;
  out[moment_stride] = between;
  out[2 * moment_stride] = within;
}

/* upload of the trained ensemble */

static tt_err upload_columns(tt_prediction_job *s)
{
  tt_prediction_column *column = NULL;
  int64_t n = 0;
  TT_TRY(TT_ALLOC(column, s->device_ensemble.columns));
  for (int64_t e = 0; e < s->c->ensembles; e++)
    for (int64_t k = 0; k < s->device_ensemble.width; k++)
      column[n++] = {s->c->ensemble[e].first, s->c->ensemble[e].members, (int32_t)k};
  tt_err err = tt_dev_alloc(&s->device_ensemble.column, n, "columns");
  if (!err) err = tt_dev_upload_sync(s->device_ensemble.column, column, n, s->dev.stream);
  tt_free(column);
  return err;
}

static tt_err upload_ensemble(tt_prediction_job *s)
{
  const tt_trained_ensemble *c = s->c;
  int64_t stride = tt_param_stride(c->model.params);
  size_t width = (size_t)c->model.params * sizeof(float);
  s->device_ensemble.stride = stride;
  s->device_ensemble.members = c->members;
  s->device_ensemble.columns = tt_trained_ensemble_columns(c);
  s->device_ensemble.width = tt_trained_ensemble_width(c);
  s->device_ensemble.variance_floor = c->variance_floor;
  TT_TRY(tt_dev_alloc(&s->device_ensemble.model, 1, "shape of a member"));
  TT_TRY(tt_dev_upload(s->device_ensemble.model, &c->model, 1, s->dev.stream));
  TT_TRY(
      tt_dev_alloc(&s->device_ensemble.w, c->members * stride, "weights of the trained ensemble"));
  TT_TRY(
      TT_CUDA(cudaMemcpy2DAsync(s->device_ensemble.w, (size_t)stride * sizeof(float), c->w, width,
                                width, (size_t)c->members, cudaMemcpyHostToDevice, s->dev.stream)));
  TT_TRY(tt_dev_alloc(&s->device_ensemble.share, c->members,
                      "member weights of the trained ensemble"));
  TT_TRY(tt_dev_upload(s->device_ensemble.share, c->weight, c->members, s->dev.stream));
  return upload_columns(s); /* waits for all copies */
}

/* Values of all layers of a front for one row. */
static int64_t front_values(const tt_front *f)
{
  int64_t values = 0;
  for (int l = 0; l < f->layers; l++) values += tt_front_values(&f->layer[l]);
  return values;
}

static tt_err create_front_buffers(const tt_prediction_job *s, tt_chunk_buffers *buffer_set)
{
  const tt_front *f = &s->c->model.front;
  buffer_set->group = s->c->members;
  if (!f->layers) return TT_OK;
  int64_t fit = front_floats / (s->chunk * front_values(f));
  if (fit < buffer_set->group) buffer_set->group = fit < 1 ? 1 : fit;
  TT_TRY(TT_ALLOC(buffer_set->front, f->layers));
  buffer_set->front_layers = f->layers;
  for (int l = 0; l < f->layers; l++)
    TT_TRY(tt_dev_alloc(&buffer_set->front[l].y,
                        buffer_set->group * s->chunk * tt_front_values(&f->layer[l]),
                        "layers of a chunk of rows"));
  return TT_OK;
}

static tt_err create_buffers(tt_prediction_job *s, tt_chunk_buffers *buffer_set)
{
  const tt_model *m = &s->c->model;
  int64_t tiles = tt_ceil_div(s->chunk, TT_TILE_ROWS),
          cells = s->chunk * s->device_ensemble.columns;
  TT_TRY(TT_CUDA(cudaStreamCreateWithFlags(&buffer_set->stream, cudaStreamNonBlocking)));
  TT_TRY(create_front_buffers(s, buffer_set));
  TT_TRY(tt_tile_plan_make(&s->dev, m, buffer_set->group * tiles, 0, &buffer_set->plan));
  TT_TRY(tt_dev_alloc(&buffer_set->x, s->chunk * m->inputs, "inputs of a chunk of rows"));
  TT_TRY(tt_pinned_alloc(&buffer_set->host_x, s->chunk * m->inputs, "inputs of a chunk of rows"));
  TT_TRY(tt_dev_alloc(&buffer_set->each, s->c->members * 2 * s->device_ensemble.width * s->chunk,
                      "predictions of a chunk of rows"));
  if (!s->into) return TT_OK;
  TT_TRY(tt_dev_alloc(&buffer_set->moments, MOMENTS * cells, "moments of a chunk of rows"));
  return tt_pinned_alloc(&buffer_set->host_moments, MOMENTS * cells, "moments of a chunk of rows");
}

static void destroy_buffers(tt_chunk_buffers *buffer_set)
{
  if (buffer_set->stream) cudaStreamSynchronize(buffer_set->stream);
  tt_tile_plan_free(&buffer_set->plan);
  for (int l = 0; l < buffer_set->front_layers; l++) tt_dev_free(buffer_set->front[l].y);
  tt_free(buffer_set->front);
  tt_dev_free(buffer_set->x);
  tt_pinned_free(buffer_set->host_x);
  tt_dev_free(buffer_set->each);
  tt_dev_free(buffer_set->moments);
  tt_pinned_free(buffer_set->host_moments);
  if (buffer_set->stream) cudaStreamDestroy(buffer_set->stream);
}

/* chunks */

/* The features of some members for the rows in progress, which become their inputs. */
static tt_err compute_features(tt_prediction_job *s, tt_chunk_buffers *buffer_set, predict_args *a)
{
  tt_cuda_front_pass p = {};
  p.front = &s->c->model.front;
  p.layer = buffer_set->front;
  p.members = (int32_t)a->device_ensemble.members;
  p.rows = a->rows;
  p.x = buffer_set->x;
  p.w = a->device_ensemble.w;
  p.w_step = a->device_ensemble.stride;
  p.multiprocessors = s->dev.multiprocessors;
  p.clusters = s->dev.capability >= 90;
  p.stream = buffer_set->stream;
  a->x = tt_cuda_front_features(p.front, p.layer);
  a->x_step = a->rows * p.front->features;
  return tt_cuda_front_forward(&p, 0, p.front->layers);
}

/* Predictions of `members` members for the rows in progress. */
static tt_err launch_members(tt_prediction_job *s, tt_chunk_buffers *buffer_set, int64_t first,
                             int64_t members)
{
  const tt_tile_plan *plan = &buffer_set->plan;
  int64_t work = members * tt_ceil_div(buffer_set->rows, TT_TILE_ROWS);
  predict_args a = {};
  a.device_ensemble = s->device_ensemble;
  a.device_ensemble.members = members;
  a.device_ensemble.w += first * a.device_ensemble.stride;
  a.device_ensemble.share += first;
  a.x = buffer_set->x;
  a.out = buffer_set->each + first * 2 * a.device_ensemble.width * s->chunk;
  a.scratch = plan->scratch;
  a.floats = plan->floats;
  a.chunk = s->chunk;
  a.rows = (int32_t)buffer_set->rows;
  a.all = s->members != NULL;
  if (s->c->model.front.layers) TT_TRY(compute_features(s, buffer_set, &a));
  return tt_launch(plan->scratch ? predict_members<true> : predict_members<false>,
                   (unsigned)(work < plan->blocks ? work : plan->blocks), TT_TILE_THREADS,
                   plan->shared_bytes, buffer_set->stream, a);
}

static tt_err launch_chunk(tt_prediction_job *s, tt_chunk_buffers *buffer_set, int64_t first,
                           int64_t rows)
{
  int64_t inputs = s->c->model.inputs, members = s->c->members, group = buffer_set->group;
  buffer_set->first = first;
  buffer_set->rows = rows;
  tt_host_copy(buffer_set->host_x, s->x + first * inputs, rows * inputs * (int64_t)sizeof(float),
               s->threads);
  TT_TRY(tt_dev_upload(buffer_set->x, buffer_set->host_x, rows * inputs, buffer_set->stream));
  for (int64_t m = 0; m < members; m += group)
    TT_TRY(launch_members(s, buffer_set, m, members - m < group ? members - m : group));
  if (!s->into) return TT_OK;
  int64_t cells = s->chunk * s->device_ensemble.columns;
  moment_args add = {s->device_ensemble, buffer_set->each, buffer_set->moments, s->chunk,
                     (int32_t)rows};
  TT_TRY(tt_launch(combine_moments, tt_grid_size(rows * s->device_ensemble.columns, MOMENT_THREADS),
                   MOMENT_THREADS, 0, buffer_set->stream, add));
  return tt_dev_download(buffer_set->host_moments, buffer_set->moments, MOMENTS * cells,
                         buffer_set->stream);
}

/* Wait for the chunk in a set of buffers and pass its results to the caller. */
static tt_err collect_chunk(tt_prediction_job *s, tt_chunk_buffers *buffer_set)
{
  int64_t lines = s->c->members * 2 * s->device_ensemble.width,
          moment_stride = s->chunk * s->device_ensemble.columns,
          cells = buffer_set->rows * s->device_ensemble.columns;
  size_t width = (size_t)buffer_set->rows * sizeof(float);
  if (!buffer_set->rows) return TT_OK;
  if (s->members)
    TT_TRY(
        TT_CUDA(cudaMemcpy2DAsync(s->members + buffer_set->first, (size_t)s->rows * sizeof(float),
                                  buffer_set->each, (size_t)s->chunk * sizeof(float), width,
                                  (size_t)lines, cudaMemcpyDeviceToHost, buffer_set->stream)));
  TT_TRY(tt_stream_synchronize(buffer_set->stream));
  double *dst[MOMENTS];
  if (s->into) dst[0] = s->into->mean, dst[1] = s->into->between, dst[2] = s->into->within;
  for (int m = 0; s->into && m < MOMENTS; m++)
    tt_host_copy(dst[m] + buffer_set->first * s->device_ensemble.columns,
                 buffer_set->host_moments + m * moment_stride, cells * (int64_t)sizeof(double),
                 s->threads);
  buffer_set->rows = 0;
  return TT_OK;
}

static tt_err predict_chunks(tt_prediction_job *s)
{
  int64_t first = 0;
  for (int set = 0; first < s->rows; set = (set + 1) % BUFFER_SETS, first += s->chunk) {
    TT_TRY(collect_chunk(s, &s->buffer_set[set]));
    int64_t left = s->rows - first;
    TT_TRY(launch_chunk(s, &s->buffer_set[set], first, left < s->chunk ? left : s->chunk));
  }
  for (int set = 0; set < BUFFER_SETS; set++) TT_TRY(collect_chunk(s, &s->buffer_set[set]));
  return TT_OK;
}

/* Rows of a chunk: whole tiles, as many as give at most chunk_floats predictions of all members,
 * and front_floats values of the front of one member. */
static int64_t chunk_rows(const tt_prediction_job *s)
{
  int64_t each = s->c->members * 2 * s->device_ensemble.width, fit = chunk_floats / each;
  int64_t values = front_values(&s->c->model.front), most = max_chunk_rows;
  if (values && front_floats / values < most) most = front_floats / values;
  int64_t rows = fit < most ? fit : most, need = tt_ceil_div(s->rows, TT_TILE_ROWS);
  int64_t tiles = rows / TT_TILE_ROWS < need ? rows / TT_TILE_ROWS : need;
  return (tiles < 1 ? 1 : tiles) * TT_TILE_ROWS;
}

static tt_err predict(tt_prediction_job *s, int device)
{
  TT_TRY(tt_dev_open(device, &s->dev));
  TT_TRY(upload_ensemble(s));
  s->chunk = chunk_rows(s);
  int64_t lanes = s->rows > s->chunk ? BUFFER_SETS : 1;
  for (int64_t i = 0; i < lanes; i++) TT_TRY(create_buffers(s, &s->buffer_set[i]));
  return predict_chunks(s);
}

tt_err tt_cuda_predict(const tt_trained_ensemble *c, const tt_resources *use, int64_t rows,
                       const float *x, tt_moments *dst, float *members)
{
  if (c->networks) return tt_mixed_predict(tt_cuda_predict, c, use, rows, x, dst, members);
  if (c->scaler.components)
    return TT_FAIL(UNAVAILABLE, "a GPU does not predict with components of the targets");
  tt_prediction_job s = {};
  s.c = c;
  s.x = x;
  s.rows = rows;
  s.threads = use->threads;
  s.into = dst;
  s.members = members;
  if (dst) {
    tt_moments_clear(dst);
    tt_moments_set_weights(dst, c);
  }
  if (!rows || !c->members) return TT_OK;
  tt_err err = predict(&s, use->device);
  for (int i = 0; i < BUFFER_SETS; i++) destroy_buffers(&s.buffer_set[i]);
  tt_dev_free(s.device_ensemble.model);
  tt_dev_free(s.device_ensemble.w);
  tt_dev_free(s.device_ensemble.share);
  tt_dev_free(s.device_ensemble.column);
  tt_dev_close(&s.dev);
  return err;
}
