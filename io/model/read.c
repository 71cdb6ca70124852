/* read.c — reading of model_file.h; the sizes are read in read_shape.c, the tables of
 * members and ensembles in read_tables.c. */
#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/groups/by_groups.h"
#include "core/model/state.h"
#include "io/model/model_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static tt_err read_columns(tt_h5_reader *r, const char *names, const char *units, int64_t count,
                           tt_columns *out)
{
  *out = (tt_columns){.count = count};
  TT_TRY(tt_schema_read_texts_local(r, names, count, &out->name));
  TT_TRY(tt_schema_read_texts_local(r, units, count, &out->units));
  TT_TRY(TT_ALLOC(out->classes, count));
  for (int64_t i = 0; i < count; i++) TT_TRY(tt_text_set(&out->classes[i], ""));
  out->given = tt_schema_names_given_local(r, names);
  if (!tt_h5_has_attr_local(r, names, "id")) return TT_OK;
  return tt_h5_read_attr_text_local(r, names, "id", &out->id);
}

/* A list that cannot be parsed ends here, so that every later use can. */
static tt_err read_classes(tt_h5_reader *r, tt_columns *c)
{
  tt_list *names = NULL;
  char **text = NULL;
  TT_TRY(tt_schema_read_texts_local(r, "names/target_classes", c->count, &text));
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < c->count; i++) {
    if (*text[i]) e = tt_list_parse("names/target_classes", text[i], &names);
    if (e) e = TT_FAIL(DATA, "%s: %s" TT_DAMAGED, tt_h5_file_name(r), tt_err_last());
    if (!e) e = tt_text_set(&c->classes[i], text[i]);
    tt_list_destroy(&names);
  }
  tt_h5_texts_free(c->count, &text);
  return e;
}

static tt_err read_finite(tt_h5_reader *r, const char *path, int64_t n, double *out)
{
  TT_TRY(tt_schema_read_local(r, path, TT_H5_F64, 1, &n, out));
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(out[i]))
      return TT_FAIL(DATA, "%s: '%s' of column %" PRId64 " is %g" TT_DAMAGED, tt_h5_file_name(r),
                     path, i, out[i]);
  return TT_OK;
}

/* Normalization of each column by its name. */
static tt_err read_normalize(tt_h5_reader *r, const char *names, int64_t n, int8_t *normalize)
{
  char **name = NULL;
  TT_TRY(tt_schema_read_texts_local(r, names, n, &name));
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < n; i++) {
    int k = 0;
    while (k < TT_NORMALIZE_COUNT && strcmp(name[i], tt_choice_normalize[k])) k++;
    normalize[i] = (int8_t)k;
    if (k == TT_NORMALIZE_COUNT)
      e = TT_FAIL(DATA, "%s: '%s' of column %" PRId64 " is '%s', which this program does not know",
                  tt_h5_file_name(r), names, i, name[i]);
  }
  tt_h5_texts_free(n, &name);
  return e;
}

/* Finite; residuals are not negative. */
static tt_err read_components(tt_h5_reader *r, int64_t components, tt_scaler *s)
{
  if (!components) return TT_OK;
  TT_TRY(tt_scaler_add_components(s, components));
  TT_TRY(tt_h5_read_rows_local(r, "scaler/y_component", TT_H5_F64, 0, components, s->component));
  TT_TRY(read_finite(r, "scaler/y_component_mean", s->targets, s->component_mean));
  TT_TRY(read_finite(r, "scaler/y_residual", s->targets, s->residual));
  for (int64_t i = 0; i < components * s->targets; i++)
    if (!isfinite(s->component[i]) || !(s->residual[i % s->targets] >= 0.0))
      return TT_FAIL(DATA,
                     "%s: 'scaler/y_component' of target %" PRId64 " is %g, 'scaler/y_residual' "
                     "%g" TT_DAMAGED,
                     tt_h5_file_name(r), i % s->targets, s->component[i],
                     s->residual[i % s->targets]);
  return TT_OK;
}

