/* test_oracle_slurm.c — label.mode slurm with scripts in place of sbatch, squeue and the other
 * commands: nothing is submitted twice, and a failing Slurm command does not end a job. */
#include "io/files/owner.h"
#include "src/campaign/label/oracle_internal.h"
#include "tests/support/check.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In $FAKE: `queue` lists the jobs that squeue sees, `past` those that `squeue -t all` sees too;
 * each line of `fail.COMMAND` makes one call of it fail; with `lose`, sbatch does not print the job
 * number. COMMAND.log has a line for each call. */
static const char prelude[] = "#!/bin/sh\n"
                              "c=${0##*/}; cd \"$FAKE\" || exit 9; echo \"$*\" >> $c.log\n"
                              "[ -s fail.$c ] && { sed -i 1d fail.$c; echo \"$c: no answer\"; "
                              "exit 1; }\n";
static const struct {
  const char *name, *text;
} fakes[] = {
    {"scontrol", "echo 'MaxArraySize            = 4'\n"},
    {"sbatch", "id=$((100 + $(wc -l < sbatch.log))); echo $id >> queue\n"
               "echo \"${SLURM_NTASKS-none} ${SLURM_CONF-none}\" > world\n"
               "[ -e lose ] && exit 0\necho 'sbatch: a chatty site'; echo \"$id;tutti\"\n"},
    {"squeue", "show() { [ -e $1 ] && while read -r l; do echo $l; done < $1; }\n"
               "case \"$*\" in *'-t all'*) show past;; esac; show queue; exit 0\n"},
    {"sacct", "cat account\n"},
    {"scancel", ": > queue\n"},
};

typedef struct rig {
  char folder[64], label[128];
  tt_config cfg;
  tt_label_request request;
  tt_label_group group[8];
  tt_labeling a;
} rig;

static void path_of(const rig *r, const char *name, char path[256])
{
  snprintf(path, 256, "%.60s/%.150s", r->folder, name);
}

static void put(const rig *r, const char *name, const char *text)
{
  char path[256];
  path_of(r, name, path);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  TT_CHECK(fclose(f), ==, 0);
  TT_CHECK(chmod(path, 0755), ==, 0);
}

/* "" if the file does not exist. */
static const char *get(const rig *r, const char *name)
{
  static char text[8192];
  char path[256];
  path_of(r, name, path);
  FILE *f = fopen(path, "r");
  text[0] = '\0';
  if (!f) return text;
  text[fread(text, 1, sizeof text - 1, f)] = '\0';
  fclose(f);
  return text;
}

static int calls(const rig *r, const char *program)
{
  char name[64];
  int n = 0;
  snprintf(name, sizeof name, "%s.log", program);
  for (const char *c = get(r, name); *c; c++) n += *c == '\n';
  return n;
}

static void make_folder(rig *r, const char *name)
{
  char path[256];
  path_of(r, name, path);
  TT_CHECK(mkdir(path, 0755), ==, 0);
}

static void make_programs(const rig *r)
{
  char text[2048], name[64];
  for (size_t i = 0; i < sizeof fakes / sizeof *fakes; i++) {
    snprintf(name, sizeof name, "bin/%s", fakes[i].name);
    snprintf(text, sizeof text, "%s%s", prelude, fakes[i].text);
    put(r, name, text);
  }
}

static char user_path[4096];
static const char *const settings[] = {"label.command=['it''s']"};

/* `groups` groups that are not labeled yet, in a folder whose name a shell must not interpret. */
static void begin(rig *r, int groups)
{
  char text[4200], path[256];
  *r = (rig){.folder = "/tmp/tutti '%a$(touch no)`touch no`#\u00e9;-XXXXXX"};
  assert_non_null(mkdtemp(r->folder));
  make_folder(r, "bin");
  make_folder(r, "label");
  make_programs(r);
  put(r, "c.yaml", "");
  put(r, "owner", "one\n");
  TT_CHECK_OK(tt_owner_begin_local(r->folder, "one"));
  put(r, "job.sh", "#!/bin/bash\n#SBATCH --time=5\n: module load all\n");
  snprintf(r->label, sizeof r->label, "%s/label", r->folder);
  snprintf(text, sizeof text, "%s/bin:%s", r->folder, user_path);
  setenv("PATH", text, 1);
  setenv("FAKE", r->folder, 1);
  setenv("SLURM_NTASKS", "4", 1);
  setenv("SLURM_CONF", "conf", 1);
  path_of(r, "job.sh", path);
  r->cfg = (tt_config){.label_retries = 2,
                       .label_concurrency = 5,
                       .label_poll_interval = 0.001,
                       .label_max_wait = 1000.0,
                       .label_script = strdup(path),
                       .directory = r->folder};
  path_of(r, "c.yaml", path);
  r->request = (tt_label_request){.cfg = &r->cfg,
                                  .file = strdup(path),
                                  .set = settings,
                                  .nset = 1,
                                  .campaign = r->folder,
                                  .incarnation = "one",
                                  .directory = r->label,
                                  .round = 12};
  for (int i = 0; i < groups; i++) {
    snprintf(path, sizeof path, "label/%04d", i);
    make_folder(r, path);
    path_of(r, path, text);
    r->group[i].directory = strdup(text);
  }
  r->a =
      (tt_labeling){.request = &r->request, .groups = groups, .group = r->group, .pending = groups};
}

