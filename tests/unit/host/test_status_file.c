/* test_status_file.c — status.json is read as it was written. */
#include "tests/support/check.h"

#include "src/host/status_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TT_TEST (a_status_is_read_as_written) {
  static tt_status_file f;
  const char *folder = "once";
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
  TT_CHECK(mkdir(folder, 0755), ==, 0);
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
  TT_CHECK(f.job, ==, 18);
  TT_CHECK(f.restart, ==, 2);
#define X(name) TT_CHECK(f.status.name, ==, s.name);
  TT_RUN_STATUS_INTEGERS(X)
  TT_RUN_STATUS_REALS(X)
#undef X
  TT_CHECK(unlink("once/status.json"), ==, 0);
  TT_CHECK(rmdir(folder), ==, 0);
}

/* Links in the place of the file, and of the temporary name that could be guessed, are replaced. */
TT_TEST (a_status_is_not_written_through_links) {
  char link[64], text[16] = "";
  const tt_run_status s = {.state = "training"};
  struct stat info;
  put_text("other", "mine");
  snprintf(link, sizeof link, ".tmp-status-%d", (int)getpid());
  TT_CHECK(symlink("other", link), ==, 0);
  TT_CHECK(symlink("other", "status.json"), ==, 0);
  TT_CHECK_OK(tt_status_file_write_local(".", &s));
  TT_CHECK(lstat("status.json", &info), ==, 0);
  TT_CHECK(S_ISREG(info.st_mode), !=, 0);
  FILE *f = fopen("other", "r");
  assert_non_null(f);
  assert_non_null(fgets(text, sizeof text, f));
  fclose(f);
  assert_string_equal(text, "mine");
  unlink(link);
}

TT_SUITE(enter_folder, NULL)
