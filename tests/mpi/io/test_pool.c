/* Laws of pool files (io/data/pool.h) and of pool_scores.h5 (io/campaign/pool_scores.h): values do
 * not depend on the partition into pieces, files or ranks. */
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/model/partition.h"
#include "io/campaign/pool_scores.h"
#include "io/data/data_internal.h"
#include "io/data/pool.h"
#include "io/hdf5/h5.h"
#include "tests/support/check.h"
#include "tests/support/ranks.h"

#include <inttypes.h>
#include <math.h>

enum { D = 3, T = 2, FILES = 3, ROWS = 5000, FIRST = 1000 };
static const int64_t part[FILES] = {1700, 1, 3299}; /* rows of each file; ROWS in all */

static char name[FILES][2 * SCRATCH_ROOM];
static const char *const files[FILES] = {name[0], name[1], name[2]};
static float x[ROWS * D];
static double y[ROWS * T];

/* files */

static void make_values(void)
{
  for (int i = 0; i < ROWS * D; i++) x[i] = (float)i * 0.25f - 100.0f;
  for (int i = 0; i < ROWS * T; i++) y[i] = i % 7 ? 0.5 * i : NAN;
}

/* Rank 0 writes rows [from, from + rows) of x and y, and the dataset that excludes some of them. */
static void put_file(const char *file, int64_t begin, int64_t rows, const int8_t *mask)
{
  tt_h5_file *f = NULL;
  const int64_t inputs[] = {rows, D}, labels[] = {rows, T};
  if (!tt_comm_is_root(comm)) return;
  TT_CHECK_OK(tt_h5_create(NULL, file, 0, &f));
  tt_h5_write_from_root(f, "x", TT_H5_F32, 2, inputs, x + begin * D);
  tt_h5_write_from_root(f, "y", TT_H5_F64, 2, labels, y + begin * T);
  tt_h5_write_from_root(f, "narrow", TT_H5_F64, 1, inputs, y);
  if (mask) tt_h5_write_from_root(f, "mask", TT_H5_I8, 1, inputs, mask);
  TT_CHECK_OK(tt_h5_commit(&f));
}

static void put(void)
{
  int64_t begin = 0;
  make_values();
  for (int i = 0; i < FILES; i++) {
    put_file(name[i], begin, part[i], NULL);
    begin += part[i];
  }
  tt_barrier(comm);
}

static char *unit[] = {"", "", ""}, *x_name[] = {"x0", "x1", "x2"}, *y_name[] = {"y0", "y1"};
static const tt_columns input = {D, x_name, unit, 0, NULL, NULL, 0},
                        target = {T, y_name, unit, 0, NULL, NULL, 0};

static tt_pool_options plan(void)
{
  return (tt_pool_options){.file = files,
                           .files = FILES,
                           .first = FIRST,
                           .inputs = "x",
                           .labels = "y",
                           .input = &input,
                           .target = &target};
}

static tt_pool *opened(const tt_pool_options *p)
{
  tt_pool *pool = NULL;
  TT_CHECK_OK(tt_pool_open(comm, p, &pool));
  return pool;
}

static void refused(const tt_pool_options *p, tt_err wanted, const char *one, const char *two)
{
  tt_pool *pool = NULL;
  tt_barrier(comm);
  TT_CHECK((int)tt_pool_open(comm, p, &pool), ==, (int)wanted);
  TT_CHECK_HAS(tt_err_last(), one);
  TT_CHECK_HAS(tt_err_last(), two);
  TT_CHECK(pool == NULL, ==, 1);
}

static void same(double got, double wanted)
{
  if (!isnan(wanted) || !isnan(got)) TT_CHECK(got, ==, wanted);
}

/* laws */

