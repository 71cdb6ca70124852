/* test_points.c — the record of the points: every change of the table and no other, also after it is
 * read again; what a kill leaves; files that do not fit. */
#include "tests/support/check.h"
#include "tests/support/scratch.h"

#include "src/campaign/points/points.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static tt_points *opened(tt_line_log_use use)
{
  char *in[] = {"a", "b"}, *out[] = {"y"}, *none[] = {"", ""};
  const tt_columns input = {.count = 2, .name = in, .units = none, .given = 1},
                   target = {.count = 1, .name = out, .units = none, .given = 1};
  tt_points *p = NULL;
  TT_CHECK_OK(tt_points_open_local(".", use, &input, &target, "test", &p));
  return p;
}

/* An empty record with one point. */
static tt_points *with_point(void)
{
  const double x[] = {1.0 / 3.0, -0.0};
  int64_t number = -1;
  const tt_new_points n = {.count = 1, .x = x, .round = 1};
  unlink("events.jsonl");
  tt_points *p = opened(TT_LINE_LOG_replace);
  TT_CHECK_OK(tt_points_add_unknown_local(p, &n, &number));
  TT_CHECK(number, ==, 0);
  return p;
}

static tt_err change(tt_points *p, int state, int again)
{
  const int64_t point = 0;
  const double y = 1.0 / 3.0;
  const tt_point_change c = {.count = 1,
                             .point = &point,
                             .to = (tt_point_state)state,
                             .y = &y,
                             .again = again,
                             .why = "a reason"};
  return tt_points_change_local(p, &c);
}

/* How a point gets into each state. */
static const int way[TT_POINT_STATE_COUNT][3] = {
    [TT_POINT_queued] = {TT_POINT_queued},
    [TT_POINT_asked] = {TT_POINT_queued, TT_POINT_asked},
    [TT_POINT_labeled] = {TT_POINT_labeled},
    [TT_POINT_impossible] = {TT_POINT_impossible},
    [TT_POINT_crashed] = {TT_POINT_queued, TT_POINT_crashed},
    [TT_POINT_expired] = {TT_POINT_queued, TT_POINT_asked, TT_POINT_expired}};

static int is_in_table(int from, int next, int again)
{
#define X(from_, next_, again_)                                                                    \
  if (from == TT_POINT_##from_ && next == TT_POINT_##next_) return again || !again_;
  TT_POINT_CHANGES(X)
#undef X
  return 0;
}

TT_TEST (only_changes_of_the_table_are_made) {
  for (int from = 0; from < TT_POINT_STATE_COUNT; from++)
    for (int next = 0; next < TT_POINT_STATE_COUNT; next++) {
      tt_points *p = with_point();
      for (int i = 0; i < 3 && way[from][i]; i++) TT_CHECK_OK(change(p, way[from][i], 0));
      TT_CHECK(tt_points_at(p, 0)->state, ==, from);
      int allowed = is_in_table(from, next, 0);
      TT_CHECK((int)change(p, next, 0), ==, (int)(allowed ? TT_OK : TT_E_DATA));
      if (!allowed) TT_CHECK_HAS(tt_err_last(), "events.jsonl:");
      tt_points_close_local(&p);
      p = opened(TT_LINE_LOG_read);
      TT_CHECK(tt_points_at(p, 0)->state, ==, allowed ? next : from);
      TT_CHECK(tt_points_x(p, 0)[0], ==, 1.0 / 3.0);
      if (tt_points_at(p, 0)->state == TT_POINT_labeled)
        TT_CHECK(tt_points_y(p, 0)[0], ==, 1.0 / 3.0);
      tt_points_close_local(&p);
    }
}

TT_TEST (a_line_that_cannot_be_is_named) {
  static const char *const line[][2] = {
      {"{\"point\": [5], \"state\": \"queued\"", "there is no point 5"},
      {"{\"point\": [0], \"state\": \"asked\"", "point 0 is proposed (./events.jsonl:2)"},
      {"{\"point\": [0], \"state\": \"eaten\"", "no valid state"},
      {"{\"point\": [0], \"state\": \"labeled\", \"y\": [[1, 2]]", "no valid state or values"},
      {"{\"point\": [1], \"state\": \"proposed\"", "no valid state or values"},
      {"broken", "no event"}};
  for (size_t i = 0; i < sizeof line / sizeof *line; i++) {
    tt_points *p = with_point();
    tt_points_close_local(&p);
    FILE *f = fopen("events.jsonl", "a");
    fprintf(f, "%s, \"xxh3\": \"%016" PRIx64 "\"}\n", line[i][0],
            XXH3_64bits_withSeed(line[i][0], strlen(line[i][0]), 3));
    fclose(f);
    TT_CHECK((int)tt_points_open_local(".", TT_LINE_LOG_read, NULL, NULL, "test", &p), ==,
             (int)TT_E_DATA);
    TT_CHECK_HAS(tt_err_last(), "events.jsonl:3");
    TT_CHECK_HAS(tt_err_last(), line[i][1]);
  }
}

/* Without its newline the last line is incomplete. */
TT_TEST (a_changed_byte_is_refused) {
  tt_points *p = with_point();
  TT_CHECK_OK(change(p, TT_POINT_labeled, 0));
  tt_points_close_local(&p);
  FILE *f = fopen("events.jsonl", "r+");
  TT_CHECK(fseek(f, 0, SEEK_END), ==, 0);
  for (long i = 0; i < ftell(f) - 1; i++) {
    unsigned char old = 0;
    TT_CHECK(pread(fileno(f), &old, 1, i), ==, 1);
    TT_CHECK(pwrite(fileno(f), &(unsigned char){(unsigned char)(old ^ 1)}, 1, i), ==, 1);
    TT_CHECK((int)tt_points_open_local(".", TT_LINE_LOG_read, NULL, NULL, "test", &p), ==,
             (int)TT_E_DATA);
    TT_CHECK_HAS(tt_err_last(), "events.jsonl:");
    TT_CHECK(pwrite(fileno(f), &old, 1, i), ==, 1);
  }
  fclose(f);
  p = opened(TT_LINE_LOG_read);
  TT_CHECK(tt_points_y(p, 0)[0], ==, 1.0 / 3.0);
  TT_CHECK(signbit(tt_points_x(p, 0)[1]), !=, 0);
  tt_points_close_local(&p);
}

TT_SUITE(enter_folder, NULL)
