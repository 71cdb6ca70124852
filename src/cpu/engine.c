/* engine.c — the cpu engine: threads train members in parallel; each member takes many steps in a
 * row, so that it stays in cache. */
#include "src/cpu/cpu_internal.h"

#include "core/base/mem.h"
#include "core/engine/progress.h"
#include "core/model/epoch_end.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static tt_err count(int *devices)
{
  *devices = 1;
  return TT_OK;
}

static void destroy(tt_engine **engine)
{
  tt_engine *e = *engine;
  if (!e) return;
  for (int64_t i = 0; e->lists && i < e->row_sets; i++)
    for (int k = 0; k < TT_SPLITS; k++) tt_free(e->lists[i].row[k]);
  tt_free_all(&e->lists, &e->term, &e->progress, &e->team, &e->taken, &e->pair_scratch);
  tt_cpu_stage_destroy(e);
  tt_cpu_given_destroy(e);
  for (int t = 0; e->buffers && t < e->threads; t++) tt_cpu_buffers_destroy(&e->buffers[t]);
  tt_free(e->buffers);
  tt_state_destroy(&e->state);
  tt_free(*engine);
}

static int threads_of(const tt_resources *use) { return use->threads < 1 ? 1 : use->threads; }

static tt_slice own_of(const tt_cohort *c, const tt_resources *use)
{
  return use->own ? *use->own : (tt_slice){0, c->model.params};
}

static tt_err allocate_teams(tt_engine *e)
{
  int64_t threads = e->threads, floats = threads > 1 ? tt_cpu_pair_floats(e->cohort) : 0;
  int64_t shares = threads < TT_CPU_MOST_SHARING ? threads : TT_CPU_MOST_SHARING;
  TT_TRY(TT_ALLOC(e->team, threads));
  TT_TRY(TT_ALLOC(e->taken, threads * shares));
  if (floats) TT_TRY(TT_ALLOC_VALUES(e->pair_scratch, threads * floats));
  for (int64_t t = 0; t < threads; t++) {
    e->team[t].taken = e->taken + t * shares;
    if (floats) e->team[t].pair_scratch = e->pair_scratch + t * floats;
  }
  return TT_OK;
}

/* Engines that share the parts of a batch reserve their sums in `partial`. */
static tt_err allocate(tt_engine *e)
{
  const tt_cohort *c = e->cohort;
  TT_TRY(TT_ALLOC_VALUES(e->progress, e->slice.count));
  TT_TRY(TT_ALLOC(e->lists, e->row_sets));
  TT_TRY(TT_ALLOC(e->buffers, e->threads));
  TT_TRY(allocate_teams(e));
  TT_TRY(tt_state_create_segment(e->slice, tt_cohort_state_shape(c), e->own, &e->state));
  for (int t = 0; t < e->threads; t++)
    TT_TRY(tt_cpu_buffers_create(&c->model, c->batch_size, c->parts, TT_BUFFERS_TRAIN,
                                 &e->buffers[t]));
  if (e->is_shared) return TT_OK;
  return tt_cpu_reserve_sums(e, (tt_slice){0, c->parts},
                             tt_cpu_threads_per_member(c, e->slice, e->threads));
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
                   .own = own_of(cohort, use),
                   .is_shared = use->own != NULL,
                   .kernels = kernels,
                   .row_sets = tt_cohort_row_sets(cohort),
                   .stop = use->stop,
                   .share_flops = use->share_flops > 0 ? use->share_flops : TT_CPU_SHARE_FLOPS,
                   .threads = threads_of(use)};
  tt_err err = allocate(e);
  if (err)
    destroy(&e);
  else
    *out = e;
  return err;
}

static tt_err no_training_row(const tt_cohort *c, int64_t row_set)
{
  const char *name = c->ensemble[row_set / (tt_cohort_row_sets(c) / c->ensembles)].name;
  if (c->resample == TT_RESAMPLE_kfold)
    return TT_FAIL(DATA,
                   "ensemble %s, fold %" PRId64 " of %" PRId64
                   ": no training row has a label for its targets",
                   name, row_set % c->folds, c->folds);
  return TT_FAIL(DATA, "ensemble %s: no training row has a label for its targets", name);
}