TT_TEST (any_chunk_has_the_rows_of_the_files) {
  static const int64_t chunk[] = {1, 7, 1699, 1700, 1701, 1702, ROWS};
  static double got[ROWS * D];
  put();
  tt_pool_options p = plan();
  tt_pool *pool = opened(&p);
  TT_CHECK(tt_pool_first(pool), ==, FIRST);
  TT_CHECK(tt_pool_rows(pool), ==, ROWS);
  for (size_t k = 0; k < sizeof chunk / sizeof *chunk; k++) {
    int64_t begin = chunk[k] == 1 ? 1690 : 0, end = chunk[k] == 1 ? 1710 : ROWS;
    for (int64_t offset = begin; offset < end; offset += chunk[k]) {
      int64_t n = end - offset < chunk[k] ? end - offset : chunk[k];
      TT_CHECK_OK(tt_pool_read_local(pool, FIRST + offset, n, got));
      for (int64_t i = 0; i < n * D; i++) TT_CHECK(got[i], ==, (double)x[offset * D + i]);
    }
  }
  TT_CHECK_OK(tt_pool_read_local(pool, FIRST, 0, got));
  tt_pool_close_local(&pool);
}

/* Candidates [count], as rows: the rows of the queries are those of the files. */
static void check_picks(tt_pool *pool, int64_t count, const int64_t *row)
{
  static double gx[ROWS * D], gy[ROWS * T];
  int64_t candidate[ROWS] = {0};
  for (int64_t i = 0; i < count; i++) candidate[i] = FIRST + row[i];
  TT_CHECK_OK(tt_pool_read_rows_local(pool, candidate, count, gx, gy));
  for (int64_t i = 0; i < count; i++) {
    for (int k = 0; k < D; k++) TT_CHECK(gx[i * D + k], ==, (double)x[row[i] * D + k]);
    for (int k = 0; k < T; k++) same(gy[i * T + k], y[row[i] * T + k]);
  }
}

TT_TEST (queries_have_the_rows_of_the_files) {
  static const int64_t border[] = {0, 1698, 1699, 1700, 1701, 1702, ROWS - 1};
  static const int64_t again[] = {1700, 5, 1699, 5, 1700};
  static int64_t row[ROWS];
  put();
  tt_pool_options p = plan();
  tt_pool *pool = opened(&p);
  for (int64_t step = 1; step < ROWS; step = 3 * step + 1) {
    int64_t count = 0;
    for (int64_t offset = step / 2; offset < ROWS; offset += 1 + (offset * 7919) % step)
      row[count++] = offset;
    check_picks(pool, count, row);
  }
  check_picks(pool, sizeof border / sizeof *border, border);
  check_picks(pool, sizeof again / sizeof *again, again);
  check_picks(pool, 0, border);
  TT_CHECK_OK(tt_pool_read_rows_local(pool, border, 0, NULL, NULL));
  tt_pool_close_local(&pool);
}

/* Wide rows: a block holds few of them. */
TT_TEST (queries_of_wide_rows) {
  enum { WIDE = 40000, FEW = 9, PICKS = 6 };
  static float wide[FEW * WIDE];
  static double got[PICKS * WIDE];
  static const int64_t row[PICKS] = {0, 1, 2, 3, 4, 8}, dims[] = {FEW, WIDE};
  tt_pool *pool = NULL;
  tt_h5_file *f = NULL;
  tt_columns many = {0};
  tt_pool_options p = plan();
  for (int i = 0; i < FEW * WIDE; i++) wide[i] = (float)i;
  TT_CHECK_OK(tt_columns_create(WIDE, &many));
  TT_CHECK_OK(tt_h5_create(comm, name[0], 0, &f));
  tt_h5_write_from_root(f, "x", TT_H5_F32, 2, dims, wide);
  TT_CHECK_OK(tt_h5_commit(&f));
  p.files = 1;
  p.first = 0;
  p.input = &many;
  p.labels = "";
  TT_CHECK_OK(tt_pool_open(comm, &p, &pool));
  double labels[PICKS * T] = {0};
  TT_CHECK_OK(tt_pool_read_rows_local(pool, row, PICKS, got, labels));
  for (int i = 0; i < PICKS; i++)
    for (int k = 0; k < WIDE; k++) TT_CHECK(got[i * WIDE + k], ==, (double)wide[row[i] * WIDE + k]);
  for (int i = 0; i < PICKS * T; i++)
    TT_CHECK(isnan(labels[i]) != 0, ==, 1); /* a pool without labels */
  tt_pool_close_local(&pool);
  tt_columns_free(&many);
}

