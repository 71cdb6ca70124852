/* driver_internal.h — what the files of the driver share: campaign.c, open.c, campaign_state.c,
 * round_metrics.c. Private. */
#ifndef TT_CAMPAIGN_DRIVER_INTERNAL_H
#define TT_CAMPAIGN_DRIVER_INTERNAL_H
#include "core/model/trained_ensemble.h"
#include "io/campaign/campaign_files.h"
#include "io/checkpoint/checkpoint.h"
#include "io/data/pool.h"
#include "src/campaign/driver/campaign.h"
#include "src/campaign/state/file_names.h"
#include "src/campaign/state/journal.h"
#include "src/host/stop_request.h"
#include "src/host/time_limit.h"

typedef struct tt_campaign {
  tt_comm *c;
  const tt_campaign_options *o;
  tt_job *job; /* the file, with engine and resources; its data are not loaded */
  const tt_config *cfg;
  const char *directory; /* campaign.directory */
  tt_initial_data *initial_data;
  tt_pool *pool;       /* of pool.file, or of this round */
  tt_history *h;       /* committed rounds, and at its end the one that runs */
  tt_journal *journal; /* on rank 0 */
  tt_run_id run_id;    /* of the campaign's directory */
  int claimed;
  int64_t resumed; /* stages that were done when this life began */
  double started;
  tt_time_limit time_limit;
  /* of the round that runs */
  int64_t round_number; /* 1, 2, ... */
  tt_stage stage;
  tt_trained_ensembles model;
  char **column; /* [columns] names of the predicted columns */
  int64_t columns;
  tt_used_rows used_rows;
  tt_queries *queries;
  tt_query_labels *query_labels;
} tt_campaign;

/* open.c: everything up to the first stage. Collective. Errors: as tt_campaign_run. */
tt_err tt_campaign_open(tt_campaign *k);

/* ---- campaign_state.c ---- */

/* A file of the round that runs; the round itself, once it is trained. */
void tt_round_file_path(const tt_campaign *k, const char *name, char path[TT_PATH_MAX]);
tt_round *tt_current_round(const tt_campaign *k);

/* status.json. Best effort; rank 0. stop: as tt_run_status. */
void tt_campaign_write_status_local(tt_campaign *k, const char *state, const char *reason,
                                    const char *stop, int exit_code);

/* The rules of section stop. */
tt_stop_settings tt_campaign_stop_settings(const tt_config *cfg);

/* Everything of a round out of memory; also of one that did not get far. Local. */
void tt_round_free(tt_campaign *k);
/* DIR/model.h5 becomes that of round k->number, which is whole; files of rounds before
 * campaign.keep go. Local; rank 0 does it. Errors: IO. */
tt_err tt_campaign_prune_local(const tt_campaign *k);
/* Write campaign.h5: the commit. Collective. Errors: CANTCREAT, IO, MEM, STOPPED (the directory is
 * another's now). */
tt_err tt_campaign_commit(tt_campaign *k);

/* A directory has a file with the hash of what it was made from: is it that of now? Local.
 * Errors: IO, CANTCREAT. */
typedef enum tt_mark { TT_MARK_none, TT_MARK_same, TT_MARK_other } tt_mark;
tt_err tt_mark_check_local(const char *mark, uint64_t inputs, tt_mark *out);
tt_err tt_mark_write_local(const char *mark, uint64_t inputs);

/* ---- round_metrics.c ---- */

/* Errors on the test rows, change since the round before, spread of names: of the model
 * that the round has trained, from its results.h5. Collective. Errors: of reading it, MEM. */
tt_err tt_round_set_metrics(tt_campaign *k, tt_round *round);
/* Whether a row of the initial data trains or validates. */
int tt_is_labelled_row(const tt_campaign *k, int64_t row);
/* Rows that were trained or validated on. */
int64_t tt_campaign_count_labels(const tt_campaign *k);
/* The highest (goal: minimize: lowest) label of each target, NaN = none: best [T]. */
void tt_campaign_best_labels(const tt_campaign *k, double *best);
/* Hash of all labels beyond the first data, with their places. */
uint64_t tt_campaign_hash_labels(const tt_campaign *k);

/* XXH3 of some bytes after a hash. */
uint64_t tt_hash_bytes(uint64_t h, const void *bytes, size_t n);
uint64_t tt_hash_u64(uint64_t h, uint64_t x);
#endif
