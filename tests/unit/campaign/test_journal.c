/* test_journal.c — finished stages on disk; names and directories of a campaign. */
#include "tests/support/check.h"
#include "tests/support/scratch.h"

#include "core/base/mem.h"
#include "src/campaign/state/file_names.h"
#include "src/campaign/state/journal.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

static const char file[] = "journal.jsonl";

static void put(const char *text, size_t n)
{
  FILE *f = fopen(file, "w");
  TT_CHECK(f != NULL, ==, 1);
  TT_CHECK(fwrite(text, 1, n, f), ==, n);
  fclose(f);
}

static size_t get(char *text, size_t capacity)
{
  FILE *f = fopen(file, "r");
  size_t n = f ? fread(text, 1, capacity - 1, f) : 0;
  text[n] = 0;
  if (f) fclose(f);
  return n;
}

static tt_journal *opened(void)
{
  tt_journal *j = NULL;
  TT_CHECK_OK(tt_journal_open_local(file, "18.0.host.1", &j));
  return j;
}

static tt_journal_entry entry_of(int64_t round, tt_stage stage)
{
  return (tt_journal_entry){round, stage, 0x123456789abcdef0U + (uint64_t)round, (uint64_t)stage,
                            0.25 * (double)(stage + 1)};
}

/* Two rounds, all stages. */
static void write_two_rounds(void)
{
  unlink(file);
  tt_journal *j = opened();
  for (int64_t round = 1; round <= 2; round++)
    for (tt_stage s = 0; s < TT_STAGE_COUNT; s++) {
      const tt_journal_entry e = entry_of(round, s);
      TT_CHECK_OK(tt_journal_append_done_local(j, &e));
    }
  tt_journal_close_local(&j);
}

static void check_two_rounds(const tt_journal *j)
{
  for (int64_t round = 1; round <= 2; round++)
    for (tt_stage s = 0; s < TT_STAGE_COUNT; s++) {
      const tt_journal_entry *e = tt_journal_find(j, round, s), wanted = entry_of(round, s);
      TT_CHECK(e != NULL, ==, 1);
      TT_CHECK(e->round, ==, round);
      TT_CHECK(e->stage, ==, s);
      TT_CHECK(e->inputs, ==, wanted.inputs);
      TT_CHECK(e->outputs, ==, wanted.outputs);
      TT_CHECK(e->seconds, ==, wanted.seconds);
    }
  TT_CHECK(tt_journal_seconds(j), ==, 2 * 0.25 * 15);
  TT_CHECK(tt_journal_find(j, 3, TT_STAGE_train) == NULL, ==, 1);
}

TT_TEST (lines_are_read_as_written) {
  write_two_rounds();
  tt_journal *j = opened();
  check_two_rounds(j);
  tt_journal_close_local(&j);
}

/* Killed after any byte of the last line: this line is dropped, and the next one is appended whole.
 */
TT_TEST (a_torn_last_line_is_cut_off) {
  char whole[8192], text[8192];
  write_two_rounds();
  size_t n = get(whole, sizeof whole), start = n - 1;
  while (whole[start - 1] != '\n') start--;
  for (size_t bytes = start; bytes < n; bytes++) {
    put(whole, bytes);
    tt_journal *j = opened();
    TT_CHECK(tt_journal_find(j, 2, TT_STAGE_merge) == NULL, ==, 1);
    TT_CHECK(tt_journal_find(j, 2, TT_STAGE_label) != NULL, ==, 1);
    TT_CHECK(get(text, sizeof text), ==, start);
    const tt_journal_entry e = entry_of(2, TT_STAGE_merge);
    TT_CHECK_OK(tt_journal_append_done_local(j, &e));
    TT_CHECK(get(text, sizeof text), ==, n);
    check_two_rounds(j);
    tt_journal_close_local(&j);
    j = opened();
    check_two_rounds(j);
    tt_journal_close_local(&j);
  }
}