TT_TEST (excluded_rows) {
  static const int64_t numbers[] = {1699, 0, 8, 7};
  static int8_t mask[1700];
  make_values();
  for (int i = 0; i < 4; i++) mask[numbers[i]] = 1;
  put_file(name[0], 0, 1700, mask);
  tt_pool_options p = plan();
  p.files = 1;
  p.exclude = "mask";
  tt_barrier(comm);
  tt_pool *pool = opened(&p);
  for (int64_t i = 0; i < 1700; i++)
    TT_CHECK(tt_pool_is_excluded(pool, FIRST + i), ==, (int)mask[i]);
  tt_pool_close_local(&pool);
  mask[1699] = 3;
  put_file(name[0], 0, 1700, mask);
  refused(&p, TT_E_DATA, "'mask' (pool.exclude), row 1699: 3", name[0]);
  p.exclude = "x";
  refused(&p, TT_E_DATA, "'x'", name[0]);
}

/* The same rows in one file or in three have one hash; another value gives another hash. */
TT_TEST (the_hash_depends_on_rows_and_not_on_files) {
  uint64_t hash[4];
  put();
  for (int way = 0; way < 4; way++) {
    tt_pool_options p = plan();
    if (way == 2) x[0] += 1.0f;
    if (way == 3) p.labels = NULL;
    if (way) put_file(name[0], 0, ROWS, NULL);
    if (way) p.files = 1;
    tt_barrier(comm);
    tt_pool *pool = opened(&p);
    hash[way] = tt_pool_hash(pool);
    tt_pool_close_local(&pool);
    tt_barrier(comm);
  }
  TT_CHECK(hash[1] == hash[0], ==, 1);
  TT_CHECK(hash[2] == hash[1], ==, 0);
  TT_CHECK(hash[3] == hash[2], ==, 0);
}

/* names */

/* Rank 0 writes the first rows with these names, column k of the file being column from[k]. */
static void put_named(const char *const *x_names, const char *const *y_names, const int *src,
                      int64_t rows)
{
  static float mixed[ROWS * D];
  static double labels[ROWS * T];
  tt_h5_file *f = NULL;
  const int64_t inputs[] = {rows, D}, targets[] = {rows, T};
  for (int64_t i = 0; i < rows * D; i++) mixed[i] = x[i / D * D + src[i % D]];
  for (int64_t i = 0; i < rows * T; i++) labels[i] = y[i / T * T + (y_names ? 1 - i % T : i % T)];
  if (tt_comm_is_root(comm)) {
    TT_CHECK_OK(tt_h5_create(NULL, name[0], 0, &f));
    tt_h5_write_from_root(f, "x", TT_H5_F32, 2, inputs, mixed);
    tt_h5_write_from_root(f, "y", TT_H5_F64, 2, targets, labels);
    if (x_names) tt_h5_write_texts(f, "feature_name", D, 8, x_names);
    if (y_names) tt_h5_write_texts(f, "target_name", T, 8, y_names);
    TT_CHECK_OK(tt_h5_commit(&f));
  }
  tt_barrier(comm);
}

TT_TEST (columns_are_matched_by_their_names) {
  enum { FEW = 300 };
  static const int turned[] = {2, 0, 1}, straight[] = {0, 1, 2};
  static const char *const mixed[] = {"c", "a", "b"}, *const other[] = {"a", "b", "d"},
                           *const swapped[] = {"v", "u"};
  static char *x_wanted[] = {"a", "b", "c"}, *y_wanted[] = {"u", "v"};
  const tt_columns named = {D, x_wanted, unit, 1, NULL, NULL, 0},
                   labels = {T, y_wanted, unit, 1, NULL, NULL, 0};
  static double got[FEW * D];
  tt_pool_options p = plan();
  p.files = 1;
  p.input = &named;
  p.target = &labels;
  make_values();
  for (int with = 0; with < 2; with++) { /* without names the columns are used by position */
    put_named(with ? mixed : NULL, with ? swapped : NULL, with ? turned : straight, FEW);
    tt_pool *pool = opened(&p);
    TT_CHECK_OK(tt_pool_read_local(pool, FIRST, FEW, got));
    for (int i = 0; i < FEW * D; i++) TT_CHECK(got[i], ==, (double)x[i]);
    check_picks(pool, 2, (int64_t[]){3, 250});
    tt_pool_close_local(&pool);
    tt_barrier(comm);
  }
  put_named(other, NULL, straight, FEW);
  refused(&p, TT_E_DATA, "'x' has 3 columns: a, b, d; but data.file has 3: a, b, c", name[0]);
}

