/* workload.h — the timed ensembles A to F, U1 to U3 of the users' kind, and L of one large member:
 * as cohort and data set for the engines of tutti, and as files for other programs, so that all
 * programs start from the same values. */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H
#include "core/model/cohort.h"

/* Networks trained by Adam on whole batches. */
typedef struct bench_workload {
  const char *name;
  int64_t members, inputs, hidden[3], hidden_layers, targets, batch;
  int64_t parts; /* of a batch (train.parts) */
  tt_activation activation;
  tt_loss loss;
} bench_workload;

extern const bench_workload bench_workloads[]; /* name NULL after the last */

enum {
  BENCH_ROWS = 10000,
  BENCH_STEPS = 50,  /* compared with the reference before the timing */
  BENCH_CHECKED = 4, /* members whose losses are compared, at most */
};

/* The row of the table, with another number of members unless that is 0.
 * Errors: USAGE (no such name). */
tt_err bench_find(const char *name, int64_t members, bench_workload *out);

/* Rows to train on: as many whole batches as BENCH_ROWS holds. */
int64_t bench_train_rows(const bench_workload *load);

/* Numbers of the compared members, from the first to the last. Returns how many. */
int64_t bench_checked(const bench_workload *load, int64_t member[BENCH_CHECKED]);

/* The cohort, with epochs for at least `steps` optimizer steps, or fewer if the losses that an
 * engine stores would fill its memory. Owner: the caller, also on error, tt_cohort_destroy. */
tt_err bench_cohort(const bench_workload *load, int64_t steps, tt_cohort **out);

/* Owner: the caller, also on error, tt_dataset_destroy. */
tt_err bench_data(const bench_workload *load, tt_dataset **out);

/* Write the folder that other programs start from:
 *   case.json   sizes, where each layer's W and b lie, activation and loss, Adam's constants, the
 *               members to compare
 *   x.f4 [N][D], y.f4 [N][K], weights.f4 [M][P], order.i4 [M][BENCH_STEPS * B] rows of each step
 * peers/reference.py adds reference.f8 [checked][BENCH_STEPS], the losses in double. */
tt_err bench_export(const bench_workload *load, const char *folder);

/* Read reference.f8 of that folder into losses[checked * BENCH_STEPS]. Errors: NOINPUT. */
tt_err bench_reference(const char *folder, int64_t checked, double *losses);
#endif
