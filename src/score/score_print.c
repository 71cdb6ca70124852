/* score_print.c — tables and JSON of scores, of score.h. */
#include "core/base/json.h"
#include "core/base/text.h"
#include "src/score/score.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Central intervals that are printed, 90 and 95 %: arguments of tt_interval_level. */
static const int shown[] = {17, 18};

/* Print name and value as the next cell of a table that is 78 characters wide; nothing for NaN.
 *   cells  number of cells printed so far */
enum { CELLS_PER_LINE = 3 };
static void print_cell(const char *name, double value, int *cells)
{
  if (isnan(value)) return;
  printf("%s%-14s %10.5g", *cells % CELLS_PER_LINE ? " " : *cells ? "\n " : " ", name, value);
  ++*cells;
}

/* Score of the target whose first column is `column`; pinball is the mean over the levels. */
static double score_of(const tt_model *m, const tt_scores *s, int metric, int64_t column)
{
  const double *score = s->ensemble[metric] + column;
  double sum = 0.0;
  if (metric != TT_METRIC_pinball) return score[0];
  for (int32_t j = 0; j < m->quantities; j++) sum += score[j];
  return sum / m->quantities;
}

static void print_fraction(const char *format, double level, double fraction, int *cells)
{
  char name[32];
  snprintf(name, sizeof name, format, 100.0 * level);
  print_cell(name, fraction, cells);
}

/* Metrics of the target at `column`, then fractions of the rows inside intervals.
 *   levels  of conformal intervals */
static void print_scores(const tt_model *m, const tt_scores *s, int64_t levels, int64_t column)
{
  int cells = 0;
  for (int v = 0; v < TT_METRIC_COUNT; v++)
    if (tt_metric_fits((tt_metric)v, m->output))
      print_cell(tt_metric_table[v].name, score_of(m, s, v, column), &cells);
  for (int i = 0; i < 2; i++)
    print_fraction("in %.0f %%", tt_interval_level(shown[i]),
                   s->calibration_curve[shown[i] * s->columns + column], &cells);
  for (int64_t l = 0; l < levels; l++)
    print_fraction("conformal %g %%", s->level[l], s->inside[l * s->columns + column], &cells);
  print_cell("error corr", s->diversity[column], &cells);
  printf("\n");
}

/* Members that predictions of the ensemble use. */
static int64_t count_used(const tt_trained_ensemble *c, const tt_ensemble *e)
{
  int64_t used = 0;
  for (int64_t i = 0; i < e->members; i++) used += c->weight[e->first + i] > 0.0;
  return used;
}

/* Name of ensemble and target, number of members, and `rows`. */
static void print_title(const tt_trained_ensemble *c, const tt_ensemble *e, int64_t k, int64_t rows,
                        const char *which)
{
  const char *units = c->target.units[e->column[k]];
  int64_t used = count_used(c, e);
  printf("%s: %s%s%s%s, %" PRId64 " member%s, %" PRId64 " %srow%s\n", e->name,
         c->target.name[e->column[k]], *units ? " [" : "", units, *units ? "]" : "", used,
         tt_plural(used), rows, which, tt_plural(rows));
}

/* Of many targets one line each, 79 characters wide: the most important scores. */
enum { MANY_TARGETS = 7, SCORES_PER_LINE = 4, NAME_BYTES = 20 };
static const tt_metric important[] = {TT_METRIC_rmse, TT_METRIC_accuracy, TT_METRIC_pinball,
                                      TT_METRIC_nll,  TT_METRIC_crps,     TT_METRIC_brier,
                                      TT_METRIC_ece,  TT_METRIC_r2};

/* The metrics of a line; returns their number. */
static int choose_metrics(tt_output output, tt_metric chosen[SCORES_PER_LINE])
{
  int n = 0;
  for (size_t v = 0; v < sizeof important / sizeof *important && n < SCORES_PER_LINE; v++)
    if (tt_metric_fits(important[v], output)) chosen[n++] = important[v];
  return n;
}

static void print_number(double value)
{
  if (isnan(value))
    printf(" %9s", "-");
  else
    printf(" %9.3g", value);
}

static void print_line(const tt_trained_ensemble *c, const tt_scores *s, const char *name,
                       int64_t column)
{
  tt_metric chosen[SCORES_PER_LINE];
  int n = choose_metrics(c->model.output, chosen), bytes = 0;
  for (int next; name[bytes]; bytes += next) {
    next = tt_utf8_char_bytes(name + bytes);
    if (!next || bytes + next > NAME_BYTES) break;
  }
  printf(" %-*.*s %7" PRId64, NAME_BYTES, bytes, name, s->rows[column]);
  for (int i = 0; i < n; i++) print_number(score_of(&c->model, s, chosen[i], column));
  print_number(s->calibration_curve[shown[0] * s->columns + column]);
  printf("\n");
}