/* Of `inputs` columns, which are `net_inputs` inputs of the networks. */
static tt_err read_scaler(tt_h5_reader *r, int64_t inputs, int64_t net_inputs, int64_t targets,
                          tt_scaler *out)
{
  TT_TRY(tt_scaler_create(inputs, targets, out));
  TT_TRY(tt_net_inputs_read_local(r, inputs, net_inputs, &out->net));
  TT_TRY(read_normalize(r, "scaler/x_normalize", inputs, out->x_normalize));
  return read_normalize(r, "scaler/y_normalize", targets, out->y_normalize);
}

/* Finite, unless the member diverged; p: members of one network. */
static tt_err check_parameters(tt_h5_reader *r, const tt_trained_ensemble *p)
{
  const float *w = p->w;
  for (int64_t i = 0; i < p->members; i++)
    for (int64_t j = 0; j < p->model.params; j++, w++)
      if (!isfinite(*w) && p->status[i] != TT_STATUS_diverged)
        return TT_FAIL(DATA,
                       "%s: 'net/parameters' of member %" PRId64
                       " holds %g, but the member did not diverge" TT_DAMAGED,
                       tt_h5_file_name(r), i, (double)*w);
  return TT_OK;
}

/* The parameters of m, the first of them at `first`. */
static tt_err read_parameters(tt_h5_reader *r, int64_t first, const tt_trained_ensemble *m)
{
  int64_t count = tt_trained_ensemble_parameters(m);
  tt_ensemble own;
  TT_TRY(tt_h5_read_rows_local(r, "net/parameters", TT_H5_F32, first, count, m->w));
  for (int64_t k = 0; k < tt_trained_ensemble_networks(m); k++) {
    const tt_trained_ensemble part = tt_trained_ensemble_part(m, k, &own);
    TT_TRY(check_parameters(r, &part));
  }
  return TT_OK;
}

/* Columns, scales and ranges, which are the same for all networks. */
static tt_err read_inputs(tt_h5_reader *r, const tt_model_file_info *w, const tt_model_tables *t,
                          tt_trained_ensemble *m)
{
  TT_TRY(read_columns(r, "names/feature_name", "names/feature_units", t->inputs, &m->input));
  TT_TRY(read_columns(r, "names/target_name", "names/target_units", t->targets, &m->target));
  TT_TRY(read_classes(r, &m->target));
  TT_TRY(read_scaler(r, t->inputs, m->model.inputs, t->targets, &m->scaler));
  TT_TRY(read_components(r, w->components, &m->scaler));
  return tt_model_read_scales_local(r, m);
}

static tt_err copy_inputs(const tt_trained_ensemble *src, tt_trained_ensemble *m)
{
  size_t bytes = (size_t)m->model.inputs * sizeof *m->x_low;
  TT_TRY(tt_columns_copy(&src->input, &m->input));
  TT_TRY(tt_columns_copy(&src->target, &m->target));
  memcpy(m->x_low, src->x_low, bytes);
  memcpy(m->x_high, src->x_high, bytes);
  return tt_scaler_copy(&src->scaler, &m->scaler);
}

/* Labels that are classes, probabilities or counts are not normalized: target k of ensemble e has
 * mean 0 and scale 1. */
static tt_err check_label_scale(tt_h5_reader *r, const tt_trained_ensemble *m, const tt_ensemble *e,
                                int64_t k)
{
  static const char why[] = "has no normalized labels" TT_DAMAGED;
  const char *file = tt_h5_file_name(r), *output = tt_choice_output[m->model.output];
  const tt_scaler *s = &m->scaler;
  int32_t t = e->column[k];
  if (s->y_mean[t] != 0.0 || s->y_scale[t] != 1.0 || s->y_normalize[t] != TT_NORMALIZE_none)
    return TT_FAIL(DATA,
                   "%s: target '%s': 'scaler/y_mean' is %g, 'scaler/y_scale' %g, "
                   "'scaler/y_normalize' %s; expected 0, 1, none: output %s %s",
                   file, m->target.name[t], s->y_mean[t], s->y_scale[t],
                   tt_choice_normalize[s->y_normalize[t]], output, why);
  return TT_OK;
}

