/* verbs_slurm.c — tutti status and tutti slurm: verbs for login nodes and batch scripts. */
#include "src/campaign/report/campaign_report.h"
#include "src/campaign/state/file_names.h"
#include "src/cli/verbs.h"
#include "src/report/run_status.h"
#include "src/slurm/requeue.h"
#include "src/slurm/sbatch_script.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  MAX_OVERRIDES = 256,
  KEY_SITE = 256,
  KEY_NODES,
  KEY_GPUS,
  KEY_TIME,
  KEY_EXIT_CODE,
  KEY_MAX_RESTARTS,
  KEY_JSON
};

typedef struct slurm_args {
  const char *file;
  const char *set[MAX_OVERRIDES];
  int sets, json, code;
  int64_t max_restarts;
  tt_sbatch_script batch;
} slurm_args;

/* A whole number in a range, or the end of the program with 64. */
static int number(const char *option, const char *text, int low, struct argp_state *s)
{
  char *end;
  long n = strtol(text, &end, 10);
  if (end == text || *end || n < low || n > 1000000)
    argp_error(s, "--%s: '%s' is not a whole number from %d on", option, text, low);
  return (int)n;
}

static error_t parse(int key, char *arg, struct argp_state *s)
{
  slurm_args *t = s->input;
  switch (key) {
  case 's':
    if (t->sets == MAX_OVERRIDES) argp_error(s, "more than %d settings", MAX_OVERRIDES);
    t->set[t->sets++] = arg;
    return 0;
  case KEY_SITE: t->batch.site = arg; return 0;
  case KEY_TIME: t->batch.time = arg; return 0;
  case KEY_NODES: t->batch.nodes = number("nodes", arg, 1, s); return 0;
  case KEY_GPUS: t->batch.gpus_per_node = number("gpus-per-node", arg, 1, s); return 0;
  case KEY_EXIT_CODE: t->code = number("exit-code", arg, 0, s); return 0;
  case KEY_MAX_RESTARTS: t->max_restarts = number("max-restarts", arg, 0, s); return 0;
  case KEY_JSON: t->json = 1; return 0;
  case ARGP_KEY_ARG:
    if (t->file) return ARGP_ERR_UNKNOWN;
    t->file = arg;
    return 0;
  case ARGP_KEY_END:
    if (!t->file) argp_usage(s);
    return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

static void parse_args(slurm_args *t, int argc, char **argv, const struct argp_option *options,
                       const char *args, const char *doc)
{
  struct argp argp = {options, parse, args, doc, NULL, NULL, NULL};
  argp_err_exit_status = tt_err_exit_code(TT_E_USAGE);
  argp_parse(&argp, argc, argv, 0, NULL, t);
}

tt_err tt_verb_status(int argc, char **argv)
{
  static const struct argp_option options[] = {{"json", KEY_JSON, NULL, 0, "as one JSON object", 0},
                                               {0}};
  slurm_args t = {0};
  char journal[TT_PATH_MAX];
  parse_args(
      &t, argc, argv, options, "DIRECTORY",
      "What the run of a directory (run.directory of its job) or the campaign there does, or "
      "why it ended: from its files alone, safe while it runs.");
  tt_campaign_path(t.file, "journal.jsonl", journal);
  if (!access(journal, F_OK)) return tt_campaign_status_local(t.file, t.json);
  return tt_run_status_print_local(t.file, t.json);
}

static tt_err script(const char *which, int argc, char **argv)
{
  static const struct argp_option options[] = {
      {"site", KEY_SITE, "NAME", 0, "the centre: a block of slurm/site (default generic)", 0},
      {"nodes", KEY_NODES, "N", 0, "nodes of the job", 0},
      {"gpus-per-node", KEY_GPUS, "G", 0, "GPUs of a node, one rank for each", 0},
      {"time", KEY_TIME, "TIME", 0, "of one life of the job, as 4:00:00", 0},
      {0}};
  slurm_args t = {.batch = {.script = which, .site = "generic"}};
  parse_args(
      &t, argc, argv, options, "JOB.yaml",
      "Write a batch script that trains the job, or runs the campaign, until it is done, through "
      "time limits and preemption: tutti slurm train job.yaml > job.sbatch; sbatch job.sbatch");
  t.batch.job = t.file;
  return tt_sbatch_script_print_local(&t.batch);
}

/* The exit code is that of the run, whatever it was: the batch script's last word. */
static tt_err requeue(int argc, char **argv)
{
  static const struct argp_option options[] = {
      {"set", 's', "KEY=VALUE", 0, "as given to train or campaign run", 0},
      {"exit-code", KEY_EXIT_CODE, "CODE", 0, "exit code of srun or mpirun", 0},
      {"max-restarts", KEY_MAX_RESTARTS, "N", 0,
       "times that Slurm may start the job again (default 50)", 0},
      {0}};
  slurm_args t = {.max_restarts = 50};
  int code = 0;
  parse_args(
      &t, argc, argv, options, "JOB.yaml",
      "In a batch script, after `srun tutti train JOB.yaml` or `srun tutti campaign run "
      "JOB.yaml`: have Slurm queue the job again if the run was stopped, hung or died with a "
      "new checkpoint; not if it is done, failed, was stopped by a person, or makes no "
      "progress. Says which checkpoint and why. Ends with the exit code of the run.");
  tt_job_options o = {.file = t.file, .set = t.set, .nset = t.sets, .command = tt_command_line};
  TT_TRY(tt_requeue_decide_local(&o, t.max_restarts, t.code, &code));
  exit(code);
}

tt_err tt_verb_slurm(int argc, char **argv)
{
  static const char *const scripts[] = {"train", "array", "campaign", NULL};
  static char name[64];
  const char *what = argc > 1 ? argv[1] : "";
  snprintf(name, sizeof name, "tutti slurm %.32s", what);
  if (argc > 1) argv[1] = name;
  for (int i = 0; scripts[i]; i++)
    if (!strcmp(what, scripts[i])) return script(scripts[i], argc - 1, argv + 1);
  if (!strcmp(what, "requeue")) return requeue(argc - 1, argv + 1);
  int asked = !strcmp(what, "--help") || !strcmp(what, "-?");
  fprintf(asked ? stdout : stderr,
          "Usage: tutti slurm train JOB.yaml          a batch script for the job\n"
          "       tutti slurm array JOB.yaml          one for an array of runs\n"
          "       tutti slurm campaign CAMPAIGN.yaml  one for an active-learning campaign\n"
          "       tutti slurm requeue JOB.yaml        at the end of such a script\n");
  return asked ? TT_OK
               : TT_FAIL(USAGE, "tutti slurm: '%s' is not train, array, campaign or requeue", what);
}
