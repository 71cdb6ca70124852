/* test_comm.c — laws of the communicator: all ranks get one error, gathers are complete. */
#include "tests/support/check.h"
#include "tests/support/ranks.h"

#include "core/base/mem.h"
#include "mpi/comm.h"
#include "src/job/job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Any rank may fail any of some votes: all ranks get the same error and the same text. */
TT_TEST (an_error_of_one_rank_is_an_error_of_all) {
  int ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm);
  for (int bad = 0; bad < ranks; bad++) {
    for (int index = 0; index < 4; index++) {
      int votes = 0;
      tt_err e = TT_OK;
      for (; !e && votes < 6; votes++)
        e = tt_agree(comm, rank == bad && votes == index
                               ? TT_FAIL(DATA, "shard %d", 10 * bad + index)
                               : TT_OK);
      char wanted[64];
      snprintf(wanted, sizeof wanted, "shard %d", 10 * bad + index);
      TT_CHECK((int)e, ==, TT_E_DATA);
      TT_CHECK(votes, ==, index + 1);
      TT_CHECK_HAS(tt_err_last(), wanted);
      TT_CHECK_HAS(tt_err_where(), "test_comm.c:");
    }
  }
}

/* For every pair of errors all ranks get the more severe one, whichever rank has it. */
TT_TEST (the_most_severe_error_wins) {
  int last = tt_comm_ranks(comm) - 1, rank = tt_comm_rank(comm);
  for (int a = 0; a < TT_E_COUNT; a++) {
    for (int b = 0; b < TT_E_COUNT; b++) {
      int mine = rank == 0 ? a : rank == last ? b : TT_OK;
      if (mine) (void)tt_fail_at("here", 1, (tt_err)mine, "error %d", mine);
      int wanted = last == 0 ? a : a > b ? a : b;
      char text[32];
      snprintf(text, sizeof text, "error %d", wanted);
      TT_CHECK((int)tt_agree(comm, (tt_err)mine), ==, wanted);
      if (wanted) TT_CHECK_HAS(tt_err_last(), text);
    }
  }
}

/* Each rank but the first may have another text: the lowest such rank and the first other line are
 * named, with the section of an indented line; equal texts are accepted. */
TT_TEST (ranks_with_other_texts_are_named) {
  static const char *const other[] = {"a: 1\ntrain:\n  epochs: 9\nz: 2\n", "a: 1\ntrain:\n",
                                      "a: 1\ntrain:\n  epochs: 5\nz: 2\nmore\n", ""};
  static const char *const said[] = {"has 'epochs: 9', rank 0 has 'epochs: 5' in 'train:'",
                                     "has nothing, rank 0 has 'epochs: 5' in 'train:'",
                                     "has 'more', rank 0 has nothing",
                                     "has nothing, rank 0 has 'a"};
  static const char same[] = "a: 1\ntrain:\n  epochs: 5\nz: 2\n";
  TT_CHECK_OK(tt_agree_same(comm, "test", same));
  TT_CHECK_OK(tt_agree_same(comm, "test", ""));
  for (int bad = 1; bad < tt_comm_ranks(comm); bad++)
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
      char rank[32];
      snprintf(rank, sizeof rank, "test: rank %d ", bad);
      tt_err e = tt_agree_same(comm, "test", tt_comm_rank(comm) >= bad ? other[i] : same);
      TT_CHECK((int)e, ==, TT_E_CONFIG);
      TT_CHECK_HAS(tt_err_last(), rank);
      TT_CHECK_HAS(tt_err_last(), said[i]);
    }
}

