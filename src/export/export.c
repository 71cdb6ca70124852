/* export.c — see export.h. */
#include "src/export/export.h"

#include "core/base/directory.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/groups/by_groups.h"
#include "io/files/files.h"
#include "io/hdf5/schema.h"
#include "io/model/model_file.h"
#include "src/export/export_internal.h"
#include "src/predict/prediction_block.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void cohort_free(tt_export_cohort *k)
{
  tt_free_all(&k->member, &k->number, &k->of, &k->share, &k->offset, &k->scale, &k->std_scale,
              &k->noise, &k->undo, &k->lambda);
}

int tt_export_can_predict(const tt_trained_ensemble *m, int64_t ensemble)
{
  const tt_ensemble *own = &m->ensemble[ensemble];
  for (int64_t i = own->first; i < own->first + own->members; i++)
    if (m->weight[i] > 0.0) return 1;
  return 0;
}

/*   before  members of the cohorts before this one */
static tt_err list_members(const char *file, int64_t before, tt_export_cohort *k)
{
  const tt_trained_ensemble *m = k->m;
  for (int64_t e = 0; e < m->ensembles; e++) {
    const tt_ensemble *own = &m->ensemble[e];
    int64_t first = k->members;
    double all = 0.0;
    for (int64_t i = own->first; i < own->first + own->members; i++) {
      if (!(m->weight[i] > 0.0)) continue;
      k->member[k->members] = i;
      k->number[k->members] = before + i;
      k->of[k->members] = e;
      k->share[k->members++] = m->weight[i];
      all += m->weight[i];
    }
    if (!tt_export_can_predict(m, e))
      return TT_FAIL(USAGE, "%s: no member of ensemble '%s' can predict: all diverged", file,
                     own->name);
    for (int64_t i = first; i < k->members; i++) k->share[i] /= all;
  }
  return TT_OK;
}

static tt_err cohort_create(const char *file, int64_t before, const tt_trained_ensemble *m,
                            tt_export_cohort *k)
{
  *k = (tt_export_cohort){.m = m, .columns = tt_trained_ensemble_columns(m)};
  TT_TRY(TT_ALLOC(k->member, m->members));
  TT_TRY(TT_ALLOC(k->number, m->members));
  TT_TRY(TT_ALLOC(k->of, m->members));
  TT_TRY(TT_ALLOC(k->share, m->members));
  TT_TRY(TT_ALLOC(k->offset, k->columns));
  TT_TRY(TT_ALLOC(k->scale, k->columns));
  TT_TRY(TT_ALLOC(k->std_scale, k->columns));
  TT_TRY(TT_ALLOC(k->noise, k->columns));
  TT_TRY(TT_ALLOC(k->undo, k->columns));
  TT_TRY(TT_ALLOC(k->lambda, k->columns));
  for (int64_t c = 0; c < k->columns; c++) {
    tt_column_scale s = tt_column_scale_of(m, c);
    k->offset[c] = s.mean;
    k->scale[c] = s.scale;
    k->std_scale[c] = s.scale * s.std_scale;
    k->noise[c] = s.scale * s.noise;
    k->undo[c] = s.by;
    k->lambda[c] = s.lambda;
    k->transformed |= s.by != TT_TRANSFORM_identity;
  }
  return list_members(file, before, k);
}

/* Append the used members of part p of cohort k, whose used members from *next on are in it or in
 * later parts.
 *   first  member of the cohort that is the first of the part */
static void add_network(tt_export_model *x, tt_export_cohort *k, const tt_trained_ensemble *p,
                        int64_t first, int64_t *next)
{
  tt_export_cohort own = *k;
  own.m = p;
  own.member = k->member + *next;
  own.of = k->of + *next;
  own.share = k->share + *next;
  own.members = 0;
  while (*next < k->members && k->member[*next] < first + p->members) {
    own.members++;
    ++*next;
  }
  if (own.members == 0) return;
  for (int64_t i = 0; i < own.members; i++) own.member[i] -= first;
  x->network[x->networks++] = own;
  k->networks++;
}

