/* test_h5.c — laws of HDF5 files: a file is read as written, or there is no file. */
#include "tests/support/check.h"
#include "tests/support/ranks.h"

#include "core/base/mem.h"
#include "io/files/files.h"
#include "io/files/owner.h"
#include "io/hdf5/h5.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>

extern int64_t tt_h5_max_write_bytes;

static void file_in(const char *name, char path[2 * SCRATCH_ROOM])
{
  snprintf(path, 2 * SCRATCH_ROOM, "%s/%s", scratch, name);
}

/* Value of element i of a dataset of any type; it fits into each type. */
static int64_t value_at(int64_t i) { return 1 + (i * 37) % 101; }

static void put(tt_h5_type type, void *data, int64_t offset, int64_t value)
{
  switch (type) {
#define X(name, ctype, h5)                                                                         \
  case TT_H5_##name: ((ctype *)data)[offset] = (ctype)value; break;
    TT_H5_TYPES(X)
#undef X
  default: fail();
  }
}

static double get(tt_h5_type type, const void *data, int64_t offset)
{
  switch (type) {
#define X(name, ctype, h5)                                                                         \
  case TT_H5_##name: return (double)((const ctype *)data)[offset];
    TT_H5_TYPES(X)
#undef X
  default: return -1;
  }
}

/* Rows of this rank in an uneven partition of `rows`; the last rank has none if there are several.
 */
static void my_rows(int64_t rows, int64_t *first, int64_t *count)
{
  int64_t ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm);
  int64_t sharing = ranks > 1 ? ranks - 1 : 1;
  *first = rank < sharing ? rows * rank / sharing : rows;
  *count = rank < sharing ? rows * (rank + 1) / sharing - *first : 0;
}

/* A dataset [rows][columns] of every type, each rank its rows. */
static void write_types(tt_h5_file *f, int64_t rows, int64_t columns)
{
  int64_t first, count, *data = NULL;
  const int64_t dims[2] = {rows, columns};
  my_rows(rows, &first, &count);
  TT_CHECK_OK(TT_ALLOC(data, count * columns));
  for (int t = 0; t < TT_H5_TYPE_COUNT; t++) {
    char path[32];
    snprintf(path, sizeof path, "group/type%d", t);
    for (int64_t i = 0; i < count * columns; i++)
      put((tt_h5_type)t, data, i, value_at(first * columns + i));
    TT_CHECK_OK(tt_h5_write_rows(f, path, (tt_h5_type)t, 2, dims, first, count, data));
  }
  tt_free(data);
}

static void check_types(const char *file, int64_t rows, int64_t columns)
{
  int64_t *data = NULL;
  tt_h5_reader *r = NULL;
  TT_CHECK_OK(TT_ALLOC(data, rows * columns));
  TT_CHECK_OK(tt_h5_open_local(file, &r));
  for (int t = 0; t < TT_H5_TYPE_COUNT; t++) {
    char path[32];
    snprintf(path, sizeof path, "group/type%d", t);
    TT_CHECK_OK(tt_h5_read_rows_local(r, path, (tt_h5_type)t, 0, rows, data));
    for (int64_t i = 0; i < rows * columns; i++)
      TT_CHECK(get((tt_h5_type)t, data, i), ==, (double)value_at(i));
  }
  tt_h5_close_local(&r);
  tt_free(data);
}

/* Every type, also when one rank has no rows and when one write needs several rounds. MPI-IO gives a
 * colon in a name a meaning of its own. */
TT_TEST (a_file_is_read_as_written) {
  static const int64_t rounds[] = {256 << 20, 64, 1};
  static const char *const name[] = {"types.h5", "ufs:types.h5", "types, 12:30:05.h5"};
  for (size_t k = 0; k < sizeof rounds / sizeof *rounds; k++) {
    char path[2 * SCRATCH_ROOM];
    tt_h5_file *f = NULL;
    int64_t normal = tt_h5_max_write_bytes;
    file_in(name[k], path);
    tt_h5_max_write_bytes = rounds[k];
    TT_CHECK_OK(tt_h5_create(comm, path, 1 << 20, &f));
    TT_CHECK_OK(tt_h5_create_group(f, "group"));
    write_types(f, 13, 5);
    TT_CHECK_OK(tt_h5_commit(&f));
    tt_h5_max_write_bytes = normal;
    assert_null(f);
    check_types(path, 13, 5);
    tt_barrier(comm);
  }
}

