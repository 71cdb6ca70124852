/* split_step.c — a step in two parts, for losses over several members; see engine.h. */
#include "src/cpu/cpu_internal.h"

#include <omp.h>

/* Outputs of one member on its next batch: output[B][O], row[B]. */
static void forward_member(tt_engine *e, tt_cpu_buffers *b, int64_t i, float *output, int32_t *row)
{
  const tt_model *m = &e->cohort->model;
  int64_t rows = 0, batch = e->cohort->batch_size;
  const int32_t *from = NULL;
  if (TT_FIELD(e->state, status)[i] == TT_STATUS_training) {
    tt_cpu_member ctx = tt_cpu_member_begin(e, b, i);
    from = tt_cpu_split_forward(e, b, &ctx, &rows);
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
      forward_member(e, e->buffers[omp_get_thread_num()], i, output + i * batch * outputs,
                     row + i * batch);
    tt_cpu_restore_denormals(mode);
  }
  return TT_OK;
}

static void apply_member(tt_engine *e, tt_cpu_buffers *b, int64_t i, const float *delta,
                         double loss)
{
  int8_t *status = &TT_FIELD(e->state, status)[i];
  if (*status != TT_STATUS_training) return;
  tt_cpu_member ctx = tt_cpu_member_begin(e, b, i);
  if (tt_cpu_split_apply(e, b, &ctx, delta, loss))
    tt_cpu_end_epoch_if_due(e, b, &ctx);
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
      apply_member(e, e->buffers[omp_get_thread_num()], i, delta + i * each, loss[i]);
    tt_cpu_restore_denormals(mode);
  }
  return TT_OK;
}
