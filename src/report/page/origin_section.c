/* origin_section.c — see run_page_internal.h: times, files, configuration, origin, citation. */
#include "core/base/text.h"
#include "core/model/row_split.h"
#include "src/report/page/run_page_internal.h"

#include <math.h>

static void put_times(const tt_run_page *p)
{
  const tt_result_details *d = p->d;
  char text[32];
  double epochs = 0, steps = d->epochs_trained;
  for (int64_t m = 0; m < d->members; m++)
    epochs += isfinite(d->epochs_done[m]) ? d->epochs_done[m] : 0;
  tt_page_begin_section(p->f, "Time", NULL);
  tt_page_begin_pairs(p->f);
  if (isfinite(d->wall_seconds)) {
    tt_page_pair(p->f, "wall time", "%s (the start that finished the run)",
                 tt_duration_text(d->wall_seconds, text));
    if (d->wall_seconds > 0 && d->members > 0)
      tt_page_pair(p->f, "per member", "%.3g s", d->wall_seconds / (double)d->members);
  }
  tt_page_pair(p->f, "epochs of all members", "%.0f", epochs);
  if (isfinite(steps) && d->epochs_planned > 0)
    tt_page_pair(p->f, "early stopping saved", "%.0f %% of the epochs",
                 100 * (1 - steps / d->epochs_planned));
  if (isfinite(d->ranks))
    tt_page_pair(p->f, "ranks, threads of a rank", "%.0f, %.0f", d->ranks, d->threads);
  tt_page_end_pairs(p->f);
  tt_page_end_section(p->f);
}

static void put_provenance(const tt_run_page *p)
{
  char text[TT_REPEATED_TEXT];
  tt_page_begin_section(p->f, "Origin", NULL);
  tt_page_begin_pairs(p->f);
  tt_page_put_origin(p->f, p->d->origin);
  if (isfinite(p->d->seed)) tt_page_pair(p->f, "seed", "%.0f", p->d->seed);
  tt_page_end_pairs(p->f);
  if (p->d->repeated_rows > 0)
    tt_page_pair(
        p->f, "equal rows", "%s",
        tt_repeated_rows_text((int64_t)p->d->repeated_rows, (int64_t)p->d->seen_rows, "; ", text));
  if (p->d->resolved)
    tt_page_put_folded(p->f, "Configuration with the values of all options", p->d->resolved);
  tt_page_end_section(p->f);
}

void tt_run_page_put_origin(const tt_run_page *p)
{
  if (p->d) put_times(p);
  tt_page_put_files(p->f, p->directory);
  if (p->d) put_provenance(p);
  tt_page_put_citation(p->f);
}
