/* test_tables.c — tables as scientists have them: each is read right, or refused with the place. */
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "io/data/data.h"
#include "io/table/table_internal.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char path[96];

/* Write a file of this name; compressed if the name ends in gz. */
static void put(const char *name, const char *bytes, size_t count)
{
  snprintf(path, sizeof path, "%s", name);
  if (!strcmp(name + strlen(name) - 2, "gz")) {
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    if (count) assert_int_equal(gzwrite(f, bytes, (unsigned)count), count);
    gzclose(f);
    return;
  }
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, count, f), count);
  fclose(f);
}

/* A file, what is read from it, and what comes out: the values of inputs, then targets, row by row
 * ("nan" where a label is missing); or a part of the message. */
typedef struct messy_table {
  const char *text, *inputs, *targets, *values, *message;
  const char *name;
  char delimiter, decimal;
  const char *na;
  const char *categories; /* choice:column; then values are numbers of texts */
} messy_table;

static tt_err open_case(const messy_table *m, tt_data_reader **r)
{
  const tt_table_format format = {
      .delimiter = m->delimiter, .decimal = m->decimal, .nas = m->na != NULL, .na = &m->na};
  const tt_data_spec spec = {.file = path,
                             .inputs = m->inputs ? m->inputs : "x",
                             .targets = m->targets,
                             .format = &format,
                             .categories = m->categories};
  put(m->name ? m->name : "t.csv", m->text, strlen(m->text));
  return tt_data_reader_open_spec_local(&spec, r);
}

/* Names of inputs and targets, and all values, as one text. */
static tt_err describe(tt_data_reader *r, char *text, size_t capacity)
{
  const tt_data_shape *s = tt_data_reader_shape(r);
  double *x = NULL, *y = NULL;
  size_t used = 0;
  tt_err e = TT_ALLOC(x, s->rows * s->inputs);
  if (!e) e = TT_ALLOC(y, s->rows * s->targets);
  if (!e) e = tt_data_reader_read_local(r, 0, s->rows, x, y);
  for (int64_t k = 0; !e && k < s->inputs + s->targets; k++)
    used += (size_t)snprintf(text + used, capacity - used, "%s ",
                             k < s->inputs ? s->input.name[k] : s->target.name[k - s->inputs]);
  for (int64_t i = 0; !e && i < s->rows; i++) {
    for (int64_t k = 0; k < s->inputs; k++)
      used += (size_t)snprintf(text + used, capacity - used, "%.17g ", x[i * s->inputs + k]);
    for (int64_t k = 0; k < s->targets; k++)
      used += (size_t)snprintf(text + used, capacity - used, "%.17g ", y[i * s->targets + k]);
  }
  if (used) text[used - 1] = '\0';
  tt_free(x);
  tt_free(y);
  return e;
}

/* The last argument may be followed by other fields. */
#define READ(text_, inputs_, targets_, ...)                                                        \
  {                                                                                                \
    .text = text_, .inputs = inputs_, .targets = targets_, .values = __VA_ARGS__                   \
  }
#define REFUSE(text_, inputs_, targets_, ...)                                                      \
  {                                                                                                \
    .text = text_, .inputs = inputs_, .targets = targets_, .message = __VA_ARGS__                  \
  }
