/* test_dates.c — dates of a table as days and as the time of the year. */
#include "core/base/text.h"
#include "io/table/table_internal.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

TT_TEST (a_date_is_a_number_of_days) {
  static const struct {
    const char *text;
    double day, part; /* part of the year, times its days */
  } good[] = {{"1970-01-01", 0, 0},
              {"1969-12-31", -1, 364},
              {"2000-02-29", 11016, 59},
              {"2000-12-31", 11322, 365},
              {"1900-03-01", -25508, 59},
              {"2024-03-01T12:00", 19783.5, 60.5},
              {"2024-03-01 06:00:36.00", 19783.250416666666, 60.250416666666666},
              {"2024-03-01T00:00Z", 19783, 60},
              {"2024-02-29 24:00", 19783, 60},
              {"2024-03-01T01:30+01:30", 19783, 60},
              {"2024-02-29T23:00-0100", 19783, 60}};
  char bad[] = "|2024|2024-3-1|2024-02-30|2023-02-29|2024-13-01|2024-00-10|2024-01-00|24-01-01|"
               "2024-01-01x|2024-01-01T|2024-01-01T12|2024-01-01 12:60|2024-01-01 24:01|"
               "2024-01-01 12:30 |0000-01-01|1.3.2024|2024/01/01";
  double date[3];
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    double year = good[i].text[0] == '2' ? 366.0 : 365.0; /* those of 20.. here are leap years */
    double turn = 8.0 * atan(1.0) * good[i].part / year;
    TT_CHECK(tt_date_parse(good[i].text, date), ==, 1);
    TT_CHECK(fabs(date[0] - good[i].day), <, 1e-9);
    TT_CHECK(fabs(date[1] - sin(turn)) + fabs(date[2] - cos(turn)), <, 1e-9);
  }
  for (char *text, *rest = bad; (text = strsep(&rest, "|"));) {
    if (tt_date_parse(text, date)) fprintf(stderr, "%s is read\n", text);
    TT_CHECK(tt_date_parse(text, date), ==, 0);
  }
}

static tt_err read_all(const char *text, double value[8])
{
  static const char *const when[] = {"when"};
  const tt_table_format format = {.dates = 1, .date = when};
  const int64_t column[] = {0, 1, 2, 3};
  tt_table *t = NULL;
  FILE *f = fopen("dates.csv", "w");
  fputs(text, f);
  fclose(f);
  TT_CHECK_OK(tt_table_open_local("dates.csv", &format, &t));
  TT_CHECK(t->columns, ==, 4);
  assert_string_equal(t->name[2], "when.sin");
  for (int k = 0; k < 4; k++)
    TT_CHECK_OK(tt_table_use_local(t, k, k ? TT_CELL_NUMBER : TT_CELL_LABEL));
  tt_err e = tt_table_read_local(t, 0, 2, 4, column, value);
  tt_table_close_local(&t);
  return e;
}

TT_TEST (a_column_of_dates_is_three_columns) {
  double v[8];
  TT_CHECK_OK(read_all("when,a\n2001-01-01,5\n,6\n", v));
  TT_CHECK(v[0], ==, 11323.0);
  TT_CHECK(v[1], ==, 5.0);
  TT_CHECK(v[2], ==, 0.0);
  TT_CHECK(v[3], ==, 1.0);
  TT_CHECK(isnan(v[4]), !=, 0);
  TT_CHECK(fabs(v[6]) + fabs(v[7]), ==, 0.0);
  TT_CHECK((int)read_all("when,a\n2001-01-01,5\n1.1.2001,6\n", v), ==, TT_E_DATA);
  TT_CHECK(strstr(tt_err_last(), "dates.csv:3: column 'when': '1.1.2001' is not a date") != NULL,
           ==, 1);
}
