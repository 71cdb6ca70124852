/* warm_start.c — see warm_start.h. */
#include "src/train/warm_start.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "io/checkpoint/checkpoint.h"
#include "io/files/files.h"
#include "io/model/model_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

/* Source of a member: a row of a part of the earlier model; -1 = random weights. */
typedef struct tt_source_row {
  int64_t trained, row;
} tt_source_row;

/* Last checkpointed states of the members of a part. */
typedef struct tt_final_states {
  int32_t *epoch; /* [G] */
  int8_t *status;
  uint64_t *hash;
} tt_final_states;

struct tt_warm_source {
  tt_warm_start w;
  char directory[TT_PATH_MAX];
  tt_trained_ensembles model;
  tt_trained_parts part;  /* of the model, each of one cohort of the earlier run */
  tt_final_states *final; /* [part.count], only with optimizer */
  tt_ckpt_last *last;     /* only with optimizer */
  uint64_t hash;
  const tt_cohorts *job; /* cohorts of the job, borrowed */
  int64_t cohorts;
  tt_source_row **from; /* [cohorts][members of the cohort] */
};

/* Cohort of the earlier run that trained part k, its members, and those of them before part k. */
static int64_t cohort_of(const tt_warm_source *s, int64_t k, int64_t *members, int64_t *before)
{
  *before = *members = 0;
  for (int64_t j = 0; j < s->part.count; j++) {
    if (s->part.at[j].cohort[0] != s->part.at[k].cohort[0]) continue;
    if (j < k) *before += s->part.at[j].members;
    *members += s->part.at[j].members;
  }
  return s->part.at[k].cohort[0];
}

static tt_err allocate_states(int64_t members, tt_final_states *out)
{
  TT_TRY(TT_ALLOC(out->epoch, members));
  TT_TRY(TT_ALLOC(out->status, members));
  return TT_ALLOC(out->hash, members);
}

static void free_states(tt_final_states *f) { tt_free_all(&f->epoch, &f->status, &f->hash); }

static tt_err read_final_states(const tt_warm_source *s, int64_t k, tt_final_states *out)
{
  int64_t before, members, cohort = cohort_of(s, k, &members, &before);
  tt_final_states all = {0};
  tt_err e = allocate_states(members, &all);
  if (!e) e = allocate_states(s->part.at[k].members, out);
  if (!e)
    e = tt_ckpt_last_progress_local(s->last, cohort, members, all.epoch, all.status, all.hash);
  for (int64_t i = 0; !e && i < s->part.at[k].members; i++) {
    out->epoch[i] = all.epoch[before + i];
    out->status[i] = all.status[before + i];
    out->hash[i] = all.hash[before + i];
  }
  free_states(&all);
  return e;
}

static tt_err read_checkpoint(tt_warm_source *s)
{
  TT_TRY(tt_ckpt_last_open_local(s->directory, &s->last));
  TT_TRY(TT_ALLOC(s->final, s->part.count));
  for (int64_t k = 0; k < s->part.count; k++) {
    TT_TRY(read_final_states(s, k, &s->final[k]));
    for (int64_t i = 0; i < s->part.at[k].members; i++)
      if (s->final[k].status[i] == TT_STATUS_training)
        return TT_FAIL(DATA,
                       "%s: the last checkpoint was written before the training ended; use "
                       "campaign.warm_start: params",
                       s->directory);
  }
  return TT_OK;
}

static tt_err reject_snapshots(const tt_warm_source *s)
{
  for (int64_t k = 0; k < s->part.count; k++)
    for (int64_t i = 0; i < s->part.at[k].members; i++)
      if (s->part.at[k].snapshot[i])
        return TT_FAIL(
            DATA,
            "%s: the members of model.h5 are snapshots or heads, which cannot be used for a warm "
            "start; use campaign.warm_start: none",
            s->directory);
  return TT_OK;
}

#define HASH(bytes_, n_, h_) XXH3_64bits_withSeed(bytes_, (size_t)(n_), h_)

