/* trainer_state.c — see tutti.h: weights, models and the whole state of a trainer. */
#include "src/api/trainer_ranks.h"

#include "core/base/mem.h"
#include "io/model/model_file.h"
#include "src/api/call.h"
#include "src/api/model.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

/* The state of the members of this rank, in t->state. Local. */
static tt_err save_state_local(tutti_trainer *t)
{
  if (!t->state) TT_TRY(tt_state_create(t->slice, tt_cohort_state_shape(t->cohort), &t->state));
  return t->engine ? t->ops->save(t->engine, t->slice, t->state) : TT_OK;
}

/* The state of a member, or of all (-1), where they are.
 *   mine  those of them on this rank */
static tt_err save_members(tutti_trainer *t, int64_t member, tt_slice *mine)
{
  int64_t members = t->cohort->members;
  if (member < -1 || member >= members)
    return TT_FAIL(USAGE, "member %" PRId64 ": -1 for all, or 0 to %" PRId64, member, members - 1);
  int64_t first = member < 0 ? 0 : member;
  *mine = tt_slice_intersect(t->slice, first, member < 0 ? members : 1);
  mine->first += first;
  if (!mine->count || !t->state) return save_state_local(t);
  return t->ops->save(t->engine, *mine, t->state);
}

/* weights */

static float *weights_of(const tutti_trainer *t, tt_slice mine)
{
  return TT_FIELD(t->state, weights) + (mine.first - t->slice.first) * t->state->params;
}

static size_t bytes_of(const tutti_trainer *t, tt_slice mine)
{
  return (size_t)(mine.count * t->state->params) * sizeof(float);
}

static tt_err get_weights(tutti_trainer *t, int64_t member, float *weights)
{
  tt_slice mine;
  TT_TRY(tt_trainer_check(t));
  tt_err e = save_members(t, member, &mine);
  if (!e && !weights) e = TT_FAIL(USAGE, "weights is NULL");
  e = tt_agree(t->comm, e);
  if (e) return e;
  const float *own = mine.count ? weights_of(t, mine) : NULL;
  tt_allgatherv(t->comm, own, (int64_t)bytes_of(t, mine), weights, NULL);
  return TT_OK;
}

int tutti_trainer_get_weights(tutti_trainer *trainer, int64_t member, float *weights)
{
  tt_call caller = tt_call_begin();
  return tt_call_end(caller, get_weights(trainer, member, weights));
}

static tt_err set_weights_local(tutti_trainer *t, int64_t member, const float *weights)
{
  tt_slice mine;
  TT_TRY(save_members(t, member, &mine));
  int64_t params = t->state->params, all = member < 0 ? t->cohort->members : 1;
  if (!weights) return TT_FAIL(USAGE, "weights is NULL");
  for (int64_t p = 0; p < all * params; p++)
    if (!isfinite(weights[p]))
      return TT_FAIL(DATA, "weights[%" PRId64 "] is %g: weights are finite", p, (double)weights[p]);
  if (!mine.count) return TT_OK;
  memcpy(weights_of(t, mine), weights + (member < 0 ? mine.first * params : 0), bytes_of(t, mine));
  return t->ops->load(t->engine, mine, t->state);
}

int tutti_trainer_set_weights(tutti_trainer *trainer, int64_t member, const float *weights)
{
  tt_call caller = tt_call_begin();
  tt_err e = tt_trainer_check(trainer);
  if (!e) e = tt_agree(trainer->comm, set_weights_local(trainer, member, weights));
  return tt_call_end(caller, e);
}

/* A member in its next attempt, as after a retry. */
static tt_err reset_local(tutti_trainer *t, int64_t member)
{
  tt_slice mine;
  tt_state *fresh = NULL;
  if (member < 0) return TT_FAIL(USAGE, "member %" PRId64 ": name one to begin again", member);
  TT_TRY(save_members(t, member, &mine));
  if (!mine.count) return TT_OK;
  int32_t attempt = TT_FIELD(t->state, attempt)[member - t->slice.first] + 1;
  TT_TRY(tt_state_create(mine, tt_cohort_state_shape(t->cohort), &fresh));
  tt_member_init_weights(t->cohort, &t->cohort->member[member], attempt, TT_FIELD(fresh, weights));
  TT_FIELD(fresh, attempt)[0] = attempt;
  tt_err e = t->ops->load(t->engine, mine, fresh);
  tt_state_destroy(&fresh);
  return e;
}

