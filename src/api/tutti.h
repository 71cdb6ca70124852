/* tutti.h — public interface of libtutti: train from a job file, predict from a model file.
 *
 * Functions of type int return 0 or an exit code of docs/exit-codes.md; tutti_error() then returns
 * the message. Arrays are row-major and owned by the caller. In every locale numbers in files and
 * messages have a decimal point. Every call computes in the default floating-point environment and
 * puts back that of the caller: rounding, traps and flags.
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
 * variances v, and standard deviations before recalibration, which multiplies them by a constant:
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
#ifdef __cplusplus
}
#endif
#endif
