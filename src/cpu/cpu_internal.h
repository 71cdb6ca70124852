/* cpu_internal.h — internal declarations of the cpu engine. */
#ifndef TT_CPU_INTERNAL_H
#define TT_CPU_INTERNAL_H
#include "core/engine/engine.h"
#include "core/engine/progress.h"
#include "src/cpu/front.h"

#include <stdatomic.h>

/* The rows of one row set (cohort.h), by split. */
typedef struct tt_cpu_row_lists {
  int32_t *row[TT_SPLITS]; /* [count], ascending */
  int64_t count[TT_SPLITS];
} tt_cpu_row_lists;

/* Fewest operations (tt_model_flops) of a step for each thread that shares it; most such threads.
 * On two virtual cores of an AMD EPYC a member 64-512-512-1 with batch 1024, 1.8e9 operations, is
 * 1.9 times as fast on two threads, and 16-192-192-1 with batch 512, 1.2e8, 1.0 to 1.7 times, as
 * the hypervisor places the cores (bench/results/cpu/2026-11-23-teams-of-threads.txt). Two threads
 * share smaller members too where each computes one half of the gradient (tt_cpu_pair): 8-64-64-1
 * with batch 256, 7e6, is 1.5 times as fast (2026-11-23-pairs.txt there). */
enum { TT_CPU_SHARE_FLOPS = 50000000, TT_CPU_HALF_FLOPS = 3000000, TT_CPU_MOST_SHARING = 256 };

struct tt_engine {
  const tt_cohort *cohort;
  tt_slice slice;
  const tt_kernels *kernels;
  int threads;
  const char *(*stop)(void); /* as in tt_resources */
  int64_t share_flops;       /* as TT_CPU_SHARE_FLOPS */
  const tt_dataset *data;
  const int32_t *replay; /* [M][epochs][rows] or NULL */
  const tt_batch *batch; /* of the caller (given_rows.c); NULL: the rows are those of a data set */
  struct tt_cpu_given *given; /* of given_rows.c; NULL: it was never called */
  tt_slice own;               /* parameters of the segment of the state */
  int is_shared;              /* other engines have the other segments (tt_resources.own) */
  int64_t row_sets;
  tt_cpu_row_lists *lists; /* [row_sets] */
  tt_state *state;
  double *term;                 /* terms of a validation loss, if members have parts; else NULL */
  tt_member_progress *progress; /* [M] of a call of train */
  struct tt_cpu_buffers **buffers; /* [threads] */
  struct tt_cpu_team *team;        /* [threads] */
  _Atomic uint64_t *taken;         /* [threads][shares] of the teams */
  float *pair_scratch;             /* [threads][tt_cpu_pair_floats] of the teams; NULL: no pairs */
  int most_sharing;                /* threads that may share a member */
  struct tt_cpu_stage *stage;      /* of stage.c */
};

/* Threads that share a member. One of them, the leader, does everything that is not divided; the
 * others do their shares of each tt_cpu_team_run. Who does a share, and where it begins and ends,
 * never changes a bit, so that threads may come at any time. */
typedef void tt_cpu_work(void *context, int thread, int threads);
typedef struct tt_cpu_team {
  _Alignas(64) _Atomic uint64_t call; /* see team.c */
  tt_cpu_work *work;
  void *with;
  _Atomic uint64_t *taken;          /* [shares] last call in which a share was begun */
  _Alignas(64) atomic_int finished; /* shares of the call that are done, without the leader's */
  _Alignas(64) atomic_int size;     /* threads of the next call */
  _Atomic int64_t left;             /* work left; -1: not known */
  int leader, thread;  /* of the team that this thread begins with (-1: none), its number there */
  float *pair_scratch; /* [tt_cpu_pair_floats]; NULL: its members are not trained by pairs */
} tt_cpu_team;

/* The leader: work(with, thread, threads) on all threads of the team, or on its first `threads`
 * ones; returns when all are done. team NULL: on this thread alone. */
