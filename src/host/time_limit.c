/* time_limit.c — see time_limit.h. */
#include "src/host/time_limit.h"

#include "core/base/log.h"
#include "src/host/slurm_query.h"
#include "src/host/stop_request.h"

void tt_limit_begin(tt_comm *c, double max_time, double reserve, double started, tt_limit *out)
{
  double left = -1.0;
  *out = (tt_limit){.end = max_time > 0.0 ? started + max_time : 0.0};
  if (max_time > 0.0) return;
  if (tt_comm_is_root(c) && tt_slurm_seconds_left_local(&left))
    tt_log_once(TT_LOG_WARN, "%s", tt_err_last());
  tt_bcast(c, &left, sizeof left);
  if (left < 0.0) return;
  double automatic = left < 600.0 ? 0.1 * left : 60.0;
  out->reserve = reserve > 0.0 ? reserve : automatic;
  out->end = tt_clock_local() + left;
  tt_log_once(TT_LOG_INFO, "Slurm ends this job in %.0f s: stopping %.0f s before", left,
              out->reserve);
}

void tt_limit_saved_local(tt_limit *l, double seconds)
{
  double wanted = 30.0 + 3.0 * seconds;
  if (l->reserve > 0.0 && seconds > 0.25 * l->reserve && wanted > l->reserve) l->reserve = wanted;
}

double tt_limit_deadline_local(const tt_limit *l)
{
  return l->end > 0.0 ? l->end - l->reserve : 0.0;
}
