/* test_lives.c — whether a job of Slurm is queued again; the times of Slurm; the status file. */
#include "check.h"

#include "run/lives.h"
#include "run/slurm.h"
#include "run/status.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct row {
  tt_life life;
  int again;
  const char *words;
} row;

/* state, stop, other, generation, resumed, stuck, restarts, most, exit code, launch code */
static const row rows[] = {
    {{"stopped", "signal", "", 5, 4, 1, 0, 50, 75, 143}, 1, "queued again"},
    {{"stopped", "time", "", 5, 4, 1, 49, 50, 75, 75}, 1, "queued again"},
    {{"hung", "", "", 5, 4, 1, 0, 50, 75, 137}, 1, "queued again"},
    /* died without a word: only with a new checkpoint */
    {{"training", "", "", 5, 4, 1, 0, 50, -1, 137}, 1, "queued again"},
    {{"training", "", "", 4, 4, 2, 0, 50, -1, 137}, 0, "exit code 137, before it could write"},
    {{"training", "", "", 0, 0, 1, 0, 50, -1, 139}, 0, "exit code 139"},
    /* a person outranks the scheduler */
    {{"stopped", "file", "", 5, 4, 1, 0, 50, 75, 75}, 0, "a person stopped it"},
    {{"stopped", "interrupt", "", 5, 4, 1, 0, 50, 75, 75}, 0, "a person stopped it"},
    /* the end */
    {{"done", "", "", 9, 4, 1, 0, 50, 0, 0}, 0, "it is done"},
    {{"done", "", "", 9, 4, 1, 0, 50, 76, 76}, 0, "it is done"},
    {{"failed", "", "", 5, 4, 1, 0, 50, 74, 74}, 0, "failed with exit code 74"},
    {{"", "", "", 0, 0, 1, 0, 50, 0, 78}, 0, "no status, exit code 78"},
    {{"", "", "18.0.host.1", 0, 0, 1, 0, 50, 0, 75}, 0, "another start, 18.0.host.1"},
    /* not for ever */
    {{"stopped", "time", "", 5, 4, 1, 50, 50, 75, 75}, 0, "restart 50 of at most 50"},
    {{"stopped", "time", "", 5, 5, 2, 2, 50, 75, 75}, 1, "queued again"},
    {{"stopped", "time", "", 5, 5, 3, 3, 50, 75, 75}, 0, "3 lives have ended"},
    {{"hung", "", "", 0, 0, 3, 2, 50, 75, 75}, 0, "checkpoint.every"},
};

TT_TEST (another_life_is_this_table) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char why[256] = "";
    TT_CHECK(tt_life_again(&rows[i].life, why, sizeof why), ==, rows[i].again);
    TT_CHECK_HAS(why, rows[i].words);
  }
}

TT_TEST (times_of_slurm_are_seconds) {
  static const struct {
    const char *text;
    double seconds; /* -2: refused */
  } times[] = {{"0:00", 0},
               {"2:03", 123},
               {"59:59", 3599},
               {"1:02:03", 3723},
               {"1-00:00:00", 86400},
               {"2-03:04:05", 183845},
               {"UNLIMITED", -1},
               {"NOT_SET", -1},
               {"INVALID", -1},
               {"", -2},
               {"12", -2},
               {"1:02:03:04", -2},
               {"1:x", -2},
               {"slurm_load_jobs error", -2}};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    double got = -3.0;
    tt_err e = tt_slurm_parse_time(times[i].text, &got);
    TT_CHECK((int)e, ==, times[i].seconds == -2 ? TT_E_DATA : TT_OK);
    if (!e) TT_CHECK(got, ==, times[i].seconds);
  }
}

TT_TEST (this_job_and_this_life) {
  char job[64] = "";
  double left = 0.0;
  static const char *const all[] = {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
                                    "SLURM_RESTART_COUNT", "SLURM_JOB_END_TIME"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    unsetenv(all[i]);
  TT_CHECK(tt_slurm_job_local(job, sizeof job), ==, 0);
  TT_CHECK_OK(tt_slurm_seconds_left_local(&left));
  TT_CHECK(left, ==, -1.0);
  setenv("SLURM_JOB_ID", "18", 1);
  TT_CHECK(tt_slurm_job_local(job, sizeof job), ==, 1);
  assert_string_equal(job, "18");
  setenv("SLURM_ARRAY_JOB_ID", "17", 1);
  setenv("SLURM_ARRAY_TASK_ID", "3", 1);
  TT_CHECK(tt_slurm_job_local(job, sizeof job), ==, 1);
  assert_string_equal(job, "17_3");
  TT_CHECK(tt_slurm_is_this_life_local("18.0.host.ab"), ==, 1);
  setenv("SLURM_RESTART_COUNT", "2", 1);
  TT_CHECK(tt_slurm_is_this_life_local("18.0.host.ab"), ==, 0);
  TT_CHECK(tt_slurm_is_this_life_local("18.2.host.ab"), ==, 1);
  TT_CHECK(tt_slurm_is_this_life_local("18.20.host.ab"), ==, 0);
  setenv("SLURM_JOB_END_TIME", "1000", 1);
  TT_CHECK_OK(tt_slurm_seconds_left_local(&left));
  TT_CHECK(left, ==, 0.0);
}

TT_TEST (a_status_is_read_as_it_was_written) {
  static tt_status_file f;
  char folder[] = "/tmp/tutti-lives-XXXXXX", path[64];
  tt_run_status s = {.state = "stopped",
                     .reason = "a \"quoted\\\" reason,\n  \"exit_code\": 99,\n  of two lines",
                     .stop = "signal",
                     .incarnation = "18.2.host.ab",
                     .exit_code = 75,
                     .generation = 12,
                     .resumed = 9,
                     .members = INT64_C(16777216),
                     .epochs = 200,
                     .rate = 1.5,
                     .eta = -1.0};
  assert_non_null(mkdtemp(folder));
  TT_CHECK((int)tt_status_read_local(folder, &f), ==, TT_E_NOINPUT);
  TT_CHECK_OK(tt_status_write_local(folder, &s));
  TT_CHECK_OK(tt_status_read_local(folder, &f));
  assert_string_equal(f.status.state, "stopped");
  TT_CHECK_HAS(f.status.reason, "a \"quoted\\\" reason,");
  TT_CHECK_HAS(f.status.reason, "of two lines");
  TT_CHECK_OK(tt_status_amend_local(folder, "19.0.host.cd", "hung", "other", 75));
  TT_CHECK_OK(tt_status_read_local(folder, &f));
  assert_string_equal(f.status.state, "stopped"); /* of another start: left alone */
  TT_CHECK_OK(tt_status_amend_local(folder, "18.2.host.ab", "hung", "", 75));
  TT_CHECK_OK(tt_status_read_local(folder, &f));
  assert_string_equal(f.status.state, "hung");
  assert_string_equal(f.status.reason, "");
  assert_string_equal(f.status.incarnation, "18.2.host.ab");
#define X(name) TT_CHECK(f.status.name, ==, s.name);
  TT_STATUS_NUMBERS(X)
  TT_STATUS_FRACTIONS(X)
#undef X
  snprintf(path, sizeof path, "%s/status.json", folder);
  TT_CHECK(unlink(path), ==, 0);
  TT_CHECK(rmdir(folder), ==, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(another_life_is_this_table),
      cmocka_unit_test(times_of_slurm_are_seconds),
      cmocka_unit_test(this_job_and_this_life),
      cmocka_unit_test(a_status_is_read_as_it_was_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
