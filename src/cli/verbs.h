/* verbs.h — the verbs of the command line. Floor 6. */
#ifndef TT_VERBS_H
#define TT_VERBS_H
#include "mpi/comm.h"

/* One verb: its own options (argp), its work. Usage errors end the process with 64 in argp. */
typedef struct tt_verb {
  const char *name, *summary;
  tt_err (*run)(int argc, char **argv); /* argv[0] is "tutti VERB" */
} tt_verb;

/* Ends with a NULL name. */
extern const tt_verb tt_verbs[];

/* Of verbs_job.c. */
tt_err tt_verb_train(int argc, char **argv);
tt_err tt_verb_predict(int argc, char **argv);
tt_err tt_verb_evaluate(int argc, char **argv);
tt_err tt_verb_plan(int argc, char **argv);
tt_err tt_verb_doctor(int argc, char **argv);
tt_err tt_verb_import(int argc, char **argv);
tt_err tt_verb_info(int argc, char **argv);
tt_err tt_verb_report(int argc, char **argv);
tt_err tt_verb_options(int argc, char **argv);

/* Of verbs_campaign.c: a family of verbs. */
tt_err tt_verb_campaign(int argc, char **argv);

/* Verbs that start no MPI, of verbs_slurm.c. */
tt_err tt_verb_status(int argc, char **argv);
tt_err tt_verb_slurm(int argc, char **argv);

/* The ranks, if the verb needed them; begun by the verb, ended by main once the error is printed:
 * a launcher may stop listening to a rank that has ended MPI. */
extern tt_comm *tt_world;

/* The command line as one text, for provenance. Set by main. */
extern const char *tt_command_line;
#endif
