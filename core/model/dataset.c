/* dataset.c — see dataset.h. */
#include "core/model/dataset.h"

#include "core/base/mem.h"
#include "core/base/rng.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tt_err tt_columns_create(int64_t count, tt_columns *out)
{
  tt_columns c = {.count = count};
  tt_err e = TT_ALLOC(c.name, count);
  if (!e) e = TT_ALLOC(c.units, count);
  if (!e) e = TT_ALLOC(c.classes, count);
  for (int64_t i = 0; !e && i < count; i++) {
    e = tt_text_set(&c.name[i], "");
    if (!e) e = tt_text_set(&c.units[i], "");
    if (!e) e = tt_text_set(&c.classes[i], "");
  }
  if (e) tt_columns_free(&c);
  *out = c;
  return e;
}

tt_err tt_columns_copy(const tt_columns *src, tt_columns *out)
{
  tt_columns c = {0};
  tt_err e = tt_columns_create(src->count, &c);
  for (int64_t i = 0; !e && i < src->count; i++) {
    e = tt_text_set(&c.name[i], src->name[i]);
    if (!e) e = tt_text_set(&c.units[i], src->units[i]);
    if (!e && src->classes) e = tt_text_set(&c.classes[i], src->classes[i]);
  }
  c.given = src->given;
  c.errors = src->errors;
  if (!e && src->id) e = tt_text_set(&c.id, src->id);
  if (e) tt_columns_free(&c);
  *out = c;
  return e;
}

void tt_columns_free(tt_columns *c)
{
  for (int64_t i = 0; i < c->count; i++) {
    if (c->name) tt_free(c->name[i]);
    if (c->units) tt_free(c->units[i]);
    if (c->classes) tt_free(c->classes[i]);
  }
  tt_free_all(&c->name, &c->units, &c->classes, &c->id);
  c->count = 0;
  c->given = 0;
  c->errors = 0;
}

tt_err tt_columns_with_errors(const tt_columns *target, tt_columns *out)
{
  int64_t T = target->count;
  tt_err e = tt_columns_create(2 * T, out);
  for (int64_t i = 0; !e && i < T; i++) {
    e = tt_text_set(&out->name[i], target->name[i]);
    if (!e) e = tt_text_format(&out->name[T + i], "sd_%s", target->name[i]);
    for (int64_t k = i; !e && k < 2 * T; k += T) e = tt_text_set(&out->units[k], target->units[i]);
    if (!e && target->classes) e = tt_text_set(&out->classes[i], target->classes[i]);
  }
  out->given = target->given;
  out->errors = T;
  if (e) tt_columns_free(out);
  return e;
}

typedef struct named_column {
  const char *name;
  int64_t column;
} named_column;

static int by_name(const void *a, const void *b)
{
  return strcmp(((const named_column *)a)->name, ((const named_column *)b)->name);
}

static tt_err sort_names(const tt_columns *c, named_column **out)
{
  TT_TRY(TT_ALLOC(*out, c->count));
  for (int64_t i = 0; i < c->count; i++) (*out)[i] = (named_column){c->name[i], i};
  qsort(*out, (size_t)c->count, sizeof **out, by_name);
  return TT_OK;
}

/* Whether both have the same names, each once; fills from[]. */
static int match_names(const tt_columns *wanted, const named_column *a, const named_column *b,
                       int64_t *src)
{
  for (int64_t i = 0; i < wanted->count; i++)
    if (strcmp(a[i].name, b[i].name) != 0 || (i && !strcmp(a[i].name, a[i - 1].name))) return 0;
  for (int64_t i = 0; i < wanted->count; i++) src[a[i].column] = b[i].column;
  return 1;
}

tt_err tt_columns_compare(const tt_columns *wanted, const tt_columns *here, int64_t *src,
                          tt_columns_fit *fit)
{
  named_column *a = NULL, *b = NULL;
  int64_t same = 0;
  *fit = TT_COLUMNS_FIT_different;
  if (wanted->count != here->count) return TT_OK;
  while (same < here->count && !strcmp(wanted->name[same], here->name[same])) same++;
  if (same == here->count) *fit = TT_COLUMNS_FIT_same;
  tt_err e = same < here->count ? sort_names(wanted, &a) : TT_OK;
  if (!e && a) e = sort_names(here, &b);
  if (!e && b)
    *fit = match_names(wanted, a, b, src) ? TT_COLUMNS_FIT_reordered
           : wanted->given && here->given ? TT_COLUMNS_FIT_different
                                          : TT_COLUMNS_FIT_unnamed;
  for (int64_t i = 0; i < here->count && *fit != TT_COLUMNS_FIT_reordered; i++) src[i] = i;
  tt_free(a);
  tt_free(b);
  return e;
}

