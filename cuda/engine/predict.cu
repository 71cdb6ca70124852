/* predict.cu — predictions of a committee: rows in chunks over two lanes, each with a stream,
 * device and pinned buffers of its own, so that the copies of one run beside the kernels of the
 * other.
 *
 * A chunk: every member over every tile of rows in parallel; then, for every row and column, the
 * moments over members in member order, in the arithmetic of tt_moments_add. */
#include "cuda/common/engine_functions.cuh"

#include "core/base/mem.h"
#include "cuda/common/forward_tile.cuh"

#include <string.h>

enum { LANES = 2, MOMENTS = 3, MOMENT_THREADS = 128 };
#ifdef TT_CUDA_DOUBLE
static const int64_t most_rows = TT_TILE; /* of a chunk; few, so that tests have several */
#else
static const int64_t most_rows = 1 << 16;
#endif
static const int64_t chunk_floats = 1 << 25; /* of all members' predictions: 128 MiB a lane */

/* A predicted column: quantity k of K q of the members of one ensemble. */
typedef struct tt_predicted {
  int64_t first, members;
  int32_t k;
} tt_predicted;

/* The committee on the device. */
typedef struct tt_cast {
  tt_model *model;
  float *w;             /* [G][P] */
  double *share;        /* [G] */
  tt_predicted *column; /* [columns] */
  int64_t members, columns, width; /* width: quantities of a member, K q */
  float variance_floor;
} tt_cast;

/* One of the two; `rows` from `first` on are under way, 0 = none. */
typedef struct tt_lane {
  cudaStream_t stream;
  tt_tile_plan plan;
  float *x, *host_x;             /* [chunk][D], device and pinned */
  float *each;                   /* [G][2][K q][chunk] */
  double *moments, *host_moments; /* [MOMENTS][chunk][columns]: mean, between, within */
  int64_t first, rows;
} tt_lane;

typedef struct tt_show {
  const tt_committee *c;
  tt_dev dev;
  tt_cast cast;
  tt_lane lane[LANES];
  int64_t chunk;
  const float *x;
  tt_moments *into;
  float *members;
  int64_t rows;
} tt_show;

typedef struct each_args {
  tt_cast cast;
  const float *x;   /* [rows][D] */
  float *out;       /* [G][2][K q][chunk] */
  float *scratch;   /* [blocks][floats] or NULL */
  int64_t floats, chunk;
  int32_t rows, all; /* all: members with a share of 0 too */
} each_args;

static __device__ void keep(const each_args &a, const tt_model &model, int64_t member,
                            int32_t first, const float *out)
{
  int32_t targets = (int32_t)model.targets, left = a.rows - first;
  for (int32_t k = (int32_t)threadIdx.x; k < targets * TT_TILE; k += (int32_t)blockDim.x) {
    int32_t r = k % TT_TILE, target = k / TT_TILE;
    if (r >= left) continue;
    int64_t column = member * 2 * a.cast.width + target * model.quantities;
    float *mean = a.out + column * a.chunk + first + r;
    tt_output_predict(model.output, model.levels, a.cast.variance_floor, out + target * TT_TILE + r,
                      targets * TT_TILE, mean, mean + a.cast.width * a.chunk, a.chunk);
  }
}

/* A block takes a member and a tile of rows; tiles of one member follow each other, so that its
 * weights are still in the cache. */
static __global__ void each_member(each_args a)
{
  TT_SHARED(float, shared);
  const tt_model &model = *a.cast.model;
  float *tile = a.scratch ? a.scratch + blockIdx.x * a.floats : shared;
  int64_t tiles = (a.rows + TT_TILE - 1) / TT_TILE;
  for (int64_t work = blockIdx.x; work < a.cast.members * tiles; work += gridDim.x) {
    int64_t member = work / tiles;
    int32_t first = (int32_t)(work % tiles) * TT_TILE;
    if (!a.all && !(a.cast.share[member] > 0.0)) continue;
    tt_tile_load(a.x + first * model.inputs, (int32_t)model.inputs, NULL, a.rows - first, tile);
    keep(a, model, member, first,
         tt_tile_forward(model, a.cast.w + member * model.params, tile, a.floats));
    __syncthreads();
  }
}

typedef struct moment_args {
  tt_cast cast;
  const float *each; /* [G][2][K q][chunk] */
  double *out;       /* [MOMENTS][chunk][columns] */
  int64_t chunk;
  int32_t rows;
} moment_args;

