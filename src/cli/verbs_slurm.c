/* verbs_slurm.c — see verbs.h: tutti status and tutti slurm, for login nodes and batch scripts. */
#include "src/campaign/report/campaign_report.h"
#include "src/campaign/state/file_names.h"
#include "src/cli/cli_args.h"
#include "src/report/run_status.h"
#include "src/slurm/requeue.h"
#include "src/slurm/sbatch_script.h"

#include <stdlib.h>
#include <unistd.h>

tt_err tt_verb_status(const tt_cli_args *args)
{
  char journal[TT_PATH_MAX];
  tt_campaign_path(args->file[0], "journal.jsonl", journal);
  if (!access(journal, F_OK)) return tt_campaign_status_local(args->file[0], args->json);
  return tt_run_status_print_local(args->file[0], args->json);
}

tt_err tt_verb_slurm_script(const tt_cli_args *args)
{
  tt_sbatch_script script = {.script = args->verb->name,
                             .site = args->site ? args->site : "generic",
                             .job = args->file[0],
                             .time = args->time,
                             .nodes = args->nodes,
                             .gpus_per_node = args->gpus_per_node};
  return tt_sbatch_script_print_local(&script);
}

/* The last line of a batch script: exits with the exit code of the run. */
tt_err tt_verb_slurm_requeue(const tt_cli_args *args)
{
  int code = 0;
  tt_job_options job = tt_cli_job(args);
  TT_TRY(tt_requeue_decide_local(&job, args->max_restarts, args->exit_code, &code));
  exit(code);
}
