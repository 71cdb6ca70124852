/* verbs_slurm.c — see verbs.h: tutti slurm, for login nodes and batch scripts. */
#include "slurm/script.h"
#include "src/cli/cli_args.h"
#include "src/cli/slurm_facts.h"
#include "src/tools/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t count_useful_ranks(const tt_config *cfg)
{
  int64_t members = 0, parts = 1;
  for (int64_t i = 0; i < cfg->ensembles; i++) {
    members += cfg->ensemble[i].members;
    if (cfg->ensemble[i].train_parts > parts) parts = cfg->ensemble[i].train_parts;
  }
  int64_t team = cfg->run_ranks_per_member, stages = cfg->run_stages;
  if (team < 0) team = stages > 1 ? 1 : parts;
  if (stages > 1) team *= stages;
  return parts > 1 ? members * team : members;
}

/* Most ranks of the job that have work: for each member those that share it; of a campaign 0. */
static tt_err find_useful_ranks(const tt_sbatch_script *b, int64_t *ranks)
{
  tt_config *cfg = NULL;
  tt_err e = TT_OK;
  int campaign = !strcmp(b->script, "campaign");
  TT_TRY(tt_config_load(b->job, NULL, 0, &cfg));
  *ranks = campaign ? 0 : count_useful_ranks(cfg);
  if (campaign && !cfg->campaign)
    e = TT_FAIL(USAGE,
                "%s has none of the sections of a campaign (pool, label ...): did you mean `tutti "
                "slurm train`? `tutti campaign init` writes one",
                b->job);
  tt_config_destroy(&cfg);
  return e;
}

/* The output of `tutti plan`, of a campaign for one round. Owner: the caller, free. */
static tt_err format_plan(const tt_sbatch_script *b, int ranks, char **text)
{
  size_t bytes;
  const tt_job_options o = {.file = b->job};
  FILE *out = open_memstream(text, &bytes);
  if (!out) return TT_FAIL(MEM, "out of memory for the plan of %s", b->job);
  if (!strcmp(b->script, "campaign"))
    fputs("Training of one round, from `tutti plan` with the initial data; every round adds "
          "select.batch rows:\n",
          out);
  tt_err e = tt_plan_print_local(&o, ranks, 0, 0, out);
  return fclose(out) && !e ? TT_FAIL(MEM, "out of memory for the plan of %s", b->job) : e;
}

tt_err tt_verb_slurm_script(const tt_cli_args *args)
{
  char *plan = NULL;
  int ranks;
  tt_sbatch_script script = {.script = args->verb->name,
                             .site = args->site ? args->site : "generic",
                             .job = args->file[0],
                             .time = args->time,
                             .nodes = args->nodes,
                             .gpus_per_node = args->gpus_per_node};
  TT_TRY(find_useful_ranks(&script, &script.useful_ranks));
  TT_TRY(tt_sbatch_script_check(&script, &ranks));
  tt_err e = format_plan(&script, ranks, &plan);
  if (!e) e = tt_sbatch_script_print(&script, plan);
  free(plan);
  return e;
}

/* The last line of a batch script: exits with the exit code of the run. */
tt_err tt_verb_slurm_requeue(const tt_cli_args *args)
{
  char directory[TT_PATH_MAX];
  int code = 0;
  tt_job_options job = tt_cli_job(args);
  tt_slurm_start start = {.launcher_code = args->exit_code, .max_restarts = args->max_restarts};
  TT_TRY(tt_slurm_start_read_local(&job, &start, directory));
  TT_TRY(tt_requeue_decide_local(directory, &start, &code));
  exit(code);
}
