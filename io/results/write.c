/* write.c — tt_results_write of results.h; the layout is in docs/files.md. */
#include "core/base/mem.h"
#include "io/results/results.h"
#include "io/results/scores_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MEMBER_COORDINATES TT_MEMBER_COORDINATES " learning_rate"

enum { OF_TRAIN, OF_VALIDATION, HISTORIES };

/* Arrays of the file that must be assembled from the arguments before the write. */
typedef struct file_arrays {
  tt_axis_labels labels;
  int64_t shards, longest; /* E, the longest history */
  int64_t *first;          /* [shards] index of the first member of each */
  float **history; /* [HISTORIES][shards] losses of this rank's members, each [members][E] */
  int32_t *epoch;  /* [E] 0, 1, 2, ... */
#define X(field, type, ...) type *field; /* [G] */
  TT_HYPERS(X)
#undef X
} file_arrays;

static void free_file_arrays(file_arrays *t)
{
  tt_axis_labels_free(&t->labels);
  for (int64_t i = 0; t->history && i < HISTORIES * t->shards; i++) tt_free(t->history[i]);
  tt_free_all(&t->history, &t->first, &t->epoch);
#define X(field, ...) tt_free(t->field);
  TT_HYPERS(X)
#undef X
}

/* Copy loss [members of this rank][epochs of their cohort] to [own][epochs], padded with
 * NaN. */
static tt_err pad_history(const tt_result_shard *s, const float *loss, int64_t epochs, float **out)
{
  int64_t own = s->mine->epochs;
  TT_TRY(TT_ALLOC(*out, s->own.count * epochs));
  for (int64_t i = 0; i < s->own.count * epochs; i++) (*out)[i] = NAN;
  for (int64_t i = 0; i < s->own.count; i++)
    memcpy(*out + i * epochs, loss + (tt_result_shard_first(s) + i) * own,
           (size_t)own * sizeof *loss);
  return TT_OK;
}

static tt_err make_histories(const tt_result_shard *shard, file_arrays *t)
{
  TT_TRY(TT_ALLOC(t->history, HISTORIES * t->shards));
  for (int64_t i = 0; i < t->shards; i++) {
    const tt_state *m = shard[i].mine;
    const float *loss[HISTORIES] = {TT_FIELD(m, loss_train), TT_FIELD(m, loss_validation)};
    for (int k = 0; k < HISTORIES; k++)
      TT_TRY(pad_history(&shard[i], loss[k], t->longest, &t->history[k * t->shards + i]));
  }
  return TT_OK;
}

static tt_err make_hypers(const tt_result_shard *shard, file_arrays *t)
{
#define X(field, ...)                                                                              \
  TT_TRY(TT_ALLOC(t->field, t->labels.members));                                                   \
  for (int64_t p = 0; p < t->shards; p++)                                                          \
    for (int64_t i = 0; i < shard[p].members.count; i++)                                           \
      t->field[t->first[p] + i] = shard[p].cohort->member[shard[p].members.first + i].hyper.field;
  TT_HYPERS(X)
#undef X
  return TT_OK;
}

/* learning_rate of a member that restarted: the one of its last attempt (train.on_diverged).
 *   attempt  [G] */
static void apply_retries(tt_comm *c, const tt_result_shard *shard, file_arrays *t,
                          int32_t *attempt)
{
  for (int64_t p = 0; p < t->shards; p++) {
    const tt_result_shard *s = &shard[p];
    tt_allgatherv(c, TT_FIELD(s->mine, attempt) + tt_result_shard_first(s),
                  s->own.count * (int64_t)sizeof *attempt, attempt, NULL);
    for (int64_t i = 0; i < s->members.count; i++)
      t->learning_rate[t->first[p] + i] *= tt_cohort_lr_factor(s->cohort, attempt[i]);
  }
}

