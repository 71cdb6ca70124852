/* verbs_job.c — see verbs.h: one argp table and one function per verb. */
#include "src/cli/verbs.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/results/describe_file.h"
#include "mpi/comm.h"
#include "src/host/stop_request.h"
#include "src/predict/predict.h"
#include "src/report/report.h"
#include "src/tools/doctor.h"
#include "src/tools/import.h"
#include "src/tools/plan.h"
#include "src/train/trainer.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OVERRIDES = 256, MAX_QUANTILES = 64 };
enum {
  KEY_RESUME = 256,
  KEY_MAX_TIME,
  KEY_ALLOW_DEVICE,
  KEY_GPU_MAP,
  KEY_SHARE_GPU,
  KEY_RANKS,
  KEY_INPUTS,
  KEY_TARGETS,
  KEY_UNITS,
  KEY_FORCE,
  KEY_MEMBERS,
  KEY_QUANTILES,
  KEY_CONFIG,
  KEY_MARKDOWN
};

/* What any verb may be told; each verb reads its part. */
typedef struct job_args {
  const char *file[2]; /* positional */
  int files;           /* given */
  int least, most;     /* how many the verb takes */
  const char *set[MAX_OVERRIDES];
  int sets;
  const char *output, *inputs, *targets, *units;
  int force, members, config, markdown, ranks, any_device;
  double quantile[MAX_QUANTILES];
  int quantiles;
  tt_resume resume;
} job_args;

static void parse_resume(job_args *t, const char *word, struct argp_state *s)
{
  static const char *const modes[] = {"auto", "never", "must"};
  for (int i = 0; i < 3; i++)
    if (!strcmp(word, modes[i])) {
      t->resume = (tt_resume)i;
      return;
    }
  argp_error(s, "--resume: '%s' is not auto, never or must", word);
}

static void parse_quantiles(job_args *t, const char *list, struct argp_state *s)
{
  while (*list) {
    char *end;
    double q = strtod(list, &end);
    if (end == list || (*end && *end != ',') || t->quantiles == MAX_QUANTILES) {
      argp_error(s, "--quantiles: '%s' is not a list of at most %d numbers like 0.05,0.5,0.95",
                 list, MAX_QUANTILES);
      return;
    }
    t->quantile[t->quantiles++] = q;
    list = *end ? end + 1 : end;
  }
}

static void add_override(job_args *t, const char *text, struct argp_state *s)
{
  if (t->sets == MAX_OVERRIDES)
    argp_error(s, "more than %d settings", MAX_OVERRIDES);
  else
    t->set[t->sets++] = text;
}

/* --max-time is --set run.max_time in fewer letters: one parser for durations. */
static void add_max_time(job_args *t, const char *text, struct argp_state *s)
{
  static char setting[128];
  snprintf(setting, sizeof setting, "run.max_time=%s", text);
  add_override(t, setting, s);
}

static void add_gpu_map(job_args *t, const char *text, struct argp_state *s)
{
  static char setting[1024];
  int n = snprintf(setting, sizeof setting, "run.gpu_map=[%s]", text);
  if (n >= (int)sizeof setting) argp_error(s, "--gpu-map: the list is too long");
  add_override(t, setting, s);
}

/* Options with a word; 0 if `key` is none of them. */
static int parse_value_option(job_args *t, int key, const char *word, struct argp_state *s)
{
  switch (key) {
  case 's': add_override(t, word, s); return 1;
  case 'o': t->output = word; return 1;
  case KEY_RESUME: parse_resume(t, word, s); return 1;
  case KEY_MAX_TIME: add_max_time(t, word, s); return 1;
  case KEY_GPU_MAP: add_gpu_map(t, word, s); return 1;
  case KEY_RANKS: t->ranks = atoi(word); return 1;
  case KEY_INPUTS: t->inputs = word; return 1;
  case KEY_TARGETS: t->targets = word; return 1;
  case KEY_UNITS: t->units = word; return 1;
  case KEY_QUANTILES: parse_quantiles(t, word, s); return 1;
  default: return 0;
  }
}

/* Options without; 0 if `key` is none of them. */
static int parse_flag(job_args *t, int key)
{
  switch (key) {
  case 'q': tt_log_set_level(TT_LOG_WARN); return 1;
  case 'v': tt_log_set_level(TT_LOG_DEBUG); return 1;
  case KEY_ALLOW_DEVICE: t->any_device = 1; return 1;
  case KEY_FORCE: t->force = 1; return 1;
  case KEY_MEMBERS: t->members = 1; return 1;
  case KEY_CONFIG: t->config = 1; return 1;
  case KEY_MARKDOWN: t->markdown = 1; return 1;
  default: return 0;
  }
}

