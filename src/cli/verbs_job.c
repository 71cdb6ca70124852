/* verbs_job.c — see verbs.h: verbs for training, prediction and data files. */
#include "core/base/directory.h"
#include "core/base/mem.h"
#include "core/config/config.h"
#include "io/data/data.h"
#include "io/results/describe_file.h"
#include "src/cli/cli_args.h"
#include "src/explain/explain.h"
#include "src/export/export.h"
#include "src/host/stop_request.h"
#include "src/predict/predict.h"
#include "src/score/evaluate.h"
#include "src/tools/doctor.h"
#include "src/tools/import.h"
#include "src/tools/plan.h"
#include "src/tools/weigh.h"
#include "src/train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tt_err parse_resume(const char *word, tt_resume *out)
{
  static const char *const modes[] = {"auto", "never", "must"};
  for (int i = 0; i < 3; i++)
    if (!word || !strcmp(word, modes[i])) {
      *out = (tt_resume)i;
      return TT_OK;
    }
  return TT_FAIL(USAGE, "--resume: '%s' is not auto, never or must", word);
}

tt_err tt_verb_train(const tt_cli_args *args)
{
  tt_train_options o = {.job = tt_cli_job(args), .any_device = args->allow_different_device};
  char file[TT_PATH_MAX], *text = NULL;
  int has_table = tt_cli_has_table(args);
  TT_TRY(parse_resume(args->resume, &o.resume));
  if (!has_table) TT_TRY(tt_cli_no_table_options(args));
  tt_stop_install_handlers_local(); /* before MPI_Init, which may take long: a signal is sent only
                                       once */
  TT_TRY(tt_cli_begin(args, 0));
  tt_err e = has_table ? tt_cli_table_job(tt_world, args, file, &text) : TT_OK;
  if (has_table) o.job = (tt_job_options){.file = file, .text = text};
  if (!e) e = tt_train(tt_world, &o);
  tt_free(text);
  return e;
}

tt_err tt_verb_tune(const tt_cli_args *args)
{
  if (!tt_cli_has_table(args))
    return TT_FAIL(USAGE,
                   "%s is not a table: in a job write `search: {preset: good}`, and start it with "
                   "tutti train",
                   args->file[0]);
  return tt_verb_train(args);
}

/* Parse "0.05,0.5,0.95"; at most `most` numbers. */
static tt_err parse_quantiles(const char *list, int64_t most, double *quantile, int64_t *count)
{
  for (const char *cursor = list; cursor && *cursor;) {
    char *end;
    double q = strtod(cursor, &end);
    if (end == cursor || (*end && *end != ',') || *count == most)
      return TT_FAIL(USAGE,
                     "--quantiles: '%s' is not a list of at most %d numbers such as 0.05,0.95",
                     list, (int)most);
    quantile[(*count)++] = q;
    cursor = *end ? end + 1 : end;
  }
  return TT_OK;
}

/* Begin a verb of a model and a table. The caller owns *job, whose texts the format borrows. */
static tt_err begin_with_format(const tt_cli_args *args, tt_table_format *format, tt_config **job)
{
  TT_TRY(tt_cli_format(args, format));
  TT_TRY(tt_cli_begin(args, 0));
  return tt_cli_format_of_model(tt_world, args, format, job);
}

tt_err tt_verb_predict(const tt_cli_args *args)
{
  enum { MAX_QUANTILES = 64 };
  double quantile[MAX_QUANTILES];
  tt_predict_options o = {.model = args->file[0],
                          .data = args->file[1],
                          .inputs = args->inputs,
                          .output = args->output ? args->output : "pred.h5",
                          .force = args->force,
                          .group = args->group,
                          .members = args->members,
                          .jacobian = args->jacobian,
                          .quantile = quantile};
  TT_TRY(parse_quantiles(args->quantiles, MAX_QUANTILES, quantile, &o.quantiles));
  tt_config *job = NULL;
  TT_TRY(begin_with_format(args, &o.format, &job));
  tt_err e = tt_predict(tt_world, &o);
  tt_config_destroy(&job);
  return e;
}

static tt_score_file_options score_rows(const tt_cli_args *args, const tt_table_format *format)
{
  return (tt_score_file_options){args->file[1], args->inputs, args->targets,
                                 args->weights, format,       args->group};
}

tt_err tt_verb_evaluate(const tt_cli_args *args)
{
  tt_table_format format;
  const tt_evaluate_options o = {.model = args->file[0],
                                 .rows = score_rows(args, &format),
                                 .output = args->output,
                                 .force = args->force,
                                 .json = args->json};
  tt_config *job = NULL;
  TT_TRY(begin_with_format(args, &format, &job));
  tt_err e = tt_evaluate(tt_world, &o);
  tt_config_destroy(&job);
  return e;
}

