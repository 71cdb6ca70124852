/* tutti.h — public interface of libtutti: train from a job file or step by step, predict from a
 * model.
 *
 * Functions of type int return 0 or an exit code of docs/troubleshooting.md; tutti_error() then
 * returns the message. Arrays are row-major and owned by the caller. In every locale numbers in
 * files and messages have a decimal point. Every call computes in the default floating-point
 * environment and puts back that of the caller: rounding, traps and flags.
 *
 * Threads: all functions but tutti_train may be called from several threads at once. A model is not
 * changed after tutti_open, so that threads share it without locks; tutti_close needs that no other
 * call uses the model. Each thread has its own error message.
 *
 * Processes: a process forked from one that uses the library may use it too, also the models that
 * are open. If the parent has predicted or trained with several threads, the child has one thread
 * whatever it asks for. The library stays loaded after dlclose.
 *
 * Versions: a program works with a library of the same major and minor version as its header. */
#ifndef TUTTI_H
#define TUTTI_H
#include <stddef.h>
#include <stdint.h>
#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0
#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

/* Version of the library, e.g. "0.1.0"; TUTTI_VERSION_MAJOR etc. are that of the header. */
TUTTI_API const char *tutti_version(void);

/* All options of a job file, as in docs/options.md; NULL: out of memory. */
TUTTI_API const char *tutti_options(void);

/* Message of the last call on this thread, "" if it succeeded. */
TUTTI_API const char *tutti_error(void);

/* Train the job of a YAML file, as `tutti train` does; resume from its checkpoint if there is one.
 *   set  `nset` texts "section.name=value" that override the file; NULL if nset is 0
 * A process that no MPI launcher has started trains without MPI, as often as it likes. Otherwise
 * the call is collective over MPI_COMM_WORLD; if MPI is not initialized, it initializes and
 * finalizes MPI, which cannot start twice: to train more than once under a launcher, call MPI_Init
 * before and MPI_Finalize after. Progress is reported on standard error; scores are in results.h5.
 *
 * SIGTERM, SIGUSR1, SIGINT and the time limit stop training with a checkpoint: the call returns 75,
 * and tutti_error() says why; call it again to resume. The handlers of the program are put back
 * before the call returns, and are called only for a signal that has not stopped training. A second
 * SIGINT ends the process at once. If training makes no progress, a watchdog ends the process with
 * code 75 (run.watchdog). */
TUTTI_API int tutti_train(const char *job, const char *const *set, int nset);

/* A file in memory. */
typedef struct tutti_file {
  const char *name; /* without directory, at most 31 characters */
  const void *bytes;
  int64_t size;
} tutti_file;

/* Set all bytes to 0, then the size and the rest. */
typedef struct tutti_training {
  size_t size;            /* sizeof(tutti_training) */
  const char *job;        /* text of a job file */
  const char *const *set; /* [nset] as in tutti_train; NULL if nset is 0 */
  int nset;
  /* [files] at most 4, which the job names by their names alone: "data.file: data.h5". A
   * checkpoint that was stored is continued. */
  int files;
  const tutti_file *file;
  int live;      /* 1: progress is told five times a second, as on a terminal; 0: as in a log */
  void *context; /* for the next two, which are called by the thread that trains */
  /* Called about twice a second with the lines that the program has written since, "" if there are
   * none, and at the end. Returns 1 to stop with a checkpoint, the call then returns 75. NULL: the
   * lines are lost */
  int (*poll)(void *context, const char *lines);
  /* Called at the end with each file: model.h5, results.h5 and status.json, or a checkpoint. The
   * bytes are those of the library and gone after the call */
  void (*store)(void *context, const tutti_file *file);
} tutti_training;

/* Train a job in memory, with the bits of tutti_train: run.directory must be "." and no file is
 * written. On this process alone, with or without MPI in the program. Signals are those of the
 * program, the time limit of Slurm is not asked for, and there is no watchdog. May be called by
 * several threads at once. */
TUTTI_API int tutti_train_in_memory(const tutti_training *training);

/* The trained ensembles of a model file in memory. Needs no MPI; local to this process. The program
 * may use another MPI library than libtutti, and another HDF5 library if that has other versions of
 * its symbols, as the serial one of Debian. With another MPI library, load libtutti before
 * MPI_Init: otherwise tutti_open returns 69, and tutti_train returns 69 wherever it needs MPI. */
typedef struct tutti_model tutti_model;

/* Read model.h5 into *out; release it with tutti_close. tutti_open_memory reads the bytes of such a
 * file, e.g. one that is compiled into a program; the bytes are not used after the call. The model
 * holds its weights twice, the second time for single rows, unless this takes more than 64 MiB for
 * an ensemble. */
