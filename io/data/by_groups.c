/* by_groups.c — tt_data_read_groups of data.h. Every rank has the values of all rows and makes the
 * whole data set; rank 0 sends only the group of each row, and the names. */
#include "core/groups/by_groups.h"

#include "core/base/int.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/data/data_internal.h"
#include "io/data/raw_data.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Values of the rows of one group. */
typedef struct group_rows {
  int64_t rows;
  const int64_t *row;    /* [rows] their numbers in the file */
  double *x, *y;         /* [rows][D], [rows][T] */
  tt_row_key *key;       /* [rows] */
  tt_split_values split; /* [rows] */
  tt_row_parts parts;
} group_rows;

typedef struct group_maker {
  tt_loader *l;
  tt_comm *alone;
  const double *x, *y; /* of all rows */
  tt_by_values values; /* on all ranks; names in the order of tt_by_compare */
  tt_split_values split;
  int64_t *first, *order; /* [values.count + 1], [rows] of tt_by_sort_rows */
  int64_t targets;        /* of the ensemble */
  int32_t *column;        /* [targets] */
  tt_scaler common;       /* of all rows, for by_transfer and by_normalize; empty: none */
  group_rows now;         /* the group that is being added */
  tt_dataset *d;          /* result */
} group_maker;

/* Names and numbers */

typedef struct named_number {
  char *name;
  int32_t number;
} named_number;

static int compare_named(const void *a, const void *b)
{
  return tt_by_compare(((const named_number *)a)->name, ((const named_number *)b)->name);
}

/* Number the groups in the order of their names: it does not depend on the order of the rows. */
static tt_err sort_names(tt_by_values *v)
{
  named_number *sorted = NULL;
  int32_t *place = NULL;
  tt_err e = TT_ALLOC(sorted, v->count);
  if (!e) e = TT_ALLOC(place, v->count);
  for (int32_t i = 0; !e && i < v->count; i++) sorted[i] = (named_number){v->name[i], i};
  if (!e) {
    qsort(sorted, (size_t)v->count, sizeof *sorted, compare_named);
    for (int32_t i = 0; i < v->count; i++) {
      place[sorted[i].number] = i;
      v->name[i] = sorted[i].name;
    }
    for (int64_t r = 0; r < v->rows; r++) v->number[r] = place[v->number[r]];
  }
  tt_free_all(&sorted, &place);
  return e;
}

static tt_err read_names_local(group_maker *m)
{
  tt_loader *l = m->l;
  tt_table_format format = tt_data_format(l->cfg);
  format.marks = tt_data_reader_marks(l->rows);
  TT_TRY(tt_by_values_read_local(l->file, &format, &l->cfg->top_by, l->d->rows, &m->values));
  for (int64_t i = 0; i < m->values.count; i++)
    if (!strcmp(m->values.name[i], TT_BY_POOLED))
      return TT_FAIL(DATA, "%s: by: the value '%s' is the name of the ensemble of all rows",
                     l->file, TT_BY_POOLED);
  TT_TRY(sort_names(&m->values));
  return tt_split_values_read_local(l->rows, l->cfg, &m->split);
}

/* The names as one text. */
static tt_err pack_names(const tt_by_values *v, char **text, int64_t *bytes)
{
  for (int64_t i = 0; i < v->count; i++) *bytes += (int64_t)strlen(v->name[i]) + 1;
  TT_TRY(TT_ALLOC(*text, *bytes));
  for (int64_t i = 0, at = 0; i < v->count; at += (int64_t)strlen(v->name[i++]) + 1)
    strcpy(*text + at, v->name[i]);
  return TT_OK;
}

static tt_err unpack_names(tt_by_values *v, const char *text)
{
  TT_TRY(TT_ALLOC(v->name, v->count));
  for (int64_t i = 0; i < v->count; text += strlen(text) + 1)
    TT_TRY(tt_text_set(&v->name[i++], text));
  return TT_OK;
}

