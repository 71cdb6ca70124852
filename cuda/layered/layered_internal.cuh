/* layered_internal.cuh — inside of the layered path: all members advance together, layer by layer.
 * Floor 3.
 *
 * A batch of one member is row-major, [rows][features], and members lie one after the other. cuBLAS
 * multiplies many members in one batched call; layers with a thin side and all that lies between
 * the products go through own kernels.
 *
 * cuBLAS picks its algorithm, and so the bits, by the sizes of a product, the number of members in
 * the call and the alignment of the arrays. All of these follow from the shape of the cohort and
 * the rows of the data set here: a call always has `group` members, also those that have stopped or
 * do not exist (room is made for them), a validation pass always `split_rows` rows, and every group
 * begins at a multiple of 16 bytes. Own kernels pass over members that need no results.
 *
 * Own sums over rows run over a fixed number of interleaved lanes, each in ascending order, and
 * then over the lanes: their bits depend neither on how rows are cut nor on padding. */
#ifndef TT_LAYERED_INTERNAL_CUH
#define TT_LAYERED_INTERNAL_CUH
#include "cuda/common/engine_internal.cuh"

enum {
  TT_NARROW_WIDTH = 16, /* a side of a layer up to which cuBLAS is of no use */
  TT_LAYERED_THREADS = 256,
  TT_LOSS_PARTIALS = TT_LAYERED_THREADS, /* of a sum of losses */
  TT_LAYERED_GRAPHS = 6,                 /* of 1, 2, 4, ... 32 steps */
  TT_VALIDATION_GROUP_ROWS = 16384, /* rows of a group together that validation takes at a time */
  TT_GROUP_TILES = 128,             /* of 128 x 128 values: about one for every multiprocessor */
  TT_GROUP_MIN_MEMBERS = 4,
  TT_GROUP_MAX_MEMBERS = 64,
  TT_TF32_MATRICES = 4 /* of the two factors of a product in 3xtf32 */
};

/* What the path holds, on the device where nothing else is said. */
typedef struct tt_layered {
  int64_t rows;            /* of a batch: B, or N if that is less */
  int64_t split_rows;      /* of a validation pass, N at most */
  int64_t group;           /* members of a call of cuBLAS */
  int64_t padded;          /* M, up to a multiple of it */
  int64_t capacity;        /* rows of all members together that x, y, weight and h have room for */
  int64_t widest;          /* outputs of a layer */
  float *x, *y, *weight;   /* [capacity][D], [capacity][K], [capacity] */
  float *h[TT_MAX_LAYERS]; /* [capacity][out] f(z) of a layer; of the last one the output */
  float *slope[TT_MAX_LAYERS]; /* [M][rows][out] f'(z) of the hidden layers */
  float *delta[2];             /* [padded][rows][widest] dL/dz, in turn */
  float *gradient;             /* [padded][P] */
  float *eval_weights;         /* [M + group][tt_eval_weights_stride] weights to evaluate */
  float *scale;                /* [M] of the gradient, where members clip; else NULL */
  int64_t factor;              /* floats of the largest factor of a product of cuBLAS */
  float *parts;                /* [TT_TF32_MATRICES][group][factor], for 3xtf32; else NULL */
  tt_sampler *order;           /* [M] of the running epochs */
  tt_optimizer_args *step;     /* [M] of the running step */
  double *lane;                /* [M][TT_LOSS_PARTIALS] validation loss so far */
  int8_t *end;                 /* [M] tt_epoch_state */
  double *mean;                /* [M] */
  int uses_dropout;            /* a member has dropout: layers are finished by rows in steps */
  int uses_label_noise;        /* a member has noise on its labels */
  float *xhat[TT_MAX_LAYERS];  /* [M][rows][out] normalised z of layers with layer_norm */
  float *rstd[TT_MAX_LAYERS];  /* [M][rows] 1 / its standard deviation */
  float *residual_delta;       /* [padded][rows][widest] what goes round residual layers, or NULL */
  float *inputs;               /* [padded][rows][D] dL/dx for adversarial training, or NULL */
  float *more;                 /* [padded][P] gradient at the moved inputs, with it */
  int8_t *skip_adversarial;    /* [M] 1 for members without it in the running step */
  int8_t *other_view;          /* [M] with kfold: 1 for members of another view */
  int32_t *row;                /* [M][rows] row numbers of the batch on the device */
  cudaGraphExec_t graph[TT_LAYERED_GRAPHS]; /* of 2^k steps; NULL until needed */
  int warmed_up;                            /* a step has been run outside of graphs */
  int8_t *status;                           /* [M] as the device had it last; pinned host memory */
  int32_t *batch, *epoch, *attempt;         /* likewise */
  struct tt_row_stream
      *row_stream; /* where rows come from the host: x, y, weight are parts of it */
} tt_layered;

/* Where a member stands after a batch. */
enum tt_epoch_state {
  TT_EPOCH_ENDED = 0,   /* at the end of its epoch */
  TT_EPOCH_RUNNING = 1, /* inside it, or no longer training */
  TT_EPOCH_DIVERGED = 2 /* at the end, with weights that are not finite */
};

