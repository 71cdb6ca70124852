/* requests.h — tutti ask and tutti tell: requests of other processes to the one writer of the
 * record of a campaign. Local. docs/oracle.md is the manual.
 *
 * A request is a file DIR/inbox/NAME.json, put there by a rename; its answer is NAME.answer. While
 * a campaign runs, a thread of it answers (tt_inbox_begin_local). Otherwise a process that waits
 * for an answer takes the directory (DIR/inbox/lock) and answers all requests that are there. A
 * request that is answered twice, because the process that answered it was killed, changes nothing
 * again: the name of an ask is that of its lease, and a label that is told again is known. */
#ifndef TT_REQUESTS_H
#define TT_REQUESTS_H
#include "io/table/table.h"
#include "src/campaign/points/points.h"

typedef struct tt_ask_options {
  const char *directory;
  int64_t count;   /* most points */
  double lease;    /* seconds */
  const char *who; /* NULL: user and host */
  int hdf5;        /* write HDF5 to standard output, not CSV */
} tt_ask_options;

/* The points of a lease. */
typedef struct tt_asked {
  json_t *answer;
  int64_t count;
  int64_t *id;       /* [count] numbers of the points */
  double *x;         /* [count][D] */
  const char **text; /* [count][D] NULL where an input is a number, or NULL; of the answer */
} tt_asked;

/* Lease up to `count` queued points, until then (seconds since 1970; 0: without an end).
 *   lease  its name: if there is such a lease already, its points that have no answer yet; NULL:
 *          a new one
 * Owner of *out: the caller, tt_asked_free, after an error too. Errors: STOPPED (none now), ENDED
 * (the campaign has ended), those of the record and of files. */
tt_err tt_ask_points_local(const char *directory, const char *who, const char *lease, int64_t count,
                           int64_t until, int64_t inputs, tt_asked *out);
void tt_asked_free(tt_asked *a);

/* Lease up to `count` queued points, and write them to standard output. Errors: STOPPED (none now),
 * ENDED (the campaign has ended), USAGE, NOINPUT, those of the record and of files. */
tt_err tt_ask_local(const tt_ask_options *o);

typedef struct tt_tell_options {
  const char *directory, *file;  /* labels: a table, or HDF5 */
  const tt_table_format *format; /* of a CSV file */
  const char *who;               /* NULL: user and host */
  int with_inputs;               /* rows have inputs in place of ids: nobody asked for them */
  int replace;                   /* other values of labels that are there */
} tt_tell_options;

/* Tell the labels in a file; logs how many are new and known. All rows are taken or none. Errors:
 * DATA (a row that is not accepted: file:line), NOINPUT, those of the record and of files. */
tt_err tt_tell_local(const tt_tell_options *o);

/* Tell the labels of points: those of a row without one are impossible. A row that is not accepted,
 * because somebody else has told the point, is logged and left out.
 *   y  [count][targets];  why  rows have no label
 * Errors: those of the record and of files. */
tt_err tt_tell_points_local(const char *directory, const char *who, int64_t count,
                            const int64_t *point, int64_t targets, const double *y,
                            const char *why);

/* Answer one request, with an object that has the exit code `code` and `error` if it is refused;
 * owner: the caller, json_decref. Errors: those after which the request stays, for another writer
 * or another time: IO, MEM, STOPPED. */
tt_err tt_request_answer_local(tt_points *p, const char *name, const json_t *request, json_t **out);

/* Send a request, and wait for its answer; takes ownership of the request. Owner of *out: the
 * caller, json_decref, also after an error. Errors: STOPPED (a campaign runs, but does not answer),
 * the error of the answer. */
tt_err tt_inbox_send_local(const char *directory, const char *who, json_t *request, json_t **out);

/* Answer requests in a thread until the end, which looks for them at least every `most_ms`
 * milliseconds. Errors: MEM. */
typedef struct tt_inbox tt_inbox;
tt_err tt_inbox_begin_local(tt_points *p, const char *directory, int most_ms, tt_inbox **out);
void tt_inbox_end_local(tt_inbox **b); /* accepts NULL */
/* Wait until no process without a campaign writes to the record: after the directory is claimed,
 * before the record is opened. Errors: STOPPED (one has its lock for a minute), CANTCREAT, IO. */
tt_err tt_inbox_wait_local(const char *directory);

/* `tutti campaign check DIR`: rebuild the points from events.jsonl, compare them with
 * campaign.h5, and print what there is. Errors: DATA (they differ), as tt_points_open_local. */
tt_err tt_points_check_local(const char *directory);
#endif