const char *tt_columns_list(const tt_columns *c, char *text, int64_t capacity)
{
  text[0] = '\0';
  for (int64_t i = 0; i < c->count; i++) {
    int fits = strlen(text) + strlen(c->name[i]) + 8 <= (size_t)capacity;
    tt_text_append(text, (size_t)capacity, ", ", fits ? c->name[i] : "...");
    if (!fits) break;
  }
  return text;
}

tt_err tt_scaler_create(int64_t inputs, int64_t targets, tt_scaler *out)
{
  tt_scaler s = {.inputs = inputs, .targets = targets};
  double **of_input[] = {&s.x_mean, &s.x_scale, &s.x_lambda, &s.x_fill};
  double **of_target[] = {&s.y_mean, &s.y_scale, &s.y_lambda};
  tt_err e = tt_net_inputs_create(inputs, NULL, &s.net);
  if (!e) e = TT_ALLOC(s.x_normalize, inputs);
  if (!e) e = TT_ALLOC(s.y_normalize, targets);
  for (int i = 0; !e && i < 4; i++) e = TT_ALLOC(*of_input[i], inputs);
  for (int i = 0; !e && i < 3; i++) e = TT_ALLOC(*of_target[i], targets);
  if (e) {
    tt_scaler_free(&s);
    return e;
  }
  for (int64_t i = 0; i < inputs; i++) s.x_scale[i] = s.x_lambda[i] = 1.0, s.x_fill[i] = NAN;
  for (int64_t i = 0; i < targets; i++) s.y_scale[i] = s.y_lambda[i] = 1.0;
  *out = s;
  return TT_OK;
}

tt_err tt_scaler_add_components(tt_scaler *s, int64_t components)
{
  s->components = components;
  TT_TRY(TT_ALLOC(s->component, components * s->targets));
  TT_TRY(TT_ALLOC(s->component_mean, s->targets));
  return TT_ALLOC(s->residual, s->targets);
}

static tt_err copy_components(const tt_scaler *src, tt_scaler *out)
{
  size_t targets = (size_t)src->targets * sizeof(double);
  if (!src->components) return TT_OK;
  TT_TRY(tt_scaler_add_components(out, src->components));
  memcpy(out->component, src->component, (size_t)src->components * targets);
  memcpy(out->component_mean, src->component_mean, targets);
  memcpy(out->residual, src->residual, targets);
  return TT_OK;
}

tt_err tt_scaler_copy(const tt_scaler *src, tt_scaler *out)
{
  TT_TRY(tt_scaler_create(src->inputs, src->targets, out));
  size_t inputs = (size_t)src->inputs, targets = (size_t)src->targets;
  memcpy(out->x_mean, src->x_mean, inputs * sizeof(double));
  memcpy(out->x_scale, src->x_scale, inputs * sizeof(double));
  memcpy(out->x_lambda, src->x_lambda, inputs * sizeof(double));
  memcpy(out->x_fill, src->x_fill, inputs * sizeof(double));
  memcpy(out->x_normalize, src->x_normalize, inputs);
  memcpy(out->y_mean, src->y_mean, targets * sizeof(double));
  memcpy(out->y_scale, src->y_scale, targets * sizeof(double));
  memcpy(out->y_lambda, src->y_lambda, targets * sizeof(double));
  memcpy(out->y_normalize, src->y_normalize, targets);
  tt_net_inputs_free(&out->net);
  tt_err e = tt_net_inputs_copy(&src->net, &out->net);
  if (!e) e = copy_components(src, out);
  if (e) tt_scaler_free(out);
  return e;
}

void tt_scaler_free(tt_scaler *s)
{
  tt_net_inputs_free(&s->net);
  tt_free_all(&s->x_mean, &s->x_scale, &s->y_mean, &s->y_scale, &s->x_normalize, &s->y_normalize,
              &s->x_lambda, &s->y_lambda, &s->x_fill, &s->component, &s->component_mean,
              &s->residual);
}

int tt_scaler_may_miss(const tt_scaler *s, int64_t column)
{
  return !isnan(s->x_fill[column]) || tt_net_inputs_has_indicator(&s->net, column);
}

int tt_scaler_fills(const tt_scaler *s)
{
  for (int64_t i = 0; i < s->inputs; i++)
    if (tt_scaler_may_miss(s, i)) return 1;
  return 0;
}

int64_t tt_scaler_transformed_target(const tt_scaler *s)
{
  for (int64_t i = 0; i < s->targets; i++)
    if (tt_normalize_transform((tt_normalize)s->y_normalize[i]) != TT_TRANSFORM_identity) return i;
  return -1;
}

