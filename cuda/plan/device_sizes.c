/* device_sizes.c — see device_sizes.h. */
#include "cuda/plan/device_sizes.h"

#include "core/base/int.h"
#include "core/engine/progress.h"
#include "cuda/plan/block_plan.h"

/* Device memory for the pointers and the numbers of rows of one row set. */
enum { ROW_LISTS_BYTES = 40 };

/* The training state. The engine allocates at least one element for each array. */
static int64_t state_bytes(const tt_cohort *c, int64_t members)
{
  tt_state_shape shape = tt_cohort_state_shape(c);
  const tt_state s = {.params = tt_param_stride(shape.params),
                      .slots = shape.slots,
                      .epochs = shape.epochs,
                      .averages = shape.averages,
                      .snapshots = shape.snapshots,
                      .ensemble_epochs = shape.ensemble_epochs};
  int64_t bytes = 0;
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field field = tt_state_get(&s, f);
    int64_t count = members * field.length;
    bytes += (count ? count : 1) * field.bytes;
  }
  return bytes;
}

/* Hyper-parameters, progress, anchor and inputs of each member, and the lists of rows. */
static int64_t member_bytes(const tt_cohort *c, tt_slice slice, int64_t rows)
{
  int64_t sets = tt_cohort_row_sets(c);
  int64_t each = (int64_t)(sizeof(tt_member) + sizeof(tt_member_progress) + sizeof(int64_t) +
                           2 * sizeof(int32_t));
  const tt_used_options used = tt_cohort_used_options(c, slice);
  if (used.anchor) each += tt_param_stride(c->model.params) * (int64_t)sizeof(float);
  if (used.masks) each += c->model.inputs;
  int64_t bytes = slice.count * each + (int64_t)sizeof(tt_model);
  bytes += c->ensembles * c->model.targets * (int64_t)sizeof(int32_t);
  return bytes + sets * (rows * (int64_t)sizeof(int32_t) + ROW_LISTS_BYTES);
}

/* What the path allocates for its kernels. Where members need scratch memory, a multiprocessor
 * trains one member at a time, so as many members have scratch memory as there are
 * multiprocessors. */
static int64_t path_bytes(const tt_cohort *c, tt_slice slice, int64_t rows, int weighted,
                          int streamed, const tt_path_context *context,
                          const tt_path_choice *choice, const tt_engine_share *share)
{
  int64_t scratch = 0;
  tt_block_plan block;
  if (choice->path == TT_GPU_PATH_layered) {
    tt_layered_sizes s = tt_layered_sizes_of(c, slice, rows, weighted, streamed);
    return tt_layered_bytes(&s, &c->model) + (share ? tt_layered_share_bytes(&s, c, share) : 0);
  }
  if (choice->path == TT_GPU_PATH_block &&
      tt_block_plan_make(c, choice->precision, context->shared_bytes, &block))
    scratch = tt_block_scratch_floats(&block) * tt_min_i64(slice.count, context->multiprocessors);
  return (1 + 2 * slice.count) * (int64_t)sizeof(int32_t) +
         (scratch ? scratch : 1) * (int64_t)sizeof(float);
}

tt_err tt_device_bytes(const tt_cohort *c, tt_slice slice, int64_t rows, int weighted, int streamed,
                       const tt_path_context *context, tt_gpu_path wanted,
                       const tt_engine_share *share, int64_t *bytes)
{
  tt_path_choice choice;
  tt_path_context here = *context;
  here.members = slice.count;
  *bytes = 0;
  if (slice.count < 1) return TT_OK;
  TT_TRY(tt_path_choose(c, &here, wanted, &choice));
  if (streamed) choice.path = TT_GPU_PATH_layered;
  *bytes = state_bytes(c, slice.count) + member_bytes(c, slice, rows) +
           path_bytes(c, slice, rows, weighted, streamed, &here, &choice, share);
  return TT_OK;
}