int tutti_trainer_reset(tutti_trainer *trainer, int64_t member)
{
  tt_call caller = tt_call_begin();
  tt_err e = tt_trainer_check(trainer);
  if (!e) e = tt_agree(trainer->comm, reset_local(trainer, member));
  return tt_call_end(caller, e);
}

/* learning rates */

double tutti_trainer_learning_rate(const tutti_trainer *t, int64_t member)
{
  if (!t || member < 0 || member >= t->cohort->members) return NAN;
  return (double)t->cohort->member[member].hyper.learning_rate;
}

static tt_err set_learning_rate(tutti_trainer *t, int64_t member, double rate)
{
  TT_TRY(tt_trainer_check(t));
  if (member < -1 || member >= t->cohort->members)
    return TT_FAIL(USAGE, "member %" PRId64 ": -1 for all, or 0 to %" PRId64, member,
                   t->cohort->members - 1);
  if (!(rate >= 0.0) || !isfinite(rate))
    return TT_FAIL(USAGE, "learning rate %g: it is finite and not negative", rate);
  int64_t first = member < 0 ? 0 : member, end = member < 0 ? t->cohort->members : member + 1;
  for (int64_t m = first; m < end; m++) t->cohort->member[m].hyper.learning_rate = (float)rate;
  if (t->engine && t->ops->set_hyper) t->ops->set_hyper(t->engine);
  return TT_OK;
}

int tutti_trainer_set_learning_rate(tutti_trainer *trainer, int64_t member, double rate)
{
  tt_call caller = tt_call_begin();
  return tt_call_end(caller, set_learning_rate(trainer, member, rate));
}

/* models */

/* All members: weights for predictions [M][P], status. */
typedef struct all_members {
  float *w;
  int8_t *status;
} all_members;

static tt_err gather_members(tutti_trainer *t, all_members *all)
{
  int64_t params = t->cohort->model.params, members = t->cohort->members;
  tt_err e = save_state_local(t);
  float *mine = NULL;
  if (!e) e = TT_ALLOC_VALUES(all->w, members * params);
  if (!e) e = TT_ALLOC(all->status, members);
  if (!e) e = TT_ALLOC_VALUES(mine, t->slice.count * params);
  e = tt_agree(t->comm, e);
  for (int64_t i = 0; !e && i < t->slice.count; i++)
    memcpy(mine + i * params, tt_state_prediction_weights(t->state, i),
           (size_t)params * sizeof *mine);
  if (!e) tt_trainer_gather_members(t, mine, params * (int64_t)sizeof *mine, all->w);
  if (!e) tt_trainer_gather_members(t, TT_FIELD(t->state, status), 1, all->status);
  tt_free(mine);
  return e;
}

/* The trained ensemble of an ensemble of the cohort. */
static tt_err make_part(const tutti_trainer *t, const all_members *all, const tt_cohort_part *part,
                        tt_trained_ensemble **out)
{
  int64_t params = t->cohort->model.params, first = part->members.first;
  TT_TRY(tt_trained_ensemble_from_parts(1, part, t->data, out));
  TT_TRY(TT_ALLOC_VALUES((*out)->w, part->members.count * params));
  memcpy((*out)->w, all->w + first * params,
         (size_t)(part->members.count * params) * sizeof *all->w);
  for (int64_t i = 0; i < part->members.count; i++) {
    (*out)->status[i] = all->status[first + i];
    (*out)->weight[i] = (*out)->status[i] == TT_STATUS_diverged ? 0.0 : 1.0;
  }
  return TT_OK;
}

/*   part  [out->count] owned by the caller */
static tt_err make_ensembles(tutti_trainer *t, tt_trained_ensembles *out, tt_cohort_part **part)
{
  int64_t parts = 0;
  all_members all = {0};
  TT_TRY(tt_trainer_check(t));
  tt_err e = gather_members(t, &all);
  if (!e) e = tt_cohorts_parts(&t->cohorts, &parts, part);
  if (!e) e = tt_trained_ensembles_create(parts, out);
  for (int64_t i = 0; !e && i < parts; i++) e = make_part(t, &all, &(*part)[i], &out->at[i]);
  tt_free_all(&all.w, &all.status);
  if (e) tt_trained_ensembles_destroy(out);
  return tt_agree(t->comm, e);
}

