/* test_shared_table.c — a CSV file of all ranks: rank 0 finds its rows, the others read only the
 * blocks that they need, and all get the same values or the same error. */
#include "tests/mpi/io/samples.h"

#include "io/data/pool.h"

#include <inttypes.h>
#include <string.h>
#include <zlib.h>

enum { NOTE = 1500, WINDOW = 1 << 18 }; /* bytes of a column that is not used; see csv_lines.c */

static char table[SCRATCH_ROOM + 32], job[1024];
static int64_t table_bytes;

/* Collective. The present values as a CSV file, compressed if the name says so; *last is put behind
 * the last row. */
static void put_table(const char *name, const char *last)
{
  static char note[NOTE + 1];
  snprintf(table, sizeof table, "%s/%s", scratch, name);
  memset(note, 'n', NOTE);
  tt_barrier(comm); /* no rank still reads the file before */
  if (tt_comm_is_root(comm)) {
    gzFile f = gzopen(table, strstr(name, ".gz") ? "wb1" : "wbT");
    assert_non_null(f);
    gzprintf(f, "# two\n\"note, long\",a,b,c,load,state,key\n");
    for (int i = 0; i < N; i++) {
      gzputs(f, i % 3 ? note : "\"two\nlines\"");
      gzprintf(f, ",%.17g,%.17g,%.17g,%.17g,", x[i * D], x[i * D + 1], x[i * D + 2], y[i * T]);
      if (!isnan(y[i * T + 1])) gzprintf(f, "%.17g", y[i * T + 1]);
      gzprintf(f, ",k%d\n", i);
    }
    gzputs(f, last);
    table_bytes = (int64_t)gztell(f);
    gzclose(f);
  }
  tt_bcast(comm, &table_bytes, sizeof table_bytes);
}

/* Local. A job of this file. */
static tt_config *job_of(const char *data_file, const char *options)
{
  tt_config *cfg = NULL;
  int64_t bytes = snprintf(job, sizeof job, "data: {file: \"%s\", %s}\nensembles: [{name: a}]\n",
                           data_file, options);
  TT_CHECK_OK(tt_config_parse("job.yaml", job, bytes, NULL, 0, &cfg));
  return cfg;
}

static tt_dataset *read_job(const char *data_file, const char *options)
{
  tt_config *cfg = job_of(data_file, options);
  tt_dataset *d = NULL;
  TT_CHECK_OK(tt_data_read(comm, cfg, NULL, &d));
  tt_config_destroy(&cfg);
  return d;
}

/* Rank 0 reads the file once for its rows, and then its own blocks; no other rank reads more than
 * the header, its own blocks, and the rest of a window. All ranks fail together. */
static void check_bytes_read(int64_t before)
{
  int64_t mine = tt_table_bytes_read_local() - before, ranks = tt_comm_ranks(comm);
  int64_t blocks = (N + BLOCK - 1) / BLOCK, rows = (blocks + ranks - 1) / ranks * BLOCK;
  int64_t most = rows * (table_bytes / N) * 3 / 2 + 3 * WINDOW;
  if (most >= table_bytes) most = table_bytes - 1;
  int64_t excess = tt_comm_is_root(comm) ? table_bytes - mine : mine - most;
  tt_allreduce_max_i64(comm, &excess, 1);
  TT_CHECK(excess, <=, 0);
}

TT_TEST (other_ranks_read_only_their_rows) {
  static const char columns[] = "inputs: [a, b, c], targets: [load, state]";
  static const char *const name[] = {"t.csv", "t.csv.gz"};
  make_values();
  put();
  tt_dataset *wanted = read_job(file, "normalize: standard");
  for (int k = 0; k < 2; k++) {
    put_table(name[k], "");
    int64_t before = tt_table_bytes_read_local();
    tt_dataset *d = read_job(table, columns);
    check_bytes_read(before);
    TT_CHECK(d->rows, ==, N);
    assert_memory_equal(d->x, wanted->x, N * D * sizeof *d->x);
    assert_memory_equal(d->y, wanted->y, N * T * sizeof *d->y);
    assert_memory_equal(d->split, wanted->split, N);
    TT_CHECK(d->hash == wanted->hash, ==, 1);
    tt_dataset_destroy(&d);
  }
  tt_dataset_destroy(&wanted);
}