TUTTI_API int tutti_open(const char *file, tutti_model **out);
TUTTI_API int tutti_open_memory(const void *bytes, int64_t size, tutti_model **out);

/* The same, but the ensemble that has this member of model.h5 (0, 1, ..., through all ensembles)
 * predicts with it alone, whatever its weight is; other ensembles are as in the file. For programs
 * that run with one member each. The model then has no epistemic part and costs one member. */
TUTTI_API int tutti_open_member(const char *file, int64_t member, tutti_model **out);

/* Open the ensemble of one group of a model that was trained with the option by. "(pooled)" is the
 * ensemble of all rows; small groups get it too. tutti_open refuses such a model. */
TUTTI_API int tutti_open_group(const char *file, const char *group, tutti_model **out);
TUTTI_API void tutti_close(tutti_model **model); /* accepts NULL, *model too; sets *model to NULL */

/* Number of input columns, of predicted columns (those of all ensembles, one ensemble after the
 * other), and of members. A NULL model has no columns, members and names, and cannot predict. */
TUTTI_API int64_t tutti_inputs(const tutti_model *model);
TUTTI_API int64_t tutti_columns(const tutti_model *model);
TUTTI_API int64_t tutti_members(const tutti_model *model);

/* Name of an input column; ensemble, target, label ("y", "y q0.05", "digit=3") and units of a
 * predicted column, as in the files of `tutti predict`. NULL if there is no such column. Borrowed
 * from the model. */
TUTTI_API const char *tutti_input_name(const tutti_model *model, int64_t input);
TUTTI_API const char *tutti_ensemble_name(const tutti_model *model, int64_t column);
TUTTI_API const char *tutti_target_name(const tutti_model *model, int64_t column);
TUTTI_API const char *tutti_column_label(const tutti_model *model, int64_t column);
TUTTI_API const char *tutti_target_units(const tutti_model *model, int64_t column);

/* Levels of an input whose values are categories (data.categories), 0 for amounts; name of a level,
 * NULL if there is none, borrowed from the model; and the number that stands for a level in x, NaN
 * if the input has no level of this name. */
TUTTI_API int64_t tutti_input_levels(const tutti_model *model, int64_t input);
TUTTI_API const char *tutti_input_level(const tutti_model *model, int64_t input, int64_t level);
TUTTI_API double tutti_level_value(const tutti_model *model, int64_t input, const char *level);

/* Columns of the largest ensemble; levels of the conformal intervals, 0 = not calibrated; whether
 * an ensemble predicts classes. */
TUTTI_API int64_t tutti_member_columns(const tutti_model *model);
TUTTI_API int64_t tutti_levels(const tutti_model *model);
/* Nominal coverage of the conformal intervals number `level`, e.g. 0.9; NaN if there are none. */
TUTTI_API double tutti_level(const tutti_model *model, int64_t level);
TUTTI_API int tutti_has_classes(const tutti_model *model);

/* Memory for predictions of rows one by one: a program that predicts often, e.g. in each step of a
 * simulation, creates it once. For up to `threads` threads (0 = all cores available to this
 * process, and never more than these). It is for one call at a time, and for one model, which must
 * stay open. */
typedef struct tutti_workspace tutti_workspace;
TUTTI_API int tutti_workspace_create(const tutti_model *model, int threads, tutti_workspace **out);
TUTTI_API void tutti_workspace_destroy(tutti_workspace **work); /* as tutti_close */

/* Everything that can be asked for. Set all bytes to 0, then the size and the arrays that are
 * wanted; those that are NULL are not computed. C columns, D inputs, W = tutti_member_columns.
 * Later versions add fields at the end; those that the program does not know are not wanted. */
typedef struct tutti_prediction {
  size_t size;                /* sizeof(tutti_prediction) */
  tutti_workspace *workspace; /* of this model; NULL: the call allocates memory, and frees it */
  /* [rows][C] mean and standard deviations, total^2 = aleatoric^2 + epistemic^2 */
  double *mean, *total, *aleatoric, *epistemic;
  /* [rows][C][D] their derivatives by the inputs, in units of the column per unit of the input */
  double *mean_gradient, *total_gradient, *aleatoric_gradient, *epistemic_gradient;
  int64_t quantiles;                     /* Q */
  const double *probability;             /* [Q] each in (0, 1) */
  double *quantile;                      /* [Q][rows][C] of the mixture of the members */
  double *lower, *upper;                 /* [levels][rows][C] conformal intervals */
  double *entropy, *mutual_information;  /* [rows][C] in nats, NaN where no classes are */
  double *member_mean, *member_variance; /* [members][rows][W], NaN beyond own columns */
  /* [rows] largest distance of an input beyond its range in the training rows, in units of the
   * range; 0 inside: the uncertainty of rows outside cannot be trusted; NaN: not known */
  double *extrapolation;
} tutti_prediction;