static void finish(rig *r)
{
  tt_owner_end_local(r->folder);
  TT_CHECK(system("rm -r \"$FAKE\""), ==, 0);
  for (int i = 0; i < r->a.groups; i++) free(r->group[i].directory);
  free(r->cfg.label_script);
  free((void *)(uintptr_t)r->request.file);
}

static void answer(const rig *r, int first, int end)
{
  char name[64];
  for (int i = first; i < end; i++) {
    snprintf(name, sizeof name, "label/%04d/accepted.h5", i);
    put(r, name, "");
  }
}

enum { MOST_POLLS = 20000 };

/* Poll until a program has been called `calls` times, all groups are done, or an error occurs. */
static tt_err until(rig *r, const char *program, int least)
{
  tt_err e = TT_OK;
  for (int n = 0; !e && r->a.pending > 0 && calls(r, program) < least; n++) {
    TT_CHECK(n, <, MOST_POLLS);
    e = tt_label_backend_slurm.poll(&r->a);
    poll(NULL, 0, 1);
  }
  return e;
}

static tt_err to_the_end(rig *r) { return until(r, "nothing", 1); }

TT_TEST (unlabeled_groups_become_an_array) {
  rig r;
  begin(&r, 7);
  answer(&r, 2, 3);
  tt_label_group_update(&r.group[2]);
  TT_CHECK_OK(tt_label_backend_slurm.start(&r.a));
  TT_CHECK_OK(until(&r, "squeue", 3));
  /* MaxArraySize allows three tasks here: two arrays share the concurrency */
  TT_CHECK(calls(&r, "sbatch"), ==, 2);
  TT_CHECK_HAS(get(&r, "sbatch.log"), "--array=0-2%2 ");
  TT_CHECK_HAS(get(&r, "sbatch.log"), "-r12-a1 ");
  TT_CHECK_HAS(get(&r, "world"), "none conf");
  TT_CHECK_HAS(get(&r, "label/job.json"), "{\"tasks\": 3, \"id\": 101, \"state\": \"submitted\"},");
  TT_CHECK_HAS(get(&r, "label/job.json"), "{\"tasks\": 3, \"id\": 102, \"state\": \"submitted\"}]");
  TT_CHECK_HAS(get(&r, "label/job-1-0.sbatch"),
               "#!/bin/bash\n#SBATCH --output=\"/tmp/tutti '%%a$(touch no)`");
  TT_CHECK_HAS(get(&r, "label/job-1-0.sbatch"), "/label/job-1-0.%a.out\"\n#SBATCH --time=5\n: mod");
  TT_CHECK_HAS(get(&r, "label/job-1-0.sbatch"), "\nset -- 0000 0001 0003\nshift ");
  TT_CHECK_HAS(get(&r, "label/job-1-1.sbatch"), "\nset -- 0004 0005 0006\nshift ");
  TT_CHECK_HAS(get(&r, "label/job-1-1.sbatch"),
               "campaign task --set 'label.command=['\\''it'\\'''\\''s'\\'']' '/tmp/");
  answer(&r, 0, 7);
  TT_CHECK_OK(to_the_end(&r));
  TT_CHECK(r.a.pending, ==, 0);
  /* a late task finds the record of a newer attempt and does not call the oracle */
  put(&r, "label/job.json", "\"tutti-of-another-r12-a1\"");
  TT_CHECK(system("cd \"$FAKE\" && SLURM_ARRAY_TASK_ID=1 sh label/job-1-0.sbatch | grep -q 'no "
                  "longer needed' && test ! -e no"),
           ==, 0);
  tt_label_backend_slurm.end(&r.a);
  finish(&r);
}

