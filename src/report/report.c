/* report.c — see report.h. */
#include "src/report/report.h"

#include "core/base/directory.h"
#include "core/base/mem.h"
#include "src/report/history.h"
#include "src/report/picture.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static tt_err make_path(const char *directory, const char *name, char path[PATH_MAX])
{
  if (snprintf(path, PATH_MAX, "%s/%s", directory, name) >= PATH_MAX)
    return TT_FAIL(CANTCREAT, "%s: the path is too long", directory);
  return TT_OK;
}

static tt_err open_table(const char *directory, const char *name, char path[PATH_MAX], FILE **out)
{
  TT_TRY(make_path(directory, name, path));
  *out = fopen(path, "w");
  return *out ? TT_OK : TT_FAIL(CANTCREAT, "%s: %s", path, strerror(errno));
}

static tt_err close_table(FILE *f, const char *path)
{
  int failed = ferror(f);
  failed |= fclose(f) != 0;
  return failed ? TT_FAIL(IO, "%s: cannot be written: %s", path, strerror(errno)) : TT_OK;
}

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

/* One history for each ensemble: seven columns of the table. */
static tt_err open_histories(const tt_results *k, tt_loss_history **out, int64_t *count)
{
  TT_TRY(TT_ALLOC(*out, k->members));
  for (int64_t first = 0; first < k->members; first = (*out)[(*count)++].end)
    TT_TRY(tt_loss_history_create(k, first, &(*out)[*count]));
  return TT_OK;
}

static void write_history_rows(FILE *f, const tt_results *k, const tt_loss_history *h,
                               int64_t count)
{
  static const char *const part[] = {"members",       "train_q10",      "train_q50",
                                     "train_q90",     "validation_q10", "validation_q50",
                                     "validation_q90"};
  fprintf(f, "epoch");
  for (int64_t e = 0; e < count; e++)
    for (int i = 0; i < 7; i++) fprintf(f, "\t%s.%s", k->owner[h[e].first], part[i]);
  for (int64_t epoch = 0; epoch < k->epochs; epoch++) {
    fprintf(f, "\n%" PRId64, epoch);
    for (int64_t e = 0; e < count; e++) {
      fprintf(f, "\t%.0f", h[e].members[epoch]);
      for (int i = 0; i < TT_LOSS_KINDS; i++)
        for (int j = 0; j < TT_LOSS_QUANTILES; j++)
          fprintf(f, "\t%.9g", h[e].quantile[i][j][epoch]);
    }
  }
  fprintf(f, "\n");
}

static tt_err write_history(const tt_results *k, const char *directory)
{
  char path[PATH_MAX];
  tt_loss_history *h = NULL;
  int64_t count = 0;
  FILE *f = NULL;
  tt_err e = open_histories(k, &h, &count);
  if (!e) e = open_table(directory, "history.tsv", path, &f);
  if (!e) {
    write_history_rows(f, k, h, count);
    e = close_table(f, path);
  }
  for (int64_t i = 0; i < count; i++) tt_loss_history_free(&h[i]);
  tt_free(h);
  return e;
}

static tt_err draw_picture(const tt_results *k, const char *directory)
{
  char path[PATH_MAX];
  TT_TRY(make_path(directory, "report.svg", path));
  return tt_report_picture_local(k, path);
}

tt_err tt_report_local(const char *results, const char *directory)
{
  tt_results *k = NULL;
  TT_TRY(tt_results_read_local(results, &k));
  tt_err e = tt_directory_create(directory);
  if (!e) e = write_history(k, directory);
  if (!e && k->rows > 0) e = write_predictions(k, directory);
  if (!e) e = draw_picture(k, directory);
  tt_results_destroy(&k);
  return e;
}