static tt_err make_model(tutti_trainer *t, tutti_model **out)
{
  tt_trained_ensembles all = {0};
  if (!out) return TT_FAIL(USAGE, "out is NULL: there is no place for the model");
  *out = NULL;
  tt_cohort_part *part = NULL;
  tt_err e = make_ensembles(t, &all, &part);
  tt_free(part);
  return e ? e : tt_model_create(&all, out);
}

int tutti_trainer_model(tutti_trainer *trainer, tutti_model **out)
{
  tt_call caller = tt_call_begin();
  return tt_call_end(caller, make_model(trainer, out));
}

typedef struct saving {
  const tutti_trainer *t;
  const char *file;
  const tt_trained_ensembles *all;
  const tt_model_shard *shard; /* [all->count] members of this rank */
} saving;

static tt_err write_file(void *argument)
{
  const saving *s = argument;
  tt_engine_info info = {.device_bytes = 0};
  if (s->t->engine) TT_TRY(s->t->ops->info(s->t->engine, &info));
  const tt_provenance provenance = {.title = s->t->cfg->top_title,
                                    .resolved = s->t->resolved,
                                    .device = info.device,
                                    .arithmetic = info.arithmetic,
                                    .seed = (uint64_t)s->t->cfg->run_seed,
                                    .ranks = tt_comm_ranks(s->t->comm),
                                    .threads = s->t->use.threads};
  return tt_model_write(s->t->comm, s->file, s->all, s->shard, &provenance);
}

static tt_err write_ensembles(tutti_trainer *t, const char *file, const tt_trained_ensembles *all,
                              const tt_cohort_part *part)
{
  tt_model_shard *shard = NULL;
  tt_err e = tt_agree(t->comm, TT_ALLOC(shard, all->count));
  for (int64_t i = 0; !e && i < all->count; i++) {
    tt_slice own = tt_slice_intersect(t->slice, part[i].members.first, part[i].members.count);
    shard[i] = (tt_model_shard){own, all->at[i]->w + own.first * t->cohort->model.params};
  }
  saving s = {t, file, all, shard};
  if (!e) e = tt_call_hdf5(write_file, &s);
  tt_free(shard);
  return e;
}

static tt_err save(tutti_trainer *t, const char *file)
{
  tt_trained_ensembles all = {0};
  tt_cohort_part *part = NULL;
  if (!file) return TT_FAIL(USAGE, "file is NULL");
  tt_err e = make_ensembles(t, &all, &part);
  if (!e) e = write_ensembles(t, file, &all, part);
  tt_free(part);
  tt_trained_ensembles_destroy(&all);
  return e;
}

int tutti_trainer_save(tutti_trainer *trainer, const char *file)
{
  tt_call caller = tt_call_begin();
  return tt_call_end(caller, save(trainer, file));
}

/* The whole state as bytes: a header, the learning rates, and the fields of tt_state. */

typedef struct state_header {
  char name[8];      /* "tutti T1" */
  uint64_t options;  /* tt_config_result_hash, sizes and scales */
  uint64_t contents; /* XXH3 of everything behind the header */
} state_header;
static const char state_name[8] = {'t', 'u', 't', 't', 'i', ' ', 'T', '1'};

static int64_t contents_bytes(const tutti_trainer *t)
{
  int64_t each = tt_state_member_bytes(tt_cohort_state_shape(t->cohort)) + (int64_t)sizeof(float);
  return t->cohort->members * each;
}

static uint64_t options_hash(const tutti_trainer *t)
{
  const int64_t sizes[] = {t->data->inputs, t->data->targets, t->cohort->members,
                           t->cohort->model.params, t->epoch_rows};
  const tt_scaler *s = &t->data->scaler;
  const struct {
    const double *value;
    int64_t count;
  } scale[] = {{s->x_mean, s->inputs},
               {s->x_scale, s->inputs},
               {s->y_mean, s->targets},
               {s->y_scale, s->targets}};
  uint64_t hash = XXH3_64bits_withSeed(sizes, sizeof sizes, tt_config_result_hash(t->cfg));
  for (size_t i = 0; i < sizeof scale / sizeof *scale; i++)
    hash = XXH3_64bits_withSeed(scale[i].value, (size_t)scale[i].count * sizeof(double), hash);
  return hash;
}

