/* row_predictor.h — predictions of all members for many rows, chunk by chunk, of rows that are
 * dealt over the ranks.
 *
 * With a shard each rank has its own members, as after training. It predicts the rows of all ranks
 * with them, and the ranks exchange the predictions: a rank gets those of all members for its own
 * rows, and never the weights of others. It holds members x rows of a chunk predictions. */
#ifndef TT_ROW_PREDICTOR_H
#define TT_ROW_PREDICTOR_H
#include "core/engine/engine.h"
#include "io/model/model_file.h"

/* A chunk is a multiple of TT_PREDICTOR_ROWS rows, so that the memory of its predictions, inputs
 * and row_bytes is limited, and its time, because a stop is asked for between two chunks. */
enum { TT_PREDICTOR_ROWS = 256 };

typedef struct tt_row_options {
  tt_comm *c;                      /* NULL: this process alone */
  const tt_trained_ensembles *all; /* with the same inputs */
  const tt_model_shard *shard; /* [networks] members of this rank of the only trained ensemble; at
                                  most TT_PREDICTOR_ROWS rows a chunk; NULL: all ranks have all */
  const tt_engine_ops *ops;    /* NULL: the rows are only read */
  const tt_resources *use;
  int64_t rows;
  int64_t block;     /* a rank has whole blocks of rows */
  int64_t most_rows; /* of a chunk; 0: limited by memory and time alone */
  double row_bytes;  /* that the caller holds for each row of a chunk */
  /* 1 if the caller reads the predictions of the members; NULL: it does. Local. */
  int (*needs_members)(const void *context, const tt_trained_ensemble *m);
  /* Inputs x [count][F], normalized, of rows [first, first + count): with a shard of all rows, else
   * of those of this rank. The rows of a chunk are read last before the chunk is predicted. Local.
   */
  tt_err (*read_local)(void *context, int64_t first, int64_t count, float *x);
  void *with;
  const char *phase; /* for the watchdog, a constant; NULL: there is none */
} tt_row_options;

typedef struct tt_row_chunk {
  int64_t first, rows;              /* rows 0: this rank has none left, others have */
  const float *x;                   /* [rows][F] */
  const tt_ensemble_prediction *of; /* [all->count] the mixture of the members, in their order */
} tt_row_chunk;

typedef struct tt_row_predictor tt_row_predictor;

/* The rows of a rank: whole blocks, dealt by tt_partition_even. */
tt_slice tt_row_predictor_slice(int64_t rows, int64_t block, int ranks, int rank);

/* Collective. Borrows what the options point to. Errors: MEM. */
tt_err tt_row_predictor_open(const tt_row_options *o, tt_row_predictor **out);
void tt_row_predictor_close(tt_row_predictor **w); /* local; accepts NULL */

/* Rows of a chunk, at most; the same on all ranks. Local. */
int64_t tt_row_predictor_rows(const tt_row_predictor *w);

/* Collective. Predict the next rows of this rank: *chunk is valid until the next call, and NULL
 * after the last chunk of all ranks. Bit-identical on any number of ranks, for chunks of any size.
 *   e  what became of the chunk before on this rank, TT_OK at first: if it is an error on one rank,
 *      all ranks get it
 * Errors: of read_local, of the engine. */
tt_err tt_row_predictor_next(tt_row_predictor *w, tt_err e, const tt_row_chunk **chunk);

/* Bytes that it allocates on a rank with a shard, to a few percent. Local.
 *   width, columns  of an ensemble; of all ensembles */
double tt_row_predictor_bytes(int64_t members, int64_t width, int64_t columns, int64_t inputs,
                              int64_t rows, int64_t block, int ranks);
#endif
