/* script.h — batch scripts: the templates of slurm/ with the values of a job. Local. */
#ifndef TT_SLURM_SCRIPT_H
#define TT_SLURM_SCRIPT_H
#include "core/base/err.h"

#include <stdint.h>
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
  int gpus_per_node;  /* also ranks per node; 0 = that of the site, or fewer if useful_ranks are */
  int64_t useful_ranks; /* most ranks that have work; 0 = not known */
} tt_sbatch_script;

/* Check the values, reduce gpus_per_node to useful_ranks, and give the number of ranks of the job.
 * Errors: USAGE (unknown site, the message lists all; more GPUs than its nodes have, because then
 * the number of cores is that of other nodes; not a time of Slurm). */
tt_err tt_sbatch_script_check(tt_sbatch_script *b, int *ranks);

/* Print the script to standard output.
 *   comment  lines that come before the job file, e.g. the output of `tutti plan`
 * Errors: USAGE (as above). */
tt_err tt_sbatch_script_print(const tt_sbatch_script *b, const char *comment);

/* Quote a text for a script: in single quotes for a shell; without its double quotes, for the value
 * of an option in a line #SBATCH that is a pattern of file names. Such a text has no control
 * character, double quote or backslash: core/config refuses them. */
void tt_shell_print_quoted(FILE *file, const char *text);
void tt_sbatch_print_pattern(FILE *file, const char *text);
#endif
