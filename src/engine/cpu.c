/* cpu.c — the cpu engine: members in parallel over threads, each in cache for many steps. */
#include "engine/cpu.h"

#include "base/mem.h"
#include "engine/progress.h"

#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

/* Denormal numbers count as zero while training: the moments of dead units decay into them, and
 * each operation on one costs a hundred others. Returns the mode to restore. */
static unsigned flush_denormals(void)
{
#if defined(__SSE2__)
  unsigned old = _mm_getcsr();
  _mm_setcsr(old | 0x8040u);
  return old;
#else
  return 0;
#endif
}

static void restore_denormals(unsigned old)
{
#if defined(__SSE2__)
  _mm_setcsr(old);
#else
  (void)old;
#endif
}

static tt_err count(int *devices)
{
  *devices = 1;
  return TT_OK;
}

static void destroy(tt_engine **engine)
{
  tt_engine *e = *engine;
  if (!e) return;
  for (int64_t i = 0; e->lists && i < e->cohort->ensembles; i++)
    for (int k = 0; k < TT_SPLITS; k++)
      tt_free(e->lists[i].row[k]);
  tt_free(e->lists);
  for (int t = 0; e->work && t < e->threads; t++)
    tt_work_destroy(&e->work[t]);
  tt_free(e->work);
  tt_state_destroy(&e->state);
  tt_free(*engine);
}

static tt_err allocate(tt_engine *e)
{
  const tt_cohort *c = e->cohort;
  TT_TRY(tt_state_create(e->slice, tt_cohort_state_shape(c), &e->state));
  TT_TRY(TT_ALLOC(e->lists, c->ensembles));
  TT_TRY(TT_ALLOC(e->work, e->threads));
  for (int t = 0; t < e->threads; t++)
    TT_TRY(tt_work_create(&c->model, c->batch_size, 1, &e->work[t]));
  return TT_OK;
}

static tt_err create(const tt_cohort *cohort, tt_slice slice, const tt_resources *use,
                     tt_engine **out)
{
  tt_engine *e = NULL;
  const tt_kernels *kernels;
  TT_TRY(tt_kernels_get(use->simd, &kernels));
  TT_TRY(TT_ALLOC(e, 1));
  *e = (tt_engine){.cohort = cohort,
                   .slice = slice,
                   .kernels = kernels,
                   .threads = use->threads < 1 ? 1 : use->threads};
  tt_err err = allocate(e);
  if (err)
    destroy(&e);
  else
    *out = e;
  return err;
}

static tt_err set_data(tt_engine *e, const tt_dataset *data, const tt_replay *replay)
{
  e->data = data;
  e->replay = replay ? replay->order : NULL;
  for (int64_t i = 0; i < e->cohort->ensembles; i++) {
    const tt_ensemble *from = &e->cohort->ensemble[i];
    for (int k = 0; k < TT_SPLITS; k++) {
      tt_free(e->lists[i].row[k]);
      TT_TRY(tt_dataset_rows(data, (tt_split)k, from->column, from->targets, &e->lists[i].row[k],
                             &e->lists[i].count[k]));
    }
    if (e->lists[i].count[TT_TRAIN] < 1)
      return TT_FAIL(DATA, "ensemble %s: no training row has a label for its targets", from->name);
  }
  return TT_OK;
}

static tt_err init(tt_engine *e)
{
  const tt_cohort *c = e->cohort;
  tt_state *fresh = NULL;
  TT_TRY(tt_state_create(e->slice, tt_cohort_state_shape(c), &fresh));
  for (int64_t i = 0; i < e->slice.count; i++)
    tt_cohort_init(c, &c->member[e->slice.first + i], 0,
                   TT_FIELD(fresh, weights) + i * c->model.params);
  tt_state_destroy(&e->state);
  e->state = fresh;
  return TT_OK;
}

static void stand(const tt_state *s, int64_t i, tt_standing *out)
{
  out->epoch = TT_FIELD(s, epoch)[i];
  out->status = TT_FIELD(s, status)[i];
  if (out->epoch > 0) out->loss = TT_FIELD(s, loss_train)[i * s->epochs + out->epoch - 1];
}

static tt_err train(tt_engine *e, int64_t steps, tt_progress *out)
{
  tt_standing *at = NULL;
  TT_TRY(TT_ALLOC(at, e->slice.count));
#pragma omp parallel num_threads(e->threads)
  {
    unsigned mode = flush_denormals();
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < e->slice.count; i++) {
      at[i].taken = tt_cpu_train_member(e, e->work[omp_get_thread_num()], i, steps);
      stand(e->state, i, &at[i]);
    }
    restore_denormals(mode);
  }
  tt_progress_take(e->slice.count, at, e->cohort->max_epochs, out);
  tt_free(at);
  return TT_OK;
}

static tt_err evaluate(tt_engine *e, tt_split split, double *loss)
{
#pragma omp parallel num_threads(e->threads)
  {
    unsigned mode = flush_denormals();
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < e->slice.count; i++) {
      int32_t ensemble = e->cohort->member[e->slice.first + i].ensemble;
      const tt_row_lists *lists = &e->lists[ensemble];
      loss[i] =
          tt_cpu_mean_loss(e, e->work[omp_get_thread_num()], &e->cohort->ensemble[ensemble],
                           tt_state_result(e->state, i), lists->row[split], lists->count[split]);
    }
    restore_denormals(mode);
  }
  return TT_OK;
}

/* Copy members `which` of the cohort from one state to another; both must hold them. */
static tt_err copy_members(tt_slice which, const tt_state *from, tt_state *to)
{
  int64_t last = which.first + which.count;
  if (which.first < from->first || last > from->first + from->count || which.first < to->first ||
      last > to->first + to->count || from->params != to->params || from->slots != to->slots ||
      from->epochs != to->epochs)
    return TT_FAIL(INTERNAL, "members %" PRId64 " + %" PRId64 " do not fit both states",
                   which.first, which.count);
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field a = tt_state_get(from, f), b = tt_state_get(to, f);
    int64_t bytes = a.bytes * a.length;
    memcpy((char *)b.data + (which.first - to->first) * bytes,
           (const char *)a.data + (which.first - from->first) * bytes,
           (size_t)(which.count * bytes));
  }
  return TT_OK;
}

static tt_err save(tt_engine *e, tt_slice which, tt_state *to)
{
  return copy_members(which, e->state, to);
}

static tt_err load(tt_engine *e, tt_slice which, const tt_state *from)
{
  return copy_members(which, from, e->state);
}

static tt_err info(const tt_engine *e, tt_engine_info *out)
{
  const tt_model *m = &e->cohort->model;
  *out = (tt_engine_info){.bytes = e->threads * tt_work_bytes(m, e->cohort->batch_size)};
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field field = tt_state_get(e->state, f);
    out->bytes += field.bytes * field.length * e->slice.count;
  }
  snprintf(out->device, sizeof out->device, "CPU, %d thread%s, %s", e->threads,
           e->threads > 1 ? "s" : "", e->kernels->name);
  snprintf(out->arithmetic, sizeof out->arithmetic, "%s", e->kernels->arithmetic);
  return TT_OK;
}

const tt_engine_ops tt_engine_cpu = {
    .name = "cpu",
    .count = count,
    .describe = tt_cpu_describe,
    .create = create,
    .destroy = destroy,
    .set_data = set_data,
    .init = init,
    .train = train,
    .evaluate = evaluate,
    .save = save,
    .load = load,
    .info = info,
    .predict = tt_cpu_predict,
};
