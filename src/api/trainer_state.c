/* trainer_state.c — see tutti.h: weights, models and the whole state of a trainer. */
#include "src/api/trainer_batch.h"

#include "core/base/mem.h"
#include "io/model/model_file.h"
#include "src/api/call.h"
#include "src/api/model.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

static tt_slice all_members(const tutti_trainer *t) { return (tt_slice){0, t->cohort->members}; }

/* The state of all members, in t->state. */
static tt_err save_state(tutti_trainer *t)
{
  TT_TRY(tt_trainer_check(t));
  if (!t->state)
    TT_TRY(tt_state_create(all_members(t), tt_cohort_state_shape(t->cohort), &t->state));
  return t->ops->save(t->engine, all_members(t), t->state);
}

/* The state of one member. */
static tt_err save_member(tutti_trainer *t, int64_t member)
{
  TT_TRY(tt_trainer_check(t));
  if (member < 0 || member >= t->cohort->members)
    return TT_FAIL(USAGE, "member %" PRId64 ": there are 0 to %" PRId64, member,
                   t->cohort->members - 1);
  if (!t->state) return save_state(t);
  return t->ops->save(t->engine, (tt_slice){member, 1}, t->state);
}

static tt_err load_member(tutti_trainer *t, int64_t member)
{
  return t->ops->load(t->engine, (tt_slice){member, 1}, t->state);
}

/* weights */

static tt_err get_weights(tutti_trainer *t, int64_t member, float *weights)
{
  TT_TRY(save_member(t, member));
  if (!weights) return TT_FAIL(USAGE, "weights is NULL");
  memcpy(weights, TT_FIELD(t->state, weights) + member * t->state->params,
         (size_t)t->state->params * sizeof *weights);
  return TT_OK;
}

int tutti_trainer_get_weights(tutti_trainer *trainer, int64_t member, float *weights)
{
  tt_call caller;
  tt_call_begin(&caller);
  return tt_call_end(&caller, get_weights(trainer, member, weights));
}

static tt_err set_weights(tutti_trainer *t, int64_t member, const float *weights)
{
  TT_TRY(save_member(t, member));
  if (!weights) return TT_FAIL(USAGE, "weights is NULL");
  for (int64_t p = 0; p < t->state->params; p++)
    if (!isfinite(weights[p]))
      return TT_FAIL(DATA, "weights[%" PRId64 "] is %g: weights are finite", p, (double)weights[p]);
  memcpy(TT_FIELD(t->state, weights) + member * t->state->params, weights,
         (size_t)t->state->params * sizeof *weights);
  return load_member(t, member);
}

int tutti_trainer_set_weights(tutti_trainer *trainer, int64_t member, const float *weights)
{
  tt_call caller;
  tt_call_begin(&caller);
  return tt_call_end(&caller, set_weights(trainer, member, weights));
}

/* A member in its next attempt, as after a retry. */
static tt_err reset(tutti_trainer *t, int64_t member)
{
  tt_state *fresh = NULL;
  TT_TRY(save_member(t, member));
  int32_t attempt = TT_FIELD(t->state, attempt)[member] + 1;
  TT_TRY(tt_state_create((tt_slice){member, 1}, tt_cohort_state_shape(t->cohort), &fresh));
  tt_member_init_weights(t->cohort, &t->cohort->member[member], attempt, TT_FIELD(fresh, weights));
  TT_FIELD(fresh, attempt)[0] = attempt;
  tt_err e = t->ops->load(t->engine, (tt_slice){member, 1}, fresh);
  tt_state_destroy(&fresh);
  return e;
}

int tutti_trainer_reset(tutti_trainer *trainer, int64_t member)
{
  tt_call caller;
  tt_call_begin(&caller);
  return tt_call_end(&caller, reset(trainer, member));
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
  return TT_OK;
}

int tutti_trainer_set_learning_rate(tutti_trainer *trainer, int64_t member, double rate)
{
  tt_call caller;
  tt_call_begin(&caller);
  return tt_call_end(&caller, set_learning_rate(trainer, member, rate));
}

/* models */

/* A trained ensemble of each ensemble of the cohort, from t->state; with weights. */
static tt_err make_part(const tutti_trainer *t, const tt_cohort_part *part,
                        tt_trained_ensemble **out)
{
  const tt_state *s = t->state;
  TT_TRY(tt_trained_ensemble_from_parts(1, part, t->data, out));
  TT_TRY(TT_ALLOC_VALUES((*out)->w, part->members.count * s->params));
  for (int64_t i = 0; i < part->members.count; i++) {
    int64_t m = part->members.first + i;
    (*out)->status[i] = TT_FIELD(s, status)[m];
    (*out)->weight[i] = (*out)->status[i] == TT_STATUS_diverged ? 0.0 : 1.0;
    memcpy((*out)->w + i * s->params, tt_state_prediction_weights(s, m),
           (size_t)s->params * sizeof(float));
  }
  return TT_OK;
}

static tt_err make_ensembles(tutti_trainer *t, tt_trained_ensembles *out)
{
  int64_t parts = 0;
  tt_cohort_part *part = NULL;
  TT_TRY(save_state(t));
  TT_TRY(tt_cohorts_parts(&t->cohorts, &parts, &part));
  tt_err e = tt_trained_ensembles_create(parts, out);
  for (int64_t i = 0; !e && i < parts; i++) e = make_part(t, &part[i], &out->at[i]);
  tt_free(part);
  if (e) tt_trained_ensembles_destroy(out);
  return e;
}

