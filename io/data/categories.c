/* categories.c — data.categories and data.missing: indicator: which inputs of the networks the
 * columns become; see data_internal.h. */
#include "io/data/data_internal.h"

#include "core/base/mem.h"
#include "core/base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_ROWS = 4096 };

/* Different values of a column, ascending. */
typedef struct value_set {
  int64_t count;
  double *value; /* [TT_MAX_LEVELS] */
} value_set;

typedef struct finder {
  const tt_config *cfg;
  const char *file;
  const tt_columns *input;
  int64_t columns;    /* D */
  int8_t *categories; /* [D] */
  value_set *of;      /* [D] */
} finder;

static void finder_free(finder *f)
{
  for (int64_t d = 0; f->of && d < f->columns; d++) tt_free(f->of[d].value);
  tt_free_all(&f->of, &f->categories);
}

static tt_err finder_create(finder *f)
{
  f->columns = f->input->count;
  TT_TRY(TT_ALLOC(f->categories, f->columns));
  TT_TRY(TT_ALLOC(f->of, f->columns));
  if (!tt_data_has_categories(f->cfg)) return TT_OK;
  TT_TRY(tt_data_resolve_categories(f->cfg->data_categories, f->file, f->input, f->categories));
  for (int64_t d = 0; d < f->columns; d++)
    if (f->categories[d]) TT_TRY(TT_ALLOC(f->of[d].value, TT_MAX_LEVELS));
  return TT_OK;
}

static tt_err add_value(const finder *f, int64_t d, double v)
{
  value_set *s = &f->of[d];
  int64_t position = tt_lower_bound(&v, s->value, s->count, sizeof v, tt_compare_f64);
  if (position < s->count && s->value[position] == v) return TT_OK;
  if (s->count == TT_MAX_LEVELS)
    return TT_FAIL(DATA,
                   "%s: data.categories: the training rows have more than %d values of '%s'; is it "
                   "an amount?",
                   f->file, TT_MAX_LEVELS, f->input->name[d]);
  memmove(s->value + position + 1, s->value + position,
          (size_t)(s->count - position) * sizeof *s->value);
  s->value[position] = v;
  s->count++;
  return TT_OK;
}

/* Add the training rows of x [count][D]; split of these rows. */
static tt_err add_rows(const finder *f, int64_t count, const double *x, const int8_t *split)
{
  for (int64_t i = 0; i < count; i++)
    for (int64_t d = 0; d < f->columns && split[i] == TT_TRAIN; d++) {
      double v = x[i * f->columns + d];
      if (!f->categories[d] || isnan(v)) continue;
      if (isinf(v))
        return TT_FAIL(DATA, "%s: data.categories: '%s' is %g in a training row; a level is finite",
                       f->file, f->input->name[d], v);
      TT_TRY(add_value(f, d, v == 0.0 ? 0.0 : v)); /* -0 is 0 */
    }
  return TT_OK;
}

/* Numbers of texts become the numbers that all texts of the column write. */
static tt_err replace_values(const finder *f, int64_t d, const double *number)
{
  value_set old = f->of[d];
  f->of[d] = (value_set){0, NULL};
  tt_err e = TT_ALLOC(f->of[d].value, TT_MAX_LEVELS);
  for (int64_t k = 0; !e && k < old.count; k++) {
    double v = number[(int64_t)old.value[k]];
    e = add_value(f, d, v == 0.0 ? 0.0 : v);
  }
  tt_free(old.value);
  return e;
}

/* The texts of the training rows in their order, text [TT_MAX_LEVELS] borrowed, with the values 0,
 * 1, ... */
static void sort_texts(const finder *f, int64_t d, const tt_levels *l, char **text)
{
  value_set *s = &f->of[d];
  int64_t n = 0;
  for (int64_t k = 0; k < l->count; k++) {
    double number = (double)l->sorted[k];
    if (bsearch(&number, s->value, (size_t)s->count, sizeof number, tt_compare_f64))
      text[n++] = l->text[l->sorted[k]];
  }
  for (int64_t k = 0; k < n; k++) s->value[k] = (double)k;
}

static tt_err describe_column(const finder *f, int64_t d, const tt_levels *l, char **text,
                              tt_net_column *c)
{
  value_set *s = &f->of[d];
  double *number = NULL;
  c->categories = (tt_categories)f->categories[d];
  if (!c->categories) return TT_OK;
  if (l && l->count) {
    char decimal = tt_data_format(f->cfg).decimal;
    TT_TRY(TT_ALLOC(number, l->count));
    int numbers = tt_levels_parse_numbers(l, decimal, number);
    tt_err e = numbers ? replace_values(f, d, number) : TT_OK;
    tt_free(number);
    if (e) return e;
    if (!numbers) sort_texts(f, d, l, text), c->text = text;
  }
  c->levels = s->count;
  c->level = s->value;
  if (s->count) return TT_OK;
  return TT_FAIL(DATA, "%s: no training row has a value of '%s'; leave the column out", f->file,
                 f->input->name[d]);
}