void tt_cpu_team_run(tt_cpu_team *team, tt_cpu_work *work, void *context);
void tt_cpu_team_run_on(tt_cpu_team *team, int threads, tt_cpu_work *work, void *context);
int tt_cpu_team_threads(const tt_cpu_team *team); /* of the next call, at least */
void tt_cpu_team_set_left(tt_cpu_team *team, int64_t left);

/* The same on this many threads outside of tt_cpu_each_member, where none waits for work. */
void tt_cpu_fork(int threads, tt_cpu_work *work, void *context);

/* Call job(..., i, with) for every member i of [0, M) on the threads of the engine. A thread that
 * has no member joins the team with most work for each of its threads, up to most_sharing.
 *   steps  work of a member: the steps that it takes, at most; 0: the same for each member */
struct tt_cpu_buffers;
typedef void tt_cpu_job(tt_engine *e, struct tt_cpu_buffers *b, tt_cpu_team *team, int64_t i,
                        void *context);
void tt_cpu_each_member(tt_engine *e, int64_t steps, tt_cpu_job *job, void *context);

/* Row numbers of an epoch computed at a time; one batch if that is larger. */
enum { TT_SAMPLER_WINDOW = 4096 };

/* Buffers of one thread; a step uses only these, the state of the member and the data. */
typedef struct tt_cpu_buffers {
  int64_t rows, ld; /* padded rows of a part of a batch, and the leading dimension */
  float *x;         /* [D][ld] */
  float *y;         /* [K][ld] */
  float *variance;  /* [K][ld] of the errors of the labels */
  float *weight;    /* [rows] */
  double *term;     /* [ld] losses of the rows times their weights */
  /* [out][ld] of layer l: z, then dy/dz, then dL/dz or, with layer_norm, dL/d(result of norm); of
   * the last layer the output */
  float *z[TT_MAX_LAYERS];
  float *delta[TT_MAX_LAYERS]; /* [out][ld] dL/dz of the last layer and of those with layer_norm */
  float *h[TT_MAX_LAYERS];     /* [out][ld] y of layer l: f(z) after dropout, plus x if residual */
  float *normalized[TT_MAX_LAYERS];  /* [out][ld] with layer_norm: z of mean 0 and variance 1 */
  float *inverse_std[TT_MAX_LAYERS]; /* [ld] with layer_norm: 1 / standard deviation of z */
  float *scratch;                    /* [widest][ld] */
  float *residual_gradient; /* [widest][ld] dL/dy of a residual layer, for its skip connection */
  float *gradient[TT_MAX_PART_SUMS]; /* [P] [0] of the batch; sums of its parts (parts.h) */
  double loss[TT_MAX_PART_SUMS];     /* of these sums, if threads share the parts of a batch */
  int32_t *window;                   /* [window_size] row numbers */
  int64_t window_size;
  int64_t window_first, window_count;
  tt_cpu_front *front; /* NULL: the network has none */
  int64_t front_row;   /* row of its buffers that is row 0 here */
  float running_share; /* as in tt_cpu_front_pass, of the part that is computed */
} tt_cpu_buffers;

typedef enum tt_cpu_buffers_use { TT_BUFFERS_PREDICT, TT_BUFFERS_TRAIN } tt_cpu_buffers_use;

/* Buffers of a thread for batches of up to `batch` rows in `parts` parts, without the gradients of
 * more than one part, which tt_cpu_reserve_sums adds. Errors: MEM. */
tt_err tt_cpu_buffers_create(const tt_model *model, int64_t batch, int64_t parts,
                             tt_cpu_buffers_use use, tt_cpu_buffers **out);
void tt_cpu_buffers_destroy(tt_cpu_buffers **w);

/* ld of buffers for this number of rows. */
int64_t tt_cpu_leading_dimension(int64_t rows);

/* Below and in stage.c, layers are numbered as in core/engine/pipeline.h where the comment says
 * "number": those of the front come first. */

/* A slot of a stage: a copy of buffers with its own memory for layers number [first, end) and the
 * input of the first one. allocate: b is the copy; after an error the caller frees it. */
tt_err tt_cpu_slot_allocate(const tt_model *model, int first, int end, tt_cpu_buffers *b);
void tt_cpu_slot_free(const tt_model *model, int first, int end, tt_cpu_buffers *b);