/* Killed directly after sbatch, with any state of the record on disk. */
TT_TEST (a_restart_finds_its_job) {
  static const char *const record[] = {"submitting", "submitted", "submitting", "submitting"};
  static const char *const where[] = {"queue", "queue", "past", "account"};
  for (int how = 0; how < 4; how++) {
    rig r;
    char text[512];
    begin(&r, 2);
    snprintf(
        text, sizeof text,
        "{\n  \"round\": 12,\n  \"attempt\": 1,\n  \"spare\": 0,\n  \"name\": \"tutti-x-r12-a1\","
        "\n  \"jobs\": [\n    {\"tasks\": 2, \"id\": %d, \"state\": \"%s\"}\n  ]\n}\n",
        how == 1 ? 77 : 0, record[how]);
    put(&r, "label/job.json", text);
    if (how == 0) put(&r, "label/job-1-0.said", "77\n");
    put(&r, where[how], how == 3 ? "77_0|\n77_1|\n" : "77\n");
    put(&r, "fail.squeue", "1\n2\n3\n");
    TT_CHECK_OK(tt_label_backend_slurm.start(&r.a));
    TT_CHECK_OK(until(&r, "squeue", how == 3 ? 10 : 5));
    TT_CHECK(calls(&r, "sbatch"), ==, 0);
    TT_CHECK_HAS(get(&r, "label/job.json"), "\"id\": 77, \"state\": \"submitted\"");
    answer(&r, 0, 2);
    TT_CHECK_OK(to_the_end(&r));
    tt_label_backend_slurm.end(&r.a);
    finish(&r);
  }
}

/* sbatch fails or prints nothing. If the job exists, it is found; if not, it is submitted again. */
TT_TEST (a_job_without_known_number_is_found) {
  for (int lost = 0; lost < 2; lost++) {
    rig r;
    begin(&r, 2);
    if (lost) put(&r, "lose", "");
    put(&r, "fail.sbatch", lost ? "" : "1\n2\n");
    put(&r, "fail.scontrol", "1\n");
    TT_CHECK_OK(tt_label_backend_slurm.start(&r.a));
    for (int n = 0; !strstr(get(&r, "label/job.json"), "submitted"); n++) {
      TT_CHECK(n, <, MOST_POLLS);
      TT_CHECK_OK(tt_label_backend_slurm.poll(&r.a));
      poll(NULL, 0, 1);
    }
    TT_CHECK(calls(&r, "sbatch"), ==, lost ? 1 : 3);
    answer(&r, 0, 2);
    TT_CHECK_OK(to_the_end(&r));
    tt_label_backend_slurm.end(&r.a);
    finish(&r);
  }
}