tt_err tt_verb_explain(const tt_cli_args *args)
{
  tt_table_format format;
  const tt_explain_options o = {.model = args->file[0],
                                .rows = score_rows(args, &format),
                                .output = args->output ? args->output : "importance.h5",
                                .force = args->force,
                                .json = args->json,
                                .repeats = args->repeats,
                                .most_rows = args->rows,
                                .seed = (uint64_t)args->seed};
  tt_config *job = NULL;
  TT_TRY(begin_with_format(args, &format, &job));
  tt_err e = tt_explain(tt_world, &o);
  tt_config_destroy(&job);
  return e;
}

tt_err tt_verb_weigh(const tt_cli_args *args)
{
  tt_weigh_options o = {.model = args->file[0],
                        .scores = args->file[1],
                        .output = args->output,
                        .method = args->method,
                        .value = args->value,
                        .better = args->better,
                        .force = args->force};
  TT_TRY(tt_cli_format(args, &o.format));
  TT_TRY(tt_cli_begin(args, 0));
  return tt_weigh(tt_world, &o);
}

tt_err tt_verb_export(const tt_cli_args *args)
{
  const int wanted[TT_EXPORT_FORMAT_COUNT] = {
      [TT_EXPORT_onnx] = args->onnx,
      [TT_EXPORT_c] = args->c_source,
      [TT_EXPORT_torch] = args->torch,
  };
  tt_export_options o = {
      .model = args->file[0], .output = args->output, .group = args->group, .force = args->force};
  int formats = 0;
  TT_TRY(tt_cli_begin(args, 1));
  for (int i = 0; i < TT_EXPORT_FORMAT_COUNT; i++) {
    formats += wanted[i];
    if (wanted[i]) o.format = (tt_export_format)i;
  }
  if (formats != 1)
    return TT_FAIL(USAGE, "tutti export needs exactly one of --onnx, --c and --torch; %d are given",
                   formats);
  const char *end = o.output ? strrchr(o.output, '.') : NULL;
  if (args->torch && end && (!strcmp(end, ".pt") || !strcmp(end, ".pth")))
    return TT_FAIL(USAGE,
                   "%s: tutti export --torch writes Python source, and torch.load reads %s; give a "
                   "name that ends in .py",
                   o.output, end);
  return tt_agree(tt_world, tt_comm_is_root(tt_world) ? tt_export_local(&o) : TT_OK);
}

tt_err tt_verb_plan(const tt_cli_args *args)
{
  tt_job_options job = tt_cli_job(args);
  int has_table = tt_cli_has_table(args);
  char *text = NULL;
  tt_err e = has_table ? tt_cli_table_job_local(args, &text) : tt_cli_no_table_options(args);
  if (has_table) job = (tt_job_options){.file = "job.yaml", .text = text};
  if (!e) e = tt_plan_print_local(&job, args->ranks, args->json, args->measure, stdout);
  tt_free(text);
  return e;
}

tt_err tt_verb_init(const tt_cli_args *args)
{
  char *text = NULL;
  if (!tt_cli_has_table(args))
    return TT_FAIL(USAGE, "%s is not a table: give a file .csv, .tsv, .npy, .npz or HDF5",
                   args->file[0]);
  tt_err e = tt_cli_table_job_local(args, &text);
  if (text) fputs(text, stdout);
  tt_free(text);
  return e;
}

tt_err tt_verb_doctor(const tt_cli_args *args)
{
  tt_job_options job = tt_cli_job(args);
  if (job.nset > 0 && !job.file)
    return TT_FAIL(USAGE, "--set needs a job file: tutti doctor JOB.yaml ...");
  TT_TRY(tt_cli_begin(args, 1));
  return tt_doctor(tt_world, &job, args->json, args->check);
}

tt_err tt_verb_import(const tt_cli_args *args)
{
  tt_import_options o = {args->file[0], args->output, args->inputs,
                         args->targets, args->units,  .force = args->force};
  TT_TRY(tt_cli_format(args, &o.format));
  return tt_import_local(&o);
}

tt_err tt_verb_info(const tt_cli_args *args)
{
  return tt_describe_file_local(args->file[0], args->config, args->json);
}

/* Print a text. An indented line of more than 80 columns is continued below its first word. */
static void print_wrapped(char *text)
{
  enum { COLUMNS = 80 };
  for (char *line = text, *end; *line; line = end + 1) {
    end = line + strcspn(line, "\n");
    *end = '\0';
    int indent = (int)strspn(line, " ");
    if (end - line <= COLUMNS || !indent) {
      puts(line);
      continue;
    }
    printf("%*s", indent - 1, "");
    tt_text_print_words(indent, line + indent);
  }
}

tt_err tt_verb_options(const tt_cli_args *args)
{
  char *text = NULL;
  if (args->files && args->markdown)
    return TT_FAIL(USAGE, "--markdown prints all options: give no name");
  TT_TRY(args->files ? tt_config_options_asked(args->file[0], &text)
                     : tt_config_options_text(args->markdown, &text));
  if (args->markdown)
    fputs(text, stdout);
  else
    print_wrapped(text);
  tt_free(text);
  return TT_OK;
}