/* A pass through the network with the first rows in the buffers. */
typedef struct tt_cpu_pass {
  const tt_kernels *k;
  const tt_model *m;
  const float *w; /* [P] */
  tt_cpu_buffers *b;
  int64_t rows;
} tt_cpu_pass;

/* From the input of layer number `first` in the buffers, of the first layer x[D][ld], to the input
 * of layer `end`, or the outputs of the network, z[layers - 1].
 *   drop      NULL or p = 0: no dropout;   gradient  1: keep the values for the backward pass */
void tt_cpu_forward_layers(const tt_cpu_pass *p, int first, int end, const tt_dropout *drop,
                           int gradient);
void tt_cpu_forward(const tt_cpu_pass *p, const tt_dropout *drop, int gradient); /* of all layers */

/* Input of layer number `layer`, [values][ld] in the buffers. */
float *tt_cpu_layer_input(const tt_model *m, const tt_cpu_buffers *b, int layer);

/* dL/dz of layer l, [out][ld] in the buffers. */
float *tt_cpu_delta(const tt_model *model, const tt_cpu_buffers *b, int l);

/* The backward pass of layer l: dL/dz from that of layer l + 1. Rows are independent. */
void tt_cpu_backward_layer(const tt_cpu_pass *p, int l);

/* The same for the front of the network, if it has one: from dL/dz of layer 0. features_gradient
 * is the first part: dL/d(features) in the buffers of the front. */
void tt_cpu_backward_front(const tt_cpu_pass *p);
void tt_cpu_features_gradient(const tt_cpu_pass *p);

/* These rows for the functions of front.h. */
tt_cpu_front_pass tt_cpu_front_pass_of(const tt_cpu_pass *p);

/* Gradient of the parameters of some channels of layer l of the front, in gradient[P]. */
void tt_cpu_channel_gradient(const tt_cpu_pass *p, int l, tt_slice channels, float *gradient);

/* Whether the rows of a batch go through all layers a few at a time, because the weights of all
 * layers stay in cache. */
int tt_cpu_is_in_panels(const tt_model *m);

/* Of such networks the gradient of many rows is the sum of two halves, rows [0, cut) and the
 * others, so that two threads can compute them. Otherwise there is one sum, and cut is the padded
 * number of rows. It depends on the network and the number of rows alone. */
int64_t tt_cpu_cut(const tt_model *m, int64_t rows);

/* Gradient of the parameters of some outputs of layer l, from dL/dz, in gradient[P].
 *   cut  that of tt_cpu_cut; the padded rows, if they are one half */
void tt_cpu_layer_gradient(const tt_cpu_pass *p, int l, tt_slice outputs, int64_t cut,
                           float *gradient);

/* The two halves of a backward pass between layers: dense_input_gradient computes dL/d(input of
 * layer l) in scratch [in][ld] from dL/dz of layer l, and returns it; output_backward computes
 * dL/dz of layer l from dL/d(output of layer l) in scratch. */
const float *tt_cpu_dense_input_gradient(const tt_cpu_pass *p, int l);
void tt_cpu_output_backward(const tt_cpu_pass *p, int l);

/* From dL/dz of the last layer, compute dL/dz of all layers and gradient[P] of all parameters. */
void tt_cpu_backward(const tt_cpu_pass *p, float *gradient);

/* The same buffers, from row `row` of a batch on, a multiple of TT_LANES. */
tt_cpu_buffers tt_cpu_buffers_from_row(const tt_model *model, const tt_cpu_buffers *b, int64_t row);

/* One member in training, with its part of the state arrays. */
typedef struct tt_cpu_member {
  const tt_member *member;
  const tt_ensemble *ensemble;
  const tt_cpu_row_lists *lists;
  int64_t i;                     /* in [0, M) */
  int64_t rows, batches;         /* per epoch */
  float *w, *slots;              /* [P], [S][parameters of the segment] */
  int threads;                   /* that share its parts and validation rows, if it has parts */
  const tt_epoch_sharing *share; /* of the ends of epochs with other engines; NULL: none */
  tt_cpu_team *team;             /* that trains it; NULL: this thread alone */
} tt_cpu_member;