/* The learning rates of all members. Returns the bytes behind them. */
static char *copy_rates(tutti_trainer *t, char *bytes, int take)
{
  for (int64_t m = 0; m < t->cohort->members; m++, bytes += sizeof(float)) {
    float *rate = &t->cohort->member[m].hyper.learning_rate;
    memcpy(take ? (void *)rate : (void *)bytes, take ? (void *)bytes : (void *)rate, sizeof *rate);
  }
  return bytes;
}

/* Copy the fields of all members between the states of the ranks and bytes. Collective. */
static void copy_contents(tutti_trainer *t, char *bytes, int take)
{
  bytes = copy_rates(t, bytes, take);
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    const tt_state_field field = tt_state_get(t->state, f);
    int64_t each = field.bytes * field.length;
    size_t mine = (size_t)(each * t->slice.count);
    if (each && !take) tt_trainer_gather_members(t, field.data, each, bytes);
    if (mine && take) memcpy(field.data, bytes + each * t->slice.first, mine);
    bytes += each * t->cohort->members;
  }
}

int64_t tutti_trainer_state_bytes(const tutti_trainer *t)
{
  return t ? (int64_t)sizeof(state_header) + contents_bytes(t) : 0;
}

/* A gradient is no part of the state. */
static tt_err save_whole_state_local(tutti_trainer *t, const void *state)
{
  TT_TRY(save_state_local(t));
  if (!state) return TT_FAIL(USAGE, "state is NULL");
  return t->has_gradient ? TT_FAIL(USAGE, "there is a gradient of tutti_trainer_backward: call "
                                          "tutti_trainer_update first")
                         : TT_OK;
}

static tt_err get_state(tutti_trainer *t, void *state)
{
  TT_TRY(tt_trainer_check(t));
  tt_err e = tt_agree(t->comm, save_whole_state_local(t, state));
  if (e) return e;
  state_header header = {.options = options_hash(t)};
  char *contents = (char *)state + sizeof header;
  memcpy(header.name, state_name, sizeof header.name);
  copy_contents(t, contents, 0);
  header.contents = XXH3_64bits(contents, (size_t)contents_bytes(t));
  memcpy(state, &header, sizeof header);
  return TT_OK;
}

int tutti_trainer_get_state(tutti_trainer *trainer, void *state)
{
  tt_call caller = tt_call_begin();
  return tt_call_end(caller, get_state(trainer, state));
}

static tt_err check_state(const tutti_trainer *t, const void *state, int64_t bytes)
{
  state_header header;
  const char *contents = (const char *)state + sizeof header;
  if (bytes < (int64_t)sizeof header)
    return TT_FAIL(DATA, "%" PRId64 " bytes are no state of a trainer", bytes);
  memcpy(&header, state, sizeof header);
  if (memcmp(header.name, state_name, sizeof header.name) != 0)
    return TT_FAIL(DATA, "these bytes are no state of a trainer of libtutti " TUTTI_VERSION);
  if (header.options != options_hash(t))
    return TT_FAIL(DATA, "the state is one of a trainer with other options, columns, scales or "
                         "rows of an epoch");
  if (bytes != tutti_trainer_state_bytes(t) ||
      header.contents != XXH3_64bits(contents, (size_t)contents_bytes(t)))
    return TT_FAIL(DATA, "the state is damaged: bytes are missing or have changed");
  return TT_OK;
}

static tt_err set_state(tutti_trainer *t, const void *state, int64_t bytes)
{
  TT_TRY(tt_trainer_check(t));
  tt_err e = save_whole_state_local(t, state);
  if (!e) e = check_state(t, state, bytes);
  e = tt_agree(t->comm, e);
  if (e) return e;
  copy_contents(t, (char *)(uintptr_t)state + sizeof(state_header), 1);
  t->may_go_back = 0;
  return tt_agree(t->comm, t->engine ? t->ops->load(t->engine, t->slice, t->state) : TT_OK);
}

int tutti_trainer_set_state(tutti_trainer *trainer, const void *state, int64_t bytes)
{
  tt_call caller = tt_call_begin();
  return tt_call_end(caller, set_state(trainer, state, bytes));
}