/* The configuration of a job, too: the file is that of rank 0, each rank has its own overrides. */
TT_TEST (ranks_with_other_overrides_open_no_job) {
  char path[2 * SCRATCH_ROOM], epochs[32];
  const char *set[] = {epochs};
  tt_job *job = NULL;
  snprintf(path, sizeof path, "%s/job.yaml", scratch);
  FILE *f = tt_comm_is_root(comm) ? fopen(path, "w") : NULL;
  if (f) fputs("data: {file: d.h5}\nensembles: [{name: a}]\n", f);
  if (f) fclose(f);
  tt_barrier(comm);
  tt_job_options o = {.file = path, .set = set, .nset = 1};
  for (int differs = 0; differs < 2; differs++) {
    snprintf(epochs, sizeof epochs, "train.epochs=%d", 5 + differs * tt_comm_rank(comm));
    tt_err e = tt_job_open(comm, &o, &job);
    TT_CHECK((int)e, ==, differs && tt_comm_ranks(comm) > 1 ? TT_E_CONFIG : TT_OK);
    if (e)
      TT_CHECK_HAS(tt_err_last(), "rank 1 has 'epochs: 6', rank 0 has 'epochs: 5' in 'train:'");
    tt_job_close(&job);
  }
}

TT_TEST (long_texts_are_not_cut) {
  static char text[12000];
  int last = tt_comm_ranks(comm) - 1;
  memset(text, 'a', sizeof text - 1);
  tt_err mine = tt_comm_rank(comm) == last ? TT_FAIL(CONFIG, "%s", text) : TT_OK;
  TT_CHECK((int)tt_agree(comm, mine), ==, TT_E_CONFIG);
  TT_CHECK((int)strlen(tt_err_last()), ==, (int)sizeof text - 1);
}

/* The n-th vote fails on the rank named in the environment, and no other. */
TT_TEST (a_fault_can_be_injected_at_every_vote) {
  for (int bad = 0; bad < tt_comm_ranks(comm); bad++) {
    for (int index = 1; index <= 3; index++) {
      tt_comm *c = comm_with_fault(bad, index);
      for (int v = 1; v <= 5; v++)
        TT_CHECK((int)tt_agree(c, TT_OK), ==, v == index ? TT_E_IO : TT_OK);
      TT_CHECK_HAS(tt_err_last(), "TUTTI_FAULT");
      TT_CHECK(tt_comm_votes(c), ==, 5);
      tt_comm_end(&c);
    }
  }
}

TT_TEST (a_malformed_fault_is_refused) {
  static const char *const wrong[] = {"1", "x:1", "0:0", "-1:2", "0:1x", ""};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    tt_comm *c = NULL;
    setenv("TUTTI_FAULT", wrong[i], 1);
    TT_CHECK((int)tt_comm_begin(&c), ==, TT_E_USAGE);
    unsetenv("TUTTI_FAULT");
    assert_null(c);
  }
}

static unsigned char byte_of(int rank, int64_t i) { return (unsigned char)(31 * rank + 7 * i); }

/* Every rank has a different size, one has 0; the result is the parts in rank order. */
static void check_gather(int64_t unit, int to_all)
{
  int ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm);
  unsigned char *mine = NULL, *all = NULL;
  int64_t counts[16] = {0}, size = rank * unit + (rank ? rank : 0), total = 0, at = 0;
  for (int r = 0; r < ranks; r++) total += r * unit + r;
  TT_CHECK_OK(TT_ALLOC(mine, size));
  TT_CHECK_OK(TT_ALLOC(all, total));
  for (int64_t i = 0; i < size; i++) mine[i] = byte_of(rank, i);
  if (to_all)
    tt_allgatherv(comm, mine, size, all, counts);
  else
    tt_gatherv(comm, mine, size, rank == 0 ? all : NULL, counts);
  int64_t wrong = 0;
  for (int r = 0; r < ranks && (to_all || rank == 0); r++) {
    TT_CHECK(counts[r], ==, r * unit + r);
    for (int64_t i = 0; i < counts[r]; i++) wrong += all[at + i] != byte_of(r, i);
    at += counts[r];
  }
  TT_CHECK(wrong, ==, 0);
  tt_free(mine);
  tt_free(all);
}

TT_TEST (gathers_of_uneven_sizes_are_complete) {
  static const int64_t units[] = {0, 1, 1000, 3000001};
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    check_gather(units[i], 1);
    check_gather(units[i], 0);
  }
}