/* Prepare buffers b for member i of [0, M). */
tt_cpu_member tt_cpu_member_begin(const tt_engine *e, tt_cpu_buffers *b, int64_t i);

/* A batch: the rows of the data set, its dropout. */
typedef struct tt_cpu_batch {
  int64_t count;
  const int32_t *row; /* [count] */
  tt_dropout dropout; /* p = 0: none */
} tt_cpu_batch;

/* Threads that may share a member whose epochs have this many rows. */
int tt_cpu_most_sharing(const tt_engine *e, int64_t rows);

/* The next batch of a member. steps: as for tt_cpu_step. */
void tt_cpu_next_batch(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                       int64_t steps, tt_cpu_batch *out);

/* Copy some rows of the batch to the buffers, with label noise, and set the rows of its dropout.
 * Returns the sample weights, or NULL. */
const float *tt_cpu_load_batch(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                               tt_cpu_batch *batch, tt_slice rows);

/* Load some rows of the batch, and compute the outputs of the network. Returns as the function
 * above. */
const float *tt_cpu_forward_batch(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                                  const tt_cpu_batch *batch, tt_slice rows);

/* Load some rows of the batch, which become the first ones in the buffers; fill term, dL/dz of all
 * layers and gradient[P]. For networks in panels (tt_cpu_is_in_panels).
 *   cut  as for tt_cpu_layer_gradient */
void tt_cpu_panels_gradient(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                            const tt_cpu_batch *batch, tt_slice rows, int64_t cut, float *gradient);

/* After the forward pass: fill term, and dL/dz of the last layer.
 *   weight  [rows] or NULL: 1 for all */
void tt_cpu_output_loss(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_batch *batch,
                        int64_t rows, const float *weight);

/* Gradients of some parts of the batch, added as parts.h says: sum[0], sum[1], ... are pointers to
 * [P] in the buffers; loss[TT_MAX_PART_SUMS] of each, NaN if one is not finite. Returns the number
 * of these sums: 1 for all parts of the batch.
 *   threads  that compute the parts, each with its own buffers of the engine; 1: with `b` */
int tt_cpu_gradient(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                    const tt_cpu_batch *batch, tt_slice parts, int threads,
                    float *sum[TT_MAX_PART_SUMS], double loss[TT_MAX_PART_SUMS]);

/* The gradient of layers number [first, end), from the dL/dz of all rows of the batch in the
 * buffers; threads share the outputs of dense layers, and the channels of the front. One thread
 * makes the whole gradient of an output.
 *   use  called for each segment of the parameters whose gradient is complete; may be NULL */
typedef struct tt_cpu_gradient_share {
  const tt_engine *e;
  tt_cpu_buffers *b;
  int first, end;
  int64_t rows;
  float *gradient; /* [P] */
  void (*use)(const void *context, tt_slice segment);
  const void *with;
} tt_cpu_gradient_share;
void tt_cpu_share_gradient(const tt_cpu_gradient_share *s, int thread, int threads);

/* Threads that share the parts of a member in tt_cpu_step: those of the engine if it has fewer
 * members, else 1. */
int tt_cpu_threads_per_member(const tt_cohort *c, tt_slice slice, int threads);

/* Gradients for a slice of the parts: each thread has those of its share of the slice; with
 * threads 1 each thread of the engine has those of the whole slice. Errors: MEM. */
tt_err tt_cpu_reserve_sums(tt_engine *e, tt_slice parts, int threads);

/* An update of the weights of a member. */
typedef struct tt_cpu_update {
  const tt_engine *e;
  const tt_cpu_member *ctx;
  tt_optimizer_args args;
  float scale;     /* of the gradient, if the member is clipped; else 1 */
  float *gradient; /* [P] of tt_cpu_share_update */
} tt_cpu_update;

