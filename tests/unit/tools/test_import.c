/* test_import.c — `tutti import`: the file made from a table, and every error. */
#include "core/base/log.h"
#include "io/data/data.h"
#include "src/tools/import.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char table[] = "t.csv", output[] = "t.h5";

static void put(const char *text) { put_text(table, text); }

TT_TEST (the_file_holds_the_values_of_the_table) {
  put("\xEF\xBB\xBF# hand made\r\nmass,\"r, \xC3\x85\",load,state\r\n"
      "1,-2.5e-3,10,nan\r\n 0.1 ,1e300,,7\r\n+3,.5,-0,NaN\r\n");
  tt_import_options o = {.table = table,
                         .output = output,
                         .inputs = "\"r, \xC3\x85\",mass",
                         .targets = "state,load",
                         .units = "mass=kg,load=kWh/m^2"};
  TT_CHECK_OK(tt_import_local(&o));
  tt_data_reader *r = NULL;
  TT_CHECK_OK(tt_data_reader_open_local(output, "x", "y", &r));
  const tt_data_shape *s = tt_data_reader_shape(r);
  TT_CHECK(s->rows, ==, 3);
  TT_CHECK(s->inputs, ==, 2);
  TT_CHECK(s->targets, ==, 2);
  assert_string_equal(s->input.name[0], "r, \xC3\x85");
  assert_string_equal(s->input.units[0], "");
  assert_string_equal(s->input.name[1], "mass");
  assert_string_equal(s->input.units[1], "kg");
  assert_string_equal(s->target.name[0], "state");
  assert_string_equal(s->target.name[1], "load");
  assert_string_equal(s->target.units[1], "kWh/m^2");
  const double wanted_x[] = {-2.5e-3, 1, 1e300, 0.1, .5, 3};
  const double wanted_y[] = {NAN, 10, 7, NAN, NAN, -0.0};
  double x[6], y[6];
  TT_CHECK_OK(tt_data_reader_read_local(r, 0, 3, x, y));
  for (int i = 0; i < 6; i++) {
    TT_CHECK(x[i], ==, wanted_x[i]);
    if (isnan(wanted_y[i]))
      TT_CHECK(isnan(y[i]) != 0, ==, 1);
    else
      TT_CHECK(y[i], ==, wanted_y[i]);
  }
  tt_data_reader_close_local(&r);
  assert_int_equal(tt_import_local(&o), TT_E_CANTCREAT);
  TT_CHECK_HAS(tt_err_last(), "exists; give another output file, or --force");
  o.force = 1;
  TT_CHECK_OK(tt_import_local(&o));
  unlink(output);
}

/* The name of the file does not matter, and the rules are those of every table. */
TT_TEST (a_table_of_a_spreadsheet_is_imported) {
  static const char text[] = "t.txt";
  put("sep=;\nf1;f2;y\n1,5;2;NA\n-;1;0,25\n");
  assert_int_equal(rename(table, text), 0);
  tt_import_options o = {
      .table = text, .output = output, .inputs = "f*", .targets = "y", .format = {.decimal = ','}};
  tt_data_reader *r = NULL;
  double x[2], label[4];
  assert_int_equal(tt_import_local(&o), TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "t.txt:4: column 'f1': '-' is a missing value");
  o.inputs = "f2";
  o.targets = "f1,y";
  TT_CHECK_OK(tt_import_local(&o));
  TT_CHECK_OK(tt_data_reader_open_local(output, "x", "y", &r));
  TT_CHECK_OK(tt_data_reader_read_local(r, 0, 2, x, label));
  TT_CHECK(x[1], ==, 1);
  TT_CHECK(label[0], ==, 1.5);
  TT_CHECK(isnan(label[1]) && isnan(label[2]), ==, 1);
  TT_CHECK(label[3], ==, 0.25);
  tt_data_reader_close_local(&r);
  unlink(output);
}

TT_TEST (a_table_without_targets_has_no_y) {
  put("a,b\n1,2\n");
  tt_import_options o = {.table = table, .output = output, .inputs = "b"};
  tt_data_shape s;
  TT_CHECK_OK(tt_import_local(&o));
  TT_CHECK_OK(tt_data_read_shape_local(output, "x", NULL, &s));
  TT_CHECK(s.inputs, ==, 1);
  TT_CHECK(s.targets, ==, 0);
  tt_data_shape_free(&s);
  assert_int_equal(tt_data_read_shape_local(output, "x", "y", &s), TT_E_DATA);
  unlink(output);
}

