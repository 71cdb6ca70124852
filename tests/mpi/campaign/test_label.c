/* test_label.c — stage label by a command: for every behavior of an oracle, on any number of
 * ranks, the labels are right, and no query is labeled twice. */
#include "tests/mpi/campaign/oracle_rig.h"

#include <signal.h>
#include <sys/resource.h>

/* laws */

TT_TEST (labels_are_right_in_any_groups_and_formats) {
  setenv("TUTTI_EXE", program, 1); /* reads existing outputs first */
  static const char *const more[] = {"", "format: csv, rows_per_call: 2, concurrency: 3",
                                     "rows_per_call: 100"};
  static const int groups[] = {5, 3, 1};
  for (int i = 0; i < 3; i++) {
    TT_CHECK(labeled_by("good", more[i]), ==, N);
    TT_CHECK(calls(), ==, groups[i]);
    TT_CHECK(labeled_by("exit_64", more[i]), ==, N); /* no further call */
    TT_CHECK(calls(), ==, groups[i]);
    clear();
  }
  unsetenv("TUTTI_EXE"); /* is slow */
}

/* Behavior of an oracle with a group of 5: labeled rows, calls, words of the log. */
static const struct {
  const char *word, *more;
  int labeled, calls;
  const char *why;
} misdeeds[] = {
    {"crash", "retries: 1", 0, 2, "signal 6"},
    {"crash_once", "retries: 1", N, 2, "labeled 5 of 5"},
    {"hang", "retries: 0, timeout: 0.1s", 0, 1, "label.timeout (0.1 s)"},
    {"nothing", "retries: 0", 0, 1, "exit 0, but"},
    {"not_hdf5", "retries: 0", 0, 1, "not an HDF5 file"},
    {"torn", "retries: 0, format: csv", 0, 1, "the last line has no newline"},
    {"wrong_shape", "retries: 0", 0, 1, "x 3, expected 2 columns, one per target"},
    {"fifo", "retries: 0, format: csv", 0, 1, "output.csv is a FIFO, not a regular file"},
    {"fifo", "retries: 0", 0, 1, "output.h5 is a FIFO, not a regular file"},
    {"twice", "retries: 0", 0, 1, "id 40 occurs twice"},
    {"unasked", "retries: 0", 0, 1, "id -5, which was not queried"},
    {"partial", "retries: 0", 4, 1, "labeled 4 of 5, 1 failed (oracle: no value)"},
    {"nan_in_one", "retries: 0", N, 1, "labeled 5 of 5"},
    {"nan_in_all", "retries: 0", 4, 1, "no value"},
    {"infinite", "retries: 0", 4, 1, "no value"},
    {"exit_1", "retries: 2", 0, 3, "exit 1"}, /* an exception in Python: try again */
    {"exit_65", "retries: 5", 0, 1, "labeled 0 of 5, 5 failed (oracle: exit 65)"},
    {"exit_65_partial", "retries: 5", 4, 1, "labeled 4 of 5, 1 failed (oracle: exit 65)"},
    {"exit_3", "retries: 1", 0, 2, "exit 3"},
    {"exit_139", "retries: 1", 0, 2, "signal 11"},
    {"later_once", "max_wait: 1h", N, 1, "labeled 5 of 5"}, /* no label of the first call is kept */
};

TT_TEST (every_behavior_of_an_oracle_is_handled) {
  for (size_t i = 0; i < sizeof misdeeds / sizeof *misdeeds; i++) {
    char more[256], text[TT_ERR_MESSAGE_SIZE];
    hearing h;
    snprintf(more, sizeof more, "rows_per_call: 100, %s", misdeeds[i].more);
    hear_begin(comm, scratch, &h);
    int labeled = labeled_by(misdeeds[i].word, more);
    hear_end(&h, text);
    if (labeled != misdeeds[i].labeled) fprintf(stderr, "%s\n", misdeeds[i].word);
    TT_CHECK(labeled, ==, misdeeds[i].labeled);
    TT_CHECK(calls(), ==, misdeeds[i].calls);
    if (tt_comm_is_root(comm)) TT_CHECK_HAS(text, misdeeds[i].why);
    TT_CHECK(labeled_by("exit_64", more), ==, labeled); /* failed rows are not queried again */
    clear();
  }
}

