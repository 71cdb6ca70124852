/* import.c — see import.h. */
#include "src/tools/import.h"

#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/files/files.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static tt_err check_no_overlap(const tt_columns *x, const tt_columns *y)
{
  for (int64_t i = 0; i < x->count; i++)
    for (int64_t k = 0; k < y->count; k++)
      if (!strcmp(x->name[i], y->name[k]))
        return TT_FAIL(USAGE, "column '%s' is given in --inputs and in --targets", x->name[i]);
  return TT_OK;
}

/* Parse one "column=unit"; split at the last =, since a name may contain one. */
static tt_err set_unit(char *item, tt_columns *const part[2])
{
  char *sign = strrchr(item, '=');
  if (!sign || sign == item) return TT_FAIL(USAGE, "--units: '%s' is not column=unit", item);
  *sign = '\0';
  for (int p = 0; p < 2; p++)
    for (int64_t k = 0; k < part[p]->count; k++)
      if (!strcmp(part[p]->name[k], item)) return tt_text_set(&part[p]->units[k], sign + 1);
  return TT_FAIL(USAGE, "--units: column '%s' is neither in --inputs nor in --targets", item);
}

static tt_err set_units(const char *text, tt_columns *x, tt_columns *y)
{
  if (!text || !*text) return TT_OK;
  tt_list *list = NULL;
  tt_err e = tt_list_parse("--units", text, &list);
  for (int64_t i = 0; !e && i < list->count; i++)
    e = set_unit(list->item[i], (tt_columns *const[]){x, y});
  tt_list_destroy(&list);
  return e;
}

static tt_err check_options(const tt_import_options *o)
{
  if (!o->table || !*o->table) return TT_FAIL(USAGE, "no table to import");
  if (!o->output || !*o->output) return TT_FAIL(USAGE, "no output file: give -o data.h5");
  if (!o->inputs || !*o->inputs)
    return TT_FAIL(USAGE, "no input columns: give --inputs with names of columns of %s", o->table);
  return tt_h5_check_output_local(o->output, o->force, (const char *const[]){o->table, NULL});
}

static tt_err write_output(const tt_import_options *o, tt_data_reader *r, const tt_columns *input,
                           const tt_columns *target)
{
  int64_t rows = tt_data_reader_shape(r)->rows, unlabeled = 0;
  double *x = NULL, *y = NULL;
  tt_err e = tt_alloc_bytes(&x, rows * input->count, sizeof *x, "the values of the table");
  if (!e) e = tt_alloc_bytes(&y, rows * target->count, sizeof *y, "the values of the table");
  if (!e) e = tt_data_reader_read_local(r, 0, rows, x, y);
  if (!e) e = tt_data_write_local(o->output, rows, input, target, x, y);
  for (int64_t i = 0; !e && i < rows * target->count; i++) unlabeled += isnan(y[i]) != 0;
  tt_free_all(&x, &y);
  if (e) return e;
  tt_log_root(TT_LOG_INFO,
              "%s: rows %" PRId64 ", inputs %" PRId64 ", targets %" PRId64
              ", unlabeled values %" PRId64,
              o->output, rows, input->count, target->count, unlabeled);
  return TT_OK;
}

tt_err tt_import_local(const tt_import_options *o)
{
  tt_table_format format = o->format;
  const tt_data_spec spec = {.file = o->table,
                             .inputs = o->inputs,
                             .targets = o->targets && *o->targets ? o->targets : NULL,
                             .format = &format};
  tt_columns x = {0}, y = {0};
  tt_data_reader *r = NULL;
  format.any_name = 1;
  TT_TRY(check_options(o));
  TT_TRY(tt_data_reader_open_spec_local(&spec, &r));
  tt_err e = tt_columns_copy(&tt_data_reader_shape(r)->input, &x);
  if (!e) e = tt_columns_copy(&tt_data_reader_shape(r)->target, &y);
  if (!e) e = check_no_overlap(&x, &y);
  if (!e) e = set_units(o->units, &x, &y);
  if (!e) e = write_output(o, r, &x, &y);
  tt_data_reader_close_local(&r);
  tt_columns_free(&x);
  tt_columns_free(&y);
  return e;
}
