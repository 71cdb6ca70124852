/* test_oracle_output.c — the outputs of an oracle: no more rows than requested. */
#include "core/base/mem.h"
#include "io/campaign/oracle_files.h"
#include "tests/support/check.h"

#include <string.h>
#include <unistd.h>

static char csv[64], h5[64];
static tt_columns target;

static void put(const char *text)
{
  FILE *f = fopen(csv, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static tt_err read_rows(const char *file, int64_t requested, int64_t *rows)
{
  tt_oracle_output *l = NULL;
  tt_err e = tt_oracle_output_read_local(file, &target, requested, &l);
  *rows = e ? 0 : l->count;
  tt_oracle_output_destroy(&l);
  return e;
}

TT_TEST (more_rows_than_requested_are_refused) {
  const int64_t id[] = {4, 5, 6};
  const double y[] = {1, 2, 3};
  const char *const file[] = {csv, h5};
  int64_t rows = 0, blocks = tt_mem_live_blocks();
  put("id,a\n4,1\n5,2\n6,3\n");
  TT_CHECK_OK(tt_accepted_labels_write_local(h5, 3, id, y, &target, ""));
  for (int i = 0; i < 2; i++) {
    TT_CHECK_OK(read_rows(file[i], 3, &rows));
    TT_CHECK(rows, ==, 3);
    TT_CHECK_OK(read_rows(file[i], 0, &rows));
    TT_CHECK(rows, ==, 3);
    assert_int_equal(read_rows(file[i], 2, &rows), TT_E_DATA);
    TT_CHECK_HAS(tt_err_last(), i ? "'y' has 3 rows; 2 are requested"
                                  : ".csv:4: one row more than the 2 expected");
  }
  TT_CHECK(tt_mem_live_blocks(), ==, blocks);
}

/* The file is sparse: nothing of it may be read. */
TT_TEST (a_huge_table_is_refused_unread) {
  int64_t rows = 0;
  put("id,a\n4,1\n");
  assert_int_equal(truncate(csv, 1LL << 40), 0);
  FILE *f = fopen(csv, "a");
  fputc('\n', f);
  fclose(f);
  assert_int_equal(read_rows(csv, 10, &rows), TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "1099511627777 bytes; a table of at most 10 rows may have");
}

static int make_target(void **unused)
{
  (void)unused;
  snprintf(csv, sizeof csv, "/tmp/tutti_oracle_output_%d.csv", (int)getpid());
  snprintf(h5, sizeof h5, "/tmp/tutti_oracle_output_%d.h5", (int)getpid());
  return tt_columns_create(1, &target) || tt_text_set(&target.name[0], "a");
}

static int remove_files(void **unused)
{
  (void)unused;
  tt_columns_free(&target);
  unlink(csv);
  unlink(h5);
  return 0;
}

TT_SUITE(make_target, remove_files)