static uint64_t hash_all(const tt_warm_source *s)
{
  const double number[] = {(double)s->w.how, s->w.shrink, s->w.perturb, (double)s->w.round};
  int noise = s->w.how == TT_WARM_START_shrink_perturb;
  uint64_t h = HASH(number, noise ? sizeof number : sizeof *number, 0);
  for (int64_t k = 0; k < s->part.count; k++) {
    const tt_trained_ensemble *m = &s->part.at[k];
    for (int64_t i = 0; i < m->ensembles; i++)
      h = HASH(m->ensemble[i].name, strlen(m->ensemble[i].name), h);
    h = HASH(m->index, m->members * (int64_t)sizeof *m->index, h);
    h = HASH(m->status, m->members * (int64_t)sizeof *m->status, h);
    h = s->final ? HASH(s->final[k].hash, m->members * (int64_t)sizeof *s->final[k].hash, h)
                 : HASH(m->w, m->members * m->model.params * (int64_t)sizeof *m->w, h);
  }
  return h ? h : 1;
}

static tt_err begin_local(const tt_warm_start *w, tt_warm_source **out)
{
  TT_TRY(TT_ALLOC(*out, 1));
  (*out)->w = *w;
  int n = snprintf((*out)->directory, TT_PATH_MAX, "%s", w->directory);
  return n < TT_PATH_MAX - 16 ? TT_OK : TT_FAIL(NOINPUT, "%s: path is too long", w->directory);
}

tt_err tt_warm_open(tt_comm *c, const tt_warm_start *w, tt_warm_source **out)
{
  tt_warm_source *s = NULL;
  char path[TT_PATH_MAX + 16];
  *out = NULL;
  if (w->how == TT_WARM_START_none) return TT_OK;
  tt_err e = tt_agree(c, begin_local(w, &s));
  if (!e) snprintf(path, sizeof path, "%s/model.h5", s->directory);
  if (!e) e = tt_model_read(c, path, &s->model);
  if (!e) e = tt_trained_parts_create(&s->model, &s->part);
  if (!e) e = reject_snapshots(s);
  if (!e && w->how == TT_WARM_START_optimizer) e = read_checkpoint(s);
  e = tt_agree(c, e);
  if (!e) s->hash = hash_all(s);
  if (e) tt_warm_close(&s);
  *out = s;
  return e;
}

void tt_warm_close(tt_warm_source **source)
{
  tt_warm_source *s = *source;
  if (!s) return;
  for (int64_t k = 0; s->final && k < s->part.count; k++) free_states(&s->final[k]);
  tt_free(s->final);
  for (int64_t k = 0; s->from && k < s->cohorts; k++) tt_free(s->from[k]);
  tt_free(s->from);
  tt_ckpt_last_close_local(&s->last);
  tt_trained_parts_free(&s->part);
  tt_trained_ensembles_destroy(&s->model);
  tt_free(*source);
}

uint64_t tt_warm_source_hash(const tt_warm_source *s) { return s ? s->hash : 0; }

tt_err tt_warm_hash(tt_comm *c, const tt_warm_start *w, uint64_t *out)
{
  tt_warm_source *s = NULL;
  tt_err e = tt_warm_open(c, w, &s);
  *out = tt_warm_source_hash(s);
  tt_warm_close(&s);
  return e;
}

static int same_layers(const tt_model *a, const tt_model *b)
{
  int same = a->inputs == b->inputs && a->targets == b->targets && a->layers == b->layers &&
             a->params == b->params && a->output == b->output && a->levels == b->levels &&
             tt_front_equal(&a->front, &b->front);
  for (int l = 0; same && l < a->layers; l++)
    same = a->layer[l].in == b->layer[l].in && a->layer[l].out == b->layer[l].out &&
           a->layer[l].norm == b->layer[l].norm;
  return same;
}

/* Weights apply to normalized values: columns must be normalized in the same way. */
static tt_err check_normalize(const tt_warm_source *s, const char *what, const char *name,
                              int8_t was, int8_t now)
{
  if (was == now) return TT_OK;
  return TT_FAIL(DATA,
                 "%s: %s '%s' is normalized by %s in the earlier run, by %s in this job "
                 "(data.normalize); use campaign.warm_start: none",
                 s->directory, what, name, tt_choice_normalize[was], tt_choice_normalize[now]);
}