/* Blocks that are not whole rows, several per dataset: the columns are distributed over the ranks.
 */
TT_TEST (blocks_of_columns_make_the_dataset) {
  enum { ROWS = 6, COLUMNS = 11 };
  const int64_t dims[2] = {ROWS, COLUMNS};
  char path[2 * SCRATCH_ROOM];
  tt_h5_file *f = NULL;
  tt_h5_reader *r = NULL;
  int64_t first, count;
  double block[ROWS * COLUMNS], all[ROWS * COLUMNS];
  file_in("blocks.h5", path);
  my_rows(COLUMNS, &first, &count);
  TT_CHECK_OK(tt_h5_create(comm, path, 0, &f));
  TT_CHECK_OK(tt_h5_create_dataset(f, "x", TT_H5_F64, 2, dims));
  for (int64_t half = 0; half < 2; half++) { /* upper and lower half of the rows */
    const int64_t begin[2] = {3 * half, first}, size[2] = {3, count};
    for (int64_t i = 0; i < 3 * count; i++)
      block[i] = (double)value_at((begin[0] + i / count) * COLUMNS + first + i % count);
    TT_CHECK_OK(tt_h5_write_block(f, "x", begin, size, block));
  }
  TT_CHECK_OK(tt_h5_commit(&f));
  TT_CHECK_OK(tt_h5_open_local(path, &r));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "x", TT_H5_F64, 0, ROWS, all));
  for (int64_t i = 0; i < ROWS * COLUMNS; i++) TT_CHECK(all[i], ==, (double)value_at(i));
  tt_h5_close_local(&r);
  tt_barrier(comm);
}

static void write_words(tt_h5_file *f)
{
  static const char *const units[] = {"m", "W/m\xc2\xb2", ""};
  const int64_t three[3] = {1, 2, 3}, scalar = 0;
  const double pi = 3.25;
  tt_h5_create_dimension(f, "column", 3);
  tt_h5_create_dimension(f, "length", 5);
  tt_h5_write_texts(f, "units", 3, 6, units);
  tt_h5_attach_scales(f, "units", (const char *[]){"column"}, 1);
  tt_h5_write_text(f, "job", tt_h5_max_text_length(1, (const char *[]){"a: 1\nb: 2\n"}),
                   "a: 1\nb: 2\n");
  tt_h5_write_rows(f, "row", TT_H5_I64, 1, &three[2], 0, tt_comm_rank(comm) ? 0 : 3, three);
  tt_h5_set_scale(f, "row");
  tt_h5_write_from_root(f, "pi", TT_H5_F64, 0, &scalar, &pi);
  tt_h5_write_attr(f, "row", "many", TT_H5_I64, 3, three);
  tt_h5_write_attr(f, "/", "one", TT_H5_F64, 1, &pi);
  tt_h5_write_attr_text(f, "row", "note", "r\xc3\xa9sum\xc3\xa9");
  tt_h5_write_attr_text(f, "", "empty", "");
}