/* A step after its gradient, for the parameters of one segment, gradient[segment.count].
 *   square_sum        of the gradient, but for running values of batch_norm
 *   update_begin      all but `gradient`, without clipping
 *   clip_update       squares: sum of squares of the gradient of all parameters, if it is clipped
 *   share_update      the work of a thread: updates and averages its segment of all parameters
 *   average_weights   adds the new weights to their average (ema)
 *   end_step          ends the step in the state */
double tt_cpu_square_sum(const tt_engine *e, tt_slice segment, const float *gradient);
void tt_cpu_update_begin(const tt_engine *e, const tt_cpu_member *ctx, tt_cpu_update *out);
void tt_cpu_clip_update(tt_cpu_update *u, double squares);
void tt_cpu_update_weights(const tt_cpu_update *u, tt_slice segment, float *gradient);
void tt_cpu_share_update(void *update, int thread, int threads);
void tt_cpu_average_weights(const tt_engine *e, const tt_cpu_member *ctx, tt_slice segment);
void tt_cpu_end_step(const tt_engine *e, const tt_cpu_member *ctx, double loss);

/* The end of a step of the whole batch, from an update that has begun and its gradient, which
 * changes. Returns 0 if the loss is not finite; then the weights do not change. */
int tt_cpu_finish_step(const tt_engine *e, const tt_cpu_member *ctx, tt_cpu_update *u, double loss);

/* One optimizer step. Returns 0 if the loss is not finite; then the weights do not change.
 *   steps  steps until the caller stops: the row order is computed for no more batches */
int tt_cpu_step(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx, int64_t steps);

/* The same by all threads of the team; the batch has one part. */
int tt_cpu_shared_step(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                       int64_t steps);

/* The same by the first two threads of the team, each with its own weights and slots, for networks
 * whose gradient is a sum of two halves (tt_cpu_cut). The update of a step, and the sum of its
 * losses, are made at the start of the next step; in the last step of an epoch, and with steps 1,
 * before the function returns.
 *   pair_floats  floats of pair_scratch of a team; 0: no pairs in this cohort
 *   pair_begin   of a team with pair_scratch
 *   pair_end     makes the update of the last step, if it was not made; later steps of the member
 *                must be made by the other functions */
typedef struct tt_cpu_pair {
  const tt_engine *e;
  tt_cpu_buffers *b;
  tt_cpu_member member[2]; /* of each thread, with its weights and slots */
  double *term[2];         /* [which][B] losses of the rows */
  float *half[2][2];       /* [thread][which] gradient [P] */
  /* The leader writes what follows in each step, and the other thread reads it; it does not share
   * a cache line with what is above, which never changes. */
  _Alignas(128) tt_cpu_batch batch;
  int64_t rows;         /* of the batch, whose gradient is to be computed; 0: none */
  int64_t due;          /* rows of the step whose update is to be made; 0: none */
  tt_cpu_update update; /* this update */
  int which;            /* index in `term` and `half` of the step before */
  int is_copied;        /* 1: the copy of thread 1 was made */
  atomic_int infinite;  /* 1: a loss is not finite */
} tt_cpu_pair;
int64_t tt_cpu_pair_floats(const tt_cohort *c);
void tt_cpu_pair_begin(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                       tt_cpu_pair *out);
int tt_cpu_pair_step(tt_cpu_pair *pair, int64_t steps);
void tt_cpu_pair_end(tt_cpu_pair *pair);

/* Parts of a step on rows of the caller (engine.h: forward, backward). The first returns the number
 * of rows and leaves the outputs in z[layers - 1]; the second leaves the gradient in gradient[0].
 *   predicts        1: as in predictions, without dropout
 *   input_gradient  [rows][D] of the batch, or NULL */
int64_t tt_cpu_shared_forward(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                              int predicts);
void tt_cpu_shared_backward(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                            const float *delta, float *input_gradient);

/* The rows of a batch that a thread computes: blocks of TT_LANES rows are dealt evenly. */
tt_slice tt_cpu_share_of_rows(int64_t rows, int thread, int threads);

/* Whether all values are finite. */
int tt_cpu_are_finite(const float *value, int64_t count);

/* After a step: if it was the last of an epoch, end the epoch and return 1; else return 0. */
int tt_cpu_end_epoch_if_due(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx);