static const messy_table corpus[] = {
    /* what a spreadsheet or another program writes */
    READ("a,b,y\n1,2,3\n4,5,6\n", "a,b", "y", "a b y 1 2 3 4 5 6"),
    READ("\xEF\xBB\xBF"
         "a,b\n1,2\n",
         "a", "b", "a b 1 2"),
    READ("a,b\r\n1,2\r\n3,4\r\n", "a", "b", "a b 1 2 3 4"),
    READ("a,b\r1,2\r3,4\r", "a", "b", "a b 1 2 3 4"),
    READ("a,b\n1,2\n3,4", "a", "b", "a b 1 2 3 4"),
    READ("\n# note\n\na,b\n\n1,2\n   \n# 7,8\n3,4\n\n", "a", "b", "a b 1 2 3 4"),
    READ("a\tb\n1\t2\n", "a", "b", "a b 1 2", .name = "t.tsv"),
    READ("a;b\n1;2\n", "a", "b", "a b 1 2"),
    READ("a|b\n1|2\n", "a", "b", "a b 1 2", .delimiter = '|'),
    READ("a;b\n1,5;-2,25e1\n", "a", "b", "a b 1.5 -22.5", .decimal = ','),
    READ("a\tb\n1\t2\n3\t4\n", "a", "b", "a b 1 2 3 4", .name = "t.tsv.gz"),
    READ("a,b\n1,2\n", "a", "b", "a b 1 2", .name = "t.csv.gz"),
    READ("\"a, m\",b\n\"1\",\" 2 \"\n", "\"a, m\"", "b", "a, m b 1 2"),
    READ("a,note,b\n1,\"x, \"\"y\"\"\nz\",2\n3,,4\n", "a", "b", "a b 1 2 3 4"),
    READ("a,height 5\",b\n1,5\" pipe,2\n3,6\",4\n", "a", "b", "a b 1 2 3 4"),
    READ(" a , b \n 1 , 2 \n", "a", "b", "a b 1 2"),
    READ(",a,b\n0,1,2\n1,3,4\n", "x", "b", "a b 1 2 3 4"),
    READ("a,b,\n1,2,\n3,4,\n", "a", "b", "a b 1 2 3 4"),
    READ("t,t,a,b\nu,v,1,2\n", "a", "b", "a b 1 2"),
    READ("day,a,b\n2024-01-31,1,2\n", "a", "b", "a b 1 2"),
    READ("a,b\nTrue,2\nFalse,4\n", "a", "b", "a b 1 2 0 4"),
    READ("a,b\n+1,.5\n-0.,5E+2\n", "a", "b", "a b 1 0.5 -0 500"),
    READ("a,b\n0.1000000000000000055511151231257827,123456789012345678901234567890\n", "a", "b",
         "a b 0.10000000000000001 1.2345678901234568e+29"),
    READ("a,b\n1,\n2,NA\n3,N/A\n4,nan\n5,NULL\n6,None\n7,-\n8,?\n9,\"\"\n10,-nan\n", "a", "b",
         "a b 1 nan 2 nan 3 nan 4 nan 5 nan 6 nan 7 nan 8 nan 9 nan 10 nan"),
    READ("a,b\n1,-999\n2,-99\n", "a", "b", "a b 1 nan 2 -99", .na = "-999"),
    /* levels: their numbers in the order in which they appear */
    READ("m,b\nred,1\n\"blue, dark\",2\nred,3\n", "m", "b", "m b 0 1 1 2 0 3",
         .categories = "error:m"),
    READ("\xEF\xBB\xBF"
         "m,b\r\nA,1\r\n a ,2\r\n\"A\",3\r\n",
         "m", "b", "m b 0 1 1 2 0 3", .categories = "zeros:m"),
    READ("m,b\n,1\nNA,2\nx,3\n-,4\n", "m", "b", "m b nan 1 nan 2 0 3 nan 4",
         .categories = "error:m"),
    READ("m\tb\n\xC3\x96l\t1\n\xE6\xB0\xB4\t2\n", "m", "b", "m b 0 1 1 2", .name = "t.tsv.gz",
         .categories = "error:m"),
    READ("m;b\n1,5;1,5\n2;2\n1,5;3\n", "m", "b", "m b 0 1.5 1 2 0 3", .decimal = ',',
         .categories = "error:m"),
    READ("m,b\n\"a\nb\",1\n\"a \"\"b\"\"\",2\n", "m", "b", "m b 0 1 1 2", .categories = "error:m"),
    READ("day,b\n2024-01-31,1\n31.1.24,2\n", "day", "b", "day b 0 1 1 2",
         .categories = "error:day"),
    READ("m1,m2,a,b\nu,True,1,2\nv,True,3,4\n", "m*,a", "b", "m1 m2 a b 0 0 1 2 1 0 3 4",
         .categories = "error:m*"),
    READ("m,b\nnone given,1\n99,2\n", "m", "b", "m b 0 1 nan 2", .na = "99",
         .categories = "error:m"),
    REFUSE("m,b\n\xE9,1\n", "m", "b", "t.csv:2: column 'm': ", .categories = "error:m"),
    REFUSE("m,b\nx,1\n", "m", "b", "data.categories: there is no column 'k'",
           .categories = "error:k"),
    REFUSE("m,a,b\nx,y,1\n", "m,a", "b",
           "t.csv:2: column 'a': 'y' is not a number; correct the cell; or leave the column out: "
           "data.inputs: "
           "['*', '!a']; or, if its values are levels: data.categories: {a: error}",
           .categories = "error:m"),
    /* choosing columns */
    READ("id,f1,f2,g,y\n9,1,2,3,4\n", "f*,g", "y", "f1 f2 g y 1 2 3 4"),
    READ("id,f1,f2,g,y\n9,1,2,3,4\n", "!id,!f2", "y", "f1 g y 1 3 4"),
    READ("id,f1,f2,g,y\n9,1,2,3,4\n", "*,!id", "y", "f1 f2 g y 1 2 3 4"),
    READ("id,f1,f2,g,y\n9,1,2,3,4\n", "g,f[12]", "y", "g f1 f2 y 3 1 2 4"),
    READ("a,f*,y\n1,2,3\n", "f*", "y", "f* y 2 3"),
    READ("a,u,v\n1,2,3\n", "a", "*", "a u v 1 2 3"),
    REFUSE("f1,f2,y\n1,2,3\n", "f1,g1", "y", "there is no column 'g1'; did you mean 'f1'?"),
    REFUSE("a,y (kWh),yes\n1,2,3\n", "a", "y", "there is no column 'y'; did you mean 'y (kWh)'?"),
    REFUSE("a b y\n1 2 3\n", "a", "y",
           "columns: a b y; columns are separated by commas, semicolons or tabs, or as"),
    READ("sep=;\r\na;b\r\n1;2\r\n", "a", "b", "a b 1 2"),
    REFUSE("sep=,\n", "a", "b", "no names of columns after the line sep="),
    REFUSE("a,b\n1,2\n", "a", "y", "there is no column 'y'; columns: a, b"),
    REFUSE("f1,f2,y\n1,2,3\n", "g*", "y", "no column matches 'g*'; columns: f1, f2, y"),
    REFUSE("f1,f2,y\n1,2,3\n", "!id", "y", "there is no column 'id'"),
    REFUSE("f1,y\n1,2\n", "f1,!f1", "y", "leaves no column"),
    REFUSE("a,a,y\n1,2,3\n", "a", "y", "columns 1 and 2 are both named 'a'"),
    /* refused, with the place */
    REFUSE("a,b\n1,2\nx7,4\n", "a", "b", "t.csv:3: column 'a': 'x7' is not a number"),
    REFUSE("# c\na,n,b\n1,\"1\n\",2\n3,,2024-01-31\n", "a", "b",
           "t.csv:5: column 'b': '2024-01-31' is not a number"),
    REFUSE("a,b\n1,2\n,4\n", "a", "b", "t.csv:3: column 'a': '' is a missing value"),
    REFUSE("a;b\n1,5;2\n", "a", "b",
           "t.csv:2: column 'a': '1,5' is not a number; write numbers with a decimal point and "
           "without"),
    REFUSE("a,b\nNA,2\n", "a", "b", "or train with data.missing: {'a': mean}"),
    REFUSE("a,b\n2024-03-01,2\n", "a", "b", "are read with data.dates: ['a']; or leave"),
    REFUSE("a,b\n1.3.24 12:30,2\n", "a", "b", "write a date or a time as a number: days or"),
    REFUSE("a,b\n1,12:30:15\n", "a", "b", "write a date or a time as a number: days or"),
    REFUSE("a,b\n1-2,2\n", "a", "b", "'1-2' is not a number; correct the cell;"),
    REFUSE("a,b\n1,inf\n", "a", "b", "t.csv:2: column 'b': 'inf' is not a number"),
    REFUSE("a,b\n1,1e999\n", "a", "b", "t.csv:2: column 'b': '1e999' is too large"),
    REFUSE("a,b\n0x10,1\n", "a", "b", "t.csv:2: column 'a': '0x10' is not a number"),
    REFUSE("a,b\n1e,1\n", "a", "b", "column 'a': '1e' is not a number"),
    REFUSE("a,b\n1 2,1\n", "a", "b", "column 'a': '1 2' is not a number"),
    /* all at once, and what to write into the job */
    REFUSE("m,a,b\nx,1,1\ny,,2\n", "m,a", "b", "t.csv:2: column 'm': 'x' is not a number; correct"),
    REFUSE("m,a,b\nx,1,1\ny,,2\n", "m,a", "b", "categories: {m: error}; 1 more: 3 'y'\n"),
    REFUSE("m,a,b\nx,1,1\ny,,2\n", "m,a", "b", "\nt.csv:3: column 'a': '' is a missing value"),
    REFUSE(
        "m,a,b\nx,1,1\n,,2\nz,1,2,3\ny,1,3\n", "m,a", "b",
        "\n5 cells or rows cannot be used; into the job: data: {categories: {m: zeros}, missing: "
        "{m: indicator, a: mean}}"),
    REFUSE("d;a;b\n1.1.24;1,5;2\n2.1.24;2;3,5\n", "d,a", "b",
           "into the job: data: {decimal: comma, inputs: ['*', '!d']}"),
    REFUSE("a,b\n1,2,3\n", "a", "b",
           "t.csv:2: number of cells: 3; number of columns in the header: 2"),
    REFUSE("a,b,c\n1,2,3\n1,2\n", "a", "b", "t.csv:3: number of cells: 2"),
    REFUSE("a,b\n1,\"2\n3,4\n", "a", "b",
           "t.csv:2: a quote in the row that begins here is not closed"),
    REFUSE("a,b\n1,\"2\"3\n", "a", "b", "t.csv:2: column 'b': '\"2\"3' is not a number"),
    REFUSE("1,2\n3,4\n", "a", "b", "t.csv:1: the first row has only numbers"),
    REFUSE("a,b\n", "a", "b", "no rows after the header"),
    REFUSE("", "a", "b", "the file is empty"),
    REFUSE("# only\n", "a", "b", "the file is empty"),
    REFUSE("a,b\n1,2\n", "a", "b", "cannot be the decimal mark too", .decimal = ','),
    REFUSE("\xE9,b\n1,2\n", "*", "b",
           "the name of column 1 is not UTF-8; convert the table: iconv -f WINDOWS-1252 -t UTF-8 "),
    REFUSE("not an array", "*", NULL, "not an array of NumPy", .name = "t.npy"),
    REFUSE("not an archive of any kind", "*", NULL, "not an archive of NumPy", .name = "t.npz"),
};

