/* tutti.h — the public interface of libtutti: train from a job file, predict from a model file.
 *
 * Functions that return int return 0 or an exit code of the table in docs/exit-codes.md;
 * tutti_error() then says what went wrong. Arrays are row-major and owned by the caller. */
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

/* "0.1.0" */
TUTTI_API const char *tutti_version(void);

/* Message of the last failure on this thread, "" if there was none. */
TUTTI_API const char *tutti_error(void);

/* Train the job of a YAML file, as `tutti train` does; go on from its checkpoint if there is one.
 *   set  `nset` texts "section.name=value" that override the file; NULL if nset is 0
 * Collective over MPI_COMM_WORLD. Starts and ends MPI if it does not run; never ends a running one.
 * Returns 75 when it was stopped by a signal or a time limit and should be called again. */
TUTTI_API int tutti_train(const char *job, const char *const *set, int nset);

/* A trained ensemble in memory. Needs no MPI; local to this process. */
typedef struct tutti_model tutti_model;

/* Read model.h5 into *out, to be closed by tutti_close. */
TUTTI_API int tutti_open(const char *file, tutti_model **out);
TUTTI_API void tutti_close(tutti_model **model); /* accepts NULL, sets NULL */

/* Number of input columns, of predicted columns (targets of the ensembles, one after the other),
 * and of members. */
TUTTI_API int64_t tutti_inputs(const tutti_model *model);
TUTTI_API int64_t tutti_columns(const tutti_model *model);
TUTTI_API int64_t tutti_members(const tutti_model *model);

/* Name and units of an input column, name of the ensemble and target of a predicted column. NULL if
 * there is no such column. Borrowed from the model. */
TUTTI_API const char *tutti_input_name(const tutti_model *model, int64_t input);
TUTTI_API const char *tutti_ensemble_name(const tutti_model *model, int64_t column);
TUTTI_API const char *tutti_target_name(const tutti_model *model, int64_t column);
TUTTI_API const char *tutti_target_units(const tutti_model *model, int64_t column);

/* Predict `rows` rows on `threads` threads (0 = all cores this process may use).
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
