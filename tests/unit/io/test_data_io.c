/* test_data_io.c — data files: shapes and names, rows in pieces, splits, and every kind of unusable
 * file. */
#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/data/data_internal.h"
#include "tests/support/check.h"

#include <hdf5.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 7, D = 3, T = 2 };
static const char path[] = "data.h5";

/* A file that another program wrote: no names, no dimension scales, other types. */
static tt_h5_file *begin(void)
{
  tt_h5_file *f = NULL;
  TT_CHECK_OK(tt_h5_create(NULL, path, 0, &f));
  return f;
}

static void put(tt_h5_file *f, const char *name, tt_h5_type type, int ndims, int64_t rows,
                int64_t columns, const void *data)
{
  const int64_t dims[] = {rows, columns, 1};
  TT_CHECK_OK(tt_h5_write_from_root(f, name, type, ndims, dims, data));
}

static void end(tt_h5_file *f) { TT_CHECK_OK(tt_h5_commit(&f)); }

TT_TEST (a_written_file_reads_back_in_any_chunks) {
  double x[N * D], y[N * T], got_x[N * D], got_y[N * T];
  tt_columns input = {0}, target = {0};
  TT_CHECK_OK(tt_columns_create(D, &input));
  TT_CHECK_OK(tt_columns_create(T, &target));
  for (int i = 0; i < D; i++) TT_CHECK_OK(tt_text_set(&input.name[i], i ? "b" : "a long name"));
  for (int i = 0; i < N * D; i++) x[i] = 1.0 / (i + 1);
  for (int i = 0; i < N * T; i++) y[i] = i % 3 ? i * 1e-3 : NAN;
  TT_CHECK_OK(tt_data_write_local(path, N, &input, &target, x, y));
  tt_data_reader *r = NULL;
  TT_CHECK_OK(tt_data_reader_open_local(path, "x", "y", &r));
  assert_string_equal(tt_data_reader_shape(r)->input.name[0], "a long name");
  assert_string_equal(tt_data_reader_shape(r)->target.name[1], "y1");
  for (int chunk = 1; chunk <= N; chunk++) {
    for (int first = 0; first < N; first += chunk) {
      int n = N - first < chunk ? N - first : chunk;
      TT_CHECK_OK(tt_data_reader_read_local(r, first, n, got_x + first * D, got_y + first * T));
    }
    assert_memory_equal(got_x, x, sizeof x);
    for (int i = 0; i < N * T; i++)
      TT_CHECK(isnan(y[i]) ? isnan(got_y[i]) : got_y[i] == y[i], ==, 1);
  }
  assert_int_equal(tt_data_reader_read_local(r, N - 1, 2, got_x, NULL), TT_E_DATA);
  tt_data_reader_close_local(&r);
  tt_columns_free(&input);
  tt_columns_free(&target);
}

TT_TEST (any_number_type_and_one_axis_are_read) {
  const float x32[] = {1.5f, 2, 3, 4, 5, 6};
  const int32_t i32[] = {-1, 2, 3};
  const int8_t i8[] = {-1, 2, 3};
  const double vector[] = {0.25, 0.5, 0.75};
  tt_h5_file *f = begin();
  TT_CHECK_OK(tt_h5_create_group(f, "g"));
  put(f, "g/x32", TT_H5_F32, 2, 3, 2, x32);
  put(f, "i32", TT_H5_I32, 1, 3, 1, i32);
  put(f, "i8", TT_H5_I8, 2, 3, 1, i8);
  put(f, "vector", TT_H5_F64, 1, 3, 1, vector);
  end(f);
  static const struct {
    const char *x, *y;
    int64_t inputs, targets;
    double last_x, last_y;
  } wanted[] = {
      {"g/x32", "i32", 2, 1, 6, 3}, {"vector", "i8", 1, 1, 0.75, 3}, {"i8", "/g/x32", 1, 2, 3, 6}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    tt_data_reader *r = NULL;
    double x[6], y[6];
    TT_CHECK_OK(tt_data_reader_open_local(path, wanted[i].x, wanted[i].y, &r));
    const tt_data_shape *s = tt_data_reader_shape(r);
    TT_CHECK(s->inputs, ==, wanted[i].inputs);
    TT_CHECK(s->targets, ==, wanted[i].targets);
    TT_CHECK_OK(tt_data_reader_read_local(r, 0, 3, x, y));
    TT_CHECK(x[3 * s->inputs - 1], ==, wanted[i].last_x);
    TT_CHECK(y[3 * s->targets - 1], ==, wanted[i].last_y);
    assert_string_equal(s->input.name[0], "x0");
    tt_data_reader_close_local(&r);
  }
}