static __global__ void add_members(moment_args a)
{
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a.rows * a.cast.columns) return;
  int64_t row = i % a.rows, c = i / a.rows;
  tt_predicted column = a.cast.column[c];
  double sum = 0.0, mean = 0.0, between = 0.0, within = 0.0;
  for (int64_t m = column.first; m < column.first + column.members; m++) {
    double w = a.cast.share[m];
    if (w <= 0.0) continue;
    const float *at = a.each + (m * 2 * a.cast.width + column.k) * a.chunk + row;
    double mu = (double)at[0], step = mu - mean;
    sum += w;
    mean += step * (w / sum);
    between += w * step * (mu - mean);
    within += w * (double)at[a.cast.width * a.chunk];
  }
  double *out = a.out + row * a.cast.columns + c;
  int64_t apart = a.chunk * a.cast.columns;
  out[0] = mean;
  out[apart] = between;
  out[2 * apart] = within;
}

/* ---- the committee goes up ---- */

static tt_err put_columns(tt_show *s)
{
  tt_predicted *column = NULL;
  int64_t n = 0;
  TT_TRY(TT_ALLOC(column, s->cast.columns));
  for (int64_t e = 0; e < s->c->ensembles; e++)
    for (int64_t k = 0; k < s->cast.width; k++)
      column[n++] = {s->c->ensemble[e].first, s->c->ensemble[e].members, (int32_t)k};
  tt_err err = tt_dev_alloc(&s->cast.column, n, "columns");
  if (!err) err = tt_dev_upload_now(s->cast.column, column, n, s->dev.stream);
  tt_free(column);
  return err;
}

static tt_err put_committee(tt_show *s)
{
  const tt_committee *c = s->c;
  int64_t weights = c->members * c->model.params;
  s->cast.members = c->members;
  s->cast.columns = tt_committee_columns(c);
  s->cast.width = tt_committee_width(c);
  s->cast.variance_floor = c->variance_floor;
  TT_TRY(tt_dev_alloc(&s->cast.model, 1, "shape of a member"));
  TT_TRY(tt_dev_upload(s->cast.model, &c->model, 1, s->dev.stream));
  TT_TRY(tt_dev_alloc(&s->cast.w, weights, "weights of the committee"));
  TT_TRY(tt_dev_upload(s->cast.w, c->w, weights, s->dev.stream));
  TT_TRY(tt_dev_alloc(&s->cast.share, c->members, "shares of the committee"));
  TT_TRY(tt_dev_upload(s->cast.share, c->weight, c->members, s->dev.stream));
  return put_columns(s); /* waits for all of them */
}

static tt_err open_lane(tt_show *s, tt_lane *lane)
{
  const tt_model *m = &s->c->model;
  int64_t tiles = (s->chunk + TT_TILE - 1) / TT_TILE, cells = s->chunk * s->cast.columns;
  TT_TRY(TT_CUDA(cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking)));
  TT_TRY(tt_tile_plan_make(&s->dev, m, s->c->members * tiles, 0, &lane->plan));
  TT_TRY(tt_dev_alloc(&lane->x, s->chunk * m->inputs, "inputs of a chunk of rows"));
  TT_TRY(tt_pinned_alloc(&lane->host_x, s->chunk * m->inputs, "inputs of a chunk of rows"));
  TT_TRY(tt_dev_alloc(&lane->each, s->c->members * 2 * s->cast.width * s->chunk,
                      "predictions of a chunk of rows"));
  if (!s->into) return TT_OK;
  TT_TRY(tt_dev_alloc(&lane->moments, MOMENTS * cells, "moments of a chunk of rows"));
  return tt_pinned_alloc(&lane->host_moments, MOMENTS * cells, "moments of a chunk of rows");
}

static void close_lane(tt_lane *lane)
{
  if (lane->stream) cudaStreamSynchronize(lane->stream);
  tt_tile_plan_free(&lane->plan);
  tt_dev_free(lane->x);
  tt_pinned_free(lane->host_x);
  tt_dev_free(lane->each);
  tt_dev_free(lane->moments);
  tt_pinned_free(lane->host_moments);
  if (lane->stream) cudaStreamDestroy(lane->stream);
}

/* ---- chunks ---- */

