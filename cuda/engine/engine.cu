/* engine.cu — the cuda engine: the state of all members is on the device, and a path advances
 * it. */
#include "cuda/common/engine_functions.cuh"
#include "cuda/plan/path.h"

#include "core/base/mem.h"
#include "core/engine/plugin.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { REPORT_THREADS = 128 };
static const int64_t init_chunk_members = 256; /* on the host at a time */
/* Maximum of steps in a call of train: paths add it to the steps done. */
static const int64_t max_steps = INT64_C(1) << 62;

#define X(name, ...) &tt_cuda_##name,
static const tt_cuda_path *const paths[TT_GPU_PATH_COUNT] = {NULL, TT_GPU_PATHS(X)};
#undef X

/* fields of the state */

/* Shape of field `f` on the device; no data. */
static tt_state_field field_shape(const tt_engine *e, int f)
{
  const tt_state s = tt_device_state(e->cohort);
  return tt_state_get(&s, f);
}

/* Address of the pointer to device field `f` in the view. */
static void **field_pointer(tt_engine *e, int f)
{
  switch (f) {
#define X(name, type, length)                                                                      \
  case TT_STATE_FIELD_##name: return reinterpret_cast<void **>(&e->view.name);
    TT_STATE_FIELDS(X)
#undef X
  default: return NULL;
  }
}

static tt_err allocate_state(tt_engine *e)
{
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    char what[64];
    tt_state_field field = field_shape(e, f);
    snprintf(what, sizeof what, "%s of %" PRId64 " members", field.name, e->slice.count);
    TT_TRY(tt_dev_alloc_bytes(field_pointer(e, f), e->slice.count * field.length,
                              (size_t)field.bytes, what));
  }
  return TT_ALLOC(e->status, e->slice.count);
}

static tt_err allocate_arrays(tt_engine *e)
{
  const tt_device_sizes sizes = tt_device_sizes_of(e->cohort, e->slice), *s = &sizes;
#define X(name, type, count, what)                                                                 \
  if ((count) > 0) TT_TRY(tt_dev_alloc(&e->name, count, what));
  TT_DEVICE_ARRAYS(X)
#undef X
  return TT_OK;
}

/* Whether a state has the same shape as these members and contains members `which`. */
static int state_covers(const tt_engine *e, tt_slice which, const tt_state *s)
{
  tt_state_shape own = tt_cohort_state_shape(e->cohort);
  int64_t last = which.first + which.count, end = e->slice.first + e->slice.count;
  int there = which.first >= s->first && last <= s->first + s->count &&
              which.first >= e->slice.first && last <= end;
  return there && s->params == own.params && s->slots == own.slots && s->epochs == own.epochs &&
         s->averages == own.averages;
}

/* Copy field `f` of members `which`. Where the device has padded parameters, or the state a segment
 * of them, the copy is of two dimensions: vectors of P floats, or of those of the segment. */
static tt_err copy_field(tt_engine *e, int f, tt_slice which, const tt_state *s,
                         cudaMemcpyKind kind)
{
  tt_state_field field = tt_state_get(s, f);
  int64_t each = field.bytes * field.length, device_each = field.bytes * field_shape(e, f).length;
  char *device =
      static_cast<char *>(*field_pointer(e, f)) + (which.first - e->slice.first) * device_each;
  char *host = static_cast<char *>(field.data) + (which.first - s->first) * each;
  char *dst = kind == cudaMemcpyHostToDevice ? device : host;
  const char *src = kind == cudaMemcpyHostToDevice ? host : device;
  if (!each || !which.count) return TT_OK;
  if (each == device_each)
    return tt_dev_copy_bytes(dst, src, which.count * each, kind, e->dev.stream);
  tt_slice slice = tt_state_own(s);
  if (!tt_state_own_vectors(s, f)) slice = {0, s->params};
  size_t width = (size_t)slice.count * sizeof(float);
  size_t padded = (size_t)tt_param_stride(s->params) * sizeof(float);
  size_t skipped = (size_t)slice.first * sizeof(float);
  return TT_CUDA(
      cudaMemcpy2DAsync(dst == device ? dst + skipped : dst, dst == device ? padded : width,
                        dst == device ? src : src + skipped, dst == device ? width : padded, width,
                        (size_t)(which.count * field.length / slice.count), kind, e->dev.stream));
}