/* The networks of all cohorts; `part` has the parts of all trained ensembles, in order. */
static tt_err list_networks(const tt_trained_parts *part, tt_export_model *x)
{
  int64_t number = 0;
  TT_TRY(TT_ALLOC(x->network, part->count));
  for (int64_t i = 0; i < x->cohorts; i++) {
    tt_export_cohort *k = &x->cohort[i];
    int64_t networks = tt_trained_ensemble_networks(k->m), next = 0;
    k->network = x->networks;
    for (int64_t n = 0; n < networks; n++)
      add_network(x, k, &part->at[number++], tt_trained_ensemble_first(k->m, n), &next);
  }
  return TT_OK;
}

int64_t tt_export_parameters(const tt_export_model *x)
{
  int64_t n = 0;
  if (x->groups) return tt_trained_ensemble_parameters(x->groups);
  for (int64_t i = 0; i < x->networks; i++)
    n += x->network[i].members * x->network[i].m->model.params;
  return n;
}

tt_transform tt_export_transform(const tt_export_model *x, int64_t input)
{
  return tt_normalize_transform((tt_normalize)x->scaler->x_normalize[input]);
}

const char *tt_export_transform_name(tt_transform f)
{
  static const char *const name[] = {TT_TRANSFORMS(TT_ROW_NAME)};
  return name[f];
}

int tt_export_uses_transform(const tt_export_model *x, tt_transform f)
{
  for (int64_t i = 0; i < x->inputs; i++) {
    tt_transform used = tt_export_transform(x, i);
    if (used == f || (f == TT_TRANSFORM_COUNT && used != TT_TRANSFORM_identity)) return 1;
  }
  return 0;
}

int tt_export_undoes(const tt_export_cohort *k, tt_transform f)
{
  for (int64_t c = 0; c < k->columns; c++)
    if (k->undo[c] == f) return 1;
  return 0;
}

/* The scales of the columns become those of the inputs of the networks. */
static tt_err expand_scaler(const tt_scaler *src, tt_scaler *out)
{
  const tt_net_inputs *net = &src->net;
  TT_TRY(tt_scaler_create(net->count, 1, out));
  for (int64_t i = 0; i < net->count; i++) {
    int64_t d = net->at[i].column;
    if (net->at[i].kind != TT_NET_INPUT_amount) continue;
    out->x_mean[i] = src->x_mean[d];
    out->x_scale[i] = src->x_scale[d];
    out->x_lambda[i] = src->x_lambda[d];
    out->x_fill[i] = src->x_fill[d];
    out->x_normalize[i] = src->x_normalize[d];
  }
  return TT_OK;
}

tt_err tt_export_group_open(const tt_trained_ensemble *all, int64_t group, tt_export_group *out)
{
  TT_TRY(tt_by_groups_extract(all, group, &out->m));
  TT_TRY(expand_scaler(&out->m->scaler, &out->scaler));
  return cohort_create("", 0, out->m, &out->cohort);
}

void tt_export_group_close(tt_export_group *g)
{
  cohort_free(&g->cohort);
  tt_scaler_free(&g->scaler);
  tt_trained_ensemble_destroy(&g->m);
}

static tt_err write_model(FILE *file, void *model)
{
  static tt_err (*const write[])(const tt_export_model *x, FILE *file) = {
#define X(name, file, meaning) tt_export_##name##_local,
      TT_EXPORT_FORMATS(X)
#undef X
  };
  const tt_export_model *x = model;
  return write[x->format](x, file);
}

static const char *const format_file[] = {
#define X(name, file, meaning) file,
    TT_EXPORT_FORMATS(X)
#undef X
};