/* Up to `steps` steps of member i of [0, M). Returns the number taken. The first function returns
 * how many these are if the member does not stop early. */
int64_t tt_cpu_steps_left(const tt_engine *e, int64_t i, int64_t steps);
int64_t tt_cpu_train_member(tt_engine *e, tt_cpu_buffers *b, tt_cpu_team *team, int64_t i,
                            int64_t steps);

/* Copy rows of the data set to x, y and weight of the buffers. Returns the sample weights, or NULL
 * if the data set has none. */
const float *tt_cpu_load_rows(const tt_engine *e, tt_cpu_buffers *b, const tt_ensemble *ensemble,
                              const int32_t *row, int64_t rows);

/* Mean loss of weights w[P] over a list of rows; NaN for no rows. The second function divides the
 * rows among the threads and engines that share the parts of a member. */
double tt_cpu_mean_loss(const tt_engine *e, tt_cpu_buffers *b, tt_cpu_team *team,
                        const tt_ensemble *ensemble, const float *w, const int32_t *row,
                        int64_t count);
double tt_cpu_shared_mean_loss(const tt_engine *e, const tt_cpu_member *ctx, const float *w,
                               const int32_t *row, int64_t count);

/* Between the two calls a thread rounds to nearest without traps, as in tt_floating_begin, and
 * denormal numbers count as zero: the moments of dead units decay to denormal numbers, and one
 * operation on them is about a hundred times slower. The first call returns the mode to restore. */
unsigned tt_cpu_flush_denormals(void);
void tt_cpu_restore_denormals(unsigned old);

/* engine.h: describe, predict_bytes, predict. */
int64_t tt_cpu_predict_bytes(const tt_model *model, int64_t columns, const tt_resources *use);
tt_err tt_cpu_describe(int device, tt_device_info *out);
tt_err tt_cpu_predict(const tt_trained_ensemble *c, const tt_resources *use, int64_t rows,
                      const float *x, tt_moments *dst, float *members);

/* What partial or stage_begin allocate for a share. Errors: MEM. */
tt_err tt_cpu_partial_reserve(tt_engine *e, tt_slice parts);
tt_err tt_cpu_stage_reserve(tt_engine *e, const tt_engine_share *share);

/* engine.h: partial, squares, advance, accept. */
tt_err tt_cpu_partial(tt_engine *e, int64_t m, tt_slice parts, int *training,
                      float *sum[TT_MAX_PART_SUMS], double loss[TT_MAX_PART_SUMS]);
tt_err tt_cpu_squares(tt_engine *e, int64_t m, tt_slice segment, float *gradient, double *block);
tt_err tt_cpu_advance(tt_engine *e, int64_t m, tt_slice segment, float *gradient, double squares,
                      float *w);
tt_err tt_cpu_accept(tt_engine *e, int64_t m, tt_slice slice, const float *w, double loss,
                     const tt_epoch_sharing *share, int *epoch_ended);

/* engine.h: forward, apply, set_batch, backward, update, take_gradient. */
tt_err tt_cpu_forward_rows(tt_engine *e, float *output);
tt_err tt_cpu_set_batch(tt_engine *e, const tt_batch *batch);
tt_err tt_cpu_backward_rows(tt_engine *e, const float *delta, float *input_gradient);
tt_err tt_cpu_update_members(tt_engine *e);
tt_err tt_cpu_take_gradient(tt_engine *e, float *gradient);
void tt_cpu_given_destroy(tt_engine *e);

/* engine.h: stage_begin, stage_forward, stage_backward, stage_gradient. */
tt_err tt_cpu_stage_begin(tt_engine *e, int64_t m, const tt_pipeline_stage *layers, tt_slice parts,
                          int64_t window, tt_pipeline_step *out);
tt_err tt_cpu_stage_forward(tt_engine *e, int64_t part, const float *in, float *out);
tt_err tt_cpu_stage_backward(tt_engine *e, int64_t part, const float *in, float *out);
tt_err tt_cpu_stage_gradient(tt_engine *e, int64_t part);
void tt_cpu_stage_destroy(tt_engine *e);
#endif
