/* host_batches.c — see host_batches.h. */
#include "cuda/plan/host_batches.h"

#include "core/model/parts.h"
#include "core/model/state.h"

#include <string.h>

/* Buffers from row `row` on. */
static tt_batch_buffers buffers_at(const tt_host_batches *s, const tt_batch_buffers *buffers,
                                   int64_t row)
{
  return (tt_batch_buffers){buffers->x ? buffers->x + row * s->data->inputs : NULL,
                            buffers->y ? buffers->y + row * s->cohort->model.targets : NULL,
                            buffers->weight ? buffers->weight + row : NULL};
}

/* Copy row `row` of the data set to the first row of `buffers`, those that are not NULL; -1:
 * zeros. */
static void copy_row(const tt_host_batches *s, const tt_ensemble *e, int64_t row,
                     tt_batch_buffers buffers)
{
  const tt_dataset *d = s->data;
  int64_t inputs = buffers.x ? d->inputs : 0, targets = buffers.y ? e->targets : 0;
  if (row < 0) {
    for (int64_t i = 0; i < inputs; i++) buffers.x[i] = 0.0f;
    for (int64_t k = 0; k < targets; k++) buffers.y[k] = 0.0f;
    if (buffers.weight) *buffers.weight = 0.0f;
    return;
  }
  if (inputs) memcpy(buffers.x, d->x + row * inputs, (size_t)inputs * sizeof *buffers.x);
  for (int64_t k = 0; k < targets; k++) buffers.y[k] = d->y[row * d->targets + e->column[k]];
  if (buffers.weight) *buffers.weight = d->weight[row];
}

/* Add label noise to the labels of a row. */
static void add_label_noise(const tt_host_batches *s, const tt_member *m, int64_t row, float *y)
{
  const tt_ensemble *e = &s->cohort->ensemble[m->ensemble];
  for (int64_t k = 0; k < e->targets; k++)
    y[k] +=
        m->hyper.label_noise * tt_label_noise(s->cohort->seed, m->stream, (uint32_t)e->column[k],
                                              (uint32_t)(row % s->data->rows));
}

/* Fill the rows of member i of the slice. */
static void fill_batch(const tt_host_batches *s, int64_t i, const tt_member_positions *positions,
                       const tt_batch_choice *which, int64_t rows, const tt_batch_buffers *dst)
{
  const tt_member *m = &s->cohort->member[s->slice.first + i];
  const tt_ensemble *e = &s->cohort->ensemble[m->ensemble];
  int64_t list = tt_member_row_set(s->cohort, m) * TT_SPLITS + TT_TRAIN;
  int64_t epoch = positions->epoch[i], epoch_rows = s->epoch_rows[i];
  int64_t size = s->cohort->batch_size, first = (positions->batch[i] + which->ahead) * size;
  int64_t left = epoch_rows - first;
  tt_slice part = tt_part_rows(left < size ? left : size, s->cohort->parts, which->part);
  tt_sampler order = tt_member_sampler(s->cohort, m, positions->attempt[i], s->count[list], epoch);
  const int32_t *replay =
      s->replay ? s->replay + (i * s->cohort->max_epochs + epoch) * epoch_rows : NULL;
  for (int64_t r = 0; r < rows; r++) {
    tt_batch_buffers buffers = buffers_at(s, dst, r);
    int64_t row = -1, slot = first + part.first + r;
    if (r < part.count && replay)
      row = replay[slot];
    else if (r < part.count)
      row = s->row[list][tt_sampler_at(&order, (uint32_t)slot)];
    copy_row(s, e, row, buffers);
    if (row >= 0 && m->hyper.label_noise > 0.0f) add_label_noise(s, m, row, buffers.y);
  }
}

void tt_host_batches_fill(const tt_host_batches *s, const tt_member_positions *positions,
                          const tt_batch_choice *which, int64_t rows, const tt_batch_buffers *dst)
{
#pragma omp parallel for schedule(static) num_threads(s->threads)
  for (int64_t k = 0; k < which->members.count; k++) {
    int64_t i = which->members.first + k;
    tt_batch_buffers buffers = buffers_at(s, dst, k * rows);
    if (positions->status[i] == TT_STATUS_training)
      fill_batch(s, i, positions, which, rows, &buffers);
  }
}

/* Whether member i has the labels of the member before it, if it has the same rows. */
static int repeats_labels(const tt_host_batches *s, int64_t i)
{
  const tt_member *m = &s->cohort->member[s->slice.first + i];
  return i > 0 && m->ensemble == m[-1].ensemble && !(m->hyper.label_noise > 0.0f) &&
         !(m[-1].hyper.label_noise > 0.0f);
}

void tt_host_batches_fill_given(const tt_host_batches *s, const tt_batch *batch, int64_t part,
                                int64_t rows, const tt_batch_buffers *dst)
{
  tt_slice slots = tt_part_rows(batch->count, s->cohort->parts, part);
  size_t each = (size_t)rows * sizeof *dst->y, labels = each * (size_t)s->cohort->model.targets;
#pragma omp parallel for schedule(static) num_threads(batch->stride ? s->threads : 1)
  for (int64_t i = 0; i < (batch->stride || dst->y ? s->slice.count : 1); i++) {
    const tt_member *m = &s->cohort->member[s->slice.first + i];
    const tt_batch_buffers own = buffers_at(s, dst, i * rows);
    if (!batch->stride && repeats_labels(s, i)) {
      memcpy(own.y, buffers_at(s, dst, (i - 1) * rows).y, labels);
      if (own.weight) memcpy(own.weight, own.weight - rows, each);
      continue;
    }
    for (int64_t r = 0; r < rows; r++) {
      tt_batch_buffers buffers = buffers_at(s, &own, r);
      int64_t row = r < slots.count ? batch->row[i * batch->stride + slots.first + r] : -1;
      if (i > 0 && !batch->stride) buffers.x = NULL; /* all have those of the first member */
      copy_row(s, &s->cohort->ensemble[m->ensemble], row, buffers);
      if (buffers.y && row >= 0 && m->hyper.label_noise > 0.0f)
        add_label_noise(s, m, row, buffers.y);
    }
  }
}

void tt_host_batches_fill_split(const tt_host_batches *s, int64_t row_set, tt_split split,
                                int64_t first, int64_t rows, const tt_batch_buffers *dst)
{
  const int32_t *row = s->row[row_set * TT_SPLITS + split] + first;
  int64_t ensemble = row_set / (tt_cohort_row_sets(s->cohort) / s->cohort->ensembles);
#pragma omp parallel for schedule(static) num_threads(s->threads)
  for (int64_t r = 0; r < rows; r++)
    copy_row(s, &s->cohort->ensemble[ensemble], row[r], buffers_at(s, dst, r));
}
