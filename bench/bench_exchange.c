/* bench_exchange.c — what the link between ranks gives to members that several ranks train: time of
 * an exchange of all ranks with all, by the bytes of a message, as tt_team_exchange does it.
 *
 *   mpirun -n 2 build/bench/bench_exchange
 *
 * Prints one JSON line: lambda, the microseconds of a message of 8 bytes, and beta, the bytes per
 * second that a rank sends in messages of 16 MiB. The median and the fastest of many runs: other
 * programs on the machine make single runs slower. */
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "mpi/team.h"

#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 101, BYTES = 1 << 24 };

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sorted seconds of RUNS exchanges in which each rank sends `bytes` to each other rank. */
static tt_err time_exchanges(tt_team *t, int64_t bytes, double seconds[RUNS])
{
  int ranks = tt_team_ranks(t), rank = tt_team_rank(t), n = 0;
  tt_team_message *send = NULL, *receive = NULL;
  char *out = NULL, *in = NULL;
  tt_err e = TT_ALLOC(send, ranks);
  if (!e) e = TT_ALLOC(receive, ranks);
  if (!e) e = TT_ALLOC(out, bytes);
  if (!e) e = TT_ALLOC(in, bytes * ranks);
  for (int r = 0; !e && r < ranks; r++) {
    if (r == rank) continue;
    send[n] = (tt_team_message){r, bytes, out};
    receive[n++] = (tt_team_message){r, bytes, in + r * bytes};
  }
  for (int i = 0; !e && i < RUNS; i++) {
    int64_t ready = 0;
    tt_team_max(t, &ready, 1);
    double before = tt_monotonic_seconds();
    tt_team_exchange(t, n, send, n, receive);
    seconds[i] = tt_monotonic_seconds() - before;
  }
  tt_free_all(&send, &receive, &out, &in);
  qsort(seconds, RUNS, sizeof *seconds, compare);
  return e;
}

static tt_err measure(tt_comm *c, tt_team *t)
{
  double small[RUNS] = {0.0}, large[RUNS] = {0.0}, messages = tt_team_ranks(t) - 1;
  TT_TRY(time_exchanges(t, 8, small));
  TT_TRY(time_exchanges(t, BYTES, large));
  if (!tt_comm_is_root(c)) return TT_OK;
  printf(
      "{\"bench\": \"exchange\", \"ranks\": %d, \"lambda_us\": %.2f, \"fastest_lambda_us\": %.2f, "
      "\"beta_gb_s\": %.2f, \"fastest_beta_gb_s\": %.2f}\n",
      tt_team_ranks(t), 1e6 * small[RUNS / 2] / messages, 1e6 * small[0] / messages,
      1e-9 * BYTES * messages / large[RUNS / 2], 1e-9 * BYTES * messages / large[0]);
  return TT_OK;
}

int main(void)
{
  tt_comm *c = NULL;
  tt_team *t = NULL;
  tt_err e = tt_comm_begin(&c);
  if (!e && tt_comm_ranks(c) < 2) e = TT_FAIL(USAGE, "1 rank: start it with mpirun -n 2");
  if (!e) e = tt_team_create(c, 0, &t);
  if (!e) e = tt_agree(c, measure(c, t));
  if (e) fprintf(stderr, "bench_exchange: %s\n", tt_err_last());
  tt_team_destroy(&t);
  tt_comm_end(&c);
  return e ? tt_err_exit_code(e) : 0;
}
