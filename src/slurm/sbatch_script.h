/* sbatch_script.h — `tutti slurm train`: a batch script of slurm/ with the lines that a job decides
 * filled in. Floor 4; local. */
#ifndef TT_SBATCH_SCRIPT_H
#define TT_SBATCH_SCRIPT_H
#include "core/base/err.h"

#include <stdio.h>

/* A file of slurm/, by its name there: "train.sbatch", "site/alps". Made by cmake/embed.cmake. */
typedef struct tt_embedded_file {
  const char *name, *text;
} tt_embedded_file;
extern const tt_embedded_file tt_embedded_files[]; /* ends with a NULL name */

typedef struct tt_sbatch_script {
  const char *script; /* "train", "array" or "campaign" */
  const char *site;   /* a file of slurm/site */
  const char *job;    /* the job file */
  const char *time;   /* of a life, as Slurm takes it; NULL = as in the script */
  int nodes;          /* 0 = as in the script */
  int gpus_per_node;  /* and ranks per node; 0 = as in the block of the site */
} tt_sbatch_script;

/* Print the script, with what `tutti plan` says of the job (of one round of a campaign) as comment.
 * Errors: USAGE (no such site, the message lists them; a time that Slurm does not take; "campaign"
 * for a file without a campaign), those of tt_plan_print_local. */
tt_err tt_sbatch_script_print_local(const tt_sbatch_script *b);

/* Between single quotes, for a shell. */
void tt_shell_print_quoted(FILE *to, const char *text);
#endif
