/* advice.c — see advice.h. */
#include "src/score/advice.h"

#include "core/base/log.h"
#include "core/model/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAMES = 200, NAMES_SHOWN = 3, NAME = 96, FIRST_EPOCHS = 3, SHORT_RUN = 20 };
static const double NOMINAL = 0.9, FAR_FEWER = 0.8;

/* What a sentence is about, and the range of a value over them. */
typedef struct subjects {
  int64_t count;
  char names[NAMES];
  double low, high;
} subjects;

static void include(subjects *s, const char *name, double value)
{
  size_t used = strlen(s->names);
  if (s->count < NAMES_SHOWN)
    snprintf(s->names + used, NAMES - used, "%s%.60s", s->count ? ", " : "", name);
  s->low = s->count ? fmin(s->low, value) : value;
  s->high = s->count ? fmax(s->high, value) : value;
  s->count++;
}

/* "a, b, c and 4 more" */
static const char *names_of(subjects *s)
{
  size_t used = strlen(s->names);
  if (s->count > NAMES_SHOWN)
    snprintf(s->names + used, NAMES - used, " and %" PRId64 " more", s->count - NAMES_SHOWN);
  return s->names;
}

/* Intervals */

static const double *coverage_at(const tt_results *k, double level)
{
  for (int64_t i = 0; i < k->levels; i++)
    if (fabs(k->level[i] - level) < 1e-6) return k->calibration + i * k->columns;
  return NULL;
}

static int begins_target(const tt_results *k, int64_t c)
{
  return c == 0 || strcmp(k->ensemble[c], k->ensemble[c - 1]) != 0 ||
         strcmp(k->target[c], k->target[c - 1]) != 0;
}

/* Whether a target alone belongs to its ensemble. */
static int is_only_target(const tt_results *k, int64_t column)
{
  for (int64_t c = 0; c < k->columns; c++)
    if (!strcmp(k->ensemble[c], k->ensemble[column]) && strcmp(k->target[c], k->target[column]))
      return 0;
  return 1;
}

/* "ensemble", or "ensemble target" if the ensemble has several targets. */
static void name_column(const tt_results *k, int64_t c, char name[2 * NAME])
{
  int alone = is_only_target(k, c);
  snprintf(name, 2 * NAME, "%.95s%s%.95s", k->ensemble[c], alone ? "" : " ",
           alone ? "" : k->target[c]);
}

static int has_noise(const tt_results *k, int64_t column)
{
  for (int64_t r = 0; r < k->rows; r++)
    if (k->test.aleatoric[r * k->columns + column] > 0.0) return 1;
  return 0;
}

static void say_narrow(tt_sentences *a, subjects *s, const char *cure)
{
  char range[64];
  double low = 100 * s->low, high = 100 * s->high;
  if (s->count == 0) return;
  if (round(low) == round(high))
    snprintf(range, sizeof range, "%.0f %%", low);
  else
    snprintf(range, sizeof range, "%.0f to %.0f %%", low, high);
  tt_sentences_add(a, "%s: the %.0f %% intervals hold only %s of the test rows. %s", names_of(s),
                   100 * NOMINAL, range, cure);
}

static void find_narrow(const tt_results *k, tt_sentences *a)
{
  subjects without = {0}, fitted = {0}, predicted = {0};
  const double *inside = coverage_at(k, NOMINAL);
  for (int64_t c = 0; inside && c < k->columns; c++) {
    char name[2 * NAME];
    double chance = 3 * sqrt(NOMINAL * (1 - NOMINAL) / fmax(k->test_rows[c], 1));
    if (!begins_target(k, c) || !(inside[c] < fmin(NOMINAL - chance, FAR_FEWER))) continue;
    name_column(k, c, name);
    int fit = k->recalibrated || !tt_results_predict_noise(k, c);
    include(!has_noise(k, c) ? &without : fit ? &fitted : &predicted, name, inside[c]);
  }
  say_narrow(a, &without,
             "The members predict no noise, so the intervals show only how much they differ: "
             "calibration.recalibrate: auto fits it to validation rows, and train.loss: "
             "gaussian_nll learns it.");
  say_narrow(a, &fitted,
             "calibration.recalibrate found too little in the validation rows: use more of them, "
             "or calibration.conformal: [0.9].");
  say_narrow(a, &predicted,
             "calibration.recalibrate: all or calibration.conformal: [0.9] corrects this with the "
             "validation rows.");
}

/* Baselines */

/* The difference must be larger than chance explains: for n errors the standard deviation of an
 * rmse is about 1 / sqrt(2n) of it, that of a difference up to 1 / sqrt(n). */
static void find_better_baseline(const tt_results *k, tt_sentences *a)
{
  for (int64_t c = 0; c < k->columns; c++) {
    char name[2 * NAME];
    int best = 0;
    double margin = fmax(0.05, 1.0 / sqrt(fmax(k->test_rows[c], 1.0)));
    for (int b = 1; b < TT_BASELINE_COUNT; b++)
      if (k->baseline[b][c] < k->baseline[best][c]) best = b;
    if (!begins_target(k, c) || !(k->baseline[best][c] < (1.0 - margin) * k->rmse[c])) continue;
    name_column(k, c, name);
    tt_sentences_add(a,
                     "%s: %s, trained on the same rows, has a lower test rmse, %.3g, than the "
                     "networks, %.3g. %s.",
                     name, tt_baseline_table[best].name, k->baseline[best][c], k->rmse[c],
                     tt_baseline_table[best].advice);
  }
}

