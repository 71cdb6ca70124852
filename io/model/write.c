/* write.c — tt_model_write of model_file.h; the layout is in docs/files.md. */
#include "core/base/mem.h"
#include "core/groups/by_groups.h"
#include "core/model/state.h"
#include "io/model/model_internal.h"

#include <inttypes.h>
#include <string.h>

/* Arrays of the file that must be assembled from the cohorts before the write. */
typedef struct model_arrays {
  int64_t members, ensembles, targets; /* of all trained ensembles; the largest K */
  int64_t *member;                     /* [G] 0, 1, 2, ... */
  int32_t *ensemble_of_member, *index, *head,
      *cohort_of_member; /* [G] ensemble of each member, number in the ensemble, head, cohort */
  double *weight;        /* [G] */
  int8_t *status;        /* [G] */
  int heads;             /* whether any member is a head */
  const char **name;     /* [ensembles] borrowed */
  const char **by;       /* [D + T] names of the normalizations */
  int64_t *first, *count, *key; /* [ensembles] */
  int32_t *column;              /* [ensembles][K], -1 beyond the targets of an ensemble */
  tt_net_tables nets;
  tt_calibration calibration; /* of all columns */
  tt_net_inputs_table net;
  int64_t columns;
  char **label;        /* [columns] owned, tt_trained_ensemble_column_name */
  double *epistemic;   /* [columns] typical_epistemic; NULL: not known */
  double *scale;       /* scratch of tt_model_write_scales */
  int64_t name_length; /* bytes of the longest name or unit */
} model_arrays;

static void free_file_arrays(model_arrays *t)
{
  tt_free_all(&t->member, &t->ensemble_of_member, &t->index, &t->head, &t->cohort_of_member,
              &t->weight, &t->status, &t->name, &t->by, &t->first, &t->count, &t->key, &t->column,
              &t->epistemic, &t->scale);
  if (t->label) tt_h5_texts_free(t->columns, &t->label);
  tt_net_tables_free(&t->nets);
  tt_calibration_free(&t->calibration);
  tt_net_inputs_table_free(&t->net);
}

static int64_t longer_of(int64_t n, const char *const *text, int64_t so_far)
{
  int64_t length = tt_h5_max_text_length(n, text);
  return length > so_far ? length : so_far;
}

static int64_t longest_name(const tt_trained_ensemble *m, const model_arrays *t)
{
  int64_t most = longer_of(t->ensembles, t->name, t->net.longest);
  most = longer_of(t->columns, (const char *const *)t->label, most);
  if (m->groups)
    most = longer_of(m->groups->small, (const char *const *)m->groups->small_name, most);
  most = longer_of(m->input.count + m->target.count, t->by, most);
  most = longer_of(m->input.count, (const char *const *)m->input.name, most);
  most = longer_of(m->input.count, (const char *const *)m->input.units, most);
  most = longer_of(m->target.count, (const char *const *)m->target.name, most);
  most = longer_of(m->target.count, (const char *const *)m->target.classes, most);
  return longer_of(m->target.count, (const char *const *)m->target.units, most);
}

static tt_err allocate(const tt_trained_ensembles *all, model_arrays *t)
{
  for (int64_t i = 0; i < all->count; i++) {
    const tt_trained_ensemble *m = all->at[i];
    t->members += m->members;
    t->ensembles += m->ensembles;
    int64_t targets = tt_trained_ensemble_targets(m);
    t->targets = targets > t->targets ? targets : t->targets;
  }
  TT_TRY(TT_ALLOC(t->member, t->members));
  TT_TRY(TT_ALLOC(t->ensemble_of_member, t->members));
  TT_TRY(TT_ALLOC(t->index, t->members));
  TT_TRY(TT_ALLOC(t->head, t->members));
  TT_TRY(TT_ALLOC(t->cohort_of_member, t->members));
  TT_TRY(TT_ALLOC(t->weight, t->members));
  TT_TRY(TT_ALLOC(t->status, t->members));
  TT_TRY(TT_ALLOC(t->name, t->ensembles));
  TT_TRY(TT_ALLOC(t->by, all->at[0]->input.count + all->at[0]->target.count));
  TT_TRY(TT_ALLOC(t->first, t->ensembles));
  TT_TRY(TT_ALLOC(t->count, t->ensembles));
  TT_TRY(TT_ALLOC(t->key, t->ensembles));
  TT_TRY(TT_ALLOC(t->column, t->ensembles * t->targets));
  return tt_net_tables_create(all, &t->nets);
}