TT_TEST (each_table_is_read_right_or_refused_with_the_place) {
  for (size_t i = 0; i < sizeof corpus / sizeof *corpus; i++) {
    const messy_table *m = &corpus[i];
    char text[512] = "";
    tt_data_reader *r = NULL;
    tt_err e = open_case(m, &r);
    if (!e) e = describe(r, text, sizeof text);
    tt_data_reader_close_local(&r);
    if (m->values ? e || strcmp(text, m->values) : e != TT_E_DATA)
      print_error("table %zu: %s\nread: %s\nlast message: %s\n", i, m->text, text, tt_err_last());
    TT_CHECK((int)e, ==, (int)(m->values ? TT_OK : TT_E_DATA));
    if (m->values)
      assert_string_equal(text, m->values);
    else
      TT_CHECK_HAS(tt_err_last(), m->message);
  }
}

static uint32_t word(uint32_t i, int k) { return tt_random(5, 0, TT_PURPOSE_SPLIT, 0, i).v[k]; }

TT_TEST (a_number_is_the_nearest_double) {
  for (uint32_t i = 0; i < 60000; i++) {
    char text[64];
    double bits, got = 0;
    uint64_t raw = (uint64_t)word(i, 0) << 32 | word(i, 1);
    memcpy(&bits, &raw, sizeof bits);
    int digits = 1 + (int)(word(i, 2) % 20), power = (int)(word(i, 3) % 64) - 32;
    if (i % 3 == 0)
      snprintf(text, sizeof text, "%.*g", digits, isfinite(bits) ? bits : 0.5);
    else if (i % 3 == 1)
      snprintf(text, sizeof text, "%.*g", digits, (double)word(i, 0) / 1e9);
    else
      snprintf(text, sizeof text, "%.*s.%se%d", digits, "98765432109876543210", "12345", power);
    const char *after = tt_number_parse(text, '.', &got);
    double wanted = strtod(text, NULL);
    if (!after || *after || memcmp(&got, &wanted, sizeof got)) print_error("%s\n", text);
    assert_true(after && !*after && !memcmp(&got, &wanted, sizeof got));
  }
}