/* Between epochs, until the call of train ends: for cohorts that are stopped as ensembles. Seen
 * inside of the layered path alone. */
enum { TT_STATUS_BETWEEN_EPOCHS = 100 };

/* One way through the layers. */
typedef struct tt_layered_pass {
  int32_t first, members; /* of the engine's */
  int32_t rows;           /* of each member */
  int64_t x_stride;       /* from one member's x to the next: rows * D, or 0 if all see the same */
  const float *w;         /* [M][w_stride] all members of the engine */
  int64_t w_stride;       /* P, or tt_eval_weights_stride */
  const int8_t *skip;     /* [M] members with another value than 0 are left out; NULL: none is */
  int keep;               /* of a training step: f' is kept for the way back */
  float *gradient;        /* [padded][P] for the way back */
  float *inputs;          /* [padded][rows][D] takes dL/dx, or NULL */
} tt_layered_pass;

/* From one member's picked weights to the next: whole float4. */
static inline int64_t tt_eval_weights_stride(const tt_model *m) { return (m->params + 3) / 4 * 4; }

/* Members of a call of cuBLAS: enough to fill a GPU once. */
int64_t tt_layered_group(const tt_cohort *c);

static inline tt_layered *tt_layered_of(tt_engine *e) { return static_cast<tt_layered *>(e->own); }

static inline int tt_layered_is_narrow(const tt_layer *layer)
{
  return layer->in <= TT_NARROW_WIDTH || layer->out <= TT_NARROW_WIDTH;
}

/* 1 if cuBLAS has a part in it: a layer has no thin side. */
int tt_layered_uses_gemm(const tt_model *m);

/* cuBLAS and room for its factors, if a layer needs them. Errors: MEM, INTERNAL. */
tt_err tt_layered_open_gemm(tt_engine *e);

/* A matrix of every member without gaps: column-major, `step` from one member to the next. */
typedef struct tt_gemm_operand {
  const float *at;
  int64_t ld, step;
  cublasOperation_t op;
} tt_gemm_operand;

/* c [m x n] = a [m x k] b [k x n] for the members of the pass, group by group; in the last one some
 * may not be there. On the way of a training step in the precision of the engine, else in fp32.
 * Asynchronous, may be captured. Errors: INTERNAL. */
tt_err tt_layered_gemm(tt_engine *e, const tt_layered_pass *pass, int64_t m, int64_t n, int64_t k,
                       tt_gemm_operand a, tt_gemm_operand b, float *c, int64_t c_stride);

/* x in the buffers -> h of all layers. Asynchronous, may be captured. Errors: INTERNAL. */
tt_err tt_layered_forward(tt_engine *e, const tt_layered_pass *pass);

/* delta[0] holds dL/d(output) of all members: -> pass->gradient. Overwrites both deltas. As above.
 */
tt_err tt_layered_backward(tt_engine *e, const tt_layered_pass *pass);

/* One optimiser step: the next batch of every member and its outputs; its loss and dL/d(output);
 * all that comes after that. As above. */
tt_err tt_layered_forward_batch(tt_engine *e);
tt_err tt_layered_batch_loss(tt_engine *e);
tt_err tt_layered_update(tt_engine *e);

/* In place of tt_layered_batch_loss: delta[0] holds dL/d(output) and `mean` the losses of the
 * batch. As above. clears  rows that a short batch does not have may hold anything */
tt_err tt_layered_record_losses(tt_engine *e, int clears);

/* What the device says of its members now, to status, batch, epoch and attempt. Errors: INTERNAL.
 */
tt_err tt_layered_download_progress(tt_engine *e);

/* Steps to the first end of an epoch of a member that was training when the device was asked; 0 if
 * none was. */
int64_t tt_layered_steps_to_epoch_end(const tt_engine *e);

/* `steps` steps of every member that trains. Asynchronous. Errors: INTERNAL, MEM. */
tt_err tt_layered_run_steps(tt_engine *e, int64_t steps);

/* Views with a member whose epoch ends `steps` steps after it was asked: due [views]. */
void tt_layered_find_ending_views(const tt_engine *e, int64_t steps, int8_t *ending_views);

/* Members that wait train again from the next call on. Asynchronous. Errors: INTERNAL. */
tt_err tt_layered_resume_members(tt_engine *e);

/* engine.h: the two halves. */
tt_err tt_layered_step_forward(tt_engine *e, float *output, int32_t *row);
tt_err tt_layered_step_apply(tt_engine *e, const float *delta, const double *loss);

/* The orders of the running epochs; after that, members may step. As above. */
tt_err tt_layered_begin_epochs(tt_engine *e);

/* Validation and all else of the end of an epoch for members that are there, and the orders of the
 * next one.
 *   due  [views] 1 where members of a view may be at the end of their epoch */
tt_err tt_layered_end_epochs(tt_engine *e, const int8_t *ending_views);

/* Mean loss of each member over a split, with the weights it would predict with: the same bits as
 * its validation loss had, where they are the best ones. loss [M], NaN without rows. Errors:
 * INTERNAL. */
tt_err tt_layered_evaluate(tt_engine *e, tt_split split, double *loss);
#endif
