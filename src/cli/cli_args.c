/* cli_args.c — see cli_args.h. */
#include "src/cli/cli_args.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/hdf5/h5.h"
#include "src/host/watchdog.h"

#include <argp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct cli_option {
  const char *name;
  int key;
  const char *argument, *help;
  enum { OVERRIDE_KIND, TEXT_KIND, COUNT_KIND, FLAG_KIND, LOG_KIND, NA_KIND } kind;
  size_t offset; /* TEXT, COUNT, FLAG: the field in tt_cli_args */
  int number;    /* COUNT: smallest value; LOG: the level */
} cli_option;

#define OVERRIDE .kind = OVERRIDE_KIND
#define TEXT(field_) .kind = TEXT_KIND, .offset = offsetof(tt_cli_args, field_)
#define COUNT(field_, lowest_)                                                                     \
  .kind = COUNT_KIND, .offset = offsetof(tt_cli_args, field_), .number = lowest_
#define NA_TEXT .kind = NA_KIND
#define FLAG(field_) .kind = FLAG_KIND, .offset = offsetof(tt_cli_args, field_)
#define LOG(level_) .kind = LOG_KIND, .number = level_

static const cli_option table[TT_CLI_OPTION_COUNT] = {
#define X(id, name_, key_, argument_, kind_, help_)                                                \
  [TT_CLI_##id] = {.name = name_,                                                                  \
                   .key = key_ ? key_ : 256 + TT_CLI_##id,                                         \
                   .argument = argument_,                                                          \
                   .help = help_,                                                                  \
                   kind_},
    TT_CLI_OPTIONS(X)
#undef X
};

/* An option that may be given several times. */
static void add_text(const char **list, int *count, int most, const char *text,
                     struct argp_state *s)
{
  if (*count == most)
    argp_error(s, "'%s': more than %d of this option; put them into the file", text, most);
  else
    list[(*count)++] = text;
}

static int parse_count(const cli_option *o, const char *text, struct argp_state *s)
{
  char *end;
  long n = strtol(text, &end, 10);
  if (end == text || *end || n < o->number || n > 1000000)
    argp_error(s, "--%s: '%s' is not a whole number from %d to 1000000", o->name, text, o->number);
  return (int)n;
}

static void set_option(tt_cli_args *a, const cli_option *o, const char *arg, struct argp_state *s)
{
  void *field = (char *)a + o->offset;
  switch (o->kind) {
  case OVERRIDE_KIND: add_text(a->override, &a->overrides, TT_CLI_MAX_OVERRIDES, arg, s); return;
  case TEXT_KIND: *(const char **)field = arg; return;
  case COUNT_KIND: *(int *)field = parse_count(o, arg, s); return;
  case FLAG_KIND: *(int *)field = 1; return;
  case NA_KIND: add_text(a->na, &a->nas, TT_CLI_MAX_NA, arg, s); return;
  case LOG_KIND: tt_log_set_level((tt_log_level)o->number); return;
  }
}

static error_t parse(int key, char *arg, struct argp_state *s)
{
  tt_cli_args *a = s->input;
  if (key == 'h') argp_state_help(s, stdout, ARGP_HELP_STD_HELP); /* ends the program */
  if (key == ARGP_KEY_END && a->files < a->verb->min_files) argp_usage(s);
  if (key == ARGP_KEY_ARG) {
    if (a->files == a->verb->max_files) argp_error(s, "unexpected argument '%s'", arg);
    a->file[a->files++] = arg;
    return 0;
  }
  for (const int8_t *o = a->verb->options; *o; o++)
    if (key == table[*o].key) {
      set_option(a, &table[*o], arg, s);
      return 0;
    }
  return ARGP_ERR_UNKNOWN;
}

enum { ARGP_OPTIONS = TT_VERB_MAX_OPTIONS + 2 };

/*   options  [ARGP_OPTIONS] zeroed */
static struct argp make_argp(const tt_verb *verb, struct argp_option *options)
{
  int n = 0;
  for (; verb->options[n]; n++) {
    const cli_option *o = &table[verb->options[n]];
    options[n] = (struct argp_option){o->name, o->key, o->argument, 0, o->help, 0};
  }
  options[n] = (struct argp_option){.key = 'h', .flags = OPTION_HIDDEN};
  return (struct argp){options, parse, verb->files, verb->help, NULL, NULL, NULL};
}

void tt_cli_print_verbs(FILE *file, const char *family, const tt_verb *verbs)
{
  char label[64];
  int all = !strchr(family, ' ');
  fprintf(file, "Usage: %s VERB [OPTION...]\n", family);
  if (all) fprintf(file, "Train ensembles of many small neural networks together.\n");
  fprintf(file, "\n");
  for (const tt_verb *v = verbs; v->name; v++) {
    snprintf(label, sizeof label, "%s %s", v->name, v->files);
    fprintf(file, "  %-30s %s\n", label, v->summary);
  }
  fprintf(file, "\n`%s help VERB` explains a verb%s.\n", family,
          all ? ", `tutti help train.loss` an option of a job" : "");
  if (all)
    fprintf(file, "`tutti --version` prints the versions of tutti, MPI and HDF5.\n"
                  "Several ranks: srun tutti train job.yaml, mpirun -n 4 tutti train job.yaml\n");
}