/*   levels  of the texts, or NULL */
static tt_err describe(const finder *f, const tt_input_levels *levels, tt_net_inputs *out)
{
  int8_t *missing = NULL, *indicator = NULL;
  tt_net_column *column = NULL;
  char **text = NULL;
  int64_t texts = 0;
  for (int64_t d = 0; d < f->columns; d++) texts += f->categories[d] != 0;
  tt_err e = TT_ALLOC(missing, f->columns);
  if (!e) e = TT_ALLOC(indicator, f->columns);
  if (!e) e = TT_ALLOC(column, f->columns);
  if (!e) e = TT_ALLOC(text, texts * TT_MAX_LEVELS);
  if (!e) e = tt_data_missing_local(f->cfg, f->file, f->input, f->categories, missing, indicator);
  for (int64_t d = 0, at = 0; !e && d < f->columns; d++) {
    column[d].indicator = indicator[d];
    e = describe_column(f, d, levels ? &levels->of[d] : NULL, text + at, &column[d]);
    if (f->categories[d]) at += TT_MAX_LEVELS;
  }
  if (!e) e = tt_net_inputs_create(f->columns, column, out);
  tt_free_all(&missing, &indicator, &column, &text);
  return e;
}

static tt_err read_levels(const finder *f, tt_data_reader *r, tt_row_parts *parts)
{
  int64_t rows = tt_data_reader_shape(r)->rows;
  double *x = NULL;
  tt_err e = TT_ALLOC(x, CHUNK_ROWS * f->columns);
  if (!e) e = tt_data_find_parts_local(r, f->cfg, NULL, parts);
  for (int64_t first = 0; !e && first < rows; first += CHUNK_ROWS) {
    int64_t count = rows - first < CHUNK_ROWS ? rows - first : CHUNK_ROWS;
    e = tt_data_reader_read_local(r, first, count, x, NULL);
    if (!e) e = add_rows(f, count, x, parts->split + first);
  }
  tt_free(x);
  return e;
}

tt_err tt_data_find_net_inputs_local(const tt_config *cfg, tt_data_reader *r, tt_row_parts *parts,
                                     tt_net_inputs *out)
{
  finder f = {.cfg = cfg, .file = cfg->data_file, .input = &tt_data_reader_shape(r)->input};
  tt_input_levels *levels = tt_data_reader_levels_local(r);
  tt_err e = finder_create(&f);
  if (!e && tt_data_has_categories(cfg)) e = read_levels(&f, r, parts);
  if (!e) e = describe(&f, levels->columns ? levels : NULL, out);
  finder_free(&f);
  return e;
}

tt_err tt_data_job_shape_local(const tt_config *cfg, tt_data_shape *out)
{
  tt_data_reader *r = NULL;
  tt_net_inputs net = {0};
  tt_row_parts parts = {0};
  TT_TRY(tt_data_reader_open_job_local(cfg, &r));
  tt_err e = tt_data_find_net_inputs_local(cfg, r, &parts, &net);
  tt_row_parts_free(&parts);
  int64_t net_inputs = net.count;
  tt_net_inputs_free(&net);
  if (e) {
    tt_data_reader_close_local(&r);
    return e;
  }
  tt_data_reader_take_shape(&r, out);
  out->net_inputs = net_inputs;
  return TT_OK;
}

/* Collective */

/* Rank 0. */
static tt_err find_levels_local(const tt_config *cfg, tt_row_parts *parts, tt_row_marks *marks,
                                tt_net_inputs *out)
{
  tt_data_reader *r = NULL;
  TT_TRY(tt_data_reader_open_job_local(cfg, &r));
  tt_err e = tt_data_find_net_inputs_local(cfg, r, parts, out);
  if (!e) e = tt_row_marks_copy(tt_data_reader_marks(r), marks);
  tt_data_reader_close_local(&r);
  return e;
}

tt_err tt_data_find_levels(tt_comm *c, const tt_config *cfg, tt_row_parts *parts,
                           tt_row_marks *marks, tt_net_inputs *out)
{
  char *bytes = NULL;
  int root = tt_comm_is_root(c);
  tt_err e = tt_agree(c, root ? find_levels_local(cfg, parts, marks, out) : TT_OK);
  if (e) return e;
  int64_t size = root ? tt_net_inputs_pack(out, NULL) : 0, used;
  e = tt_agree(c, root ? tt_alloc_bytes(&bytes, size, 1, "the levels of the inputs") : TT_OK);
  if (!e && root) tt_net_inputs_pack(out, bytes);
  if (!e) e = tt_bcast_block(c, &bytes, &size);
  if (!e) e = tt_agree(c, root ? TT_OK : tt_net_inputs_unpack(bytes, out, &used));
  tt_free(bytes);
  return e;
}
