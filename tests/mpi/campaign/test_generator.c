/* Laws of the pools that a command makes (src/campaign/pool/candidates.h): the same candidates
 * after any number of starts, and no incomplete file. The command is a shell script that copies a
 * file: the test writes the HDF5 files. */
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/hdf5/h5.h"
#include "src/campaign/pool/candidates.h"
#include "src/campaign/state/file_names.h"
#include "tests/support/check.h"
#include "tests/support/ranks.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

enum { D = 2, ROWS = 6, CHUNKS = 3, ROUND = 4, FIRST = 100 };
static char *x_name[] = {"x0", "x1"}, *unit[] = {"", ""};
static const tt_columns input = {D, x_name, unit, 0, NULL, NULL, 0};
#define SEEDS "0 4-473544357\n1 4-961376347\n2 4-535093978\n"

/* the command and its files */

static float value_of(int64_t chunk, int64_t row, int64_t column)
{
  return (float)(chunk * 100 + row * 10 + column);
}

/* made-N.h5 in the directory of the campaign: the content of chunk N. bad: row 3 has a NaN. */
static void put_made(int64_t chunk, int64_t columns, int bad)
{
  char path[2 * SCRATCH_ROOM];
  float x[ROWS * 8];
  const int64_t dims[] = {ROWS, columns};
  tt_h5_file *f = NULL;
  if (!tt_comm_is_root(comm)) return;
  for (int64_t i = 0; i < ROWS * columns; i++) x[i] = value_of(chunk, i / columns, i % columns);
  if (bad) x[3 * columns] = NAN;
  snprintf(path, sizeof path, "%s/made-%" PRId64 ".h5", scratch, chunk);
  TT_CHECK_OK(tt_h5_create(NULL, path, 0, &f));
  tt_h5_write_from_root(f, "x", TT_H5_F32, 2, dims, x);
  TT_CHECK_OK(tt_h5_commit(&f));
}

/* Collective: the script ./make, which is given {output} {chunk} {round}-{seed}. */
static void put_script(const char *body)
{
  char path[2 * SCRATCH_ROOM];
  snprintf(path, sizeof path, "%s/make", scratch);
  tt_barrier(comm);
  if (tt_comm_is_root(comm)) {
    FILE *f = fopen(path, "w");
    fprintf(f, "#!/bin/sh\n%s\n", body);
    fclose(f);
    chmod(path, 0700);
  }
  tt_barrier(comm);
}

static void begin(void)
{
  char path[TT_PATH_MAX];
  if (tt_comm_is_root(comm)) {
    TT_CHECK_OK(tt_round_remove_local(scratch, ROUND));
    tt_round_path(scratch, ROUND, "", path);
    TT_CHECK_OK(tt_directory_create(path));
    snprintf(path, sizeof path, "%s/calls", scratch);
    unlink(path);
  }
  for (int64_t i = 0; i < CHUNKS; i++) put_made(i, D, 0);
  put_script("echo \"$2 $3\" >> calls; cp made-$2.h5 \"$1\"");
}

static tt_err make(tt_comm *c, double deadline, tt_pool **out)
{
  static char make_it[] = "./make", output[] = "{output}", chunk[] = "{chunk}",
              rest[] = "{round}-{seed}", none[] = "", x[] = "x";
  char *command[] = {make_it, output, chunk, rest};
  tt_config cfg = {.directory = scratch,
                   .campaign_directory = scratch,
                   .pool_file = none,
                   .pool_inputs = x,
                   .pool_labels = none,
                   .pool_exclude = none,
                   .pool_command = {4, command},
                   .pool_chunks = CHUNKS,
                   .run_seed = 7};
  const tt_round_pool_settings o = {&cfg, ROUND, FIRST, &input, NULL, NULL, deadline};
  return tt_round_pool_open(c, &o, out);
}

/* The arguments of all calls. */
static int64_t calls(char text[TT_ERR_MESSAGE_SIZE])
{
  char path[2 * SCRATCH_ROOM];
  int64_t lines = 0;
  snprintf(path, sizeof path, "%s/calls", scratch);
  tt_barrier(comm);
  if (tt_file_read_text(path, text, TT_ERR_MESSAGE_SIZE)) text[0] = '\0';
  for (const char *p = text; *p; p++) lines += *p == '\n';
  tt_barrier(comm);
  return lines;
}

static int leftovers(const char *prefix)
{
  char path[TT_PATH_MAX];
  tt_barrier(comm);
  tt_round_path(scratch, ROUND, "", path);
  int n = scratch_count(path, prefix);
  tt_barrier(comm);
  return n;
}

static void check_pool(tt_pool *pool)
{
  double x[CHUNKS * ROWS * D];
  TT_CHECK(tt_pool_first(pool), ==, FIRST);
  TT_CHECK(tt_pool_rows(pool), ==, CHUNKS * ROWS);
  TT_CHECK_OK(tt_pool_read_local(pool, FIRST, CHUNKS * ROWS, x));
  for (int64_t i = 0; i < CHUNKS * ROWS * D; i++)
    TT_CHECK(x[i], ==, (double)value_of(i / (ROWS * D), i / D % ROWS, i % D));
}

