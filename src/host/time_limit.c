/* time_limit.c — see time_limit.h. */
#include "src/host/time_limit.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "slurm/query.h"

#include <float.h>
#include <math.h>

double tt_time_limit_margin(double left, double least, double checkpoint)
{
  double wanted = fmin(3.0 * checkpoint, left / 3.0);
  return fmax(least, wanted);
}

void tt_time_limit_begin(tt_comm *c, double max_time, double margin, double started,
                         tt_time_limit *out)
{
  double left = -1.0;
  *out = (tt_time_limit){.end = max_time > 0.0 ? started + max_time : 0.0};
  if (max_time > 0.0) return;
  if (tt_comm_is_root(c) && tt_slurm_seconds_left_local(&left))
    tt_log_root(TT_LOG_WARN, "%s", tt_err_last());
  tt_bcast(c, &left, sizeof left);
  if (left < 0.0) return;
  double default_margin = left < 600.0 ? 0.1 * left : 60.0;
  out->left = left;
  out->least = margin > 0.0 ? margin : default_margin;
  out->margin = out->logged = tt_time_limit_margin(left, out->least, 0.0);
  out->end = tt_monotonic_seconds() + left;
  tt_log_root(TT_LOG_INFO, "Slurm ends this job in %.0f s; the run stops %.0f s earlier", left,
              out->margin);
}

void tt_time_limit_record_checkpoint_local(tt_time_limit *l, double seconds)
{
  if (l->left <= 0.0) return;
  l->checkpoint = seconds > l->checkpoint ? seconds : 0.5 * (l->checkpoint + seconds);
  l->margin = tt_time_limit_margin(l->left, l->least, l->checkpoint);
  if (fabs(l->margin - l->logged) < 0.1 * l->logged) return;
  l->logged = l->margin;
  tt_log_root(TT_LOG_INFO,
              "a checkpoint takes %.1f s: the run now stops %.0f s before the end of the job",
              l->checkpoint, l->margin);
}

double tt_time_limit_deadline_local(const tt_time_limit *l)
{
  if (l->end <= 0.0) return 0.0;
  return fmax(l->end - l->margin, DBL_MIN); /* the clock may be younger than the margin */
}