static tt_err check_label_scales(tt_h5_reader *r, const tt_trained_ensemble *m)
{
  if (tt_output_labels(m->model.output) == TT_LABEL_TYPE_real) return TT_OK;
  for (int64_t i = 0; i < m->ensembles; i++)
    for (int64_t k = 0; k < m->ensemble[i].targets; k++)
      TT_TRY(check_label_scale(r, m, &m->ensemble[i], k));
  return TT_OK;
}

/*   first  the first trained ensemble, which has been read; NULL: this is the first */
static tt_err fill_trained(tt_h5_reader *r, const tt_model_file_info *w, const tt_model_tables *t,
                           const tt_model_network_info *s, const tt_trained_ensemble *first,
                           tt_trained_ensemble *m)
{
  m->variance_floor = s->variance_floor;
  TT_TRY(tt_model_fill_tables_local(r, w, t, s, m));
  TT_TRY(first ? copy_inputs(first, m) : read_inputs(r, w, t, m));
  TT_TRY(check_label_scales(r, m));
  return read_parameters(r, s->first_parameter, m);
}

/* Not in every file. */
static tt_err read_epistemic(tt_h5_reader *r, tt_trained_ensembles *all)
{
  double *joined = NULL;
  int64_t columns = tt_trained_ensembles_columns(all), first = 0;
  if (!tt_h5_has_local(r, "typical_epistemic")) return TT_OK;
  tt_err e = tt_schema_read_array_local(r, "typical_epistemic", TT_H5_F64, 1, &columns, &joined);
  for (int64_t i = 0; !e && i < columns; i++)
    if (!(joined[i] >= 0.0) && !isnan(joined[i]))
      e = TT_FAIL(DATA, "%s: 'typical_epistemic' of column %" PRId64 " is %g" TT_DAMAGED,
                  tt_h5_file_name(r), i, joined[i]);
  for (int64_t i = 0; !e && i < all->count; i++) {
    tt_trained_ensemble *m = all->at[i];
    int64_t own = tt_trained_ensemble_columns(m);
    e = TT_ALLOC(m->typical_epistemic, own);
    if (!e) memcpy(m->typical_epistemic, joined + first, (size_t)own * sizeof *joined);
    first += own;
  }
  tt_free(joined);
  return e;
}

/* The networks of an ensemble predict the same. */
static tt_err check_networks(tt_h5_reader *r, int64_t n, const tt_model_network_info *s)
{
  const tt_model *a = &s[0].model;
  for (int64_t k = 1; k < n; k++) {
    const tt_model *b = &s[k].model;
    if (a->targets != b->targets || a->output != b->output || a->levels != b->levels ||
        memcmp(a->level, b->level, sizeof a->level) || s[0].variance_floor != s[k].variance_floor)
      return TT_FAIL(DATA,
                     "%s: the networks of ensemble %" PRId64
                     " have other targets or outputs than its first network" TT_DAMAGED,
                     tt_h5_file_name(r), s[0].ensemble);
  }
  return TT_OK;
}

/* The ensembles of network *next and of those that continue its ensemble; *next: the network after
 * them. */
static tt_err read_trained(tt_h5_reader *r, const tt_model_file_info *w, const tt_model_tables *t,
                           const tt_trained_ensemble *first, int64_t *next,
                           tt_trained_ensemble **out)
{
  tt_model_network_info *s = &w->network_info[*next];
  tt_network *network = NULL;
  int64_t n = 1, own = s->members;
  while (*next + n < w->networks && s[n].ensembles == 0) n++;
  TT_TRY(check_networks(r, n, s));
  TT_TRY(TT_ALLOC(network, n));
  for (int64_t k = 0; k < n; k++)
    network[k] = (tt_network){.model = s[k].model, .members = s[k].members};
  tt_err e = tt_trained_ensemble_create_mixed(n, network, s->ensembles, out);
  tt_free(network);
  if (e) return e;
  *next += n;
  s->members = (*out)->members;
  e = fill_trained(r, w, t, s, first, *out);
  s->members = own;
  return e;
}

const char *const tt_model_attributes[] = {"tutti_schema", "given", NULL};

