/* verbs_campaign.c — tutti campaign run|step|...: active learning. */
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/config/config.h"
#include "io/hdf5/files.h"
#include "src/campaign/driver/campaign.h"
#include "src/campaign/driver/init.h"
#include "src/campaign/label/oracle.h"
#include "src/campaign/report/campaign_report.h"
#include "src/campaign/state/file_names.h"
#include "src/cli/verbs.h"
#include "src/host/stop_request.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_OVERRIDES = 256, MAX_FILES = 16 };
enum { KEY_MAX_TIME = 256, KEY_ALLOW_DEVICE, KEY_JSON, KEY_FROM, KEY_DATA, KEY_POOL };

typedef struct campaign_args {
  const char *file[MAX_FILES];
  int files, least, most;
  const char *set[MAX_OVERRIDES];
  int sets, json, any_device;
  const char *output, *from, *data, *pool;
} campaign_args;

static void add_override(campaign_args *t, const char *text, struct argp_state *s)
{
  if (t->sets == MAX_OVERRIDES)
    argp_error(s, "more than %d settings", MAX_OVERRIDES);
  else
    t->set[t->sets++] = text;
}

/* --max-time is --set run.max_time in fewer letters: one parser for durations. */
static void add_max_time(campaign_args *t, const char *text, struct argp_state *s)
{
  static char setting[128];
  snprintf(setting, sizeof setting, "run.max_time=%s", text);
  add_override(t, setting, s);
}

static int parse_option(campaign_args *t, int key, const char *arg, struct argp_state *s)
{
  switch (key) {
  case 's': add_override(t, arg, s); return 1;
  case 'q': tt_log_set_level(TT_LOG_WARN); return 1;
  case 'v': tt_log_set_level(TT_LOG_DEBUG); return 1;
  case KEY_MAX_TIME: add_max_time(t, arg, s); return 1;
  case KEY_ALLOW_DEVICE: t->any_device = 1; return 1;
  case 'o': t->output = arg; return 1;
  case KEY_JSON: t->json = 1; return 1;
  case KEY_FROM: t->from = arg; return 1;
  case KEY_DATA: t->data = arg; return 1;
  case KEY_POOL: t->pool = arg; return 1;
  default: return 0;
  }
}

static error_t parse(int key, char *arg, struct argp_state *s)
{
  campaign_args *t = s->input;
  if (parse_option(t, key, arg, s)) return 0;
  if (key == ARGP_KEY_END && t->files < t->least) argp_usage(s);
  if (key != ARGP_KEY_ARG) return key == ARGP_KEY_END ? 0 : ARGP_ERR_UNKNOWN;
  if (t->files == t->most) return ARGP_ERR_UNKNOWN;
  t->file[t->files++] = arg;
  return 0;
}

/* `least` to `most` files. */
static campaign_args parse_args(int argc, char **argv, const struct argp_option *options,
                                const char *args, const char *doc, int least, int most)
{
  campaign_args t = {.least = least, .most = most};
  struct argp argp = {options, parse, args, doc, NULL, NULL, NULL};
  argp_err_exit_status = tt_err_exit_code(TT_E_USAGE);
  argp_parse(&argp, argc, argv, 0, NULL, &t);
  return t;
}

static tt_job_options job_options(const campaign_args *t)
{
  return (tt_job_options){
      .file = t->file[0], .set = t->set, .nset = t->sets, .command = tt_command_line};
}

#define OPTION_SET                                                                                 \
  {                                                                                                \
    "set", 's', "KEY=VALUE", 0, "override an option, as select.batch=50", 0                        \
  }

static tt_err run_rounds(int argc, char **argv, int64_t rounds, const char *doc)
{
  static const struct argp_option options[] = {
      OPTION_SET,
      {"from", KEY_FROM, "ROUND:STAGE", 0,
       "do everything again from there on, as 12:select (train, score, select, label, merge)", 0},
      {"max-time", KEY_MAX_TIME, "TIME", 0, "stop with exit 75 after TIME, as 20min", 0},
      {"allow-different-device", KEY_ALLOW_DEVICE, NULL, 0,
       "resume on other arithmetic than the checkpoint's: no longer the same bits", 0},
      {"quiet", 'q', NULL, 0, "only warnings and errors", 0},
      {"verbose", 'v', NULL, 0, "say more", 0},
      {0}};
  campaign_args t = parse_args(argc, argv, options, "CAMPAIGN.yaml", doc, 1, 1);
  tt_campaign_options o = {
      .job = job_options(&t), .rounds = rounds, .from = t.from, .any_device = t.any_device};
  tt_stop_install_handlers_local(); /* MPI may take a while to start, and a signal comes but once */
  tt_err e = tt_comm_begin(&tt_world);
  if (!e) e = tt_campaign_run(tt_world, &o);
  return e;
}

static tt_err run(int argc, char **argv)
{
  return run_rounds(
      argc, argv, 0,
      "Train, score the pool, select, have labels made, and again, until a rule of section "
      "stop ends it. Run it again after any stop: it goes on where it was.");
}

static tt_err step(int argc, char **argv)
{
  return run_rounds(argc, argv, 1, "One more round of a campaign; see tutti campaign run.");
}