/* data.categories and data.id need passes of rank 0 over their columns, but no other count. */
TT_TEST (rank_0_counts_the_rows_once) {
  make_values();
  put_table("t.csv", "");
  int64_t before = tt_table_bytes_read_local();
  tt_dataset *d = read_job(table, "inputs: [a, b, c], targets: [load, state], id: key, "
                                  "categories: {c: error}");
  int64_t passes = (tt_table_bytes_read_local() - before) / table_bytes;
  tt_allreduce_max_i64(comm, &passes, 1);
  TT_CHECK(passes, <=, 5); /* count, keys of rows, levels, ids, own blocks */
  if (tt_comm_is_root(comm)) assert_string_equal(d->ids.text[N - 1], "k2499");
  tt_dataset_destroy(&d);
}

TT_TEST (an_error_of_a_table_reaches_all_ranks) {
  static const struct {
    const char *last, *one, *two;
  } row[] = {
      {"n,1,2\n", "t.csv:3337", "number of cells: 3"},
      {"n,1,2,x,4,5,6\n", "t.csv:3337: column 'c': 'x' is not a number", "correct the cell"},
      {"n,1,\"2,3,4,5,6\n", "t.csv:3337: a quote in the row that begins", "is not closed"},
  };
  make_values();
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    put_table("t.csv", row[i].last);
    tt_config *cfg = job_of(table, "inputs: [a, b, c], targets: [load, state]");
    refused(cfg, TT_E_DATA, row[i].one, row[i].two);
    tt_config_destroy(&cfg);
  }
  tt_config *cfg = job_of(table, "inputs: [a, bb], targets: load");
  put_table("t.csv", "");
  refused(cfg, TT_E_DATA, "t.csv: ", "there is no column 'bb'");
  tt_config_destroy(&cfg);
}

TT_TEST (a_file_of_another_node_is_refused) {
  tt_row_marks other = {0};
  tt_table *t = NULL;
  make_values();
  put_table("t.csv", "");
  TT_CHECK_OK(tt_table_open_local(table, NULL, &t));
  other = t->marks;
  other.file_bytes++;
  const tt_table_format format = {.marks = &other};
  tt_table *again = NULL;
  TT_CHECK((int)tt_table_open_local(table, &format, &again), ==, (int)TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "the file is changing, or is not the same on all nodes");
  tt_table_close_local(&t);
}

TT_TEST (a_pool_is_counted_by_rank_0) {
  static char *unit[] = {"", "", ""}, *x_name[] = {"a", "b", "c"};
  static const tt_columns input = {D, x_name, unit, 0, NULL, NULL, 0};
  const char *const files[] = {table, table};
  const tt_pool_options p = {.file = files, .files = 2, .inputs = "x", .input = &input};
  tt_pool *pool = NULL;
  double got[2 * D];
  make_values();
  put_table("t.csv", "");
  int64_t before = tt_table_bytes_read_local();
  TT_CHECK_OK(tt_pool_open(comm, &p, &pool));
  TT_CHECK(tt_pool_rows(pool), ==, 2 * N);
  TT_CHECK_OK(tt_pool_read_local(pool, 2 * N - 2, 2, got));
  for (int k = 0; k < 2 * D; k++) TT_CHECK(got[k], ==, (double)x[(N - 2) * D + k]);
  int64_t more = tt_comm_is_root(comm) ? 0 : tt_table_bytes_read_local() - before;
  tt_allreduce_max_i64(comm, &more, 1);
  TT_CHECK(more, <=, 3 * table_bytes / 2); /* at most one block of rows in each file */
  tt_pool_close_local(&pool);
}

TT_SUITE(name_samples, NULL)
