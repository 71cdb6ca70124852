/* team_training.h — members that the ranks of a team train together, each some parts of every batch
 * (train.parts, run.ranks_per_member), some layers (run.stages), or both. Every function is
 * collective over the ranks of the team, and local for a shard without a team.
 *
 * One step: each rank adds the gradients of its parts as far as the tree of core/model/parts.h
 * allows; the ranks exchange losses, then the sums: each gets those of its segment of the
 * parameters, adds them in tree order, and takes the optimizer step of the segment; then they
 * exchange the new weights. All ranks then end the step, and the epoch, with the same bits as one
 * rank with all parts. Only rank 0 of the team has the members in its shard. A step in stages:
 * team_stages.c. */
#ifndef TT_TEAM_TRAINING_H
#define TT_TEAM_TRAINING_H
#include "src/train/shard/shard.h"

/* Train each member of the shard for up to `steps` optimizer steps, as tt_shard_train_local; with a
 * team, the steps of its rank 0 count. Ends early if a rank of the team has an error or has
 * received a signal to stop.
 *   before  error of this rank so far: with an error nothing is trained, on any rank of the team
 * Returns the error of this rank, so that a vote must follow. Errors: `before`, of the engine, MEM.
 */
tt_err tt_team_train(tt_shard *shard, tt_err before, int64_t steps);

/* Give rank 0 of the team the whole state of its members, also after an error of a rank. Does
 * nothing if it has it. before, result: as for tt_team_train. Errors: `before`, of the engine. */
tt_err tt_team_collect(tt_shard *shard, tt_err before);

/* Bytes of host memory on a rank for what it exchanges.
 *   stages, on_device  as in tt_shard_team. Local. */
int64_t tt_team_buffer_bytes_local(const tt_cohort *c, int stages, int on_device, int ranks,
                                   int rank);

/* The same in memory of its GPU, with tt_shard_team.on_device. */
int64_t tt_team_device_bytes_local(const tt_cohort *c, int stages, int ranks, int rank);
#endif
