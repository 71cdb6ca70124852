/* load.c — what all of campaign_report.h reads; see report_internal.h. */
#include "src/campaign/report/report_internal.h"

#include "core/base/mem.h"
#include "src/campaign/state/file_names.h"

#include <math.h>
#include <string.h>

/* Baselines are told apart by how they score and select. */
static void name_score(tt_story *s)
{
  tt_config *cfg = NULL;
  const char *text = s->texts.resolved;
  if (tt_config_parse("campaign.h5", text, (int64_t)strlen(text), NULL, 0, &cfg)) return;
  const char *method = tt_choice_select[cfg->select_method];
  int plain = cfg->select_method == TT_SELECT_top;
  snprintf(s->score, sizeof s->score, "%s%s%s", tt_choice_score[cfg->score_by], plain ? "" : ", ",
           plain ? "" : method);
  tt_config_destroy(&cfg);
}

tt_err tt_story_read_local(const char *directory, tt_story *out)
{
  char path[TT_PATH_ROOM];
  *out = (tt_story){.directory = directory};
  tt_campaign_path(directory, "campaign.h5", path);
  TT_TRY(tt_history_read_local(path, &out->h));
  tt_err e = tt_history_texts_local(path, &out->texts);
  if (!e && out->h->rounds && out->texts.columns != out->h->columns)
    e = TT_FAIL(DATA, "%s: %lld names for %lld columns; the file is damaged", path,
                (long long)out->texts.columns, (long long)out->h->columns);
  if (e)
    tt_story_free(out);
  else
    name_score(out);
  return e;
}

void tt_story_free(tt_story *s)
{
  tt_history_destroy(&s->h);
  tt_history_texts_free(&s->texts);
}

double tt_percent(int64_t a, int64_t b) { return b > 0 ? 100.0 * (double)a / (double)b : NAN; }

double tt_story_spread(const tt_history *h, int64_t round, const tt_history *unit)
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

int64_t tt_story_labels_after(const tt_round *r) { return r->labels + r->asked - r->unlabelled; }