TT_TEST (again_removes_the_stage_and_all_later_ones) {
  for (int64_t round = 1; round <= 3; round++)
    for (tt_stage stage = 0; stage < TT_STAGE_COUNT; stage++) {
      write_two_rounds();
      tt_journal *j = opened();
      TT_CHECK_OK(tt_journal_append_redo_local(j, round, stage));
      for (int life = 0; life < 2; life++) { /* this journal, and one that reads the file */
        for (int64_t r = 1; r <= 2; r++)
          for (tt_stage s = 0; s < TT_STAGE_COUNT; s++) {
            int before = r < round || (r == round && s < stage);
            TT_CHECK(tt_journal_find(j, r, s) != NULL, ==, before);
          }
        tt_journal_close_local(&j);
        j = opened();
      }
      tt_journal_entry e = entry_of(round, stage);
      e.outputs = 77;
      TT_CHECK_OK(tt_journal_append_done_local(j, &e));
      TT_CHECK((int)tt_journal_find(j, round, stage)->outputs, ==, 77);
      tt_journal_close_local(&j);
    }
}

TT_TEST (a_damaged_line_is_named) {
  static const char *const bad[] = {
      "",
      "{}",
      "{\"round\": 1, \"stage\": \"trains\", \"inputs\": \"0000000000000001\", \"outputs\": "
      "\"0000000000000002\", \"seconds\": 1.000, \"time\": \"\", \"incarnation\": \"\"}",
      "{\"round\": 0, \"stage\": \"train\", \"again\": true, \"time\": \"\", \"incarnation\": "
      "\"\"}",
      "{\"round\": 1, \"stage\": \"train\", \"inputs\": \"000000000000001\", \"outputs\": "
      "\"0000000000000002\", \"seconds\": 1.000, \"time\": \"\", \"incarnation\": \"\"}",
      "{\"round\": 1, \"stage\": \"train\", \"inputs\": \"0000000000000001\", \"outputs\": "
      "\"0000000000000002\", \"seconds\": -1.000, \"time\": \"\", \"incarnation\": \"\"}",
      "{\"round\": 1, \"stage\": \"train\", \"again\": true, \"time\": \"\", \"incarnation\": "
      "\"\"}}",
      "{\"round\": 1, \"stage\": \"train\", \"again\": false, \"time\": \"\", \"incarnation\": "
      "\"\"}",
  };
  char whole[8192], text[9000], place[2 * SCRATCH_ROOM + 8];
  write_two_rounds();
  size_t n = get(whole, sizeof whole), second = strcspn(whole, "\n") + 1;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    memcpy(text, whole, second);
    size_t length = second + (size_t)sprintf(text + second, "%s\n", bad[i]);
    memcpy(text + length, whole + second, n - second);
    put(text, length + n - second);
    tt_journal *j = NULL;
    TT_CHECK((int)tt_journal_open_local(file, "1", &j), ==, TT_E_DATA);
    TT_CHECK(j == NULL, ==, 1);
    snprintf(place, sizeof place, "%s:2:", file);
    TT_CHECK_HAS(tt_err_last(), place);
  }
  /* change any byte of a middle line to one that is not valid there */
  for (size_t offset = second; whole[offset] != '\n'; offset++) {
    memcpy(text, whole, n);
    text[offset] = 0;
    put(text, n);
    tt_journal *j = NULL;
    TT_CHECK((int)tt_journal_open_local(file, "1", &j), ==, TT_E_DATA);
  }
}

TT_TEST (reading_changes_nothing) {
  char path[3 * SCRATCH_ROOM], text[8192];
  tt_journal *j = NULL;
  snprintf(path, sizeof path, "%s/none.jsonl", test_folder);
  TT_CHECK_OK(tt_journal_open_local(path, NULL, &j));
  TT_CHECK(tt_journal_find(j, 1, TT_STAGE_train) == NULL, ==, 1);
  TT_CHECK(access(path, F_OK), !=, 0);
  tt_journal_close_local(&j);
  write_two_rounds();
  size_t n = get(text, sizeof text);
  put(text, n - 3);
  TT_CHECK_OK(tt_journal_open_local(file, NULL, &j));
  TT_CHECK(tt_journal_find(j, 2, TT_STAGE_label) != NULL, ==, 1);
  TT_CHECK(tt_journal_find(j, 2, TT_STAGE_merge) == NULL, ==, 1);
  tt_journal_close_local(&j);
  TT_CHECK(get(text, sizeof text), ==, n - 3);
}

