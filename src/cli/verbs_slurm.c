/* verbs_slurm.c — see verbs.h: tutti slurm, for login nodes and batch scripts. */
#include "src/cli/cli_args.h"
#include "src/slurm/requeue.h"
#include "src/slurm/sbatch_script.h"

#include <stdlib.h>

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
