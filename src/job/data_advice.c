/* data_advice.c — see data_advice.h. */
#include "src/job/data_advice.h"

#include "core/base/log.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_SHOWN = 3, NAMES = 640 };

/* "a, b, c, ..." */
typedef struct name_list {
  int64_t count;
  char text[NAMES];
} name_list;

static void include(name_list *l, const char *name, const char *other)
{
  size_t used = strlen(l->text);
  if (l->count < NAMES_SHOWN)
    snprintf(l->text + used, NAMES - used, "%s%.80s%s%.80s", l->count ? ", " : "", name,
             other ? " = " : "", other ? other : "");
  else if (l->count == NAMES_SHOWN)
    snprintf(l->text + used, NAMES - used, ", ...");
  l->count++;
}

static void add(tt_data_advice *a, const char *text, const char *names, const char *cure)
{
  snprintf(a->text[a->count++], TT_DATA_ADVICE_TEXT, "%s%s. %s", text, names, cure);
}

/* Inputs */

/* What the training rows have in one input. */
typedef struct input_values {
  uint64_t hash;
  int64_t input;
  int is_constant;
} input_values;

static int compare_values(const void *a, const void *b)
{
  const input_values *x = a, *y = b;
  if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
  return (x->input > y->input) - (x->input < y->input);
}

/* value[D]: one pass over the rows, in the order of memory. */
static void describe_inputs(const tt_dataset *d, input_values *value)
{
  const float *first = NULL;
  for (int64_t k = 0; k < d->inputs; k++)
    value[k] = (input_values){.hash = 1469598103934665603u, .input = k, .is_constant = 1};
  for (int64_t r = 0; r < d->rows; r++) {
    const float *x = d->x + r * d->inputs;
    if (d->split[r] != TT_TRAIN) continue;
    if (!first) first = x;
    for (int64_t k = 0; k < d->inputs; k++) {
      uint32_t bits;
      memcpy(&bits, &x[k], sizeof bits);
      value[k].hash = (value[k].hash ^ bits) * 1099511628211u; /* FNV-1a, a word at a time */
      value[k].is_constant &= x[k] == first[k];
    }
  }
}

static int are_equal(const tt_dataset *d, int64_t a, int64_t b)
{
  for (int64_t r = 0; r < d->rows; r++) {
    const float *x = d->x + r * d->inputs;
    if (d->split[r] == TT_TRAIN && x[a] != x[b]) return 0;
  }
  return 1;
}

/* Name of input k of the networks. Returns text[NAMES]. */
static const char *input_name(const tt_dataset *d, int64_t k, char *text)
{
  const tt_net_input *i = &d->scaler.net.at[k];
  return tt_net_input_name(i, d->input.name[i->column], text, NAMES);
}

static tt_err find_inputs(const tt_dataset *d, tt_data_advice *a)
{
  name_list constant = {0}, twice = {0}, complete = {0};
  char a_name[NAMES], b_name[NAMES];
  input_values *value = NULL;
  TT_TRY(TT_ALLOC(value, d->inputs));
  describe_inputs(d, value);
  for (int64_t k = 0; k < d->inputs; k++) {
    const tt_net_input *input = &d->scaler.net.at[k];
    if (!value[k].is_constant) continue;
    if (input->kind == TT_NET_INPUT_missing)
      include(&complete, d->input.name[input->column], NULL);
    else
      include(&constant, input_name(d, k, a_name), NULL);
  }
  qsort(value, (size_t)d->inputs, sizeof *value, compare_values);
  for (int64_t k = 1; k < d->inputs; k++) {
    const input_values *x = &value[k - 1], *y = &value[k];
    if (x->hash != y->hash || x->is_constant || !are_equal(d, x->input, y->input)) continue;
    include(&twice, input_name(d, x->input, a_name), input_name(d, y->input, b_name));
  }
  if (constant.count)
    add(a, "inputs with one value in all training rows: ", constant.text,
        "They say nothing about the targets, and another value in new rows is far from all "
        "training rows: leave them out.");
  if (complete.count)
    add(a, "data.missing: indicator has no effect on inputs that no training row lacks: ",
        complete.text, "Predictions for new rows without such an input will not be reliable.");
  if (twice.count)
    add(a, "inputs with the same values in all training rows: ", twice.text,
        "Leave one of each pair out: a network cannot know which of them to follow in new rows.");
  tt_free(value);
  return TT_OK;
}

/* Targets */

static int is_constant_target(const tt_dataset *d, int64_t k)
{
  float first = NAN;
  int64_t labels = 0;
  for (int64_t r = 0; r < d->rows; r++) {
    float y = d->y[r * d->targets + k];
    if (d->split[r] != TT_TRAIN || tt_label_is_unknown(y)) continue;
    if (!labels++) first = y;
    if (y != first) return 0;
  }
  return labels > 1;
}

