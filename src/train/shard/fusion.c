/* fusion.c — see fusion.h. */
#include "src/train/shard/fusion.h"

#include "core/base/mem.h"
#include "src/train/shard/ensemble_early_stopping.h"

#include <math.h>
#include <string.h>

/* Set f->finite of members with only finite outputs in the batch; returns their number. */
static int64_t find_finite_members(const tt_cohort *c, tt_fusion_batch *f, int64_t rows)
{
  int64_t each = c->batch_size * c->model.outputs, used = rows * c->model.outputs, finite = 0;
  for (int64_t m = 0; m < f->members; m++) {
    float probe = 0.0f; /* 0 * x is 0 for finite x and NaN otherwise; NaN persists in the sum */
    for (int64_t i = 0; i < used; i++) probe += 0.0f * f->output[m * each + i];
    f->finite[m] = (int8_t)!isnan(probe);
    finite += f->finite[m];
  }
  return finite;
}

/* Mean output over the finite members in one row, summed in member order. */
static void mean_output(const tt_cohort *c, const tt_fusion_batch *f, int64_t row, double finite)
{
  int64_t outputs = c->model.outputs, each = c->batch_size * outputs;
  for (int64_t o = 0; o < outputs; o++) {
    double sum = 0.0;
    for (int64_t m = 0; m < f->members; m++)
      if (f->finite[m]) sum += (double)f->output[m * each + row * outputs + o];
    f->mean[o] = (float)(sum / finite);
  }
}

void tt_fusion_loss_local(const tt_cohort *c, const tt_dataset *d, const tt_ensemble *e,
                          tt_fusion_batch *f)
{
  const tt_model *model = &c->model;
  tt_loss_args args = tt_cohort_loss_args(c);
  int64_t outputs = model->outputs, targets = model->targets, rows = 0;
  while (rows < c->batch_size && f->row[rows] >= 0) rows++;
  int64_t finite = find_finite_members(c, f, rows);
  f->loss = finite && rows ? 0.0 : (double)NAN;
  memset(f->delta, 0, (size_t)(c->batch_size * outputs) * sizeof *f->delta);
  for (int64_t r = 0; finite && r < rows; r++) {
    float weight = d->weight ? d->weight[f->row[r]] : 1.0f;
    mean_output(c, f, r, (double)finite);
    for (int64_t k = 0; k < targets; k++) {
      tt_loss_sample sample = {.n = model->each,
                               .level = model->level,
                               .o = f->mean + k,
                               .d = f->delta + r * outputs + k,
                               .step = targets,
                               .y = d->y[f->row[r] * d->targets + e->column[k]],
                               .factor = weight / ((float)rows * (float)finite)};
      f->loss += (double)weight * (double)tt_loss_target(c->loss, &sample, args);
    }
  }
}

typedef struct fusion {
  tt_comm *c;
  tt_shard *shard;
  float *output, *delta; /* [M][B][O] of this rank's members */
  int32_t *row;          /* [M][B] */
  double *loss;          /* [M] */
  float *all;            /* [G][B][O] outputs of all members, NaN for members that do not train */
  float *gradient;       /* [B][O] of one ensemble */
  float *mean;           /* [O] */
  int8_t *finite, *due;  /* [G]; [ensembles] 1 = at the end of an epoch */
  tt_member_summary *summary; /* [G] */
  int64_t *batches;           /* [ensembles] batches of an epoch */
  int64_t *done;              /* [ensembles] batches done in the current epoch */
  int64_t steps;              /* member-steps of this rank */
} fusion;

static int64_t batch_outputs(const fusion *f)
{
  return f->shard->cohort->batch_size * f->shard->cohort->model.outputs;
}

static tt_err count_batches(fusion *f)
{
  const tt_cohort *c = f->shard->cohort;
  for (int64_t i = 0; i < c->ensembles; i++) {
    int32_t *row = NULL;
    int64_t rows = 0, row_set = tt_member_row_set(c, &c->member[c->ensemble[i].first]);
    TT_TRY(tt_cohort_rows(c, f->shard->data, row_set, TT_TRAIN, &row, &rows));
    tt_free(row);
    f->batches[i] = (tt_cohort_epoch_rows(c, rows) + c->batch_size - 1) / c->batch_size;
  }
  return TT_OK;
}

static tt_err begin_local(fusion *f)
{
  const tt_cohort *c = f->shard->cohort;
  int64_t here = f->shard->slice.count, each = batch_outputs(f);
  if (f->shard->engine && !f->shard->ops->forward)
    return TT_FAIL(UNAVAILABLE,
                   "the %s engine cannot train with train.method: fusion; use run.device: cpu",
                   f->shard->ops->name);
  TT_TRY(TT_ALLOC(f->output, here * each));
  TT_TRY(TT_ALLOC(f->delta, here * each));
  TT_TRY(TT_ALLOC(f->row, here * c->batch_size));
  TT_TRY(TT_ALLOC(f->loss, here));
  TT_TRY(TT_ALLOC(f->all, c->members * each));
  TT_TRY(TT_ALLOC(f->gradient, each));
  TT_TRY(TT_ALLOC(f->mean, c->model.outputs));
  TT_TRY(TT_ALLOC(f->finite, c->members));
  TT_TRY(TT_ALLOC(f->due, c->ensembles));
  TT_TRY(TT_ALLOC(f->batches, c->ensembles));
  TT_TRY(TT_ALLOC(f->done, c->ensembles));
  TT_TRY(count_batches(f));
  return tt_shard_save_local(f->shard);
}