static void made(void)
{
  tt_pool *pool = NULL;
  TT_CHECK_OK(make(comm, 0.0, &pool));
  check_pool(pool);
  tt_pool_close_local(&pool);
  TT_CHECK(leftovers(".tmp"), ==, 0);
  TT_CHECK(leftovers("pool-"), ==, CHUNKS);
}

static void refused(tt_err wanted, const char *one, const char *two)
{
  tt_pool *pool = NULL;
  TT_CHECK((int)make(comm, 0.0, &pool), ==, (int)wanted);
  TT_CHECK_HAS(tt_err_last(), one);
  TT_CHECK_HAS(tt_err_last(), two);
  TT_CHECK(leftovers(".tmp"), ==, 0);
}

/* laws */

TT_TEST (a_round_is_made_once) {
  char first[TT_ERR_MESSAGE_SIZE], again[TT_ERR_MESSAGE_SIZE];
  begin();
  made();
  TT_CHECK(calls(first), ==, CHUNKS);
  TT_CHECK_HAS(first, "0 4-");
  made(); /* another start */
  TT_CHECK(calls(again), ==, CHUNKS);
  assert_string_equal(first, again);
}

/* Recorded once: they depend on run.seed, round and chunk alone. */
TT_TEST (seeds_are_recorded) {
  char text[TT_ERR_MESSAGE_SIZE];
  begin();
  made();
  calls(text);
  assert_string_equal(text, SEEDS);
}

TT_TEST (a_restart_keeps_what_is_there) {
  char text[TT_ERR_MESSAGE_SIZE];
  begin();
  put_script(
      "echo \"$2 $3\" >> calls; test $2 = 1 && { echo alas; exit 3; }; cp made-$2.h5 \"$1\"");
  refused(TT_E_UNAVAILABLE, "./make ended with exit code 3 for chunk 1 of round 4: alas",
          "pool-0001.log");
  TT_CHECK(leftovers("pool-0001"), ==, 1); /* what it printed */
  put_script("echo \"$2 $3\" >> calls; cp made-$2.h5 \"$1\"");
  made();
  TT_CHECK(calls(text), ==, CHUNKS + 1);
}

TT_TEST (every_failed_call_has_its_error) {
  begin();
  put_script("cp made-0.h5 \"$1\"; exit 75");
  refused(TT_E_STOPPED, "retry later (exit code 75) for chunk 0", "run again");
  put_script("kill -9 $$");
  refused(TT_E_UNAVAILABLE, "was ended by signal 9", "run again");
  put_script("exit 0");
  refused(TT_E_DATA, "wrote no file {output}", "pool-0000.log");
  put_script("echo text > \"$1\"");
  refused(TT_E_DATA, "is not an HDF5 file", "chunk 0 of round 4, seed ");
  put_script("cp made-$2.h5 \"$1\"");
  put_made(1, D + 1, 0);
  refused(TT_E_DATA, "'x' has 3 columns: x0, x1, x2; but data.file has 2: x0, x1",
          "chunk 1 of round 4");
  put_made(1, D, 1);
  refused(TT_E_DATA, "dataset 'x', row 3, column 0 ('x0'): nan", "chunk 1 of round 4");
  TT_CHECK(leftovers("pool-0000.h5"), ==, 1);
  tt_barrier(comm);
  if (tt_comm_is_root(comm)) {
    char path[2 * SCRATCH_ROOM];
    snprintf(path, sizeof path, "%s/make", scratch);
    unlink(path);
  }
  refused(TT_E_UNAVAILABLE, "./make cannot be started in", "No such file");
}

/* A request to stop ends a call that would never end, with its children. */
TT_TEST (a_stop_ends_the_call) {
  char path[TT_PATH_MAX], text[TT_ERR_MESSAGE_SIZE];
  tt_pool *pool = NULL;
  begin();
  put_script("echo \"$2\" >> calls; sleep 1000 & touch STOP; sleep 1000");
  TT_CHECK((int)make(comm, 0.0, &pool), ==, (int)TT_E_STOPPED);
  TT_CHECK_HAS(tt_err_last(), "stopped by the file STOP while pool.command made chunk 0");
  TT_CHECK(leftovers(""), ==, 0);
  tt_path_join(scratch, "STOP", path);
  if (tt_comm_is_root(comm)) unlink(path);
  put_script("sleep 1000");
  TT_CHECK((int)make(comm, tt_monotonic_seconds() - 1.0, &pool), ==, (int)TT_E_STOPPED);
  TT_CHECK_HAS(tt_err_last(), "the time limit");
  TT_CHECK(calls(text), >=, 1);
}

static tt_err make_and_close(tt_comm *c)
{
  tt_pool *pool = NULL;
  tt_err e = make(c, 0.0, &pool);
  if (!e) check_pool(pool);
  tt_pool_close_local(&pool);
  TT_CHECK(leftovers(".tmp"), ==, 0);
  if (!e) begin(); /* for the next rank that fails */
  return e;
}

TT_TEST (a_fault_at_any_vote_is_shared) {
  begin();
  each_vote_may_fail(make_and_close);
}

TT_SUITE(errors_only, NULL)
