/* host_batches.c — see host_batches.h. */
#include "cuda/plan/host_batches.h"

#include "core/model/state.h"

#include <string.h>

/* Room from row `row` on. */
static tt_stream_room room_at(const tt_stream *s, const tt_stream_room *room, int64_t row)
{
  return (tt_stream_room){room->x + row * s->data->inputs,
                          room->y + row * s->cohort->model.targets,
                          room->weight ? room->weight + row : NULL};
}

/* Row `from` of the data set into the first row of `to`; -1: zeros. */
static void put_row(const tt_stream *s, const tt_ensemble *e, int64_t from, tt_stream_room to)
{
  const tt_dataset *d = s->data;
  if (from < 0) {
    memset(to.x, 0, (size_t)d->inputs * sizeof *to.x);
    memset(to.y, 0, (size_t)e->targets * sizeof *to.y);
    if (to.weight) *to.weight = 0.0f;
    return;
  }
  memcpy(to.x, d->x + from * d->inputs, (size_t)d->inputs * sizeof *to.x);
  for (int64_t k = 0; k < e->targets; k++)
    to.y[k] = d->y[from * d->targets + e->column[k]];
  if (to.weight) *to.weight = d->weight[from];
}

/* What label_noise adds to the labels of a row. */
static void add_noise(const tt_stream *s, const tt_member *m, int64_t from, float *y)
{
  const tt_ensemble *e = &s->cohort->ensemble[m->ensemble];
  for (int64_t k = 0; k < e->targets; k++)
    y[k] += m->hyper.label_noise * tt_label_noise(s->cohort->seed, m->stream,
                                                  (uint32_t)e->column[k], (uint32_t)from);
}

static void put_batch(const tt_stream *s, int64_t i, const tt_stream_at *at, int64_t batch,
                      int64_t rows, const tt_stream_room *to)
{
  const tt_member *m = &s->cohort->member[s->slice.first + i];
  const tt_ensemble *e = &s->cohort->ensemble[m->ensemble];
  int64_t list = tt_cohort_view_of(s->cohort, m) * TT_SPLITS + TT_TRAIN;
  int64_t epoch = at->epoch[i], epoch_rows = s->epoch_rows[i];
  int64_t first = batch * s->cohort->batch_size, left = epoch_rows - first;
  tt_order order = tt_order_make(s->cohort, m, at->attempt[i], s->count[list], epoch);
  const int32_t *replay =
      s->replay ? s->replay + (i * s->cohort->max_epochs + epoch) * epoch_rows : NULL;
  for (int64_t r = 0; r < rows; r++) {
    tt_stream_room room = room_at(s, to, i * rows + r);
    int64_t from = -1;
    if (r < left && replay)
      from = replay[first + r];
    else if (r < left)
      from = s->row[list][tt_order_at(&order, (uint32_t)(first + r))];
    put_row(s, e, from, room);
    if (from >= 0 && m->hyper.label_noise > 0.0f) add_noise(s, m, from, room.y);
  }
}

void tt_stream_batches(const tt_stream *s, const tt_stream_at *at, int64_t ahead, int64_t rows,
                       const tt_stream_room *to)
{
#pragma omp parallel for schedule(static) num_threads(s->threads)
  for (int64_t i = 0; i < s->slice.count; i++)
    if (at->status[i] == TT_STATUS_training)
      put_batch(s, i, at, at->batch[i] + ahead, rows, to);
}

void tt_stream_split(const tt_stream *s, int64_t view, tt_split split, int64_t first, int64_t rows,
                     const tt_stream_room *to)
{
  const int32_t *row = s->row[view * TT_SPLITS + split] + first;
  int64_t ensemble = view / (tt_cohort_views(s->cohort) / s->cohort->ensembles);
#pragma omp parallel for schedule(static) num_threads(s->threads)
  for (int64_t r = 0; r < rows; r++)
    put_row(s, &s->cohort->ensemble[ensemble], row[r], room_at(s, to, r));
}
