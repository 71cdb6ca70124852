/* driver_internal.h — the state of a running campaign, and functions shared by the files of the
 * driver. Private to src/campaign/driver. */
#ifndef TT_CAMPAIGN_DRIVER_INTERNAL_H
#define TT_CAMPAIGN_DRIVER_INTERNAL_H
#include "core/model/trained_ensemble.h"
#include "io/campaign/campaign_files.h"
#include "io/checkpoint/checkpoint.h"
#include "io/data/pool.h"
#include "src/campaign/driver/campaign.h"
#include "src/campaign/label/oracle.h"
#include "src/campaign/points/requests.h"
#include "src/campaign/state/file_names.h"
#include "src/campaign/state/journal.h"
#include "src/campaign/state/known_inputs.h"
#include "src/host/stop_request.h"
#include "src/host/time_limit.h"

typedef struct tt_campaign {
  tt_comm *c;
  const tt_campaign_options *o;
  tt_job *job; /* the campaign file with engine and resources; its data are not loaded */
  const tt_config *cfg;
  const char *directory; /* campaign.directory */
  tt_dataset *data;      /* of data.file, of tt_data_read_raw: without values */
  double *x, *y, *sigma; /* [rows][D], [rows][T] its values in the user's units; NULL without
                          * data.sigma */
  tt_columns label;      /* columns of labels: the targets, with data.sigma and their error bars */
  tt_pool *pool;         /* of pool.file, or of this round */
  tt_history *h;         /* the committed rounds, then the current one */
  tt_journal *journal;   /* on rank 0 */
  tt_points *points;     /* on rank 0 */
  int resets;            /* 1 = option --from has been obeyed */
  tt_inbox *inbox;       /* on rank 0: answers tutti ask and tutti tell */
  tt_workers *workers; /* on rank 0, with campaign.mode asynchronous: they label beside training */
  tt_run_id run_id;    /* of the campaign's directory */
  int claimed;         /* 1 = this process owns the campaign's directory */
  int64_t resumed;     /* stages finished before this process started */
  double started;
  tt_time_limit time_limit;
  /* of the current round */
  int64_t round_number; /* 1, 2, ... */
  tt_stage stage;
  tt_trained_ensembles model;
  char **column; /* [columns] names of the predicted columns */
  int64_t columns;
  int64_t in_work; /* points that are labeled beside this round, when its scores began */
  tt_used_rows used_rows;
  double *best;           /* [T] of tt_campaign_best_labels, now or in an earlier round */
  tt_known_inputs *known; /* inputs of labeled and queried rows */
  tt_queries *queries;
  tt_query_labels *query_labels;
} tt_campaign;

/* open.c: open the campaign, up to its first stage. Collective. Errors: as tt_campaign_run. */
tt_err tt_campaign_open(tt_campaign *k);

/* campaign_state.c */

/* The path of a file of the current round; the current round, once it is trained. */
void tt_round_file_path(const tt_campaign *k, const char *name, char path[TT_PATH_MAX]);
tt_round *tt_current_round(const tt_campaign *k);

/* Write status.json on rank 0; an error is only logged. stop: as in tt_run_status. */
void tt_campaign_write_status_local(tt_campaign *k, const char *state, const char *reason,
                                    const char *stop, int exit_code);

/* What stage label is asked of the current round; the groups are in `directory`, borrowed. */
tt_label_request tt_campaign_label_request(const tt_campaign *k, const char *directory);
/* Free the memory of the current round, complete or not. Local. */
void tt_round_free(tt_campaign *k);
/* Link DIR/model.h5 to the model of round k->round_number, which is committed; remove the
 * directories of rounds older than campaign.keep. Local; rank 0 does it. Errors: IO. */
tt_err tt_campaign_prune_local(const tt_campaign *k);
/* Provenance of the files of the present round, with its model, if there is one. Borrows `model`.
 * Local. */
tt_provenance tt_campaign_provenance(const tt_campaign *k, char model[TT_PATH_MAX]);
/* Write a history to a file, with the names of this campaign. Collective. Errors: as below. */
tt_err tt_campaign_write_history(const tt_campaign *k, const char *path, const tt_history *h);
/* Write campaign.h5: the commit. Collective. Errors: CANTCREAT, IO, MEM, STOPPED (another process
 * has claimed the directory). */
tt_err tt_campaign_commit(tt_campaign *k);

/* Prepare the directory of the round, or with `labels` the directory of its groups, for a stage. A
 * file in it has the hash of the inputs that it was made from. If this is not `inputs`, labels
 * are kept for candidates that are queried again, and the directory is moved aside; but groups stay
 * where they are, except with label.mode slurm, whose jobs refer to all groups of the directory.
 * Local; rank 0 does it. Errors: STOPPED, CANTCREAT, DATA, IO, MEM. */
tt_err tt_campaign_prepare_directory_local(const tt_campaign *k, int labels, uint64_t inputs);

/* record.c */

/* Open the record of the points; queries of the history that it lacks are added. Local. Errors: as
 * tt_points_open_local. */