static tt_err export_model(const tt_trained_ensembles *all, const tt_trained_ensemble *groups,
                           const char *model, const char *file, tt_export_format format,
                           tt_log_level level)
{
  static const char *const meaning[] = {
#define X(name, file, meaning) meaning,
      TT_EXPORT_FORMATS(X)
#undef X
  };
  char hash[TT_HASH_TEXT];
  tt_axis_labels labels = {0};
  tt_export_model x = {.format = format,
                       .groups = groups,
                       .file = file,
                       .model = model,
                       .model_hash = hash,
                       .all = all,
                       .labels = &labels};
  int64_t members = 0, before = 0;
  tt_scaler scaler = {0};
  tt_trained_parts part = {0};
  tt_hash_text(all->hash, hash);
  TT_TRY(tt_axis_labels_create(all, &labels));
  x.net = &all->at[0]->scaler.net;
  x.columns_in = x.net->columns;
  x.inputs = x.net->count;
  x.columns = labels.columns;
  x.plain = tt_net_inputs_are_amounts(x.net) && !tt_scaler_fills(&all->at[0]->scaler);
  x.scaler = &scaler;
  tt_err e = expand_scaler(&all->at[0]->scaler, &scaler);
  if (!e) e = TT_ALLOC(x.cohort, all->count);
  for (; !e && x.cohorts < all->count; x.cohorts++) {
    e = cohort_create(file, before, all->at[x.cohorts], &x.cohort[x.cohorts]);
    before += all->at[x.cohorts]->members;
    members += x.cohort[x.cohorts].members;
  }
  if (!e) e = tt_trained_parts_create(all, &part);
  if (!e) e = list_networks(&part, &x);
  if (!e) e = tt_file_print_local(file, write_model, &x);
  if (groups) members = groups->members;
  if (!e)
    tt_log_root(level, "%s of %" PRId64 " member%s, %" PRId64 " input%s, %" PRId64 " column%s: %s",
                meaning[format], members, tt_plural(members), x.columns_in, tt_plural(x.columns_in),
                x.columns, tt_plural(x.columns), file);
  for (int64_t i = 0; i < x.cohorts; i++) cohort_free(&x.cohort[i]);
  tt_free_all(&x.cohort, &x.network);
  tt_trained_parts_free(&part);
  tt_scaler_free(&scaler);
  tt_axis_labels_free(&labels);
  return e;
}

/* Letters, digits and UTF-8 remain; urllib.parse.unquote of Python gives the name back. */
static void put_file_name(const char *directory, const char *group, const char *suffix,
                          char path[TT_PATH_MAX])
{
  char name[TT_PATH_MAX], *end = name;
  for (const char *c = group; *c && end < name + sizeof name - 16; c++) {
    int plain = isalnum((unsigned char)*c) || (unsigned char)*c > 127 || strchr(" -_,()+=@~", *c);
    if (plain || (*c == '.' && c > group))
      *end++ = *c;
    else
      end += sprintf(end, "%%%02X", (unsigned char)*c);
  }
  strcpy(end, suffix);
  tt_path_join(directory, name, path);
}

/* The export of all groups that can predict, a file for each. */
typedef struct group_export {
  const tt_trained_ensembles *all;
  const tt_export_options *o;
  const char *model, *directory;
  char temporary[TT_PATH_MAX]; /* folder in `directory` */
} group_export;

static tt_err write_group(const group_export *x, int64_t g, const char *temporary, const char *file)
{
  tt_trained_ensemble *one = NULL;
  const tt_trained_ensembles own = {.at = &one, .count = 1, .hash = x->all->hash};
  TT_TRY(tt_file_check_output(file, x->o->force, (const char *const[]){x->o->model, NULL}));
  TT_TRY(tt_by_groups_extract(x->all->at[0], g, &one));
  tt_err e = export_model(&own, NULL, x->model, temporary, x->o->format, TT_LOG_DEBUG);
  tt_trained_ensemble_destroy(&one);
  return e;
}

/* move 0: write the file of each group into the temporary folder; 1: rename the files from there
 * into the directory. */
