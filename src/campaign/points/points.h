/* points.h — the record of every point of a campaign: DIR/events.jsonl. Local; only rank 0 has it.
 * docs/files.md describes the file.
 *
 * A point is a row of inputs that the campaign wants labeled, or that somebody has labeled. Its
 * number, from 0 on, is for life: it depends neither on pool files nor on rounds. A line of the
 * file is an event that has happened to points. It is synced before what it announces is done, and
 * has all or none of its changes. Memory holds only what the file says.
 * All functions may be called by several threads; those that read hold the lock meanwhile. */
#ifndef TT_POINTS_H
#define TT_POINTS_H
#include "core/base/json.h"
#include "core/model/dataset.h"
#include "src/campaign/state/line_log.h"

/* name, meaning */
#define TT_POINT_STATES(X)                                                                         \
  X(proposed, "known; it is not to be labeled now")                                                \
  X(queued, "waits until somebody asks for it")                                                    \
  X(asked, "somebody labels it, until the lease ends")                                             \
  X(labeled, "has a label")                                                                        \
  X(impossible, "cannot be labeled")                                                               \
  X(crashed, "an attempt to label it has failed")                                                  \
  X(expired, "its lease has ended without an answer")

typedef enum tt_point_state {
#define X(name, meaning) TT_POINT_##name,
  TT_POINT_STATES(X)
#undef X
      TT_POINT_STATE_COUNT
} tt_point_state;
extern const char *const tt_point_state_name[]; /* ends with NULL */

/* What may follow what: from, to, 1 = only in an event with "again". A point begins as proposed. */
#define TT_POINT_CHANGES(X)                                                                        \
  X(proposed, queued, 0)                                                                           \
  X(proposed, labeled, 0) /* told without being asked */                                           \
  X(proposed, impossible, 0)                                                                       \
  X(queued, asked, 0)                                                                              \
  X(queued, proposed, 0) /* its round is repeated with other queries */                            \
  X(queued, labeled, 0)  /* a late answer, or an answer that nobody asked for */                   \
  X(queued, impossible, 0)                                                                         \
  X(queued, crashed, 0)                                                                            \
  X(asked, labeled, 0)                                                                             \
  X(asked, impossible, 0)                                                                          \
  X(asked, crashed, 0)                                                                             \
  X(asked, expired, 0)                                                                             \
  X(asked, proposed, 0) /* as queued; or label.mode has changed */                                 \
  X(crashed, queued, 0)                                                                            \
  X(crashed, labeled, 0)                                                                           \
  X(crashed, impossible, 0)                                                                        \
  X(expired, queued, 0)                                                                            \
  X(expired, proposed, 0)                                                                          \
  X(expired, labeled, 0)                                                                           \
  X(expired, impossible, 0)                                                                        \
  X(expired, crashed, 0)                                                                           \
  X(impossible, queued, 0) /* queried by a later round that repeats an earlier one */              \
  X(labeled, labeled, 1)   /* tutti tell --replace */                                              \
  X(impossible, labeled, 1)                                                                        \
  X(labeled, proposed, 1) /* --from N:label: the answer is dropped */                              \
  X(impossible, proposed, 1)                                                                       \
  X(crashed, proposed, 1)

typedef struct tt_point {
  int64_t row;   /* of the pool, -1 = of no pool */
  int64_t line;  /* of events.jsonl: its last event */
  int64_t until; /* when its lease ends, seconds since 1970; 0 = never */
  int64_t time;  /* of its last event, seconds since 1970 */
  double score;  /* at its first selection; NaN = unknown, or drawn at random */
  int32_t round; /* of the campaign */
  int32_t lease; /* number of its lease + 1; 0 = none */
  int32_t crashes;
  int8_t state, random;
  char *why; /* it has no label; NULL = unknown */
} tt_point;

typedef struct tt_points tt_points;

/* Open the record in a directory; a replaced one (line_log.h) is created if it is missing.
 *   input, target  columns, copied into a new record; of an existing one they must be the same.
 *                  NULL: those of the record
 *   who            this process, in all its events
 * Errors: NOINPUT (no record), DATA (a line is damaged, or a change is not allowed: file:line;
 * other columns), CANTCREAT, IO, MEM, STOPPED. */
tt_err tt_points_open_local(const char *directory, tt_line_log_use use, const tt_columns *input,
                            const tt_columns *target, const char *who, tt_points **out);
