/* file_names.h — the names of a campaign's files. Floor 5; local.
 *
 *   DIR/campaign.h5      the history: what counts (io/campaign/campaign_files.h)
 *   DIR/journal.jsonl    a line for every finished stage (journal.h)
 *   DIR/status.json      what it does now
 *   DIR/model.h5         of the last whole round
 *   DIR/STOP             a request to pause
 *   DIR/round-0001/      run.directory of its training: data.h5, model.h5, results.h5, checkpoints
 *     pool_scores.h5 queries.h5 labels.h5 pool-0000.h5 label/ */
#ifndef TT_CAMPAIGN_FILE_NAMES_H
#define TT_CAMPAIGN_FILE_NAMES_H
#include "io/hdf5/files.h"

/* DIR/name; DIR/round-0001 (name "") or DIR/round-0001/name. A name that is too long becomes "",
 * which is never found and cannot be made. */
void tt_campaign_path(const char *directory, const char *name, char path[TT_PATH_MAX]);
void tt_round_path(const char *directory, int64_t round, const char *name, char path[TT_PATH_MAX]);
/* Remove the directory of a round and all in it; one that is missing is fine. Errors: IO. */
tt_err tt_round_remove_local(const char *directory, int64_t round);
#endif