static const struct {
  const char *text, *inputs, *targets, *units, *part; /* part of the message */
  tt_err wanted;
} refused[] = {
    {"a,b\n1,2\n", NULL, "b", NULL, "no input columns: give --inputs", TT_E_USAGE},
    {"a,b\n1,2\n", "a,c", "b", NULL, "inputs: there is no column 'c'", TT_E_DATA},
    {"height,load\n1,2\n", "heigth", "load", NULL, "did you mean 'height'? columns: height, load",
     TT_E_DATA},
    {"a,b\n1,2\n", "a", "B", NULL, "targets: there is no column 'B'", TT_E_DATA},
    {"a,b\n1,2\n", "a", "b,a", NULL, "column 'a' is given in --inputs and in --targets",
     TT_E_USAGE},
    {"a,b\n1,2\n", "a", "b", "a", "--units: 'a' is not column=unit", TT_E_USAGE},
    {"a,b,c\n1,2,3\n", "a", "b", "c=kg", "--units: column 'c' is neither", TT_E_USAGE},
    {"a,b\n1,2\n", "a,", "b", NULL, ": item 2 of 'a,' is empty", TT_E_USAGE},
    {"a,b\n1,2\n1,x\n", "a", "b", NULL,
     ".csv:3: column 'b': 'x' is not a number; leave the cell empty where there is no value",
     TT_E_DATA},
    {"a,b\n1,2\n\n# c\nold,3\n", "a", "b", NULL,
     ".csv:5: column 'a': 'old' is not a number; correct the cell;", TT_E_DATA},
    {"a,b\n1,2\n,3\n", "a", "b", NULL,
     ".csv:3: column 'a': '' is a missing value; every input must", TT_E_DATA},
    {"a,b\nNaN,2\n", "a", "b", NULL, ".csv:2: column 'a': 'NaN' is a missing value", TT_E_DATA},
    {"a,b\n1,inf\n", "a", "b", NULL, ".csv:2: column 'b': 'inf' is not a number", TT_E_DATA},
    {"a,b\n1,1e999\n", "a", "b", NULL, "'1e999' is too large", TT_E_DATA},
    {"a;b\n1,5;2\n", "a", "b", NULL, "'1,5' is not a number; write numbers with a decimal point",
     TT_E_DATA},
    {"a,b\n0x10,2\n", "a", "b", NULL, "'0x10' is not a number", TT_E_DATA},
    {"a,b\n1 2,2\n", "a", "b", NULL, "'1 2' is not a number", TT_E_DATA},
    {"a,b\n", "a", "b", NULL, "no rows after the header", TT_E_DATA},
    {"a,b\n1,2,3\n", "a", "b", NULL,
     ".csv:2: number of cells: 3; number of columns in the header: 2", TT_E_DATA},
    {"a,a\n1,2\n", "a", NULL, NULL, "columns 1 and 2 are both named 'a'", TT_E_DATA},
    {"\xE5,b\n1,2\n", "\xE5", "b", NULL, "is not UTF-8", TT_E_DATA},
};

TT_TEST (a_bad_table_is_rejected_and_leaves_no_file) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    put(refused[i].text);
    tt_import_options o = {.table = table,
                           .output = output,
                           .inputs = refused[i].inputs,
                           .targets = refused[i].targets,
                           .units = refused[i].units};
    tt_err e = tt_import_local(&o);
    if (e != refused[i].wanted)
      print_error("case %zu: %s: %s\n", i, refused[i].part, tt_err_last());
    assert_int_equal(e, refused[i].wanted);
    TT_CHECK_HAS(tt_err_last(), refused[i].part);
    assert_int_equal(access(output, F_OK), -1);
  }
}

TT_TEST (missing_inputs_and_unwritable_outputs_are_errors) {
  put("a,b\n1,2\n");
  tt_import_options o = {.table = "/tmp/no/table.csv", .output = output, .inputs = "a"};
  assert_int_equal(tt_import_local(&o), TT_E_NOINPUT);
  o.table = table;
  o.output = "/tmp/no/such/directory/data.h5";
  assert_int_equal(tt_import_local(&o), TT_E_CANTCREAT);
  TT_CHECK_HAS(tt_err_last(), "/tmp/no/such/directory");
  o.output = table;
  o.force = 1;
  assert_int_equal(tt_import_local(&o), TT_E_USAGE);
  TT_CHECK_HAS(tt_err_last(), "is read by this command");
}

TT_SUITE(enter_folder_quietly, NULL)
