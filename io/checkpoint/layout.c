/* layout.c — see checkpoint_internal.h: where the values of each cohort are in a checkpoint. */
#include "io/checkpoint/checkpoint_internal.h"

#include "core/base/mem.h"
#include "io/hdf5/schema.h"

#include <inttypes.h>
#include <string.h>

const char *const tt_ckpt_size_name[TT_CKPT_SIZES] = {"members", "params", "slots", "epochs",
                                                      "averages"};

const char *const tt_ckpt_size_path[TT_CKPT_SIZES] = {
    "cohort_members", "cohort_params", "cohort_slots", "cohort_epochs", "cohort_averages"};

void tt_ckpt_sizes_local(const tt_ckpt_shard *shard, int64_t size[TT_CKPT_SIZES])
{
  const tt_state *s = shard->mine;
  const int64_t all[TT_CKPT_SIZES] = {shard->members, s->params, s->slots, s->epochs, s->averages};
  memcpy(size, all, sizeof all);
}

/* Values of a member in field f of a cohort with these sizes; -1: one is below 0, or the product of
 * one with the parameters, as many fields have it, is too large for an int64. */
static int64_t field_length(const int64_t size[TT_CKPT_SIZES], int f)
{
  int64_t product, params = size[1];
  if (params < 0) return -1;
  for (int i = 2; i < TT_CKPT_SIZES; i++)
    if (size[i] < 0 || __builtin_mul_overflow(size[i], params, &product)) return -1;
  const tt_state s = {.params = params, .slots = size[2], .epochs = size[3], .averages = size[4]};
  return f < TT_STATE_FIELD_COUNT ? tt_state_get(&s, f).length : 1;
}

/* Fill in `first` from the sizes. */
static tt_err add_up(tt_ckpt_layout *l)
{
  for (int f = 0; f < TT_CKPT_FIELDS; f++) {
    int64_t *first = l->first + f * (l->cohorts + 1);
    for (int64_t k = 0; k < l->cohorts; k++) {
      const int64_t *size = l->size + k * TT_CKPT_SIZES;
      int64_t length = field_length(size, f), values = 0;
      if (size[0] < 1 || size[1] < 1 || length < 0 ||
          __builtin_mul_overflow(size[0], length, &values) ||
          __builtin_add_overflow(first[k], values, &first[k + 1]))
        return TT_FAIL(DATA, "cohort %" PRId64 " has impossible sizes", k);
    }
  }
  return TT_OK;
}

static tt_err allocate(int64_t cohorts, tt_ckpt_layout *l)
{
  l->cohorts = cohorts;
  TT_TRY(TT_ALLOC(l->size, cohorts * TT_CKPT_SIZES));
  return TT_ALLOC(l->first, TT_CKPT_FIELDS * (cohorts + 1));
}

void tt_ckpt_layout_free_local(tt_ckpt_layout *l) { tt_free_all(&l->size, &l->first); }

tt_err tt_ckpt_layout_of_local(int64_t shards, const tt_ckpt_shard *shard, tt_ckpt_layout *l)
{
  TT_TRY(allocate(shards, l));
  for (int64_t k = 0; k < shards; k++) tt_ckpt_sizes_local(&shard[k], l->size + k * TT_CKPT_SIZES);
  return add_up(l);
}

static tt_err read_sizes(tt_h5_reader *r, tt_ckpt_layout *l)
{
  int64_t *column = NULL;
  tt_err e = TT_ALLOC(column, l->cohorts);
  for (int i = 0; !e && i < TT_CKPT_SIZES; i++) {
    e = tt_schema_read_local(r, tt_ckpt_size_path[i], TT_H5_I64, 1, &l->cohorts, column);
    for (int64_t k = 0; !e && k < l->cohorts; k++) l->size[k * TT_CKPT_SIZES + i] = column[k];
  }
  tt_free(column);
  return e;
}

/* Whether a dataset of `count` values is in the file, which compresses none: then no more memory is
 * allocated for values than the file has bytes. */
static int is_stored(const tt_h5_reader *r, const tt_h5_info *info, int64_t count)
{
  return info->ndims == 1 && info->dims[0] == count &&
         count <= tt_h5_file_bytes_local(r) / info->bytes;
}

/* The datasets of the fields have the sizes that follow. */
static tt_err check_fields(tt_h5_reader *r, const tt_ckpt_layout *l)
{
  tt_h5_info info;
  for (int f = 0; f < TT_CKPT_FIELDS; f++) {
    tt_ckpt_field field = tt_ckpt_field_of_local(f);
    int64_t values = tt_ckpt_first_local(l, f, l->cohorts);
    if (values == 0) continue;
    TT_TRY(tt_h5_dataset_info_local(r, field.name, &info));
    if (info.bytes != tt_h5_type_bytes(field.type) || !is_stored(r, &info, values))
      return TT_FAIL(DATA, "'%s' has the wrong shape or type", field.name);
  }
  return TT_OK;
}

tt_err tt_ckpt_layout_read_local(tt_h5_reader *r, tt_ckpt_layout *l)
{
  tt_h5_info info;
  TT_TRY(tt_h5_dataset_info_local(r, tt_ckpt_size_path[0], &info));
  if (info.dims[0] < 1 || !is_stored(r, &info, info.dims[0]))
    return TT_FAIL(DATA, "'%s' has the wrong shape", tt_ckpt_size_path[0]);
  TT_TRY(allocate(info.dims[0], l));
  TT_TRY(read_sizes(r, l));
  TT_TRY(add_up(l));
  return check_fields(r, l);
}

tt_ckpt_field tt_ckpt_field_of_local(int f)
{
  static const tt_h5_type types[] = {[TT_TYPE_float] = TT_H5_F32,
                                     [TT_TYPE_double] = TT_H5_F64,
                                     [TT_TYPE_int8_t] = TT_H5_I8,
                                     [TT_TYPE_int32_t] = TT_H5_I32,
                                     [TT_TYPE_int64_t] = TT_H5_I64};
  static const char *const axes[TT_STATE_FIELD_COUNT] = {
      [TT_STATE_FIELD_weights] = "member_parameter",
      [TT_STATE_FIELD_best_weights] = "member_parameter",
      [TT_STATE_FIELD_slots] = "member_slot",
      [TT_STATE_FIELD_average] = "member_average",
      [TT_STATE_FIELD_loss_train] = "member_epoch",
      [TT_STATE_FIELD_loss_validation] = "member_epoch"};
  if (f == TT_STATE_FIELD_COUNT) return (tt_ckpt_field){"member_hash", TT_H5_U64, "member"};
  const tt_state none = {0};
  tt_state_field field = tt_state_get(&none, f);
  return (tt_ckpt_field){field.name, types[field.type], axes[f] ? axes[f] : "member"};
}

int64_t tt_ckpt_first_local(const tt_ckpt_layout *l, int f, int64_t cohort)
{
  return l->first[f * (l->cohorts + 1) + cohort];
}

int64_t tt_ckpt_length_local(const tt_ckpt_layout *l, int f, int64_t cohort)
{
  const int64_t *first = l->first + f * (l->cohorts + 1) + cohort;
  return (first[1] - first[0]) / l->size[cohort * TT_CKPT_SIZES];
}