/* Its members start at `member`, its ensembles at `ensemble`. */
static tt_err fill_ensembles(const tt_trained_ensemble *m, int64_t member, int64_t ensemble,
                             model_arrays *t)
{
  for (int64_t i = 0; i < m->members; i++) {
    t->member[member + i] = member + i;
    t->index[member + i] = m->index[i];
    t->head[member + i] = m->head[i];
    t->cohort_of_member[member + i] = m->cohort[i];
    t->heads |= m->head[i] > 0;
    t->weight[member + i] = m->weight[i];
    t->status[member + i] = m->status[i];
  }
  for (int64_t i = 0; i < m->ensembles; i++) {
    const tt_ensemble *e = &m->ensemble[i];
    int64_t offset = ensemble + i;
    if (e->targets != tt_trained_ensemble_targets(m) || e->first < 0 ||
        e->first + e->members > m->members)
      return TT_FAIL(INTERNAL, "ensemble %s: %" PRId64 " targets, members %" PRId64 " + %" PRId64,
                     e->name, e->targets, e->first, e->members);
    t->name[offset] = e->name;
    t->first[offset] = member + e->first;
    t->count[offset] = e->members;
    t->key[offset] = e->key;
    for (int64_t j = 0; j < t->targets; j++)
      t->column[offset * t->targets + j] = j < e->targets ? e->column[j] : -1;
    for (int64_t j = 0; j < e->members; j++)
      t->ensemble_of_member[member + e->first + j] = (int32_t)offset;
  }
  return TT_OK;
}

static tt_err label_columns(const tt_trained_ensembles *all, model_arrays *t)
{
  int64_t next = 0;
  t->columns = tt_trained_ensembles_columns(all);
  TT_TRY(TT_ALLOC(t->label, t->columns));
  for (int64_t i = 0; i < all->count; i++)
    for (int64_t e = 0; e < all->at[i]->ensembles; e++)
      for (int64_t j = 0; j < tt_trained_ensemble_width(all->at[i]); j++, next++)
        TT_TRY(tt_trained_ensemble_column_name(all->at[i], &all->at[i]->ensemble[e], j,
                                               &t->label[next]));
  return TT_OK;
}

static tt_err join_epistemic(const tt_trained_ensembles *all, model_arrays *t)
{
  int64_t first = 0;
  for (int64_t i = 0; i < all->count; i++)
    if (!all->at[i]->typical_epistemic) return TT_OK;
  TT_TRY(TT_ALLOC(t->epistemic, t->columns));
  for (int64_t i = 0; i < all->count; i++) {
    int64_t columns = tt_trained_ensemble_columns(all->at[i]);
    memcpy(t->epistemic + first, all->at[i]->typical_epistemic,
           (size_t)columns * sizeof *t->epistemic);
    first += columns;
  }
  return TT_OK;
}

