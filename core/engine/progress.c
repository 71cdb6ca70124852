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

void tt_progress_from_members(int64_t members, tt_member_progress *progress, int64_t epochs,
                              tt_progress *out)
{
  int64_t n = 0;
  *out = (tt_progress){.epoch_min = epochs};
  for (int64_t i = 0; i < members; i++) {
    out->member_steps += progress[i].taken;
    out->training += progress[i].status == TT_STATUS_training;
    out->finished += progress[i].status == TT_STATUS_finished;
    out->early_stopped += progress[i].status == TT_STATUS_early_stopped;
    out->diverged += progress[i].status == TT_STATUS_diverged;
    if (progress[i].status == TT_STATUS_training && progress[i].epoch < out->epoch_min)
      out->epoch_min = progress[i].epoch;
    n += has_loss(&progress[i]);
  }
  if (members > 0) qsort(progress, (size_t)members, sizeof *progress, compare_losses);
  for (int q = 0; q < 3; q++)
    out->loss[q] = n ? (double)progress[(n - 1) * (q + 1) / 4].loss : (double)NAN;
}
