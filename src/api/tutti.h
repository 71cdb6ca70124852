/* tutti.h — public interface of libtutti: train from a job file, predict from a model file.
 *
 * Functions of type int return 0 or an exit code of docs/exit-codes.md; tutti_error() then returns
 * the message. Arrays are row-major and owned by the caller. In every locale numbers in files and
 * messages have a decimal point. */
#ifndef TUTTI_H
#define TUTTI_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

/* Version, e.g. "0.1.0". */
TUTTI_API const char *tutti_version(void);

/* Message of the last error on this thread, "" if there was none. */
TUTTI_API const char *tutti_error(void);

/* Train the job of a YAML file, as `tutti train` does; resume from its checkpoint if there is one.
 *   set  `nset` texts "section.name=value" that override the file; NULL if nset is 0
 * Collective over MPI_COMM_WORLD. If MPI is not initialized, initializes and finalizes it. MPI
 * cannot start twice: to train more than once, call MPI_Init before and MPI_Finalize after. Returns
 * 75 if a signal or the time limit stopped training; call it again to resume. */
TUTTI_API int tutti_train(const char *job, const char *const *set, int nset);

/* The trained ensembles of a model file in memory. Needs no MPI; local to this process. */
typedef struct tutti_model tutti_model;

/* Read model.h5 into *out; release it with tutti_close. */
TUTTI_API int tutti_open(const char *file, tutti_model **out);
TUTTI_API void tutti_close(tutti_model **model); /* accepts a NULL model; sets it to NULL */

/* Number of input columns, of predicted columns (those of all ensembles, one ensemble after the
 * other), and of members. */
TUTTI_API int64_t tutti_inputs(const tutti_model *model);
TUTTI_API int64_t tutti_columns(const tutti_model *model);
TUTTI_API int64_t tutti_members(const tutti_model *model);

/* Name of an input column; ensemble, target and units of the target of a predicted column. NULL if
 * there is no such column. Borrowed from the model. */
TUTTI_API const char *tutti_input_name(const tutti_model *model, int64_t input);
TUTTI_API const char *tutti_ensemble_name(const tutti_model *model, int64_t column);
TUTTI_API const char *tutti_target_name(const tutti_model *model, int64_t column);
TUTTI_API const char *tutti_target_units(const tutti_model *model, int64_t column);

/* Predict `rows` rows with `threads` threads (0 = all cores available to this process).
 *   x                     [rows][inputs] in the units of the training data, finite
 *   mean                  [rows][columns]
 *   total, aleatoric, epistemic
 *                         [rows][columns] standard deviations, total^2 = aleatoric^2 + epistemic^2;
 *                         each may be NULL
 * Safe to call from several threads on one model. */
TUTTI_API int tutti_predict(const tutti_model *model, int64_t rows, const double *x, int threads,
                            double *mean, double *total, double *aleatoric, double *epistemic);
#ifdef __cplusplus
}
#endif
#endif
