/* test_stop.c — when a run stops before the end of its Slurm job. */
#include "src/host/time_limit.h"
#include "tests/support/check.h"

#include <math.h>

/* left, least, checkpoint, margin; in seconds */
static const double margins[][4] = {
    {60, 6, 0, 6},         {60, 6, 1.6, 6},         {60, 6, 2, 6},      {60, 6, 3, 9},
    {60, 6, 30, 20},       {600, 60, 16, 60},       {600, 60, 40, 120}, {600, 60, 1000, 200},
    {86400, 60, 100, 300}, {86400, 600, 100, 600},  {60, 58, 0, 58},    {60, 58, 30, 58},
    {60, 3600, 5, 3600},   {86400, 60, 1e6, 28800},
};

TT_TEST (the_margin_is_three_checkpoints_up_to_a_third_of_the_job) {
  for (size_t i = 0; i < sizeof margins / sizeof *margins; i++) {
    const double *row = margins[i];
    TT_CHECK(tt_time_limit_margin(row[0], row[1], row[2]), ==, row[3]);
  }
}

/* A small change of the duration is a small change of the margin. */
TT_TEST (the_margin_follows_the_checkpoint_without_jumps) {
  for (double limit = 30; limit < 1e6; limit *= 1.7)
    for (double seconds = 0, step = limit / 1000; seconds < limit; seconds += step) {
      double least = fmin(60, 0.1 * limit), margin = tt_time_limit_margin(limit, least, seconds);
      double next = tt_time_limit_margin(limit, least, seconds + step);
      TT_CHECK(next - margin, >=, 0.0);
      TT_CHECK(next - margin, <=, 3.001 * step);
      TT_CHECK(next, <=, limit / 3);
    }
}

TT_TEST (one_slow_checkpoint_does_not_count_for_ever) {
  tt_time_limit l = {.end = 100, .left = 60, .least = 6, .margin = 6, .logged = 6};
  tt_time_limit_record_checkpoint_local(&l, 1.6);
  TT_CHECK(tt_time_limit_deadline_local(&l), ==, 94.0);
  tt_time_limit_record_checkpoint_local(&l, 12);
  TT_CHECK(tt_time_limit_deadline_local(&l), ==, 80.0);
  for (int i = 0; i < 3; i++) tt_time_limit_record_checkpoint_local(&l, 0.1);
  TT_CHECK(tt_time_limit_deadline_local(&l), ==, 94.0);
}

/* run.max_time is the time at which the run stops. */
TT_TEST (a_limit_of_a_person_has_no_margin) {
  tt_time_limit l = {.end = 100};
  tt_time_limit_record_checkpoint_local(&l, 12);
  TT_CHECK(tt_time_limit_deadline_local(&l), ==, 100.0);
}

/* On a machine that has just started, the clock is less than the margin: that is not "no limit". */
TT_TEST (a_deadline_in_the_past_is_one) {
  const tt_time_limit l = {.end = 700, .left = 600, .least = 3600, .margin = 3600}, none = {0};
  TT_CHECK(tt_time_limit_deadline_local(&l), >, 0.0);
  TT_CHECK(tt_time_limit_deadline_local(&l), <, 1.0);
  TT_CHECK(tt_time_limit_deadline_local(&none), ==, 0.0);
}
