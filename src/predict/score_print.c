/* score_print.c — tt_score_print_local of score.h. */
#include "src/predict/score.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Central intervals in the table, 90 and 95 %: arguments of tt_interval_level. */
static const int shown[] = {17, 18};

static void print_header(const tt_model *m)
{
  printf("%-16s %-20s %7s %6s", "ensemble", "target", "members", "rows");
  for (int v = 0; v < TT_METRIC_COUNT; v++)
    if (tt_metric_fits((tt_metric)v, m->output)) printf(" %11s", tt_metric_table[v].name);
  for (int i = 0; i < 2; i++) printf(" in %2.0f%%", 100.0 * tt_interval_level(shown[i]));
  printf(" %10s\n", "error corr");
}

/* Score of the target whose first column is `column`; pinball is the mean over the levels. */
static double score_of(const tt_model *m, const tt_scores *s, int metric, int64_t column)
{
  const double *at = s->ensemble[metric] + column;
  double sum = 0.0;
  if (metric != TT_METRIC_pinball) return at[0];
  for (int32_t j = 0; j < m->quantities; j++) sum += at[j];
  return sum / m->quantities;
}

static void print_target(const tt_trained_ensemble *c, const tt_ensemble *e, int64_t k,
                         int64_t column, const tt_scores *s)
{
  int64_t used = 0;
  for (int64_t i = 0; i < e->members; i++) used += c->weight[e->first + i] > 0.0;
  printf("%-16s %-20s %7" PRId64 " %6" PRId64, e->name, c->target.name[e->column[k]], used,
         s->rows[column]);
  for (int v = 0; v < TT_METRIC_COUNT; v++)
    if (tt_metric_fits((tt_metric)v, c->model.output))
      printf(" %11.5g", score_of(&c->model, s, v, column));
  for (int i = 0; i < 2; i++) {
    double share = s->calibration_curve[shown[i] * s->columns + column];
    if (isnan(share))
      printf(" %6s", "-");
    else
      printf(" %5.1f%%", 100.0 * share);
  }
  if (isnan(s->diversity[column]))
    printf(" %10s  ", "-");
  else
    printf(" %10.3f  ", s->diversity[column]);
  printf("%s\n", c->target.units[e->column[k]]);
}

/* Fractions of the rows inside the conformal intervals. */
static void print_conformal(const tt_trained_ensemble *c, const tt_ensemble *e, int64_t k,
                            int64_t column, const tt_scores *s)
{
  if (!s->levels) return;
  printf("%-16s %-20s conformal:", e->name, c->target.name[e->column[k]]);
  for (int64_t l = 0; l < s->levels; l++)
    printf(" %.1f%% of rows in %g%%%s", 100.0 * s->inside[l * s->columns + column],
           100.0 * s->level[l], l + 1 < s->levels ? "," : "\n");
}

void tt_score_print_local(const tt_comm *c, const tt_trained_ensemble *trained, const tt_scores *s)
{
  if (!tt_comm_is_root(c)) return;
  const tt_model *m = &trained->model;
  print_header(m);
  for (int64_t e = 0; e < trained->ensembles; e++)
    for (int64_t k = 0; k < m->targets; k++) {
      int64_t column = e * tt_trained_ensemble_width(trained) + k * m->quantities;
      print_target(trained, &trained->ensemble[e], k, column, s);
      print_conformal(trained, &trained->ensemble[e], k, column, s);
    }
  fflush(stdout);
}

void tt_score_print_oob_local(const tt_comm *c, const tt_trained_ensemble *trained,
                              const tt_scores *s)
{
  if (!tt_comm_is_root(c)) return;
  const tt_model *m = &trained->model;
  for (int64_t e = 0; e < trained->ensembles; e++)
    for (int64_t k = 0; k < m->targets; k++) {
      int64_t column = e * tt_trained_ensemble_width(trained) + k * m->quantities;
      printf("%-16s %-20s out of bag: %" PRId64 " rows", trained->ensemble[e].name,
             trained->target.name[trained->ensemble[e].column[k]], s->rows[column]);
      for (int v = 0; v < TT_METRIC_COUNT; v++)
        if (tt_metric_fits((tt_metric)v, m->output) && v != TT_METRIC_crps)
          printf(", %s %.5g", tt_metric_table[v].name, score_of(m, s, v, column));
      printf("\n");
    }
  fflush(stdout);
}
