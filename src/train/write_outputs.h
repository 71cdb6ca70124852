/* write_outputs.h — what a finished run leaves: model.h5, results.h5 and a table. Floor 4. */
#ifndef TT_WRITE_OUTPUTS_H
#define TT_WRITE_OUTPUTS_H
#include "src/train/shard.h"

/* Collective. Write model.h5 and results.h5 into run.directory, print the scores unless `brief`.
 *   crews  their states are all done and out of the engines
 * Errors: CANTCREAT, IO, MEM. */
tt_err tt_write_outputs(tt_comm *c, const tt_job *job, const tt_shards *shards,
                        const tt_provenance *from, int quiet);
#endif