/* Collective. Send what rank 0 has read to all ranks. */
static tt_err share_names(group_maker *m)
{
  tt_comm *c = m->l->comm;
  int root = tt_comm_is_root(c), has_value;
  int64_t rows = m->l->d->rows, bytes = 0;
  char *text = NULL;
  tt_err e = root ? pack_names(&m->values, &text, &bytes) : TT_ALLOC(m->values.number, rows);
  tt_split_by kind = tt_data_split_by(m->l->cfg);
  has_value = kind < TT_SPLIT_BY_fractions;
  m->split.by = kind;
  m->split.rows = m->values.rows = rows;
  if (!e && !root && has_value) e = TT_ALLOC(m->split.value, rows);
  e = tt_agree(c, e);
  if (!e) {
    tt_bcast(c, &m->values.count, sizeof m->values.count);
    tt_bcast(c, m->values.number, rows * (int64_t)sizeof *m->values.number);
    if (has_value) tt_bcast(c, m->split.value, rows * (int64_t)sizeof *m->split.value);
    e = tt_bcast_block(c, &text, &bytes);
  }
  if (!e) e = tt_agree(c, root ? TT_OK : unpack_names(&m->values, text));
  tt_free(text);
  return e;
}

/* One group */

static tt_err allocate_group(group_maker *m, int64_t rows)
{
  const tt_dataset *all = m->l->d;
  group_rows *g = &m->now;
  TT_TRY(TT_ALLOC(g->x, rows * all->scaler.inputs));
  TT_TRY(TT_ALLOC(g->y, rows * all->targets));
  TT_TRY(TT_ALLOC(g->key, rows));
  TT_TRY(TT_ALLOC(g->parts.split, rows));
  if (m->split.value) TT_TRY(TT_ALLOC(g->split.value, rows));
  return m->split.by == TT_SPLIT_BY_group ? TT_ALLOC(g->split.group, rows) : TT_OK;
}

static void take_rows(group_maker *m, int64_t group)
{
  const tt_dataset *all = m->l->d;
  group_rows *g = &m->now;
  int64_t D = all->scaler.inputs, T = all->targets;
  g->rows = g->split.rows = m->first[group + 1] - m->first[group];
  g->row = m->order + m->first[group];
  g->split.by = m->split.by;
  for (int64_t i = 0; i < g->rows; i++) {
    int64_t r = g->row[i];
    memcpy(g->x + i * D, m->x + r * D, (size_t)D * sizeof *g->x);
    memcpy(g->y + i * T, m->y + r * T, (size_t)T * sizeof *g->y);
    if (g->split.value) g->split.value[i] = m->split.value[r];
    g->parts.split[i] = all->split[r]; /* with TT_SPLIT_BY_file */
  }
  if (g->split.group)
    memcpy(g->split.group, g->split.value, (size_t)g->rows * sizeof *g->split.group);
}

/* Number of rows that have the labels of all targets of the ensemble.
 *   part  of the split; -1: all */
static int64_t count_labeled(const group_maker *m, int part)
{
  const group_rows *g = &m->now;
  int64_t count = 0, T = m->l->d->targets;
  for (int64_t i = 0; i < g->rows; i++) {
    int labeled = part < 0 || g->parts.split[i] == part;
    for (int64_t t = 0; t < m->targets; t++) labeled &= !isnan(g->y[i * T + m->column[t]]);
    count += labeled;
  }
  return count;
}

/* Split the rows. *enough becomes 0 if a part that must have labels has none, or there are fewer
 * training rows than folds. */
static tt_err split_group(group_maker *m, int *enough)
{
  const tt_config *cfg = m->l->cfg;
  const tt_ensemble_config *own = &cfg->ensemble[0];
  int64_t folds = own->train_resample == TT_RESAMPLE_kfold ? own->train_folds : 1;
  int64_t least[TT_SPLITS] = {folds, cfg->data_split_validation > 0.0, 0};
  group_rows *g = &m->now;
  tt_free(g->parts.unit);
  TT_TRY(tt_data_row_keys_local(g->rows, m->l->d->scaler.inputs, g->x, g->key));
  TT_TRY(tt_data_split_rows_local(&g->split, cfg, g->key, &g->parts));
  for (int k = 0; k < TT_SPLITS; k++) *enough &= count_labeled(m, k) >= least[k];
  return TT_OK;
}

