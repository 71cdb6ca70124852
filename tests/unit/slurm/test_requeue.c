/* test_requeue.c — whether a Slurm job is requeued; the times of Slurm; the status file. */
#include "tests/support/check.h"

#include "src/host/progress_display.h"
#include "src/host/slurm_query.h"
#include "src/host/status_file.h"
#include "src/slurm/requeue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    {{.state = "stopped",
      .stopped_by = "label_jobs",
      .other_incarnation = "",
      .stuck = 9,
      .restarts = 99,
      .waits = 9,
      .max_restarts = 50,
      .waits_for_jobs = 1},
     1,
     "queued again"},
    {{.state = "stopped",
      .stopped_by = "time",
      .other_incarnation = "",
      .stuck = 1,
      .restarts = 99,
      .waits = 50,
      .max_restarts = 50},
     1,
     "queued again"},
    {{.state = "stopped",
      .stopped_by = "time",
      .other_incarnation = "",
      .stuck = 1,
      .restarts = 100,
      .waits = 50,
      .max_restarts = 50},
     0,
     "restart 50 of at most 50"},
    {{.state = "training",
      .stopped_by = "",
      .other_incarnation = "",
      .max_restarts = 50,
      .stage_progress = 4,
      .stage_progress_resumed = 3},
     1,
     "queued again"},
    {{.state = "training",
      .stopped_by = "",
      .other_incarnation = "",
      .max_restarts = 50,
      .stage_progress = 3,
      .stage_progress_resumed = 3},
     0,
     "before it could write"},
};

TT_TEST (requeue_decisions_are_this_table) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char why[256] = "";
    TT_CHECK(tt_requeue_is_allowed(&rows[i].life, why, sizeof why), ==, rows[i].again);
    TT_CHECK_HAS(why, rows[i].words);
  }
}