static tt_err put_chunk(tt_show *s, tt_lane *lane, int64_t first, int64_t rows)
{
  int64_t inputs = s->c->model.inputs, tiles = (rows + TT_TILE - 1) / TT_TILE;
  int64_t work = s->c->members * tiles;
  int64_t blocks = work < lane->plan.blocks ? work : lane->plan.blocks;
  lane->first = first;
  lane->rows = rows;
  memcpy(lane->host_x, s->x + first * inputs, (size_t)(rows * inputs) * sizeof(float));
  TT_TRY(tt_dev_upload(lane->x, lane->host_x, rows * inputs, lane->stream));
  each_args each = {s->cast,           lane->x,  lane->each,    lane->plan.scratch,
                    lane->plan.floats, s->chunk, (int32_t)rows, s->members != NULL};
  TT_TRY(tt_launch(each_member, (unsigned)blocks, TT_TILE_THREADS, lane->plan.shared_bytes,
                   lane->stream, each));
  if (!s->into) return TT_OK;
  int64_t cells = s->chunk * s->cast.columns;
  moment_args add = {s->cast, lane->each, lane->moments, s->chunk, (int32_t)rows};
  TT_TRY(tt_launch(add_members, tt_blocks(rows * s->cast.columns, MOMENT_THREADS), MOMENT_THREADS,
                   0, lane->stream, add));
  return tt_dev_download(lane->host_moments, lane->moments, MOMENTS * cells, lane->stream);
}

/* Wait for the chunk of a lane, and hand it out. */
static tt_err take_chunk(tt_show *s, tt_lane *lane)
{
  int64_t lines = s->c->members * 2 * s->cast.width, apart = s->chunk * s->cast.columns;
  size_t width = (size_t)lane->rows * sizeof(float), cells = (size_t)(lane->rows * s->cast.columns);
  if (!lane->rows) return TT_OK;
  if (s->members)
    TT_TRY(TT_CUDA(cudaMemcpy2DAsync(s->members + lane->first, (size_t)s->rows * sizeof(float),
                                     lane->each, (size_t)s->chunk * sizeof(float), width,
                                     (size_t)lines, cudaMemcpyDeviceToHost, lane->stream)));
  TT_TRY(tt_dev_wait(lane->stream));
  double *to[MOMENTS];
  if (s->into) to[0] = s->into->mean, to[1] = s->into->between, to[2] = s->into->within;
  for (int m = 0; s->into && m < MOMENTS; m++)
    memcpy(to[m] + lane->first * s->cast.columns, lane->host_moments + m * apart,
           cells * sizeof(double));
  lane->rows = 0;
  return TT_OK;
}

static tt_err all_chunks(tt_show *s)
{
  int64_t first = 0;
  for (int at = 0; first < s->rows; at = (at + 1) % LANES, first += s->chunk) {
    TT_TRY(take_chunk(s, &s->lane[at]));
    int64_t left = s->rows - first;
    TT_TRY(put_chunk(s, &s->lane[at], first, left < s->chunk ? left : s->chunk));
  }
  for (int at = 0; at < LANES; at++) TT_TRY(take_chunk(s, &s->lane[at]));
  return TT_OK;
}

/* Whole tiles, so many that the predictions of all members fit the room of a lane. */
static int64_t chunk_of(const tt_show *s)
{
  int64_t each = s->c->members * 2 * s->cast.width, fit = chunk_floats / each;
  int64_t rows = fit < most_rows ? fit : most_rows, need = (s->rows + TT_TILE - 1) / TT_TILE;
  int64_t tiles = rows / TT_TILE < need ? rows / TT_TILE : need;
  return (tiles < 1 ? 1 : tiles) * TT_TILE;
}

static tt_err predict(tt_show *s, int device)
{
  TT_TRY(tt_dev_open(device, &s->dev));
  TT_TRY(put_committee(s));
  s->chunk = chunk_of(s);
  int64_t lanes = s->rows > s->chunk ? LANES : 1;
  for (int64_t i = 0; i < lanes; i++) TT_TRY(open_lane(s, &s->lane[i]));
  return all_chunks(s);
}

tt_err tt_cuda_predict(const tt_committee *c, const tt_resources *use, int64_t rows, const float *x,
                       tt_moments *into, float *members)
{
  tt_show s = {};
  s.c = c;
  s.x = x;
  s.rows = rows;
  s.into = into;
  s.members = members;
  if (into) {
    tt_moments_clear(into);
    tt_moments_take_shares(into, c);
  }
  if (!rows || !c->members) return TT_OK;
  tt_err err = predict(&s, use->device);
  for (int i = 0; i < LANES; i++) close_lane(&s.lane[i]);
  tt_dev_free(s.cast.model);
  tt_dev_free(s.cast.w);
  tt_dev_free(s.cast.share);
  tt_dev_free(s.cast.column);
  tt_dev_close(&s.dev);
  return err;
}