/* Predict `rows` rows with `threads` threads (0 = all cores available to this process), but never
 * more than these cores.
 *   x  [rows][inputs] in the units of the training data, finite; NaN is accepted where the model
 *      accepts a missing input (data.missing); categories as tutti_level_value
 * Safe to call from several threads on one model. Values have the bits of `tutti predict`
 * (docs/files.md), for any number of rows and threads. It is an error to ask for quantiles of a
 * model that predicts only classes or quantiles; for intervals, if there are no levels; or for
 * entropies without classes.
 *
 * Derivatives are those of every member by reverse differentiation; at a kink of an activation
 * (relu at 0) the derivative of one side. With member weights w (sum 1), member means m and member
 * variances v, and standard deviations before recalibration, which multiplies them by a constant
 * and adds a constant noise to aleatoric and total:
 *   mean        sum w m'
 *   aleatoric   sum w v' / (2 aleatoric)
 *   epistemic   sum w (m - mean) m' / epistemic
 *   total       (aleatoric aleatoric' + epistemic epistemic') / total
 * A standard deviation of 0 has the derivative 0. The networks are differentiated in single
 * precision, as they are predicted: derivatives of the mean have errors of about 1e-6 of the sum of
 * those of the members, those of the standard deviations also have the rounding of these.
 *
 * Rows are computed one by one, with little latency, if derivatives are wanted or if there are up
 * to 8 rows; and if nothing is wanted but the first eight arrays, with a workspace and one thread
 * the call then allocates nothing. This is not for models with images or profiles, several
 * networks, folds, targets that are transformed or predicted by components, or more than 64 MiB of
 * weights: their values are computed in blocks of rows, in memory that the call allocates, and
 * their derivatives in double. */
TUTTI_API int tutti_predict(const tutti_model *model, int64_t rows, const double *x, int threads,
                            const tutti_prediction *out);

/* Training in the process of the program, with rows that it has at hand: reinforcement learning, a
 * simulation that trains its own surrogate, any loss. The members are those of a job; the same
 * batches in the same order give the same weights, bit for bit (docs/trainer.md). On a GPU if there
 * is one, or as run.device says; all arrays are those of the host. A trainer is for one call at a
 * time; several trainers may be used by several threads. */
typedef struct tutti_trainer tutti_trainer;

/* Set all bytes to 0, then the size and what is wanted. Everything is copied. */
typedef struct tutti_trainer_options {
  size_t size;            /* sizeof(tutti_trainer_options) */
  const char *options;    /* YAML: sections model, train, run and ensembles of a job file */
  const char *const *set; /* [nset] as in tutti_train; NULL if nset is 0 */
  int nset;
  int threads;             /* 0: all cores available to this process, and never more than these */
  int64_t inputs, targets; /* D, T columns of x and y; each ensemble learns all or some targets */
  /* Names of the columns for the model file; NULL: x0, x1, ..., y0, y1, ... */
  const char *const *input_name, *const *target_name;
  /* x and y are given in the user's units, and networks get (x - x_mean) / x_scale, and learn
   * (y - y_mean) / y_scale; [D], [T]. NULL: x and y are what the networks get and learn. */
  const double *x_mean, *x_scale, *y_mean, *y_scale;
  /* Rows of an epoch: schedules, warm-up and averages count epochs, and a member ends after
   * train.epochs of them. 0: there are no epochs; training has no end, and no schedule. */
  int64_t epoch_rows;
  /* 1: the ranks of communicator `comm` (MPI_Comm_c2f) of the program train together. The members
   * are divided among them; each rank gives own rows, also none, and the rows of a step are those
   * of all ranks in their order: the bits are those of one process with the same rows. Every call
   * with the trainer is then collective, and with the same other arguments on all ranks; outputs,
   * gradients and losses are those of all members, and of the rows of all ranks. */
  int on_ranks, comm;
} tutti_trainer_options;

/* Create a trainer whose members have their initial weights; destroy accepts NULL, *trainer too,
 * and sets *trainer to NULL. There are no validation rows: early stopping, bootstrap and folds are
 * refused, as is what trains with other methods. Exit code 69: no GPU with run.device: gpu. */
TUTTI_API int tutti_trainer_create(const tutti_trainer_options *options, tutti_trainer **out);
TUTTI_API void tutti_trainer_destroy(tutti_trainer **trainer);

/* Members M, outputs O and parameters P of a network. Output j of target k, of K targets of an
 * ensemble, is output j K + k: with gaussian_nll the means come first. */
TUTTI_API int64_t tutti_trainer_members(const tutti_trainer *trainer);
TUTTI_API int64_t tutti_trainer_outputs(const tutti_trainer *trainer);
TUTTI_API int64_t tutti_trainer_parameters(const tutti_trainer *trainer);

