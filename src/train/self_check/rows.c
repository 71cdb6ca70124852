/* rows.c — see internal.h. Start reading at tt_self_check_given_rows. */
#include "src/train/self_check/internal.h"

#include "src/train/verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 4 };
const double tt_self_check_tolerance = 1e-3;

void tt_self_check_blame(tt_self_check_trial *t, int64_t member, const char *what)
{
  const tt_cohort *c = t->cohort;
  if (!*t->why)
    snprintf(t->why, sizeof t->why, "job %d (%s, %s, %s), member %" PRId64 ": %s", t->number,
             tt_choice_activation[c->model.layer[0].activation], tt_choice_loss[c->loss],
             tt_choice_optimizer[c->optimizer], member, what);
}

int tt_self_check_are_apart(int64_t n, const float *a, const float *b)
{
  double size = 0.0, apart = 0.0;
  for (int64_t i = 0; i < n; i++) {
    if (isnan(a[i]) != isnan(b[i])) return 1;
    if (isnan(b[i])) continue;
    apart = fmax(apart, fabs((double)a[i] - b[i]));
    size = fmax(size, fabs((double)b[i]));
  }
  return !(apart <= tt_self_check_tolerance * size);
}

enum { MOST_VALUES = TT_SELF_CHECK_MEMBERS * TT_SELF_CHECK_ROWS * TT_SELF_CHECK_VALUES };
/* [0] of the GPU, [1] of the CPU. O outputs, D inputs, B batch size. */
typedef struct calls {
  tt_self_check_trial *t;
  tt_engine *engine[2];
  const tt_engine_ops *ops[2];
  tt_batch batch[2];
  double loss[2][TT_SELF_CHECK_MEMBERS];
  int misses[TT_SELF_CHECK_MEMBERS];
  int32_t row[MOST_VALUES];                               /* [M][B] */
  float output[2][MOST_VALUES], gradient[2][MOST_VALUES]; /* [M][B][O]; [M][B][D] by the inputs */
  float delta[MOST_VALUES];                               /* [M][B][O] of both */
} calls;

static tt_err open_calls(calls *x)
{
  const tt_self_check_trial *t = x->t;
  if (t->cohort->model.outputs > TT_SELF_CHECK_VALUES)
    return TT_FAIL(INTERNAL, "%" PRId64 " outputs", t->cohort->model.outputs);
  for (int k = 0; k < 2; k++) {
    const tt_resources *use = k ? &t->on_cpu : &t->use;
    TT_TRY(x->ops[k]->create(t->cohort, (tt_slice){0, t->cohort->members}, use, &x->engine[k]));
    TT_TRY(x->ops[k]->init(x->engine[k]));
    x->batch[k] = (tt_batch){.rows = t->data->rows,
                             .columns = t->data->targets,
                             .x = t->data->x,
                             .y = t->data->y,
                             .row = x->row,
                             .epoch_rows = STEPS * t->cohort->batch_size,
                             .loss = x->loss[k]};
  }
  return TT_OK;
}

/* The step by the engine, with its loss; or by the caller, with another one. */
static tt_err call(calls *x, int k, int by_caller)
{
  const tt_cohort *c = x->t->cohort;
  const tt_engine_ops *ops = x->ops[k];
  int64_t values = c->members * x->batch[k].count * c->model.outputs;
  TT_TRY(ops->set_batch(x->engine[k], &x->batch[k]));
  if (!by_caller) return ops->train(x->engine[k], 1, NULL);
  TT_TRY(ops->forward(x->engine[k], x->output[k]));
  for (int64_t i = 0; k == 0 && i < values; i++) x->delta[i] = 0.01f * (x->output[k][i] - 0.2f);
  TT_TRY(ops->backward(x->engine[k], x->delta, c->model.front.layers ? NULL : x->gradient[k]));
  return ops->update(x->engine[k]);
}

static void compare_values(calls *x, int by_caller)
{
  const tt_cohort *c = x->t->cohort;
  int64_t count = x->batch[0].count;
  for (int64_t i = 0; x->t->use.precision == TT_PRECISION_fp32 && i < c->members; i++) {
    int64_t first = i * count, n = c->model.outputs, d = c->model.inputs;
    double mine = x->loss[0][i], theirs = x->loss[1][i];
    int same = isnan(theirs)
                   ? isnan(mine)
                   : fabs(mine - theirs) <= tt_self_check_tolerance * (1.0 + fabs(theirs));
    if (!by_caller && !same)
      tt_self_check_blame(x->t, i, "its losses on rows of a caller are not those of the CPU");
    if (!by_caller) continue;
    if (tt_self_check_are_apart(count * n, x->output[0] + first * n, x->output[1] + first * n))
      tt_self_check_blame(x->t, i, "its outputs are not those of the CPU");
    if (!c->model.front.layers &&
        tt_self_check_are_apart(count * d, x->gradient[0] + first * d, x->gradient[1] + first * d))
      tt_self_check_blame(x->t, i, "its gradients by the inputs are not those of the CPU");
  }
}

/* One step of both from the same state. */
static tt_err take_step(calls *x, int step)
{
  tt_self_check_trial *t = x->t;
  const tt_slice all = {0, t->cohort->members};
  int by_caller = step % 2 && t->cohort->parts == 1; /* the caller has whole batches */
  for (int k = 0; k < 2; k++)
    x->batch[k].count = x->batch[k].stride = t->cohort->batch_size - step % 3;
  for (int64_t i = 0; i < all.count * x->batch[0].count; i++)
    x->row[i] = (int32_t)((7 * i + step) % t->data->rows);
  TT_TRY(t->gpu->save(x->engine[0], all, t->before));
  TT_TRY(t->cpu->load(x->engine[1], all, t->before));
  for (int k = 0; k < 2; k++) TT_TRY(call(x, k, by_caller));
  TT_TRY(t->gpu->save(x->engine[0], all, t->again));
  TT_TRY(t->cpu->save(x->engine[1], all, t->wanted));
  for (int64_t i = 0; i < all.count; i++) {
    double apart = tt_verify_apart(t->again, t->wanted, t->before, i);
    x->misses[i] = apart <= tt_verify_tolerance[t->use.precision] ? 0 : x->misses[i] + 1;
    if (x->misses[i] >= TT_VERIFY_MISSES)
      tt_self_check_blame(t, i, "its steps on rows of a caller are not those of the CPU");
  }
  compare_values(x, by_caller);
  return TT_OK;
}

tt_err tt_self_check_given_rows(tt_self_check_trial *t)
{
  static calls x;
  x = (calls){.t = t, .ops = {t->gpu, t->cpu}};
  tt_err e = open_calls(&x);
  for (int step = 0; !e && step < STEPS && !*t->why; step++) e = take_step(&x, step);
  for (int k = 0; k < 2; k++) x.ops[k]->destroy(&x.engine[k]);
  return e;
}
