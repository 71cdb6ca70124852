/* load.c — read a campaign; see report_internal.h. */
#include "src/campaign/report/campaign_report.h"
#include "src/campaign/report/report_internal.h"

#include "core/base/mem.h"
#include "core/base/text.h"
#include "src/campaign/state/file_names.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static void set_names(tt_campaign_record *s)
{
  tt_config *cfg = NULL;
  const char *text = s->texts.resolved, *slash = strrchr(s->directory, '/');
  const char *folder = slash && slash[1] ? slash + 1 : s->directory;
  snprintf(s->title, sizeof s->title, "%s", s->directory);
  snprintf(s->name, sizeof s->name, "%s", folder);
  if (tt_config_parse("campaign.h5", text, (int64_t)strlen(text), NULL, 0, &cfg)) return;
  int plain =
      cfg->select_method == TT_SELECT_penalty || cfg->score_acquisition == TT_ACQUISITION_random;
  snprintf(s->name, sizeof s->name, "%s%s%s \xE2\x80\x93 %.100s",
           tt_choice_acquisition[cfg->score_acquisition], plain ? "" : ", ",
           plain ? "" : tt_choice_select[cfg->select_method], folder);
  if (cfg->top_title && *cfg->top_title) snprintf(s->title, sizeof s->title, "%s", cfg->top_title);
  tt_config_destroy(&cfg);
}

tt_err tt_campaign_record_read_local(const char *directory, tt_campaign_record *out)
{
  char path[TT_PATH_MAX];
  *out = (tt_campaign_record){0};
  tt_path_join(directory, "campaign.h5", path);
  tt_err e = tt_text_set(&out->directory, directory);
  if (!e) e = tt_history_read_local(path, &out->h);
  if (!e) e = tt_history_read_metadata_local(path, &out->texts);
  if (!e && out->h->rounds && out->texts.columns != out->h->columns)
    e = TT_FAIL(DATA, "%s: %lld names for %lld columns; the file is damaged", path,
                (long long)out->texts.columns, (long long)out->h->columns);
  if (e)
    tt_campaign_record_free(out);
  else
    set_names(out);
  return e;
}

void tt_campaign_record_free(tt_campaign_record *s)
{
  tt_history_destroy(&s->h);
  tt_history_metadata_free(&s->texts);
  tt_free(s->directory);
}

tt_err tt_campaigns_check_columns(const tt_campaign_record *s, int n)
{
  for (int k = 1; k < n; k++) {
    int same = s[k].h->rounds == 0 || s[k].h->columns == s->h->columns;
    for (int64_t c = 0; same && c < s[k].h->columns; c++)
      same = !strcmp(s[k].texts.column[c], s->texts.column[c]);
    if (!same)
      return TT_FAIL(DATA, "%s predicts other columns than %s: they cannot be drawn together",
                     s[k].directory, s->directory);
  }
  return TT_OK;
}

int tt_campaign_is_local(const char *directory)
{
  char journal[TT_PATH_MAX], history[TT_PATH_MAX];
  tt_path_join(directory, "journal.jsonl", journal);
  tt_path_join(directory, "campaign.h5", history);
  return access(journal, F_OK) == 0 || access(history, F_OK) == 0;
}

tt_history_totals tt_history_sum(const tt_history *h)
{
  tt_history_totals sum = {0};
  for (int64_t i = 0; i < h->rounds; i++) {
    const tt_round *r = &h->round[i];
    sum.queries += r->queried;
    sum.failed += r->label_failed;
    if (isfinite(r->seconds[TT_STAGE_label])) sum.label_seconds += r->seconds[TT_STAGE_label];
    for (int k = 0; k < TT_STAGE_COUNT; k++)
      if (isfinite(r->seconds[k])) sum.seconds += r->seconds[k];
  }
  return sum;
}

double tt_percent(int64_t a, int64_t b) { return b > 0 ? 100.0 * (double)a / (double)b : NAN; }

int64_t tt_round_labels_after(const tt_round *r)
{
  return r->labels + r->queried - r->label_failed;
}

double tt_curve_error_at(const tt_history *h, const tt_history *unit, double labels)
{
  const tt_round *r = h->round;
  int64_t i = 0;
  while (i < h->rounds && (double)r[i].labels < labels) i++;
  if (i == h->rounds || (i == 0 && (double)r->labels > labels)) return NAN;
  double value = tt_history_error(h, i + 1, unit);
  if (!((double)r[i].labels > labels)) return value;
  double before = tt_history_error(h, i, unit);
  double part = (labels - (double)r[i - 1].labels) / (double)(r[i].labels - r[i - 1].labels);
  return before + part * (value - before);
}
