/* learning_curves.c — the learning curves as a table and a chart; see report_internal.h. */
#include "src/campaign/report/report_internal.h"
#include "src/campaign/state/file_names.h"
#include "src/report/chart.h"

#include "core/base/mem.h"
#include "core/base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 512 };

/* The curves of all campaigns: one value per round. */
typedef struct curves {
  const tt_campaign_record *s;
  int n;
  int is_error; /* 0 = no test rows: the curves show the spread */
  char (*name)[NAME_SIZE];
  double **labels, **value; /* [n][rounds] */
} curves;

/* Name a curve by its score if no other campaign has the same one; otherwise add the directory. */
static void name_curves(curves *v)
{
  for (int k = 0; k < v->n; k++) {
    const tt_campaign_record *s = &v->s[k];
    int alone = *s->score != '\0';
    for (int i = 0; i < v->n; i++)
      alone = alone && (i == k || strcmp(v->s[i].score, s->score) != 0);
    if (alone)
      snprintf(v->name[k], NAME_SIZE, "%s", s->score);
    else
      snprintf(v->name[k], NAME_SIZE, "%s%s%.300s", s->score, *s->score ? " \xE2\x80\x93 " : "",
               s->directory);
  }
}

static double round_value(const curves *v, int k, int64_t round)
{
  const tt_history *h = v->s[k].h;
  const tt_round *r = &h->round[round - 1];
  int plain = h->columns == 1; /* 1 = in the user's units */
  if (!v->is_error) return plain ? r->spread[0] : tt_history_spread(h, round, v->s->h);
  if (!plain) return tt_history_error(h, round, v->s->h);
  return isfinite(v->s->h->round[0].rmse[0]) ? r->rmse[0] : r->nll[0];
}

static tt_err make_curves(curves *v)
{
  TT_TRY(TT_ALLOC(v->name, v->n));
  TT_TRY(TT_ALLOC(v->labels, v->n));
  TT_TRY(TT_ALLOC(v->value, v->n));
  for (int64_t i = 1; i <= v->s->h->rounds; i++)
    v->is_error |= isfinite(tt_history_error(v->s->h, i, v->s->h));
  for (int k = 0; k < v->n; k++) {
    const tt_history *h = v->s[k].h;
    TT_TRY(TT_ALLOC(v->labels[k], h->rounds));
    TT_TRY(TT_ALLOC(v->value[k], h->rounds));
    for (int64_t i = 0; i < h->rounds; i++) {
      v->labels[k][i] = (double)h->round[i].labels;
      v->value[k][i] = round_value(v, k, i + 1);
    }
  }
  name_curves(v);
  return TT_OK;
}

static void free_curves(curves *v)
{
  for (int k = 0; k < v->n; k++) {
    if (v->labels) tt_free(v->labels[k]);
    if (v->value) tt_free(v->value[k]);
  }
  tt_free(v->name);
  tt_free(v->labels);
  tt_free(v->value);
}

/* learning.svg */

/* The label of the y axis. */
static void name_y_axis(const curves *v, char *text, size_t room)
{
  const tt_campaign_record *s = v->s;
  int has_rmse = isfinite(s->h->round[0].rmse[0]);
  const char *what = !v->is_error ? "spread over the candidates" : has_rmse ? "rmse" : "nll";
  const char *where = v->is_error ? "test " : "";
  if (s->h->columns > 1) {
    snprintf(text, room, "%s%s, mean over %" PRId64 " columns (round 1 = 1)", where, what,
             s->h->columns);
    return;
  }
  const char *units = s->texts.target.count == 1 ? s->texts.target.units[0] : "";
  snprintf(text, room, "%s%s of %s%s%s%s", where, what, s->texts.column[0], *units ? " [" : "",
           units, *units ? "]" : "");
}

static tt_err write_chart(const curves *v, const char *output)
{
  char path[TT_PATH_MAX], y_label[512];
  tt_chart_series *line = NULL;
  name_y_axis(v, y_label, sizeof y_label);
  TT_TRY(TT_ALLOC(line, v->n));
  for (int k = 0; k < v->n; k++)
    line[k] = (tt_chart_series){.name = v->name[k],
                                .points = v->s[k].h->rounds,
                                .x = v->labels[k],
                                .y = v->value[k],
                                .mark = TT_CHART_LINE,
                                .style = k};
  const tt_chart c = {.title = "Learning curve",
                      .x_label = "labelled rows",
                      .y_label = y_label,
                      .count = v->n,
                      .series = line,
                      .least_x_step = 1};
  tt_campaign_path(output, "learning.svg", path);
  tt_err e = tt_charts_write_local(path, NULL, 1, 1, &c);
  if (!e) printf("picture: %s\n", path);
  tt_free(line);
  return e;
}

/* learning.tsv */

/* Write a cell of a table; control characters become blanks. */
static void write_cell(FILE *f, const char *text)
{
  for (; *text; text++) fputc((unsigned char)*text < 0x20 ? ' ' : *text, f);
}