/* Copy members `which` between the device and a state that must contain them. */
static tt_err copy_members(tt_engine *e, tt_slice which, const tt_state *s, cudaMemcpyKind kind)
{
  if (!state_covers(e, which, s))
    return TT_FAIL(INTERNAL, "members %" PRId64 " + %" PRId64 " do not fit engine and state",
                   which.first, which.count);
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) TT_TRY(copy_field(e, f, which, s, kind));
  return tt_stream_synchronize(e->dev.stream);
}

static tt_err save(tt_engine *e, tt_slice which, tt_state *dst)
{
  TT_TRY(tt_dev_use(&e->dev));
  return copy_members(e, which, dst, cudaMemcpyDeviceToHost);
}

static tt_err load(tt_engine *e, tt_slice which, const tt_state *src)
{
  TT_TRY(tt_dev_use(&e->dev));
  TT_TRY(copy_members(e, which, src, cudaMemcpyHostToDevice));
  tt_cuda_members_changed(e);
  for (int64_t i = 0; i < which.count; i++)
    e->status[which.first - e->slice.first + i] =
        TT_FIELD(src, status)[which.first - src->first + i];
  return TT_OK;
}

/* create and destroy */

static void destroy(tt_engine **engine)
{
  tt_engine *e = *engine;
  if (!e) return;
  if (e->path) e->path->release(e);
  tt_cuda_given_destroy(e);
  tt_cuda_free_data(e);
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) tt_dev_free(*field_pointer(e, f));
#define X(name, ...) tt_dev_free(e->name);
  TT_DEVICE_ARRAYS(X)
#undef X
  tt_free(e->status);
  tt_dev_close(&e->dev);
  tt_free(*engine);
}

static void set_state_constants(tt_engine *e)
{
  const tt_cohort *c = e->cohort;
  tt_cuda_state *v = &e->view;
  v->members = (int32_t)e->slice.count;
  v->targets = (int32_t)c->model.targets;
  v->outputs = (int32_t)c->model.outputs;
  v->heads = c->model.heads > 1 ? c->model.heads : 1;
  v->params = (int32_t)c->model.params;
  v->param_stride = (int32_t)tt_param_stride(c->model.params);
  v->slot_count = (int32_t)tt_optimizer_slots(c->optimizer);
  v->epochs = (int32_t)c->max_epochs;
  v->layers = (int32_t)c->model.layers;
  v->batch_size = (int32_t)c->batch_size;
  v->batch_parts = (int32_t)c->parts;
  v->nesterov = c->nesterov;
  v->reseed = c->retry_reseed;
  v->lr_varies = tt_cohort_lr_varies(c);
  v->schedule = c->schedule;
  v->schedule_options = c->schedule_options;
  v->average_kind = c->average;
  v->seed = c->seed;
  v->resample = c->resample;
  v->loss = c->loss;
  v->loss_args = tt_cohort_loss_args(c);
  v->optimizer = c->optimizer;
  v->output = c->model.output;
  v->activation = c->model.layer[0].activation;
}

/* Block and cluster give the same bits, so auto may leave a choice of clusters that do not all
 * run at the same time: it chooses again, as for a GPU with the multiprocessors that they can
 * use. */