static tt_err read_all(tt_h5_reader *r, tt_model_file_info *w, tt_model_tables *t,
                       tt_trained_ensembles *all)
{
  int64_t next = 0, count = 0;
  TT_TRY(tt_schema_check_local(r, TT_SCHEMA_MODEL, "model"));
  TT_TRY(tt_model_read_info_local(r, w));
  TT_TRY(tt_model_read_tables_local(r, w, t));
  for (int64_t k = 0; k < w->networks; k++) count += w->network_info[k].ensembles > 0;
  TT_TRY(tt_trained_ensembles_create(count, all));
  for (int64_t k = 0; k < count; k++)
    TT_TRY(read_trained(r, w, t, k > 0 ? all->at[0] : NULL, &next, &all->at[k]));
  TT_TRY(read_epistemic(r, all));
  TT_TRY(tt_calibration_read_local(r, all));
  return tt_schema_check_content_local(r, tt_model_attributes, &all->hash);
}

static tt_err no_such_group(const char *file, const tt_by_groups *g, const char *group)
{
  tt_suggestion near = {.word = group};
  for (int64_t i = 0; i < g->count; i++) tt_suggestion_consider(&near, g->name[i]);
  return TT_FAIL(USAGE, "%s: by %s has no group '%s' among its %" PRId64 " groups%s%s%s", file,
                 g->columns, group, g->count - g->pooled, *near.best ? "; did you mean '" : "",
                 near.best, *near.best ? "'?" : "");
}

/* Replace a model with groups by the model of the chosen group. */
static tt_err choose_group(const char *file, tt_model_choice choice, tt_trained_ensembles *all)
{
  const tt_by_groups *g = all->at[0]->groups;
  const char *group = choice.group;
  tt_trained_ensemble *one = NULL;
  if (!g && group)
    return TT_FAIL(USAGE, "%s: there is no group '%s': the model was trained without by", file,
                   group);
  if (!g || (choice.whole && !group)) return TT_OK;
  if (!group)
    return TT_FAIL(USAGE,
                   "%s has %" PRId64 " groups, one for each value of %s: choose one with --group, "
                   "for example '%s'",
                   file, g->count - g->pooled, g->columns, g->name[g->count - 1]);
  int64_t number = tt_by_groups_find(g, group);
  if (number < 0 && g->pooled && tt_by_groups_find_small(g, group) >= 0) number = 0;
  if (number < 0) return no_such_group(file, g, group);
  TT_TRY(tt_by_groups_extract(all->at[0], number, &one));
  tt_trained_ensemble_destroy(&all->at[0]);
  all->at[0] = one;
  return TT_OK;
}

/* Read from r, the file `file`, and close it. */
static tt_err read_and_close(tt_h5_reader *r, const char *file, tt_model_choice choice,
                             tt_trained_ensembles *out)
{
  tt_model_file_info w = {0};
  tt_model_tables tables = {0};
  tt_trained_ensembles all = {0};
  tt_err e = read_all(r, &w, &tables, &all);
  if (!e) e = choose_group(file, choice, &all);
  tt_model_tables_free(&w, &tables);
  tt_model_info_free(&w);
  tt_h5_close_local(&r);
  if (e) tt_trained_ensembles_destroy(&all);
  *out = all;
  return e;
}

tt_err tt_model_read_group(tt_comm *c, const char *file, tt_model_choice choice,
                           tt_trained_ensembles *out)
{
  tt_h5_reader *r = NULL;
  TT_TRY(tt_h5_open(c, file, &r));
  tt_err e = tt_agree(c, read_and_close(r, file, choice, out));
  if (e) tt_trained_ensembles_destroy(out);
  return e;
}

tt_err tt_model_read(tt_comm *c, const char *file, tt_trained_ensembles *out)
{
  return tt_model_read_group(c, file, (tt_model_choice){NULL, 0}, out);
}

tt_err tt_model_read_group_local(const char *file, const void *bytes, int64_t size,
                                 tt_model_choice choice, tt_trained_ensembles *out)
{
  tt_h5_reader *r = NULL;
  TT_TRY(bytes ? tt_h5_open_bytes_local(file, bytes, size, &r) : tt_h5_open_local(file, &r));
  return read_and_close(r, file, choice, out);
}

tt_err tt_model_read_local(const char *file, tt_trained_ensembles *out)
{
  return tt_model_read_group_local(file, NULL, 0, (tt_model_choice){NULL, 0}, out);
}