static void print_table(const tt_trained_ensemble *c, const tt_scores *s, const tt_ensemble *e,
                        int64_t first, const char *which)
{
  tt_metric chosen[SCORES_PER_LINE];
  int n = choose_metrics(c->model.output, chosen);
  int64_t used = count_used(c, e), targets = tt_trained_ensemble_targets(c);
  printf("%s: %" PRId64 " targets, %" PRId64 " member%s\n %-*s %7s", e->name, targets, used,
         tt_plural(used), NAME_BYTES, which, "rows");
  for (int i = 0; i < n; i++) printf(" %9s", tt_metric_table[chosen[i]].name);
  printf(" %9s\n", "in 90 %");
  for (int64_t k = 0; k < targets; k++)
    print_line(c, s, c->target.name[e->column[k]], first + k * c->model.quantities);
}

void tt_score_print_local(const tt_comm *comm, const tt_trained_ensemble *c, const tt_scores *s,
                          int out_of_bag)
{
  const tt_model *m = &c->model;
  const char *which = out_of_bag ? "out-of-bag " : "";
  int64_t targets = tt_trained_ensemble_targets(c), levels = out_of_bag ? 0 : s->levels;
  if (!tt_comm_is_root(comm)) return;
  for (int64_t e = 0; e < c->ensembles && targets >= MANY_TARGETS; e++)
    print_table(c, s, &c->ensemble[e], e * tt_trained_ensemble_width(c), which);
  for (int64_t e = 0; e < c->ensembles && targets < MANY_TARGETS; e++)
    for (int64_t k = 0; k < targets; k++) {
      int64_t column = e * tt_trained_ensemble_width(c) + k * m->quantities;
      print_title(c, &c->ensemble[e], k, s->rows[column], which);
      print_scores(m, s, levels, column);
    }
  fflush(stdout);
}

static void append(json_t **list, json_t *value)
{
  if (!*list || !json_array_append_new(*list, value)) return;
  json_decref(*list);
  *list = NULL;
}

static json_t *describe_interval(double level, double inside)
{
  json_t *o = json_object();
  tt_json_set(&o, "level", tt_json_number(level));
  tt_json_set(&o, "inside", tt_json_number(inside));
  return o;
}

/* The target number k of an ensemble, whose first column is `column`. */
static json_t *describe_target(const tt_trained_ensemble *c, const tt_scores *s,
                               const tt_ensemble *e, int64_t k, int64_t column)
{
  json_t *o = json_object(), *scores = json_object(), *central = json_array(),
         *conformal = json_array();
  for (int v = 0; v < TT_METRIC_COUNT; v++)
    if (tt_metric_fits((tt_metric)v, c->model.output))
      tt_json_set(&scores, tt_metric_table[v].name,
                  tt_json_number(score_of(&c->model, s, v, column)));
  for (int i = 0; i < TT_COVERAGE_LEVELS; i++)
    append(&central, describe_interval(tt_interval_level(tt_coverage_level[i]),
                                       s->interval_coverage[i * s->columns + column]));
  for (int64_t l = 0; l < s->levels; l++)
    append(&conformal, describe_interval(s->level[l], s->inside[l * s->columns + column]));
  tt_json_set(&o, "ensemble", tt_json_text(e->name));
  tt_json_set(&o, "target", tt_json_text(c->target.name[e->column[k]]));
  tt_json_set(&o, "units", tt_json_text(c->target.units[e->column[k]]));
  tt_json_set(&o, "members", json_integer(count_used(c, e)));
  tt_json_set(&o, "rows", json_integer(s->rows[column]));
  tt_json_set(&o, "scores", scores);
  tt_json_set(&o, "intervals", central);
  tt_json_set(&o, "conformal", conformal);
  tt_json_set(&o, "error_correlation", tt_json_number(s->diversity[column]));
  return o;
}

tt_err tt_score_print_json_local(const tt_comm *c, const tt_trained_ensembles *all,
                                 const tt_scores *const *part)
{
  if (!tt_comm_is_root(c)) return TT_OK;
  json_t *o = json_object(), *targets = json_array();
  for (int64_t i = 0; i < all->count; i++) {
    const tt_trained_ensemble *m = all->at[i];
    for (int64_t e = 0; e < m->ensembles; e++)
      for (int64_t k = 0; k < tt_trained_ensemble_targets(m); k++)
        append(&targets,
               describe_target(m, part[i], &m->ensemble[e], k,
                               e * tt_trained_ensemble_width(m) + k * m->model.quantities));
  }
  tt_json_set(&o, "targets", targets);
  return tt_json_print(o, 1);
}
