/* fusion.c — see fusion.h. */
#include "src/train/fusion.h"

#include "core/base/mem.h"
#include "src/train/ensemble_early_stopping.h"

#include <math.h>
#include <string.h>

/* Which members have only finite outputs on the rows of the batch. */
static int64_t find_sound(const tt_cohort *c, tt_fused *f, int64_t rows)
{
  int64_t each = c->batch_size * c->model.outputs, used = rows * c->model.outputs, sound = 0;
  for (int64_t m = 0; m < f->members; m++) {
    float probe = 0.0f; /* 0 * finite = 0; anything else is NaN for ever */
    for (int64_t i = 0; i < used; i++) probe += 0.0f * f->output[m * each + i];
    f->sound[m] = (int8_t)!isnan(probe);
    sound += f->sound[m];
  }
  return sound;
}

/* Mean over the sound members of one row's outputs, in member order. */
static void mean_of(const tt_cohort *c, const tt_fused *f, int64_t row, double sound)
{
  int64_t outputs = c->model.outputs, each = c->batch_size * outputs;
  for (int64_t o = 0; o < outputs; o++) {
    double sum = 0.0;
    for (int64_t m = 0; m < f->members; m++)
      if (f->sound[m]) sum += (double)f->output[m * each + row * outputs + o];
    f->mean[o] = (float)(sum / sound);
  }
}

void tt_fusion_loss_local(const tt_cohort *c, const tt_dataset *d, const tt_ensemble *e,
                          tt_fused *f)
{
  const tt_model *model = &c->model;
  tt_loss_args args = tt_cohort_loss_args(c);
  int64_t outputs = model->outputs, targets = model->targets, rows = 0;
  while (rows < c->batch_size && f->row[rows] >= 0) rows++;
  int64_t sound = find_sound(c, f, rows);
  f->loss = sound && rows ? 0.0 : (double)NAN;
  memset(f->delta, 0, (size_t)(c->batch_size * outputs) * sizeof *f->delta);
  for (int64_t r = 0; sound && r < rows; r++) {
    float weight = d->weight ? d->weight[f->row[r]] : 1.0f;
    mean_of(c, f, r, (double)sound);
    for (int64_t k = 0; k < targets; k++) {
      tt_loss_wide w = {.n = model->each,
                        .level = model->level,
                        .o = f->mean + k,
                        .d = f->delta + r * outputs + k,
                        .step = targets,
                        .y = d->y[f->row[r] * d->targets + e->column[k]],
                        .factor = weight / ((float)rows * (float)sound)};
      f->loss += (double)weight * (double)tt_loss_target(c->loss, &w, args);
    }
  }
}

/* Everything of one call. */
typedef struct fusion {
  tt_comm *c;
  tt_crew *w;
  float *output, *delta; /* [M][B][O] here */
  int32_t *row;          /* [M][B] */
  double *loss;          /* [M] */
  float *all;            /* [G][B][O] of everybody, NaN of who does not train */
  float *gradient;       /* [B][O] of one ensemble */
  float *mean;           /* [O] */
  int8_t *sound, *due;   /* [G], [ensembles] */
  tt_stand *stand;       /* [G] */
  int64_t *batches;      /* [ensembles] of an epoch */
  int64_t *done;         /* [ensembles] batches of the running epoch */
  int64_t steps;         /* of this rank's members */
} fusion;

static int64_t values(const fusion *f)
{
  return f->w->cohort->batch_size * f->w->cohort->model.outputs;
}

static tt_err count_batches(fusion *f)
{
  const tt_cohort *c = f->w->cohort;
  for (int64_t i = 0; i < c->ensembles; i++) {
    int32_t *row = NULL;
    int64_t rows = 0, view = tt_cohort_view_of(c, &c->member[c->ensemble[i].first]);
    TT_TRY(tt_cohort_rows(c, f->w->data, view, TT_TRAIN, &row, &rows));
    tt_free(row);
    f->batches[i] = (tt_cohort_epoch_rows(c, rows) + c->batch_size - 1) / c->batch_size;
  }
  return TT_OK;
}

static tt_err begin_local(fusion *f)
{
  const tt_cohort *c = f->w->cohort;
  int64_t here = f->w->slice.count, each = values(f);
  if (f->w->engine && !f->w->ops->forward)
    return TT_FAIL(UNAVAILABLE,
                   "the %s engine cannot train with train.method: fusion; use run.device: cpu",
                   f->w->ops->name);
  TT_TRY(TT_ALLOC(f->output, here * each));
  TT_TRY(TT_ALLOC(f->delta, here * each));
  TT_TRY(TT_ALLOC(f->row, here * c->batch_size));
  TT_TRY(TT_ALLOC(f->loss, here));
  TT_TRY(TT_ALLOC(f->all, c->members * each));
  TT_TRY(TT_ALLOC(f->gradient, each));
  TT_TRY(TT_ALLOC(f->mean, c->model.outputs));
  TT_TRY(TT_ALLOC(f->sound, c->members));
  TT_TRY(TT_ALLOC(f->due, c->ensembles));
  TT_TRY(TT_ALLOC(f->batches, c->ensembles));
  TT_TRY(TT_ALLOC(f->done, c->ensembles));
  TT_TRY(count_batches(f));
  return tt_crew_save_local(f->w);
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
  tt_free(f->sound);
  tt_free(f->due);
  tt_free(f->stand);
  tt_free(f->batches);
  tt_free(f->done);
}