enum { ROWS = 20000 };

/* Rows longer than the window and quoted line ends, so that records cross its end. */
static char *large_table(size_t *bytes)
{
  char *text = malloc(ROWS * 64 + 600000), *at = text;
  assert_non_null(text);
  at += sprintf(at, "id,a,note,y\n");
  for (int i = 0; i < ROWS; i++) {
    at += sprintf(at, "%d,%.17g,", i, (double)word((uint32_t)i, 0) / 7.0);
    if (i % 5 == 0) at += sprintf(at, "\"two\nlines, \"\"%d\"\"\"", i);
    if (i == 7000) at += sprintf(at, "%0500000d", 7);
    at += sprintf(at, ",%d\n", 2 * i);
  }
  *bytes = (size_t)(at - text);
  return text;
}

TT_TEST (rows_are_the_same_in_any_order_of_reading) {
  static const char *const name[] = {"large.csv", "large.csv.gz"};
  size_t bytes;
  char *text = large_table(&bytes), place[128];
  for (int k = 0; k < 2; k++) {
    put(name[k], text, bytes);
    tt_data_reader *r = NULL;
    TT_CHECK_OK(tt_data_reader_open_local(path, "a,id", "y", &r));
    TT_CHECK(tt_data_reader_shape(r)->rows, ==, ROWS);
    double *x = malloc(ROWS * 2 * sizeof *x), *y = malloc(ROWS * sizeof *y), some[6], label[3];
    TT_CHECK_OK(tt_data_reader_read_local(r, 0, ROWS, x, y));
    for (int i = 0; i < ROWS; i++) {
      TT_CHECK(x[2 * i], ==, (double)word((uint32_t)i, 0) / 7.0);
      TT_CHECK(x[2 * i + 1], ==, i);
      TT_CHECK(y[i], ==, 2 * i);
    }
    for (int j = 0; j < (k ? 3 : 40); j++) {
      int64_t first = word((uint32_t)j, 1) % (ROWS - 3);
      TT_CHECK_OK(tt_data_reader_read_local(r, first, 3, some, NULL));
      TT_CHECK_OK(tt_data_reader_read_local(r, first, 3, NULL, label));
      assert_memory_equal(some, x + 2 * first, sizeof some);
      assert_memory_equal(label, y + first, sizeof label);
    }
    /* row 11 is behind rows 0, 5 and 10 with two lines each, and the header */
    tt_data_reader_place_local(r, 0, 11, 0, place, sizeof place);
    TT_CHECK_HAS(place, ":16: column 'a'");
    TT_CHECK((int)tt_data_reader_read_local(r, ROWS - 1, 2, some, NULL), ==, (int)TT_E_DATA);
    tt_data_reader_close_local(&r);
    free(x);
    free(y);
  }
  free(text);
}

