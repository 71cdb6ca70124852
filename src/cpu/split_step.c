/* split_step.c — one step in two halves, for losses that look at several members; see engine.h. */
#include "src/cpu/cpu_internal.h"

#include <omp.h>

/* Outputs of one member on its next batch: output[B][O], row[B]. */
static void speak(tt_engine *e, tt_work *b, int64_t i, float *output, int32_t *row)
{
  const tt_model *m = &e->cohort->model;
  int64_t rows = 0, batch = e->cohort->batch_size;
  const int32_t *from = NULL;
  if (TT_FIELD(e->state, status)[i] == TT_STATUS_training) {
    tt_seat seat = tt_cpu_seat(e, b, i);
    from = tt_cpu_first_half(e, b, &seat, &rows);
  }
  const float *z = b->z[m->layers - 1];
  for (int64_t r = 0; r < batch; r++) {
    row[r] = r < rows ? from[r] : -1;
    for (int64_t o = 0; o < m->outputs; o++)
      output[r * m->outputs + o] = r < rows ? z[o * b->ld + r] : 0.0f;
  }
}

tt_err tt_cpu_ops_forward(tt_engine *e, float *output, int32_t *row)
{
  int64_t batch = e->cohort->batch_size, outputs = e->cohort->model.outputs;
#pragma omp parallel num_threads(e->threads)
  {
    unsigned mode = tt_cpu_flush_denormals();
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < e->slice.count; i++)
      speak(e, e->work[omp_get_thread_num()], i, output + i * batch * outputs, row + i * batch);
    tt_cpu_restore_denormals(mode);
  }
  return TT_OK;
}

static void listen(tt_engine *e, tt_work *b, int64_t i, const float *delta, double loss)
{
  int8_t *status = &TT_FIELD(e->state, status)[i];
  if (*status != TT_STATUS_training) return;
  tt_seat seat = tt_cpu_seat(e, b, i);
  if (tt_cpu_second_half(e, b, &seat, delta, loss))
    tt_cpu_after_step(e, b, &seat);
  else
    *status = TT_STATUS_diverged;
}

tt_err tt_cpu_ops_apply(tt_engine *e, const float *delta, const double *loss)
{
  int64_t each = e->cohort->batch_size * e->cohort->model.outputs;
#pragma omp parallel num_threads(e->threads)
  {
    unsigned mode = tt_cpu_flush_denormals();
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < e->slice.count; i++)
      listen(e, e->work[omp_get_thread_num()], i, delta + i * each, loss[i]);
    tt_cpu_restore_denormals(mode);
  }
  return TT_OK;
}
