/* fold_scales.h — the scales of the folds in model.h5 (docs/files.md): tables with a row for each
 * network, if some members have a normalization of their own. For io/model only. */
#ifndef TT_MODEL_FOLD_SCALES_H
#define TT_MODEL_FOLD_SCALES_H
#include "core/model/trained_ensemble.h"
#include "io/hdf5/schema.h"

/* Field of tt_fold_scales, name in the file, second axis, value without a fold, meaning. */
#define TT_FOLD_TABLES(X)                                                                          \
  X(x_factor, "net/input_factor", inputs, 1.0,                                                     \
    "a network takes normalized x * input_factor + input_offset")                                  \
  X(x_offset, "net/input_offset", inputs, 0.0, "see input_factor")                                 \
  X(y_factor, "net/target_factor", targets, 1.0,                                                   \
    "its predictions y mean normalized y * target_factor + target_offset")                         \
  X(y_offset, "net/target_offset", targets, 0.0, "see target_factor")

typedef struct tt_fold_tables {
  int64_t networks, inputs, targets; /* networks 0: there are no tables */
#define X(field, ...) double *field; /* [networks][inputs or targets] */
  TT_FOLD_TABLES(X)
#undef X
} tt_fold_tables;

/* The tables of all networks, if some have scales of their own.
 *   targets  largest number of targets of an ensemble
 * Owner: the caller, tt_fold_tables_free, also after an error. Local. Errors: MEM. */
tt_err tt_fold_tables_create(const tt_trained_ensembles *all, int64_t targets, tt_fold_tables *out);
void tt_fold_tables_free(tt_fold_tables *t);

/* Collective. Dimensions net/network and ensemble_target exist.
 *   input  dimension of the inputs of the networks */
void tt_fold_tables_write(tt_schema *s, const char *input, const tt_fold_tables *t);

/* Local; the same owner. Errors: DATA (other shapes, not finite, a factor that is not positive),
 * IO, MEM. */
tt_err tt_fold_tables_read_local(tt_h5_reader *r, int64_t networks, int64_t inputs, int64_t targets,
                                 tt_fold_tables *out);
/* 1 if network k has scales of its own; copy them to those of a folded network. */
int tt_fold_tables_has(const tt_fold_tables *t, int64_t k);
void tt_fold_tables_copy(const tt_fold_tables *t, int64_t k, tt_network *dst);
#endif