TT_TEST (names_of_wrong_length_are_ignored) {
  const double x[] = {1, 2, 3, 4};
  const char *const two[] = {"a", ""}, *const three[] = {"a", "b", "c"};
  tt_data_shape s;
  tt_h5_file *f = begin();
  put(f, "x", TT_H5_F64, 2, 2, 2, x);
  put(f, "target_name", TT_H5_F64, 1, 2, 1, x);
  TT_CHECK_OK(tt_h5_write_texts(f, "feature_name", 2, 4, two));
  TT_CHECK_OK(tt_h5_write_texts(f, "feature_units", 3, 4, three));
  end(f);
  TT_CHECK_OK(tt_data_read_shape_local(path, "x", "x", &s));
  assert_string_equal(s.input.name[0], "a");
  assert_string_equal(s.input.name[1], "x1");
  assert_string_equal(s.input.units[0], "");
  assert_string_equal(s.target.name[1], "y1");
  tt_data_shape_free(&s);
}

TT_TEST (names_may_have_variable_length) {
  const char *name[] = {"caf\xC3\xA9", "b"};
  const double x[] = {1, 2, 3, 4};
  hsize_t dims[] = {2, 2};
  hid_t f = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t matrix = H5Screate_simple(2, dims, NULL), vector = H5Screate_simple(1, dims, NULL);
  hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, H5T_VARIABLE);
  hid_t d = H5Dcreate2(f, "x", H5T_IEEE_F64BE, matrix, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  assert_true(H5Dwrite(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0);
  hid_t n = H5Dcreate2(f, "feature_name", text, vector, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  assert_true(H5Dwrite(n, text, H5S_ALL, H5S_ALL, H5P_DEFAULT, name) >= 0);
  H5Dclose(d), H5Dclose(n), H5Tclose(text), H5Sclose(matrix), H5Sclose(vector), H5Fclose(f);
  tt_data_shape s;
  TT_CHECK_OK(tt_data_read_shape_local(path, "x", NULL, &s));
  assert_string_equal(s.input.name[0], "caf\xC3\xA9");
  assert_string_equal(s.input.name[1], "b");
  tt_data_shape_free(&s);
}

static void make_unusable(void)
{
  static const double v[12] = {0};
  const char *const texts[] = {"a"};
  tt_h5_file *f = begin();
  TT_CHECK_OK(tt_h5_create_group(f, "group"));
  put(f, "x", TT_H5_F64, 2, 4, 3, v);
  put(f, "short", TT_H5_F64, 2, 3, 2, v);
  put(f, "cube", TT_H5_F64, 3, 2, 2, v);
  put(f, "norows", TT_H5_F64, 2, 0, 3, v);
  put(f, "nocolumns", TT_H5_F64, 2, 4, 0, v);
  put(f, "scalar", TT_H5_F64, 0, 1, 1, v);
  TT_CHECK_OK(tt_h5_write_texts(f, "text", 1, 4, texts));
  end(f);
}

TT_TEST (every_unusable_dataset_is_reported) {
  static const struct {
    const char *x, *y, *part;
  } bad[] = {
      {"inputs", "y", "there is no dataset 'inputs'; there are: cube, nocolumns, norows, scalar"},
      {"x", "y", "there is no dataset 'y'; there are: "},
      {"", "y", "there is no dataset ''"},
      {"group", "x", "'group' is a group"},
      {"group/x", "x", "there is no dataset 'group/x'"},
      {"x", "short", "'x' has 4 rows, but 'short' has 3"},
      {"cube", NULL, "dataset 'cube' (inputs) has 3 axes"},
      {"scalar", NULL, "dataset 'scalar' (inputs) has 0 axes"},
      {"norows", NULL, "dataset 'norows' has no rows"},
      {"x", "nocolumns", "dataset 'nocolumns' (targets) has no columns"},
      {"text", NULL, "dataset 'text' (inputs) does not hold numbers but text"},
  };
  make_unusable();
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    tt_data_shape s;
    assert_int_equal(tt_data_read_shape_local(path, bad[i].x, bad[i].y, &s), TT_E_DATA);
    TT_CHECK_HAS(tt_err_last(), bad[i].part);
    TT_CHECK_HAS(tt_err_last(), path);
  }
}

TT_TEST (an_error_says_how_to_convert_another_format) {
  static const char *const row[][3] = {
      {".csv", "is not an HDF5 file; tutti import", "a,b\n1,2\n"},
      {".npy", "numpy.load", "a,b\n1,2\n"},
      {".nc", "netCDF-3; convert it: nccopy -k netCDF-4", "CDF\1"}};
  for (int i = 0; i < 3; i++) {
    char name[sizeof path + 8];
    tt_h5_reader *r = NULL;
    snprintf(name, sizeof name, "%s%s", path, row[i][0]);
    FILE *f = fopen(name, "w");
    fputs(row[i][2], f);
    fclose(f);
    TT_CHECK((int)tt_h5_open_local(name, &r), ==, TT_E_DATA);
    TT_CHECK_HAS(tt_err_last(), row[i][1]);
    remove(name);
  }
}

TT_TEST (missing_files_and_other_formats_are_errors) {
  tt_data_shape s;
  assert_int_equal(tt_data_read_shape_local("/tmp/no/such.h5", "x", NULL, &s), TT_E_NOINPUT);
  assert_int_equal(tt_data_read_shape_local("/tmp", "x", NULL, &s), TT_E_NOINPUT);
  FILE *f = fopen(path, "w");
  fputs("a,b\n1,2\n", f);
  fclose(f);
  assert_int_equal(tt_data_read_shape_local(path, "x", NULL, &s), TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "is not an HDF5 file");
  make_unusable();
  assert_int_equal(truncate(path, 2000), 0);
  assert_int_equal(tt_data_read_shape_local(path, "x", NULL, &s), TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "is truncated");
}

/* splits */

enum { ROWS = 6 };

static void make_splits(void)
{
  const int32_t column[] = {0, 1, 2, -1, 0, 1}, few[] = {5, 0}, bad[] = {0, 1, 2, 3, 0, 0},
                none[] = {1, 1, 1, 1, 1, 1};
  tt_h5_file *f = begin();
  put(f, "column", TT_H5_I32, 1, ROWS, 1, column);
  put(f, "few", TT_H5_I32, 1, 2, 1, few);
  put(f, "bad", TT_H5_I32, 1, ROWS, 1, bad);
  put(f, "none", TT_H5_I32, 1, ROWS, 1, none);
  end(f);
}

static tt_err split_by(const char *column, int8_t split[ROWS])
{
  const tt_config cfg = {.data_split_train = 0.5,
                         .data_split_validation = 0.5,
                         .data_split_seed = 3,
                         .data_split_column = (char *)(uintptr_t)column};
  tt_source s;
  TT_CHECK_OK(tt_source_open_local(path, NULL, &s));
  tt_err e = tt_data_read_split_local(&s, &cfg, ROWS, split);
  tt_source_close_local(&s);
  return e;
}

TT_TEST (splits_follow_the_file) {
  int8_t split[ROWS], fractions[ROWS];
  const int8_t by_column[ROWS] = {0, 1, 2, -1, 0, 1};
  make_splits();
  TT_CHECK_OK(split_by("column", split));
  assert_memory_equal(split, by_column, ROWS);
  const double part[TT_SPLITS] = {0.5, 0.5, 0};
  TT_CHECK_OK(split_by("", split));
  TT_CHECK_OK(tt_split_fractions(ROWS, part, 3, fractions));
  assert_memory_equal(split, fractions, ROWS);
}

TT_TEST (every_bad_split_is_reported) {
  static const struct {
    const char *column, *part;
  } bad[] = {
      {"bad", "dataset 'bad', row 3: 3; 0 is train"},
      {"none", "dataset 'none' leaves no row to train on"},
      {"few", "'few' (data.split.column) is 2 x 1"},
      {"missing", "there is no dataset 'missing'"},
  };
  make_splits();
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    int8_t split[ROWS];
    TT_CHECK((int)split_by(bad[i].column, split), ==, TT_E_DATA);
    TT_CHECK_HAS(tt_err_last(), bad[i].part);
  }
}

