/* table_args.c — a table in the place of a job file; see cli_args.h. */
#include "core/base/directory.h"
#include "core/base/mem.h"
#include "io/files/files.h"
#include "src/cli/cli_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The command line as a shell reads it, for the first line of the job. Line ends would end it. */
static char *print_command(const tt_cli_args *a)
{
  static const char special[] = " \t\n\r!\"#$&'()*;<>?[\\]`{|}~";
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  if (!out) return NULL;
  fprintf(out, "%s %s", a->name, a->file[0]);
  for (int i = 0; i < a->words; i++)
    if (a->word[i] != a->file[0])
      fprintf(out, a->word[i][strcspn(a->word[i], special)] ? " '%s'" : " %s", a->word[i]);
  if (fclose(out)) return NULL;
  for (char *c = text; *c; c++)
    if (*c == '\n' || *c == '\r') *c = ' ';
  return text;
}

int tt_cli_has_table(const tt_cli_args *a) { return tt_table_job_is_table(a->file[0]); }

tt_err tt_cli_no_table_options(const tt_cli_args *a)
{
  if (!a->inputs && !a->targets && !a->classes && !a->group && !a->by && !a->member_count &&
      !a->epochs && !a->delimiter && !a->decimal && !a->nas && !a->output)
    return TT_OK;
  return TT_FAIL(USAGE,
                 "%s: the options for tables (--targets, --inputs, -o ...) have no use for a job "
                 "file, which says these things itself; --set overrides them",
                 a->file[0]);
}

/* --set changes more than the lines that are written: then the job has every option, and the lines
 * become comments. */
static tt_err resolve(const tt_cli_args *a, const char *file, char **text)
{
  tt_config *cfg = NULL;
  char *all = NULL, *out = NULL;
  size_t bytes = 0;
  TT_TRY(tt_config_parse(file, *text, (int64_t)strlen(*text), a->override, a->overrides, &cfg));
  tt_err e = a->overrides ? tt_config_to_yaml(cfg, &all) : TT_OK;
  FILE *f = all ? open_memstream(&out, &bytes) : NULL;
  if (all && !f) e = TT_FAIL(MEM, "out of memory for a job");
  for (const char *line = *text; f && *line; line += strcspn(line, "\n") + 1)
    fprintf(f, "%s%.*s\n", *line == '#' ? "" : "# ", (int)strcspn(line, "\n"), line);
  if (f) fputs(all, f), fclose(f);
  if (!e && f) e = tt_text_set(text, out);
  if (!e) e = tt_data_check_local(cfg, NULL);
  free(out);
  tt_free(all);
  tt_config_destroy(&cfg);
  return e;
}

/* `search:` of tutti tune. */
static void print_search(const tt_cli_args *a, char text[256])
{
  int n = snprintf(text, 128, "{preset: %.32s", a->preset ? a->preset : "good");
  if (a->budget) n += snprintf(text + n, 32, ", budget: %d", a->budget);
  if (a->time) n += snprintf(text + n, 48, ", time: %.32s", a->time);
  if (a->folds) n += snprintf(text + n, 32, ", folds: %d", a->folds);
  snprintf(text + n, 2, "}");
}

/* The job of the table, as it is printed. */
static tt_err write_job(const tt_cli_args *a, const char *file, char **text)
{
  char search[256] = "";
  if (!strcmp(a->verb->name, "tune")) print_search(a, search);
  char *command = print_command(a);
  tt_table_job_options o = {.table = a->file[0],
                            .inputs = a->inputs,
                            .targets = a->targets,
                            .classes = a->classes,
                            .group = a->group,
                            .by = a->by,
                            .members = a->member_count,
                            .epochs = a->epochs,
                            .search = *search ? search : NULL,
                            .folds = a->folds,
                            .file = file,
                            .directory = file ? "." : "out",
                            .command = command};
  tt_err e = command ? tt_cli_format(a, &o.format) : TT_FAIL(MEM, "out of memory for a job");
  if (!e && !a->decimal) o.format.decimal = 0;
  if (!e) e = tt_table_job_write_local(&o, text);
  free(command);
  return e;
}

tt_err tt_cli_table_job_local(const tt_cli_args *a, char **text)
{
  TT_TRY(write_job(a, NULL, text));
  return resolve(a, "job.yaml", text);
}

/* Another job is not replaced. */
static tt_err save(const char *file, const char *text, int replace)
{
  char directory[TT_PATH_MAX], *there = NULL;
  int64_t bytes = 0;
  tt_file_dirname_local(file, directory);
  TT_TRY(tt_directory_create(directory));
  if (replace || access(file, F_OK)) return tt_file_write_atomic_local(file, text);
  TT_TRY(tt_config_read_file(file, &there, &bytes));
  int same = bytes == (int64_t)strlen(text) && !memcmp(there, text, (size_t)bytes);
  tt_free(there);
  if (same) return TT_OK;
  return TT_FAIL(CANTCREAT,
                 "%s exists, and is another job: train it with tutti train %s; or give another "
                 "directory with -o, or --resume never to replace it",
                 file, file);
}

tt_err tt_cli_table_job(tt_comm *c, const tt_cli_args *a, char *file, char **text)
{
  tt_err e = TT_OK;
  int root = tt_comm_is_root(c);
  snprintf(file, TT_PATH_MAX, "%s/job.yaml", a->output ? a->output : "out");
  if (root) e = write_job(a, file, text);
  if (root && !e) e = resolve(a, file, text);
  if (root && !e) e = save(file, *text, a->resume && !strcmp(a->resume, "never"));
  e = tt_agree(c, e);
  return e ? e : tt_bcast_text(c, text);
}