static tt_err each_group(const group_export *x, int move, int64_t *files)
{
  const tt_trained_ensemble *groups = x->all->at[0];
  const char *suffix = strrchr(format_file[x->o->format], '.');
  for (int64_t g = *files = 0; g < groups->ensembles; g++) {
    char temporary[TT_PATH_MAX], file[TT_PATH_MAX];
    if (!tt_export_can_predict(groups, g)) continue;
    put_file_name(x->temporary, groups->groups->name[g], suffix, temporary);
    put_file_name(x->directory, groups->groups->name[g], suffix, file);
    if (!move) TT_TRY(write_group(x, g, temporary, file));
    if (move && rename(temporary, file))
      return TT_FAIL(IO, "%s: cannot be renamed to %s: %s", temporary, file, strerror(errno));
    ++*files;
  }
  return TT_OK;
}

/* If a file cannot be written, there is none of them. */
static tt_err export_each_group(group_export *x)
{
  char inside[TT_PATH_MAX];
  int64_t files;
  int exists;
  TT_TRY(tt_file_exists(x->directory, &exists));
  if (exists && !x->o->force)
    return TT_FAIL(CANTCREAT,
                   "%s exists: give the name of a new directory, or --force to replace its files",
                   x->directory);
  TT_TRY(tt_directory_create(x->directory));
  tt_path_join(x->directory, "groups", inside);
  tt_err e = tt_file_temporary_name_local(inside, x->temporary);
  if (!e) e = tt_directory_create(x->temporary);
  if (!e) e = each_group(x, 0, &files);
  if (!e) e = each_group(x, 1, &files);
  if (!e) e = tt_file_sync_local(x->directory);
  const tt_err_record kept = *tt_err_record_of_thread();
  tt_err removed = tt_directory_remove(x->temporary);
  if (e) *tt_err_record_of_thread() = kept;
  if (e && !exists) rmdir(x->directory);
  if (e || removed) return e ? e : removed;
  tt_log_root(TT_LOG_INFO, "%s: a file for each group, %" PRId64 " file%s", x->directory, files,
              tt_plural(files));
  return TT_OK;
}

/* One file for all groups of `all`, which has them. */
static tt_err export_groups_together(tt_trained_ensembles *all, const char *model, const char *file,
                                     tt_export_format format)
{
  tt_trained_ensemble *groups = all->at[0];
  int64_t first = 0; /* the group that stands for all of them */
  while (first < groups->ensembles - 1 && !tt_export_can_predict(groups, first)) first++;
  tt_err e = tt_by_groups_extract(groups, first, &all->at[0]);
  if (!e) e = export_model(all, groups, model, file, format, TT_LOG_INFO);
  tt_trained_ensemble_destroy(&groups);
  return e;
}

tt_err tt_export_local(const tt_export_options *o)
{
  tt_trained_ensembles all = {0};
  const char *file = o->output ? o->output : format_file[o->format];
  if (o->group && o->format == TT_EXPORT_torch)
    return TT_FAIL(USAGE,
                   "--torch writes all groups: leave --group out, and choose in Python with "
                   "Ensemble(group=\"%s\")",
                   o->group);
  TT_TRY(tt_model_read_group_local(o->model, NULL, 0, (tt_model_choice){o->group, 1}, &all));
  char *path = realpath(o->model, NULL);
  const char *model = path ? path : o->model;
  int each = all.at[0]->groups && o->format == TT_EXPORT_onnx;
  group_export groups = {&all, o, model, o->output ? o->output : "models", ""};
  tt_err e = each ? export_each_group(&groups)
                  : tt_file_check_output(file, o->force, (const char *const[]){o->model, NULL});
  if (!e && !each && all.at[0]->groups)
    e = export_groups_together(&all, model, file, o->format);
  else if (!e && !each)
    e = export_model(&all, NULL, model, file, o->format, TT_LOG_INFO);
  free(path);
  tt_trained_ensembles_destroy(&all);
  return e;
}
