/* describe_file.c — see describe_file.h. */
#include "io/results/describe_file.h"

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "io/files/files.h"
#include "io/hdf5/provenance.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 80, INDENT = 13, MAX_NAMES = 100 };

/* Print a word at column *column, on the next line if this one is full. */
static void print_word(int *column, const char *word, int length)
{
  int is_first = *column == INDENT;
  if (!is_first && *column + 1 + length > COLUMNS) {
    *column = printf("\n%*s", INDENT, "") - 1;
    is_first = 1;
  }
  *column += printf("%s%.*s", is_first ? "" : " ", length, word);
}

static void print_attr(tt_h5_reader *r, const char *object, const char *name, const char *label)
{
  char *text = NULL;
  if (!tt_h5_has_attr_local(r, object, name)) return;
  if (!tt_h5_read_attr_text_local(r, object, name, &text) && text[0]) {
    int column = printf("%-12s ", label);
    for (char *word = text; *word; word += strcspn(word, " "), word += strspn(word, " "))
      print_word(&column, word, (int)strcspn(word, " "));
    printf("\n");
  }
  tt_free(text);
}

static void print_number(tt_h5_reader *r, const char *object, const char *name)
{
  int64_t value;
  if (tt_h5_has_attr_local(r, object, name) &&
      !tt_h5_read_attr_local(r, object, name, TT_H5_I64, 1, &value))
    printf("%-12s %" PRId64 "\n", name, value);
}

/* A netCDF dimension without values is not printed. */
static int is_pure_dimension(tt_h5_reader *r, const char *path)
{
  static const char mark[] = "This is a netCDF dimension but not a netCDF variable.";
  char *text = NULL;
  int pure = tt_h5_has_attr_local(r, path, "NAME") &&
             !tt_h5_read_attr_text_local(r, path, "NAME", &text) &&
             !strncmp(text, mark, sizeof mark - 1);
  tt_free(text);
  return pure;
}

/* Print a list of names; equal names in a row once, with their number. */
static tt_err print_names(tt_h5_reader *r, const char *path)
{
  int64_t n = 0, printed = 0, i = 0, same;
  char **name = NULL, word[320];
  TT_TRY(tt_h5_read_texts_local(r, path, &n, &name));
  int column = printf("%*s", INDENT, "");
  for (; i < n && printed < MAX_NAMES; i += same, printed++) {
    for (same = 1; i + same < n && !strcmp(name[i], name[i + same]);) same++;
    int length = snprintf(word, sizeof word, "%.250s", *name[i] ? name[i] : "-");
    if (same > 1)
      length += snprintf(word + length, sizeof word - (size_t)length, " (%" PRId64 " times)", same);
    length += snprintf(word + length, sizeof word - (size_t)length, "%s", i + same < n ? "," : "");
    print_word(&column, word, length);
  }
  if (i < n) {
    int length = snprintf(word, sizeof word, "and %" PRId64 " more", n - i);
    print_word(&column, word, length);
  }
  printf("\n");
  tt_h5_texts_free(n, &name);
  return TT_OK;
}

/* Whether a dataset is a list of names: of inputs, targets, ensembles, ... */
static int is_names(const tt_h5_info *info)
{
  return info->kind == TT_H5_TEXT && (info->bytes == 1 ? info->ndims == 2 : info->ndims == 1);
}

static tt_err print_dataset(tt_h5_reader *r, const char *path)
{
  static const char *const kinds[] = {"float", "int", "text", "other"};
  char shown[TT_PATH_MAX];
  tt_h5_info info;
  TT_TRY(tt_h5_dataset_info_local(r, path, &info));
  snprintf(shown, sizeof shown, "%s", path);
  tt_text_make_printable(shown, "");
  printf("  %-32s %s%" PRId64 " (", shown, kinds[info.kind], 8 * info.bytes);
  for (int i = 0; i < info.ndims; i++) printf("%s%" PRId64, i ? ", " : "", info.dims[i]);
  printf(")\n");
  return is_names(&info) ? print_names(r, path) : TT_OK;
}