tt_err tt_campaign_open_record_local(tt_campaign *k);
/* Whether a replay may begin: nothing is changed. Local. Errors: CONFIG, NOINPUT, USAGE. */
tt_err tt_campaign_check_replay_local(const tt_campaign *k);
/* Drop all answers but those of the first `kept` queries of the history, and rows that tutti tell
 * --new has brought. Local; rank 0 does it. */
tt_err tt_campaign_drop_labels_local(const tt_campaign *k, int64_t kept);
/* A round begins: take the labels of the record into the history. `tutti tell --replace` may have
 * changed them, and `--new` brought others, whose rows begin with TT_FIRST_TOLD_ROW. A start that
 * continues the round takes the same. Collective. Errors: IO, MEM, STOPPED. */
#define TT_FIRST_TOLD_ROW ((int64_t)1 << 62)
tt_err tt_campaign_take_labels(tt_campaign *k);

/* Points of the record that the history lacks, in the order of their numbers. */
typedef enum tt_point_kind {
  TT_POINTS_told,     /* labeled points of no pool: tutti tell --new has brought them */
  TT_POINTS_answered, /* those of the pool that need no label any more */
  TT_POINTS_in_work   /* those of the pool that somebody labels or has labeled */
} tt_point_kind;
typedef struct tt_point_list {
  int64_t count;
  tt_query *query; /* [count] of the last round in the history */
  double *x, *y;   /* [count][D], [count][T] */
} tt_point_list;
/* Collective: rank 0 has the record.
 *   before  no line of events.jsonl after it counts
 * Owner of *out: the caller, after an error too. Errors: MEM. */
tt_err tt_campaign_list_points(tt_campaign *k, tt_point_kind kind, int64_t before,
                               tt_point_list *out);
void tt_point_list_free(tt_point_list *l);
/* Append them to the queries of the history. Collective. Errors: MEM. */
tt_err tt_campaign_add_points(tt_campaign *k, const tt_point_list *l);

static inline int tt_campaign_is_asynchronous(const tt_campaign *k)
{
  return k->cfg->campaign_mode == TT_CAMPAIGN_MODE_asynchronous;
}

/* round_metrics.c */

/* Set labels, diverged, rmse, nll, change and error of the round from its model and results.h5.
 * Collective. Errors: those of reading results.h5, DATA (results.h5 is not of this model), MEM. */
tt_err tt_round_set_metrics(tt_campaign *k, tt_round *round);
/* The fraction of the new labels used for validation; the split of a new label,
 * which depends on its candidate alone. */
double tt_campaign_validation_fraction(const tt_campaign *k);
int8_t tt_campaign_choose_split(const tt_campaign *k, int64_t row, double fraction);

/* Whether a row of the initial data is used for training or validation. */
int tt_is_labeled_row(const tt_campaign *k, int64_t row);
/* The number of labeled rows used for training or validation. */
int64_t tt_campaign_count_labels(const tt_campaign *k);
/* The highest (goal: minimize: lowest) label of each target: best [T], NaN = no label. */
void tt_campaign_best_labels(const tt_campaign *k, double *best);
/* Rows that this round draws at random for stop.error, which become test rows: 0, unless it is the
 * first one with this rule. */
int64_t tt_campaign_rows_to_draw(const tt_campaign *k);
/* Hash of the labels of all queries, with their rows and splits. */
uint64_t tt_campaign_hash_labels(const tt_campaign *k);

/* XXH3 of n bytes with seed h; of the 8 bytes of x. */
uint64_t tt_hash_bytes(uint64_t h, const void *bytes, size_t n);
uint64_t tt_hash_u64(uint64_t h, uint64_t x);

/* stage.c: the stages of a round. The journal line of a stage holds a hash of its inputs and of the
 * files it wrote; while both are unchanged, the stage is not run again. */

/* What decides the result of a stage, as a hash, and the files that the stage writes. */
typedef struct tt_stage_io {
  uint64_t inputs;
  const char *file[2]; /* names in the round's directory, up to the first NULL */
} tt_stage_io;
typedef tt_err tt_stage_function(tt_campaign *k, const tt_stage_io *w);

/* Collective. Run the stage and append it to the journal, unless the journal has it already.
 *   seconds  wall time of the stage, measured now or read from the journal
 * Errors: those of the stage, IO. */
tt_err tt_run_stage(tt_campaign *k, tt_stage stage_id, const tt_stage_io *w,
                    tt_stage_function *function, double *seconds);

/* The stages, in order. Collective. Each uses what the stage before it left in memory or files:
 *   train   sets model, columns, and appends a round to the history
 *   score   sets pool, used_rows
 *   select  sets queries (none if a rule of section stop ends the campaign)
 *   label   sets query_labels
 *   merge   commits the round
 * Errors: as tt_campaign_run. */
tt_err tt_run_train_stage(tt_campaign *k);
tt_err tt_run_score_stage(tt_campaign *k);
tt_err tt_run_select_stage(tt_campaign *k);
tt_err tt_run_label_stage(tt_campaign *k);
tt_err tt_run_merge_stage(tt_campaign *k);
#endif
