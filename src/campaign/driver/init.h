/* init.h — `tutti campaign init`: a campaign to begin with. Floor 5; local. */
#ifndef TT_CAMPAIGN_INIT_H
#define TT_CAMPAIGN_INIT_H
#include "core/base/err.h"

/* A commented campaign.yaml in `directory` (made if missing), for the files that are named: their
 * columns and sizes, 10 % of the rows for tests, labels of the pool if it holds any. data, pool:
 * datasets x and y, as tutti import writes them; NULL = a small example: data.h5 and pool.h5 of a
 * made-up function are written beside it.
 * Errors: CANTCREAT (one is there already), NOINPUT, DATA (no such datasets; a pool of other
 * columns), USAGE (a pool without data), IO, MEM. */
tt_err tt_campaign_init_local(const char *directory, const char *data, const char *pool);
#endif