static void write_header(FILE *f, const tt_campaign_record *s)
{
  static const char *const of_column[] = {"rmse", "nll", "spread"};
  fputs("campaign\tround\terror", f);
#define X(name, meaning) fputs("\t" #name, f);
  TT_ROUND_COUNTS(X)
  TT_ROUND_NUMBERS(X)
#undef X
  for (int k = 0; k < TT_STAGE_COUNT; k++) fprintf(f, "\tseconds.%s", tt_stage_name[k]);
  for (int k = 0; k < 3; k++)
    for (int64_t c = 0; c < s->h->columns; c++) {
      fprintf(f, "\t%s.", of_column[k]);
      write_cell(f, s->texts.column[c]);
    }
  fputc('\n', f);
}

static void write_row(FILE *f, const curves *v, int k, int64_t i)
{
  const tt_round *r = &v->s[k].h->round[i];
  const double *of_column[] = {r->rmse, r->nll, r->spread};
  fputs(tt_table_quote(v->name[k]), f);
  write_cell(f, v->name[k]);
  fprintf(f, "\t%" PRId64 "\t%.9g", i + 1, tt_history_error(v->s[k].h, i + 1, v->s->h));
#define X(name, meaning) fprintf(f, "\t%" PRId64, r->name);
  TT_ROUND_COUNTS(X)
#undef X
#define X(name, meaning) fprintf(f, "\t%.9g", r->name);
  TT_ROUND_NUMBERS(X)
#undef X
  for (int j = 0; j < TT_STAGE_COUNT; j++) fprintf(f, "\t%.9g", r->seconds[j]);
  for (int j = 0; j < 3; j++)
    for (int64_t c = 0; c < v->s[k].h->columns; c++) fprintf(f, "\t%.9g", of_column[j][c]);
  fputc('\n', f);
}

/* Two empty lines between campaigns: gnuplot selects one by `index`. */
static tt_err write_table(const curves *v, const char *output)
{
  char path[TT_PATH_MAX], *text = NULL;
  size_t size = 0;
  tt_campaign_path(output, "learning.tsv", path);
  FILE *f = open_memstream(&text, &size);
  if (!f) return TT_FAIL(MEM, "%s: %s", path, strerror(errno));
  write_header(f, v->s);
  for (int k = 0; k < v->n; k++) {
    if (k) fputs("\n\n", f);
    for (int64_t i = 0; i < v->s[k].h->rounds; i++) write_row(f, v, k, i);
  }
  int bad = ferror(f);
  bad |= fclose(f) != 0;
  tt_err e = bad ? TT_FAIL(MEM, "%s: no memory for the table", path)
                 : tt_file_write_atomic_local(path, text);
  if (!e) printf("table:   %s\n", path);
  free(text);
  return e;
}

/* Comparison of two campaigns */

/* Linear interpolation between rounds; x is between the labels of the first and the last round. */
static double interpolate(const curves *v, int k, double x)
{
  const double *at = v->labels[k], *y = v->value[k];
  int64_t i = 1, n = v->s[k].h->rounds;
  while (i + 1 < n && at[i] < x) i++;
  if (at[i] <= at[i - 1]) return y[i];
  return y[i - 1] + (y[i] - y[i - 1]) * (x - at[i - 1]) / (at[i] - at[i - 1]);
}

/* The mean of both curves over the range of labels that both cover: trapezoidal rule. */
static void compare(const curves *v, int k)
{
  enum { STEPS = 1000 };
  int64_t last[] = {v->s->h->rounds - 1, v->s[k].h->rounds - 1};
  double mean[2] = {0, 0};
  if (last[0] < 1 || last[1] < 1) return;
  double low = fmax(v->labels[0][0], v->labels[k][0]);
  double high = fmin(v->labels[0][last[0]], v->labels[k][last[1]]);
  if (!(high > low)) return;
  for (int i = 0; i <= STEPS; i++) {
    double x = low + (high - low) * i / STEPS, weight = (i == 0 || i == STEPS ? 0.5 : 1.0) / STEPS;
    mean[0] += weight * interpolate(v, 0, x);
    mean[1] += weight * interpolate(v, k, x);
  }
  if (!isfinite(mean[0]) || !(mean[1] > 0)) return;
  printf("%s against %s, mean from %.0f to %.0f labels:\n  %.4g against %.4g, %.1f %% %s\n",
         v->name[0], v->name[k], low, high, mean[0], mean[1], 100.0 * fabs(1.0 - mean[0] / mean[1]),
         mean[0] <= mean[1] ? "lower" : "higher");
}

tt_err tt_learning_curves_write_local(const tt_campaign_record *s, int n, const char *output)
{
  curves v = {.s = s, .n = n};
  TT_TRY(tt_campaigns_check_columns(s, n));
  TT_TRY(tt_directory_create(output));
  tt_err e = make_curves(&v);
  printf("\n");
  for (int k = 1; !e && v.is_error && k < n; k++) compare(&v, k);
  if (!e) e = write_table(&v, output);
  if (!e) e = write_chart(&v, output);
  free_curves(&v);
  return e;
}
