/* oracle_internal.h — the parts of stage label: groups, calls, and one row for each label.mode.
 * Floor 5, for the files oracle*.c only. All functions are local: rank 0 asks. */
#ifndef TT_ORACLE_INTERNAL_H
#define TT_ORACLE_INTERNAL_H
#include "io/hdf5/files.h"
#include "src/campaign/label/oracle.h"

#include <sys/types.h>

/* A queried candidate: its row in the pool, and its place among the queries of the round. */
typedef struct tt_query_index {
  int64_t row, query;
} tt_query_index;

/* ---- Groups ------------------------------------------------------------------------------------
 */

typedef enum tt_label_group_state {
  TT_LABEL_GROUP_pending,  /* neither of the two */
  TT_LABEL_GROUP_labelled, /* accepted.h5 is there */
  TT_LABEL_GROUP_failed    /* the file `failed` is there */
} tt_label_group_state;

/* Candidates asked for together. Its directory holds all that is known about it. */
typedef struct tt_label_group {
  char *directory; /* DIR/round-0012/label/0003 */
  int csv;         /* input.csv and output.csv, else .h5 */
  int64_t count;
  int64_t *id;    /* [count] numbers of the candidates */
  int64_t *query; /* [count] their places in the picks; NULL in a task of its own */
  tt_label_group_state state;
} tt_label_group;

/* directory/name of a group. */
void tt_label_group_path(const tt_label_group *g, const char *name, char path[TT_PATH_MAX]);

/* A group by its directory: reads input.h5 or input.csv, and looks. Errors: NOINPUT, DATA, MEM. */
tt_err tt_label_group_open(const char *directory, tt_label_group *out);
void tt_label_group_free(tt_label_group *g);

/* Look again whether it was answered or has failed, by somebody else maybe; sets `state`. */
void tt_label_group_update(tt_label_group *g);

/* Take a complete output: accepted.h5 is written, the group answered.
 *   y    [count][T] in the order of `id`, NaN = unlabelled
 *   why  of rows without labels, "" if there are none
 * Errors: CANTCREAT, IO, MEM. */
tt_err tt_label_group_write_labels(tt_label_group *g, const tt_columns *target, const double *y,
                                   const char *why);
/* All of its rows failed: writes `failed`, says it in the log. Errors: CANTCREAT, IO. */
tt_err tt_label_group_write_failed(tt_label_group *g, const char *why);

/* ---- Modes -------------------------------------------------------------------------------------
 */

/* Stage label under way, as rank 0 sees it. */
typedef struct tt_labelling {
  const tt_label_request *request;
  const tt_columns *target;
  int64_t groups;
  tt_label_group *group; /* [groups] with inputs written */
  int64_t pending;       /* groups that wait */
  int progressed;        /* set by a poll in which something happened: the next one comes soon */
  int stopping;          /* the last poll: nothing new is begun, and who was killed did not crash */
  void *backend_data;    /* of the mode */
} tt_labelling;

/* What a mode does. Groups may be answered already, all of them too. A poll moves on what can be
 * moved, within about a second, and never waits; it is called until no group waits, every 10 ms to
 * 0.5 s (what costs more, label.poll_interval apart, counts by itself). Errors of start and poll
 * end the stage: as tt_oracle_label. end is called in any case, after an error of start too, and
 * ends what may not outlive us. */
typedef struct tt_label_backend {
  tt_err (*start)(tt_labelling *a);
  tt_err (*poll)(tt_labelling *a);
  void (*end)(tt_labelling *a);
} tt_label_backend;

extern const tt_label_backend tt_label_backend_command, tt_label_backend_files,
    tt_label_backend_slurm;

/* Groups of all picks, in a->group, with inputs written: those that are there already, each with
 * the candidates it has, and new ones of label.rows_per_call for the rest. Directories of other
 * candidates are put aside. Errors: DATA (an input that cannot be read), CANTCREAT, IO, MEM. */
tt_err tt_label_groups_create(tt_labelling *a);
void tt_label_groups_free(tt_labelling *a);

/* The answers of all groups. why [room]: of the first rows without labels. Errors: DATA, IO, MEM.
 */
tt_err tt_label_groups_collect(const tt_labelling *a, tt_query_labels *out, char *why, int room);

/* ---- Calls of the command ----------------------------------------------------------------------
 */

/* One group's calls, one after the other, each in a directory try-N of its own. Begin with only
 * cfg, target and group set; free with tt_oracle_call_kill. */
typedef struct tt_oracle_call {
  const tt_config *cfg;
  const tt_columns *target;
  tt_label_group *group;
  int scanned;      /* what earlier lives left has been looked at */
  int64_t last_try; /* N of the last try */
  int64_t crashes;  /* in all lives */
  int64_t
      retry_later_try; /* N of a try that said later: removed once there is a next one; 0 = none */
  pid_t pid;           /* 0 = none runs */
  double deadline; /* while it runs, when it is killed; else it is not called before: on the clock
                   of tt_monotonic_seconds */
  double retry_later_since; /* when it said later for the first time in this life; 0 = it did not */
  int max_wait_exceeded;    /* it has said later for label.max_wait */
  int exit_pending,
      status; /* it was ended by a signal that may be meant for us: judged by the next poll */
} tt_oracle_call;

int tt_oracle_call_is_running(const tt_oracle_call *c);
/* Could tt_oracle_call_start be called now? */
int tt_oracle_call_is_ready(const tt_oracle_call *c);
/* Look at what earlier lives left; if that does not answer, begin a call. Errors: UNAVAILABLE (the
 * command cannot be started), CANTCREAT, IO, MEM. */
tt_err tt_oracle_call_start(tt_oracle_call *c);
/* Has it ended, or taken too long? Then judge it. Errors: UNAVAILABLE (it asked to stop the
 * campaign), CANTCREAT, IO, MEM. */
tt_err tt_oracle_call_poll(tt_oracle_call *c);
/* Kill what runs; it does not count as crashed. */
void tt_oracle_call_kill(tt_oracle_call *c);

/* ---- Slurm -------------------------------------------------------------------------------------
 * At the end of tt_oracle_label_group_local: a task that could not do its part tells the campaign
 * why, in a file `later` (STOPPED) or `stop` (UNAVAILABLE) of the group. */
void tt_label_task_report_local(const char *group, tt_err e);
#endif