/* Compare ensemble e of cohort c with ensemble `was` of trained ensemble m, of the same name. */
static tt_err check_compatible(const tt_warm_source *s, const tt_cohort *c, const tt_ensemble *e,
                               const tt_dataset *d, const tt_trained_ensemble *m,
                               const tt_ensemble *was)
{
  const tt_columns *target = &d->target;
  char now[TT_MODEL_WIDTHS_TEXT], then[TT_MODEL_WIDTHS_TEXT];
  if (!same_layers(&c->model, &m->model))
    return TT_FAIL(
        DATA,
        "%s: ensemble %s has network %s (%s, %" PRId64 " parameters) in the earlier run, "
        "%s (%s, %" PRId64 " parameters) in this job: the weights do not fit; use "
        "campaign.warm_start: none",
        s->directory, e->name, tt_model_widths(&m->model, then), tt_choice_output[m->model.output],
        m->model.params, tt_model_widths(&c->model, now), tt_choice_output[c->model.output],
        c->model.params);
  for (int64_t j = 0; j < e->targets; j++) {
    const char *is = target->name[e->column[j]], *old = m->target.name[was->column[j]];
    if (strcmp(is, old) != 0)
      return TT_FAIL(DATA,
                     "%s: ensemble %s predicts target %s in the earlier run, %s in this job; use "
                     "campaign.warm_start: none",
                     s->directory, e->name, old, is);
    TT_TRY(check_normalize(s, "target", is, m->scaler.y_normalize[was->column[j]],
                           d->scaler.y_normalize[e->column[j]]));
  }
  if (!tt_net_inputs_are_same(&m->scaler.net, &d->scaler.net))
    return TT_FAIL(DATA,
                   "%s: the inputs have other levels or indicators of missing values than in the "
                   "earlier run; use campaign.warm_start: none",
                   s->directory);
  for (int64_t i = 0; i < d->scaler.inputs; i++)
    TT_TRY(check_normalize(s, "input", d->input.name[i], m->scaler.x_normalize[i],
                           d->scaler.x_normalize[i]));
  return TT_OK;
}

/* Row of member `index` of an ensemble in a part of the model, which has them in ascending order;
 * -1: it has no such member. */
static int64_t find_row(const tt_trained_ensemble *m, const tt_ensemble *was, int32_t index)
{
  const int32_t *first = m->index + was->first;
  const int32_t *place = bsearch(&index, first, (size_t)was->members, sizeof index, tt_compare_i32);
  return place ? place - m->index : -1;
}

static int has_diverged(const tt_warm_source *s, int64_t part, int64_t row)
{
  return s->part.at[part].status[row] == TT_STATUS_diverged ||
         (s->final && s->final[part].status[row] == TT_STATUS_diverged);
}

/* Find the members of ensemble e of cohort k among those of `was`, in part q. */
static tt_err match_members(tt_warm_source *s, const tt_job *job, int64_t k, const tt_ensemble *e,
                            int64_t q, const tt_ensemble *was)
{
  const tt_cohort *c = job->cohorts.at[k];
  int compatible = 0;
  for (int64_t m = e->first; m < e->first + e->members; m++) {
    int64_t row = find_row(&s->part.at[q], was, c->member[m].index);
    if (row < 0) continue;
    if (!compatible) TT_TRY(check_compatible(s, c, e, job->data, &s->part.at[q], was));
    compatible = 1;
    s->from[k][m] = (tt_source_row){q, has_diverged(s, q, row) ? -1 : row};
  }
  return TT_OK;
}

static tt_err match_ensemble(tt_warm_source *s, const tt_job *job, int64_t k, const tt_ensemble *e)
{
  for (int64_t q = 0; q < s->part.count; q++)
    for (int64_t i = 0; i < s->part.at[q].ensembles; i++) {
      const tt_ensemble *was = &s->part.at[q].ensemble[i];
      if (!strcmp(was->name, e->name)) TT_TRY(match_members(s, job, k, e, q, was));
    }
  return TT_OK;
}

/* Epochs already trained by member m of cohort k. */
static int64_t epochs_done(const tt_warm_source *s, int64_t k, int64_t m)
{
  tt_source_row o = s->from[k][m];
  return s->final && o.row >= 0 ? s->final[o.trained].epoch[o.row] : 0;
}

