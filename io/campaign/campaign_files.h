/* campaign_files.h — the files of a campaign: campaign.h5 (its history), and queries.h5 of a round.
 * Each file is complete or does not exist (io/hdf5/h5.h). */
#ifndef TT_CAMPAIGN_FILES_H
#define TT_CAMPAIGN_FILES_H
#include "core/config/config.h"
#include "core/model/dataset.h"
#include "core/stats/history.h"
#include "io/hdf5/h5.h"
#include "io/hdf5/provenance.h"

/* Names that a history does not contain. Borrowed. */
typedef struct tt_history_names {
  const tt_columns *input, *target;
  const char *const *column; /* [C] labels of the predicted columns */
  const tt_net_inputs *net;  /* levels of the inputs, or NULL */
} tt_history_names;

/* Collective. Write campaign.h5 (schema tutti-campaign-1.0, docs/files.md; opens in xarray): this
 * commits a round. Errors: CANTCREAT, IO, MEM, STOPPED (tt_h5_commit). */
tt_err tt_history_write(tt_comm *c, const char *file, const tt_history *h,
                        const tt_history_names *names, const tt_provenance *provenance);
/* Local. The values are bit-identical to those written; the checksum of all values is verified.
 * Owner: the caller. Errors: NOINPUT (no file), DATA (not a history, damaged), IO, MEM. */
tt_err tt_history_read_local(const char *file, tt_history **out);
/* Collective: rank 0 reads and broadcasts, because other nodes may still see the previous file for
 * a moment after the rename. */
tt_err tt_history_read(tt_comm *c, const char *file, tt_history **out);

/* The names in campaign.h5. Local; owner: the caller. Errors: as tt_history_read_local. */
typedef struct tt_history_metadata {
  tt_columns input, target;
  int64_t columns;
  char **column;                 /* [columns] */
  char *resolved;                /* the resolved configuration of its last round, as YAML */
  char *origin[TT_ORIGIN_COUNT]; /* of its last round; NULL where the file has none */
} tt_history_metadata;
tt_err tt_history_read_metadata_local(const char *file, tt_history_metadata *out);
void tt_history_metadata_free(tt_history_metadata *t);

/* Collective. The data of a round: the rows of data.file, then the labeled queries of the history
 * in their order, normalized; with data.sigma their labels end in error bars, label.sigma where one
 * is NaN. All but the communicator are the same on all ranks.
 *   base, x, y, sigma  of tt_data_read_raw
 * Owner: the caller. Errors: DATA, as tt_data_read; MEM. */
tt_err tt_round_data_create(tt_comm *c, const tt_config *cfg, const tt_dataset *base,
                            const double *x, const double *y, const double *sigma,
                            const tt_history *h, tt_dataset **out);

/* The queries of a round with their inputs. */
typedef struct tt_queries {
  int64_t count, inputs;
  int64_t *row;   /* [count] candidates in the order of selection */
  double *score;  /* [count] NaN if random */
  int8_t *random; /* [count] */
  double *x;      /* [count][D] in the user's units */
} tt_queries;
tt_err tt_queries_create(int64_t count, int64_t inputs, tt_queries **out);
void tt_queries_destroy(tt_queries **p);

/* The labels of the queries of a round. */
typedef struct tt_query_labels {
  int64_t count, targets;
  double *y; /* [count][T]; NaN = unlabeled */
} tt_query_labels;
tt_err tt_query_labels_create(int64_t count, int64_t targets, tt_query_labels **out); /* all NaN */
void tt_query_labels_destroy(tt_query_labels **a);
/* Spread labels [rows][targets] over rows of `width` values, the last ones NaN: no error bars. In
 * place. */
void tt_labels_widen(double *y, int64_t rows, int64_t targets, int64_t width);
/* Rows of y [rows][targets] with at least one label: these are labeled, the others failed. */
int64_t tt_labeled_rows(const double *y, int64_t rows, int64_t targets);

/* Collective; the arguments are the same on all ranks, except ids: those of rank 0 are written.
 *   net  levels of the inputs, or NULL
 *   ids  of the queries in their order; zeroed: none
 * Errors: CANTCREAT, IO, MEM. */
tt_err tt_queries_write(tt_comm *c, const char *file, const tt_queries *p, const tt_columns *input,
                        const tt_net_inputs *net, const tt_row_ids *ids,
                        const tt_provenance *provenance);
/* Local. Errors: NOINPUT, DATA, MEM. */
tt_err tt_queries_read_local(const char *file, tt_queries **out);
/* Collective: rank 0 reads and broadcasts. */
tt_err tt_queries_read(tt_comm *c, const char *file, tt_queries **out);
#endif
