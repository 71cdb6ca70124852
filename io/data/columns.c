/* columns.c — names of columns in HDF5 files, and their order; see raw_data.h. */
#include "io/data/raw_data.h"
#include "io/hdf5/schema.h"

#include "core/base/log.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Replace the default names by those of the file, if it has as many. A file that tutti has not
 * written may use the same dataset name for something else: then warn and keep the default names.
 *   complete  1 = no default name is left */
static tt_err read_names(tt_h5_reader *r, const char *path, int64_t count, char **dst,
                         int *complete)
{
  int64_t n = 0;
  *complete = 0;
  char **text = NULL;
  if (!tt_h5_has_local(r, path)) return TT_OK;
  tt_err e = tt_h5_read_texts_local(r, path, &n, &text);
  if (e == TT_E_DATA) {
    tt_log_root(TT_LOG_WARN, "%s; not used", tt_err_last());
    return TT_OK;
  }
  if (!e && n != count)
    tt_log_root(TT_LOG_WARN,
                "%s: '%s' has %" PRId64 " texts, but the number of columns is %" PRId64
                "; not used",
                tt_h5_file_name(r), path, n, count);
  *complete = n == count;
  for (int64_t i = 0; !e && n == count && i < n; i++) {
    if (*text[i]) e = tt_text_set(&dst[i], text[i]);
    *complete &= *text[i] != '\0';
  }
  tt_h5_texts_free(n, &text);
  return e;
}

tt_err tt_h5_columns_read_units_local(tt_h5_reader *r, tt_columns *c)
{
  for (int64_t k = 0; k < c->count; k++) {
    char *text = NULL;
    tt_err e = TT_OK;
    if (tt_h5_has_attr_local(r, c->name[k], "units"))
      e = tt_h5_read_attr_text_local(r, c->name[k], "units", &text);
    if (!e && text) e = tt_text_set(&c->units[k], text);
    tt_free(text);
    if (e == TT_E_MEM) return e; /* units that are no text are not used */
  }
  return TT_OK;
}

tt_err tt_h5_columns_read_local(tt_h5_reader *r, const char *letter, const char *name,
                                const char *units, int64_t count, tt_columns *out)
{
  TT_TRY(tt_columns_create(count, out));
  for (int64_t i = 0; i < count; i++) {
    char made[32];
    snprintf(made, sizeof made, "%s%" PRId64, letter, i);
    TT_TRY(tt_text_set(&out->name[i], made));
  }
  int complete;
  TT_TRY(read_names(r, units, count, out->units, &complete));
  TT_TRY(read_names(r, name, count, out->name, &complete));
  out->given = complete && tt_schema_names_given_local(r, name);
  return TT_OK;
}

static tt_err different_columns_error(const char *file, const char *path, const tt_columns *here,
                                      const char *owner, const tt_columns *wanted)
{
  char have[2048], want[2048];
  return TT_FAIL(DATA,
                 "%s: dataset '%s' has %" PRId64 " column%s: %s; but %s has %" PRId64
                 ": %s; columns are matched by their names: both must have the same ones, in any "
                 "order, or one of them none",
                 file, path, here->count, tt_plural(here->count),
                 tt_columns_list(here, have, sizeof have), owner, wanted->count,
                 tt_columns_list(wanted, want, sizeof want));
}

static void log_fit(const char *file, const char *path, const tt_columns *here, const char *owner,
                    const tt_columns *wanted, tt_columns_fit fit)
{
  char have[512], want[512];
  tt_columns_list(here, have, sizeof have);
  tt_columns_list(wanted, want, sizeof want);
  if (fit == TT_COLUMNS_FIT_reordered)
    tt_log_root(TT_LOG_INFO, "%s: the columns of '%s' (%s) are used in the order of %s: %s", file,
                path, have, owner, want);
  if (fit == TT_COLUMNS_FIT_unnamed)
    tt_log_root(TT_LOG_INFO,
                "%s: the columns of '%s' (%s) are used by position, as those of %s (%s): one of "
                "them has no names",
                file, path, have, owner, want);
}

static tt_err reorder_names(const int64_t *src, tt_columns *c)
{
  tt_columns old = {0};
  tt_err e = tt_columns_copy(c, &old);
  for (int64_t i = 0; !e && i < c->count; i++) {
    e = tt_text_set(&c->name[i], old.name[src[i]]);
    if (!e) e = tt_text_set(&c->units[i], old.units[src[i]]);
    if (!e) e = tt_text_set(&c->classes[i], old.classes[src[i]]);
  }
  tt_columns_free(&old);
  return e;
}

tt_err tt_h5_columns_match_local(const char *file, const char *path, const tt_columns *wanted,
                                 const char *owner, int notice, tt_columns *here, int64_t **src)
{
  int64_t *order = NULL;
  tt_columns_fit fit;
  TT_TRY(TT_ALLOC(order, wanted->count));
  tt_err e = tt_columns_compare(wanted, here, order, &fit);
  if (!e && fit == TT_COLUMNS_FIT_different)
    e = different_columns_error(file, path, here, owner, wanted);
  if (!e && notice) log_fit(file, path, here, owner, wanted, fit);
  if (!e && fit == TT_COLUMNS_FIT_reordered) {
    e = reorder_names(order, here);
    *src = order;
    return e;
  }
  tt_free(order);
  return e;
}

void tt_columns_reorder(const int64_t *src, int64_t columns, int64_t count, double *value,
                        double *row)
{
  for (int64_t i = 0; src && i < count; i++, value += columns) {
    memcpy(row, value, (size_t)columns * sizeof *value);
    for (int64_t k = 0; k < columns; k++) value[k] = row[src[k]];
  }
}
