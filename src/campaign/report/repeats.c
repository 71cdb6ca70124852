/* repeats.c — see report_internal.h. */
#include "src/campaign/report/report_internal.h"

#include "core/base/mem.h"
#include "core/base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Groups */

static tt_err add_campaign(tt_repeats *group, int *groups, const tt_campaign_record *s, int n,
                           int k)
{
  int g = 0;
  int known = *s[k].score != '\0'; /* a configuration that cannot be read is like no other */
  while (g < *groups && !(known && s[group[g].campaign[0]].method == s[k].method)) g++;
  if (g == *groups) {
    TT_TRY(TT_ALLOC(group[g].campaign, n));
    group[g].all = s;
    (*groups)++;
  }
  group[g].campaign[group[g].n++] = k;
  return TT_OK;
}

/* The score alone if no other group has the same one; otherwise the directory too. */
static void name_groups(tt_repeats *group, int groups)
{
  for (int g = 0; g < groups; g++) {
    const tt_campaign_record *s = &group->all[group[g].campaign[0]];
    int alone = *s->score != '\0';
    for (int i = 0; i < groups; i++)
      alone = alone && (i == g || strcmp(group->all[group[i].campaign[0]].score, s->score) != 0);
    if (alone)
      snprintf(group[g].name, sizeof group[g].name, "%s", s->score);
    else
      snprintf(group[g].name, sizeof group[g].name, "%s%s%.100s", s->score,
               *s->score ? " \xE2\x80\x93 " : "", s->directory);
  }
}

tt_err tt_repeats_create(const tt_campaign_record *s, int n, tt_repeats **out, int *groups)
{
  *groups = 0;
  TT_TRY(TT_ALLOC(*out, n));
  for (int k = 0; k < n; k++) {
    tt_err e = add_campaign(*out, groups, s, n, k);
    if (e) {
      tt_repeats_free(out, n);
      return e;
    }
  }
  name_groups(*out, *groups);
  return TT_OK;
}

void tt_repeats_free(tt_repeats **g, int groups)
{
  for (int i = 0; *g && i < groups; i++) tt_free((*g)[i].campaign);
  tt_free(*g);
  *g = NULL;
}

/* Curves */

/* Value of a round, counted from 0. */
static double round_value(const tt_campaign_record *s, const tt_campaign_record *unit,
                          tt_curve_kind kind, int64_t column, int64_t round)
{
  const tt_round *r = &s->h->round[round];
  if (kind == TT_CURVE_MEAN) return tt_history_error(s->h, round + 1, unit->h);
  if (kind == TT_CURVE_SPREAD) return r->spread[column];
  return kind == TT_CURVE_RMSE ? r->rmse[column] : r->nll[column];
}

static tt_err allocate(int64_t points, tt_learning_curve *c)
{
  *c = (tt_learning_curve){.points = points};
  TT_TRY(TT_ALLOC(c->labels, 4 * points));
  c->value = c->labels + points;
  c->low = c->value + points;
  c->high = c->low + points;
  tt_err e = TT_ALLOC(c->campaigns, points);
  if (e) tt_learning_curve_free(c);
  return e;
}

static void fill_rounds(const tt_repeats *g, int k, tt_curve_kind kind, int64_t column,
                        tt_learning_curve *c)
{
  const tt_campaign_record *s = &g->all[g->campaign[k]];
  for (int64_t i = 0; i < c->points; i++) {
    c->labels[i] = (double)s->h->round[i].labels;
    c->value[i] = c->low[i] = c->high[i] = round_value(s, g->all, kind, column, i);
    c->campaigns[i] = 1;
  }
}

double tt_learning_curve_at(const tt_learning_curve *c, double labels)
{
  int64_t i = 0;
  while (i < c->points && c->labels[i] < labels) i++;
  if (i == c->points) return NAN;
  if (!(c->labels[i] > labels)) return c->value[i];
  if (i == 0) return NAN;
  double part = (labels - c->labels[i - 1]) / (c->labels[i] - c->labels[i - 1]);
  return c->value[i - 1] + part * (c->value[i] - c->value[i - 1]);
}

/* Fill the points of `c`, whose labels are set, and leave out those that too few campaigns cover.
 *   one      [n] the curve of each campaign
 *   scratch  [n] */
static void fill_quantiles(const tt_learning_curve *one, int n, double *scratch,
                           tt_learning_curve *c)
{
  int64_t kept = 0;
  int least = n > 3 ? (n + 1) / 2 : 2;
  for (int64_t i = 0; i < c->points; i++) {
    double labels = c->labels[i];
    int known = 0;
    for (int k = 0; k < n; k++) {
      double value = tt_learning_curve_at(&one[k], labels);
      if (isfinite(value)) scratch[known++] = value;
    }
    if (known < least) continue;
    qsort(scratch, (size_t)known, sizeof *scratch, tt_compare_f64);
    c->labels[kept] = labels;
    c->value[kept] = tt_sorted_quantile(known, scratch, 0.5);
    c->low[kept] = tt_sorted_quantile(known, scratch, 0.1);
    c->high[kept] = tt_sorted_quantile(known, scratch, 0.9);
    c->campaigns[kept++] = known;
  }
  c->points = kept;
}

/* The numbers of labels of all curves, each once, ascending. */
static tt_err collect_labels(const tt_learning_curve *one, int n, tt_learning_curve *c)
{
  int64_t all = 0, kept = 0;
  for (int k = 0; k < n; k++) all += one[k].points;
  TT_TRY(allocate(all, c));
  for (int k = 0, at = 0; k < n; k++)
    for (int64_t i = 0; i < one[k].points; i++) c->labels[at++] = one[k].labels[i];
  qsort(c->labels, (size_t)all, sizeof *c->labels, tt_compare_f64);
  for (int64_t i = 0; i < all; i++)
    if (i == 0 || c->labels[i] > c->labels[i - 1]) c->labels[kept++] = c->labels[i];
  c->points = kept;
  return TT_OK;
}

tt_err tt_learning_curve_create(const tt_repeats *g, tt_curve_kind kind, int64_t column,
                                tt_learning_curve *out)
{
  tt_learning_curve *one = NULL;
  double *scratch = NULL;
  *out = (tt_learning_curve){0};
  tt_err e = TT_ALLOC(one, g->n);
  for (int k = 0; !e && k < g->n; k++) {
    e = allocate(g->all[g->campaign[k]].h->rounds, &one[k]);
    if (!e) fill_rounds(g, k, kind, column, &one[k]);
  }
  if (!e && g->n == 1) {
    *out = one[0];
    one[0] = (tt_learning_curve){0};
  } else {
    if (!e) e = TT_ALLOC(scratch, g->n);
    if (!e) e = collect_labels(one, g->n, out);
    if (!e) fill_quantiles(one, g->n, scratch, out);
  }
  for (int k = 0; one && k < g->n; k++) tt_learning_curve_free(&one[k]);
  tt_free_all(&scratch, &one);
  return e;
}

void tt_learning_curve_free(tt_learning_curve *c)
{
  tt_free_all(&c->labels, &c->campaigns);
  *c = (tt_learning_curve){0};
}
