/* progress.c — see progress.h. */
#include "core/engine/progress.h"

#include <math.h>
#include <stdlib.h>

static int has_loss(const tt_member_progress *m)
{
  return m->epoch > 0 && m->status != TT_STATUS_diverged;
}

/* Members with a loss first, ascending by loss. */
static int compare_losses(const void *a, const void *b)
{
  const tt_member_progress *x = a, *y = b;
  int one = has_loss(x), other = has_loss(y);
  if (one != other) return other - one;
  return one ? (x->loss > y->loss) - (x->loss < y->loss) : 0;
}

void tt_progress_from_members(int64_t members, tt_member_progress *at, int64_t epochs,
                              tt_progress *out)
{
  int64_t n = 0;
  *out = (tt_progress){.epoch_min = epochs};
  for (int64_t i = 0; i < members; i++) {
    out->member_steps += at[i].taken;
    out->training += at[i].status == TT_STATUS_training;
    out->finished += at[i].status == TT_STATUS_finished;
    out->early_stopped += at[i].status == TT_STATUS_early_stopped;
    out->diverged += at[i].status == TT_STATUS_diverged;
    if (at[i].status == TT_STATUS_training && at[i].epoch < out->epoch_min)
      out->epoch_min = at[i].epoch;
    n += has_loss(&at[i]);
  }
  if (members > 0) qsort(at, (size_t)members, sizeof *at, compare_losses);
  for (int q = 0; q < 3; q++)
    out->loss[q] = n ? (double)at[(n - 1) * (q + 1) / 4].loss : (double)NAN;
}