/* Outputs on the next batch; what says nothing is NaN, so that everybody sees who trains. */
static tt_err forward_local(fusion *f)
{
  int64_t batch = f->w->cohort->batch_size, each = values(f);
  if (!f->w->engine) return TT_OK;
  TT_TRY(f->w->ops->forward(f->w->engine, f->output, f->row));
  for (int64_t m = 0; m < f->w->slice.count; m++)
    if (f->row[m * batch] < 0)
      for (int64_t i = 0; i < each; i++) f->output[m * each + i] = NAN;
  return TT_OK;
}

/* Loss and gradients of one ensemble for its members here. */
static void fuse_local(fusion *f, const tt_ensemble *e)
{
  const tt_crew *w = f->w;
  int64_t each = values(f), batch = w->cohort->batch_size;
  tt_fused fused = {.members = e->members,
                    .output = f->all + e->first * each,
                    .delta = f->gradient,
                    .mean = f->mean,
                    .sound = f->sound + e->first};
  for (int64_t m = 0; m < w->slice.count; m++) {
    int64_t number = w->slice.first + m;
    const int32_t *row = f->row + m * batch;
    if (number < e->first || number >= e->first + e->members || row[0] < 0) continue;
    if (!fused.row) {
      fused.row = row;
      tt_fusion_loss_local(w->cohort, w->data, e, &fused);
    }
    memcpy(f->delta + m * each, f->gradient, (size_t)each * sizeof *f->delta);
    f->loss[m] = f->sound[number] ? fused.loss : (double)NAN;
    f->steps += isfinite(f->loss[m]) != 0;
  }
}

/* Whether anyone trains: who does not has NaN in its first output; so has who is about to diverge,
 * who counts as training once more. */
static int count_step(fusion *f)
{
  const tt_cohort *c = f->w->cohort;
  int64_t each = values(f);
  int someone = 0, ends = 0;
  for (int64_t i = 0; i < c->ensembles; i++) {
    const tt_ensemble *e = &c->ensemble[i];
    int trains = 0;
    for (int64_t m = e->first; m < e->first + e->members; m++) trains |= !isnan(f->all[m * each]);
    someone |= trains;
    f->due[i] = (int8_t)(trains && ++f->done[i] == f->batches[i]);
    if (f->due[i]) f->done[i] = 0;
    ends |= f->due[i];
  }
  return someone ? 1 + ends : 0;
}

static tt_err end_epoch(fusion *f)
{
  tt_err e = tt_agree(f->c, tt_crew_save_local(f->w));
  tt_free(f->stand);
  if (!e) e = tt_stands_gather(f->c, f->w, &f->stand);
  if (!e) e = tt_judge(f->c, f->w, f->stand, f->due);
  return e ? e : tt_agree(f->c, tt_crew_load_local(f->w));
}

/* One step of everybody. *more = 0 when nobody trains any more. */
static tt_err step(fusion *f, int *more)
{
  const tt_cohort *c = f->w->cohort;
  int64_t bytes = f->w->slice.count * values(f) * (int64_t)sizeof *f->output;
  tt_err e = tt_agree(f->c, forward_local(f));
  if (e) return e;
  tt_allgather(f->c, f->output, bytes, f->all, NULL);
  for (int64_t i = 0; i < c->ensembles; i++) fuse_local(f, &c->ensemble[i]);
  if (f->w->engine) e = f->w->ops->apply(f->w->engine, f->delta, f->loss);
  e = tt_agree(f->c, e);
  *more = count_step(f);
  return !e && *more > 1 ? end_epoch(f) : e;
}

static void find_place(fusion *f)
{
  const tt_cohort *c = f->w->cohort;
  for (int64_t i = 0; i < c->members; i++)
    if (f->stand[i].status == TT_STATUS_training)
      f->done[c->member[i].ensemble] = f->stand[i].batch;
}

tt_err tt_fusion_train(tt_comm *c, tt_crew *w, int64_t steps)
{
  fusion f = {.c = c, .w = w};
  int more = 1;
  tt_bcast(c, &steps, sizeof steps);
  tt_err e = tt_agree(c, begin_local(&f));
  if (!e) e = tt_stands_gather(c, w, &f.stand);
  if (!e) find_place(&f);
  for (int64_t i = 0; !e && more && i < steps; i++) e = step(&f, &more);
  if (!e) e = tt_agree(c, tt_crew_train_local(w, 0)); /* where they stand now */
  w->here.member_steps = f.steps;
  end(&f);
  return e;
}