static tt_err check_shards(const tt_result_shard *shard, const tt_trained_ensembles *all,
                           file_arrays *t)
{
  int64_t first = 0;
  t->shards = tt_trained_ensembles_networks(all);
  TT_TRY(TT_ALLOC(t->first, t->shards));
  for (int64_t i = 0; i < t->shards; i++) {
    const tt_cohort *c = shard[i].cohort;
    if (shard[i].mine->epochs != c->max_epochs)
      return TT_FAIL(INTERNAL, "%" PRId64 " epochs of %" PRId64, shard[i].mine->epochs,
                     c->max_epochs);
    t->first[i] = first;
    first += shard[i].members.count;
    if (c->max_epochs > t->longest) t->longest = c->max_epochs;
  }
  if (first != tt_trained_ensembles_members(all))
    return TT_FAIL(INTERNAL, "%" PRId64 " members of %" PRId64, first,
                   tt_trained_ensembles_members(all));
  return TT_OK;
}

static tt_err make_file_arrays_local(const tt_result_shard *shard, const tt_trained_ensembles *all,
                                     file_arrays *t)
{
  TT_TRY(check_shards(shard, all, t));
  TT_TRY(tt_axis_labels_create(all, &t->labels));
  TT_TRY(tt_axis_labels_reserve(&t->labels));
  TT_TRY(make_histories(shard, t));
  TT_TRY(make_hypers(shard, t));
  TT_TRY(TT_ALLOC(t->epoch, t->longest));
  for (int64_t i = 0; i < t->longest; i++) t->epoch[i] = (int32_t)i;
  return TT_OK;
}