static tt_err make_model(tutti_trainer *t, tutti_model **out)
{
  tt_trained_ensembles all = {0};
  if (!out) return TT_FAIL(USAGE, "out is NULL: there is no place for the model");
  *out = NULL;
  TT_TRY(make_ensembles(t, &all));
  return tt_model_create(&all, out);
}

int tutti_trainer_model(tutti_trainer *trainer, tutti_model **out)
{
  tt_call caller;
  tt_call_begin(&caller);
  return tt_call_end(&caller, make_model(trainer, out));
}

typedef struct saving {
  const tutti_trainer *t;
  const char *file;
  const tt_trained_ensembles *all;
} saving;

static tt_err write_file(void *argument)
{
  const saving *s = argument;
  tt_comm *alone = NULL;
  tt_model_shard *shard = NULL;
  tt_engine_info info;
  TT_TRY(s->t->ops->info(s->t->engine, &info));
  tt_provenance provenance = {.title = s->t->cfg->top_title,
                              .resolved = s->t->resolved,
                              .device = info.device,
                              .arithmetic = info.arithmetic,
                              .seed = (uint64_t)s->t->cfg->run_seed,
                              .ranks = 1,
                              .threads = s->t->use.threads};
  TT_TRY(tt_comm_alone_local(&alone));
  tt_err e = TT_ALLOC(shard, s->all->count);
  for (int64_t i = 0; !e && i < s->all->count; i++)
    shard[i] = (tt_model_shard){{0, s->all->at[i]->members}, s->all->at[i]->w};
  if (!e) e = tt_model_write(alone, s->file, s->all, shard, &provenance);
  tt_free(shard);
  tt_comm_end(&alone);
  return e;
}

static tt_err save(tutti_trainer *t, const char *file)
{
  tt_trained_ensembles all = {0};
  if (!file) return TT_FAIL(USAGE, "file is NULL");
  TT_TRY(make_ensembles(t, &all));
  saving s = {t, file, &all};
  tt_err e = tt_call_hdf5(write_file, &s);
  tt_trained_ensembles_destroy(&all);
  return e;
}

int tutti_trainer_save(tutti_trainer *trainer, const char *file)
{
  tt_call caller;
  tt_call_begin(&caller);
  return tt_call_end(&caller, save(trainer, file));
}

/* The whole state as bytes: a header, the learning rates, and the fields of tt_state. */

typedef struct state_header {
  char name[8];      /* "tutti T1" */
  uint64_t options;  /* tt_config_result_hash, and the sizes of the state */
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
  return XXH3_64bits_withSeed(sizes, sizeof sizes, tt_config_result_hash(t->cfg));
}

/* Copy the learning rates and the fields between the trainer and bytes; t->state is there. */
static void copy_contents(tutti_trainer *t, char *bytes, int take)
{
  for (int64_t m = 0; m < t->cohort->members; m++, bytes += sizeof(float)) {
    float *rate = &t->cohort->member[m].hyper.learning_rate;
    memcpy(take ? (void *)rate : (void *)bytes, take ? (void *)bytes : (void *)rate, sizeof *rate);
  }
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    const tt_state_field field = tt_state_get(t->state, f);
    size_t size = (size_t)(field.bytes * field.length * t->cohort->members);
    if (size) memcpy(take ? field.data : bytes, take ? bytes : field.data, size);
    bytes += size;
  }
}

int64_t tutti_trainer_state_bytes(const tutti_trainer *t)
{
  return t ? (int64_t)sizeof(state_header) + contents_bytes(t) : 0;
}

/* A gradient is no part of the state. */
static tt_err save_whole_state(tutti_trainer *t, const void *state)
{
  TT_TRY(save_state(t));
  if (!state) return TT_FAIL(USAGE, "state is NULL");
  return t->has_gradient ? TT_FAIL(USAGE, "there is a gradient of tutti_trainer_backward: call "
                                          "tutti_trainer_update first")
                         : TT_OK;
}

static tt_err get_state(tutti_trainer *t, void *state)
{
  TT_TRY(save_whole_state(t, state));
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
  tt_call caller;
  tt_call_begin(&caller);
  return tt_call_end(&caller, get_state(trainer, state));
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
    return TT_FAIL(DATA, "the state is one of a trainer with other options, columns or rows of an "
                         "epoch");
  if (bytes != tutti_trainer_state_bytes(t) ||
      header.contents != XXH3_64bits(contents, (size_t)contents_bytes(t)))
    return TT_FAIL(DATA, "the state is damaged: bytes are missing or have changed");
  return TT_OK;
}

static tt_err set_state(tutti_trainer *t, const void *state, int64_t bytes)
{
  TT_TRY(save_whole_state(t, state));
  TT_TRY(check_state(t, state, bytes));
  copy_contents(t, (char *)(uintptr_t)state + sizeof(state_header), 1);
  t->may_go_back = 0;
  return t->ops->load(t->engine, all_members(t), t->state);
}

int tutti_trainer_set_state(tutti_trainer *trainer, const void *state, int64_t bytes)
{
  tt_call caller;
  tt_call_begin(&caller);
  return tt_call_end(&caller, set_state(trainer, state, bytes));
}
