/* candidates.h — the candidates of a round: rows of pool.file, or what pool.command writes. Floor
 * 5.
 *
 * pool.command is run pool.chunks times a round, without a shell, in the directory of the campaign
 * file; inside its arguments {output} is the file to write, {round} the number of the round (1, 2,
 * ...), {chunk} that of the call (0, 1, ...) and {seed} a number from 0 to 2^31 - 1 that depends on
 * (run.seed, round, chunk) alone and is another one for each call of a campaign. A call writes one
 * HDF5 file with a dataset pool.inputs (and pool.labels, if that is given), under a temporary name
 * in the directory of the round; once the exit code is 0 and the file was looked at it becomes
 * DIR/round-0012/pool-0003.h5 and is never made again. What a call that failed has printed stays as
 * pool-0003.log.
 *
 * exit code       meaning
 *   0             the file is there
 *   75            stop the campaign for now: run again later
 *   any other     stop the campaign: somebody has to look */
#ifndef TT_CANDIDATES_H
#define TT_CANDIDATES_H
#include "core/config/config.h"
#include "io/data/pool.h"

typedef struct tt_round_pool_settings {
  const tt_config *cfg; /* section pool, campaign.directory, run.seed */
  int64_t round;
  int64_t first;          /* number of the round's first candidate: 0 with pool.file; else the
                             pool_rows of all rounds before */
  int64_t width, targets; /* of the data */
  double deadline;        /* as tt_stop_agreed */
} tt_round_pool_settings;

/* Collective; rank 0 runs the command, one call at a time, all wait and feed the watchdog. The
 * round's directory must be there. Owner of *out: the caller, tt_pool_close_local. Errors: STOPPED
 * (asked to stop: the call that runs is ended; or exit code 75); UNAVAILABLE (the command cannot be
 * started, or another exit code); DATA (what it wrote, or pool.file, is not usable: as
 * tt_pool_open); NOINPUT, CANTCREAT, IO, MEM. */
tt_err tt_round_pool_open(tt_comm *c, const tt_round_pool_settings *o, tt_pool **out);
#endif
