/* data_internal.h — the split and the selection of a dataset's rows, the labels in its columns.
 * Floor 3, for the files of io/data only. All functions are local. */
#ifndef TT_DATA_INTERNAL_H
#define TT_DATA_INTERNAL_H
#include "io/data/raw_data.h"

/* The open file of tt_data_reader; still owned by it. */
tt_h5_reader *tt_data_reader_file_local(const tt_data_reader *r);

/* Fill split[rows] as data.split of the configuration says: fractions, a column or index datasets.
 * Errors: CONFIG (two ways at once), DATA. */
tt_err tt_data_read_split_local(tt_h5_reader *r, const tt_config *cfg, int64_t rows, int8_t *split);

/* Rows that a dataset names: row numbers, or a mask of one byte 0 or 1 a row; read in pieces.
 *   role  the option it is given by, for the message
 *   bit   [(rows + 7) / 8], 0 before; bit row % 8 of byte row / 8 is set
 * Errors: DATA (out of range, twice, neither 0 nor 1, another type or length), IO, MEM. */
tt_err tt_data_read_row_mask_local(tt_h5_reader *r, const char *role, const char *path,
                                   int64_t rows, uint8_t *bit);

/* Fill selected[selections][rows] as `rows` of the ensembles say: row numbers, or one byte a row.
 *   split  [rows]: every selection must have a row to train on
 * Errors: DATA (out of range, twice, neither 0 nor 1, empty, another type or length). */
tt_err tt_data_read_selections_local(tt_h5_reader *r, const tt_config *cfg, int64_t rows,
                                     const int8_t *split, int8_t *selected);

/* What the ensembles that learn a target column ask of it. */
typedef struct tt_label_rule {
  unsigned types;  /* set of bits 1 << tt_label_type (output.h); 0: nobody learns it */
  int32_t classes; /* smallest number of classes */
  int64_t by;      /* the first ensemble that learns it */
} tt_label_rule;

/* Whether labels are used as they are, not normalised. */
int tt_label_rule_is_raw(const tt_label_rule *l);

/* label[target->count]. Errors: CONFIG (unknown target; a column with both kinds, unless nothing is
 * normalised), MEM. */
tt_err tt_data_label_rules_local(const tt_config *cfg, const tt_columns *target,
                                 tt_label_rule *label);

/* What is wrong with a label y, for people; NULL: nothing. NaN is unlabelled. */
const char *tt_label_invalid_reason(const tt_label_rule *l, double y);
#endif
