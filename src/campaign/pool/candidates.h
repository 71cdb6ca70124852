/* candidates.h — the candidates of a round: rows of pool.file, or the output of pool.command.
 *
 * pool.command runs pool.chunks times per round, without a shell, in the directory of the
 * campaign file; its arguments and exit codes are in docs/active-learning.md. A call writes one
 * HDF5 file with a dataset pool.inputs (and pool.labels, if that is given), under a temporary name
 * in the directory of the round. If the exit code is 0 and the file is valid, the file is renamed
 * to DIR/round-0012/pool-0003.h5 and never generated again. The output that a failed call printed
 * is kept in pool-0003.log. */
#ifndef TT_CANDIDATES_H
#define TT_CANDIDATES_H
#include "core/config/config.h"
#include "io/data/pool.h"

typedef struct tt_round_pool_settings {
  const tt_config *cfg; /* section pool, campaign.directory, run.seed */
  int64_t round;
  int64_t first; /* number of the round's first candidate: 0 with pool.file; else the sum
                             of pool_rows over all earlier rounds */
  const tt_columns *input, *target; /* columns of data.file */
  const tt_net_inputs *net;         /* their levels, or NULL */
  double deadline;                  /* as in tt_stop_agreed */
} tt_round_pool_settings;

/* Open the candidates of a round; generate the missing chunks first.
 * Collective: rank 0 runs the command, one call at a time; all ranks wait and send the heartbeat of
 * the watchdog. The round's directory must exist. Owner of *out: the caller, tt_pool_close_local.
 * Errors: STOPPED (stop request: the running call is killed; or exit code 75); UNAVAILABLE (the
 * command cannot be started, or another exit code); DATA (the output of the command, or pool.file,
 * is invalid: as tt_pool_open); NOINPUT, CANTCREAT, IO, MEM. */
tt_err tt_round_pool_open(tt_comm *c, const tt_round_pool_settings *o, tt_pool **out);
#endif