static tt_err choose_path(tt_engine *e, tt_gpu_path wanted, tt_gpu_path_check check)
{
  tt_path_choice chosen;
  int places = 0;
  tt_path_context context = {e->dev.shared_bytes,    e->precision,   e->dev.capability,
                             e->dev.multiprocessors, e->slice.count, check};
  for (;;) {
    TT_TRY(tt_path_choose(e->cohort, &context, wanted, &chosen));
    if (wanted != TT_GPU_PATH_auto || chosen.path != TT_GPU_PATH_cluster) break;
    TT_TRY(tt_cuda_cluster_places(e, chosen.ranks, &places));
    if (places >= e->slice.count) break;
    context.multiprocessors = places * chosen.ranks;
  }
  e->path = paths[chosen.path];
  e->precision = chosen.precision;
  e->cluster_ranks = chosen.ranks;
  for (int k = TT_GPU_PATH_auto + 1; k < TT_GPU_PATH_COUNT; k++)
    if (paths[k]->takes_host_rows) e->host_rows_path = paths[k];
  snprintf(e->why, sizeof e->why, "%s", chosen.why);
  return TT_OK;
}

static tt_err open_engine(tt_engine *e, const tt_resources *use)
{
  const tt_cohort *c = e->cohort;
  TT_TRY(tt_dev_open(use->device, &e->dev));
  e->precision = use->precision;
  e->threads = use->threads;
  e->device_exchange = use->device_exchange;
  e->stop = use->stop;
  e->wanted = use->path;
  TT_TRY(choose_path(e, use->path, use->check));
  set_state_constants(e);
  TT_TRY(allocate_state(e));
  TT_TRY(allocate_arrays(e));
  TT_TRY(tt_dev_upload(e->model, &c->model, 1, e->dev.stream));
  TT_TRY(tt_dev_upload_sync(e->member, c->member + e->slice.first, e->slice.count, e->dev.stream));
  e->view.model = e->model;
  e->view.member = e->member;
  return TT_OK;
}

static tt_err create(const tt_cohort *cohort, tt_slice slice, const tt_resources *use,
                     tt_engine **out)
{
  tt_engine *e = NULL;
  TT_TRY(TT_ALLOC(e, 1));
  e->cohort = cohort;
  e->slice = slice;
  tt_err err = open_engine(e, use);
  if (err)
    destroy(&e);
  else
    *out = e;
  return err;
}

/* Initialize members [first, first + count) of the slice on the host, so that all engines give
 * the same bits. */
static tt_err init_range(tt_engine *e, int64_t first, int64_t count)
{
  const tt_cohort *c = e->cohort;
  tt_slice some = {e->slice.first + first, count};
  tt_state *fresh = NULL;
  TT_TRY(tt_state_create(some, tt_cohort_state_shape(c), &fresh));
  tt_err err = tt_members_init_weights(c, some, e->stop, TT_FIELD(fresh, weights));
  if (!err) err = load(e, some, fresh);
  tt_state_destroy(&fresh);
  return err;
}

static tt_err init(tt_engine *e)
{
  for (int64_t first = 0; first < e->slice.count; first += init_chunk_members) {
    int64_t left = e->slice.count - first;
    TT_TRY(init_range(e, first, left < init_chunk_members ? left : init_chunk_members));
  }
  return TT_OK;
}

/* training */

typedef struct report_args {
  tt_cuda_state v;
  const int64_t *before;
  tt_member_progress *out; /* [M] */
} report_args;

static __global__ void report_progress(report_args a)
{
  int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= a.v.members) return;
  int32_t epoch = a.v.epoch[i];
  a.out[i].taken = a.v.step[i] - a.before[i];
  a.out[i].epoch = epoch;
  a.out[i].loss = tt_last_epoch_loss(a.v.loss_train, a.v.epochs, i, epoch);
  a.out[i].status = a.v.status[i];
}

static tt_err train_members(tt_engine *e, int64_t steps, tt_member_progress *progress)
{
  int64_t members = e->slice.count;
  TT_TRY(tt_dev_copy(e->before, e->view.step, members, e->dev.stream));
  if (steps > 0) TT_TRY(e->path->train(e, steps < max_steps ? steps : max_steps));
  report_args a = {e->view, e->before, e->standing};
  TT_TRY(tt_launch(report_progress, tt_grid_size(members, REPORT_THREADS), REPORT_THREADS, 0,
                   e->dev.stream, a));
  TT_TRY(tt_dev_download_sync(progress, e->standing, members, e->dev.stream));
  for (int64_t i = 0; i < members; i++) e->status[i] = progress[i].status;
  return TT_OK;
}