static error_t parse(int key, char *arg, struct argp_state *s)
{
  job_args *t = s->input;
  if (key == KEY_SHARE_GPU) add_override(t, "run.share_gpu=true", s);
  if (key == KEY_SHARE_GPU || parse_flag(t, key) || parse_value_option(t, key, arg, s)) return 0;
  if (key == ARGP_KEY_END && t->files < t->least) argp_usage(s);
  if (key != ARGP_KEY_ARG) return key == ARGP_KEY_END ? 0 : ARGP_ERR_UNKNOWN;
  if (t->files == t->most) return ARGP_ERR_UNKNOWN;
  t->file[t->files++] = arg;
  return 0;
}

#define OPTION_QUIET                                                                               \
  {                                                                                                \
    "quiet", 'q', NULL, 0, "only warnings and errors", 0                                           \
  }
#define OPTION_VERBOSE                                                                             \
  {                                                                                                \
    "verbose", 'v', NULL, 0, "say more", 0                                                         \
  }
#define OPTION_SET                                                                                 \
  {                                                                                                \
    "set", 's', "KEY=VALUE", 0, "override an option, as train.epochs=50", 0                        \
  }
#define OPTION_GPU_MAP                                                                             \
  {                                                                                                \
    "gpu-map", KEY_GPU_MAP, "LIST", 0, "GPU number of each rank of a node, as 3,2,1,0", 0          \
  }
#define OPTION_SHARE_GPU                                                                           \
  {                                                                                                \
    "share-gpu", KEY_SHARE_GPU, NULL, 0, "several ranks may use one GPU", 0                        \
  }
#define OPTION_INPUTS                                                                              \
  {                                                                                                \
    "inputs", KEY_INPUTS, "NAME", 0, "dataset of inputs (default x)", 0                            \
  }
#define OPTION_TARGETS                                                                             \
  {                                                                                                \
    "targets", KEY_TARGETS, "NAME", 0, "dataset of targets (default y)", 0                         \
  }

/* `least` to `most` files. */
static job_args parse_args_range(int argc, char **argv, const struct argp_option *options,
                                 const char *args, const char *doc, int least, int most)
{
  job_args t = {.least = least, .most = most, .ranks = 1};
  struct argp argp = {options, parse, args, doc, NULL, NULL, NULL};
  argp_err_exit_status = tt_err_exit_code(TT_E_USAGE);
  argp_parse(&argp, argc, argv, 0, NULL, &t);
  return t;
}

static job_args parse_args(int argc, char **argv, const struct argp_option *options,
                           const char *args, const char *doc, int files)
{
  return parse_args_range(argc, argv, options, args, doc, files, files);
}

static tt_job_options job_options(const job_args *t)
{
  return (tt_job_options){
      .file = t->file[0], .set = t->set, .nset = t->sets, .command = tt_command_line};
}

tt_err tt_verb_train(int argc, char **argv)
{
  static const struct argp_option options[] = {
      OPTION_SET,
      {"resume", KEY_RESUME, "HOW", 0,
       "auto: go on from the last checkpoint if there is one "
       "(default); never: remove it and start anew; must: fail "
       "without one",
       0},
      {"max-time", KEY_MAX_TIME, "TIME", 0, "checkpoint and exit with 75 after TIME, as 20min", 0},
      {"allow-different-device", KEY_ALLOW_DEVICE, NULL, 0,
       "resume on other arithmetic than the checkpoint's: no longer the same bits", 0},
      OPTION_GPU_MAP,
      OPTION_SHARE_GPU,
      OPTION_QUIET,
      OPTION_VERBOSE,
      {0}};
  job_args t = parse_args(argc, argv, options, "JOB.yaml",
                          "Train all members of a job; write model.h5 and "
                          "results.h5. Run it again after a stop: it goes on where it was.",
                          1);
  tt_train_options o = {.job = job_options(&t), .resume = t.resume, .any_device = t.any_device};
  tt_stop_install_handlers_local(); /* MPI may take a while to start, and a signal comes but once */
  tt_err e = tt_comm_begin(&tt_world);
  if (!e) e = tt_train(tt_world, &o);
  return e;
}

tt_err tt_verb_predict(int argc, char **argv)
{
  static const struct argp_option options[] = {
      {"output", 'o', "FILE", 0, "file to write (default pred.h5)", 0},
      OPTION_INPUTS,
      {"members", KEY_MEMBERS, NULL, 0, "also every member's mean and variance", 0},
      {"quantiles", KEY_QUANTILES, "LIST", 0, "quantiles of the predictive mixture, as 0.05,0.95",
       0},
      OPTION_QUIET,
      OPTION_VERBOSE,
      {0}};
  job_args t = parse_args(argc, argv, options, "MODEL.h5 DATA.h5",
                          "Predict every row: mean, total, "
                          "aleatoric and epistemic standard deviation.",
                          2);
  tt_predict_options o = {.model = t.file[0],
                          .data = t.file[1],
                          .inputs = t.inputs,
                          .output = t.output ? t.output : "pred.h5",
                          .members = t.members,
                          .quantiles = t.quantiles,
                          .quantile = t.quantile,
                          .command = tt_command_line};
  tt_err e = tt_comm_begin(&tt_world);
  if (!e) e = tt_predict(tt_world, &o);
  return e;
}

