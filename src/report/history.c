/* history.c — see history.h. */
#include "src/report/history.h"

#include "core/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double probability[TT_LOSS_QUANTILES] = {0.1, 0.5, 0.9};

/* End of the ensemble of member `first`: the members of an ensemble are consecutive. */
static int64_t ensemble_end(const tt_results *k, int64_t first)
{
  int64_t end = first;
  while (end < k->members && strcmp(k->owner[end], k->owner[first]) == 0) end++;
  return end;
}

static int compare_floats(const void *a, const void *b)
{
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Finite losses of an epoch, sorted; returns their number. */
static int64_t sort_finite_losses(const tt_results *k, const float *loss, const tt_loss_history *h,
                                  int64_t epoch, float *sorted)
{
  int64_t n = 0;
  for (int64_t m = h->first; m < h->end; m++)
    if (isfinite(loss[m * k->epochs + epoch])) sorted[n++] = loss[m * k->epochs + epoch];
  qsort(sorted, (size_t)n, sizeof *sorted, compare_floats);
  return n;
}

/* Linear interpolation between order statistics, the default of numpy.quantile. */
static double quantile(const float *sorted, int64_t n, double q)
{
  if (n == 0) return NAN;
  double place = q * (double)(n - 1);
  int64_t below = (int64_t)place, above = below + 1 < n ? below + 1 : below;
  return sorted[below] + (place - (double)below) * ((double)sorted[above] - sorted[below]);
}

static void fill_epoch(const tt_results *k, int64_t epoch, float *sorted, tt_loss_history *h)
{
  const float *loss[TT_LOSS_KINDS] = {k->loss_train, k->loss_validation};
  for (int i = 0; i < TT_LOSS_KINDS; i++) {
    int64_t n = sort_finite_losses(k, loss[i], h, epoch, sorted);
    if (i == 0) h->members[epoch] = (double)n;
    for (int j = 0; j < TT_LOSS_QUANTILES; j++)
      h->quantile[i][j][epoch] = quantile(sorted, n, probability[j]);
  }
}

tt_err tt_loss_history_create(const tt_results *k, int64_t first, tt_loss_history *h)
{
  float *sorted = NULL;
  *h = (tt_loss_history){.first = first, .end = ensemble_end(k, first)};
  tt_err e = TT_ALLOC(sorted, h->end - first);
  if (!e) e = TT_ALLOC(h->members, k->epochs);
  for (int i = 0; i < TT_LOSS_KINDS; i++)
    for (int j = 0; j < TT_LOSS_QUANTILES; j++)
      if (!e) e = TT_ALLOC(h->quantile[i][j], k->epochs);
  for (int64_t epoch = 0; !e && epoch < k->epochs; epoch++) fill_epoch(k, epoch, sorted, h);
  tt_free(sorted);
  if (e) tt_loss_history_free(h);
  return e;
}

void tt_loss_history_free(tt_loss_history *h)
{
  tt_free(h->members);
  for (int i = 0; i < TT_LOSS_KINDS; i++)
    for (int j = 0; j < TT_LOSS_QUANTILES; j++) tt_free(h->quantile[i][j]);
}