/* Lines of the earlier of two starts do not reach the later one; lines of others are noticed. */
TT_TEST (two_writers_do_not_mix) {
  char text[8192];
  write_two_rounds();
  size_t n = get(text, sizeof text);
  tt_journal *a = opened(), *b = opened();
  const tt_journal_entry e = entry_of(3, TT_STAGE_train), later = entry_of(3, TT_STAGE_score);
  TT_CHECK((int)tt_journal_append_done_local(a, &e), ==, TT_E_STOPPED);
  TT_CHECK_HAS(tt_err_last(), "has replaced the file");
  TT_CHECK(get(text, sizeof text), ==, n);
  TT_CHECK_OK(tt_journal_append_done_local(b, &e));
  n = get(text, sizeof text);
  put(text, n + 1);
  TT_CHECK((int)tt_journal_append_done_local(b, &later), ==, TT_E_IO);
  TT_CHECK_HAS(tt_err_last(), "running twice");
  tt_journal_close_local(&a);
  tt_journal_close_local(&b);
}

/* A line that does not fit on the disk is removed; with free space again, the next append succeeds.
 */
TT_TEST (a_full_disk_loses_nothing) {
  char whole[8192], text[8192];
  write_two_rounds();
  size_t n = get(whole, sizeof whole);
  const tt_journal_entry e = entry_of(3, TT_STAGE_train);
  struct rlimit before, small;
  signal(SIGXFSZ, SIG_IGN);
  TT_CHECK(getrlimit(RLIMIT_FSIZE, &before), ==, 0);
  for (rlim_t more = 0; more < 100; more += 33) {
    tt_journal *j = opened();
    small = (struct rlimit){n + more, before.rlim_max};
    TT_CHECK(setrlimit(RLIMIT_FSIZE, &small), ==, 0);
    tt_err full = tt_journal_append_done_local(j, &e);
    TT_CHECK(setrlimit(RLIMIT_FSIZE, &before), ==, 0);
    TT_CHECK((int)full, ==, TT_E_IO);
    TT_CHECK(get(text, sizeof text), ==, n);
    TT_CHECK(tt_journal_find(j, 3, TT_STAGE_train) == NULL, ==, 1);
    TT_CHECK_OK(tt_journal_append_done_local(j, &e));
    TT_CHECK(tt_journal_find(j, 3, TT_STAGE_train) != NULL, ==, 1);
    tt_journal_close_local(&j);
    put(whole, n);
  }
}

TT_TEST (names_with_quotes_and_newlines_are_escaped) {
  unlink(file);
  tt_journal *j = NULL;
  TT_CHECK_OK(tt_journal_open_local(file, "a\"b\\c\nd", &j));
  TT_CHECK_OK(tt_journal_append_redo_local(j, 1, TT_STAGE_train));
  tt_journal_close_local(&j);
  j = opened();
  tt_journal_close_local(&j);
}

TT_TEST (the_hash_is_that_of_the_bytes) {
  enum { MOST = (1 << 20) + 4321 };
  static const size_t size[] = {0, 1, 240, 1 << 20, MOST};
  char *bytes = malloc(MOST);
  for (size_t i = 0; i < MOST; i++) bytes[i] = (char)(i * 7 + i / 255);
  for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
    uint64_t hash = 0;
    put(bytes, size[i]);
    TT_CHECK_OK(tt_file_hash_local(file, &hash));
    TT_CHECK(hash, ==, XXH3_64bits(bytes, size[i]));
  }
  free(bytes);
  unlink(file);
  uint64_t hash;
  TT_CHECK((int)tt_file_hash_local(file, &hash), ==, TT_E_NOINPUT);
  TT_CHECK((int)tt_file_hash_local(test_folder, &hash), ==, TT_E_NOINPUT);
}

