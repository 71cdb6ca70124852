/* report.c — see report.h. */
#include "src/report/report.h"

#include "core/base/directory.h"
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "io/results/results.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tt_err open_table(const char *directory, const char *name, char path[PATH_MAX], FILE **out)
{
  if (snprintf(path, PATH_MAX, "%s/%s", directory, name) >= PATH_MAX)
    return TT_FAIL(CANTCREAT, "%s: the path is too long", directory);
  *out = fopen(path, "w");
  return *out ? TT_OK : TT_FAIL(CANTCREAT, "%s: %s", path, strerror(errno));
}

static tt_err close_table(FILE *f, const char *path)
{
  int failed = ferror(f);
  failed |= fclose(f) != 0;
  return failed ? TT_FAIL(IO, "%s: cannot be written: %s", path, strerror(errno)) : TT_OK;
}

/* ---- predictions.tsv ------------------------------------------------------------------------- */

static tt_err write_predictions(const tt_results *k, const char *directory)
{
  static const char *const part[] = {"true", "mean", "std", "std_aleatoric", "std_epistemic"};
  const tt_test_predictions *t = &k->test;
  const double *value[] = {t->y, t->mean, t->total, t->aleatoric, t->epistemic};
  char path[PATH_MAX];
  FILE *f = NULL;
  TT_TRY(open_table(directory, "predictions.tsv", path, &f));
  fprintf(f, "row");
  for (int64_t c = 0; c < k->columns; c++)
    for (int i = 0; i < 5; i++) fprintf(f, "\t%s.%s.%s", k->ensemble[c], k->target[c], part[i]);
  for (int64_t r = 0; r < k->rows; r++) {
    fprintf(f, "\n%" PRId64, t->row[r]);
    for (int64_t c = 0; c < k->columns; c++)
      for (int i = 0; i < 5; i++) fprintf(f, "\t%.9g", value[i][r * k->columns + c]);
  }
  fprintf(f, "\n");
  return close_table(f, path);
}

/* ---- history.tsv ----------------------------------------------------------------------------- */

/* Members of an ensemble are consecutive. */
static int64_t ensemble_end(const tt_results *k, int64_t first)
{
  int64_t end = first;
  while (end < k->members && strcmp(k->owner[end], k->owner[first]) == 0) end++;
  return end;
}

/* Finite losses of an epoch, sorted; returns how many. */
static int64_t sort_finite_losses(const tt_results *k, const float *loss, int64_t first,
                                  int64_t end, int64_t epoch, double *sorted)
{
  int64_t n = 0;
  for (int64_t m = first; m < end; m++)
    if (isfinite(loss[m * k->epochs + epoch])) sorted[n++] = loss[m * k->epochs + epoch];
  qsort(sorted, (size_t)n, sizeof *sorted, tt_compare_f64);
  return n;
}

/* Linear between order statistics, as numpy has it. */
static double quantile(const double *sorted, int64_t n, double q)
{
  if (n == 0) return NAN;
  double place = q * (double)(n - 1);
  int64_t below = (int64_t)place, above = below + 1 < n ? below + 1 : below;
  return sorted[below] + (place - (double)below) * (sorted[above] - sorted[below]);
}

static void write_losses(FILE *f, const tt_results *k, int64_t first, int64_t end, int64_t epoch,
                         double *sorted)
{
  const float *loss[] = {k->loss_train, k->loss_validation};
  for (int i = 0; i < 2; i++) {
    int64_t n = sort_finite_losses(k, loss[i], first, end, epoch, sorted);
    if (i == 0) fprintf(f, "\t%" PRId64, n);
    for (int j = 1; j <= 9; j += 4) fprintf(f, "\t%.9g", quantile(sorted, n, j / 10.0));
  }
}

static void write_history_rows(FILE *f, const tt_results *k, double *sorted)
{
  static const char *const part[] = {"members",       "train_q10",      "train_q50",
                                     "train_q90",     "validation_q10", "validation_q50",
                                     "validation_q90"};
  fprintf(f, "epoch");
  for (int64_t first = 0; first < k->members; first = ensemble_end(k, first))
    for (int i = 0; i < 7; i++) fprintf(f, "\t%s.%s", k->owner[first], part[i]);
  for (int64_t epoch = 0; epoch < k->epochs; epoch++) {
    fprintf(f, "\n%" PRId64, epoch);
    for (int64_t first = 0; first < k->members; first = ensemble_end(k, first))
      write_losses(f, k, first, ensemble_end(k, first), epoch, sorted);
  }
  fprintf(f, "\n");
}

static tt_err write_history(const tt_results *k, const char *directory)
{
  char path[PATH_MAX];
  double *sorted = NULL;
  FILE *f = NULL;
  TT_TRY(TT_ALLOC(sorted, k->members));
  tt_err e = open_table(directory, "history.tsv", path, &f);
  if (!e) {
    write_history_rows(f, k, sorted);
    e = close_table(f, path);
  }
  tt_free(sorted);
  return e;
}

tt_err tt_report_tables_local(const char *results, const char *directory)
{
  tt_results *k = NULL;
  TT_TRY(tt_results_read_local(results, &k));
  tt_err e = tt_directory_create(directory);
  if (!e) e = write_history(k, directory);
  if (!e && k->rows > 0) e = write_predictions(k, directory);
  tt_results_destroy(&k);
  return e;
}