static void find_targets(const tt_dataset *d, tt_data_advice *a)
{
  name_list constant = {0};
  for (int64_t k = 0; k < d->targets; k++)
    if (is_constant_target(d, k)) include(&constant, d->target.name[k], NULL);
  if (constant.count)
    add(a, "targets with one value in all training rows: ", constant.text,
        "There is nothing to learn: check the column.");
}

/* Rows and weights */

static tt_err include_ensemble(const tt_dataset *d, const tt_cohort *c, int64_t ensemble,
                               name_list *few)
{
  int64_t sets = tt_cohort_row_sets(c) / c->ensembles, trained = 0, validated = 0;
  int32_t *row = NULL;
  TT_TRY(tt_cohort_rows(c, d, ensemble * sets, TT_TRAIN, &row, &trained));
  tt_free(row);
  TT_TRY(tt_cohort_rows(c, d, ensemble * sets, TT_VALIDATION, &row, &validated));
  tt_free(row);
  char text[96];
  snprintf(text, sizeof text, "%.32s (%" PRId64 " row%s, %" PRId64 " weights)",
           c->ensemble[ensemble].name, trained, tt_plural(trained), c->model.params);
  if (!validated && trained < c->model.params) include(few, text, NULL);
  return TT_OK;
}

static tt_err find_few_rows(const tt_dataset *d, const tt_cohorts *all, tt_data_advice *a)
{
  name_list few = {0};
  for (int64_t i = 0; i < all->count; i++)
    for (int64_t e = 0; e < all->at[i]->ensembles; e++)
      TT_TRY(include_ensemble(d, all->at[i], e, &few));
  if (few.count)
    add(a, "fewer training rows than weights of a network, and no validation rows: ", few.text,
        "The members may fit the noise: give data.split.validation, so that the best epoch is "
        "kept.");
  return TT_OK;
}

/* Training rows that the ensemble leaves out because some of its labels are unknown. */
static void include_partial(const tt_dataset *d, const tt_ensemble *e, name_list *partial)
{
  int64_t left_out = 0;
  char text[96];
  for (int64_t r = 0; r < d->rows; r++)
    left_out += d->split[r] == TT_TRAIN && tt_dataset_row_is_partial(d, r, e->column, e->targets);
  snprintf(text, sizeof text, "%.32s (%" PRId64 " row%s)", e->name, left_out, tt_plural(left_out));
  if (left_out) include(partial, text, NULL);
}

static void find_partial_rows(const tt_dataset *d, const tt_cohorts *all, tt_data_advice *a)
{
  name_list partial = {0};
  for (int64_t i = 0; !d->partial_labels && i < all->count; i++)
    for (int64_t e = 0; e < all->at[i]->ensembles; e++)
      include_partial(d, &all->at[i]->ensemble[e], &partial);
  if (partial.count)
    add(a,
        "training rows without one of the targets of their ensemble are left out: ", partial.text,
        "With data.partial_labels: use they train the targets that they have; or train an "
        "ensemble for each target.");
}

tt_err tt_data_advice_find(const tt_dataset *d, const tt_cohorts *all, tt_data_advice *out)
{
  out->count = 0;
  TT_TRY(find_inputs(d, out));
  find_targets(d, out);
  find_partial_rows(d, all, out);
  return find_few_rows(d, all, out);
}

/* "ensemble all: 160 training rows with labels: u 80, v 131" */
static tt_err log_labels(const tt_dataset *d, const tt_cohort *c, const tt_ensemble *e)
{
  char text[NAMES] = "";
  int32_t *row = NULL;
  int64_t rows = 0;
  TT_TRY(tt_dataset_rows(d, TT_TRAIN, e->rows, e->column, e->targets, &row, &rows));
  for (int64_t k = 0; c->partial_labels && k < e->targets; k++) {
    char one[128];
    int64_t labels = 0;
    for (int64_t i = 0; i < rows; i++)
      labels += !tt_label_is_unknown(d->y[row[i] * d->targets + e->column[k]]);
    snprintf(one, sizeof one, "%.80s %" PRId64, d->target.name[e->column[k]], labels);
    tt_text_append(text, sizeof text, ", ", one);
  }
  tt_free(row);
  if (c->partial_labels)
    tt_log_root(TT_LOG_INFO, "ensemble %s: %" PRId64 " training rows with labels: %s", e->name,
                rows, text);
  return TT_OK;
}

tt_err tt_data_advice_log_local(const tt_dataset *d, const tt_cohorts *all)
{
  tt_data_advice advice = {0};
  for (int64_t i = 0; i < all->count; i++)
    for (int64_t e = 0; e < all->at[i]->ensembles; e++)
      TT_TRY(log_labels(d, all->at[i], &all->at[i]->ensemble[e]));
  TT_TRY(tt_data_advice_find(d, all, &advice));
  for (int64_t i = 0; i < advice.count; i++) tt_log_root(TT_LOG_WARN, "%s", advice.text[i]);
  return TT_OK;
}