void tt_points_close_local(tt_points **p); /* accepts NULL */

/* Only the columns of the record. Owner: the caller. Errors: NOINPUT, DATA, MEM. */
tt_err tt_points_columns_local(const char *directory, tt_columns *input, tt_columns *target);

/* Between the two, no other thread changes the record. */
void tt_points_lock(tt_points *p);
void tt_points_unlock(tt_points *p);

int64_t tt_points_count(const tt_points *p);
const tt_columns *tt_points_input(const tt_points *p);
/* Whether labels were replaced or dropped, or a round began twice: the labels that an earlier round
 * had are then not known any more. */
int tt_points_were_revised(const tt_points *p);
/* Valid until the lock is given back: point i, its inputs [D], its labels [T] (NaN where it has
 * none), its texts [D] (NULL where an input is a number) or NULL. */
const tt_point *tt_points_at(const tt_points *p, int64_t i);
const double *tt_points_x(const tt_points *p, int64_t i);
const double *tt_points_y(const tt_points *p, int64_t i);
const char *const *tt_points_text(const tt_points *p, int64_t i);
/* Number of a lease, -1 = there is none of this name. */
int32_t tt_points_find_lease(const tt_points *p, const char *name);

/* A row with these inputs has the number of its point.
 *   x       [count][D]; row [count] or NULL, as in tt_known_inputs_find, and net
 *   number  [count] receives the points, -1 = there is none
 * Errors: MEM. */
tt_err tt_points_find_local(tt_points *p, int64_t count, const int64_t *row, const double *x,
                            const tt_net_inputs *net, int64_t *number);

typedef struct tt_new_points {
  int64_t count;
  const int64_t *row;   /* [count] or NULL: of no pool */
  const int8_t *random; /* [count] or NULL */
  const double *score;  /* [count] or NULL */
  const double *x;      /* [count][D] */
  char *const *text;    /* [count][D] NULL where an input is a number, or NULL: there are none */
  int32_t round;
} tt_new_points;

/* Add the rows with number -1, with the numbers from tt_points_count on, as proposed points; set
 * their numbers. Errors: CANTCREAT, IO, MEM, STOPPED. */
tt_err tt_points_add_unknown_local(tt_points *p, const tt_new_points *n, int64_t *number);

typedef struct tt_point_change {
  int64_t count;
  const int64_t *point;  /* [count] */
  tt_point_state to;     /* of all; */
  const int8_t *to_each; /* [count] or NULL: `to` */
  const double *y;       /* [count][T] of those that become labeled, or NULL */
  const char *lease;     /* of those that become asked; NULL: the campaign asks, without an end */
  int64_t until;
  const char *who, *why; /* NULL: this process; nothing is known */
  int again;
} tt_point_change;

/* The line of the event with which a round begins, 0 = there is none. What is told after this line
 * belongs to a later round. Such an event makes those of the same and of later rounds invalid. */
int64_t tt_points_begin_line(tt_points *p, int32_t round);
/* The same; the event is added if there is none, or if `again`. Errors: IO, MEM, STOPPED. */
tt_err tt_points_begin_round_local(tt_points *p, int32_t round, int again, int64_t *line);

/* One event. Nothing to do if count is 0. Errors: DATA (a change that is not allowed: the message
 * names the line of the last event of the point), IO, MEM, STOPPED. */
tt_err tt_points_change_local(tt_points *p, const tt_point_change *c);

/* The answers of those points that have none, one event.
 *   number  [count] overwritten
 *   y       [count][T] labels, all NaN where there can be none; NULL: an attempt has failed
 *   why     there is no label, or NULL
 * Errors: as tt_points_change_local; MEM. */
tt_err tt_points_answer_local(tt_points *p, int64_t count, int64_t *number, const double *y,
                              const char *why);

/* Points that have labels already, of another file: those that the record lacks are added, and
 * those without an answer become labeled, or impossible where all labels are NaN.
 *   y  [n->count][T]; n and net as above
 * Errors: those of the functions above. */
tt_err tt_points_adopt_local(tt_points *p, const tt_new_points *n, const tt_net_inputs *net,
                             const double *y);

/* Whether a point needs no label any more. `retries`: crashes that do not end it. */
int tt_point_is_done(const tt_point *t, int64_t retries);

/* The same labels or none: NaN equals NaN. */
int tt_labels_are_same(int64_t targets, const double *a, const double *b);
#endif
