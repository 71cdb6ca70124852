/* load.c — read a campaign; see report_internal.h. */
#include "src/campaign/report/report_internal.h"

#include "core/base/mem.h"
#include "src/campaign/state/file_names.h"

#include <math.h>
#include <string.h>

/* Name the campaign by its acquisition and selection method. */
static void set_score_name(tt_campaign_record *s)
{
  tt_config *cfg = NULL;
  const char *text = s->texts.resolved;
  if (tt_config_parse("campaign.h5", text, (int64_t)strlen(text), NULL, 0, &cfg)) return;
  const char *method = tt_choice_select[cfg->select_method];
  int plain = cfg->select_method == TT_SELECT_penalty;
  snprintf(s->score, sizeof s->score, "%s%s%s", tt_choice_acquisition[cfg->score_acquisition],
           plain ? "" : ", ", plain ? "" : method);
  tt_config_destroy(&cfg);
}

tt_err tt_campaign_record_read_local(const char *directory, tt_campaign_record *out)
{
  char path[TT_PATH_MAX];
  *out = (tt_campaign_record){.directory = directory};
  tt_campaign_path(directory, "campaign.h5", path);
  TT_TRY(tt_history_read_local(path, &out->h));
  tt_err e = tt_history_read_metadata_local(path, &out->texts);
  if (!e && out->h->rounds && out->texts.columns != out->h->columns)
    e = TT_FAIL(DATA, "%s: %lld names for %lld columns; the file is damaged", path,
                (long long)out->texts.columns, (long long)out->h->columns);
  if (e)
    tt_campaign_record_free(out);
  else
    set_score_name(out);
  return e;
}

void tt_campaign_record_free(tt_campaign_record *s)
{
  tt_history_destroy(&s->h);
  tt_history_metadata_free(&s->texts);
}

double tt_percent(int64_t a, int64_t b) { return b > 0 ? 100.0 * (double)a / (double)b : NAN; }

double tt_history_spread(const tt_history *h, int64_t round, const tt_history *unit)
{
  double sum = 0.0;
  int64_t n = 0;
  for (int64_t c = 0; c < h->columns; c++) {
    double part = h->round[round - 1].spread[c] / unit->round[0].spread[c];
    if (!isfinite(part)) continue;
    sum += part;
    n++;
  }
  return n ? sum / (double)n : NAN;
}

int64_t tt_round_labels_after(const tt_round *r)
{
  return r->labels + r->queried - r->label_failed;
}
