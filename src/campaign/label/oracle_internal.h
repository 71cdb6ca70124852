/* oracle_internal.h — the parts of stage label: groups, calls, and one row for each label.mode.
 * Floor 5, for the files oracle*.c only. All functions are local: rank 0 asks. */
#ifndef TT_ORACLE_PARTS_H
#define TT_ORACLE_PARTS_H
#include "src/campaign/label/oracle.h"
#include "io/hdf5/files.h"

#include <sys/types.h>

/* ---- Groups ------------------------------------------------------------------------------------
 */

typedef enum tt_group_state {
  TT_GROUP_waits,    /* neither of the two */
  TT_GROUP_answered, /* answer.h5 is there */
  TT_GROUP_failed    /* the file `failed` is there */
} tt_group_state;

/* Candidates asked for together. Its directory holds all that is known about it. */
typedef struct tt_group {
  char *directory; /* DIR/round-0012/label/0003 */
  int csv;         /* input.csv and output.csv, else .h5 */
  int64_t count;
  int64_t *id;   /* [count] numbers of the candidates */
  int64_t *pick; /* [count] their places in the picks; NULL in a task of its own */
  tt_group_state state;
} tt_group;

/* directory/name of a group. */
void tt_group_path(const tt_group *g, const char *name, char path[TT_PATH_ROOM]);

/* A group by its directory: reads input.h5 or input.csv, and looks. Errors: NOINPUT, DATA, MEM. */
tt_err tt_group_open(const char *directory, tt_group *out);
void tt_group_free(tt_group *g);

/* Look again whether it was answered or has failed, by somebody else maybe; sets `state`. */
void tt_group_look(tt_group *g);

/* Take a complete output: answer.h5 is written, the group answered.
 *   y    [count][T] in the order of `id`, NaN = unlabelled
 *   why  of rows without labels, "" if there are none
 * Errors: CANTCREAT, IO, MEM. */
tt_err tt_group_answer(tt_group *g, const tt_columns *target, const double *y, const char *why);
/* All of its rows failed: writes `failed`, says it in the log. Errors: CANTCREAT, IO. */
tt_err tt_group_fail(tt_group *g, const char *why);

/* ---- Modes -------------------------------------------------------------------------------------
 */

/* Stage label under way, as rank 0 sees it. */
typedef struct tt_asking {
  const tt_question *q;
  const tt_columns *target;
  int64_t groups;
  tt_group *group; /* [groups] with inputs written */
  int64_t left;    /* groups that wait */
  int stirred;     /* set by a poll in which something happened: the next one comes soon */
  int stopping;    /* the last poll: nothing new is begun, and who was killed did not crash */
  void *mine;      /* of the mode */
} tt_asking;

/* What a mode does. Groups may be answered already, all of them too. A poll moves on what can be
 * moved, within about a second, and never waits; it is called until no group waits, every 10 ms to
 * 0.5 s (what costs more, label.pause apart, counts by itself). Errors of start and poll end the
 * stage: as tt_ask. end is called in any case, after an error of start too, and ends what may not
 * outlive us. */
typedef struct tt_label_way {
  tt_err (*start)(tt_asking *a);
  tt_err (*poll)(tt_asking *a);
  void (*end)(tt_asking *a);
} tt_label_way;

extern const tt_label_way tt_label_by_command, tt_label_by_files, tt_label_by_slurm;

/* Groups of all picks, in a->group, with inputs written: those that are there already, each with
 * the candidates it has, and new ones of label.group for the rest. Directories of other candidates
 * are put aside. Errors: DATA (an input that cannot be read), CANTCREAT, IO, MEM. */
tt_err tt_groups_make(tt_asking *a);
void tt_groups_free(tt_asking *a);

/* The answers of all groups. why [room]: of the first rows without labels. Errors: DATA, IO, MEM.
 */
tt_err tt_groups_collect(const tt_asking *a, tt_answers *out, char *why, int room);

/* The numbers of the directories of a round's groups, ascending; owner: the caller, tt_free. A
 * directory that is missing has none. Errors: IO, MEM. */
tt_err tt_groups_list(const char *directory, int64_t **number, int64_t *count);
/* directory/0003 */
void tt_groups_path(const char *directory, int64_t number, char path[TT_PATH_ROOM]);

/* ---- Calls of the command ----------------------------------------------------------------------
 */

/* One group's calls, one after the other, each in a directory try-N of its own. Begin with only
 * cfg, target and group set; free with tt_call_end. */
typedef struct tt_call {
  const tt_config *cfg;
  const tt_columns *target;
  tt_group *group;
  int known;        /* what earlier lives left has been looked at */
  int64_t number;   /* N of the last try */
  int64_t crashes;  /* in all lives */
  int64_t forget;   /* N of a try that said later: removed once there is a next one; 0 = none */
  pid_t pid;        /* 0 = none runs */
  double until;     /* while it runs, when it is killed; else it is not called before: on the clock
                       of tt_clock_local */
  double later;     /* when it said later for the first time in this life; 0 = it did not */
  int gave_up;      /* it has said later for label.patience */
  int held, status; /* it was ended by a signal that may be meant for us: judged by the next poll */
} tt_call;

int tt_call_runs(const tt_call *c);
/* Could tt_call_start be called now? */
int tt_call_is_ready(const tt_call *c);
/* Look at what earlier lives left; if that does not answer, begin a call. Errors: UNAVAILABLE (the
 * command cannot be started), CANTCREAT, IO, MEM. */
tt_err tt_call_start(tt_call *c);
/* Has it ended, or taken too long? Then judge it. Errors: UNAVAILABLE (it asked to stop the
 * campaign), CANTCREAT, IO, MEM. */
tt_err tt_call_poll(tt_call *c);
/* Kill what runs; it does not count as crashed. */
void tt_call_end(tt_call *c);

/* ---- Slurm -------------------------------------------------------------------------------------
 * At the end of tt_ask_group_local: a task that could not do its part tells the campaign why, in a
 * file `later` (STOPPED) or `stop` (UNAVAILABLE) of the group. */
void tt_task_ended_local(const char *group, tt_err e);
#endif