/* Append a data set with its scales, as the next group.
 *   row  [one->rows] numbers of its rows in the file; NULL: 0, 1, ... */
static tt_err append(group_maker *m, tt_dataset *one, const char *name, const int64_t *row)
{
  tt_dataset *d = m->d;
  tt_by_groups *groups = d->groups;
  int64_t first = d->rows, n = one->rows;
  if (one->unit && !d->unit) {
    int64_t most = m->values.rows * 2;
    TT_TRY(TT_ALLOC(d->unit, most));
    for (int64_t i = 0; i < most; i++) d->unit[i] = TT_BY_NO_UNIT;
  }
  memcpy(d->x + first * d->inputs, one->x, (size_t)(n * d->inputs) * sizeof *d->x);
  memcpy(d->y + first * d->targets, one->y, (size_t)(n * d->targets) * sizeof *d->y);
  memcpy(d->split + first, one->split, (size_t)n);
  if (one->unit) memcpy(d->unit + first, one->unit, (size_t)n * sizeof *d->unit);
  for (int64_t i = 0; i < n; i++) d->origin[first + i] = row ? row[i] : i;
  groups->scaler[groups->count] = one->scaler;
  one->scaler = (tt_scaler){.inputs = 0};
  groups->rows[groups->count] = (tt_slice){first, n};
  d->rows += n;
  return tt_text_set(&groups->name[groups->count++], name);
}

/* Add the group of all rows, and keep its scales for the groups, where these are wanted. */
static tt_err add_pooled(group_maker *m)
{
  const tt_dataset *all = m->l->d;
  int pooled = m->l->cfg->top_by_small == TT_BY_SMALL_pooled;
  int shared = m->l->cfg->top_by_transfer == TT_BY_TRANSFER_pooled ||
               m->l->cfg->top_by_normalize == TT_BY_NORMALIZE_common;
  if (!pooled && !shared) return TT_OK;
  const tt_raw_dataset raw = {.name = m->l->file,
                              .rows = all->rows,
                              .input = &all->input,
                              .target = &all->target,
                              .net = &all->scaler.net,
                              .x = m->x,
                              .y = m->y,
                              .split = all->split,
                              .unit = all->unit};
  tt_dataset *one = NULL;
  TT_TRY(tt_data_from_memory(m->alone, m->l->cfg, &raw, &one));
  tt_err e = shared ? tt_scaler_copy(&one->scaler, &m->common) : TT_OK;
  if (!e && pooled) e = append(m, one, TT_BY_POOLED, NULL);
  m->d->groups->pooled = pooled;
  tt_dataset_destroy(&one);
  return e;
}

/* Normalize the inputs of a group, and with by_normalize its targets, as those of all rows. */
static void use_common_scales(const group_maker *m, tt_dataset *one)
{
  const tt_scaler *src = &m->common;
  tt_scaler *dst = &one->scaler;
  size_t bytes = (size_t)src->inputs * sizeof(double);
  if (!bytes) return;
  memcpy(dst->x_mean, src->x_mean, bytes);
  memcpy(dst->x_scale, src->x_scale, bytes);
  memcpy(dst->x_lambda, src->x_lambda, bytes);
  memcpy(dst->x_fill, src->x_fill, bytes);
  tt_scaler_normalize_inputs(dst, one->rows, m->now.x, one->x);
  if (m->l->cfg->top_by_normalize != TT_BY_NORMALIZE_common) return;
  bytes = (size_t)src->targets * sizeof(double);
  memcpy(dst->y_mean, src->y_mean, bytes);
  memcpy(dst->y_scale, src->y_scale, bytes);
  memcpy(dst->y_lambda, src->y_lambda, bytes);
  for (int64_t i = 0; i < one->rows * dst->targets; i++)
    one->y[i] = (float)tt_scaler_normalize_target(dst, i % dst->targets, m->now.y[i]);
}

