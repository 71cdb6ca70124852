/* verdict.c — see run_page_internal.h: how good, how sure, what next. */
#include "core/base/text.h"
#include "src/report/page/run_page_internal.h"
#include "src/score/advice.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { FEW_ROWS = 50, FEW_MEMBERS = 5 };

static const char *words_of_error(double relative)
{
  static const struct {
    double most;
    const char *words;
  } grade[] = {{0.1, "very accurate"}, {0.3, "accurate"}, {0.6, "moderate"}, {0.9, "weak"}};
  if (!isfinite(relative)) return "";
  for (size_t i = 0; i < sizeof grade / sizeof *grade; i++)
    if (relative <= grade[i].most) return grade[i].words;
  return "hardly better than no model";
}

/* Range of a fraction of n rows that chance allows: 95 %, normal approximation. */
static void judge_intervals(tt_target_verdict *v, double n)
{
  double bar = 1.96 * sqrt(v->nominal * (1 - v->nominal) / fmax(n, 1));
  v->low = fmax(v->nominal - bar, 0);
  v->high = fmin(v->nominal + bar, 1);
  v->how_sure = !isfinite(v->inside)  ? ""
                : v->inside < v->low  ? "too narrow"
                : v->inside > v->high ? "too wide"
                                      : "reliable";
}

/* Fraction of the rows of the most frequent class, and the mean of the largest probability. */
static void count_classes(const tt_run_page *p, const tt_target *t, double *frequent,
                          double *confidence)
{
  const tt_results *k = p->k;
  double most = 0, sum = 0, rows = 0;
  for (int64_t c = t->first; c < t->first + t->count; c++) {
    double n = 0;
    for (int64_t r = 0; r < k->rows; r++) n += k->test.y[r * k->columns + c] == 1;
    most = fmax(most, n);
    if (t->count == 1) most = fmax(most, (double)t->rows - n);
  }
  for (int64_t r = 0; r < k->rows; r++) {
    const double *y = &k->test.y[r * k->columns + t->first];
    const double *mean = &k->test.mean[r * k->columns + t->first];
    if (!isfinite(*y) || !isfinite(*mean)) continue;
    double top = t->count == 1 ? fmax(*mean, 1 - *mean) : 0;
    for (int64_t c = 0; c < t->count; c++)
      if (isfinite(y[c]) && isfinite(mean[c])) top = fmax(top, mean[c]);
    sum += top;
    rows++;
  }
  *frequent = most / (double)t->rows;
  *confidence = sum / rows;
}

static tt_target_verdict judge_class(const tt_run_page *p, const tt_target *t)
{
  tt_target_verdict v = {.error = p->k->score[TT_METRIC_accuracy][t->first]};
  double frequent;
  count_classes(p, t, &frequent, &v.nominal);
  v.relative = (1 - v.error) / (1 - frequent);
  v.inside = v.error;
  v.how_good = words_of_error(v.relative);
  judge_intervals(&v, (double)t->rows);
  return v;
}

tt_target_verdict tt_target_judge(const tt_run_page *p, int64_t target)
{
  const tt_target *t = &p->t[target];
  const tt_results *k = p->k;
  if (tt_target_is_class(p->k, t->first)) return judge_class(p, t);
  double r2 = k->score[TT_METRIC_r2][t->column];
  if (!isfinite(r2)) r2 = t->determination;
  tt_target_verdict v = {.error = p->k->rmse[t->column], .inside = NAN, .nominal = NAN};
  v.relative = r2 <= 1 ? sqrt(1 - r2) : (double)NAN;
  v.how_good = words_of_error(v.relative);
  for (int64_t i = 0; i < k->coverage_levels; i++)
    if (fabs(k->coverage_level[i] - 0.9) < 1e-6) {
      v.nominal = 0.9;
      v.inside = k->coverage[i * k->columns + t->column];
    }
  int is_point = t->count == 1 && !isfinite(k->score[TT_METRIC_nll][t->column]);
  if (is_point || t->rows == 0) v.inside = NAN; /* no variance, so no intervals */
  judge_intervals(&v, (double)t->rows);
  return v;
}

