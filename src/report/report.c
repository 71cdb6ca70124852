/* report.c — see report.h. */
#include "src/report/report.h"

#include "core/base/mem.h"
#include "core/base/text.h"
#include "io/hdf5/files.h"
#include "src/report/history.h"
#include "src/report/own_file.h"
#include "src/report/picture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static tt_err make_path(const char *directory, const char *name, char path[TT_PATH_MAX])
{
  if (snprintf(path, TT_PATH_MAX, "%s/%s", directory, name) >= TT_PATH_MAX)
    return TT_FAIL(CANTCREAT, "%s: the path is too long", directory);
  return TT_OK;
}

/* A table being written: a temporary file that becomes `path`. */
typedef struct table_file {
  FILE *f;
  char path[TT_PATH_MAX], temporary[TT_PATH_MAX];
} table_file;

static tt_err open_table(const char *directory, const char *name, table_file *t)
{
  TT_TRY(make_path(directory, name, t->path));
  TT_TRY(tt_file_temporary_name_local(t->path, t->temporary));
  TT_TRY(tt_file_reserve_local(t->temporary, 0));
  int fd = open(t->temporary, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  t->f = fd < 0 ? NULL : fdopen(fd, "w");
  return t->f ? TT_OK : TT_FAIL(CANTCREAT, "%s: %s", t->path, strerror(errno));
}

static tt_err close_table(table_file *t)
{
  int failed = ferror(t->f);
  failed |= fclose(t->f) != 0;
  tt_err e = failed ? TT_FAIL(IO, "%s: cannot be written: %s", t->path, strerror(errno))
                    : tt_file_publish_local(t->temporary, t->path);
  if (e)
    unlink(t->temporary);
  else
    printf("table:   %s\n", t->path);
  return e;
}

static tt_err write_predictions(const tt_results *k, const char *directory)
{
  static const char *const part[] = {"true", "mean", "std", "std_aleatoric", "std_epistemic"};
  const tt_test_predictions *t = &k->test;
  const double *value[] = {t->y, t->mean, t->total, t->aleatoric, t->epistemic};
  table_file table;
  TT_TRY(open_table(directory, "predictions.tsv", &table));
  FILE *f = table.f;
  fprintf(f, "row");
  for (int64_t c = 0; c < k->columns; c++)
    for (int i = 0; i < 5; i++)
      fprintf(f, "\t%s%s.%s.%s", tt_table_quote(k->ensemble[c]), k->ensemble[c], k->target[c],
              part[i]);
  for (int64_t r = 0; r < k->rows; r++) {
    fprintf(f, "\n%" PRId64, t->row[r]);
    for (int64_t c = 0; c < k->columns; c++)
      for (int i = 0; i < 5; i++) fprintf(f, "\t%.9g", value[i][r * k->columns + c]);
  }
  fprintf(f, "\n");
  return close_table(&table);
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
    for (int i = 0; i < 7; i++)
      fprintf(f, "\t%s%s.%s", tt_table_quote(k->owner[h[e].first]), k->owner[h[e].first], part[i]);
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
  table_file table;
  tt_loss_history *h = NULL;
  int64_t count = 0;
  tt_err e = open_histories(k, &h, &count);
  if (!e) e = open_table(directory, "history.tsv", &table);
  if (!e) {
    write_history_rows(table.f, k, h, count);
    e = close_table(&table);
  }
  for (int64_t i = 0; i < count; i++) tt_loss_history_free(&h[i]);
  tt_free(h);
  return e;
}

static tt_err draw_picture(const tt_results *k, const char *directory)
{
  char path[TT_PATH_MAX];
  TT_TRY(make_path(directory, "report.svg", path));
  TT_TRY(tt_report_picture_local(k, path));
  printf("picture: %s\n", path);
  return TT_OK;
}

/* Before anything is written. The first words of a file tell who wrote it. */
static tt_err check_places(const char *directory)
{
  static const struct {
    const char *name, *mark;
  } output[] = {{"history.tsv", "epoch\t"},
                {"predictions.tsv", "row\t"},
                {"report.svg", "<!-- written by tutti report -->"}};
  char path[TT_PATH_MAX];
  for (size_t i = 0; i < sizeof output / sizeof *output; i++) {
    TT_TRY(make_path(directory, output[i].name, path));
    TT_TRY(tt_own_file_check_local(path, output[i].mark));
  }
  return TT_OK;
}

tt_err tt_report_local(const char *results, const char *directory, int force)
{
  tt_results *k = NULL;
  TT_TRY(tt_results_read_local(results, &k));
  tt_err e = tt_directory_create(directory);
  if (!e && !force) e = check_places(directory);
  if (!e) e = write_history(k, directory);
  if (!e && k->rows > 0) e = write_predictions(k, directory);
  if (!e) e = draw_picture(k, directory);
  tt_results_destroy(&k);
  return e;
}