TT_TEST (texts_and_attributes_are_read_as_written) {
  char path[2 * SCRATCH_ROOM], **units = NULL, *text = NULL;
  tt_h5_file *f = NULL;
  tt_h5_reader *r = NULL;
  int64_t n = 0, many[3];
  double one = 0;
  file_in("words.h5", path);
  TT_CHECK_OK(tt_h5_create(comm, path, 0, &f));
  write_words(f);
  TT_CHECK_OK(tt_h5_commit(&f));
  TT_CHECK_OK(tt_h5_open_local(path, &r));
  TT_CHECK_OK(tt_h5_read_texts_local(r, "units", &n, &units));
  TT_CHECK(n, ==, 3);
  assert_string_equal(units[0], "m");
  assert_string_equal(units[1], "W/m\xc2\xb2");
  assert_string_equal(units[2], "");
  tt_h5_texts_free(n, &units);
  TT_CHECK_OK(tt_h5_read_text_local(r, "job", &text));
  assert_string_equal(text, "a: 1\nb: 2\n");
  tt_free(text);
  TT_CHECK_OK(tt_h5_read_attr_text_local(r, "row", "note", &text));
  assert_string_equal(text, "r\xc3\xa9sum\xc3\xa9");
  tt_free(text);
  TT_CHECK_OK(tt_h5_read_attr_text_local(r, "/", "empty", &text));
  assert_string_equal(text, "");
  tt_free(text);
  TT_CHECK_OK(tt_h5_read_attr_local(r, "row", "many", TT_H5_I64, 3, many));
  TT_CHECK(many[2], ==, 3);
  TT_CHECK_OK(tt_h5_read_attr_local(r, "/", "one", TT_H5_F64, 1, &one));
  TT_CHECK(one, ==, 3.25);
  TT_CHECK_OK(tt_h5_read_rows_local(r, "pi", TT_H5_F64, 0, 1, &one));
  TT_CHECK(one, ==, 3.25);
  TT_CHECK(tt_h5_has_attr_local(r, "row", "many"), ==, 1);
  TT_CHECK(tt_h5_has_attr_local(r, "row", "few"), ==, 0);
  TT_CHECK(tt_h5_has_attr_local(r, "nowhere", "few"), ==, 0);
  TT_CHECK((int)tt_h5_read_attr_local(r, "row", "many", TT_H5_I64, 2, many), ==, TT_E_DATA);
  TT_CHECK((int)tt_h5_read_attr_text_local(r, "row", "many", &text), ==, TT_E_DATA);
  tt_h5_close_local(&r);
  tt_barrier(comm);
}

/* Without a communicator the writer is serial: each rank writes its own file. */
TT_TEST (the_serial_writer_makes_the_same_file) {
  char name[64], path[2 * SCRATCH_ROOM];
  const int64_t dims[2] = {4, 3};
  float x[12], back[12];
  tt_h5_file *f = NULL;
  tt_h5_reader *r = NULL;
  snprintf(name, sizeof name, "serial-%d.h5", tt_comm_rank(comm));
  file_in(name, path);
  for (int i = 0; i < 12; i++) x[i] = (float)i + 0.5f;
  TT_CHECK_OK(tt_h5_create(NULL, path, 48, &f));
  tt_h5_write_from_root(f, "x", TT_H5_F32, 2, dims, x);
  tt_h5_write_attr_text(f, "/", "title", "serial");
  TT_CHECK_OK(tt_h5_commit(&f));
  TT_CHECK_OK(tt_h5_open_local(path, &r));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "x", TT_H5_F32, 1, 2, back));
  for (int i = 0; i < 6; i++) TT_CHECK(back[i], ==, x[3 + i]);
  tt_h5_close_local(&r);
}

/* The first error sticks, commit returns it on all ranks, and the old file is untouched. */
TT_TEST (an_error_leaves_the_old_file) {
  char path[2 * SCRATCH_ROOM];
  tt_h5_file *f = NULL;
  const int64_t dims[1] = {4};
  const double x[4] = {1, 2, 3, 4};
  file_in("types.h5", path);
  TT_CHECK_OK(tt_h5_create(comm, path, 0, &f));
  tt_h5_write_from_root(f, "x", TT_H5_F64, 1, dims, x);
  int64_t outside = tt_comm_rank(comm) == tt_comm_ranks(comm) - 1; /* only the last rank is wrong */
  TT_CHECK((int)tt_h5_write_block(f, "x", &(int64_t){outside}, &(int64_t){outside * 4}, x), ==,
           TT_E_INTERNAL);
  TT_CHECK((int)tt_h5_create_group(f, "later"), ==, TT_E_INTERNAL);
  TT_CHECK((int)tt_h5_commit(&f), ==, TT_E_INTERNAL);
  TT_CHECK_HAS(tt_err_last(), "'x'");
  assert_null(f);
  tt_barrier(comm);
  TT_CHECK(scratch_count(scratch, ".tmp-"), ==, 0);
  check_types(path, 13, 5);
  tt_barrier(comm);
}

