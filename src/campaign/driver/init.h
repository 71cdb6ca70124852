/* init.h — `tutti campaign init`: write a first campaign file. Local. */
#ifndef TT_CAMPAIGN_INIT_H
#define TT_CAMPAIGN_INIT_H
#include "core/base/err.h"

/* Write a commented campaign.yaml to `directory` (created if missing) that fits the columns and
 * sizes of the given files: 10 % of the rows for tests, hidden labels if the pool has labels.
 *   data, pool  data files of any kind (io/data/data.h); both NULL = a small example: data.h5 and
 *               pool.h5 of an artificial function are written too
 *   inputs, targets  datasets or columns of `data`, NULL = x and y
 * Errors: CANTCREAT (campaign.yaml exists), NOINPUT, DATA (no such datasets or columns; the pool
 * has other columns), USAGE (a pool without data), IO, MEM. */
tt_err tt_campaign_init_local(const char *directory, const char *data, const char *pool,
                              const char *inputs, const char *targets);
#endif
