/* test_oracle_output.c — the outputs of an oracle: no more rows than requested. */
#include "io/campaign/oracle_files.h"
#include "tests/support/check.h"

#include <string.h>
#include <unistd.h>

static const char csv[] = "labels.csv", h5[] = "labels.h5";
static tt_columns target;

static void put(const char *text) { put_text(csv, text); }

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
  int64_t rows = 0;
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

/* The rules are those of every table; only an infinite label is accepted besides. */
TT_TEST (an_output_is_a_table) {
  static const struct {
    const char *text, *wanted; /* id and label of all rows, or a part of the message */
  } row[] = {
      {"id,a\n4,1\n5,-2.5e-1\n", "4:1 5:-0.25"},
      {"\xEF\xBB\xBFsep=;\r\na;id\r\n1;4\r\n\"2\";\"5\"\r\n", "4:1 5:2"},
      {"id\tnote\ta\n4\tx, \"y\"\t1\n5.0\t\t2\n", "4:1 5:2"},
      {"id,a,b,b\n4,1,2,3\n5,2,x\n,\n", "number of cells: 3"},
      {"# c\nid,a\n4,\n5,NA\n6,nan\n7,-nan\n8,-\n", "4:nan 5:nan 6:nan 7:nan 8:nan"},
      {"id,a\n4,inf\n5,-Infinity\n6,1e999\n", "4:inf 5:-inf 6:inf"},
      {"id;a\n4;1,5\n", ".csv:2: column 'a': '1,5' is not a number; write numbers with a"},
      {"id,a\n4,0x10\n", ".csv:2: column 'a': '0x10' is not a number"},
      {"id,a\n4,1\nfive,2\n", ".csv:3: column 'id': 'five' is not a number"},
      {"id,a\n4,1\n\n,2\n", ".csv:4: id nan is not a whole number"},
      {"id,a\n4.5,1\n", ".csv:2: id 4.5 is not a whole number"},
      {"id,a,a\n4,1,2\n", "columns 2 and 3 are both named 'a'"},
      {"id,b,c\n4,1,2\n", "the columns do not match the targets (1): expected 'a'"},
      {"id,a\n4,1", "the last line has no newline: the file is incomplete"},
      {"id,a\n", "no rows after the header"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char got[256] = "";
    size_t used = 0;
    tt_oracle_output *l = NULL;
    put(row[i].text);
    tt_err e = tt_oracle_output_read_local(csv, &target, 0, &l);
    for (int64_t k = 0; !e && k < l->count; k++)
      used += (size_t)snprintf(got + used, sizeof got - used, "%s%lld:%g", k ? " " : "",
                               (long long)l->id[k], l->y[k]);
    if (e && e != TT_E_DATA) print_error("case %zu: %s\n", i, tt_err_last());
    if (e)
      TT_CHECK_HAS(tt_err_last(), row[i].wanted);
    else
      assert_string_equal(got, row[i].wanted);
    tt_oracle_output_destroy(&l);
  }
}

static int make_target(void **unused)
{
  return enter_folder(unused) || tt_columns_create(1, &target) || tt_text_set(&target.name[0], "a");
}

static int free_target(void **unused)
{
  (void)unused;
  tt_columns_free(&target);
  return 0;
}

TT_SUITE(make_target, free_target)