/* Of the same output only, and neither what a living process has nor another host, however old. */
TT_TEST (what_a_killed_process_left_is_removed) {
  enum { DEAD = (1 << 22) + 1 }; /* no process has a number above the kernel's limit of 2^22 */
  char path[2 * SCRATCH_ROOM], host[256] = "", left[512], kept[3][512];
  if (tt_comm_ranks(comm) > 1) skip();
  gethostname(host, sizeof host - 1);
  snprintf(left, sizeof left, ".tmp-a.h5-%.40s-%d-0123456789abcdef", host, DEAD);
  snprintf(kept[0], sizeof *kept, ".tmp-b.h5-%.40s-%d-0123456789abcdef", host, DEAD);
  snprintf(kept[1], sizeof *kept, ".tmp-a.h5-%.40s-%d-0123456789abcdef", host, (int)getpid());
  snprintf(kept[2], sizeof *kept, ".tmp-a.h5-elsewhere-%d-0123456789abcdef", DEAD);
  for (int i = 0; i < 3; i++) {
    file_in(kept[i], path);
    TT_CHECK(touch(scratch, kept[i]), ==, 0);
    TT_CHECK(utimensat(AT_FDCWD, path, (struct timespec[2]){{1, 0}, {1, 0}}, 0), ==, 0);
  }
  file_in("a.h5", path);
  for (int text = 0; text < 2; text++) {
    tt_h5_file *f = NULL;
    TT_CHECK(touch(scratch, left), ==, 0);
    if (text) TT_CHECK_OK(tt_file_write_atomic_local(path, "text\n"));
    if (!text) TT_CHECK_OK(tt_h5_create(comm, path, 0, &f));
    TT_CHECK(scratch_count(scratch, left), ==, 0);
    if (!text) TT_CHECK_OK(tt_h5_commit(&f));
  }
  for (int i = 0; i < 3; i++) {
    file_in(kept[i], path);
    TT_CHECK(unlink(path), ==, 0);
  }
}

/* A start that has lost its directory commits nothing. */
TT_TEST (a_fence_stops_the_commit) {
  char path[2 * SCRATCH_ROOM], owner[2 * SCRATCH_ROOM];
  tt_h5_file *f = NULL;
  file_in("owner", owner);
  file_in("fenced.h5", path);
  if (tt_comm_is_root(comm)) TT_CHECK_OK(tt_file_write_atomic_local(owner, "later\n"));
  TT_CHECK_OK(tt_owner_begin_local(scratch, "earlier"));
  TT_CHECK_OK(tt_h5_create(comm, path, 0, &f));
  TT_CHECK(scratch_count(scratch, TT_OWNER_TEMPORARY), ==, 1);
  TT_CHECK((int)tt_h5_commit(&f), ==, TT_E_STOPPED);
  TT_CHECK_HAS(tt_err_last(), "another start of this run (later)");
  TT_CHECK(scratch_count(scratch, "fenced.h5"), ==, 0);
  TT_CHECK(scratch_count(scratch, ".tmp-"), ==, 0);
  tt_barrier(comm);
  TT_CHECK_OK(tt_owner_begin_local(scratch, "later"));
  TT_CHECK_OK(tt_h5_create(comm, path, 0, &f));
  TT_CHECK_OK(tt_h5_commit(&f));
  tt_owner_end_local(scratch);
}

/* The values of a rank in one part, and in small parts and a large one, with a gap before the last.
 */
TT_TEST (parts_make_the_dataset) {
  enum { LARGE = TT_H5_JOINED_BYTES / 4, N = LARGE + 7 };
  char path[2 * SCRATCH_ROOM];
  tt_h5_file *f = NULL;
  tt_h5_reader *r = NULL;
  const int64_t ranks = tt_comm_ranks(comm), first = tt_comm_rank(comm) * N, values = ranks * N;
  int32_t *mine = NULL, *all = NULL;
  TT_CHECK_OK(TT_ALLOC(mine, N));
  const tt_h5_part one = {first, N, mine};
  const tt_h5_part some[] = {{first, 2, mine},
                             {first + 2, 0, NULL},
                             {first + 2, 3, mine + 2},
                             {first + 5, LARGE, mine + 5},
                             {first + N - 1, 1, mine + N - 1}};
  for (int i = 0; i < N; i++) mine[i] = (int32_t)value_at(first + i);
  file_in("parts.h5", path);
  TT_CHECK_OK(tt_h5_create(comm, path, 0, &f));
  TT_CHECK_OK(tt_h5_create_dataset(f, "one", TT_H5_I32, 1, &values));
  TT_CHECK_OK(tt_h5_create_dataset(f, "some", TT_H5_I32, 1, &values));
  TT_CHECK_OK(tt_h5_write_parts(f, "one", TT_H5_I32, 1, &one));
  TT_CHECK_OK(tt_h5_write_parts(f, "some", TT_H5_I32, 5, some));
  TT_CHECK_OK(tt_h5_commit(&f));
  TT_CHECK_OK(TT_ALLOC(all, values));
  TT_CHECK_OK(tt_h5_open_local(path, &r));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "one", TT_H5_I32, 0, values, all));
  for (int64_t i = 0; i < values; i++) TT_CHECK(all[i], ==, value_at(i));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "some", TT_H5_I32, 0, values, all));
  for (int64_t i = 0; i < values; i++)
    if (i % N != N - 2) TT_CHECK(all[i], ==, value_at(i));
  tt_h5_close_local(&r);
  tt_free(all);
  tt_free(mine);
  tt_barrier(comm);
}

