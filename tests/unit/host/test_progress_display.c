/* test_progress_display.c — laws of the progress line: it says what its numbers are and fits into 80
 * columns. */
#include "tests/support/check.h"

#include "src/host/progress_display.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

TT_TEST (every_number_has_a_name) {
  char text[TT_PROGRESS_COLUMNS + 1];
  tt_progress p = {.training = 97,
                   .early_stopped = 2,
                   .diverged = 1,
                   .epoch_min = 12,
                   .loss = {0.11, 0.12, 0.15}};
  tt_progress_text_local(&p, 200, 0, 83.0, 51234.0, text);
  assert_string_equal(text, "epoch 12/200, loss 0.11 0.12 0.15, ETA 1:23, 1 diverged, 97 training");
  p.diverged = p.early_stopped = 0;
  tt_progress_text_local(&p, 200, 0, -1.0, 51234.0, text);
  assert_string_equal(text, "epoch 12/200, loss 0.11 0.12 0.15, ETA ?, 97 training, 51.2k steps/s");
  p = (tt_progress){.finished = 3, .early_stopped = 2, .epoch_min = 12, .loss = {-1, 0, 0.5}};
  tt_progress_text_local(&p, 200, 0, 0.0, 999.9, text);
  assert_string_equal(text,
                      "epoch 200/200, loss -1 0 0.5, 2 stopped early, 3 finished, 1k steps/s");
}

TT_TEST (a_progress_line_fits_into_80_columns) {
  static const int64_t count[] = {0, 1, 999, 16777216};
  static const double number[] = {0.0, -1.25e-12, 1.23456e10, NAN, INFINITY, 123456.0};
  for (int i = 0; i < 6; i++)
    for (int k = 0; k < 4; k++) {
      char text[TT_PROGRESS_COLUMNS + 1];
      tt_progress p = {.training = count[k],
                       .finished = count[k],
                       .early_stopped = count[k],
                       .diverged = count[k],
                       .epoch_min = count[k],
                       .loss = {number[i], number[i], number[i]}};
      tt_progress_text_local(&p, INT32_MAX, count[k], 1e7, 1e13, text);
      TT_CHECK((int)(strlen("tutti: ") + strlen(text)), <=, 80);
      TT_CHECK_HAS(text, "epoch ");
      TT_CHECK_HAS(text, ", loss ");
    }
}

/* All members are at half of their epochs. */
TT_TEST (the_time_left_follows_from_the_slowest_member) {
  tt_progress_meter m;
  const tt_progress begin = {.training = 80};
  const tt_progress now = {.training = 40, .finished = 39, .diverged = 1, .epoch_min = 5};
  tt_progress_meter_start(&m, &begin, 10);
  TT_CHECK(m.fraction_at_start, ==, 0.0);
  m.started -= 100.0;
  TT_CHECK(fabs(tt_progress_meter_eta(&m, &now, 10) - 100.0), <, 1.0);
}

TT_TEST (time_left_is_not_known_before_training_begins) {
  const tt_progress_meter m = {.started = 0.0};
  const tt_progress none = {.training = 0}, ended = {.finished = 2, .diverged = 1, .epoch_min = 9};
  TT_CHECK(tt_progress_meter_eta(&m, &none, 0), ==, -1.0);
  TT_CHECK(tt_progress_meter_eta(&m, &ended, 9), ==, 0.0);
}

TT_TEST (a_long_run_prints_few_lines) {
  int lines = 0;
  for (double t = 0.0; t < 100.0 * 3600.0; t += tt_progress_interval(t, 0)) lines++;
  TT_CHECK(lines, <, 700);
  TT_CHECK(tt_progress_interval(60.0, 0), ==, 30.0);
  TT_CHECK(tt_progress_interval(36000.0, 1), ==, 0.2);
}
