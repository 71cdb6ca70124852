/* check.c — whether the values of a data file are what its job needs; see data_internal.h. */
#include "io/data/data_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tt_err tt_loader_bad_value(const tt_loader *l, const tt_sample_array *p, const tt_columns *names,
                           int64_t i, const char *cure, const char *const option[2])
{
  int64_t row = l->first + i / p->columns, column = i % p->columns;
  const char *name = names ? names->name[column] : NULL;
  char place[TT_ERR_MESSAGE_SIZE / 8], what[32], whole[256];
  if (l->rows && p != &l->w)
    tt_data_reader_place_local(l->rows, p == &l->y, row, column, place, sizeof place);
  else if (l->rows)
    tt_source_place_local(tt_data_reader_file_local(l->rows), &l->weights, row, column, name, place,
                          sizeof place);
  else
    tt_row_place(l->file, p->path, row, column, name, place, sizeof place);
  int has_lines = l->rows && !tt_data_reader_file_local(l->rows)->h5;
  int64_t line = has_lines ? atoll(place + strlen(l->file) + 1) : 0; /* of a CSV file */
  snprintf(what, sizeof what, "%g", p->own[i]);
  snprintf(whole, sizeof whole, "%s%s", cure, has_lines ? "" : " (rows and columns count from 0)");
  if (!l->problems) return TT_FAIL(DATA, "%s: %s; %s", place, what, whole);
  tt_problems_add(l->problems, &(tt_problem){.place = place,
                                             .number = line ? line : row,
                                             .column = name ? name : p->path,
                                             .what = what,
                                             .cure = whole,
                                             .option = option ? option[0] : NULL,
                                             .value = option ? option[1] : NULL});
  return TT_OK;
}

/* Error: a value that the transform of its column has no result for. */
static tt_err untransformable(const tt_loader *l, const tt_sample_array *p, const tt_columns *names,
                              int64_t i, tt_normalize normalize)
{
  char cure[128];
  snprintf(cure, sizeof cure,
           "data.normalize: %s needs a value %s; use yeo_johnson or standard for this column",
           tt_choice_normalize[normalize], tt_transform_wants(tt_normalize_transform(normalize)));
  return tt_loader_bad_value(l, p, names, i, cure, NULL);
}

/* Missing values (NaN) pass. */
static tt_err check_transforms_local(const tt_loader *l, const tt_sample_array *p,
                                     const tt_columns *names, const int8_t *normalize)
{
  for (int64_t i = 0; i < l->count * p->columns; i++) {
    tt_normalize how = (tt_normalize)normalize[i % p->columns];
    if (!isnan(p->own[i]) && !tt_transform_accepts(tt_normalize_transform(how), p->own[i]))
      TT_TRY(untransformable(l, p, names, i, how));
  }
  return TT_OK;
}

static tt_err check_inputs_local(const tt_loader *l)
{
  static const char *const mean[] = {"missing", "mean"};
  static const char *const indicator[] = {"missing", "indicator"};
  const tt_sample_array *x = &l->x;
  const tt_net_inputs *net = &l->d->scaler.net;
  for (int64_t i = 0; i < l->count * x->columns; i++) {
    int64_t k = i % x->columns;
    int may_miss = l->missing[k] != TT_MISSING_error || l->indicator[k];
    const char *fault = tt_data_input_fault(net, k, may_miss, x->own[i]);
    const char *const *option = tt_net_inputs_is_category(net, k) ? indicator : mean;
    if (fault)
      TT_TRY(tt_loader_bad_value(l, x, &l->d->input, i, fault, isnan(x->own[i]) ? option : NULL));
  }
  return TT_OK;
}

tt_err tt_loader_check_local(const tt_loader *l)
{
  const tt_sample_array *y = &l->y, *w = &l->w;
  TT_TRY(check_inputs_local(l));
  for (int64_t i = 0; i < l->count * y->columns; i++) {
    const char *fault = isinf(y->own[i])
                            ? "a target must be finite, or NaN where unlabeled"
                            : tt_label_invalid_reason(&l->label[i % y->columns], y->own[i]);
    if (fault) TT_TRY(tt_loader_bad_value(l, y, &l->d->target, i, fault, NULL));
  }
  for (int64_t i = 0; i < l->count * w->columns; i++)
    if (!isfinite(w->own[i]) || w->own[i] < 0)
      TT_TRY(tt_loader_bad_value(l, w, NULL, i, "a weight must be a finite number and not negative",
                                 NULL));
  TT_TRY(check_transforms_local(l, &l->x, &l->d->input, l->d->scaler.x_normalize));
  return check_transforms_local(l, y, &l->d->target, l->d->scaler.y_normalize);
}