/* A byte that changes between write and commit (a faulty disk) is found. */
TT_TEST (a_byte_changed_before_commit_is_found) {
  enum { N = 1 << 18 };
  char path[2 * SCRATCH_ROOM], temporary[2 * SCRATCH_ROOM] = "";
  const int64_t dims[1] = {N};
  int64_t first, count;
  double *x = NULL;
  tt_h5_file *f = NULL;
  file_in("lie.h5", path);
  my_rows(N, &first, &count);
  TT_CHECK_OK(TT_ALLOC(x, count));
  for (int64_t i = 0; i < count; i++) x[i] = (double)(first + i);
  TT_CHECK_OK(tt_h5_create(comm, path, 8 * N, &f));
  TT_CHECK_OK(tt_h5_write_rows(f, "x", TT_H5_F64, 1, dims, first, count, x));
  DIR *d = tt_comm_is_root(comm) ? opendir(scratch) : NULL;
  for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
    if (!strncmp(e->d_name, ".tmp-lie.h5-", 12)) file_in(e->d_name, temporary);
  if (d) closedir(d);
  int fd = d ? open(temporary, O_RDWR) : -1;
  if (fd >= 0) TT_CHECK((int)pwrite(fd, "lie", 3, 4 * N), ==, 3);
  if (fd >= 0) close(fd);
  TT_CHECK((int)tt_h5_commit(&f), ==, TT_E_IO);
  TT_CHECK_HAS(tt_err_last(), "differ from the data written");
  TT_CHECK(scratch_count(scratch, "lie.h5"), ==, 0);
  TT_CHECK(scratch_count(scratch, ".tmp-"), ==, 0);
  tt_barrier(comm);
  tt_free(x);
}

TT_TEST (files_that_cannot_be_created_are_refused) {
  char path[2 * SCRATCH_ROOM];
  tt_h5_file *f = NULL;
  file_in("nowhere/x.h5", path);
  TT_CHECK((int)tt_h5_create(comm, path, 0, &f), ==, TT_E_CANTCREAT);
  assert_null(f);
  file_in("huge.h5", path);
  TT_CHECK((int)tt_h5_create(comm, path, INT64_MAX / 2, &f), ==, TT_E_IO);
  TT_CHECK_HAS(tt_err_last(), "disk full");
  TT_CHECK_HAS(tt_err_last(), scratch);
  TT_CHECK(scratch_count(scratch, ".tmp-"), ==, 0);
  tt_barrier(comm);
}

static void make(const char *path, const char *bytes, size_t n)
{
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  TT_CHECK((int)fwrite(bytes, 1, n, f), ==, (int)n);
  fclose(f);
}

static void check_open(const char *path, tt_err wanted, const char *words)
{
  tt_h5_reader *r = NULL;
  TT_CHECK((int)tt_h5_open_local(path, &r), ==, (int)wanted);
  assert_null(r);
  TT_CHECK_HAS(tt_err_last(), words);
  TT_CHECK_HAS(tt_err_last(), path);
}

