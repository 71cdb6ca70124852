/* describe_file.c — see describe_file.h. */
#include "io/results/describe_file.h"

#include "core/base/mem.h"
#include "io/hdf5/h5.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_attr(tt_h5_reader *r, const char *object, const char *name, const char *label)
{
  char *text = NULL;
  if (!tt_h5_has_attr_local(r, object, name)) return;
  if (!tt_h5_read_attr_text_local(r, object, name, &text) && text[0])
    printf("%-12s %s\n", label, text);
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

static tt_err print_dataset(tt_h5_reader *r, const char *path)
{
  static const char *const kinds[] = {"float", "int", "text", "other"};
  tt_h5_info info;
  TT_TRY(tt_h5_dataset_info_local(r, path, &info));
  printf("  %-32s %s%" PRId64 " (", path, kinds[info.kind], 8 * info.bytes);
  for (int i = 0; i < info.ndims; i++) printf("%s%" PRId64, i ? ", " : "", info.dims[i]);
  printf(")\n");
  return TT_OK;
}

static tt_err print_all(tt_h5_reader *r)
{
  static const char *const texts[][2] = {
      {"tutti_schema", "schema"}, {"title", "title"}, {"source", "source"}, {"history", "history"}};
  static const char *const origin[][2] = {{"command", "command"},
                                          {"date_created", "created"},
                                          {"host", "host"},
                                          {"device", "device"},
                                          {"slurm_job_id", "job"}};
  static const char *const numbers[] = {"generation", "members", "params", "epochs"};
  char *names = NULL, *place = NULL;
  printf("%-12s %s\n", "file", tt_h5_file_name(r));
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    print_attr(r, "/", texts[i][0], texts[i][1]);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) print_number(r, "/", numbers[i]);
  if (tt_h5_has_local(r, "provenance"))
    for (size_t i = 0; i < sizeof origin / sizeof *origin; i++)
      print_attr(r, "provenance", origin[i][0], origin[i][1]);
  TT_TRY(tt_h5_list_datasets_local(r, &names));
  printf("datasets\n");
  tt_err e = TT_OK;
  for (char *name = strtok_r(names, ", ", &place); !e && name; name = strtok_r(NULL, ", ", &place))
    if (tt_h5_has_local(r, name) && !is_pure_dimension(r, name)) e = print_dataset(r, name);
  tt_free(names);
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

tt_err tt_describe_file_local(const char *file, int config)
{
  tt_h5_reader *r = NULL;
  TT_TRY(tt_h5_open_local(file, &r));
  tt_err e = config ? print_config(r) : print_all(r);
  tt_h5_close_local(&r);
  return e;
}
