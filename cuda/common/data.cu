/* data.cu — data set of the cuda engine: on the device, or, if it does not fit, on the host,
 * if a path can take its rows from there. */
#include "cuda/common/engine_functions.cuh"

#include "core/base/log.h"
#include "core/base/mem.h"

#include <inttypes.h>

tt_cuda_state tt_cuda_view_of(const tt_engine *e, tt_slice members)
{
  int64_t first = members.first;
  tt_cuda_state v = e->view;
  const tt_state shape = tt_device_state(e->cohort), *s = &shape;
  v.members = (int32_t)members.count;
  if (!first) return v;
  v.member += first;
  v.view_of_member += first;
  v.epoch_rows += first;
  if (v.replay) v.replay += first * v.epochs * e->host_epoch_rows[first];
#define X(name, type, length) v.name += first * (length);
  TT_STATE_FIELDS(X)
#undef X
  return v;
}

/* Lists under construction on the host; freed after the copy to the device. */
typedef struct tt_row_staging {
  tt_host_row_lists list;
  int64_t rows;    /* of all lists */
  int32_t *all;    /* [rows] the lists, one after the other */
  int32_t *column; /* [ensembles][K] */
} tt_row_staging;

static void free_row_lists(tt_host_row_lists *list, int64_t row_sets)
{
  for (int64_t i = 0; list->row && i < row_sets * TT_SPLITS; i++) tt_free(list->row[i]);
  tt_free(list->row);
  tt_free(list->count);
}

static void free_staging(tt_row_staging *p, int64_t row_sets)
{
  free_row_lists(&p->list, row_sets);
  tt_free(p->all);
  tt_free(p->column);
}

/* Error for a row set without training rows: names the ensemble and its fold. */
static tt_err fail_no_training_rows(const tt_cohort *c, int64_t view)
{
  int64_t folds = tt_cohort_row_sets(c) / c->ensembles;
  const char *name = c->ensemble[view / folds].name;
  if (folds > 1)
    return TT_FAIL(DATA,
                   "ensemble %s: no training row has a label for its targets outside of fold "
                   "%" PRId64 " of %" PRId64,
                   name, view % folds, folds);
  return TT_FAIL(DATA, "ensemble %s: no training row has a label for its targets", name);
}

static tt_err collect_rows(const tt_cohort *c, const tt_dataset *data, tt_row_staging *p)
{
  int64_t row_sets = tt_cohort_row_sets(c);
  TT_TRY(TT_ALLOC(p->list.row, row_sets * TT_SPLITS));
  TT_TRY(TT_ALLOC(p->list.count, row_sets * TT_SPLITS));
  for (int64_t i = 0; i < row_sets; i++) {
    for (int k = 0; k < TT_SPLITS; k++) {
      int64_t offset = i * TT_SPLITS + k;
      TT_TRY(tt_cohort_rows(c, data, i, (tt_split)k, &p->list.row[offset], &p->list.count[offset]));
      p->rows += p->list.count[offset];
    }
    if (p->list.count[i * TT_SPLITS + TT_TRAIN] < 1) return fail_no_training_rows(c, i);
  }
  return TT_OK;
}

static tt_err concatenate_rows(const tt_cohort *c, tt_row_staging *p)
{
  int64_t next = 0, targets = c->model.targets;
  TT_TRY(TT_ALLOC(p->all, p->rows));
  for (int64_t i = 0; i < tt_cohort_row_sets(c) * TT_SPLITS; next += p->list.count[i++])
    memcpy(p->all + next, p->list.row[i], (size_t)p->list.count[i] * sizeof *p->all);
  TT_TRY(TT_ALLOC(p->column, c->ensembles * targets));
  for (int64_t i = 0; i < c->ensembles; i++)
    memcpy(p->column + i * targets, c->ensemble[i].column, (size_t)targets * sizeof *p->column);
  return TT_OK;
}

/* Row set of every member, and the rows of its epochs. */
static tt_err upload_member_views(tt_engine *e, const tt_row_staging *p)
{
  const tt_cohort *c = e->cohort;
  int32_t *view = NULL;
  TT_TRY(TT_ALLOC(view, e->slice.count));
  for (int64_t i = 0; i < e->slice.count; i++) {
    int64_t offset = tt_member_row_set(c, &c->member[e->slice.first + i]);
    view[i] = (int32_t)offset;
    e->host_epoch_rows[i] =
        (int32_t)tt_cohort_epoch_rows(c, p->list.count[offset * TT_SPLITS + TT_TRAIN]);
  }
  tt_err err = tt_dev_upload_sync(e->view_of_member, view, e->slice.count, e->dev.stream);
  tt_free(view);
  if (err) return err;
  return tt_dev_upload_sync(e->epoch_rows, e->host_epoch_rows, e->slice.count, e->dev.stream);
}

/* Lists point into all_list_rows: device addresses, computed on the host. */
static tt_err upload_row_lists(tt_engine *e, const tt_row_staging *p)
{
  const tt_cohort *c = e->cohort;
  int64_t row_sets = tt_cohort_row_sets(c);
  TT_TRY(TT_ALLOC(e->host_lists, row_sets));
  TT_TRY(TT_ALLOC(e->host_epoch_rows, e->slice.count));
  TT_TRY(tt_dev_new(&e->all_list_rows, p->all, p->rows, "row lists", e->dev.stream));
  const int32_t *next = e->all_list_rows;
  for (int64_t i = 0; i < row_sets * TT_SPLITS; next += p->list.count[i++]) {
    e->host_lists[i / TT_SPLITS].row[i % TT_SPLITS] = next;
    e->host_lists[i / TT_SPLITS].count[i % TT_SPLITS] = (int32_t)p->list.count[i];
  }
  TT_TRY(tt_dev_upload_sync(e->lists, e->host_lists, row_sets, e->dev.stream));
  TT_TRY(tt_dev_upload_sync(e->column, p->column, c->ensembles * c->model.targets, e->dev.stream));
  return upload_member_views(e, p);
}