TT_TEST (names_and_units_must_be_utf8) {
  static const struct {
    const char *text;
    tt_err wanted;
  } name[] = {
      {"plain", TT_OK},        {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", TT_OK},
      {"\xE9", TT_E_DATA},     {"\xC3", TT_E_DATA},
      {"\xC0\xAF", TT_E_DATA}, {"\xED\xA0\x80", TT_E_DATA},
      {"a\x80", TT_E_DATA},    {"\xF4\x90\x80\x80", TT_E_DATA},
      {"\xE2\x82", TT_E_DATA}, {"\xF8\x88\x80\x80\x80", TT_E_DATA},
  };
  const double x[] = {1};
  for (size_t i = 0; i < 2 * sizeof name / sizeof *name; i++) {
    tt_columns input = {0}, target = {0};
    TT_CHECK_OK(tt_columns_create(1, &input));
    TT_CHECK_OK(tt_text_set(i % 2 ? &input.units[0] : &input.name[0], name[i / 2].text));
    assert_int_equal(tt_data_write_local(path, 1, &input, &target, x, NULL), name[i / 2].wanted);
    tt_columns_free(&input);
  }
}

TT_TEST (names_are_read_without_control_characters) {
  const double x[] = {1};
  tt_columns input = {0}, target = {0};
  tt_data_shape shape = {0};
  TT_CHECK_OK(tt_columns_create(1, &input));
  TT_CHECK_OK(tt_text_set(&input.name[0], "\x1B[2Jheat\tload\n"));
  TT_CHECK_OK(tt_text_set(&input.units[0], "\xC2\x9Bm"));
  TT_CHECK_OK(tt_data_write_local(path, 1, &input, &target, x, NULL));
  TT_CHECK_OK(tt_data_read_shape_local(path, "x", NULL, &shape));
  assert_string_equal(shape.input.name[0], "?[2Jheat?load?");
  assert_string_equal(shape.input.units[0], "?m");
  tt_data_shape_free(&shape);
  tt_columns_free(&input);
}

TT_SUITE(enter_folder_quietly, NULL)
