/* verbs.h — the verbs of the command line: each is a row of verb_table.c and a function. */
#ifndef TT_VERBS_H
#define TT_VERBS_H
#include "mpi/comm.h"

enum { TT_VERB_MAX_OPTIONS = 11 };
typedef struct tt_cli_args tt_cli_args; /* cli_args.h */

/* One verb, or a family of verbs ("campaign run", "campaign status"). */
typedef struct tt_verb {
  const char *name, *files; /* files: positional arguments, as shown in the help */
  int min_files, max_files;
  const char *summary;                     /* at most 47 characters, for one line of the help */
  const char *help;                        /* text of `tutti VERB --help` */
  int8_t options[TT_VERB_MAX_OPTIONS + 1]; /* TT_CLI_SET ...; ends with TT_CLI_END */
  tt_err (*run)(const tt_cli_args *args);
  const struct tt_verb *verbs; /* members of a family; NULL = this is one verb */
} tt_verb;

/* The last row has name NULL. */
extern const tt_verb tt_verbs[];

/* In verbs_job.c. */
tt_err tt_verb_train(const tt_cli_args *args);
tt_err tt_verb_predict(const tt_cli_args *args);
tt_err tt_verb_evaluate(const tt_cli_args *args);
tt_err tt_verb_plan(const tt_cli_args *args);
tt_err tt_verb_doctor(const tt_cli_args *args);
tt_err tt_verb_import(const tt_cli_args *args);
tt_err tt_verb_info(const tt_cli_args *args);
tt_err tt_verb_report(const tt_cli_args *args);
tt_err tt_verb_options(const tt_cli_args *args);

/* In verbs_campaign.c. */
tt_err tt_verb_campaign_init(const tt_cli_args *args);
tt_err tt_verb_campaign_run(const tt_cli_args *args);
tt_err tt_verb_campaign_step(const tt_cli_args *args);
tt_err tt_verb_campaign_status(const tt_cli_args *args);
tt_err tt_verb_campaign_label(const tt_cli_args *args);
tt_err tt_verb_campaign_pause(const tt_cli_args *args);
tt_err tt_verb_campaign_report(const tt_cli_args *args);
tt_err tt_verb_campaign_task(const tt_cli_args *args);

/* In verbs_slurm.c; these start no MPI. */
tt_err tt_verb_status(const tt_cli_args *args);
tt_err tt_verb_slurm_script(const tt_cli_args *args);
tt_err tt_verb_slurm_requeue(const tt_cli_args *args);

/* All ranks, NULL if the verb needs no MPI. The verb begins it. main ends it after it has printed
 * the error, because a launcher may drop the output of a rank that has finalized MPI. */
extern tt_comm *tt_world;
#endif