/* How good */

static void say_good(const tt_run_page *p, int64_t i, const tt_target_verdict *v, tt_sentences *s)
{
  const tt_target *t = &p->t[i];
  const char *name = p->k->target[t->first], *units = p->k->units[t->first];
  const char *rows = tt_plural(t->rows);
  int has_units = *units && strcmp(units, "1") != 0;
  if (!isfinite(v->error) || !*v->how_good) return;
  if (tt_target_is_class(p->k, t->first))
    tt_sentences_add(s,
                     "%s: %.1f %% of %" PRId64
                     " test row%s are classified right, with %.0f %% of the errors of "
                     "always naming the most frequent class: %s.",
                     name, 100 * v->error, t->rows, rows, 100 * v->relative, v->how_good);
  else
    tt_sentences_add(
        s,
        "%s: the typical error (rmse) is %.3g%s%s, %.1f %% of the spread of the %" PRId64
        " test row%s: %s.",
        name, v->error, has_units ? " " : "", has_units ? units : "", 100 * v->relative, t->rows,
        rows, v->how_good);
}

static void put_good(tt_run_page *p, double *worst)
{
  tt_sentences s = {0};
  char figure[64] = "";
  double best = INFINITY, most = -INFINITY, least = NAN;
  int classes = 0;
  for (int64_t i = 0; i < p->targets; i++) {
    tt_target_verdict v = tt_target_judge(p, i);
    if (i < 3) say_good(p, i, &v, &s);
    if (!isfinite(v.relative)) continue;
    best = fmin(best, v.relative);
    classes += tt_target_is_class(p->k, p->t[i].first);
    least = v.error;
    most = fmax(most, v.relative);
  }
  if (p->targets > 3)
    tt_sentences_add(&s, "The table below has all %" PRId64 " targets.", p->targets);
  if (best == most && classes)
    snprintf(figure, sizeof figure, "%.3g %% right", 100 * least);
  else if (best == most)
    snprintf(figure, sizeof figure, "%.3g %% error", 100 * most);
  else if (best < most)
    snprintf(figure, sizeof figure, "%.2g to %.2g %% error", 100 * best, 100 * most);
  else
    tt_sentences_add(&s, p->k->rows ? "Not known: no member could predict the test rows."
                                    : "Not known: the job has no test rows (data.split).");
  *worst = most;
  tt_page_verdict(p->f, "How good", figure, &s);
}

/* How sure */

static void say_sure(const tt_run_page *p, int64_t i, const tt_target_verdict *v, tt_sentences *s)
{
  const tt_target *t = &p->t[i];
  const char *name = p->k->target[t->first];
  if (!*v->how_sure) return;
  if (tt_target_is_class(p->k, t->first))
    tt_sentences_add(
        s, "%s: the mean confidence is %.1f %%, and %.1f %% are right: the confidence is %s.", name,
        100 * v->nominal, 100 * v->inside,
        *v->how_sure == 'r'             ? "reliable"
        : strstr(v->how_sure, "narrow") ? "too high"
                                        : "too low");
  else
    tt_sentences_add(
        s,
        "%s: %.0f %% of the test rows are inside their 90 %% intervals; by chance it is %.0f to "
        "%.0f %%: the intervals are %s.",
        name, 100 * v->inside, 100 * v->low, 100 * v->high, v->how_sure);
}

static void put_sure(tt_run_page *p, int *wide)
{
  tt_sentences s = {0};
  int known = 0, narrow = 0;
  *wide = 0;
  for (int64_t i = 0; i < p->targets; i++) {
    tt_target_verdict v = tt_target_judge(p, i);
    if (i < 3) say_sure(p, i, &v, &s);
    known += *v.how_sure != '\0';
    narrow += !strcmp(v.how_sure, "too narrow");
    *wide += !strcmp(v.how_sure, "too wide");
  }
  const char *figure = !known            ? ""
                       : narrow && *wide ? "Mixed"
                       : narrow          ? "Overconfident"
                       : *wide           ? "Cautious"
                                         : "Reliable";
  if (!known)
    tt_sentences_add(&s, "Not known: there are no intervals that test rows could check%s.",
                     p->k->members == 1 ? "; one member alone has no spread" : "");
  tt_page_verdict(p->f, "How sure", figure, &s);
}

