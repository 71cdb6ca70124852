/* file_names.h — the names of a campaign's files. Floor 5; local.
 *
 *   DIR/campaign.h5      the history: what counts (io/campaign/campaign_files.h)
 *   DIR/journal.jsonl    a line for every finished stage (journal.h)
 *   DIR/status.json      what it does now
 *   DIR/model.h5         of the last whole round
 *   DIR/STOP             a request to pause
 *   DIR/round-0001/      run.directory of its training: model.h5, results.h5, checkpoints
 *     pool_scores.h5 queries.h5 pool-0000.h5 label/ */
#ifndef TT_CAMPAIGN_FILE_NAMES_H
#define TT_CAMPAIGN_FILE_NAMES_H
#include "io/hdf5/files.h"

/* DIR/name; DIR/round-0001 (name "") or DIR/round-0001/name. A name that is too long becomes "",
 * which is never found and cannot be made. */
void tt_campaign_path(const char *directory, const char *name, char path[TT_PATH_MAX]);
void tt_round_path(const char *directory, int64_t round, const char *name, char path[TT_PATH_MAX]);
/* Remove the directory of a round and all in it; one that is missing is fine. Errors: IO. */
tt_err tt_round_remove_local(const char *directory, int64_t round);

/* ---- Labels: DIR/round-0012/label/0003 is the directory of one group ---- */

#define TT_LABEL_ACCEPTED_FILE "accepted.h5" /* in it: the labels that were accepted */
#define TT_LABEL_FAILED_FILE "failed"      /* in it: why there are none */

/* The numbers of the groups in a directory `label`, ascending; a directory that is missing has
 * none. Owner: the caller, tt_free. Errors: IO, MEM. */
tt_err tt_label_groups_list_local(const char *label, int64_t **number, int64_t *count);
/* label/0003; "" if it is too long. */
void tt_label_group_directory(const char *label, int64_t number, char path[TT_PATH_MAX]);

/* How many groups of a round there are, and how many of them are labelled or have failed.
 * Errors: IO, MEM. */
typedef struct tt_label_progress {
  int64_t groups, labelled, failed;
} tt_label_progress;
tt_err tt_label_progress_read_local(const char *directory, int64_t round, tt_label_progress *out);
#endif
