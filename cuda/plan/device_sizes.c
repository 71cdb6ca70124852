/* device_sizes.c — see device_sizes.h. */
#include "cuda/plan/device_sizes.h"

#include "core/base/int.h"
#include "cuda/plan/block_plan.h"

tt_device_sizes tt_device_sizes_of(const tt_cohort *c, tt_slice slice)
{
  return (tt_device_sizes){.members = slice.count,
                           .row_sets = tt_cohort_row_sets(c),
                           .columns = c->ensembles * c->model.targets};
}

tt_state tt_device_state(const tt_cohort *c)
{
  tt_state_shape shape = tt_cohort_state_shape(c);
  return (tt_state){.params = tt_param_stride(shape.params),
                    .slots = shape.slots,
                    .epochs = shape.epochs,
                    .averages = shape.averages};
}

/* The engine allocates at least one element for each array of the state. */
static int64_t state_bytes(const tt_cohort *c, int64_t members)
{
  const tt_state s = tt_device_state(c);
  int64_t bytes = 0;
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field field = tt_state_get(&s, f);
    bytes += tt_max_i64(1, members * field.length) * field.bytes;
  }
  return bytes;
}

#define X(name, type, count, what) bytes += (int64_t)sizeof(type) * (count);
static int64_t array_bytes(const tt_device_sizes *s)
{
  int64_t bytes = 0;
  TT_DEVICE_ARRAYS(X)
  return bytes;
}

/* Where members need scratch memory, a multiprocessor trains one member at a time. */
static void add_fused(const tt_device_job *job, const tt_path_choice *choice, tt_device_need *need)
{
  int64_t bytes = 0, floats = 0, members = job->slice.count;
  tt_block_plan block;
  if (choice->path == TT_GPU_PATH_block &&
      tt_block_plan_make(job->cohort, choice->precision, job->context->shared_bytes, &block))
    floats = tt_block_scratch_floats(&block) * tt_min_i64(members, job->context->multiprocessors);
  TT_FUSED_ARRAYS(X)
  need->device += bytes;
  need->pinned += 2 * members * (int64_t)sizeof(int32_t); /* the queue is made there */
}
#undef X

static void add_layered(const tt_device_job *job, tt_device_need *need)
{
  const tt_cohort *c = job->cohort;
  tt_layered_sizes s = tt_layered_sizes_of(c, job->slice, job->rows, job->weighted, job->streamed);
  need->device += tt_layered_bytes(&s, &c->model);
  need->pinned += tt_layered_pinned_bytes(&s);
  if (!job->share) return;
  need->device += tt_layered_share_bytes(&s, c, job->share);
  if (!job->device_exchange) need->pinned += tt_layered_exchanged_bytes(c, job->share);
}

/* The lists of rows are on the device one after the other. On the host they are made, each with
 * room for all rows, then put one after the other; the lists remain there if rows are streamed.
 * With `by` each row is in the lists of one ensemble only. */
static void add_row_lists(const tt_device_job *job, int64_t row_sets, tt_device_need *need)
{
  const tt_cohort *c = job->cohort;
  int64_t lists = c->ensemble[0].rows.count ? row_sets / c->ensembles : row_sets;
  int64_t rows = lists * job->rows * (int64_t)sizeof(int32_t);
  need->device += rows;
  need->lists += (TT_SPLITS + 1) * rows;
}

tt_err tt_device_need_of(const tt_device_job *job, tt_device_need *need)
{
  const tt_device_sizes sizes = tt_device_sizes_of(job->cohort, job->slice);
  tt_path_choice choice;
  tt_path_context here = *job->context;
  here.members = job->slice.count;
  *need = (tt_device_need){0};
  if (job->slice.count < 1) return TT_OK;
  TT_TRY(tt_path_choose(job->cohort, &here, job->wanted, &choice));
  need->device = state_bytes(job->cohort, job->slice.count) + array_bytes(&sizes);
  add_row_lists(job, sizes.row_sets, need);
  if (job->streamed || choice.path == TT_GPU_PATH_layered)
    add_layered(job, need);
  else
    add_fused(job, &choice, need);
  return TT_OK;
}