TT_TEST (errors_of_slurm_are_reported) {
  rig r;
  begin(&r, 2);
  put(&r, "fail.sbatch", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
  TT_CHECK_OK(tt_label_backend_slurm.start(&r.a));
  TT_CHECK((int)to_the_end(&r), ==, TT_E_UNAVAILABLE);
  TT_CHECK_HAS(tt_err_last(), "sbatch: no answer");
  tt_label_backend_slurm.end(&r.a);
  put(&r, "job.sh", "#!/bin/sh\n#SBATCH --mended\n");
  put(&r, "fail.sbatch", "");
  TT_CHECK_OK(tt_label_backend_slurm.start(&r.a));
  TT_CHECK_OK(until(&r, "squeue", calls(&r, "squeue") + 8));
  TT_CHECK_HAS(get(&r, "label/job-1-0.sbatch"), "--mended");
  TT_CHECK_HAS(get(&r, "label/job.json"), "submitted");
  tt_label_backend_slurm.end(&r.a);
  put(&r, "label/job.json", "{\n  \"round\": 12,\n");
  TT_CHECK((int)tt_label_backend_slurm.start(&r.a), ==, TT_E_DATA);
  tt_label_backend_slurm.end(&r.a);
  finish(&r);
  begin(&r, 2);
  put(&r, "job.sh", "echo no first line\n");
  TT_CHECK_OK(tt_label_backend_slurm.start(&r.a));
  TT_CHECK((int)to_the_end(&r), ==, TT_E_CONFIG);
  tt_label_backend_slurm.end(&r.a);
  finish(&r);
}

/* Jobs without output are submitted again with a new number; after the last attempt their rows have
 * failed. */
TT_TEST (lost_jobs_are_submitted_again_at_most_retries_times) {
  rig r;
  char path[256];
  begin(&r, 2);
  TT_CHECK_OK(tt_label_backend_slurm.start(&r.a));
  for (int attempt = 1; attempt <= 3; attempt++) {
    TT_CHECK_OK(until(&r, "sbatch", attempt));
    TT_CHECK_OK(until(&r, "squeue", calls(&r, "squeue") + 2));
    put(&r, "queue", "");
    if (attempt == 1) answer(&r, 0, 1);
  }
  TT_CHECK_OK(to_the_end(&r));
  TT_CHECK(calls(&r, "sbatch"), ==, 3);
  TT_CHECK_HAS(get(&r, "sbatch.log"), "-r12-a3 --array=0-0%5");
  TT_CHECK((int)r.group[0].state, ==, TT_LABEL_GROUP_labeled);
  TT_CHECK((int)r.group[1].state, ==, TT_LABEL_GROUP_failed);
  TT_CHECK_HAS(get(&r, "label/0001/failed"), "left the queue without a result, attempt 3 of 3");
  tt_label_backend_slurm.end(&r.a);
  /* the user removes the mark: the group is queried again, with all retries */
  path_of(&r, "label/0001/failed", path);
  TT_CHECK(unlink(path), ==, 0);
  tt_label_group_update(&r.group[1]);
  r.a.pending = 1;
  TT_CHECK_OK(tt_label_backend_slurm.start(&r.a));
  TT_CHECK_OK(until(&r, "sbatch", 4));
  TT_CHECK_OK(until(&r, "squeue", calls(&r, "squeue") + 2));
  put(&r, "queue", "");
  TT_CHECK_OK(until(&r, "sbatch", 5));
  TT_CHECK_OK(until(&r, "squeue", calls(&r, "squeue") + 2));
  TT_CHECK_HAS(get(&r, "sbatch.log"), "-r12-a5 ");
  answer(&r, 1, 2);
  TT_CHECK_OK(to_the_end(&r));
  tt_label_backend_slurm.end(&r.a);
  finish(&r);
}

/* Exit code 75 (retry later) does not count as a failure: the campaign stops, and its next start
 * calls the oracle again. */
TT_TEST (retry_later_is_no_failure) {
  rig r;
  begin(&r, 1);
  r.cfg.label_retries = 1;
  for (int start = 1; start <= 3; start++) {
    TT_CHECK_OK(tt_label_backend_slurm.start(&r.a));
    TT_CHECK_OK(until(&r, "sbatch", start));
    TT_CHECK_OK(until(&r, "squeue", calls(&r, "squeue") + 1));
    put(&r, "label/0000/later", "later\n");
    put(&r, "queue", "");
    TT_CHECK((int)to_the_end(&r), ==, TT_E_STOPPED);
    tt_label_backend_slurm.end(&r.a);
  }
  r.cfg.label_max_wait = 0.0;
  TT_CHECK_OK(tt_label_backend_slurm.start(&r.a));
  TT_CHECK((int)to_the_end(&r), ==, TT_E_STOPPED); /* submitted, but not waited for */
  TT_CHECK_HAS(tt_err_last(), "no progress for label.max_wait");
  TT_CHECK(calls(&r, "sbatch"), ==, 4);
  tt_label_backend_slurm.end(&r.a);
  TT_CHECK_OK(tt_label_backend_slurm.start(&r.a));
  answer(&r, 0, 1);
  TT_CHECK_OK(to_the_end(&r));
  tt_label_backend_slurm.end(&r.a);
  finish(&r);
}

/* An oracle can stop the campaign with its exit code; the next start calls it again. */
TT_TEST (a_task_can_stop_the_campaign) {
  rig r;
  char path[256];
  begin(&r, 3);
  TT_CHECK_OK(tt_label_backend_slurm.start(&r.a));
  TT_CHECK_OK(until(&r, "squeue", 1));
  path_of(&r, "label/0001", path);
  tt_label_task_report_local(path, TT_FAIL(UNAVAILABLE, "exit code 64"));
  TT_CHECK((int)to_the_end(&r), ==, TT_E_UNAVAILABLE);
  TT_CHECK_HAS(tt_err_last(), "exit code 64");
  TT_CHECK_HAS(get(&r, "scancel.log"), "101");
  tt_label_backend_slurm.end(&r.a);
  TT_CHECK_OK(tt_label_backend_slurm.start(&r.a));
  TT_CHECK_OK(until(&r, "squeue", 3));
  TT_CHECK(calls(&r, "sbatch"), ==, 2);
  TT_CHECK_HAS(get(&r, "label/job.json"), "\"attempt\": 1,");
  tt_label_backend_slurm.end(&r.a);
  finish(&r);
}

/* Another start owns the campaign: this one submits nothing. */
TT_TEST (the_fence_applies_to_jobs) {
  rig r;
  begin(&r, 1);
  TT_CHECK_OK(tt_label_backend_slurm.start(&r.a));
  put(&r, "owner", "two\n");
  TT_CHECK((int)to_the_end(&r), ==, TT_E_STOPPED);
  TT_CHECK(calls(&r, "sbatch"), ==, 0);
  tt_label_backend_slurm.end(&r.a);
  finish(&r);
}

static int keep_path(void **unused)
{
  (void)unused;
  snprintf(user_path, sizeof user_path, "%s", getenv("PATH"));
  return 0;
}

TT_SUITE(keep_path, NULL)