double tt_scaler_normalize_input(const tt_scaler *s, int64_t i, double value)
{
  tt_transform f = tt_normalize_transform((tt_normalize)s->x_normalize[i]);
  if (isnan(value)) value = s->x_fill[i];
  double t = tt_transform_apply(f, s->x_lambda[i], value);
  return tt_normalize_value(t, s->x_mean[i], s->x_scale[i]);
}

/* Input i of the network where its column has this value. */
static double net_input(const tt_scaler *s, int64_t i, double value)
{
  const tt_net_input *in = &s->net.at[i];
  switch (in->kind) {
  case TT_NET_INPUT_level: return value == in->level;
  case TT_NET_INPUT_missing: return isnan(value) != 0;
  default: return tt_scaler_normalize_input(s, in->column, value);
  }
}

void tt_scaler_net_inputs(const tt_scaler *s, const double *raw, double *x)
{
  for (int64_t i = 0; i < s->net.count; i++) x[i] = net_input(s, i, raw[s->net.at[i].column]);
}

double tt_scaler_input_slope(const tt_scaler *s, int64_t i, double value)
{
  tt_transform f = tt_normalize_transform((tt_normalize)s->x_normalize[i]);
  if (isnan(value) || tt_net_inputs_is_category(&s->net, i)) return 0.0;
  return tt_transform_slope(f, s->x_lambda[i], value);
}

double tt_scaler_normalize_target(const tt_scaler *s, int64_t t, double value)
{
  tt_transform f = tt_normalize_transform((tt_normalize)s->y_normalize[t]);
  double transformed = tt_transform_apply(f, s->y_lambda[t], value);
  return tt_normalize_value(transformed, s->y_mean[t], s->y_scale[t]);
}

double tt_scaler_denormalize_target(const tt_scaler *s, int64_t t, double normalized)
{
  double transformed = tt_denormalize_value(normalized, s->y_mean[t], s->y_scale[t]);
  tt_transform f = tt_normalize_transform((tt_normalize)s->y_normalize[t]);
  return tt_transform_undo(f, s->y_lambda[t], transformed);
}

void tt_scaler_normalize_inputs(const tt_scaler *s, int64_t rows, const double *raw, float *x)
{
  const tt_net_inputs *n = &s->net;
  for (int64_t r = 0; r < rows; r++, raw += s->inputs, x += n->count)
    for (int64_t i = 0; i < n->count; i++) x[i] = (float)net_input(s, i, raw[n->at[i].column]);
}

void tt_scaler_label_variance(const tt_scaler *s, int64_t count, const double *y,
                              const double *sigma, float *variance)
{
  for (int64_t i = 0; i < count * s->targets; i++) {
    int64_t k = i % s->targets;
    tt_transform transform = tt_normalize_transform((tt_normalize)s->y_normalize[k]);
    double unit = tt_transform_slope(transform, s->y_lambda[k], y[i]) / s->y_scale[k];
    double normalized = sigma[i] * unit;
    variance[i] = isnan(y[i]) ? 0.0f : (float)(normalized * normalized);
  }
}

static tt_err allocate_groups(tt_by_groups *g, int64_t inputs)
{
  TT_TRY(TT_ALLOC(g->name, g->count));
  TT_TRY(TT_ALLOC(g->rows, g->count));
  TT_TRY(TT_ALLOC(g->scaler, g->count));
  TT_TRY(TT_ALLOC(g->x_low, g->count * inputs));
  TT_TRY(TT_ALLOC(g->x_high, g->count * inputs));
  TT_TRY(TT_ALLOC(g->small_name, g->small));
  return TT_ALLOC(g->small_rows, g->small);
}

tt_err tt_by_groups_create(int64_t count, int64_t small, int64_t inputs, tt_by_groups **out)
{
  tt_by_groups *g = NULL;
  TT_TRY(TT_ALLOC(g, 1));
  g->count = count;
  g->small = small;
  tt_err e = allocate_groups(g, inputs);
  if (e) tt_by_groups_destroy(&g);
  *out = g;
  return e;
}

void tt_by_groups_destroy(tt_by_groups **groups)
{
  tt_by_groups *g = *groups;
  if (!g) return;
  for (int64_t i = 0; g->name && i < g->count; i++) tt_free(g->name[i]);
  for (int64_t i = 0; g->scaler && i < g->count; i++) tt_scaler_free(&g->scaler[i]);
  for (int64_t i = 0; g->small_name && i < g->small; i++) tt_free(g->small_name[i]);
  tt_free_all(&g->columns, &g->ensemble, &g->name, &g->rows, &g->scaler, &g->x_low, &g->x_high,
              &g->small_name, &g->small_rows, groups);
}