void tt_cli_parse(const tt_verb *verb, int argc, char **argv, tt_cli_args *args)
{
  struct argp_option options[ARGP_OPTIONS] = {0};
  const struct argp argp = make_argp(verb, options);
  args->verb = verb;
  args->name = argv[0];
  args->words = argc - 1;
  args->word = argv + 1;
  args->ranks = 1;
  args->repeats = 5;
  args->points = 1;
  args->rows = 10000;
  args->seed = 1;
  args->max_restarts = 50;
  argp_err_exit_status = tt_err_exit_code(TT_E_USAGE);
  argp_parse(&argp, argc, argv, 0, NULL, args);
}

/* What must be the same on all ranks, one value per line. Overrides come after the options. */
static void print_args(FILE *f, const tt_cli_args *a)
{
  fprintf(f, "version " TUTTI_VERSION "\n%s\n", a->name);
  for (int i = 0; i < a->files; i++) fprintf(f, "file %s\n", a->file[i]);
  for (const int8_t *id = a->verb->options; *id; id++) {
    const cli_option *o = &table[*id];
    const void *field = (const char *)a + o->offset;
    if (o->kind == TEXT_KIND && *(const char *const *)field)
      fprintf(f, "--%s %s\n", o->name, *(const char *const *)field);
    else if (o->kind == COUNT_KIND || (o->kind == FLAG_KIND && *(const int *)field))
      fprintf(f, "--%s %d\n", o->name, *(const int *)field);
  }
  for (int i = 0; i < a->nas; i++) fprintf(f, "--na %s\n", a->na[i]);
  for (int i = 0; i < a->overrides; i++) fprintf(f, "--set %s\n", a->override[i]);
}

/* MPI_Init waits for all ranks: for ever if another rank runs a program without MPI. */
static tt_err begin_mpi(int singletons)
{
  static const double most_seconds = 600.0;
  TT_TRY(tt_watchdog_start_local(NULL, NULL, 0, most_seconds));
  tt_watchdog_heartbeat_local("the start of MPI (do all ranks run the same verb?)");
  tt_err e = singletons ? tt_comm_begin_singletons(&tt_world) : tt_comm_begin(&tt_world);
  tt_watchdog_stop_local();
  return e;
}

tt_err tt_cli_begin(const tt_cli_args *args, int singletons)
{
  char *text = NULL;
  size_t bytes = 0;
  TT_TRY(begin_mpi(singletons));
  FILE *f = open_memstream(&text, &bytes);
  if (f) print_args(f, args);
  tt_err e = !f || fclose(f) ? TT_FAIL(MEM, "out of memory for the command line") : TT_OK;
  e = tt_agree(tt_world, e);
  if (!e) e = tt_agree_same(tt_world, "command line", text);
  free(text);
  return e;
}

tt_err tt_cli_format(const tt_cli_args *args, tt_table_format *out)
{
  TT_TRY(tt_data_format_parse(args->delimiter, args->decimal, out));
  out->nas = args->nas;
  out->na = args->na;
  return TT_OK;
}

tt_job_options tt_cli_job(const tt_cli_args *args)
{
  return (tt_job_options){.file = args->file[0], .set = args->override, .nset = args->overrides};
}

/* The job that wrote the model, as text; NULL: not known. */
static char *read_job(const char *model)
{
  static const char path[] = "provenance/resolved_config";
  const tt_err_record kept = *tt_err_record_of_thread();
  tt_h5_reader *r = NULL;
  char *text = NULL;
  if (!access(model, R_OK) && !tt_h5_open_local(model, &r) && tt_h5_has_local(r, path))
    (void)tt_h5_read_text_local(r, path, &text);
  tt_h5_close_local(&r);
  *tt_err_record_of_thread() = kept;
  return text;
}

tt_err tt_cli_format_of_model(tt_comm *c, const tt_cli_args *a, tt_table_format *out,
                              tt_config **job)
{
  char *text = tt_comm_is_root(c) ? read_job(a->file[0]) : NULL;
  tt_err e = tt_bcast_text(c, &text);
  const tt_err_record kept = *tt_err_record_of_thread();
  int64_t bytes = !e && text ? (int64_t)strlen(text) : 0;
  if (bytes && !tt_config_parse_without_data("model.h5", text, bytes, NULL, 0, job)) {
    const tt_table_format of_job = tt_data_format(*job);
    if (!a->delimiter) out->delimiter = of_job.delimiter;
    if (!a->decimal) out->decimal = of_job.decimal;
    out->classes = of_job.classes;
    out->dates = of_job.dates, out->date = of_job.date;
    if (!a->nas) out->nas = of_job.nas, out->na = of_job.na;
  }
  if (!e) *tt_err_record_of_thread() = kept;
  tt_free(text);
  return e;
}
