/* history.c — see history.h. */
#include "src/report/history.h"

#include "core/base/mem.h"
#include "core/base/sort.h"

#include <math.h>
#include <stdlib.h>

static const double probability[TT_LOSS_QUANTILES] = {0.1, 0.5, 0.9};

/* Finite losses of an epoch, sorted; returns their number. */
static int64_t sort_finite_losses(const tt_results *k, const float *loss, const tt_loss_history *h,
                                  int64_t epoch, double *sorted)
{
  int64_t n = 0;
  for (int64_t m = h->first; m < h->end; m++)
    if (isfinite(loss[m * k->epochs + epoch])) sorted[n++] = (double)loss[m * k->epochs + epoch];
  qsort(sorted, (size_t)n, sizeof *sorted, tt_compare_f64);
  return n;
}

static void fill_epoch(const tt_results *k, int64_t epoch, double *sorted, tt_loss_history *h)
{
  const float *loss[TT_LOSS_KINDS] = {k->loss_train, k->loss_validation};
  for (int i = 0; i < TT_LOSS_KINDS; i++) {
    int64_t n = sort_finite_losses(k, loss[i], h, epoch, sorted);
    if (i == 0) h->members[epoch] = (double)n;
    for (int j = 0; j < TT_LOSS_QUANTILES; j++)
      h->quantile[i][j][epoch] = tt_sorted_quantile(n, sorted, probability[j]);
  }
}

tt_err tt_loss_history_create(const tt_results *k, int64_t first, tt_loss_history *out)
{
  double *sorted = NULL;
  *out = (tt_loss_history){.first = first, .end = tt_results_ensemble_end(k, first)};
  tt_err e = TT_ALLOC(sorted, out->end - first);
  if (!e) e = TT_ALLOC(out->members, (1 + TT_LOSS_KINDS * TT_LOSS_QUANTILES) * k->epochs);
  for (int i = 0; !e && i < TT_LOSS_KINDS * TT_LOSS_QUANTILES; i++)
    out->quantile[i / TT_LOSS_QUANTILES][i % TT_LOSS_QUANTILES] =
        out->members + (1 + i) * k->epochs;
  for (int64_t epoch = 0; !e && epoch < k->epochs; epoch++) fill_epoch(k, epoch, sorted, out);
  tt_free(sorted);
  return e;
}

void tt_loss_history_free(tt_loss_history *h) { tt_free(h->members); }
