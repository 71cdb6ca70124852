/* describe_file.c — see describe_file.h. */
#include "io/results/describe_file.h"

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "io/files/files.h"
#include "io/hdf5/provenance.h"

#include <stdio.h>
#include <string.h>

enum { INDENT = 13, MAX_NAMES = 100 };

/* A netCDF dimension without values is not printed. */
static int is_empty_dimension(tt_h5_reader *r, const char *path)
{
  int has_values;
  tt_h5_is_scale_local(r, path, &has_values);
  return !has_values;
}

/* Whether a dataset is a list of names: of inputs, targets, ensembles, ... */
static int is_names(const tt_h5_info *info)
{
  return info->kind == TT_H5_TEXT && (info->bytes == 1 ? info->ndims == 2 : info->ndims == 1);
}

static void set_attr(json_t **object, tt_h5_reader *r, const char *path, const char *name)
{
  char *text = NULL;
  int64_t value;
  if (!tt_h5_has_attr_local(r, path, name)) return;
  if (!tt_h5_read_attr_text_local(r, path, name, &text))
    tt_json_set(object, name, tt_json_text(text));
  else if (!tt_h5_read_attr_local(r, path, name, TT_H5_I64, 1, &value))
    tt_json_set(object, name, json_integer(value));
  tt_free(text);
}

static tt_err set_names(json_t **row, tt_h5_reader *r, const char *path)
{
  int64_t n = 0;
  char **name = NULL;
  TT_TRY(tt_h5_read_texts_local(r, path, &n, &name));
  json_t *list = json_array();
  for (int64_t i = 0; i < n; i++) json_array_append_new(list, tt_json_text(name[i]));
  tt_h5_texts_free(n, &name);
  tt_json_set(row, "values", list);
  return TT_OK;
}

static tt_err append_dataset(json_t *datasets, tt_h5_reader *r, const char *path)
{
  static const char *const kinds[] = {"float", "int", "text", "other"};
  tt_h5_info info;
  TT_TRY(tt_h5_dataset_info_local(r, path, &info));
  json_t *row = json_object(), *shape = json_array();
  for (int i = 0; i < info.ndims; i++) json_array_append_new(shape, json_integer(info.dims[i]));
  tt_json_set(&row, "name", tt_json_text(path));
  tt_json_set(&row, "type", tt_json_text(kinds[info.kind]));
  tt_json_set(&row, "bits", json_integer(8 * info.bytes));
  tt_json_set(&row, "shape", shape);
  tt_err e = is_names(&info) ? set_names(&row, r, path) : TT_OK;
  json_array_append_new(datasets, row);
  return e;
}

/* What the file says: text attributes and whole numbers of the root and of the provenance, all
 * datasets. Owner of *out: the caller, also after an error. */
static tt_err describe(tt_h5_reader *r, json_t **out)
{
  static const char *const of_file[] = {
      "tutti_schema",      "title",      "source",  "history", "run",
      "content_hash_xxh3", "generation", "members", "params",  "epochs"};
  static const char *const of_origin[] = {TT_ORIGIN_TEXTS(TT_ROW_NAME) "seed", "ranks", "threads"};
  int64_t n = 0;
  char **name = NULL;
  TT_TRY(tt_h5_list_datasets_local(r, &n, &name));
  json_t *all = json_object(), *origin = json_object(), *datasets = json_array();
  tt_err e = TT_OK;
  tt_json_set(&all, "file", tt_json_text(tt_h5_file_name(r)));
  for (size_t i = 0; i < sizeof of_file / sizeof *of_file; i++) set_attr(&all, r, "/", of_file[i]);
  for (size_t i = 0; tt_h5_has_local(r, "provenance") && i < sizeof of_origin / sizeof *of_origin;
       i++)
    set_attr(&origin, r, "provenance", of_origin[i]);
  for (int64_t i = 0; !e && i < n; i++)
    if (tt_h5_has_local(r, name[i]) && !is_empty_dimension(r, name[i]))
      e = append_dataset(datasets, r, name[i]);
  tt_h5_texts_free(n, &name);
  tt_json_set(&all, "provenance", origin);
  tt_json_set(&all, "datasets", datasets);
  *out = all;
  return e || all ? e : TT_FAIL(MEM, "out of host memory for the contents of a file");
}

/* Text */