/* errors */

TT_TEST (what_does_not_fit_is_named_on_all_ranks) {
  static const char *const away[] = {"/no/such.h5"};
  put();
  tt_pool_options p = plan();
  p.input = &target;
  refused(&p, TT_E_DATA, "'x' has 3 columns: x0, x1, x2; but data.file has 2: y0, y1", name[0]);
  p = plan();
  p.target = &input;
  refused(&p, TT_E_DATA, "'y' has 2 columns: y0, y1; but data.file has 3: x0, x1, x2", name[0]);
  p = plan();
  p.inputs = "nothing";
  refused(&p, TT_E_DATA, "there is no dataset 'nothing'", "there are: narrow, x, y");
  p = plan();
  p.files = 1;
  p.file = away;
  refused(&p, TT_E_NOINPUT, "/no/such.h5", "No such file");
  put_file(name[2], 0, 0, NULL);
  p = plan();
  refused(&p, TT_E_DATA, "'x' has no rows", name[2]);
}

static void fails(tt_err e, const char *one, const char *two)
{
  TT_CHECK((int)e, ==, (int)TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), one);
  TT_CHECK_HAS(tt_err_last(), two);
}

TT_TEST (bad_values_are_named_by_their_place_in_the_file) {
  static double got[ROWS * D], labels[ROWS * T];
  const int64_t one[] = {FIRST + 10, FIRST + 2000};
  put();
  tt_pool_options p = plan();
  tt_pool *pool = opened(&p);
  tt_barrier(comm);
  x[2000 * D + 1] = NAN; /* row 299 of the last file */
  y[10 * T] = INFINITY;
  int64_t begin = 0;
  for (int i = 0; i < FILES; begin += part[i], i++) put_file(name[i], begin, part[i], NULL);
  refused(&p, TT_E_DATA, "'y', row 10, column 0 ('y0'): inf; a label must be finite", name[0]);
  fails(tt_pool_read_local(pool, FIRST, ROWS, got), "dataset 'x', row 299, column 1 ('x1'): nan",
        name[2]);
  fails(tt_pool_read_rows_local(pool, one, 2, got, NULL), "row 299, column 1 ('x1'): nan", name[2]);
  fails(tt_pool_read_rows_local(pool, one, 1, NULL, labels), "'y', row 10, column 0 ('y0'): inf",
        name[0]);
  fails(tt_pool_read_local(pool, FIRST + ROWS - 1, 2, got), "candidates 5999 to 6000 are needed",
        "the pool has 1000 to 5999");
  fails(tt_pool_read_local(pool, FIRST - 1, 1, got), "candidates 999 to 999", "1000");
  tt_barrier(comm);
  put_file(name[2], 0, 3, NULL);
  put_file(name[0], 0, 3, NULL);
  tt_barrier(comm);
  fails(tt_pool_read_local(pool, FIRST + 1701, 1, got), "has 3 rows on this rank, but had 3299",
        name[2]);
  tt_pool_close_local(&pool);
}

static tt_err open_and_close(tt_comm *c)
{
  const tt_pool_options p = plan();
  tt_pool *pool = NULL;
  tt_err e = tt_pool_open(c, &p, &pool);
  tt_pool_close_local(&pool);
  return e;
}

/* A rank that fails before any collective step takes all others with it; nothing leaks. */
TT_TEST (a_fault_at_any_vote_is_shared) {
  put();
  each_vote_may_fail(open_and_close);
}