static tt_err status(int argc, char **argv)
{
  static const struct argp_option options[] = {{"json", KEY_JSON, NULL, 0, "as one JSON object", 0},
                                               {0}};
  campaign_args t =
      parse_args(argc, argv, options, "DIRECTORY",
                 "What the campaign of a directory (campaign.directory) does, or why it ended: "
                 "from its files alone, safe while it runs.",
                 1, 1);
  return tt_campaign_status_local(t.file[0], t.json);
}

static tt_err report(int argc, char **argv)
{
  static const struct argp_option options[] = {
      {"output", 'o', "DIR", 0, "directory for learning.tsv and learning.svg (default .)", 0}, {0}};
  campaign_args t =
      parse_args(argc, argv, options, "DIRECTORY [BASELINE...]",
                 "A table of all rounds, and the learning curve as table and picture; other "
                 "campaigns, as one with score.acquisition: random, are drawn beside it.",
                 1, MAX_FILES);
  return tt_campaign_report_local(t.file, t.files, t.output ? t.output : ".");
}

static tt_err label(int argc, char **argv)
{
  static const struct argp_option options[] = {{0}};
  campaign_args t =
      parse_args(argc, argv, options, "DIRECTORY ANSWERS",
                 "Give labels by hand (label.mode: files): an HDF5 or CSV file with the numbers "
                 "of the candidates and their targets.",
                 2, 2);
  return tt_oracle_import_labels_local(t.file[0], t.file[1]);
}

static tt_err request_pause(int argc, char **argv)
{
  static const struct argp_option options[] = {{0}};
  char path[TT_PATH_MAX];
  campaign_args t =
      parse_args(argc, argv, options, "DIRECTORY",
                 "Have a running campaign stop at the next safe place, with exit 75; tutti "
                 "campaign run goes on.",
                 1, 1);
  tt_campaign_path(t.file[0], "journal.jsonl", path);
  if (access(path, F_OK))
    return TT_FAIL(NOINPUT, "%s: no campaign has begun there (no journal.jsonl)", t.file[0]);
  tt_campaign_path(t.file[0], "STOP", path);
  return tt_file_write_atomic_local(path, "asked by tutti campaign pause\n");
}

static tt_err init(int argc, char **argv)
{
  static const struct argp_option options[] = {
      {"data", KEY_DATA, "FILE.h5", 0, "the first labelled samples", 0},
      {"pool", KEY_POOL, "FILE.h5", 0, "the candidates", 0},
      {0}};
  campaign_args t =
      parse_args(argc, argv, options, "DIRECTORY",
                 "Write a commented campaign.yaml for these files, or a small example.", 1, 1);
  return tt_campaign_init_local(t.file[0], t.data, t.pool);
}

static tt_err task(int argc, char **argv)
{
  static const struct argp_option options[] = {OPTION_SET, {0}};
  campaign_args t =
      parse_args(argc, argv, options, "CAMPAIGN.yaml GROUP",
                 "Ask for the labels of one group, in its directory: what a task of a Slurm array "
                 "of label.mode: slurm does.",
                 2, 2);
  char *text = NULL;
  int64_t bytes = 0;
  tt_config *cfg = NULL;
  TT_TRY(tt_config_read_file(t.file[0], &text, &bytes));
  tt_err e = tt_config_parse(t.file[0], text, bytes, t.set, t.sets, &cfg);
  if (!e) e = tt_oracle_label_group_local(cfg, t.file[1]);
  tt_config_destroy(&cfg);
  tt_free(text);
  return e;
}

typedef struct verb {
  const char *name, *usage, *summary;
  tt_err (*run)(int argc, char **argv);
} verb;

static const verb verbs[] = {
    {"init", "DIRECTORY", "a commented campaign.yaml", init},
    {"run", "CAMPAIGN.yaml", "until it ends; again after any stop", run},
    {"step", "CAMPAIGN.yaml", "one more round", step},
    {"status", "DIRECTORY", "what it does, or why it ended", status},
    {"label", "DIRECTORY ANSWERS", "give labels by hand", label},
    {"pause", "DIRECTORY", "stop at the next safe place", request_pause},
    {"report", "DIRECTORY [BASELINE...]", "table of rounds, learning curve", report},
    {"task", "CAMPAIGN.yaml GROUP", "label one group: for Slurm arrays", task},
};

static void print_usage(FILE *to)
{
  fprintf(to, "Usage:\n");
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
    fprintf(to, "  tutti campaign %-7s %-24s %s\n", verbs[i].name, verbs[i].usage,
            verbs[i].summary);
}

tt_err tt_verb_campaign(int argc, char **argv)
{
  static char name[64];
  const char *what = argc > 1 ? argv[1] : "";
  snprintf(name, sizeof name, "tutti campaign %.32s", what);
  if (argc > 1) argv[1] = name;
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
    if (!strcmp(what, verbs[i].name)) return verbs[i].run(argc - 1, argv + 1);
  int asked = !strcmp(what, "--help") || !strcmp(what, "-?");
  print_usage(asked ? stdout : stderr);
  return asked ? TT_OK : TT_FAIL(USAGE, "tutti campaign: there is no '%s'", what);
}