/* Passes over the validation rows, at most; with parts each has a term of the loss. */
static tt_err reserve_terms(tt_engine *e, int64_t rows)
{
  const tt_cohort *c = e->cohort;
  int64_t most = tt_lanes_up(tt_part_max_rows(c->batch_size, c->parts));
  tt_free(e->term);
  return c->parts > 1 ? TT_ALLOC_VALUES(e->term, rows / most + 1) : TT_OK;
}

static tt_err set_data(tt_engine *e, const tt_dataset *data, const tt_replay *replay)
{
  e->data = data;
  e->replay = replay ? replay->order : NULL;
  int64_t most = 0; /* training rows of a member, at most */
  for (int64_t v = 0; v < e->row_sets; v++) {
    tt_cpu_row_lists *lists = &e->lists[v];
    for (int k = 0; k < TT_SPLITS; k++) {
      tt_free(lists->row[k]);
      TT_TRY(tt_cohort_rows(e->cohort, data, v, (tt_split)k, &lists->row[k], &lists->count[k]));
    }
    if (lists->count[TT_TRAIN] < 1) return no_training_row(e->cohort, v);
    int64_t used = tt_cohort_epoch_rows(e->cohort, lists->count[TT_TRAIN]);
    if (used > most) most = used;
  }
  e->most_sharing = tt_cpu_most_sharing(e, most);
  return reserve_terms(e, data->rows);
}

static tt_err init(tt_engine *e)
{
  tt_state_reset(e->state);
  return tt_members_init_weights(e->cohort, e->slice, e->stop, TT_FIELD(e->state, weights));
}

static void get_standing(const tt_state *s, int64_t i, tt_member_progress *out)
{
  out->epoch = TT_FIELD(s, epoch)[i];
  out->status = TT_FIELD(s, status)[i];
  out->loss = tt_last_epoch_loss(TT_FIELD(s, loss_train), s->epochs, i, out->epoch);
}

/* Arguments of a call of train. */
typedef struct train_args {
  int64_t steps;
  tt_member_progress *at; /* [M] */
} train_args;

static void train_member(tt_engine *e, tt_cpu_buffers *b, tt_cpu_team *team, int64_t i,
                         void *context)
{
  const train_args *a = context;
  if (e->batch) e->batch->loss[i] = (double)NAN;
  a->at[i].taken = tt_cpu_train_member(e, b, team, i, a->steps);
  get_standing(e->state, i, &a->at[i]);
}

/* All threads train one member after the other; they share the parts of a batch. */
static void train_one_by_one(tt_engine *e, train_args *args)
{
  unsigned mode = tt_cpu_flush_denormals();
  for (int64_t i = 0; i < e->slice.count; i++) train_member(e, e->buffers[0], NULL, i, args);
  tt_cpu_restore_denormals(mode);
}

static tt_err train(tt_engine *e, int64_t steps, tt_progress *out)
{
  train_args args = {.steps = steps, .at = e->progress};
  if (tt_cpu_threads_per_member(e->cohort, e->slice, e->threads) > 1)
    train_one_by_one(e, &args);
  else
    tt_cpu_each_member(e, steps, train_member, &args);
  if (out) tt_progress_from_members(e->slice.count, args.at, e->cohort->max_epochs, out);
  return TT_OK;
}

/* Arguments of a call of evaluate. */
typedef struct evaluate_args {
  tt_split split;
  double *loss; /* [M] */
} evaluate_args;

static void evaluate_member(tt_engine *e, tt_cpu_buffers *b, tt_cpu_team *team, int64_t i,
                            void *context)
{
  const evaluate_args *a = context;
  const tt_member *m = &e->cohort->member[e->slice.first + i];
  const tt_cpu_row_lists *lists = &e->lists[tt_member_row_set(e->cohort, m)];
  a->loss[i] = tt_cpu_mean_loss(e, b, team, &e->cohort->ensemble[m->ensemble],
                                tt_state_prediction_weights(e->state, i), lists->row[a->split],
                                lists->count[a->split]);
}