static tt_err make_file_arrays_local(const tt_trained_ensembles *all, model_arrays *t)
{
  int64_t member = 0, ensemble = 0;
  TT_TRY(allocate(all, t));
  for (int64_t i = 0; i < all->count; i++) {
    TT_TRY(fill_ensembles(all->at[i], member, ensemble, t));
    member += all->at[i]->members;
    ensemble += all->at[i]->ensembles;
  }
  const tt_scaler *k = &all->at[0]->scaler;
  for (int64_t i = 0; i < k->inputs; i++) t->by[i] = tt_choice_normalize[k->x_normalize[i]];
  for (int64_t i = 0; i < k->targets; i++)
    t->by[k->inputs + i] = tt_choice_normalize[k->y_normalize[i]];
  TT_TRY(tt_net_inputs_table_create(&k->net, &t->net));
  TT_TRY(label_columns(all, t));
  t->name_length = longest_name(all->at[0], t);
  TT_TRY(join_epistemic(all, t));
  TT_TRY(TT_ALLOC(t->scale, tt_model_scale_values(all->at[0])));
  return tt_calibration_concat(all, &t->calibration);
}

static void write_dimensions(tt_schema *s, const tt_trained_ensemble *m, const model_arrays *t)
{
  TT_SCHEMA_COORDINATE(s, t->members, t->member, "member", I64, NULL, "number of the member");
  tt_schema_create_dimension(s, "ensemble", t->ensembles);
  tt_schema_create_dimension(s, "ensemble_target", t->targets);
  tt_schema_create_dimension(s, "feature", m->input.count);
  tt_schema_create_dimension(s, "target", m->target.count);
  tt_schema_create_dimension(s, "name_strlen", t->name_length);
  tt_schema_create_dimension(s, "column", t->columns);
  tt_schema_write_texts(s, "column_label", "column", "name_strlen", (const char *const *)t->label,
                        "target, with its level or class");
}

/* A variable with one value, or one row of values, per member or per ensemble. */
#define WRITE_MEMBERS(data_, name_, type_, units_, meaning_)                                       \
  TT_SCHEMA_WRITE(s, data_, name_, type_, units_, meaning_, NULL, "member")
#define WRITE_ENSEMBLES(data_, name_, type_, meaning_, ...)                                        \
  TT_SCHEMA_WRITE(s, data_, name_, type_, NULL, meaning_, "ensemble_name", __VA_ARGS__)

static void write_members(tt_schema *s, const model_arrays *t)
{
  WRITE_MEMBERS(t->ensemble_of_member, "ensemble_of_member", I32, NULL,
                "ensemble the member belongs to, from 0");
  WRITE_MEMBERS(t->weight, "member_weight", F64, "1",
                "weight of the member in its ensemble; 0 = not used");
  WRITE_MEMBERS(t->status, "status", I8, NULL, "how training ended");
  tt_schema_write_flags(s, "status", TT_STATUS_diverged + 1, tt_schema_status_meanings);
  WRITE_MEMBERS(t->index, "member_index", I32, NULL, "number of the member in its ensemble");
  WRITE_MEMBERS(t->cohort_of_member, "member_cohort", I32, NULL,
                "cohort that trained the member, as in checkpoints and results.h5");
  if (t->heads)
    WRITE_MEMBERS(t->head, "head", I32, NULL, "number of the head of the member, from 1");
}

static void write_ensembles(tt_schema *s, const model_arrays *t)
{
  tt_schema_write_texts(s, "ensemble_name", "ensemble", "name_strlen", t->name,
                        "name of the ensemble");
  WRITE_ENSEMBLES(t->first, "ensemble_first", I64, "first member of the ensemble", "ensemble");
  WRITE_ENSEMBLES(t->count, "ensemble_members", I64, "number of members of the ensemble",
                  "ensemble");
  WRITE_ENSEMBLES(t->key, "ensemble_key", I64, "upper half of the random streams of its members",
                  "ensemble");
  WRITE_ENSEMBLES(t->column, "ensemble_column", I32, "target column it predicts, from 0; -1 = none",
                  "ensemble", "ensemble_target");
}