/* More bytes than an int can count: sizes and offsets have 64 bits. Rank 1 has them all, so the
 * test needs two ranks and 4.3 GiB; it runs on request only. */
TT_TEST (a_gather_may_exceed_two_gibibytes) {
  const int64_t big = ((int64_t)1 << 31) + 12345;
  int rank = tt_comm_rank(comm);
  if (!getenv("TUTTI_TEST_BIG") || tt_comm_ranks(comm) != 2) skip();
  unsigned char *mine = NULL, *all = NULL;
  int64_t size = rank ? big : 3, counts[2];
  TT_CHECK_OK(TT_ALLOC(mine, size));
  TT_CHECK_OK(TT_ALLOC(all, rank ? 0 : big + 3));
  mine[size - 1] = (unsigned char)(rank + 1);
  tt_gatherv(comm, mine, size, rank ? NULL : all, counts);
  TT_CHECK(counts[1], ==, big);
  if (!rank) TT_CHECK(all[2] * 256 + all[big + 2], ==, 256 + 2);
  tt_free(mine);
  tt_free(all);
}

TT_TEST (sums_and_maxima_are_those_of_all_ranks) {
  int64_t ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm);
  int64_t sum[3] = {1, rank, INT64_C(1) << 40}, most[2] = {rank, -rank};
  double peak[2] = {(double)rank + 0.5, -(double)rank};
  tt_allreduce_sum_i64(comm, sum, 3);
  tt_allreduce_max_i64(comm, most, 2);
  tt_allreduce_max_f64(comm, peak, 2);
  TT_CHECK(sum[0], ==, ranks);
  TT_CHECK(sum[1], ==, ranks * (ranks - 1) / 2);
  TT_CHECK(sum[2], ==, ranks << 40);
  TT_CHECK(most[0], ==, ranks - 1);
  TT_CHECK(most[1], ==, 0);
  TT_CHECK(peak[0], ==, (double)ranks - 0.5);
  TT_CHECK(peak[1], ==, 0.0);
}

TT_TEST (a_broadcast_comes_from_rank_0) {
  char text[100];
  snprintf(text, sizeof text, "rank %d", tt_comm_rank(comm));
  tt_bcast(comm, text, sizeof text);
  assert_string_equal(text, "rank 0");
}

TT_TEST (node_ranks_number_the_ranks_of_a_node) {
  int64_t seen[64] = {0};
  TT_CHECK(tt_comm_node_ranks(comm), ==, tt_comm_ranks(comm)); /* tests run on one machine */
  seen[tt_comm_node_rank(comm)] = 1;
  tt_allreduce_sum_i64(comm, seen, 64);
  for (int i = 0; i < tt_comm_node_ranks(comm); i++) TT_CHECK(seen[i], ==, 1);
}

/* Slurm promised several tasks but the world has one rank: an error that names the remedy, except
 * under mpirun, which starts the requested number of ranks. */
TT_TEST (singletons_are_rejected) {
  tt_comm *c = NULL;
  char *launched = getenv("OMPI_COMM_WORLD_SIZE"), kept[16] = "";
  if (launched) snprintf(kept, sizeof kept, "%s", launched);
  int one = tt_comm_ranks(comm) == 1;
  setenv("SLURM_NTASKS", "4", 1);
  unsetenv("OMPI_COMM_WORLD_SIZE");
  TT_CHECK((int)tt_comm_begin(&c), ==, one ? TT_E_UNAVAILABLE : TT_OK);
  const char *remedy = tt_comm_has_mpi_local() ? "srun --mpi=pmix" : "build tutti with MPI";
  if (one) TT_CHECK_HAS(tt_err_last(), remedy);
  tt_comm_end(&c);
  setenv("OMPI_COMM_WORLD_SIZE", launched ? kept : "1", 1);
  TT_CHECK_OK(tt_comm_begin(&c));
  tt_comm_end(&c);
  unsetenv("SLURM_NTASKS");
}
