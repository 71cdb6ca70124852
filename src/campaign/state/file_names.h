/* file_names.h — the names of a campaign's files. Local.
 *
 *   DIR/campaign.h5      the history of all committed rounds (io/campaign/campaign_files.h)
 *   DIR/journal.jsonl    one line for every finished stage (journal.h)
 *   DIR/events.jsonl     the record of all points (src/campaign/points/points.h)
 *   DIR/status.json      the current status
 *   DIR/model.h5         link to the model of the last committed round
 *   DIR/STOP             if this file exists, the campaign pauses
 *   DIR/round-0001/      run.directory of the round's training: model.h5, results.h5, checkpoints
 *     pool_scores.h5 queries.h5 pool-0000.h5 label/ */
#ifndef TT_CAMPAIGN_FILE_NAMES_H
#define TT_CAMPAIGN_FILE_NAMES_H
#include "io/files/files.h"

/* DIR/round-0001 (name "") or DIR/round-0001/name. A path that is too long becomes "", which no
 * file can have. */
void tt_round_path(const char *directory, int64_t round, const char *name, char path[TT_PATH_MAX]);
/* Remove the directory of a round with all its files, if it exists. Errors: IO. */
tt_err tt_round_remove_local(const char *directory, int64_t round);

/* Labels: DIR/round-0012/label/0003 is the directory of one group */

#define TT_LABEL_ACCEPTED_FILE "accepted.h5" /* the labels that were accepted */
#define TT_LABEL_FAILED_FILE "failed"        /* text: why the group has no labels */

/* The numbers of the groups in the directory `label`, ascending; count 0 if the directory does not
 * exist. Owner of *number: the caller, tt_free. Errors: IO, MEM. */
tt_err tt_label_groups_list_local(const char *label, int64_t **number, int64_t *count);
/* label/0003; "" if it is too long. */
void tt_label_group_directory(const char *label, int64_t number, char path[TT_PATH_MAX]);

/* Whether a group, by its directory, has labels; whether it has failed. Errors: IO. */
tt_err tt_label_group_ended_local(const char *group, int *labeled, int *failed);

/* Count the groups of a round: all, labeled, failed. Errors: IO, MEM. */
typedef struct tt_label_progress {
  int64_t groups, labeled, failed;
} tt_label_progress;
tt_err tt_label_progress_read_local(const char *directory, int64_t round, tt_label_progress *out);
#endif