TT_TEST (five_hundred_columns_need_one_pattern) {
  enum { COLUMNS = 500 };
  char *text = malloc(COLUMNS * 32), *at = text, name[16];
  double x[2 * COLUMNS], y[2];
  tt_data_reader *r = NULL;
  assert_non_null(text);
  at += sprintf(at, "id");
  for (int k = 0; k < COLUMNS; k++) at += sprintf(at, ",f%d", k);
  at += sprintf(at, ",y\n");
  for (int i = 0; i < 2; i++) {
    at += sprintf(at, "r%d", i);
    for (int k = 0; k < COLUMNS; k++) at += sprintf(at, ",%d", i * COLUMNS + k);
    at += sprintf(at, ",%d\n", i);
  }
  put("t.csv", text, (size_t)(at - text));
  free(text);
  TT_CHECK_OK(tt_data_reader_open_local(path, "f*", "y", &r));
  const tt_data_shape *s = tt_data_reader_shape(r);
  TT_CHECK(s->inputs, ==, COLUMNS);
  TT_CHECK_OK(tt_data_reader_read_local(r, 0, 2, x, y));
  for (int k = 0; k < COLUMNS; k++) {
    snprintf(name, sizeof name, "f%d", k);
    assert_string_equal(s->input.name[k], name);
  }
  for (int i = 0; i < 2 * COLUMNS; i++) TT_CHECK(x[i], ==, i);
  TT_CHECK(y[1], ==, 1);
  tt_data_reader_close_local(&r);
}