static tt_err extend_epochs(const tt_warm_source *s, const tt_cohorts *all, int64_t k)
{
  tt_cohort *c = all->at[k];
  int64_t most = c->max_epochs;
  for (int64_t m = 0; m < c->members; m++) {
    int64_t epochs = epochs_done(s, k, m) + c->member[m].hyper.epochs;
    if (epochs > INT32_MAX / 2)
      return TT_FAIL(
          CONFIG, "%" PRId64 " epochs in all rounds are too many; use campaign.warm_start: params",
          epochs);
    c->member[m].hyper.epochs = (int32_t)epochs;
    if (epochs > most) most = epochs;
  }
  c->max_epochs = most;
  return TT_OK;
}

tt_err tt_warm_match_local(tt_warm_source *s, tt_job *job)
{
  if (!s) return TT_OK;
  s->job = &job->cohorts;
  s->cohorts = job->cohorts.count;
  TT_TRY(TT_ALLOC(s->from, s->cohorts));
  for (int64_t k = 0; k < s->cohorts; k++) {
    tt_cohort *c = job->cohorts.at[k];
    TT_TRY(TT_ALLOC(s->from[k], c->members));
    for (int64_t m = 0; m < c->members; m++) s->from[k][m] = (tt_source_row){-1, -1};
    for (int64_t i = 0; i < c->ensembles; i++) TT_TRY(match_ensemble(s, job, k, &c->ensemble[i]));
  }
  for (int64_t k = 0; k < s->cohorts; k++) TT_TRY(extend_epochs(s, s->job, k));
  return TT_OK;
}

static void copy_running(const tt_front *f, const float *old, float *w)
{
  for (int l = 0; l < f->layers; l++) {
    int64_t first = f->layer[l].running, count = tt_front_running(&f->layer[l]);
    if (count) memcpy(w + first, old + first, (size_t)count * sizeof *w);
  }
}

/* shrink * old + perturb * noise, in double and rounded once, so that the result is bit-identical
 * on all hosts. The noise is the initial weights of attempt `round`, for the inputs the member
 * uses. Running values are no weights: they stay. */
static void shrink_and_perturb(const tt_warm_source *s, const tt_cohort *c, const tt_member *m,
                               const float *old, float *w)
{
  tt_cohort noisy = *c;
  noisy.retry_reseed = 1;
  if (s->w.how == TT_WARM_START_shrink_perturb)
    tt_member_init_weights(&noisy, m, (int32_t)s->w.round, w);
  for (int64_t p = 0; p < c->model.params; p++)
    w[p] = s->w.how == TT_WARM_START_params
               ? old[p]
               : (float)(s->w.shrink * (double)old[p] + s->w.perturb * (double)w[p]);
  copy_running(&c->model.front, old, w);
}

static void apply_weights(const tt_warm_source *s, int64_t k, tt_shard *shard)
{
  int64_t params = shard->state->params;
  for (int64_t i = 0; i < shard->slice.count; i++) {
    int64_t m = shard->slice.first + i;
    tt_source_row o = s->from[k][m];
    if (o.row < 0) continue;
    shrink_and_perturb(s, shard->cohort, &shard->cohort->member[m],
                       s->part.at[o.trained].w + o.row * params,
                       TT_FIELD(shard->state, weights) + i * params);
  }
}

/* Copy min(lengths) values of one field of a member: the new history may be longer. */
static void copy_field(const tt_state *src, int64_t i, tt_state *dst, int64_t j, int field)
{
  tt_state_field a = tt_state_get(src, field), b = tt_state_get(dst, field);
  int64_t count = a.length < b.length ? a.length : b.length;
  memcpy((char *)b.data + j * b.length * b.bytes, (const char *)a.data + i * a.length * a.bytes,
         (size_t)(count * a.bytes));
}