/* Rows for all members. Set all bytes to 0, then the size and the rest. */
typedef struct tutti_batch {
  size_t size;         /* sizeof(tutti_batch) */
  int64_t rows;        /* N in the arrays below */
  const float *x, *y;  /* [N][D], [N][T]; classes are numbers from 0; y may be NULL in forward */
  const float *weight; /* [N] weights of the rows in the loss; NULL: 1 */
  /* Rows of a step, B = `count`, at most train.batch_size; with several ranks leave 0, and do
   * without the next two. Of member m they are
   * index[m][0 ... B-1], rows of the arrays; NULL: the first B of the arrays for all members, or
   * with own_rows those from m B on. 0: all rows of the arrays (N, with own_rows N / M). */
  int64_t count;
  const int32_t *index; /* [M][B] */
  int own_rows;
} tutti_batch;

/* One optimizer step of every member with the loss of train.loss.
 *   loss  [M] mean over the rows of the batch, NaN for a member that has ended or diverged, also in
 *         this step: its weights do not change. NULL: not wanted */
TUTTI_API int tutti_trainer_step(tutti_trainer *trainer, const tutti_batch *batch, double *loss);

/* The same with a loss of the caller: forward returns the outputs of the members, as a training
 * step computes them (dropout). The caller computes the derivatives of its loss by them, for
 * backward, which adds up the gradients of the weights; update takes the step. There may be several
 * calls of forward and backward before an update. backward is for the batch of the last forward,
 * whose arrays must not have changed. Not with train.parts.
 *   output, gradient  [M][B][O]; outputs of a member that does not train are NaN, its gradients are
 *                     ignored
 *   input_gradient    [M][B][D] derivatives of the loss by x; NULL: not wanted. Not for networks
 *                     with a front or with frozen layers. */
TUTTI_API int tutti_trainer_forward(tutti_trainer *trainer, const tutti_batch *batch,
                                    float *output);
TUTTI_API int tutti_trainer_backward(tutti_trainer *trainer, const float *gradient,
                                     float *input_gradient);
TUTTI_API int tutti_trainer_update(tutti_trainer *trainer);

/* Instead of update, for an optimizer of the caller: the gradients of backward since the last step,
 * of all members; the caller sets the new weights. train.optimizer and everything that counts steps
 * are not used then. Not for networks with batch_norm.
 *   gradient  [M][P] as tutti_trainer_get_weights; 0 for a member that does not train */
TUTTI_API int tutti_trainer_take_gradient(tutti_trainer *trainer, float *gradient);

/* Outputs of all members as in predictions, without dropout, for any number of rows; with several
 * ranks for the rows of this rank.
 *   x  [rows][D];  output  [M][rows][O] as the networks have them, NaN for diverged members */
TUTTI_API int tutti_trainer_predict(tutti_trainer *trainer, int64_t rows, const float *x,
                                    float *output);

/* The members as they are now: a model for tutti_predict, which the caller closes with tutti_close,
 * and a model file, which replaces one that is there. Diverged members have the weight 0. */
TUTTI_API int tutti_trainer_model(tutti_trainer *trainer, tutti_model **out);
TUTTI_API int tutti_trainer_save(tutti_trainer *trainer, const char *file);

/* Parameters [P] of a member, or [M][P] of all (-1), which is faster than one by one: layer by
 * layer the weights [out][in], then the biases, as PyTorch orders them. A member that gets weights
 * goes on with its optimizer state. */
TUTTI_API int tutti_trainer_get_weights(tutti_trainer *trainer, int64_t member, float *weights);
TUTTI_API int tutti_trainer_set_weights(tutti_trainer *trainer, int64_t member,
                                        const float *weights);

/* Learning rate of a member, before schedule and warm-up; NaN: no such member. set: member -1 sets
 * that of all. */
TUTTI_API double tutti_trainer_learning_rate(const tutti_trainer *trainer, int64_t member);
TUTTI_API int tutti_trainer_set_learning_rate(tutti_trainer *trainer, int64_t member, double rate);

/* Begin again with a member: other initial weights, and an optimizer without a past. */
TUTTI_API int tutti_trainer_reset(tutti_trainer *trainer, int64_t member);

/* Everything that decides how training goes on, as bytes that the caller stores: after set_state,
 * in a trainer with the same options and scales, training continues with the same bits. set_state
 * refuses other bytes, and then nothing has changed. */
TUTTI_API int64_t tutti_trainer_state_bytes(const tutti_trainer *trainer);
TUTTI_API int tutti_trainer_get_state(tutti_trainer *trainer, void *state);
TUTTI_API int tutti_trainer_set_state(tutti_trainer *trainer, const void *state, int64_t bytes);
#ifdef __cplusplus
}
#endif
#endif