TT_TEST (directories_of_rounds_are_made_and_removed) {
  char path[TT_PATH_MAX], deep[TT_PATH_MAX], kept[TT_PATH_MAX];
  tt_round_path(test_folder, 12, "label/0003", deep);
  TT_CHECK_HAS(deep, "/round-0012/label/0003");
  TT_CHECK_OK(tt_directory_create(deep));
  TT_CHECK_OK(tt_directory_create(deep));
  tt_path_join(test_folder, "kept", kept);
  TT_CHECK_OK(tt_directory_create(kept));
  TT_CHECK(touch(kept, "file"), ==, 0);
  TT_CHECK(touch(deep, "input.h5"), ==, 0);
  tt_path_join(deep, "link", path);
  TT_CHECK(symlink(kept, path), ==, 0);
  TT_CHECK_OK(tt_round_remove_local(test_folder, 12));
  TT_CHECK_OK(tt_round_remove_local(test_folder, 12));
  tt_round_path(test_folder, 12, "", path);
  TT_CHECK(access(path, F_OK), !=, 0);
  TT_CHECK(scratch_count(kept, "file"), ==, 1); /* links are removed, not followed */
  tt_path_join(kept, "file", path);
  TT_CHECK((int)tt_directory_create(path), ==, TT_E_CANTCREAT);
  tt_path_join(kept, "file/more", path);
  TT_CHECK((int)tt_directory_create(path), ==, TT_E_CANTCREAT);
  char *name = malloc(TT_PATH_MAX);
  memset(name, 'a', TT_PATH_MAX - 1);
  name[TT_PATH_MAX - 1] = 0;
  tt_path_join(test_folder, name, path);
  TT_CHECK(path[0], ==, 0);
  TT_CHECK((int)tt_directory_create(path), ==, TT_E_CANTCREAT);
  free(name);
}

TT_TEST (numbered_names_are_listed_and_backups_are_numbered) {
  static const char *const name[] = {
      "g-0012", "g-0003",  "g-12345", "g-003",  "g-00012",
      "g-",     "g-0004x", "h-0004",  "g--001", "g-99999999999999999999"};
  char path[TT_PATH_MAX], sub[TT_PATH_MAX];
  int64_t *number = NULL, count = 0;
  tt_path_join(test_folder, "list", path);
  TT_CHECK_OK(tt_directory_list_numbers(path, "g-", 4, "", &number, &count));
  TT_CHECK(count, ==, 0); /* no such directory */
  tt_free(number);
  TT_CHECK_OK(tt_directory_create(path));
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) TT_CHECK(touch(path, name[i]), ==, 0);
  TT_CHECK_OK(tt_directory_list_numbers(path, "g-", 4, "", &number, &count));
  TT_CHECK(count, ==, 3);
  TT_CHECK(number[0], ==, 3);
  TT_CHECK(number[1], ==, 12);
  TT_CHECK(number[2], ==, 12345);
  tt_free(number);
  for (int n = 1; n <= 2; n++) {
    TT_CHECK(touch(path, "g-0012"), ==, 0);
    TT_CHECK_OK(tt_backup(path, "g-0012"));
    snprintf(sub, sizeof sub, "%.4000s.before-%d", path, n);
    TT_CHECK(scratch_count(sub, "g-0012"), ==, 1);
  }
  TT_CHECK_OK(tt_backup(path, "g-0012")); /* nothing is there */
  TT_CHECK_OK(tt_backup(path, ""));
  TT_CHECK(access(path, F_OK), !=, 0);
  snprintf(sub, sizeof sub, "%.4000s.before-3", path);
  TT_CHECK(scratch_count(sub, "g-0003"), ==, 1);
}

TT_SUITE(enter_folder, NULL)