/* pool_scores.h5 */

static float score_of(int64_t list, int64_t row)
{
  return (row + list) % 5 == 0 ? NAN : (float)(row * 3 + list) * 0.125f;
}

/* Slices of all sizes, also empty ones on some ranks. */
static void write_scores(const char *file, int64_t lists, int64_t rows, int64_t chunk)
{
  static const char *const list[] = {"warm", "cold", "other"};
  tt_pool_scores_writer *f = NULL;
  int rank = tt_comm_rank(comm), ranks = tt_comm_ranks(comm);
  TT_CHECK_OK(tt_pool_scores_create(comm, file, lists, list, FIRST, rows, NULL, &f));
  int64_t begin = rank ? rows * (rank + 1) / (ranks + 1) : 0;
  int64_t end = rows * (rank + 2) / (ranks + 1);
  for (int64_t round = 0, most = rows / chunk + 1; round < most; round++) {
    float score[3 * 64];
    int64_t offset = begin + round * chunk, n = end - offset < chunk ? end - offset : chunk;
    if (n < 0) n = 0;
    for (int64_t i = 0; i < lists * n; i++) score[i] = score_of(i / n, offset + i % n);
    TT_CHECK_OK(tt_pool_scores_write(f, FIRST + offset, n, n ? score : NULL));
  }
  TT_CHECK_OK(tt_pool_scores_commit(&f));
}

TT_TEST (scores_are_read_as_written) {
  static const int64_t rows[] = {1, 2, 64, 333};
  char file[2 * SCRATCH_ROOM];
  float got[333];
  snprintf(file, sizeof file, "%s/pool_scores.h5", scratch);
  for (int64_t lists = 1; lists <= 3; lists++)
    for (int k = 0; k < 4; k++) {
      tt_pool_scores_reader *r = NULL;
      write_scores(file, lists, rows[k], k % 2 ? 64 : 33);
      TT_CHECK_OK(tt_pool_scores_open_local(file, &r));
      TT_CHECK(r->lists, ==, lists);
      TT_CHECK(r->first, ==, FIRST);
      TT_CHECK(r->rows, ==, rows[k]);
      for (int64_t l = 0; l < lists; l++) {
        TT_CHECK_OK(
            tt_pool_scores_read_local(r, l, FIRST + rows[k] / 3, rows[k] - rows[k] / 3, got));
        for (int64_t i = rows[k] / 3; i < rows[k]; i++)
          same((double)got[i - rows[k] / 3], (double)score_of(l, i));
      }
      TT_CHECK((int)tt_pool_scores_read_local(r, 0, FIRST, rows[k] + 1, got), ==, (int)TT_E_DATA);
      tt_pool_scores_close_local(&r);
      tt_barrier(comm);
    }
}

TT_TEST (scores_are_complete_or_absent) {
  char file[2 * SCRATCH_ROOM];
  tt_pool_scores_writer *f = NULL;
  tt_pool_scores_reader *r = NULL;
  snprintf(file, sizeof file, "%s/half.h5", scratch);
  TT_CHECK_OK(tt_pool_scores_create(comm, file, 1, NULL, 0, 10, NULL, &f));
  tt_pool_scores_discard(&f);
  tt_pool_scores_discard(&f);
  TT_CHECK((int)tt_pool_scores_open_local(file, &r), ==, (int)TT_E_NOINPUT);
  TT_CHECK(scratch_count(scratch, ".tmp"), ==, 0);
  TT_CHECK((int)tt_pool_scores_create(comm, "/no/such/place.h5", 1, NULL, 0, 10, NULL, &f), ==,
           (int)TT_E_CANTCREAT);
  put();
  TT_CHECK((int)tt_pool_scores_open_local(name[0], &r), ==, (int)TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "there is no dataset 'score'");
  tt_barrier(comm);
}

static int begin(void **unused)
{
  for (int i = 0; i < FILES; i++) snprintf(name[i], sizeof name[i], "%s/pool-%d.h5", scratch, i);
  return errors_only(unused);
}

TT_SUITE(begin, NULL)