static tt_err allocate(tt_dataset *d, int weighted)
{
  TT_TRY(TT_ALLOC(d->x, d->rows * d->inputs));
  TT_TRY(TT_ALLOC(d->y, d->rows * d->targets));
  TT_TRY(TT_ALLOC(d->split, d->rows));
  if (weighted) TT_TRY(TT_ALLOC(d->weight, d->rows));
  TT_TRY(tt_columns_create(d->inputs, &d->input));
  TT_TRY(tt_columns_create(d->targets, &d->target));
  return tt_scaler_create(d->inputs, d->targets, &d->scaler);
}

tt_err tt_dataset_create(int64_t rows, int64_t inputs, int64_t targets, int weighted,
                         tt_dataset **out)
{
  tt_dataset *d = NULL;
  TT_TRY(TT_ALLOC(d, 1));
  *d = (tt_dataset){.rows = rows, .inputs = inputs, .targets = targets};
  tt_err e = allocate(d, weighted);
  if (e) tt_dataset_destroy(&d);
  *out = d;
  return e;
}

tt_err tt_dataset_set_columns(tt_dataset *d, const tt_columns *input, const tt_columns *target,
                              tt_net_inputs *net)
{
  tt_columns_free(&d->input);
  tt_columns_free(&d->target);
  tt_scaler_free(&d->scaler);
  TT_TRY(tt_columns_copy(input, &d->input));
  TT_TRY(tt_columns_copy(target, &d->target));
  TT_TRY(tt_scaler_create(input->count, target->count, &d->scaler));
  tt_net_inputs_free(&d->scaler.net);
  d->scaler.net = *net;
  *net = (tt_net_inputs){0};
  return TT_OK;
}

tt_dataset tt_dataset_for_training(const tt_dataset *d)
{
  tt_dataset view = *d;
  if (!d->amplitude) return view;
  view.y = d->amplitude;
  view.targets = view.target.count = d->scaler.components;
  view.scaler.components = 0;
  return view;
}

void tt_dataset_destroy(tt_dataset **d)
{
  if (!*d) return;
  tt_free_all(&(*d)->x, &(*d)->y, &(*d)->amplitude, &(*d)->unit, &(*d)->label_variance,
              &(*d)->weight, &(*d)->split, &(*d)->selected, &(*d)->origin);
  tt_by_groups_destroy(&(*d)->groups);
  tt_columns_free(&(*d)->input);
  tt_columns_free(&(*d)->target);
  tt_row_ids_free(&(*d)->ids);
  tt_scaler_free(&(*d)->scaler);
  tt_free(*d);
}

tt_err tt_split_fractions(int64_t rows, const double fraction[TT_SPLITS], uint64_t seed,
                          int8_t *split)
{
  int64_t end[TT_SPLITS], next = 0;
  if (rows > UINT32_MAX)
    return TT_FAIL(DATA, "data.split: %" PRId64 " rows, but at most %" PRIu32 " are possible", rows,
                   UINT32_MAX);
  for (int k = 0; k < TT_SPLITS; k++) {
    next += (int64_t)llround(fraction[k] * (double)rows);
    end[k] = next < rows ? next : rows;
  }
  if (end[TT_TRAIN] < 1)
    return TT_FAIL(DATA, "data.split: train %g of %" PRId64 " rows leaves none to train on",
                   fraction[0], rows);
  tt_shuffle order = tt_shuffle_make((uint32_t)rows, seed, 0, TT_PURPOSE_SPLIT, 0);
  for (int64_t i = 0; i < rows; i++) {
    int8_t which = i < end[0] ? TT_TRAIN : i < end[1] ? TT_VALIDATION : TT_TEST;
    split[tt_shuffle_at(&order, (uint32_t)i)] = i < end[2] ? which : TT_UNUSED_ROW;
  }
  return TT_OK;
}

static int64_t count_labels(const tt_dataset *d, int64_t row, const int32_t *column, int64_t k)
{
  int64_t known = 0;
  for (int64_t j = 0; j < k; j++) known += !isnan(d->y[row * d->targets + column[j]]);
  return known;
}

int tt_dataset_row_is_partial(const tt_dataset *d, int64_t row, const int32_t *column, int64_t k)
{
  int64_t known = count_labels(d, row, column, k);
  return known > 0 && known < k;
}

tt_err tt_dataset_rows(const tt_dataset *d, tt_split which, tt_slice among, const int32_t *column,
                       int64_t k, int32_t **row, int64_t *count)
{
  int32_t *list = NULL;
  int64_t n = 0;
  if (!among.count) among = (tt_slice){0, d->rows};
  TT_TRY(TT_ALLOC(list, among.count));
  for (int64_t i = among.first; i < among.first + among.count; i++) {
    if (d->split[i] != (int8_t)which) continue;
    int64_t known = count_labels(d, i, column, k);
    if (known == k || (d->partial_labels && known > 0)) list[n++] = (int32_t)i;
  }
  *row = list;
  *count = n;
  return TT_OK;
}