static tt_err print_all(tt_h5_reader *r)
{
  static const char *const texts[][2] = {
      {"tutti_schema", "schema"}, {"title", "title"}, {"source", "source"}, {"history", "history"}};
  static const char *const origin[][2] = {{"command", "command"}, {"date_created", "created"},
                                          {"host", "host"},       {"model", "model"},
                                          {"device", "device"},   {"slurm_job_id", "job"}};
  static const char *const numbers[] = {"generation", "members", "params", "epochs"};
  int64_t n = 0;
  char **name = NULL;
  printf("%-12s %s\n", "file", tt_h5_file_name(r));
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    print_attr(r, "/", texts[i][0], texts[i][1]);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) print_number(r, "/", numbers[i]);
  if (tt_h5_has_local(r, "provenance"))
    for (size_t i = 0; i < sizeof origin / sizeof *origin; i++)
      print_attr(r, "provenance", origin[i][0], origin[i][1]);
  TT_TRY(tt_h5_list_datasets_local(r, &n, &name));
  printf("datasets\n");
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < n; i++)
    if (tt_h5_has_local(r, name[i]) && !is_pure_dimension(r, name[i]))
      e = print_dataset(r, name[i]);
  tt_h5_texts_free(n, &name);
  return e;
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

/* JSON: all text attributes of an object, the whole numbers of the root, all datasets */

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

static json_t *names_to_json(tt_h5_reader *r, const char *path)
{
  int64_t n = 0;
  char **name = NULL;
  json_t *list = json_array();
  if (tt_h5_read_texts_local(r, path, &n, &name)) return list;
  for (int64_t i = 0; i < n; i++) json_array_append_new(list, tt_json_text(name[i]));
  tt_h5_texts_free(n, &name);
  return list;
}

static json_t *dataset_to_json(tt_h5_reader *r, const char *path)
{
  static const char *const kinds[] = {"float", "int", "text", "other"};
  tt_h5_info info;
  json_t *row = json_object();
  if (tt_h5_dataset_info_local(r, path, &info)) return row;
  json_t *shape = json_array();
  for (int i = 0; i < info.ndims; i++) json_array_append_new(shape, json_integer(info.dims[i]));
  tt_json_set(&row, "name", tt_json_text(path));
  tt_json_set(&row, "type", tt_json_text(kinds[info.kind]));
  tt_json_set(&row, "bits", json_integer(8 * info.bytes));
  tt_json_set(&row, "shape", shape);
  if (is_names(&info)) tt_json_set(&row, "values", names_to_json(r, path));
  return row;
}

static tt_err print_json(tt_h5_reader *r)
{
  static const char *const of_file[] = {
      "tutti_schema",      "title",      "source",  "history", "run",
      "content_hash_xxh3", "generation", "members", "params",  "epochs"};
  static const char *const of_origin[] = {
#define X(name, label) #name,
      TT_ORIGIN_TEXTS(X)
#undef X
          "seed",
      "ranks", "threads"};
  int64_t n = 0;
  char **name = NULL;
  TT_TRY(tt_h5_list_datasets_local(r, &n, &name));
  json_t *all = json_object(), *origin = json_object(), *datasets = json_array();
  tt_json_set(&all, "file", tt_json_text(tt_h5_file_name(r)));
  for (size_t i = 0; i < sizeof of_file / sizeof *of_file; i++) set_attr(&all, r, "/", of_file[i]);
  for (size_t i = 0; tt_h5_has_local(r, "provenance") && i < sizeof of_origin / sizeof *of_origin;
       i++)
    set_attr(&origin, r, "provenance", of_origin[i]);
  for (int64_t i = 0; i < n; i++)
    if (tt_h5_has_local(r, name[i]) && !is_pure_dimension(r, name[i]))
      json_array_append_new(datasets, dataset_to_json(r, name[i]));
  tt_h5_texts_free(n, &name);
  tt_json_set(&all, "provenance", origin);
  tt_json_set(&all, "datasets", datasets);
  return tt_json_print(all, 2);
}

tt_err tt_describe_file_local(const char *file, int config, int json)
{
  tt_h5_reader *r = NULL;
  TT_TRY(tt_h5_open_local(file, &r));
  tt_err e = config ? print_config(r) : json ? print_json(r) : print_all(r);
  tt_h5_close_local(&r);
  return e;
}
