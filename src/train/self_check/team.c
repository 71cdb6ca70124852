/* team.c — see internal.h. Start reading at tt_self_check_team. */
#include "src/train/self_check/internal.h"

#include "core/base/mem.h"

#include <math.h>
#include <string.h>

enum { ENGINES = 2 };
typedef struct team {
  const tt_cohort *cohort;
  const tt_engine_ops *ops;
  int64_t m; /* member of the cohort */
  int on_device, in_stages;
  tt_pipeline_stage own[ENGINES]; /* params: those that the engine updates */
  tt_engine *engine[ENGINES];
  tt_state *state[ENGINES]; /* of one member */
  int64_t params, values;   /* P; of a part between two stages */
  float *place;             /* all arrays of the host */
  float *sum, *w, *lane;    /* [P] gradient of the batch, [P], [parts][values] */
  double *block;            /* sums of squares */
} team;

static tt_err copy(const team *x, float *dst, const float *src, int64_t count)
{
  if (x->on_device) return x->ops->team->device_copy(x->engine[0], dst, src, count);
  memcpy(dst, src, (size_t)count * sizeof *dst);
  return TT_OK;
}

static tt_err add(const team *x, float *dst, const float *src)
{
  if (x->on_device) return x->ops->team->device_add(x->engine[0], x->m, dst, src, x->params);
  for (int64_t i = 0; i < x->params; i++) dst[i] += src[i];
  return TT_OK;
}

/* Each engine computes some parts of the batch; their sums are added in the order of the tree. */
static tt_err share_parts(team *x, int *training, double *loss)
{
  tt_part_sums all = {.parts = x->cohort->parts};
  float *sum[TT_MAX_PART_SUMS], *mine[TT_MAX_PART_SUMS];
  double losses[TT_MAX_PART_SUMS], own[TT_MAX_PART_SUMS];
  for (int k = 0; k < ENGINES; k++) {
    tt_slice parts = tt_part_slice(all.parts, ENGINES, k);
    tt_part_sums part = tt_part_sums_of(all.parts, parts, NULL);
    TT_TRY(x->ops->team->partial(x->engine[k], x->m, parts, training, mine, own));
    if (!*training) return TT_OK;
    for (int i = 0; i < part.count; i++) {
      sum[all.count] = mine[i];
      losses[all.count] = own[i];
      tt_part_sums_push(&all, part.node[i].index, part.node[i].level);
      while (tt_part_sums_merge(&all)) {
        losses[all.count - 1] += losses[all.count];
        TT_TRY(add(x, sum[all.count - 1], sum[all.count]));
      }
    }
  }
  *loss = losses[0];
  return copy(x, x->sum, sum[0], x->params);
}

/* Part i forth and back through the last stage, whose window is 1. */
static tt_err turn_back(team *x, int64_t i)
{
  const tt_team_ops *ops = x->ops->team;
  float *lane = x->lane + i * x->values;
  TT_TRY(ops->stage_forward(x->engine[1], i, lane, NULL));
  TT_TRY(ops->stage_backward(x->engine[1], i, NULL, lane));
  return ops->stage_gradient(x->engine[1], i);
}

/* Each engine computes some layers. *ends: the step ends an epoch. */
static tt_err share_layers(team *x, int *training, double *loss, int *ends)
{
  const tt_team_ops *ops = x->ops->team;
  const tt_slice parts = {0, x->cohort->parts};
  tt_pipeline_step step[ENGINES];
  for (int k = 0; k < ENGINES; k++)
    TT_TRY(ops->stage_begin(x->engine[k], x->m, &x->own[k], parts, k ? 1 : parts.count, &step[k]));
  *training = step[0].training;
  *ends = step[0].ends_epoch;
  for (int64_t i = 0; *training && i < parts.count; i++)
    TT_TRY(ops->stage_forward(x->engine[0], i, NULL, x->lane + i * x->values));
  for (int64_t i = 0; *training && i < parts.count; i++) {
    TT_TRY(turn_back(x, i));
    TT_TRY(ops->stage_backward(x->engine[0], i, x->lane + i * x->values, NULL));
    TT_TRY(ops->stage_gradient(x->engine[0], i));
  }
  if (!*training) return TT_OK;
  *loss = *step[1].loss;
  for (int k = 0; k < ENGINES; k++) {
    tt_slice p = x->own[k].params;
    TT_TRY(copy(x, x->sum + p.first, step[k].sum[0] + p.first, p.count));
  }
  return TT_OK;
}

/* Both engines get what each of them has updated, but for the weights. */
static tt_err share_slots(team *x)
{
  const tt_slice one = {x->m, 1};
  tt_state *const *s = x->state;
  for (int k = 0; k < ENGINES; k++) s[k]->first = x->m;
  for (int k = 0; k < ENGINES; k++) TT_TRY(x->ops->save(x->engine[k], one, s[k]));
  for (int k = 0; k < ENGINES; k++) {
    const tt_slice p = x->own[k].params;
    const size_t bytes = (size_t)p.count * sizeof(float);
    for (int64_t j = 0; j < s[k]->slots; j++)
      memcpy(s[!k]->f_slots + j * x->params + p.first, s[k]->f_slots + j * x->params + p.first,
             bytes);
    if (s[k]->averages) memcpy(s[!k]->f_average + p.first, s[k]->f_average + p.first, bytes);
  }
  for (int k = 0; k < ENGINES; k++) TT_TRY(x->ops->load(x->engine[k], one, s[k]));
  return TT_OK;
}

