/* sbatch_script.h — `tutti slurm train|array|campaign`: print a template of slurm/ with the values
 * of a job. Local. */
#ifndef TT_SBATCH_SCRIPT_H
#define TT_SBATCH_SCRIPT_H
#include "core/base/err.h"

#include <stdio.h>

/* A file of slurm/ with its relative path: "train.sbatch", "site/alps". From cmake/embed.cmake. */
typedef struct tt_embedded_file {
  const char *name, *text;
} tt_embedded_file;
extern const tt_embedded_file tt_embedded_files[]; /* the last has name NULL */

typedef struct tt_sbatch_script {
  const char *script; /* "train", "array" or "campaign" */
  const char *site;   /* a file of slurm/site */
  const char *job;    /* the job file */
  const char *time;   /* time limit in the format of Slurm; NULL = that of the template */
  int nodes;          /* 0 = that of the template */
  int gpus_per_node;  /* also ranks per node; 0 = that of the site, or fewer if the members of a
                         training use fewer */
} tt_sbatch_script;

/* Print the script, with the output of `tutti plan` (for one round of a campaign) as comment.
 * Errors: USAGE (unknown site, the message lists all; more GPUs than its nodes have, because then
 * the number of cores is that of other nodes; not a time of Slurm; "campaign" for a file
 * without a campaign), those of tt_plan_print_local. */
tt_err tt_sbatch_script_print_local(const tt_sbatch_script *b);

/* Quote a text for a script: in single quotes for a shell; without its double quotes, for the value
 * of an option in a line #SBATCH that is a pattern of file names. Such a text has no control
 * character, double quote or backslash: core/config refuses them. */
void tt_shell_print_quoted(FILE *to, const char *text);
void tt_sbatch_print_pattern(FILE *to, const char *text);
#endif
