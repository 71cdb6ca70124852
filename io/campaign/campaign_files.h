/* campaign_files.h — the files of a campaign: campaign.h5 (its history), and of a round data.h5,
 * picks.h5 and answers.h5. Floor 3. Written whole or not at all (io/hdf5/h5.h). */
#ifndef TT_CAMPAIGN_IO_H
#define TT_CAMPAIGN_IO_H
#include "io/hdf5/h5.h"
#include "io/hdf5/provenance.h"
#include "core/config/config.h"
#include "core/model/dataset.h"
#include "core/stats/history.h"

/* Names that a history does not hold. Borrowed. */
typedef struct tt_history_names {
  const tt_columns *input, *target;
  const char *const *column; /* [C] labels of the predicted columns */
} tt_history_names;

/* Collective. Write campaign.h5 (schema tutti-campaign-1.0, docs/files.md; opens in xarray): the
 * commit of a round. Errors: CANTCREAT, IO, MEM, what the fence says. */
tt_err tt_history_write(tt_comm *c, const char *file, const tt_history *h,
                        const tt_history_names *names, const tt_provenance *from,
                        const tt_h5_fence *fence);
/* Local. Bit by bit what was written; a checksum of all values is checked. Owner: the caller.
 * Errors: NOINPUT (there is none), DATA (not a history, damaged), IO, MEM. */
tt_err tt_history_read_local(const char *file, tt_history **out);
/* Collective: rank 0 reads for all; a file that was renamed a moment ago may still be the one
 * before it on other nodes. */
tt_err tt_history_read(tt_comm *c, const char *file, tt_history **out);

/* The names in such a file. Local; owner: the caller. Errors: as above. */
typedef struct tt_history_texts {
  tt_columns input, target;
  int64_t columns;
  char **column;  /* [columns] */
  char *resolved; /* the resolved configuration of its last round, as YAML */
} tt_history_texts;
tt_err tt_history_texts_local(const char *file, tt_history_texts *out);
void tt_history_texts_free(tt_history_texts *t);

/* The first data of a campaign, as they stand in data.file. */
typedef struct tt_base_data {
  int64_t rows, inputs, targets;
  double *x, *y; /* [rows][D], [rows][T] in the user's units */
  int8_t *split; /* [rows] */
  tt_columns input, target;
  uint64_t hash; /* XXH3 of the values and the split */
} tt_base_data;

/* Collective. The first data of a campaign, on all ranks, split as data.split says.
 * Owner: the caller. Errors: as tt_data_read. */
tt_err tt_base_data_read(tt_comm *c, const tt_config *cfg, tt_base_data **out);
void tt_base_data_destroy(tt_base_data **d);

/* Collective. The data of a round, a file that `tutti train` takes: the first data, then the picks
 * that have labels, with names and units; dataset `split` 0, 1, 2, or -1 for unused rows. Values
 * are those of data.file and of the history, in double. The same on all ranks.
 * Errors: CANTCREAT, DATA (a name is not UTF-8), IO, MEM. */
tt_err tt_round_data_write(tt_comm *c, const char *file, const tt_base_data *base,
                           const tt_history *h);

/* The candidates a round asks for, with their inputs; and what came back. */
typedef struct tt_picks {
  int64_t count, inputs;
  int64_t *row;   /* [count] in the order chosen */
  double *score;  /* [count] NaN with random */
  int8_t *random; /* [count] */
  double *x;      /* [count][D] in the user's units */
} tt_picks;
tt_err tt_picks_create(int64_t count, int64_t inputs, tt_picks **out);
void tt_picks_destroy(tt_picks **p);

typedef struct tt_answers {
  int64_t count, targets;
  int8_t *answer; /* [count] tt_answer, as the picks */
  double *y;      /* [count][T]; NaN = unlabelled */
} tt_answers;
tt_err tt_answers_create(int64_t count, int64_t targets, tt_answers **out); /* all failed, NaN */
void tt_answers_destroy(tt_answers **a);

/* Collective; the same on all ranks. Errors: CANTCREAT, IO, MEM. */
tt_err tt_picks_write(tt_comm *c, const char *file, const tt_picks *p, const tt_columns *input);
tt_err tt_answers_write(tt_comm *c, const char *file, const tt_picks *p, const tt_answers *a,
                        const tt_columns *target);
/* Local. Errors: NOINPUT, DATA, MEM. */
tt_err tt_picks_read_local(const char *file, tt_picks **out);
tt_err tt_answers_read_local(const char *file, tt_answers **out);
/* Collective: rank 0 reads for all. */
tt_err tt_picks_read(tt_comm *c, const char *file, tt_picks **out);
tt_err tt_answers_read(tt_comm *c, const char *file, tt_answers **out);
#endif