/* From the gradient to the end of the step. */
static tt_err update(team *x, double loss, int ends)
{
  const tt_team_ops *ops = x->ops->team;
  const tt_slice all = {0, x->params}, given = {0, ends ? x->params : 0};
  double squares = 0.0;
  if (isfinite(loss)) {
    TT_TRY(ops->squares(x->engine[0], x->m, all, x->sum, x->block));
    if (x->cohort->member[x->m].hyper.clip_norm > 0.0f)
      for (int64_t b = 0; b < tt_norm_blocks(x->params); b++) squares += x->block[b];
    for (int k = 0; k < ENGINES; k++) {
      tt_slice p = x->own[k].params;
      if (p.count)
        TT_TRY(ops->advance(x->engine[k], x->m, p, x->sum + p.first, squares,
                            ends ? x->w + p.first : NULL));
    }
    if (ends) TT_TRY(share_slots(x));
  }
  for (int k = 0; k < ENGINES; k++)
    TT_TRY(ops->accept(x->engine[k], x->m, given, x->w, loss, NULL, &ends));
  return TT_OK;
}

static tt_err train_member(team *x)
{
  int training = 1, ends = 1;
  while (training) {
    double loss = 0.0;
    TT_TRY(x->in_stages ? share_layers(x, &training, &loss, &ends)
                        : share_parts(x, &training, &loss));
    if (training) TT_TRY(update(x, loss, ends));
  }
  return TT_OK;
}

static tt_err open_team(team *x, const tt_self_check_trial *t)
{
  const tt_model *m = &t->cohort->model;
  const tt_slice all = {0, t->cohort->members};
  tt_resources use = t->use;
  use.device_exchange = x->on_device;
  for (int k = 0; k < ENGINES; k++) {
    TT_TRY(t->gpu->create(t->cohort, all, &use, &x->engine[k]));
    TT_TRY(t->gpu->set_data(x->engine[k], t->data, NULL));
    TT_TRY(t->gpu->init(x->engine[k]));
    TT_TRY(tt_state_create((tt_slice){0, 1}, tt_cohort_state_shape(t->cohort), &x->state[k]));
  }
  x->params = m->params;
  if (x->in_stages) {
    int64_t rows = tt_part_max_rows(t->cohort->batch_size, t->cohort->parts);
    x->values = tt_pipeline_values(m, x->own[1].first) * tt_round_up(rows, TT_PART_LANES);
  }
  int64_t count = 2 * x->params + t->cohort->parts * x->values;
  TT_TRY(TT_ALLOC(x->block, tt_norm_blocks(x->params)));
  if (!x->on_device) TT_TRY(TT_ALLOC(x->place, count));
  x->sum = x->place;
  if (x->on_device) TT_TRY(t->gpu->team->device_scratch(x->engine[0], count, &x->sum));
  x->w = x->sum + x->params;
  x->lane = x->w + x->params;
  return TT_OK;
}

static void close_team(team *x)
{
  for (int k = 0; k < ENGINES; k++) {
    x->ops->destroy(&x->engine[k]);
    tt_state_destroy(&x->state[k]);
  }
  tt_free(x->place);
  tt_free(x->block);
}

static tt_err train_together(tt_self_check_trial *t, team *x)
{
  const tt_slice all = {0, t->cohort->members};
  tt_err e = open_team(x, t);
  for (x->m = 0; !e && x->m < all.count; x->m++) e = train_member(x);
  if (!e) e = t->gpu->save(x->engine[0], all, t->again);
  for (int64_t i = 0; !e && i < all.count; i++)
    if (tt_state_hash(t->again, i) != tt_state_hash(t->after, i))
      tt_self_check_blame(t, i,
                          x->in_stages ? "it has other bits when two engines share its layers"
                                       : "it has other bits when two engines share its batches");
  close_team(x);
  return e;
}

tt_err tt_self_check_team(tt_self_check_trial *t)
{
  const tt_model *m = &t->cohort->model;
  team x = {.cohort = t->cohort,
            .ops = t->gpu,
            .own = {{.params = {0, m->params}}},
            .on_device = t->number / 4 % 2};
  if (t->cohort->parts < ENGINES) return TT_OK;
  TT_TRY(train_together(t, &x));
  x = (team){.cohort = t->cohort, .ops = t->gpu, .in_stages = 1, .on_device = !(t->number / 4 % 2)};
  tt_pipeline_cut(m, ENGINES, x.own);
  return tt_pipeline_used(m, ENGINES) < ENGINES ? TT_OK : train_together(t, &x);
}