TT_TEST (an_oracle_stops_the_campaign) {
  refused("exit_64", "", TT_E_UNAVAILABLE, "exit 64");
  TT_CHECK_HAS(tt_err_last(), "| asked with word exit_64");
  refused("exit_70", "", TT_E_UNAVAILABLE, "exit 70");
  TT_CHECK(labeled_by("good", "retries: 0"), ==, N); /* this does not count as a failed call */
  clear();
  refused("exit_75", "max_wait: 0.05s, concurrency: 2", TT_E_STOPPED, "label.max_wait (0.05 s)");
  TT_CHECK(labeled_by("good", "retries: 0"), ==, N);
  clear();
  char kept[sizeof program];
  memcpy(kept, program, sizeof kept);
  snprintf(program, sizeof program, "./no such program");
  refused("good", "", TT_E_UNAVAILABLE, "'./no such program' cannot be started");
  memcpy(program, kept, sizeof kept);
  clear();
}

TT_TEST (a_failed_group_is_queried_again_once_its_mark_is_removed) {
  static const char more[] = "rows_per_call: 5, retries: 1";
  TT_CHECK(labeled_by("exit_5", more), ==, 0);
  TT_CHECK(labeled_by("good", more), ==, 0);
  TT_CHECK(calls(), ==, 2);
  tt_barrier(comm);
  if (tt_comm_is_root(comm)) unlink(in_label("0001/failed"));
  tt_barrier(comm);
  TT_CHECK(labeled_by("crash", more), ==, 0); /* and all its retries are available again */
  TT_CHECK(calls(), ==, 4);
  tt_barrier(comm);
  if (tt_comm_is_root(comm)) unlink(in_label("0001/failed"));
  tt_barrier(comm);
  TT_CHECK(labeled_by("good", more), ==, N);
  clear();
}

/* Three of five are more than half: the other two are not asked, neither now nor by the next start,
 * until the user allows it. */
TT_TEST (an_oracle_that_always_fails_is_not_asked_to_the_end) {
  for (int start = 0; start < 2; start++) {
    refused("exit_3", "retries: 0", TT_E_DIVERGED, "3 of 5 queried rows have no label");
    TT_CHECK_HAS(tt_err_last(), "the other 2 are not labeled any more");
    TT_CHECK(calls(), ==, 3);
  }
  TT_CHECK(labeled_by("good", "max_failed: 0.6"), ==, 2);
  TT_CHECK(calls(), ==, 5);
  clear();
}

TT_TEST (a_stop_ends_the_calls) {
  char stop[ROOM];
  snprintf(stop, sizeof stop, "%s/STOP", campaign);
  if (tt_comm_is_root(comm)) TT_CHECK(touch(campaign, "STOP"), ==, 0);
  refused("hang", "concurrency: 2", TT_E_STOPPED, "the file STOP");
  TT_CHECK(calls(), ==, 2);
  TT_CHECK(is_there("0001/try-1/ended"), ==, 0);
  if (tt_comm_is_root(comm)) unlink(stop);
  tt_barrier(comm);
  TT_CHECK(labeled_by("good", "retries: 0"), ==, N);
  TT_CHECK(calls(), ==, N + 2);
  TT_CHECK(is_there("0002/try-2/messages.txt"), ==, 1);
  clear();
}

TT_TEST (another_incarnation_makes_no_call) {
  char path[ROOM];
  snprintf(path, sizeof path, "%s/owner", campaign);
  if (tt_comm_is_root(comm)) TT_CHECK_OK(tt_file_write_atomic_local(path, "later\n"));
  refused("good", "", TT_E_STOPPED, "another start of this run");
  TT_CHECK(calls(), ==, 0);
  TT_CHECK_OK(tt_ckpt_claim(comm, campaign, 0, 0, &owner));
  TT_CHECK(labeled_by("good", ""), ==, N);
  clear();
}

/* what a killed campaign leaves */

static void forget_answer(const char *group, const char *ended)
{
  char name[64];
  tt_barrier(comm);
  if (!tt_comm_is_root(comm)) return;
  snprintf(name, sizeof name, "%s/accepted.h5", group);
  unlink(in_label(name));
  snprintf(name, sizeof name, "%s/try-1/ended", group);
  if (*ended) TT_CHECK_OK(tt_file_write_atomic_local(in_label(name), ended));
}