/* A group whose values cannot be normalized is counted as a small one too. */
static tt_err add_group(group_maker *m, int64_t group)
{
  const tt_dataset *all = m->l->d;
  group_rows *g = &m->now;
  tt_by_groups *groups = m->d->groups;
  tt_dataset *one = NULL;
  take_rows(m, group);
  int enough = count_labeled(m, -1) >= m->l->cfg->top_by_min_rows;
  tt_err e = enough ? split_group(m, &enough) : TT_OK;
  const tt_raw_dataset raw = {.name = m->values.name[group],
                              .rows = g->rows,
                              .input = &all->input,
                              .target = &all->target,
                              .net = &all->scaler.net,
                              .x = g->x,
                              .y = g->y,
                              .split = g->parts.split,
                              .unit = g->parts.unit};
  if (!e && enough) e = tt_data_from_memory(m->alone, m->l->cfg, &raw, &one);
  if (e == TT_E_DATA) {
    tt_log_root(TT_LOG_DEBUG, "by: group %s: %s", m->values.name[group], tt_err_last());
    e = TT_OK;
  }
  if (!e && one) use_common_scales(m, one);
  if (!e && one) e = append(m, one, m->values.name[group], g->row);
  if (!e && !one) {
    groups->small_rows[groups->small] = g->rows;
    e = tt_text_set(&groups->small_name[groups->small++], m->values.name[group]);
  }
  tt_dataset_destroy(&one);
  return e;
}

/* All groups */

static tt_err create_dataset(group_maker *m)
{
  tt_dataset *all = m->l->d;
  const tt_config *cfg = m->l->cfg;
  tt_net_inputs net = {0};
  int pooled = cfg->top_by_small == TT_BY_SMALL_pooled;
  int64_t most = all->rows * (1 + pooled);
  if (most > INT32_MAX)
    return TT_FAIL(DATA,
                   "%s: by: %" PRId64 " rows, with those of the pooled model; at most %" PRId32,
                   m->l->file, most, INT32_MAX);
  TT_TRY(tt_dataset_create(most, all->inputs, all->targets, 0, &m->d));
  m->d->rows = 0;
  TT_TRY(tt_net_inputs_copy(&all->scaler.net, &net));
  TT_TRY(tt_dataset_set_columns(m->d, &all->input, &all->target, &net));
  TT_TRY(TT_ALLOC(m->d->origin, most));
  TT_TRY(
      tt_by_groups_create(m->values.count + pooled, m->values.count, all->inputs, &m->d->groups));
  m->d->groups->count = m->d->groups->small = 0;
  for (int64_t k = 0; k < cfg->top_by.count; k++)
    TT_TRY(tt_list_add(&m->d->groups->columns, cfg->top_by.value[k]));
  return tt_text_set(&m->d->groups->ensemble, cfg->ensemble[0].name);
}

/* Take over what belongs to the whole file. */
static tt_err take_facts(group_maker *m)
{
  tt_dataset *all = m->l->d, *d = m->d;
  d->ids = all->ids;
  all->ids = (tt_row_ids){0};
  d->repeated_rows = all->repeated_rows;
  d->seen_rows = all->seen_rows;
  d->unit_ordered = all->unit_ordered;
  d->hash = XXH3_64bits_withSeed(m->values.number,
                                 (size_t)m->values.rows * sizeof *m->values.number, all->hash);
  tt_scaler_free(&d->scaler);
  return tt_scaler_copy(&d->groups->scaler[0], &d->scaler);
}

static int has_constant_target(const tt_scaler *s)
{
  for (int64_t t = 0; t < s->targets; t++)
    if (s->y_normalize[t] != TT_NORMALIZE_none &&
        s->y_scale[t] == tt_normalize_constant(s->y_mean[t]))
      return 1;
  return 0;
}

/* The first names, "Oslo (4), Rome (7), ..." */
typedef struct first_names {
  int64_t count;
  char text[256];
} first_names;

static void include(first_names *l, const char *name, int64_t rows)
{
  char one[80];
  snprintf(one, sizeof one, "%.40s (%" PRId64 ")", name, rows);
  if (l->count < 4) tt_text_append(l->text, sizeof l->text, ", ", l->count < 3 ? one : "...");
  l->count++;
}