static void write_hypers(tt_schema *s, const file_arrays *t)
{
#define X(field, ctype, h5, units, meaning)                                                        \
  TT_SCHEMA_WRITE(s, t->field, #field, h5, units, meaning, "ensemble", "member");
  TT_HYPERS(X)
#undef X
}

/* A variable of members: every rank writes its own members of each shard; data [shards]. */
static void write_member_variable(tt_schema *s, const file_arrays *t, const tt_result_shard *shard,
                                  const tt_variable *v, const void *const *data)
{
  tt_schema_create_variable(s, v);
  for (int64_t i = 0; i < t->shards; i++) {
    const tt_result_shard *own = &shard[i];
    const int64_t first[] = {t->first[i] + own->own.first, 0};
    const int64_t count[] = {own->own.count, t->longest};
    tt_h5_write_block(s->file, v->name, first, count, data[i]);
  }
}

/* Final state of each member: the fields with one value per member. */
static void write_final_state(tt_schema *s, const file_arrays *t, const tt_result_shard *shard,
                              const void **data)
{
#define FIELD(field_, name_, type_, units_, meaning_)                                              \
  for (int64_t i = 0; i < t->shards; i++)                                                          \
    data[i] = TT_FIELD(shard[i].mine, field_) + tt_result_shard_first(&shard[i]);                  \
  write_member_variable(                                                                           \
      s, t, shard,                                                                                 \
      &(tt_variable)TT_VARIABLE(name_, type_, units_, meaning_, MEMBER_COORDINATES, "member"),     \
      data)
  FIELD(status, "status", I8, NULL, "how training ended");
  FIELD(best_loss, "best_loss", F64, "1", "lowest validation loss");
  FIELD(best_epoch, "best_epoch", I32, NULL, "epoch of best_loss, from 0; -1 = none");
  FIELD(epoch, "epochs_done", I32, "1", "whole epochs trained");
  FIELD(step, "steps_done", I64, "1", "optimizer steps taken");
  FIELD(attempt, "attempts", I32, NULL, "restarts after divergence");
#undef FIELD
  tt_schema_write_flags(s, "status", TT_STATUS_diverged + 1, tt_schema_status_meanings);
}

/* The weights of `combine`; nothing if all members that did not diverge have weight 1. */
static void write_weights(tt_schema *s, const tt_trained_ensembles *all, double *weight)
{
  int64_t n = 0;
  int some = 0;
  for (int64_t i = 0; i < all->count; i++)
    for (int64_t m = 0; m < all->at[i]->members; m++) {
      weight[n++] = all->at[i]->weight[m];
      some |= all->at[i]->status[m] != TT_STATUS_diverged && all->at[i]->weight[m] != 1.0;
    }
  if (some)
    TT_SCHEMA_WRITE(s, weight, "member_weight", F64, "1",
                    "weight of the member in the prediction (combine); only ratios matter",
                    MEMBER_COORDINATES, "member");
}

/* data  [shards] buffer */
static void write_members(tt_schema *s, const file_arrays *t, const tt_result_shard *shard,
                          const void **data)
{
#define LOSS(name_, meaning_)                                                                      \
  TT_VARIABLE(name_, F32, "1", meaning_, MEMBER_COORDINATES, "member", "epoch")
  const tt_variable loss[HISTORIES] = {LOSS("loss_train", "mean training loss of an epoch"),
                                       LOSS("loss_validation", "validation loss")};
#undef LOSS
  for (int k = 0; k < HISTORIES; k++) {
    for (int64_t i = 0; i < t->shards; i++) data[i] = t->history[k * t->shards + i];
    write_member_variable(s, t, shard, &loss[k], data);
  }
  write_final_state(s, t, shard, data);
}

/* pit and z only if an output of the job has a predicted distribution. */
static tt_err write_test(tt_schema *s, tt_comm *c, const tt_test_predictions *t, unsigned forecasts,
                         const tt_axis_labels *labels)
{
  const char *units = labels->common_units;
  int density = (forecasts & TT_DENSITY_FORECASTS) != 0;
  TT_SCHEMA_COORDINATE(s, t->rows, t->row, "sample", I64, NULL, "row of the data file, from 0");
#define X(field, name, units_, meaning)                                                            \
  if (density || TT_TEST_##field < TT_TEST_pit)                                                    \
    TT_SCHEMA_WRITE(s, t->field, name, F64, tt_metric_units_text(TT_UNITS_##units_, units),        \
                    meaning, TT_COLUMN_COORDINATES, "sample", "column");
  TT_TEST_VARIABLES(X)
#undef X
  if (labels->groups)
    TT_SCHEMA_WRITE(s, t->group, "sample_group", I32, NULL, "group_index of the row", NULL,
                    "sample");
  return t->ids ? tt_schema_write_ids(s, c, "sample", t->ids, t->row) : TT_OK;
}

tt_err tt_results_write(tt_comm *c, const char *file, const tt_result_shard *shard,
                        const tt_trained_ensembles *all, const tt_scores *scores,
                        const tt_scores *oob, const tt_test_predictions *test,
                        const tt_trials *trials, const tt_provenance *provenance)
{
  file_arrays t = {0};
  tt_schema s;
  tt_h5_file *f = NULL;
  const char *units;
  const void **data = NULL;
  int32_t *attempt = NULL;
  double *weight = NULL;
  int64_t rows = test ? test->rows : 0;
  tt_err e = make_file_arrays_local(shard, all, &t);
  if (!e) e = TT_ALLOC(data, tt_trained_ensembles_networks(all));
  if (!e) e = TT_ALLOC(attempt, t.labels.members);
  if (!e) e = TT_ALLOC(weight, t.labels.members);
  e = tt_agree(c, e);
  if (!e) apply_retries(c, shard, &t, attempt);
  if (!e)
    e = tt_h5_create(
        c, file,
        t.labels.members * (t.longest * 8 + 256) + rows * t.labels.columns * 64 + (1 << 16), &f);
  if (!e) {
    units = t.labels.common_units;
    tt_schema_write_header(&s, c, f, TT_SCHEMA_RESULT, provenance);
    tt_axis_labels_write_columns(&s, &t.labels);
    tt_axis_labels_write_members(&s, &t.labels);
    TT_SCHEMA_COORDINATE(&s, t.longest, t.epoch, "epoch", I32, NULL, "epoch, from 0");
    write_hypers(&s, &t);
    write_members(&s, &t, shard, data);
    write_weights(&s, all, weight);
    if (scores) tt_scores_write_variables(&s, scores, &t.labels);
    if (oob) tt_scores_write_out_of_bag(&s, oob, scores != NULL, units);
    if (rows > 0) e = write_test(&s, c, test, scores ? scores->forecasts : 0, &t.labels);
    if (!e) e = tt_agree(c, tt_trials_write(&s, trials));
    if (!e) e = tt_h5_commit(&f);
    tt_h5_discard(&f);
  }
  tt_free_all(&attempt, &weight);
  tt_free(data);
  free_file_arrays(&t);
  return e;
}