tt_err tt_verb_evaluate(int argc, char **argv)
{
  static const struct argp_option options[] = {
      {"output", 'o', "FILE", 0, "file to write the scores to (default none)", 0},
      OPTION_INPUTS,
      OPTION_TARGETS,
      OPTION_QUIET,
      OPTION_VERBOSE,
      {0}};
  job_args t = parse_args(argc, argv, options, "MODEL.h5 DATA.h5",
                          "Score a model on all labelled rows of a "
                          "file.",
                          2);
  tt_evaluate_options o = {.model = t.file[0],
                           .data = t.file[1],
                           .inputs = t.inputs,
                           .targets = t.targets,
                           .output = t.output,
                           .command = tt_command_line};
  tt_err e = tt_comm_begin(&tt_world);
  if (!e) e = tt_evaluate(tt_world, &o);
  return e;
}

tt_err tt_verb_plan(int argc, char **argv)
{
  static const struct argp_option options[] = {
      OPTION_SET, {"ranks", KEY_RANKS, "N", 0, "ranks to plan for (default 1)", 0}, {0}};
  job_args t =
      parse_args(argc, argv, options, "JOB.yaml",
                 "Check a job and say what it will need; starts no "
                 "MPI, of the samples reads labels alone, to count classes; writes nothing.",
                 1);
  tt_job_options o = job_options(&t);
  return tt_plan_print_local(&o, t.ranks);
}

tt_err tt_verb_doctor(int argc, char **argv)
{
  static const struct argp_option options[] = {OPTION_SET, OPTION_GPU_MAP, OPTION_SHARE_GPU, {0}};
  job_args t =
      parse_args_range(argc, argv, options, "[JOB.yaml]",
                       "Say what each rank has (cores, GPU), which libraries are used, and what is "
                       "wrong, with the fix; exit 69 if something is. Start it as you start train.",
                       0, 1);
  tt_job_options o = job_options(&t);
  if (t.sets > 0 && !o.file)
    return TT_FAIL(USAGE, "--set, --gpu-map and --share-gpu change a job: name its file too, tutti "
                          "doctor JOB.yaml");
  tt_err e = tt_comm_begin_singletons(&tt_world);
  if (!e) e = tt_doctor(tt_world, &o);
  return e;
}

tt_err tt_verb_import(int argc, char **argv)
{
  static const struct argp_option options[] = {
      {"output", 'o', "FILE", 0, "dataset file to write", 0},
      {"inputs", KEY_INPUTS, "A,B", 0, "columns that are inputs", 0},
      {"targets", KEY_TARGETS, "C,D", 0, "columns that are targets; empty cells are unlabelled", 0},
      {"units", KEY_UNITS, "A=kg,C=m", 0, "units of columns", 0},
      {"force", KEY_FORCE, NULL, 0, "replace an output that exists", 0},
      OPTION_QUIET,
      OPTION_VERBOSE,
      {0}};
  job_args t = parse_args(argc, argv, options, "TABLE.csv",
                          "Make a dataset file from a CSV or TSV table.", 1);
  if (!t.output || !t.inputs)
    return TT_FAIL(USAGE, "tutti import needs -o FILE.h5 and --inputs A,B (and --targets C,D)");
  tt_import_options o = {t.file[0], t.output, t.inputs, t.targets, t.units, t.force};
  return tt_import_local(&o);
}

tt_err tt_verb_info(int argc, char **argv)
{
  static const struct argp_option options[] = {
      {"config", KEY_CONFIG, NULL, 0, "print the resolved configuration of the job it came from",
       0},
      {0}};
  job_args t = parse_args(argc, argv, options, "FILE.h5",
                          "Say what a file holds and where it comes from.", 1);
  return tt_describe_file_local(t.file[0], t.config);
}

tt_err tt_verb_report(int argc, char **argv)
{
  static const struct argp_option options[] = {
      {"output", 'o', "DIR", 0, "directory for the tables (default .)", 0}, {0}};
  job_args t = parse_args(argc, argv, options, "RESULTS.h5",
                          "Write predictions.tsv and history.tsv, for "
                          "gnuplot or a spreadsheet.",
                          1);
  return tt_report_tables_local(t.file[0], t.output ? t.output : ".");
}

tt_err tt_verb_options(int argc, char **argv)
{
  static const struct argp_option options[] = {
      {"markdown", KEY_MARKDOWN, NULL, 0, "as a Markdown page", 0}, {0}};
  job_args t = parse_args(argc, argv, options, "", "Explain every option of a job file.", 0);
  char *text = NULL;
  TT_TRY(tt_config_options_text(t.markdown, &text));
  fputs(text, stdout);
  tt_free(text);
  return TT_OK;
}
