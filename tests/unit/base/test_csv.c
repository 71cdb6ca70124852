/* test_csv.c — the CSV reader: RFC 4180, its variants in practice, and rejected tables. */
#include "core/base/csv.h"
#include "core/base/mem.h"
#include "tests/support/check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/tutti_csv_XXXXXX.csv";

static void put(const char *bytes, size_t count)
{
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, count, f), count);
  fclose(f);
}

/* The table as one text: cells joined by |, rows by /; or the error after "ERR:". */
static void dump(char *out, size_t room)
{
  tt_csv *t = NULL;
  if (tt_csv_read(path, NULL, &t)) {
    const char *text = tt_err_last();
    snprintf(out, room, "ERR:%s", strncmp(text, path, strlen(path)) ? text : text + strlen(path));
    return;
  }
  size_t used = 0;
  out[0] = '\0';
  for (int64_t r = -1; r < t->rows; r++)
    for (int64_t c = 0; c < t->columns; c++)
      used += (size_t)snprintf(out + used, room - used, "%s%s",
                               c        ? "|"
                               : r >= 0 ? "/"
                                        : "",
                               r < 0 ? t->name[c] : t->cell[r * t->columns + c]);
  tt_csv_destroy(&t);
}

#define TEXT(s_) s_, sizeof s_ - 1
static const struct {
  const char *bytes;
  size_t count;
  const char *wanted;
} table[] = {
    {TEXT("a,b\n1,2\n"), "a|b/1|2"},
    {TEXT("a,b\n1,2"), "a|b/1|2"},
    {TEXT("a,b\r\n1,2\r\n3,4\r\n"), "a|b/1|2/3|4"},
    {TEXT("a,b\r1,2\r3,4"), "a|b/1|2/3|4"},
    {TEXT("\xEF\xBB\xBF"
          "a,b\n1,2\n"),
     "a|b/1|2"},
    {TEXT("a\tb\n1\t2\n"), "a|b/1|2"},
    {TEXT("a;b;c\n1,5;2;3\n"), "a|b|c/1,5|2|3"},
    {TEXT("# made by hand\n\n  \na,b\n# half way\n1,2\n\n3,4\n#end"), "a|b/1|2/3|4"},
    {TEXT("\"a,1\",\"b \"\"x\"\"\"\n\"#1\",\"two\nlines\"\n"), "a,1|b \"x\"/#1|two\nlines"},
    {TEXT("\"a;b;c;d\",e\n1,2\n"), "a;b;c;d|e/1|2"},
    {TEXT(" a , b b \n  1 ,\t2\n"), "a|b b/1|\t2"},
    {TEXT("a,b,c\n,,\n1,,\n"), "a|b|c/||/1||"},
    {TEXT("a,b\n\"1\" , \"\"\n"), "a|b/1|"},
    {TEXT("a,,\n1,2,3\n"), "a||/1|2|3"},
    {TEXT("a\n1\n\n2\n"), "a/1/2"},
    {TEXT("a,b\n1,2\n3\n"), "ERR::3: number of cells: 1; number of columns in the header: 2"},
    {TEXT("a,b\n\"x\ny\",2\n1,2,3\n"),
     "ERR::4: number of cells: 3; number of columns in the header: 2"},
    {TEXT("a,b\n# c\n1,\"2\n3\n"), "ERR::3: the quote that begins here is not closed"},
    {TEXT("a,b\n1,\"2\"3\n"),
     "ERR::2: text after a closing quote: '3\n'; write a quote inside a cell "
     "twice"},
    {TEXT("#c\na,b,a\n1,2,3\n"), "ERR::2: columns 1 and 3 are both named 'a'"},
    {TEXT("a,b\n"), "ERR:: no rows after the header"},
    {TEXT("a,b"), "ERR:: no rows after the header"},
    {TEXT(""), "ERR:: the file is empty; its first row must hold the column names"},
    {TEXT("# only this\n"), "ERR:: the file is empty; its first row must hold the column names"},
    {TEXT("a,b\n1,\0\n"),
     "ERR:: byte 6 is zero: this is not a CSV file in UTF-8; save the table as "
     "CSV first"},
};

TT_TEST (every_form_is_read_or_rejected_with_its_line) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    char got[1024];
    put(table[i].bytes, table[i].count);
    dump(got, sizeof got);
    if (strcmp(got, table[i].wanted)) print_error("case %zu: '%s'\n", i, table[i].bytes);
    assert_string_equal(got, table[i].wanted);
  }
  assert_int_equal(tt_mem_live_blocks(), 0);
}

TT_TEST (rows_know_their_line) {
  put(TEXT("# c\na,b\n\n1,\"2\r\n\n\"\n# d\n3,4\n"));
  tt_csv *t = NULL;
  TT_CHECK_OK(tt_csv_read(path, NULL, &t));
  TT_CHECK(t->rows, ==, 2);
  TT_CHECK(t->line[0], ==, 4);
  TT_CHECK(t->line[1], ==, 8);
  tt_csv_destroy(&t);
}