static void write_normalize(tt_schema *s, int64_t inputs, const char *const *normalize)
{
  static const char f[] = "how the column is normalized";
  tt_schema_write_texts(s, "scaler/x_normalize", "feature", "name_strlen", normalize, f);
  tt_schema_write_texts(s, "scaler/y_normalize", "target", "name_strlen", normalize + inputs, f);
}

/* Principal components of the targets. */
static void write_components(tt_schema *s, const tt_scaler *k)
{
  if (!k->components) return;
  tt_schema_create_dimension(s, "component", k->components);
  TT_SCHEMA_WRITE(s, k->component, "scaler/y_component", F64, NULL,
                  "normalized y = y_component_mean + sum of amplitude * y_component", NULL,
                  "component", "target");
  TT_SCHEMA_WRITE(s, k->component_mean, "scaler/y_component_mean", F64, NULL,
                  "mean of the normalized y in the training rows", NULL, "target");
  TT_SCHEMA_WRITE(s, k->residual, "scaler/y_residual", F64, NULL,
                  "variance of the normalized y that the components do not hold", NULL, "target");
}

static void write_epistemic(tt_schema *s, const double *epistemic)
{
  if (!epistemic) return;
  TT_SCHEMA_WRITE(s, epistemic, "typical_epistemic", F64, "1",
                  "root mean square of the epistemic standard deviation of the normalized target "
                  "over training rows",
                  NULL, "column");
}

static void write_columns(tt_schema *s, const tt_trained_ensemble *m)
{
  tt_h5_create_group(s->file, "names");
  tt_schema_write_texts(s, "names/feature_name", "feature", "name_strlen",
                        (const char *const *)m->input.name, "input column");
  tt_schema_write_texts(s, "names/feature_units", "feature", "name_strlen",
                        (const char *const *)m->input.units, "units of the input column");
  tt_schema_write_texts(s, "names/target_name", "target", "name_strlen",
                        (const char *const *)m->target.name, "target column");
  tt_schema_write_texts(s, "names/target_units", "target", "name_strlen",
                        (const char *const *)m->target.units, "units of the target column");
  tt_schema_write_texts(s, "names/target_classes", "target", "name_strlen",
                        (const char *const *)m->target.classes,
                        "names of the classes of the target column, separated by commas; empty: "
                        "numbers, or no classes");
  tt_schema_write_given(s, "names/feature_name", &m->input);
  tt_schema_write_given(s, "names/target_name", &m->target);
}

tt_err tt_model_write(tt_comm *c, const char *file, const tt_trained_ensembles *all,
                      const tt_model_shard *shard, const tt_provenance *provenance)
{
  model_arrays t = {0};
  tt_schema s;
  tt_h5_file *f = NULL;
  int64_t bytes = 1 << 16;
  for (int64_t i = 0; i < all->count; i++)
    bytes += tt_trained_ensemble_parameters(all->at[i]) * (int64_t)sizeof(float) +
             all->at[i]->members * 64;
  tt_err e = tt_agree(c, make_file_arrays_local(all, &t));
  if (!e) e = tt_h5_create(c, file, bytes, &f);
  if (!e) {
    const tt_scaler *scaler = &all->at[0]->scaler;
    tt_schema_write_header(&s, c, f, TT_SCHEMA_MODEL, provenance);
    tt_schema_hash_content(&s, tt_model_attributes);
    write_dimensions(&s, all->at[0], &t);
    write_members(&s, &t);
    write_ensembles(&s, &t);
    tt_h5_create_group(f, "scaler");
    tt_net_inputs_write(&s, &t.net);
    tt_model_write_scales(&s, all->at[0], t.scale);
    write_normalize(&s, scaler->inputs, t.by);
    write_components(&s, scaler);
    write_columns(&s, all->at[0]);
    tt_calibration_write(&s, &t.calibration);
    write_epistemic(&s, t.epistemic);
    tt_net_tables_write(&s, &t.nets, shard);
    e = tt_h5_commit(&f);
  }
  free_file_arrays(&t);
  return e;
}