static tt_err train(tt_engine *e, int64_t steps, tt_progress *out)
{
  tt_member_progress *progress = NULL;
  if (e->given) return tt_cuda_train_given(e);
  TT_TRY(TT_ALLOC(progress, e->slice.count));
  tt_err err = e->slice.count ? train_members(e, steps, progress) : TT_OK;
  if (!err) tt_progress_from_members(e->slice.count, progress, e->cohort->max_epochs, out);
  tt_free(progress);
  return err;
}

/* Name of the first path with the same bits. */
static const char *name_of_bits(const tt_cuda_path *path)
{
  int k = TT_GPU_PATH_auto + 1;
  if (!path->arithmetic) return path->name;
  while (paths[k]->arithmetic != path->arithmetic) k++;
  return paths[k]->name;
}

/* Engines with the same text give the same bits. Tensor cores of another kind of GPU may add in
 * another order. */
static void arithmetic_text(const tt_engine *e, char *text, size_t capacity)
{
  char gpu[16] = "", order[40] = "";
  if (e->precision != TT_PRECISION_fp32) snprintf(gpu, sizeof gpu, " sm%d", e->dev.capability);
  if (e->path->arithmetic) e->path->arithmetic(e, order, sizeof order);
  snprintf(text, capacity, "cuda %s%s %s%s%s", tt_choice_precision[e->precision], gpu,
           name_of_bits(e->path), *order ? " " : "", order);
}

static tt_err info(const tt_engine *e, tt_engine_info *out)
{
  char text[640];
  *out = {};
  out->device_bytes = tt_dev_memory_allocated().device_bytes;
  snprintf(text, sizeof text, "%s (%s), %s path: %s", e->dev.name, e->dev.uuid, e->path->name,
           e->why);
  snprintf(out->device, sizeof out->device, "%.*s", (int)sizeof out->device - 1, text);
  arithmetic_text(e, out->arithmetic, sizeof out->arithmetic);
  return TT_OK;
}

static constexpr tt_engine_ops make_ops()
{
  tt_engine_ops ops = {}; /* NULL: predict_bytes, host_bytes: negligible */
  ops.name = "cuda";
  ops.count = tt_dev_count;
  ops.describe = tt_dev_describe;
  ops.versions = tt_dev_versions;
  ops.create = create;
  ops.destroy = destroy;
  ops.set_data = tt_cuda_set_data;
  ops.init = init;
  ops.train = train;
  ops.evaluate = tt_cuda_evaluate;
  ops.save = save;
  ops.load = load;
  ops.info = info;
  ops.predict = tt_cuda_predict;
  ops.set_batch = tt_cuda_set_batch;
  ops.forward = tt_cuda_forward_given;
  ops.backward = tt_cuda_backward;
  ops.update = tt_cuda_update;
  ops.take_gradient = tt_cuda_take_gradient;
  ops.set_hyper = tt_cuda_members_changed;
  ops.team = &tt_layered_team;
  return ops;
}
extern const tt_engine_ops tt_engine_cuda = make_ops();

/* The functions that make a shared library of this engine a plugin. */
extern "C" __attribute__((visibility("default"))) const char *tutti_engine_plugin_interface(void)
{
  return tt_engine_interface;
}

extern "C" __attribute__((visibility("default"))) const tt_engine_ops *
tutti_engine_plugin(const tt_plugin_host *host)
{
  tt_err_use_record(host->record);
  tt_log_set_level(host->log.level);
  tt_log_set_rank(host->log.rank, host->log.ranks);
  return &tt_engine_cuda;
}