/* Epochs */

/* Lowest of the first n losses. */
static double best_of(const float *loss, int64_t n)
{
  double best = INFINITY;
  for (int64_t e = 0; e < n; e++)
    if (loss[e] < best) best = loss[e];
  return best;
}

static int still_fell(const float *loss, int64_t epochs)
{
  double tenth = best_of(loss, epochs / 10), half = best_of(loss, epochs / 2),
         nine = best_of(loss, epochs * 9 / 10), end = best_of(loss, epochs);
  double gain = nine - end;
  return gain > 0.01 * (tenth - end) && gain > 0.5 * (half - nine) / 4;
}

static int was_best_at_first(const float *loss, int64_t epochs)
{
  return isfinite(best_of(loss, epochs)) && best_of(loss, FIRST_EPOCHS) <= best_of(loss, epochs);
}

/* Whether a rule holds for most members of [first, end) that trained as long as a rule needs. */
static int most(const tt_results *k, int64_t first, int64_t end, int to_the_end,
                int (*rule)(const float *loss, int64_t epochs))
{
  int64_t trained = 0, hold = 0;
  for (int64_t m = first; m < end; m++) {
    int64_t epochs = isfinite(k->epochs_done[m]) ? (int64_t)k->epochs_done[m] : 0;
    if (k->status[m] == TT_STATUS_diverged || epochs > k->epochs) continue;
    trained++;
    if (epochs < SHORT_RUN || (to_the_end && k->status[m] != TT_STATUS_finished)) continue;
    hold += rule(k->loss_validation + m * k->epochs, epochs);
  }
  return 2 * hold > trained;
}

static void find_epochs(const tt_results *k, tt_sentences *a)
{
  subjects fell = {0}, at_first = {0};
  for (int64_t first = 0, end; first < k->members; first = end) {
    end = tt_results_ensemble_end(k, first);
    if (most(k, first, end, 1, still_fell)) include(&fell, k->owner[first], 0);
    if (most(k, first, end, 0, was_best_at_first)) include(&at_first, k->owner[first], 0);
  }
  if (fell.count)
    tt_sentences_add(
        a,
        "%s: the validation loss of most members was still falling when training ended. More "
        "train.epochs or a higher train.learning_rate may lower the error.",
        names_of(&fell));
  if (at_first.count)
    tt_sentences_add(
        a,
        "%s: most members were best in their first epochs. A lower train.learning_rate may lower "
        "the error.",
        names_of(&at_first));
}

static void find_seen_rows(const tt_results *k, tt_sentences *a)
{
  if (k->seen_rows > 0)
    tt_sentences_add(
        a,
        "%.0f validation and test rows have the inputs of a training row: the scores may be too "
        "good for new inputs. data.split.group: COLUMN keeps rows that belong together in one "
        "part.",
        k->seen_rows);
}

/* Mean losses of members [first, end) in their best epochs. */
static void best_losses(const tt_results *k, int64_t first, int64_t end, double *train,
                        double *validation)
{
  double n = 0;
  *train = *validation = 0;
  for (int64_t m = first; m < end; m++) {
    int64_t best = isfinite(k->best_epoch[m]) ? (int64_t)k->best_epoch[m] : -1;
    if (k->status[m] == TT_STATUS_diverged || best < 0 || best >= k->epochs) continue;
    *train += k->loss_train[m * k->epochs + best];
    *validation += k->loss_validation[m * k->epochs + best];
    n++;
  }
  *train /= n;
  *validation /= n;
}

/* A mean squared error of normalized targets that is four times as large, so that the typical error
 * is twice as large, and not small; with predicted noise a likelihood that is e times as small. */
static void find_overfitted(const tt_results *k, tt_sentences *a)
{
  for (int64_t first = 0, end = 0, c = 0; first < k->members && k->best_epoch; first = end) {
    double train, validation;
    end = tt_results_ensemble_end(k, first);
    for (c = 0; c + 1 < k->columns && strcmp(k->ensemble[c], k->owner[first]) != 0;) c++;
    best_losses(k, first, end, &train, &validation);
    if (tt_results_predict_noise(k, c)
            ? !(validation > train + 1)
            : !(train > 0 && validation > 0.05 && validation > 4 * train))
      continue;
    tt_sentences_add(
        a,
        "%.60s: the members fit the training rows far better than others: mean loss %.3g on these, "
        "%.3g on the validation rows. More training rows, train.dropout, train.l2 or a smaller "
        "network may lower the error.",
        k->owner[first], train, validation);
    return;
  }
}

void tt_advice_find(const tt_results *k, tt_sentences *out)
{
  out->count = 0;
  find_seen_rows(k, out);
  find_better_baseline(k, out);
  find_narrow(k, out);
  find_epochs(k, out);
  find_overfitted(k, out);
}

tt_err tt_advice_log_local(const char *results)
{
  tt_results *k = NULL;
  tt_sentences advice = {0};
  tt_err e = tt_results_read_local(results, &k);
  if (!e) tt_advice_find(k, &advice);
  for (int64_t i = 0; i < advice.count; i++) tt_log_root(TT_LOG_WARN, "%s", advice.text[i]);
  tt_results_destroy(&k);
  return e;
}
