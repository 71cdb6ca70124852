/* oracle_internal.h — the parts of stage label: groups, calls, and one backend per label.mode.
 * Private to src/campaign/label. All functions are local and run on rank 0. */
#ifndef TT_ORACLE_INTERNAL_H
#define TT_ORACLE_INTERNAL_H
#include "io/files/files.h"
#include "src/campaign/label/oracle.h"

#include <sys/types.h>

/* Groups */

typedef enum tt_label_group_state {
  TT_LABEL_GROUP_pending, /* neither labeled nor failed */
  TT_LABEL_GROUP_labeled, /* accepted.h5 exists */
  TT_LABEL_GROUP_failed   /* the file `failed` exists */
} tt_label_group_state;

/* Candidates that are labeled by one call. The directory of a group holds its whole state. */
typedef struct tt_label_group {
  char *directory; /* DIR/round-0012/label/0003 */
  int csv;         /* input.csv and output.csv, else .h5 */
  int64_t count;
  int64_t *id;    /* [count] numbers of the candidates */
  int64_t *query; /* [count] indices of their queries; NULL in a task of a Slurm array */
  tt_label_group_state state;
  int recorded;   /* 1 = its results are in the record */
  int counted;    /* 1 = `failed` is known */
  int64_t failed; /* rows without labels of a labeled group */
} tt_label_group;

/* Open a group by its directory: read input.h5 or input.csv, set `state`. Owner of *out: the
 * caller. Errors: NOINPUT (neither file exists), DATA, IO, MEM. */
tt_err tt_label_group_open(const char *directory, tt_label_group *out);
void tt_label_group_free(tt_label_group *g);

/* Set `state` from the files of the group, which another process may have written. Errors: IO. */
tt_err tt_label_group_update(tt_label_group *g);

/* Read an output of the group, or its accepted labels: y [count][T] in the order of `id`, also
 * after an error owned by the caller.
 *   given  rows in the output
 *   why    [capacity] reason of the rows without labels
 * Errors: NOINPUT, DATA, IO, MEM. */
tt_err tt_label_group_read_output(const tt_label_group *g, const tt_columns *target,
                                  const char *path, double **y, int64_t *given);
tt_err tt_label_group_read_labels(const tt_label_group *g, const tt_columns *target, double **y,
                                  char *why, int capacity);
/* The same of a group that has ended, failed ones too: then all labels are NaN. */
tt_err tt_label_group_read_results(const tt_label_group *g, const tt_columns *target, double **y,
                                   char *why, int capacity);

/* Accept a complete output: write accepted.h5, set `state` to labeled.
 *   y    [count][T] in the order of `id`, NaN = unlabeled
 *   why  reason of the rows without labels, "" if there are none
 * Errors: CANTCREAT, IO, MEM. */
tt_err tt_label_group_write_labels(tt_label_group *g, const tt_columns *target, const double *y,
                                   const char *why);
/* All rows failed: write `failed`, set `state`, log a warning. Errors: CANTCREAT, IO. */
tt_err tt_label_group_write_failed(tt_label_group *g, const char *why);

/* Modes */

/* The running stage label, on rank 0. */
typedef struct tt_labeling {
  const tt_label_request *request;
  const tt_columns *target;
  int64_t *point; /* [queries] numbers of the queries in the record */
  int64_t groups;
  tt_label_group *group; /* [groups] with inputs written; none with mode ask */
  int64_t reused_labels; /* queries in no group, which have a label in the record */
  int64_t pending;       /* groups in state pending; with mode ask, points without an answer */
  int progressed;        /* set by a poll that changed something: the next poll follows soon */
  int stopping;          /* 1 in the last poll: start no call; a killed call is not a crash */
  int hopeless;          /* 1 = too many rows have failed: what still runs is not needed */
  void *backend_data;    /* of the mode */
} tt_labeling;

/* The functions of a mode. Some or all groups may be labeled before start. poll does what is
 * possible within about a second and never blocks; it is called every 10 ms to 0.5 s while groups
 * are pending (for expensive actions a backend itself waits label.poll_interval). Errors of start
 * and poll end the stage: as tt_oracle_label. end is always called, after an error of start too,
 * and kills the processes that must not run on. */
typedef struct tt_label_backend {
  tt_err (*start)(tt_labeling *a);
  tt_err (*poll)(tt_labeling *a);
  void (*end)(tt_labeling *a);
} tt_label_backend;

extern const tt_label_backend tt_label_backend_command, tt_label_backend_slurm,
    tt_label_backend_ask;

