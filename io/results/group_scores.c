/* group_scores.c — see group_scores.h. */
#include "io/results/group_scores.h"

#include "core/base/mem.h"
#include "core/base/sort.h"
#include "core/base/text.h"
#include "core/model/dataset.h"
#include "io/hdf5/schema.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN = 3, BINS = 10, BAR = 40 };

typedef struct group_table {
  tt_h5_reader *r;
  int64_t groups, columns;
  char **name, **target;
  const char *metric;
  double *score; /* [groups][columns] */
} group_table;

int tt_group_scores_exist(const char *file)
{
  tt_h5_reader *r = NULL;
  if (access(file, R_OK) || tt_h5_open_local(file, &r)) return 0;
  int has = tt_h5_has_local(r, "group");
  tt_h5_close_local(&r);
  return has;
}

static tt_err read_scores(group_table *t)
{
  static const char *const metric[] = {"ensemble_rmse", "ensemble_brier", "ensemble_nll"};
  TT_TRY(tt_h5_read_texts_local(t->r, "group", &t->groups, &t->name));
  TT_TRY(tt_h5_read_texts_local(t->r, "column_target", &t->columns, &t->target));
  for (size_t k = 0; k < sizeof metric / sizeof *metric; k++) {
    int64_t shape[2] = {t->groups, t->columns};
    if (!tt_h5_has_local(t->r, metric[k])) continue;
    t->metric = metric[k] + strlen("ensemble_");
    return tt_schema_read_array_local(t->r, metric[k], TT_H5_F64, 2, shape, &t->score);
  }
  return TT_OK;
}

/* Bins of equal width from the best score to the 95 % quantile; the last one counts all above. */
static void put_histogram(const tt_ranked *sorted, int64_t n, FILE *out)
{
  int64_t count[BINS + 1] = {0}, most = 1;
  double low = sorted[0].key, high = sorted[(n - 1) * 95 / 100].key;
  if (!(high > low)) return;
  for (int64_t i = 0; i < n; i++) {
    double place = (sorted[i].key - low) / (high - low) * BINS;
    count[place < BINS ? (int)place : BINS]++;
  }
  for (int k = 0; k <= BINS; k++) most = count[k] > most ? count[k] : most;
  for (int k = 0; k <= BINS; k++)
    fprintf(out, "    from %-10.4g %.*s %" PRId64 "\n", low + (high - low) * k / BINS,
            (int)(BAR * count[k] / most), "########################################", count[k]);
}

static void put_names(const group_table *t, const char *what, const tt_ranked *sorted, int64_t n,
                      int64_t step, FILE *out)
{
  fprintf(out, "    %-5s ", what);
  for (int64_t i = 0; i < n && i < SHOWN; i++) {
    const tt_ranked *x = step > 0 ? &sorted[i] : &sorted[n - 1 - i];
    fprintf(out, "%s%.4g (%.40s)", i ? ", " : "", x->key, t->name[x->index]);
  }
  fputc('\n', out);
}

static void put_target(const group_table *t, int64_t column, tt_ranked *sorted, double *value,
                       FILE *out)
{
  int64_t n = 0;
  for (int64_t g = 0; g < t->groups; g++) {
    double v = t->score[g * t->columns + column];
    if (isfinite(v) && strcmp(t->name[g], TT_BY_POOLED) != 0) sorted[n++] = (tt_ranked){v, g};
  }
  qsort(sorted, (size_t)n, sizeof *sorted, tt_compare_ranked);
  for (int64_t i = 0; i < n; i++) value[i] = sorted[i].key;
  fprintf(out, "%s: %s of the test rows of %" PRId64 " group%s", t->target[column], t->metric, n,
          tt_plural(n));
  if (n)
    fprintf(out, ", quartiles %.4g %.4g %.4g", tt_sorted_quantile(n, value, 0.25),
            tt_sorted_quantile(n, value, 0.5), tt_sorted_quantile(n, value, 0.75));
  if (!strcmp(t->name[0], TT_BY_POOLED))
    fprintf(out, "; ensemble of all rows %.4g", t->score[column]);
  fputc('\n', out);
  if (!n) return;
  put_names(t, "best", sorted, n, 1, out);
  put_names(t, "worst", sorted, n, -1, out);
  put_histogram(sorted, n, out);
}

/* The columns of one target (its classes, its quantiles) have the same score. */
static tt_err put_targets(const group_table *t, FILE *out)
{
  enum { MOST = 8 };
  int shown = 0;
  tt_ranked *sorted = NULL;
  double *value = NULL;
  tt_err e = TT_ALLOC(sorted, t->groups);
  if (!e) e = TT_ALLOC(value, t->groups);
  for (int64_t k = 0; !e && t->score && k < t->columns && shown < MOST; k++) {
    if (k && !strcmp(t->target[k], t->target[k - 1])) continue;
    put_target(t, k, sorted, value, out);
    shown++;
  }
  tt_free_all(&sorted, &value);
  return e;
}

tt_err tt_group_scores_text(const char *file, char **text)
{
  group_table t = {.groups = 0};
  size_t bytes = 0;
  TT_TRY(tt_h5_open_local(file, &t.r));
  tt_err e = read_scores(&t);
  FILE *out = e ? NULL : open_memstream(text, &bytes);
  if (!e && !out) e = TT_FAIL(MEM, "out of memory for the scores of groups");
  if (!e) e = put_targets(&t, out);
  if (out) fclose(out);
  tt_h5_close_local(&t.r);
  tt_h5_texts_free(t.groups, &t.name);
  tt_h5_texts_free(t.columns, &t.target);
  tt_free(t.score);
  return e;
}