/* Any prefix of a table with every feature is read or rejected. No byte past its end is read (the
 * sanitizers check it) and no memory leaks. */
TT_TEST (every_prefix_is_read_or_rejected) {
  static const char all[] =
      "\xEF\xBB\xBF# c\r\n\"a \"\"b\"\"\",\"c\nd\" , e\r\n1,\"2\" ,3\n\n4,,\"\"";
  for (size_t n = 0; n < sizeof all; n++) {
    tt_csv *t = NULL;
    put(all, n);
    if (!tt_csv_read(path, NULL, &t)) TT_CHECK(t->rows, >, 0);
    tt_csv_destroy(&t);
  }
  assert_int_equal(tt_mem_live_blocks(), 0);
}

TT_TEST (a_missing_file_or_a_directory_is_rejected) {
  tt_csv *t = NULL;
  assert_int_equal(tt_csv_read("/tmp/no/such/table.csv", NULL, &t), TT_E_NOINPUT);
  TT_CHECK_HAS(tt_err_last(), "/tmp/no/such/table.csv");
  assert_int_equal(tt_csv_read("/tmp", NULL, &t), TT_E_NOINPUT);
  assert_null(t);
}

TT_TEST (lists_on_the_command_line_are_split) {
  tt_csv *t = NULL;
  TT_CHECK_OK(tt_csv_parse_list("--inputs", "a, b,\"c,d\"", &t));
  TT_CHECK(t->columns, ==, 3);
  assert_string_equal(t->name[1], "b");
  assert_string_equal(t->name[2], "c,d");
  tt_csv_destroy(&t);
  assert_int_equal(tt_csv_parse_list("--inputs", "a,,b", &t), TT_E_USAGE);
  TT_CHECK_HAS(tt_err_last(), "--inputs: item 2 of 'a,,b' is empty");
  assert_int_equal(tt_csv_parse_list("--inputs", "a,\"b", &t), TT_E_USAGE);
  assert_int_equal(tt_mem_live_blocks(), 0);
}

/* The time is not quadratic in the number of columns: these are 5e9 pairs. */
TT_TEST (a_repeated_name_among_many_columns_is_found) {
  enum { COLUMNS = 100000, ROOM = 8 * COLUMNS };
  char *text = NULL;
  size_t used = 0;
  TT_CHECK_OK(TT_ALLOC(text, ROOM));
  for (int i = 0; i < COLUMNS; i++) used += (size_t)snprintf(text + used, ROOM - used, "c%d,", i);
  used += (size_t)snprintf(text + used, ROOM - used, "x,c7,x\n");
  put(text, used);
  char got[256];
  dump(got, sizeof got);
  assert_string_equal(got, "ERR::1: columns 8 and 100002 are both named 'c7'");
  tt_free(text);
}

TT_TEST (columns_are_found_by_name) {
  static const char *const name[] = {"b", "", "a", "ab", ""};
  tt_csv *t = NULL;
  put(TEXT("b,,a,ab,\n1,2,3,4,5\n"));
  TT_CHECK_OK(tt_csv_read(path, NULL, &t));
  for (int64_t i = 0; i < 4; i++) TT_CHECK(tt_csv_find(t, name[i]), ==, i);
  TT_CHECK(tt_csv_find(t, "c"), ==, -1);
  TT_CHECK(tt_csv_find(t, "B"), ==, -1);
  tt_csv_destroy(&t);
}

TT_TEST (a_table_above_the_limit_is_refused) {
  static const struct {
    tt_csv_limit limit;
    const char *message; /* NULL: accepted */
  } row[] = {
      {{0, 0}, NULL},
      {{3, 20}, NULL},
      {{2, 0}, ":6: one row more than the 2 expected"},
      {{1, 20}, ":4: one row more than the 1 expected"},
      {{3, 19}, ": 20 bytes; a table of at most 3 rows may have 19"},
      {{1, 10}, ": 20 bytes; a table of at most 1 row may have 10"},
  };
  put(TEXT("a,b\n# c\n1,2\n3,4\n\n5,6"));
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tt_csv *t = NULL;
    tt_err e = tt_csv_read(path, &row[i].limit, &t);
    assert_int_equal(e, row[i].message ? TT_E_DATA : TT_OK);
    if (row[i].message) TT_CHECK_HAS(tt_err_last(), row[i].message);
    tt_csv_destroy(&t);
  }
  assert_int_equal(tt_mem_live_blocks(), 0);
}

static int make_file(void **unused)
{
  (void)unused;
  int fd = mkstemps(path, 4);
  return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **unused)
{
  (void)unused;
  return unlink(path);
}

TT_SUITE(make_file, remove_file)
