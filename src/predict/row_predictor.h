/* row_predictor.h — predictions of all members for rows that are dealt over the ranks.
 *
 * After training each rank has its own members. It predicts the rows of all ranks with them, and
 * the ranks exchange the predictions: a rank gets those of all members for its own rows, and never
 * the weights of others. A rank holds members x 256 predictions, and receives members x its rows.
 */
#ifndef TT_ROW_PREDICTOR_H
#define TT_ROW_PREDICTOR_H
#include "core/engine/engine.h"
#include "io/model/model_file.h"

enum { TT_PREDICTOR_ROWS = 256 }; /* rows of a chunk, at most */

typedef struct tt_row_predictor {
  const tt_trained_ensemble *model;
  const tt_model_shard *shard; /* [networks] members of this rank; NULL: all ranks have model->w */
  const tt_engine_ops *ops;
  const tt_resources *use;
  int64_t rows;
  int64_t block; /* rows, a multiple of TT_PREDICTOR_ROWS: a rank has whole blocks */
  /* Inputs x [count][F], normalised, of rows [first, first + count): with a shard of all rows, else
   * of those of this rank. Local. The chunk that use_local gets is the last one that is read. */
  tt_err (*read_local)(void *with, int64_t first, int64_t count, float *x);
  /* Called for each chunk of the rows of this rank, in order. Local. */
  tt_err (*use_local)(void *with, int64_t first, const tt_moments *moments, const float *members);
  void *with;
  const char *phase; /* for the watchdog, a constant */
} tt_row_predictor;

/* The rows of a rank: whole blocks, dealt by tt_partition_even. */
tt_slice tt_row_predictor_slice(int64_t rows, int64_t block, int ranks, int rank);

/* Collective. Predict all rows. use_local gets
 *   moments  [count] x columns, of the mixture of the members in member order
 *   members  [G][2][K q][count] normalised
 * of rows [first, first + count). Bit-identical on any number of ranks. Errors: of the functions,
 * of the engine, MEM. */
tt_err tt_row_predictor_run(tt_comm *c, const tt_row_predictor *p);

/* Bytes that it allocates on a rank, to a few percent. Local.
 *   width, columns  of an ensemble; of all ensembles */
double tt_row_predictor_bytes(int64_t members, int64_t width, int64_t columns, int64_t inputs,
                              int64_t rows, int64_t block, int ranks);
#endif