/* Whether others ask for the points: label.mode ask, campaign.mode asynchronous. */
static inline int tt_label_is_asked(const tt_config *cfg)
{
  return cfg->label_mode == TT_LABEL_ask || cfg->campaign_mode == TT_CAMPAIGN_MODE_asynchronous;
}

/* For a shell: the command of a task, to which its directory is appended. Its paths are absolute: a
 * job may start in another directory. Owner of *text: the caller, free. Errors: IO, MEM. */
tt_err tt_label_task_command(const tt_label_request *q, char **text);
/* The files `later` (stop 0) and `stop` (1) in the directory of a task. Remove: errors IO. */
tt_err tt_label_task_mark(const char *directory, int stop, char path[TT_PATH_MAX], int *exists);
tt_err tt_label_task_unmark(const char *directory, int stop);

/* label_points.c: the queries in the record of the campaign */

/* Number the queries in a->point; those that the record lacks are added. Errors: DATA (an input
 * that cannot be read), CANTCREAT, IO, MEM. */
tt_err tt_label_points_create(tt_labeling *a);
/* Queue the points that shall be labeled; if the mode asks for them itself, they become asked.
 * Errors: as tt_points_change_local. */
tt_err tt_label_points_queue(tt_labeling *a);
/* Record the results of groups that have ended. Errors: DATA, IO, MEM. */
tt_err tt_label_points_update(tt_labeling *a);
/* The labels of all queries.
 *   why  [capacity] reason of the first point without one, "" if there is none or it is unknown */
void tt_label_points_collect(const tt_labeling *a, tt_query_labels *out, char *why, int capacity);

/* Create the groups of all queries in a->group, with inputs written: existing groups keep their
 * candidates, labels of the record are reused, and new groups of label.rows_per_call hold the rest.
 * Directories with other candidates are renamed to backups. With mode ask there are no groups.
 * Errors: DATA (an input that cannot be read), CANTCREAT, IO, MEM. */
tt_err tt_label_groups_create(tt_labeling *a);
void tt_label_groups_free(tt_labeling *a);

/* Set a->hopeless if more rows have failed than label.max_failed allows while groups are pending.
 * Errors: DIVERGED (then), DATA, IO, MEM. */
tt_err tt_label_groups_check_failed(tt_labeling *a);

/* Calls of the command */

/* The calls of one group, one after the other, each in its own directory try-N. Initialize cfg,
 * target and group, the rest with 0; end with tt_oracle_call_kill. */
typedef struct tt_oracle_call {
  const tt_config *cfg;
  const tt_columns *target;
  tt_label_group *group;
  int scanned;              /* 1 = the tries of earlier starts were checked */
  int64_t last_try;         /* N of the last try */
  int64_t crashes;          /* of all starts */
  int64_t retry_later_try;  /* N of a try with exit code 75, removed at the next try; 0 = none */
  pid_t pid;                /* 0 = no call runs */
  double deadline;          /* s, clock of tt_monotonic_seconds: when the running call is killed; if
                               none runs, the earliest start of the next one */
  double retry_later_since; /* s: first exit code 75 since this start; 0 = none */
  int max_wait_exceeded;    /* 1 = exit code 75 for longer than label.max_wait */
  int exit_pending;         /* 1 = ended by a signal that this process may get too: the next poll
                               handles `status` */
  int status;               /* wait status of the call */
} tt_oracle_call;

int tt_oracle_call_is_running(const tt_oracle_call *c);
/* 1 = tt_oracle_call_start may be called now. */
int tt_oracle_call_is_ready(const tt_oracle_call *c);
/* Accept a complete output of an earlier start, otherwise start a call. Errors: UNAVAILABLE (the
 * command cannot be started), CANTCREAT, IO, MEM. */
tt_err tt_oracle_call_start(tt_oracle_call *c);
/* If the call has ended or exceeds label.timeout, handle its result. Errors: UNAVAILABLE (its exit
 * code stops the campaign), CANTCREAT, IO, MEM. */
tt_err tt_oracle_call_poll(tt_oracle_call *c);
/* Poll and start calls until the group is labeled or has failed, or a signal requests a stop.
 * Errors: as tt_oracle_label_group_local. */
tt_err tt_oracle_call_finish(tt_oracle_call *c);
/* Kill the running call, if any; it does not count as crashed. */
void tt_oracle_call_kill(tt_oracle_call *c);

/* A task whose group is not labeled reports the reason to the campaign, in a file `later`
 * (e is STOPPED) or `stop` (UNAVAILABLE) of its directory. */
void tt_label_task_report_local(const char *directory, tt_err e);
#endif
