/* test_requeue.c — whether a Slurm job is requeued; the times of Slurm. */
#include "tests/support/check.h"

#include "slurm/query.h"
#include "slurm/requeue.h"

#include <stdlib.h>
#include <string.h>

typedef struct row {
  tt_slurm_start life;
  int again;
  const char *words;
} row;

#define LIFE(state_, stop_, other_, generation_, resumed_, stuck_, restarts_, most_, code_,        \
             launch_)                                                                              \
  {                                                                                                \
    .state = state_, .stopped_by = stop_, .other_incarnation = other_, .generation = generation_,  \
    .resumed = resumed_, .stuck = stuck_, .restarts = restarts_, .max_restarts = most_,            \
    .exit_code = code_, .launcher_code = launch_                                                   \
  }
#define MORE(again_, words_, state_, stop_, ...)                                                   \
  {                                                                                                \
    {.state = state_,                                                                              \
     .stopped_by = stop_,                                                                          \
     .other_incarnation = "",                                                                      \
     .max_restarts = 50,                                                                           \
     __VA_ARGS__},                                                                                 \
        again_, words_                                                                             \
  }
static const row rows[] = {
    {LIFE("stopped", "signal", "", 5, 4, 1, 0, 50, 75, 143), 1, "queued again"},
    {LIFE("stopped", "time", "", 5, 4, 1, 49, 50, 75, 75), 1, "queued again"},
    {LIFE("hung", "", "", 5, 4, 1, 0, 50, 75, 137), 1, "queued again"},
    /* killed without a status: requeued only with a new checkpoint */
    {LIFE("training", "", "", 5, 4, 1, 0, 50, -1, 137), 1, "queued again"},
    {LIFE("training", "", "", 4, 4, 2, 0, 50, -1, 137), 0, "exit code 137, before it could write"},
    {LIFE("training", "", "", 0, 0, 1, 0, 50, -1, 139), 0, "exit code 139"},
    /* a stop by a user counts more than one by the scheduler */
    {LIFE("stopped", "file", "", 5, 4, 1, 0, 50, 75, 75), 0, "a person stopped it"},
    {LIFE("stopped", "interrupt", "", 5, 4, 1, 0, 50, 75, 75), 0, "a person stopped it"},
    /* final states */
    {LIFE("done", "", "", 9, 4, 1, 0, 50, 0, 0), 0, "it is done"},
    {LIFE("done", "", "", 9, 4, 1, 0, 50, 76, 76), 0, "it is done"},
    {LIFE("failed", "", "", 5, 4, 1, 0, 50, 74, 74), 0, "failed with exit code 74"},
    {LIFE("", "", "", 0, 0, 1, 0, 50, 0, 78), 0, "no status, exit code 78"},
    /* stopped while it set up its members, before it claimed the directory */
    {LIFE("", "", "", 0, 0, 1, 0, 50, -1, 75), 1, "queued again"},
    {LIFE("", "", "", 4, 4, 3, 2, 50, -1, 75), 0, "3 starts have ended"},
    {LIFE("", "", "18.0.host.1", 0, 0, 1, 0, 50, 0, 75), 0, "another start, 18.0.host.1"},
    /* limits on restarts */
    {LIFE("stopped", "time", "", 5, 4, 1, 50, 50, 75, 75), 0, "restart 50 of at most 50"},
    {LIFE("stopped", "time", "", 5, 5, 2, 2, 50, 75, 75), 1, "queued again"},
    {LIFE("stopped", "time", "", 5, 5, 3, 3, 50, 75, 75), 0, "3 starts have ended"},
    {LIFE("hung", "", "", 0, 0, 3, 2, 50, 75, 75), 0, "checkpoint.every"},
    /* a campaign: its oracle gives retry later; a stage with new files is progress */
    {LIFE("stopped", "oracle", "", 8, 5, 1, 0, 50, 75, 75), 1, "queued again"},
    {LIFE("stopped", "oracle", "", 8, 5, 3, 3, 50, 75, 75), 0, "label.max_wait"},
    /* it only waits for the Slurm jobs that label: no limit of starts */
    MORE(1, "queued again", "stopped", "label_jobs", .stuck = 9, .restarts = 99, .waits = 9,
         .waits_for_jobs = 1),
    MORE(1, "queued again", "stopped", "time", .stuck = 1, .restarts = 99, .waits = 50),
    MORE(0, "restart 50 of at most 50", "stopped", "time", .stuck = 1, .restarts = 100,
         .waits = 50),
    MORE(1, "queued again", "training", "", .stage_progress = 4, .stage_progress_resumed = 3),
    MORE(0, "before it could write", "training", "", .stage_progress = 3,
         .stage_progress_resumed = 3),
};

TT_TEST (requeue_decisions_are_this_table) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char why[256] = "";
    TT_CHECK(tt_requeue_is_allowed(&rows[i].life, why, sizeof why), ==, rows[i].again);
    TT_CHECK_HAS(why, rows[i].words);
  }
}

TT_TEST (times_of_slurm_are_seconds) {
  static const struct {
    const char *text;
    double seconds; /* -2: an error */
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
  /* of sbatch --time */
  TT_CHECK(tt_slurm_time_seconds("30"), ==, 1800);
  TT_CHECK(tt_slurm_time_seconds("1-12"), ==, 36 * 3600);
  TT_CHECK(tt_slurm_time_seconds("1-2:30"), ==, 86400 + 9000);
  TT_CHECK(tt_slurm_time_seconds("30:"), ==, -1);
  TT_CHECK(tt_slurm_time_seconds("-1"), ==, -1);
}

TT_TEST (this_job_and_this_start) {
  char job[64] = "";
  double left = 0.0;
  static const char *const all[] = {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
                                    "SLURM_RESTART_COUNT", "SLURM_JOB_END_TIME"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) unsetenv(all[i]);
  TT_CHECK(tt_slurm_job_id_local(job, sizeof job), ==, 0);
  TT_CHECK_OK(tt_slurm_seconds_left_local(&left));
  TT_CHECK(left, ==, -1.0);
  setenv("SLURM_JOB_ID", "18", 1);
  TT_CHECK(tt_slurm_job_id_local(job, sizeof job), ==, 1);
  assert_string_equal(job, "18");
  setenv("SLURM_ARRAY_JOB_ID", "17", 1);
  setenv("SLURM_ARRAY_TASK_ID", "3", 1);
  TT_CHECK(tt_slurm_job_id_local(job, sizeof job), ==, 1);
  assert_string_equal(job, "17_3");
  TT_CHECK(tt_slurm_is_this_start_local("18.0.host.ab"), ==, 1);
  setenv("SLURM_RESTART_COUNT", "2", 1);
  TT_CHECK(tt_slurm_is_this_start_local("18.0.host.ab"), ==, 0);
  TT_CHECK(tt_slurm_is_this_start_local("18.2.host.ab"), ==, 1);
  TT_CHECK(tt_slurm_is_this_start_local("18.20.host.ab"), ==, 0);
  TT_CHECK(tt_slurm_is_this_job_local("18.20.host.ab"), ==, 1);
  TT_CHECK(tt_slurm_is_this_job_local("181.2.host.ab"), ==, 0);
  setenv("SLURM_JOB_END_TIME", "1000", 1);
  TT_CHECK_OK(tt_slurm_seconds_left_local(&left));
  TT_CHECK(left, ==, 0.0);
}