static tt_err evaluate(tt_engine *e, tt_split split, double *loss)
{
  tt_cpu_each_member(e, 0, evaluate_member, &(evaluate_args){split, loss});
  return TT_OK;
}

/* Copy members `which` of the cohort from one state to another; both must hold them. */
static tt_err copy_members(tt_slice which, const tt_state *src, tt_state *dst)
{
  int64_t last = which.first + which.count;
  if (which.first < src->first || last > src->first + src->count || which.first < dst->first ||
      last > dst->first + dst->count || src->params != dst->params || src->slots != dst->slots ||
      src->epochs != dst->epochs || src->averages != dst->averages)
    return TT_FAIL(INTERNAL,
                   "members %" PRId64 " + %" PRId64 " are not in both states, or the sizes differ",
                   which.first, which.count);
  for (int64_t m = which.first; m < last; m++)
    tt_state_copy_member(src, m - src->first, dst, m - dst->first);
  return TT_OK;
}

static tt_err save(tt_engine *e, tt_slice which, tt_state *dst)
{
  return copy_members(which, e->state, dst);
}

static tt_err load(tt_engine *e, tt_slice which, const tt_state *src)
{
  return copy_members(which, src, e->state);
}

/* As set_data, for a data set that is not there: each list may have all rows, with `by` all rows of
 * its group. */
static tt_err reserve_data(tt_engine *e, int64_t rows)
{
  const tt_cohort *c = e->cohort;
  for (int64_t v = 0; v < e->row_sets; v++) {
    int64_t own = c->ensemble[v / tt_cohort_fold_count(c)].rows.count;
    for (int k = 0; k < TT_SPLITS; k++)
      TT_TRY(TT_ALLOC_VALUES(e->lists[v].row[k], own ? own : rows));
  }
  return reserve_terms(e, rows);
}

static tt_err reserve_share(tt_engine *e, const tt_engine_share *share)
{
  if (!share) return TT_OK;
  return share->stage ? tt_cpu_stage_reserve(e, share) : tt_cpu_partial_reserve(e, share->parts);
}

static int64_t host_bytes(const tt_cohort *c, tt_slice slice, int64_t rows,
                          const tt_engine_share *share, const tt_resources *use)
{
  tt_engine *e = NULL;
  tt_mem_count_begin();
  tt_err err = create(c, slice, use, &e);
  if (!err) err = reserve_data(e, rows);
  if (!err) (void)reserve_share(e, share);
  int64_t bytes = tt_mem_count_end();
  destroy(&e);
  return bytes;
}

static tt_err info(const tt_engine *e, tt_engine_info *out)
{
  *out = (tt_engine_info){.device_bytes = 0};
  snprintf(out->device, sizeof out->device, "CPU, %d thread%s, %s", e->threads,
           e->threads > 1 ? "s" : "", e->kernels->name);
  snprintf(out->arithmetic, sizeof out->arithmetic, "%s", e->kernels->arithmetic);
  return TT_OK;
}

static const tt_team_ops team = {
    .partial = tt_cpu_partial,
    .squares = tt_cpu_squares,
    .advance = tt_cpu_advance,
    .accept = tt_cpu_accept,
    .stage_begin = tt_cpu_stage_begin,
    .stage_forward = tt_cpu_stage_forward,
    .stage_backward = tt_cpu_stage_backward,
    .stage_gradient = tt_cpu_stage_gradient,
};

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
    .host_bytes = host_bytes,
    .predict_bytes = tt_cpu_predict_bytes,
    .predict = tt_cpu_predict,
    .set_batch = tt_cpu_set_batch,
    .forward = tt_cpu_forward_rows,
    .backward = tt_cpu_backward_rows,
    .update = tt_cpu_update_members,
    .take_gradient = tt_cpu_take_gradient,
    .team = &team,
};
