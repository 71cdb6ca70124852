/* restart.h — for tests of waves: the members of a run continue in shards with other waves, as after
 * a kill. */
#ifndef TT_RESTART_H
#define TT_RESTART_H
#include "tests/support/check.h"

#include "src/train/shard/shard.h"

static inline void save_shards(tt_shards *all)
{
  for (int64_t k = 0; k < all->count; k++) TT_CHECK_OK(tt_shard_save_local(&all->at[k]));
}

/* `again` has the same cohorts, and gets the states of `all`. */
static inline void move_states(tt_shards *all, tt_shards *again)
{
  save_shards(all);
  for (int64_t k = 0; k < all->count; k++) {
    tt_state *fresh = again->at[k].state;
    again->at[k].state = all->at[k].state;
    all->at[k].state = fresh;
    TT_CHECK_OK(tt_shard_load_local(&again->at[k]));
  }
}
#endif