/* Print the attributes that an object has: their keys, and their names in the text. */
static void print_attrs(const json_t *object, size_t n, const char *const (*attr)[2])
{
  for (size_t i = 0; i < n; i++) {
    const json_t *value = json_object_get(object, attr[i][0]);
    if (json_is_integer(value))
      printf("%-12s %" JSON_INTEGER_FORMAT "\n", attr[i][1], json_integer_value(value));
    if (json_string_length(value) == 0) continue;
    printf("%-12s", attr[i][1]);
    tt_text_print_words(INDENT, json_string_value(value));
  }
}

/* Print a list of names; equal names in a row once, with their number. */
static void print_names(const json_t *names)
{
  char word[320];
  size_t n = json_array_size(names), i = 0, same;
  int column = printf("%*s", INDENT - 1, "");
  for (int printed = 0; i < n && printed < MAX_NAMES; i += same, printed++) {
    const json_t *name = json_array_get(names, i);
    for (same = 1; json_equal(name, json_array_get(names, i + same));) same++;
    int length = snprintf(word, sizeof word, "%.250s",
                          json_string_length(name) ? json_string_value(name) : "-");
    if (same > 1)
      length += snprintf(word + length, sizeof word - (size_t)length, " (%zu times)", same);
    length += snprintf(word + length, sizeof word - (size_t)length, "%s", i + same < n ? "," : "");
    tt_text_print_word(&column, INDENT, word, length);
  }
  if (i < n)
    tt_text_print_word(&column, INDENT, word, snprintf(word, sizeof word, "and %zu more", n - i));
  printf("\n");
}

static void print_dataset(const json_t *row)
{
  const json_t *shape = json_object_get(row, "shape"), *names = json_object_get(row, "values");
  char name[TT_PATH_MAX];
  snprintf(name, sizeof name, "%s", json_string_value(json_object_get(row, "name")));
  tt_text_make_printable(name, "");
  printf("  %-32s %s%" JSON_INTEGER_FORMAT " (", name,
         json_string_value(json_object_get(row, "type")),
         json_integer_value(json_object_get(row, "bits")));
  for (size_t i = 0; i < json_array_size(shape); i++)
    printf("%s%" JSON_INTEGER_FORMAT, i ? ", " : "", json_integer_value(json_array_get(shape, i)));
  printf(")\n");
  if (names) print_names(names);
}

static void print_text(const json_t *all)
{
  static const char *const of_file[][2] = {{"tutti_schema", "schema"},   {"title", "title"},
                                           {"source", "source"},         {"history", "history"},
                                           {"generation", "generation"}, {"members", "members"},
                                           {"params", "params"},         {"epochs", "epochs"}};
  static const char *const of_origin[][2] = {
      {"command", "command"},       {"date_created", "created"}, {"host", "host"},
      {"model", "model"},           {"device", "device"},        {"slurm_job_id", "job"},
      {"member_weights", "weights"}};
  const json_t *datasets = json_object_get(all, "datasets");
  printf("%-12s %s\n", "file", json_string_value(json_object_get(all, "file")));
  print_attrs(all, sizeof of_file / sizeof *of_file, of_file);
  print_attrs(json_object_get(all, "provenance"), sizeof of_origin / sizeof *of_origin, of_origin);
  printf("datasets\n");
  for (size_t i = 0; i < json_array_size(datasets); i++) print_dataset(json_array_get(datasets, i));
}

static tt_err print_config(tt_h5_reader *r)
{
  char *text = NULL;
  if (!tt_h5_has_local(r, "provenance/resolved_config"))
    return TT_FAIL(DATA, "%s contains no configuration; model.h5 and results.h5 do",
                   tt_h5_file_name(r));
  TT_TRY(tt_h5_read_text_local(r, "provenance/resolved_config", &text));
  fputs(text, stdout);
  tt_free(text);
  return TT_OK;
}

tt_err tt_describe_file_local(const char *file, int config, int json)
{
  tt_h5_reader *r = NULL;
  json_t *all = NULL;
  TT_TRY(tt_h5_open_local(file, &r));
  tt_err e = config ? print_config(r) : describe(r, &all);
  tt_h5_close_local(&r);
  if (!e && json && !config) return tt_json_print(all, 2);
  if (!e && !config) print_text(all);
  json_decref(all);
  return e;
}