/* Each kind of file that is not HDF5 has its own message. */
TT_TEST (unreadable_files_have_different_messages) {
  char name[64], path[2 * SCRATCH_ROOM], whole[2 * SCRATCH_ROOM];
  char bytes[4096];
  file_in("words.h5", whole);
  FILE *f = fopen(whole, "r");
  assert_non_null(f);
  size_t n = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  snprintf(name, sizeof name, "bad-%d.h5", tt_comm_rank(comm));
  file_in(name, path);
  check_open(path, TT_E_NOINPUT, "No such file");
  make(path, "", 0);
  check_open(path, TT_E_DATA, "empty");
  make(path, "a,b,c\n1,2,3\n", 12);
  check_open(path, TT_E_DATA, "not an HDF5 file");
  make(path, bytes, n / 2);
  check_open(path, TT_E_DATA, "truncated");
  check_open(scratch, TT_E_NOINPUT, "directory");
}

TT_TEST (datasets_that_do_not_fit_are_refused) {
  char path[2 * SCRATCH_ROOM];
  double x[16];
  tt_h5_reader *r = NULL;
  tt_h5_info info;
  file_in("words.h5", path);
  TT_CHECK_OK(tt_h5_open_local(path, &r));
  TT_CHECK((int)tt_h5_dataset_info_local(r, "nothing", &info), ==, TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "job");
  TT_CHECK_HAS(tt_err_last(), "units");
  TT_CHECK((int)tt_h5_dataset_info_local(r, "/", &info), ==, TT_E_DATA);
  TT_CHECK((int)tt_h5_dataset_info_local(r, "row/deeper", &info), ==, TT_E_DATA);
  TT_CHECK_OK(tt_h5_dataset_info_local(r, "units", &info));
  TT_CHECK((int)info.kind, ==, TT_H5_TEXT);
  TT_CHECK(info.dims[1], ==, 6);
  TT_CHECK((int)tt_h5_read_rows_local(r, "units", TT_H5_F64, 0, 1, x), ==, TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "numbers");
  TT_CHECK((int)tt_h5_read_rows_local(r, "row", TT_H5_F64, 2, 2, x), ==, TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "'row'");
  tt_h5_close_local(&r);
}

/* What HDF5 refuses for a file it refuses for one in memory, whose data need no memory. */
TT_TEST (a_file_in_memory_has_no_data) {
  const int64_t size[] = {1LL << 40, 1LL << 20};
  const double value = 1.0;
  tt_h5_file *f = NULL;
  TT_CHECK_OK(tt_h5_create(comm, NULL, 0, &f));
  TT_CHECK_OK(tt_h5_create_dimension(f, "row", size[0]));
  TT_CHECK_OK(tt_h5_create_dimension(f, "column", size[1]));
  TT_CHECK_OK(tt_h5_write_rows(f, "table", TT_H5_F64, 2, size, 0, 1, &value));
  TT_CHECK_OK(tt_h5_attach_scales(f, "table", (const char *[]){"row", "column"}, 2));
  TT_CHECK_OK(tt_h5_commit(&f));
  assert_null(f);
  TT_CHECK_OK(tt_h5_create(comm, NULL, 0, &f));
  TT_CHECK_OK(tt_h5_create_dimension(f, "row", size[0]));
  TT_CHECK((int)tt_h5_attach_scales(f, "row", (const char *[]){"column"}, 1), ==, TT_E_IO);
  TT_CHECK((int)tt_h5_commit(&f), ==, TT_E_IO);
  TT_CHECK_OK(tt_h5_create(comm, NULL, 0, &f));
  TT_CHECK((int)tt_h5_create_dimension(f, "group/row", 3), ==, TT_E_IO);
  TT_CHECK((int)tt_h5_commit(&f), ==, TT_E_IO);
  TT_CHECK_HAS(tt_err_last(), "group/row");
  TT_CHECK_OK(tt_h5_create(comm, NULL, 0, &f));
  TT_CHECK_OK(tt_h5_create_dimension(f, "row", 3));
  TT_CHECK_OK(tt_h5_write_attr_text(f, "row", "units", "m"));
  TT_CHECK((int)tt_h5_write_attr_text(f, "row", "units", "m"), ==, TT_E_IO); /* a second one */
  TT_CHECK((int)tt_h5_commit(&f), ==, TT_E_IO);
  TT_CHECK_HAS(tt_err_last(), "cannot write the attribute units");
}
