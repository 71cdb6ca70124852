/* average_moments.h — running means and variances of batch_norm for averaged weights. The average
 * of the running values is not what the averaged weights need, so they are computed again, as
 * torch.optim.swa_utils.update_bn does (Izmailov et al. 2018, arXiv 1803.05407, section 3.2). */
#ifndef TT_AVERAGE_MOMENTS_H
#define TT_AVERAGE_MOMENTS_H
#include "src/train/shard/shard.h"

/* Collective; when no member trains any more. For members with train.average and batch_norm whose
 * weights have been averaged: pass the training rows through the averaged weights, as often as the
 * running values need to forget what they were, and put the new ones into shard->state. Call
 * tt_checkpointing_save_states before. The engine of such a shard is destroyed.
 * Errors: of the engine, MEM. */
tt_err tt_average_moments(tt_comm *c, const tt_job *job, tt_shards *all);
#endif