TT_TEST (a_long_run_prints_few_lines) {
  int lines = 0;
  for (double t = 0.0; t < 100.0 * 3600.0; t += tt_progress_interval(t, 0)) lines++;
  TT_CHECK(lines, <, 700);
  TT_CHECK(tt_progress_interval(60.0, 0), ==, 30.0);
  TT_CHECK(tt_progress_interval(36000.0, 1), ==, 0.2);
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

static const char campaign_file[] = "data: {file: data.h5}\n"
                                    "ensembles: [{name: one, members: 2}]\n"
                                    "pool: {file: pool.h5}\n"
                                    "label: {command: [./label]}\n"
                                    "campaign: {directory: c}\n";

/* Text into a file of a folder. */
static void put(const char *folder, const char *name, const char *text)
{
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  TT_CHECK(fclose(f), ==, 0);
  TT_CHECK(chmod(path, 0755), ==, 0);
}

/* One start of a campaign that ends as its status says; the last line of starts.tsv. */
static void live(const char *folder, int restart, tt_run_status s, tt_run_status training,
                 int *code, char line[512])
{
  char text[16], path[256], job[256], incarnation[64], round[256];
  snprintf(text, sizeof text, "%d", restart);
  setenv("SLURM_RESTART_COUNT", text, 1);
  snprintf(incarnation, sizeof incarnation, "41.%d.host.ab", restart);
  s.incarnation = incarnation;
  if (!training.incarnation) training.incarnation = incarnation;
  snprintf(path, sizeof path, "%s/c", folder);
  snprintf(round, sizeof round, "%s/c/round-0002", folder);
  snprintf(job, sizeof job, "%s/campaign.yaml", folder);
  TT_CHECK_OK(tt_status_file_write_local(path, &s));
  TT_CHECK_OK(tt_status_file_write_local(round, &training));
  tt_job_options o = {.file = job};
  TT_CHECK_OK(tt_requeue_decide_local(&o, 50, 137, code));
  snprintf(path, sizeof path, "%s/c/starts.tsv", folder);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (fgets(line, 512, f))
    ;
  fclose(f);
}

/* The status of a campaign is in campaign.directory; its progress is the number of stages and,
 * within a stage, checkpoints or labels. A script in place of scontrol records its arguments. */
TT_TEST (a_campaign_is_requeued_if_it_made_progress) {
  char folder[] = "/tmp/tutti-lives-XXXXXX", line[512] = "", text[512], command[600];
  int code = 0;
  const tt_run_status running = {
      .state = "training", .exit_code = -1, .generation = 5, .resumed = 5};
  const tt_run_status old = {.state = "training", .incarnation = "40.0.x.y", .generation = 7};
  assert_non_null(mkdtemp(folder));
  snprintf(command, sizeof command, "mkdir -p %s/c/round-0002/label/0000", folder);
  TT_CHECK(system(command), ==, 0);
  put(folder, "campaign.yaml", campaign_file);
  snprintf(text, sizeof text, "#!/bin/sh\necho \"$@\" >> %s/asked\n", folder);
  put(folder, "scontrol", text);
  snprintf(text, sizeof text, "%s:%s", folder, getenv("PATH"));
  setenv("PATH", text, 1);
  unsetenv("SLURM_ARRAY_JOB_ID");
  setenv("SLURM_JOB_ID", "41", 1);
  /* killed in training: only a checkpoint of this start is progress */
  live(folder, 0, running, old, &code, line);
  TT_CHECK_HAS(line, "\t41\t0\t5.7\ttraining\t\tit died, exit code 137");
  TT_CHECK(code, ==, 137);
  live(folder, 1, running,
       (tt_run_status){.state = "training", .exit_code = -1, .generation = 8, .resumed = 7}, &code,
       line);
  TT_CHECK_HAS(line, "\t41\t1\t5.8\ttraining\t\tqueued again");
  /* the watchdog of the training ended it, not that of the campaign */
  live(folder, 2, running,
       (tt_run_status){.state = "hung", .reason = "rank 1", .exit_code = 75, .generation = 8},
       &code, line);
  TT_CHECK_HAS(line, "\t41\t2\t5.8\thung\t\tqueued again");
  TT_CHECK(code, ==, 75);
  /* waiting for labels: a new label is progress */
  tt_run_status asking = {.state = "stopped", .stop = "oracle", .exit_code = 75, .generation = 8};
  for (int n = 3; n < 6; n++) {
    if (n == 4) put(folder, "c/round-0002/label/0000/accepted.h5", "");
    live(folder, n, asking, old, &code, line);
    TT_CHECK_HAS(line, n == 3 ? "8.0\tstopped\toracle\tqueued" : "8.1\tstopped\toracle\tqueued");
  }
  live(folder, 6, asking, old, &code, line);
  TT_CHECK_HAS(line, "3 starts have ended");
  live(folder, 7, (tt_run_status){.state = "done", .generation = 10}, old, &code, line);
  TT_CHECK_HAS(line, "\t41\t7\t10.0\tdone\t\tit is done");
  TT_CHECK(code, ==, 0);
  snprintf(command, sizeof command, "test $(grep -c '^requeue 41$' %s/asked) = 5 && rm -r %s",
           folder, folder);
  TT_CHECK(system(command), ==, 0);
}

TT_TEST (a_status_is_read_as_written) {
  static tt_status_file f;
  char folder[] = "/tmp/tutti-lives-XXXXXX", path[64];
  tt_run_status s = {
      .state = "stopped",
      .reason = "a \"quoted\\\" reason,\n  \"exit_code\": 99,\n  of two lines \xC3\xA9\xFF",
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
  TT_CHECK((int)tt_status_file_read_local(folder, &f), ==, TT_E_NOINPUT);
  TT_CHECK_OK(tt_status_file_write_local(folder, &s));
  TT_CHECK_OK(tt_status_file_read_local(folder, &f));
  assert_string_equal(f.status.state, "stopped");
  TT_CHECK_HAS(f.status.reason, "a \"quoted\\\" reason,");
  TT_CHECK_HAS(
      f.status.reason,
      "of two lines \xC3\xA9?"); /* bytes that are not UTF-8 are replaced: they are no valid JSON */
  TT_CHECK(f.pid, ==, getpid());
  TT_CHECK_OK(tt_status_file_update_local(folder, "19.0.host.cd", "hung", "other", 75));
  TT_CHECK_OK(tt_status_file_read_local(folder, &f));
  assert_string_equal(f.status.state, "stopped"); /* of another start: not overwritten */
  TT_CHECK_OK(tt_status_file_update_local(folder, "18.2.host.ab", "hung", "", 75));
  TT_CHECK_OK(tt_status_file_read_local(folder, &f));
  assert_string_equal(f.status.state, "hung");
  assert_string_equal(f.status.reason, "");
  assert_string_equal(f.status.incarnation, "18.2.host.ab");
#define X(name) TT_CHECK(f.status.name, ==, s.name);
  TT_RUN_STATUS_INTEGERS(X)
  TT_RUN_STATUS_REALS(X)
#undef X
  snprintf(path, sizeof path, "%s/status.json", folder);
  TT_CHECK(unlink(path), ==, 0);
  TT_CHECK(rmdir(folder), ==, 0);
}

/* Links in the place of the file, and of the temporary name that could be guessed, are replaced. */
TT_TEST (a_status_is_not_written_through_links) {
  char folder[] = "/tmp/tutti-lives-XXXXXX", other[64], link[128], text[16] = "", command[64];
  const tt_run_status s = {.state = "training"};
  struct stat at;
  assert_non_null(mkdtemp(folder));
  put(folder, "other", "mine");
  snprintf(other, sizeof other, "%s/other", folder);
  snprintf(link, sizeof link, "%s/.tmp-status-%d", folder, (int)getpid());
  TT_CHECK(symlink(other, link), ==, 0);
  snprintf(link, sizeof link, "%s/status.json", folder);
  TT_CHECK(symlink(other, link), ==, 0);
  TT_CHECK_OK(tt_status_file_write_local(folder, &s));
  TT_CHECK(lstat(link, &at), ==, 0);
  TT_CHECK(S_ISREG(at.st_mode), !=, 0);
  FILE *f = fopen(other, "r");
  assert_non_null(f);
  assert_non_null(fgets(text, sizeof text, f));
  fclose(f);
  assert_string_equal(text, "mine");
  snprintf(command, sizeof command, "rm -r %s", folder);
  TT_CHECK(system(command), ==, 0);
}

/* A start that ended before it made its directory has nothing to record, and no warning. */
TT_TEST (a_start_without_a_directory_is_not_recorded) {
  char folder[] = "/tmp/tutti-lives-XXXXXX", file[64], said[64], command[128];
  struct stat at;
  int code = 0, kept = dup(STDERR_FILENO);
  assert_non_null(mkdtemp(folder));
  put(folder, "campaign.yaml", campaign_file);
  snprintf(file, sizeof file, "%s/campaign.yaml", folder);
  snprintf(said, sizeof said, "%s/said", folder);
  setenv("SLURM_JOB_ID", "42", 1);
  assert_non_null(freopen(said, "w", stderr));
  tt_job_options o = {.file = file};
  tt_err e = tt_requeue_decide_local(&o, 50, 78, &code);
  fflush(stderr);
  dup2(kept, STDERR_FILENO);
  close(kept);
  TT_CHECK_OK(e);
  TT_CHECK(code, ==, 78);
  TT_CHECK(stat(said, &at), ==, 0);
  TT_CHECK((int)at.st_size, ==, 0);
  snprintf(command, sizeof command, "test ! -e %s/c && rm -r %s", folder, folder);
  TT_CHECK(system(command), ==, 0);
}
