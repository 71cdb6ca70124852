/* points_internal.h — the record in memory. Private to src/campaign/points. */
#ifndef TT_POINTS_INTERNAL_H
#define TT_POINTS_INTERNAL_H
#include "src/campaign/points/points.h"

#include <pthread.h>

#define TT_RECORD_CURE                                                                             \
  "; restore the file from a backup, or move it away: the next start makes it again from "         \
  "campaign.h5"

struct tt_points {
  pthread_mutex_t lock;
  tt_line_log *log;
  char *events, *who; /* path of events.jsonl */
  tt_columns input, target;
  int64_t count, capacity;
  tt_point *point; /* [capacity] */
  double *x, *y;   /* [capacity][D], [capacity][T] */
  char **text;     /* [capacity][D]; NULL = no input of any point is a text */
  int32_t rounds;
  int64_t begin_capacity;
  int64_t *begin; /* [rounds] lines of the events with which rounds 1, 2, ... begin, 0 = there is
                     none */
  int revised;    /* tt_points_were_revised */
  int32_t leases;
  int64_t lease_capacity;
  char **lease; /* [leases] names */
};

/* Read one line of events.jsonl into the record; p is a tt_points. */
tt_err tt_point_event_take(void *p, const char *text, size_t bytes, int64_t line);
/* TT_POINT_CHANGES; `again`: in an event with "again". */
int tt_point_may_become(int from, int to, int again);
/* Check an event, append it, do it. Takes ownership of the object. */
tt_err tt_point_event_add(tt_points *p, json_t *event);
/* The event in this line begins a round. Errors: DATA, MEM. */
tt_err tt_points_set_begin(tt_points *p, int64_t round, int64_t line);

/* The name and host of the user; `given`, if it is not NULL. */
void tt_request_who(const char *given, char who[128]);
/* *is_header: whether the event is the first line of a record; then its columns. Errors: MEM. */
tt_err tt_point_header_read(const json_t *event, int *is_header, tt_columns *input,
                            tt_columns *target);

/* A line whose numbers read back the same bits. Owner of *text: the caller. Errors: MEM. */
tt_err tt_json_line(json_t *value, char **text);
/* Arrays of JSON: n numbers; n texts, null for NULL; n rows of `width` numbers, null for NaN. NULL
 * when out of memory. */
json_t *tt_json_integers(int64_t n, const int64_t *value);
json_t *tt_json_texts(int64_t n, const char *const *text);
json_t *tt_json_numbers(int64_t n, const double *value);
json_t *tt_json_rows(int64_t n, int64_t width, const double *value);
/* A row of numbers, NaN for null; 0 = it is none. */
int tt_json_read_row(const json_t *row, int64_t width, double *value);
#endif