/* What next */

/* Mean over the test rows of the part of the predicted variance that is disagreement of the
 * members; NaN if the members predict no noise. */
static double epistemic_part(const tt_results *k)
{
  double epistemic = 0, aleatoric = 0, sum = 0, n = 0;
  for (int64_t i = 0; i < k->rows * k->columns; i++) {
    epistemic = k->test.epistemic[i] * k->test.epistemic[i];
    aleatoric = k->test.aleatoric[i] * k->test.aleatoric[i];
    if (!(aleatoric > 0) || !isfinite(epistemic)) continue;
    sum += epistemic / (epistemic + aleatoric);
    n++;
  }
  return n > 0 ? sum / n : (double)NAN;
}

static void advise_members(const tt_run_page *p, tt_sentences *s)
{
  const tt_results *k = p->k;
  int64_t diverged = 0;
  for (int64_t m = 0; m < k->members; m++) diverged += k->status[m] == TT_STATUS_diverged;
  if (diverged == k->members)
    tt_sentences_add(s, "All members diverged: lower train.learning_rate, or set train.clip_norm.");
  else if (diverged > 0)
    tt_sentences_add(s,
                     "%" PRId64 " of %" PRId64
                     " members diverged and do not count: a lower train.learning_rate "
                     "or train.clip_norm may save them.",
                     diverged, k->members);
  char best[TT_SENTENCE];
  tt_run_page_say_best(p, best, sizeof best);
  if (*best) tt_sentences_add(s, "%s.", best);
  if (k->members - diverged < FEW_MEMBERS && diverged < k->members)
    tt_sentences_add(s,
                     "Train at least %d members: their disagreement is the epistemic uncertainty.",
                     FEW_MEMBERS);
}

static void advise_data(const tt_run_page *p, double worst, int wide, tt_sentences *s)
{
  double part = epistemic_part(p->k);
  int64_t rows = p->targets ? p->t[0].rows : 0;
  if (p->k->rows == 0)
    tt_sentences_add(
        s, "Keep some rows for a test (data.split: {test: 0.1}): they say how good the model is.");
  else if (rows > 0 && rows < FEW_ROWS)
    tt_sentences_add(s, "Use more test rows: with %" PRId64 " the figures here are rough.", rows);
  if (wide && !p->k->recalibrated && tt_results_predict_noise(p->k, 0))
    tt_sentences_add(
        s, "calibration.recalibrate: all makes intervals that are too wide narrower, with the "
           "validation rows.");
  if (part > 0.5)
    tt_sentences_add(
        s,
        "%.0f %% of the predicted variance is disagreement of the members: more training rows "
        "would reduce it (tutti campaign chooses which).",
        100 * part);
  else if (worst > 0.3 && part < 0.2)
    tt_sentences_add(
        s,
        "%.0f %% of the predicted variance is noise in the data: more inputs, or better "
        "measurements, help more than more rows.",
        100 * (1 - part));
  else if (worst > 0.6)
    tt_sentences_add(
        s, "Try a larger network, other hyper-parameters (a sweep), or more training rows.");
}

static void put_next(tt_run_page *p, double worst, int wide)
{
  tt_sentences s;
  tt_advice_find(p->k, &s);
  advise_members(p, &s);
  advise_data(p, worst, wide, &s);
  if (s.count == 0)
    tt_sentences_add(&s, "Nothing needs attention. Use the model: tutti predict %s/model.h5 NEW.h5",
                     p->directory);
  tt_page_verdict(p->f, "What next", "", &s);
}

void tt_run_page_put_verdict(tt_run_page *p)
{
  double worst;
  int wide;
  tt_page_begin_verdict(p->f);
  put_good(p, &worst);
  put_sure(p, &wide);
  put_next(p, worst, wide);
  tt_page_end_verdict(p->f);
}
