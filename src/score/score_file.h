/* score_file.h — the rows of a data file with the targets of a trained model, for tt_score. */
#ifndef TT_SCORE_FILE_H
#define TT_SCORE_FILE_H
#include "core/model/trained_ensemble.h"
#include "io/data/data.h"

/* Datasets of a file, NULL = not given: inputs "x", targets "y", no weights. */
typedef struct tt_score_file_options {
  const char *file, *inputs, *targets, *weights;
  const tt_table_format *format; /* of a CSV file; borrowed */
  const char *group;             /* of the model (`by`); NULL: it has none */
} tt_score_file_options;

typedef struct tt_score_file {
  tt_data_reader *rows;
  const tt_trained_ensembles *model;
  const tt_trained_ensemble *first; /* model->at[0]; all have the same input and target columns */
  tt_score_file_options o;          /* with the names that are meant where it had NULL */
  tt_data_reader *weights; /* the sample weights, read as a dataset of inputs; NULL = all 1 */
  int64_t *column;         /* [targets of the model] column in the file, -1 = none */
} tt_score_file;

/* Collective. Open a file: target columns are matched by name, or by position if the file has no
 * names. Everything is borrowed; close it also after an error. Errors: NOINPUT, DATA (no column for
 * a target; another number of inputs). */
tt_err tt_score_file_open(tt_comm *c, const tt_trained_ensembles *model,
                          const tt_score_file_options *o, tt_score_file *out);
void tt_score_file_close_local(tt_score_file *l);

/* tt_row_source.read_local with `src` a tt_score_file. Errors: DATA (an input that is not
 * finite; a negative weight), MEM. */
tt_err tt_score_file_read_local(void *src, int64_t first, int64_t count, float *x, double *y,
                                double *weight);
/* The weights alone. */
tt_err tt_score_file_read_weights_local(tt_score_file *l, int64_t first, int64_t count,
                                        double *weight);
#endif