/* The time is not quadratic in the number of columns: these are 5e9 pairs. */
TT_TEST (a_repeated_name_among_many_columns_is_found) {
  enum { COLUMNS = 100000, ROOM = 16 * COLUMNS };
  char *text = malloc(ROOM);
  size_t used = 0;
  tt_data_reader *r = NULL;
  assert_non_null(text);
  for (int i = 0; i < COLUMNS; i++) used += (size_t)snprintf(text + used, ROOM - used, "c%d,", i);
  used += (size_t)snprintf(text + used, ROOM - used, "y,c7\n0");
  for (int i = 0; i < COLUMNS + 1; i++) used += (size_t)snprintf(text + used, ROOM - used, ",0");
  put("t.csv", text, used);
  char *names = strndup(text, strcspn(text, "\n") - 5); /* without y and the second c7 */
  TT_CHECK((int)tt_data_reader_open_local(path, names, "y", &r), ==, (int)TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "columns 8 and 100002 are both named 'c7'");
  free(names);
  free(text);
}

TT_TEST (every_prefix_is_read_or_refused) {
  static const char all[] =
      "\xEF\xBB\xBF# c\r\n\"a \"\"b\"\"\",\"c\nd\" , e\r\n1,\"2\" ,3\n\n4,,\"\"";
  tt_data_reader *r = NULL;
  for (size_t n = 0; n < sizeof all; n++) {
    char text[256];
    put("t.csv", all, n);
    tt_err e = tt_data_reader_open_local(path, "e", "*", &r);
    if (!e) e = describe(r, text, sizeof text);
    assert_true(!e || e == TT_E_DATA);
    tt_data_reader_close_local(&r);
  }
  put("t.csv", "a,b\n1,\0\n", 8);
  TT_CHECK((int)tt_data_reader_open_local(path, "a", "b", &r), ==, (int)TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "byte 6 is zero: this is not a CSV file");
}

/* 10 MB; the reader keeps a mark for each 1024 rows. */
TT_TEST (a_million_rows_are_counted_and_found) {
  enum { MILLION = 1000000 };
  char *text = malloc(MILLION * 12 + 16), *at = text;
  double x[2], y[2];
  tt_data_reader *r = NULL;
  assert_non_null(text);
  at += sprintf(at, "a,y\n");
  for (int i = 0; i < MILLION; i++) at += sprintf(at, "%d,%d\n", i, i & 7);
  put("large.csv", text, (size_t)(at - text));
  free(text);
  TT_CHECK_OK(tt_data_reader_open_local(path, "a", "y", &r));
  TT_CHECK(tt_data_reader_shape(r)->rows, ==, MILLION);
  for (int64_t first = MILLION - 2; first >= 0; first -= 124999) {
    TT_CHECK_OK(tt_data_reader_read_local(r, first, 2, x, y));
    TT_CHECK(x[0], ==, (double)first);
    TT_CHECK(x[1], ==, (double)(first + 1));
    TT_CHECK(y[1], ==, (double)((first + 1) % 8));
  }
  tt_data_reader_close_local(&r);
}

TT_TEST (compressed_data_that_end_early_are_refused) {
  size_t bytes;
  char *text = large_table(&bytes);
  tt_data_reader *r = NULL;
  put("cut.csv.gz", text, bytes);
  free(text);
  assert_int_equal(truncate(path, 20000), 0);
  TT_CHECK((int)tt_data_reader_open_local(path, "a", "y", &r), ==, (int)TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "damaged or truncated");
}

/* An array of NumPy: its header says `type`, `order`, `shape`. */
static void put_array(const char *type, const char *order, const char *shape, const void *data,
                      size_t count)
{
  char file[1024] = "\x93NUMPY\x01";
  int length = snprintf(file + 10, 500, "{'descr': %s, 'fortran_order': %s, 'shape': %s, }\n", type,
                        order, shape);
  file[8] = (char)(length & 255);
  file[9] = (char)(length >> 8);
  memcpy(file + 10 + length, data, count);
  put("t.npy", file, (size_t)(10 + length) + count);
}