static void log_groups(const group_maker *m)
{
  const tt_by_groups *g = m->d->groups;
  int64_t least = INT64_MAX, most = 0, own = g->count - g->pooled;
  first_names small = {0}, constant = {0};
  for (int64_t i = g->pooled; i < g->count; i++) {
    int64_t rows = g->rows[i].count;
    least = rows < least ? rows : least;
    most = tt_max_i64(rows, most);
    if (has_constant_target(&g->scaler[i])) include(&constant, g->name[i], rows);
  }
  for (int64_t i = 0; i < g->small; i++) include(&small, g->small_name[i], g->small_rows[i]);
  tt_log_root(TT_LOG_INFO, "by %s: %" PRId64 " group%s of %" PRId64 " to %" PRId64 " rows%s",
              g->columns, own, tt_plural(own), least, most,
              g->pooled ? ", and one ensemble for all rows" : "");
  if (constant.count)
    tt_log_root(TT_LOG_INFO,
                "by %s: %" PRId64 " group%s one value of a target in all training rows, which is "
                "predicted: %s",
                g->columns, constant.count, constant.count == 1 ? " has" : "s have", constant.text);
  if (small.count)
    tt_log_root(TT_LOG_WARN,
                "by %s: %" PRId64 " group%s too few rows with labels (by_min_rows %" PRId64
                ", or for the split): %s; predictions for %s: %s",
                g->columns, small.count, small.count == 1 ? " has" : "s have",
                m->l->cfg->top_by_min_rows, small.text, small.count == 1 ? "it" : "them",
                g->pooled ? "those of the ensemble of all rows" : "none (by_small)");
}

static tt_err make_local(group_maker *m)
{
  const tt_by_values *v = &m->values;
  int64_t most = 0;
  TT_TRY(create_dataset(m));
  TT_TRY(tt_by_sort_rows(v->rows, v->number, v->count, &m->first, &m->order));
  for (int64_t g = 0; g < v->count; g++) most = tt_max_i64(most, m->first[g + 1] - m->first[g]);
  TT_TRY(allocate_group(m, most));
  TT_TRY(
      tt_cohort_target_columns(&m->l->cfg->ensemble[0], &m->l->d->target, &m->targets, &m->column));
  TT_TRY(add_pooled(m));
  for (int64_t g = 0; g < m->values.count; g++) TT_TRY(add_group(m, g));
  const tt_by_groups *groups = m->d->groups;
  if (groups->count == groups->pooled)
    return TT_FAIL(
        DATA,
        "%s: by %s: none of the %" PRId64 " groups has %" PRId64
        " rows with labels that can be split and normalized; lower by_min_rows, or leave "
        "by out",
        m->l->file, groups->columns, groups->small, m->l->cfg->top_by_min_rows);
  return take_facts(m);
}

/* Collective. Replace the data set of the loader by the data set of all groups. */
static tt_err make_groups(tt_loader *l, const double *x, const double *y)
{
  group_maker m = {.l = l, .x = x, .y = y};
  tt_err e = tt_agree(l->comm, tt_comm_is_root(l->comm) ? read_names_local(&m) : TT_OK);
  if (!e) e = share_names(&m);
  if (!e) e = tt_agree(l->comm, tt_comm_alone_local(&m.alone));
  if (!e) e = tt_agree(l->comm, make_local(&m));
  if (!e) {
    log_groups(&m);
    tt_dataset_destroy(&l->d);
    l->d = m.d;
  } else {
    tt_dataset_destroy(&m.d);
  }
  if (m.alone) tt_comm_end(&m.alone);
  tt_by_values_free(&m.values);
  tt_split_values_free(&m.split);
  tt_split_values_free(&m.now.split);
  tt_row_parts_free(&m.now.parts);
  tt_scaler_free(&m.common);
  tt_free_all(&m.first, &m.order, &m.column, &m.now.x, &m.now.y, &m.now.key);
  return e;
}

tt_err tt_data_read_groups(tt_comm *c, const tt_config *cfg, const tt_data_hook *hook,
                           tt_dataset **out)
{
  tt_loader l = {.comm = c, .cfg = cfg, .file = cfg->data_file};
  double *x = NULL, *y = NULL;
  tt_err e = tt_loader_read_values(&l, hook, &x, &y, NULL);
  if (!e) e = make_groups(&l, x, y);
  tt_free_all(&x, &y);
  return tt_loader_finish(&l, e, out);
}