TT_TEST (complete_outputs_of_a_killed_campaign_are_accepted) {
  TT_CHECK(labeled_by("good", "rows_per_call: 2, format: csv"), ==, N);
  forget_answer("0001", "");
  tt_barrier(comm);
  TT_CHECK(labeled_by("exit_64", "rows_per_call: 2"), ==, N);
  TT_CHECK(calls(), ==, 3);
  forget_answer("0002", "crashed: exit 3\n"); /* this call has failed */
  tt_barrier(comm);
  TT_CHECK(labeled_by("exit_5", "rows_per_call: 2, retries: 1"), ==, 3);
  TT_CHECK(calls(), ==, 4);
  clear();
  TT_CHECK(labeled_by("partial", "rows_per_call: 5"), ==, 4);
  forget_answer("0001", ""); /* incomplete: its writer may have been killed too */
  tt_barrier(comm);
  TT_CHECK(labeled_by("good", "rows_per_call: 5"), ==, N);
  TT_CHECK(calls(), ==, 2);
  clear();
}

TT_TEST (new_groups_keep_existing_labels) {
  TT_CHECK(labeled_by("good", "rows_per_call: 2"), ==, N);
  forget_answer("0002", "stopped: exit 64\n");
  if (tt_comm_is_root(comm)) tt_directory_remove(in_label("0003"));
  tt_barrier(comm);
  TT_CHECK(labeled_by("good", "rows_per_call: 100, format: csv"), ==, N);
  TT_CHECK(calls(), ==, 1 + 2 + 1);
  TT_CHECK(is_there("0003/input.csv"), ==, 1);
  tt_config *cfg = job("good", "rows_per_call: 3");
  tt_queries *p = queries();
  tt_query_labels *a = NULL;
  hearing h;
  char text[TT_ERR_MESSAGE_SIZE];
  p->x[D] += 1.0; /* candidate 7, of group 1, is replaced by another one */
  hear_begin(comm, scratch, &h);
  tt_err e = ask_of(cfg, p, NULL, &a);
  hear_end(&h, text);
  TT_CHECK_OK(e);
  if (tt_comm_is_root(comm)) TT_CHECK_HAS(text, "label/0001 is of other candidates\n");
  TT_CHECK(a->y[T], ==, p->x[D] + p->x[D + 1]);
  TT_CHECK(is_there("0001/input.h5"), ==, 0);
  TT_CHECK(calls(), ==, 2 + 1 + 1);
  tt_query_labels_destroy(&a);
  tt_queries_destroy(&p);
  tt_config_destroy(&cfg);
  clear();
}

static void limit_files(rlim_t bytes)
{
  struct rlimit r;
  getrlimit(RLIMIT_FSIZE, &r);
  r.rlim_cur = bytes < r.rlim_max ? bytes : r.rlim_max;
  setrlimit(RLIMIT_FSIZE, &r);
}

TT_TEST (a_full_disk_loses_nothing) {
  TT_CHECK(labeled_by("good", "rows_per_call: 2"), ==, N);
  if (tt_comm_is_root(comm)) tt_directory_remove(in_label("0003"));
  tt_barrier(comm);
  signal(SIGXFSZ, SIG_IGN);
  limit_files(512);
  refused("good", "rows_per_call: 2", TT_E_IO, campaign);
  limit_files(RLIM_INFINITY);
  TT_CHECK(labeled_by("good", "rows_per_call: 2"), ==, N);
  TT_CHECK(calls(), ==, 3);
  clear();
}

TT_TEST (one_group_alone_is_a_task) {
  refused("exit_75", "max_wait: 0s, rows_per_call: 3, format: csv", TT_E_STOPPED, "label.max_wait");
  tt_config *cfg = job("crash_once", "retries: 1");
  if (tt_comm_is_root(comm)) {
    TT_CHECK_OK(tt_oracle_label_group_local(cfg, in_label("0002")));
    TT_CHECK((int)tt_oracle_label_group_local(cfg, in_label("0009")), ==, (int)TT_E_NOINPUT);
  }
  tt_config_destroy(&cfg);
  tt_barrier(comm);
  TT_CHECK(is_there("0002/accepted.h5"), ==, 1);
  TT_CHECK(is_there("0002/try-1/ended"), ==, 0); /* no file of the call with exit code 75 is left */
  TT_CHECK(is_there("0002/try-2/accepted.h5"), ==, 0);
  TT_CHECK(labeled_by("good", ""), ==, N);
  clear();
}