TT_TEST (texts_of_arrays_are_levels) {
  static const uint32_t wide[] = {'a', 0, 0x6C34, 'b', 'a', 0, 0, 0};
  static const uint32_t surrogate[] = {'a', 0, 0xD800, 0};
  static const struct {
    const char *type, *shape;
    const void *data;
    size_t count;
    const char *values, *message;
  } test[] = {
      {"'<U2'", "(4,)", wide, 32, "c0 0 1 0 nan", NULL},
      {"'|S2'", "(3,)", "a\0bba\0", 6, "c0 0 1 0", NULL},
      {"'|S1'", "(3,)", "313", 3, "c0 0 1 0", NULL},
      {"'<U2'", "(2,)", surrogate, 16, NULL, "array 'c', row 1 (from 0): this is no text"},
      {"'|S1'", "(2,)", "a\xFF", 2, NULL, "array 'c', row 1 (from 0): this is no text"},
      {"'>U2'", "(2,)", wide, 16, NULL, "has the type >U2"},
      {"'<U2'", "(2, 2)", wide, 32, NULL, "has the type <U2"},
      {"'<U2'", "(4,)", wide, 24, NULL, "has 24 bytes of values, but its header says 32"},
  };
  for (size_t i = 0; i < sizeof test / sizeof *test; i++) {
    char text[512] = "";
    const tt_data_spec spec = {.file = path, .inputs = "c0", .categories = "error:c0"};
    tt_data_reader *r = NULL;
    put_array(test[i].type, "False", test[i].shape, test[i].data, test[i].count);
    tt_err e = tt_data_reader_open_spec_local(&spec, &r);
    if (!e) e = describe(r, text, sizeof text);
    TT_CHECK((int)e, ==, (int)(test[i].values ? TT_OK : TT_E_DATA));
    if (test[i].values)
      assert_string_equal(text, test[i].values);
    else
      TT_CHECK_HAS(tt_err_last(), test[i].message);
    tt_data_reader_close_local(&r);
  }
}

TT_TEST (arrays_are_read_or_refused) {
  static const double by_row[] = {1, 2, 3, 4, 5, 6}, by_column[] = {1, 3, 5, 2, 4, 6};
  static const int16_t whole[] = {-1, 2, 300};
  static const struct {
    const char *type, *order, *shape;
    const void *data;
    size_t count;
    const char *inputs, *targets, *values, *message;
  } test[] = {
      {"'<f8'", "False", "(3, 2)", by_row, 48, "c0", "c1", "c0 c1 1 2 3 4 5 6", NULL},
      {"'<f8'", "True", "(3, 2)", by_column, 48, "c1", "c0", "c1 c0 2 1 4 3 6 5", NULL},
      {"'<f8'", "False", "(3, 2)", by_row, 48, "x", "c1", "c0 c1 1 2 3 4 5 6", NULL},
      {"'<i2'", "False", "(3,)", whole, 6, "c0", NULL, "c0 -1 2 300", NULL},
      {"'<f8'", "False", "(3, 2)", by_row, 40, "c0", NULL, NULL,
       "has 40 bytes of values, but its header says 48"},
      {"'>f8'", "False", "(3, 2)", by_row, 48, "c0", NULL, NULL, "has the type >f8"},
      {"'|O'", "False", "(3, 2)", by_row, 48, "c0", NULL, NULL, "has the type |O"},
      {"[('a', '<f8')]", "False", "(3,)", by_row, 24, "c0", NULL, NULL, "has the type"},
      {"'<f8'", "False", "(1, 2, 3)", by_row, 48, "c0", NULL, NULL, "must have one or two axes"},
      {"'<f8'", "False", "()", by_row, 8, "c0", NULL, NULL, "must have one or two axes"},
      {"'<f8'", "False", "(9223372036854775807, 4)", by_row, 48, "c0", NULL, NULL, "too large"},
      {"'<f8'", "False", "(-1, 2)", by_row, 48, "c0", NULL, NULL, "wrong shape"},
      {"'<f8'", "False", "(0, 2)", by_row, 0, "c0", NULL, NULL, "has no rows"},
      {"'<f8'", "False", "(3, 0)", by_row, 0, "c0", NULL, NULL, "there is no column"},
  };
  for (size_t i = 0; i < sizeof test / sizeof *test; i++) {
    char text[512] = "";
    tt_data_reader *r = NULL;
    put_array(test[i].type, test[i].order, test[i].shape, test[i].data, test[i].count);
    tt_err e = tt_data_reader_open_local(path, test[i].inputs, test[i].targets, &r);
    if (!e) e = describe(r, text, sizeof text);
    tt_data_reader_close_local(&r);
    if (test[i].values ? e || strcmp(text, test[i].values) : e != TT_E_DATA)
      print_error("array %zu: read %s, last message: %s\n", i, text, tt_err_last());
    TT_CHECK((int)e, ==, (int)(test[i].values ? TT_OK : TT_E_DATA));
    if (test[i].values)
      assert_string_equal(text, test[i].values);
    else
      TT_CHECK_HAS(tt_err_last(), test[i].message);
  }
}

TT_SUITE(enter_folder, NULL)