void tt_warm_resume_member_local(const tt_state *src, int64_t i, tt_state *dst, int64_t j)
{
  static const int resumed[] = {TT_STATE_FIELD_weights,    TT_STATE_FIELD_slots,
                                TT_STATE_FIELD_step,       TT_STATE_FIELD_epoch,
                                TT_STATE_FIELD_loss_train, TT_STATE_FIELD_loss_validation,
                                TT_STATE_FIELD_average,    TT_STATE_FIELD_averaged,
                                TT_STATE_FIELD_lr_factor,  TT_STATE_FIELD_attempt};
  for (size_t f = 0; f < sizeof resumed / sizeof *resumed; f++)
    copy_field(src, i, dst, j, resumed[f]);
}

static tt_err error_other_run(const tt_warm_source *s)
{
  return TT_FAIL(
      DATA,
      "%s: the checkpoint and model.h5 belong to different runs; use campaign.warm_start: "
      "params",
      s->directory);
}

/* Resume the members of the shard whose source is trained ensemble q; their rows are in `rows`. */
static tt_err resume_members(const tt_warm_source *s, int64_t k, tt_shard *shard, int64_t q,
                             tt_slice rows)
{
  const tt_trained_ensemble *m = &s->part.at[q];
  tt_state *src = NULL;
  int64_t before, members, cohort = cohort_of(s, q, &members, &before);
  const tt_slice which = {before + rows.first, rows.count};
  TT_TRY(tt_ckpt_last_read_local(s->last, cohort, which, &src));
  size_t bytes = (size_t)m->model.params * sizeof *m->w;
  tt_err e = TT_OK;
  if (src->params != shard->state->params || src->slots != shard->state->slots ||
      src->averages != shard->state->averages)
    e = TT_FAIL(DATA,
                "%s: the run has another train.optimizer or train.average than this job; use "
                "campaign.warm_start: params",
                s->directory);
  for (int64_t i = 0; !e && i < shard->slice.count; i++) {
    tt_source_row o = s->from[k][shard->slice.first + i];
    if (o.trained != q || o.row < 0) continue;
    const float *result = tt_state_prediction_weights(src, o.row - rows.first);
    if (memcmp(result, m->w + o.row * m->model.params, bytes) != 0) e = error_other_run(s);
    tt_warm_resume_member_local(src, o.row - rows.first, shard->state, i);
  }
  tt_state_destroy(&src);
  return e;
}

static tt_err apply_states(const tt_warm_source *s, int64_t k, tt_shard *shard)
{
  for (int64_t q = 0; q < s->part.count; q++) {
    int64_t low = INT64_MAX, high = -1;
    for (int64_t i = 0; i < shard->slice.count; i++) {
      tt_source_row o = s->from[k][shard->slice.first + i];
      if (o.trained != q || o.row < 0) continue;
      low = o.row < low ? o.row : low;
      high = o.row > high ? o.row : high;
    }
    if (high >= 0) TT_TRY(resume_members(s, k, shard, q, (tt_slice){low, high - low + 1}));
  }
  return TT_OK;
}

static tt_err apply_all(const tt_warm_source *s, tt_shards *shards)
{
  for (int64_t k = 0; k < shards->count; k++) {
    tt_shard *shard = &shards->at[k];
    if (shard->slice.count == 0) continue;
    TT_TRY(tt_shard_save_local(shard));
    if (s->final)
      TT_TRY(apply_states(s, k, shard));
    else
      apply_weights(s, k, shard);
    TT_TRY(tt_shard_load_local(shard));
  }
  return TT_OK;
}

static void log_warm_start(const tt_warm_source *s, const tt_shards *shards)
{
  int64_t warm = 0, members = 0;
  for (int64_t k = 0; k < shards->count; k++) {
    members += shards->at[k].cohort->members;
    for (int64_t m = 0; m < shards->at[k].cohort->members; m++) warm += s->from[k][m].row >= 0;
  }
  tt_log_root(warm == members ? TT_LOG_DEBUG : TT_LOG_INFO,
              "%" PRId64 " of %" PRId64 " members start with the weights of %s (%s)", warm, members,
              s->directory, tt_choice_warm_start[s->w.how]);
}

tt_err tt_warm_apply(tt_comm *c, const tt_warm_source *s, tt_shards *shards)
{
  if (!s) return TT_OK;
  tt_err e = tt_agree(c, apply_all(s, shards));
  if (!e) log_warm_start(s, shards);
  return e;
}