static void end(fusion *f)
{
  tt_free(f->output);
  tt_free(f->delta);
  tt_free(f->row);
  tt_free(f->loss);
  tt_free(f->all);
  tt_free(f->gradient);
  tt_free(f->mean);
  tt_free(f->finite);
  tt_free(f->due);
  tt_free(f->summary);
  tt_free(f->batches);
  tt_free(f->done);
}

/* Outputs on the next batch; NaN for members that do not train, so that all ranks know them. */
static tt_err forward_local(fusion *f)
{
  int64_t batch = f->shard->cohort->batch_size, each = batch_outputs(f);
  if (!f->shard->engine) return TT_OK;
  TT_TRY(f->shard->ops->forward(f->shard->engine, f->output, f->row));
  for (int64_t m = 0; m < f->shard->slice.count; m++)
    if (f->row[m * batch] < 0)
      for (int64_t i = 0; i < each; i++) f->output[m * each + i] = NAN;
  return TT_OK;
}

/* Loss and gradients of one ensemble for its members on this rank. */
static void ensemble_gradient_local(fusion *f, const tt_ensemble *e)
{
  const tt_shard *shard = f->shard;
  int64_t each = batch_outputs(f), batch = shard->cohort->batch_size;
  tt_fusion_batch fused = {.members = e->members,
                           .output = f->all + e->first * each,
                           .delta = f->gradient,
                           .mean = f->mean,
                           .finite = f->finite + e->first};
  for (int64_t m = 0; m < shard->slice.count; m++) {
    int64_t number = shard->slice.first + m;
    const int32_t *row = f->row + m * batch;
    if (number < e->first || number >= e->first + e->members || row[0] < 0) continue;
    if (!fused.row) {
      fused.row = row;
      tt_fusion_loss_local(shard->cohort, shard->data, e, &fused);
    }
    memcpy(f->delta + m * each, f->gradient, (size_t)each * sizeof *f->delta);
    f->loss[m] = f->finite[number] ? fused.loss : (double)NAN;
    f->steps += isfinite(f->loss[m]) != 0;
  }
}

/* Count this batch in each ensemble with a training member. A member that does not train, or that
 * diverged in this step, has NaN as its first output.
 * Returns 0: no member trains; 1: members train; 2: an ensemble is also at the end of an epoch. */
static int advance_batches(fusion *f)
{
  const tt_cohort *c = f->shard->cohort;
  int64_t each = batch_outputs(f);
  int any_training = 0, ends = 0;
  for (int64_t i = 0; i < c->ensembles; i++) {
    const tt_ensemble *e = &c->ensemble[i];
    int trains = 0;
    for (int64_t m = e->first; m < e->first + e->members; m++) trains |= !isnan(f->all[m * each]);
    any_training |= trains;
    f->due[i] = (int8_t)(trains && ++f->done[i] == f->batches[i]);
    if (f->due[i]) f->done[i] = 0;
    ends |= f->due[i];
  }
  return any_training ? 1 + ends : 0;
}

static tt_err end_epoch(fusion *f)
{
  tt_err e = tt_agree(f->c, tt_shard_save_local(f->shard));
  tt_free(f->summary);
  if (!e) e = tt_member_summaries_gather(f->c, f->shard, 1, &f->summary);
  if (!e) e = tt_ensemble_early_stopping_update(f->c, f->shard, 1, f->summary, f->due);
  return e ? e : tt_agree(f->c, tt_shard_load_local(f->shard));
}

/* One step of all members. *more = 0 when no member trains any more. */
static tt_err step(fusion *f, int *more)
{
  const tt_cohort *c = f->shard->cohort;
  int64_t bytes = f->shard->slice.count * batch_outputs(f) * (int64_t)sizeof *f->output;
  tt_err e = tt_agree(f->c, forward_local(f));
  if (e) return e;
  tt_allgatherv(f->c, f->output, bytes, f->all, NULL);
  for (int64_t i = 0; i < c->ensembles; i++) ensemble_gradient_local(f, &c->ensemble[i]);
  if (f->shard->engine) e = f->shard->ops->apply(f->shard->engine, f->delta, f->loss);
  e = tt_agree(f->c, e);
  *more = advance_batches(f);
  return !e && *more > 1 ? end_epoch(f) : e;
}

static void find_batch_position(fusion *f)
{
  const tt_cohort *c = f->shard->cohort;
  for (int64_t i = 0; i < c->members; i++)
    if (f->summary[i].status == TT_STATUS_training)
      f->done[c->member[i].ensemble] = f->summary[i].batch;
}

tt_err tt_fusion_train(tt_comm *c, tt_shard *shard, int64_t steps)
{
  fusion f = {.c = c, .shard = shard};
  int more = 1;
  tt_bcast(c, &steps, sizeof steps);
  tt_err e = tt_agree(c, begin_local(&f));
  if (!e) e = tt_member_summaries_gather(c, shard, 1, &f.summary);
  if (!e) find_batch_position(&f);
  for (int64_t i = 0; !e && more && i < steps; i++) e = step(&f, &more);
  if (!e) e = tt_agree(c, tt_shard_train_local(shard, 0)); /* 0 steps: only update local_progress */
  shard->local_progress.member_steps = f.steps;
  end(&f);
  return e;
}
