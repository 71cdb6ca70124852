/* test_slurm_facts.c — what a start of a campaign has done, and whether its Slurm job is requeued. */
#include "tests/support/check.h"

#include "core/base/directory.h"
#include "src/cli/slurm_facts.h"
#include "src/host/status_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char campaign_file[] = "data: {file: data.h5}\n"
                                    "ensembles: [{name: one, members: 2}]\n"
                                    "pool: {file: pool.h5}\n"
                                    "label: {command: [./label]}\n"
                                    "campaign: {directory: c}\n";

static tt_err decide(const char *file, int launcher_code, int *code)
{
  char directory[TT_PATH_MAX];
  const tt_job_options o = {.file = file};
  tt_slurm_start start = {.launcher_code = launcher_code, .max_restarts = 50};
  TT_TRY(tt_slurm_start_read_local(&o, &start, directory));
  return tt_requeue_decide_local(directory, &start, code);
}

/* One start of a campaign that ends as its status says; the last line of starts.tsv. */
static void live(int restart, tt_run_status s, tt_run_status training, int *code, char line[512])
{
  char text[16], incarnation[64];
  snprintf(text, sizeof text, "%d", restart);
  setenv("SLURM_RESTART_COUNT", text, 1);
  snprintf(incarnation, sizeof incarnation, "41.%d.host.ab", restart);
  s.incarnation = incarnation;
  if (!training.incarnation) training.incarnation = incarnation;
  TT_CHECK_OK(tt_status_file_write_local("c", &s));
  TT_CHECK_OK(tt_status_file_write_local("c/round-0002", &training));
  TT_CHECK_OK(decide("campaign.yaml", 137, code));
  FILE *f = fopen("c/starts.tsv", "r");
  assert_non_null(f);
  while (fgets(line, 512, f))
    ;
  fclose(f);
}

/* The status of a campaign is in campaign.directory; its progress is the number of stages and,
 * within a stage, checkpoints or labels. A script in place of scontrol records its arguments. */
TT_TEST (a_campaign_is_requeued_if_it_made_progress) {
  char line[512] = "", text[512];
  int code = 0;
  const tt_run_status running = {
      .state = "training", .exit_code = -1, .generation = 5, .resumed = 5};
  const tt_run_status old = {.state = "training", .incarnation = "40.0.x.y", .generation = 7};
  TT_CHECK_OK(tt_directory_create("c/round-0002/label/0000"));
  put_text("campaign.yaml", campaign_file);
  put_text("scontrol", "#!/bin/sh\necho \"$@\" >> asked\n");
  TT_CHECK(chmod("scontrol", 0755), ==, 0);
  snprintf(text, sizeof text, "%s:%s", test_folder, getenv("PATH"));
  setenv("PATH", text, 1);
  unsetenv("SLURM_ARRAY_JOB_ID");
  setenv("SLURM_JOB_ID", "41", 1);
  /* killed in training: only a checkpoint of this start is progress */
  live(0, running, old, &code, line);
  TT_CHECK_HAS(line, "\t41\t0\t5.7\ttraining\t\tit died, exit code 137");
  TT_CHECK(code, ==, 137);
  live(1, running,
       (tt_run_status){.state = "training", .exit_code = -1, .generation = 8, .resumed = 7}, &code,
       line);
  TT_CHECK_HAS(line, "\t41\t1\t5.8\ttraining\t\tqueued again");
  /* the watchdog of the training ended it, not that of the campaign */
  live(2, running,
       (tt_run_status){.state = "hung", .reason = "rank 1", .exit_code = 75, .generation = 8},
       &code, line);
  TT_CHECK_HAS(line, "\t41\t2\t5.8\thung\t\tqueued again");
  TT_CHECK(code, ==, 75);
  /* waiting for labels: a new label is progress */
  tt_run_status asking = {.state = "stopped", .stop = "oracle", .exit_code = 75, .generation = 8};
  for (int n = 3; n < 6; n++) {
    if (n == 4) put_text("c/round-0002/label/0000/accepted.h5", "");
    live(n, asking, old, &code, line);
    TT_CHECK_HAS(line, n == 3 ? "8.0\tstopped\toracle\tqueued" : "8.1\tstopped\toracle\tqueued");
  }
  live(6, asking, old, &code, line);
  TT_CHECK_HAS(line, "3 starts have ended");
  live(7, (tt_run_status){.state = "done", .generation = 10}, old, &code, line);
  TT_CHECK_HAS(line, "\t41\t7\t10.0\tdone\t\tit is done");
  TT_CHECK(code, ==, 0);
  TT_CHECK(system("test $(grep -c '^requeue 41$' asked) = 5 && rm -r c"), ==, 0);
}

/* A start that ended before it made its directory has nothing to record, and no warning. */
TT_TEST (a_start_without_a_directory_is_not_recorded) {
  struct stat info;
  int code = 0, kept = dup(STDERR_FILENO);
  put_text("campaign.yaml", campaign_file);
  setenv("SLURM_JOB_ID", "42", 1);
  assert_non_null(freopen("said", "w", stderr));
  tt_err e = decide("campaign.yaml", 78, &code);
  fflush(stderr);
  dup2(kept, STDERR_FILENO);
  close(kept);
  TT_CHECK_OK(e);
  TT_CHECK(code, ==, 78);
  TT_CHECK(stat("said", &info), ==, 0);
  TT_CHECK((int)info.st_size, ==, 0);
  TT_CHECK(access("c", F_OK), !=, 0);
}

TT_SUITE(enter_folder, NULL)
