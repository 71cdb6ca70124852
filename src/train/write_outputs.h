/* write_outputs.h — outputs of a finished run: model.h5, results.h5 and the table of scores. */
#ifndef TT_WRITE_OUTPUTS_H
#define TT_WRITE_OUTPUTS_H
#include "io/results/trials.h"
#include "src/train/shard/shard.h"

/* Whether the scores of the job have baselines. Local. */
int tt_run_has_baselines(const tt_config *cfg);

/* Collective. Write model.h5 and results.h5 into run.directory, print the scores unless `quiet`.
 *   shards  no member trains any more; states saved by tt_shard_save_local
 *   trials      of a search; they get their weights. count 0: none
 *   provenance  provenance for both files
 * Errors: CANTCREAT, IO, MEM. */
tt_err tt_write_outputs(tt_comm *c, const tt_job *job, const tt_shards *shards, tt_trials *trials,
                        const tt_provenance *provenance, int quiet, int no_scores);
#endif
