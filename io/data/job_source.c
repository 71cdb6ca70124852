/* job_source.c — what the section data of a job says about its file; see data.h. */
#include "io/data/data_internal.h"

#include "core/base/list.h"
#include "core/base/mem.h"
#include "io/hdf5/guarded_check.h"
#include "io/table/column_choice.h"

#include <stdio.h>
#include <string.h>

/* Characters of the values of data.delimiter and data.decimal. */
static const char delimiter_of[TT_DELIMITER_COUNT] = {
#define X(name, character) character,
    TT_DELIMITERS(X)
#undef X
};
static const char decimal_of[] = {'.', ','};

tt_table_format tt_data_format(const tt_config *cfg)
{
  return (tt_table_format){.delimiter = delimiter_of[cfg->data_delimiter],
                           .decimal = decimal_of[cfg->data_decimal],
                           .nas = cfg->data_na.count,
                           .na = (const char *const *)cfg->data_na.value,
                           .dates = cfg->data_dates.count,
                           .date = (const char *const *)cfg->data_dates.value,
                           .classes = cfg->data_classes};
}

int tt_data_may_miss(const tt_config *cfg)
{
  return cfg->data_missing && strcmp(cfg->data_missing, tt_choice_missing[TT_MISSING_error]) != 0;
}

/* Number of the name in the list, 0 if none is given. */
static tt_err find_choice(const char *option, const char *name, const char *const *list, int *out)
{
  char all[128] = "";
  *out = 0;
  name = tt_choice_of_character(name);
  for (int i = 0; name && list[i]; i++) {
    if (!strcmp(list[i], name)) return *out = i, TT_OK;
    tt_text_append(all, sizeof all, ", ", list[i]);
  }
  return name ? TT_FAIL(USAGE, "%s: there is no '%s'; give one of: %s", option, name, all) : TT_OK;
}

tt_err tt_data_format_parse(const char *delimiter, const char *decimal, tt_table_format *out)
{
  int separator, mark;
  TT_TRY(find_choice("--delimiter", delimiter, tt_choice_delimiter, &separator));
  TT_TRY(find_choice("--decimal", decimal, tt_choice_decimal, &mark));
  *out = (tt_table_format){.delimiter = delimiter_of[separator], .decimal = decimal_of[mark]};
  return TT_OK;
}

/* The targets of all ensembles, each once; *list stays NULL if an ensemble names none. */
static tt_err list_targets(const tt_config *cfg, char **list)
{
  for (int64_t k = 0; k < cfg->ensembles; k++) {
    const tt_ensemble_config *own = &cfg->ensemble[k];
    int one = own->target && *own->target;
    int64_t count = one ? 1 : own->targets.count;
    for (int64_t i = 0; i < count; i++) {
      const char *name = one ? own->target : own->targets.value[i];
      if (*list && tt_column_list_matches(*list, name)) continue;
      TT_TRY(tt_list_add(list, name));
    }
    if (count) continue;
    tt_free(*list);
    return TT_OK;
  }
  return TT_OK;
}

/* Texts of options that name other columns: those are no inputs. */
static tt_err list_others(const tt_config *cfg, const char ***other, int *others)
{
  const char *const option[] = {cfg->data_id,          cfg->data_sigma,
                                cfg->data_weights,     cfg->data_split_column,
                                cfg->data_split_group, cfg->data_split_order};
  enum { OPTIONS = sizeof option / sizeof *option };
  TT_TRY(TT_ALLOC(*other, OPTIONS + cfg->ensembles + cfg->top_by.count));
  for (int64_t k = 0; k < cfg->top_by.count; k++) (*other)[(*others)++] = cfg->top_by.value[k];
  for (int i = 0; i < OPTIONS; i++)
    if (option[i] && *option[i]) (*other)[(*others)++] = option[i];
  for (int64_t k = 0; k < cfg->ensembles; k++) {
    const char *rows = cfg->ensemble[k].rows;
    if (rows && *rows) (*other)[(*others)++] = rows;
  }
  return TT_OK;
}

tt_err tt_data_reader_open_job(tt_comm *c, const tt_config *cfg, const tt_net_inputs *net,
                               const tt_row_marks *marks, tt_data_reader **out)
{
  tt_table_format format = tt_data_format(cfg);
  format.marks = marks;
  char *targets = NULL;
  const char **other = NULL;
  int others = 0;
  tt_err e = list_targets(cfg, &targets);
  if (!e) e = list_others(cfg, &other, &others);
  const tt_data_spec spec = {.file = cfg->data_file,
                             .inputs = cfg->data_inputs,
                             .targets = cfg->data_targets,
                             .others = others,
                             .other = other,
                             .named_targets = targets,
                             .id = cfg->data_id && *cfg->data_id ? cfg->data_id : NULL,
                             .format = &format,
                             .missing_inputs = tt_data_may_miss(cfg),
                             .categories =
                                 tt_data_has_categories(cfg) ? cfg->data_categories : NULL,
                             .net = net};
  if (c) e = tt_agree(c, e);
  if (!e) e = c ? tt_data_reader_open(c, &spec, out) : tt_data_reader_open_spec_local(&spec, out);
  tt_free(targets);
  tt_free(other);
  return e;
}

tt_err tt_data_reader_open_job_local(const tt_config *cfg, tt_data_reader **out)
{
  return tt_data_reader_open_job(NULL, cfg, NULL, NULL, out);
}

/* "%name" for each option that names a column of values to split by, which may be a target, or of
 * ids, and for the columns of `by`. */
enum { MARKED = 4 };
static tt_err mark_values(const tt_config *cfg, char **marked)
{
  const char *const name[MARKED] = {cfg->data_split_group, cfg->data_split_stratify,
                                    cfg->data_split_order, cfg->data_id};
  for (int64_t i = 0; i < MARKED + cfg->top_by.count; i++) {
    const char *column = i < MARKED ? name[i] : cfg->top_by.value[i - MARKED];
    if (column && *column) TT_TRY(tt_text_format(&marked[i], "%%%s", column));
  }
  return TT_OK;
}

static tt_err check_datasets(const tt_config *cfg, char *const *value)
{
  const char *const always[] = {tt_optional_default(cfg->data_inputs),
                                tt_optional_default(cfg->data_targets), cfg->data_sigma,
                                cfg->data_weights, cfg->data_split_column};
  enum { ALWAYS = sizeof always / sizeof *always };
  const char **dataset = NULL;
  int64_t marked = MARKED + cfg->top_by.count;
  int n = ALWAYS, selections = 0;
  TT_TRY(TT_ALLOC(dataset, ALWAYS + marked + cfg->selections));
  memcpy(dataset, always, sizeof always);
  for (int64_t k = 0; k < marked; k++) dataset[n++] = value[k];
  for (int64_t k = 0; k < cfg->ensembles; k++)
    if (cfg->ensemble[k].selection == selections)
      selections++, dataset[n++] = cfg->ensemble[k].rows;
  tt_err e = tt_guarded_check_local(cfg->data_file, dataset, n);
  tt_free(dataset);
  return e;
}

tt_err tt_data_check_job_local(const tt_config *cfg)
{
  char **value = NULL;
  int64_t marked = MARKED + cfg->top_by.count;
  TT_TRY(TT_ALLOC(value, marked));
  tt_err e = mark_values(cfg, value);
  if (!e) e = check_datasets(cfg, value);
  tt_h5_texts_free(marked, &value);
  return e;
}