/* The order of member i and epoch t begins at (i * E + t) * rows of its epoch. */
static tt_err upload_replay(tt_engine *e, const int32_t *order)
{
  int64_t length = 0, epochs = e->cohort->max_epochs;
  for (int64_t i = 0; i < e->slice.count; i++) {
    int64_t end = (i + 1) * epochs * e->host_epoch_rows[i];
    length = end > length ? end : length;
  }
  return tt_dev_new(&e->replay, order, length, "orders to replay", e->dev.stream);
}

static tt_err upload_samples(tt_engine *e, const tt_dataset *d, const tt_replay *replay)
{
  TT_TRY(tt_shared_data_acquire(&e->dev, d, &e->shared));
  return replay && replay->order ? upload_replay(e, replay->order) : TT_OK;
}

static void set_state_pointers(tt_engine *e, const tt_dataset *d)
{
  e->rows = d->rows;
  e->view.x = e->shared ? e->shared->x : NULL;
  e->view.y = e->shared ? e->shared->y : NULL;
  e->view.weight = e->shared ? e->shared->weight : NULL;
  e->view.lists = e->lists;
  e->view.view_of_member = e->view_of_member;
  e->view.column = e->column;
  e->view.epoch_rows = e->epoch_rows;
  e->view.replay = e->replay;
  e->view.weighted = d->weight != NULL;
  e->view.rows = (int32_t)d->rows;
  e->view.inputs = (int32_t)d->inputs;
  e->view.columns = (int32_t)d->targets;
}

void tt_cuda_free_data(tt_engine *e)
{
  tt_shared_data_release(&e->shared);
  tt_dev_free(e->all_list_rows);
  tt_dev_free(e->replay);
  tt_free(e->host_lists);
  tt_free(e->host_epoch_rows);
  free_row_lists(&e->host_rows, tt_cohort_row_sets(e->cohort));
  e->data = NULL;
  e->host_replay = NULL;
}

static double dataset_gib(const tt_dataset *d)
{
  int64_t targets = d->label_variance ? 2 * d->targets : d->targets;
  double values = (double)(d->inputs + targets + (d->weight ? 1 : 0));
  return (double)sizeof(float) * (double)d->rows * values / (1 << 30);
}

/* Memory ran out: report the size of the whole data set, not only of the array that failed. */
static tt_err fail_too_large(const tt_engine *e, const tt_dataset *d)
{
  return TT_FAIL(MEM,
                 "the data set of %" PRId64 " rows, %" PRId64 " inputs and %" PRId64
                 " targets needs %.2f GiB of device memory beside the %" PRId64
                 " members of this rank: use more ranks, fewer rows or columns, or run.device: "
                 "cpu; %s",
                 d->rows, d->inputs, d->targets, dataset_gib(d), e->slice.count, tt_err_last());
}

static tt_err prepare(tt_engine *e, const tt_dataset *d)
{
  set_state_pointers(e, d);
  return e->slice.count ? e->path->prepare(e) : TT_OK;
}

static tt_err keep_on_device(tt_engine *e, const tt_dataset *d, const tt_replay *replay,
                             const tt_row_staging *p)
{
  TT_TRY(upload_row_lists(e, p));
  TT_TRY(upload_samples(e, d, replay));
  return prepare(e, d);
}

/* Moves the lists out of `p`. */
static tt_err keep_on_host(tt_engine *e, const tt_dataset *d, const tt_replay *replay,
                           tt_row_staging *p)
{
  char why[sizeof e->why];
  tt_cuda_free_data(e);
  snprintf(why, sizeof why, "%.2f GiB of data do not fit on the GPU: rows come from the host",
           dataset_gib(d));
  e->path->release(e);
  e->path = e->host_rows_path;
  snprintf(e->why, sizeof e->why, "%s", why);
  tt_log_this_rank(TT_LOG_WARN, "%s: %s, which is slower", tt_cuda_location(), why);
  TT_TRY(upload_row_lists(e, p));
  e->host_rows = p->list;
  p->list = {};
  e->host_replay = replay ? replay->order : NULL;
  e->data = d;
  return prepare(e, d);
}

static tt_err place_data(tt_engine *e, const tt_dataset *d, const tt_replay *replay,
                         tt_row_staging *p)
{
  int path_may_change =
      !d->label_variance && (e->wanted == TT_GPU_PATH_auto || e->path->takes_host_rows);
  tt_err err = keep_on_device(e, d, replay, p);
  if (err == TT_E_MEM && path_may_change) err = keep_on_host(e, d, replay, p);
  return err == TT_E_MEM ? fail_too_large(e, d) : err;
}

tt_err tt_cuda_set_data(tt_engine *e, const tt_dataset *data, const tt_replay *replay)
{
  tt_row_staging p = {};
  tt_cuda_free_data(e);
  tt_err err = collect_rows(e->cohort, data, &p);
  if (!err) err = concatenate_rows(e->cohort, &p);
  if (!err) err = place_data(e, data, replay, &p);
  free_staging(&p, tt_cohort_row_sets(e->cohort));
  return err;
}
