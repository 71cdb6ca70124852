/* load.c — read a campaign; see report_internal.h. */
#include "src/campaign/report/campaign_report.h"
#include "src/campaign/report/report_internal.h"

#include "core/base/mem.h"
#include "core/base/text.h"
#include "src/campaign/state/file_names.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Name the campaign by its acquisition and selection method. */
static void set_method(tt_campaign_record *s)
{
  tt_config *cfg = NULL;
  const char *text = s->texts.resolved;
  if (tt_config_parse("campaign.h5", text, (int64_t)strlen(text), NULL, 0, &cfg)) return;
  const char *method = tt_choice_select[cfg->select_method];
  s->is_random = cfg->score_acquisition == TT_ACQUISITION_random;
  int plain = cfg->select_method == TT_SELECT_penalty || s->is_random;
  snprintf(s->score, sizeof s->score, "%s%s%s", tt_choice_acquisition[cfg->score_acquisition],
           plain ? "" : ", ", plain ? "" : method);
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
    set_method(out);
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

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

int tt_campaign_is_local(const char *directory)
{
  char journal[TT_PATH_MAX], history[TT_PATH_MAX];
  tt_path_join(directory, "journal.jsonl", journal);
  tt_path_join(directory, "campaign.h5", history);
  return access(journal, F_OK) == 0 || access(history, F_OK) == 0;
}

/* Call `found` with every campaign in the folder, by name, until it returns an error. */
static tt_err list_folder(const char *folder, tt_err (*found)(void *dst, const char *directory),
                          void *dst)
{
  struct dirent **entry = NULL;
  char path[TT_PATH_MAX];
  tt_err e = TT_OK;
  int n = scandir(folder, &entry, is_visible, alphasort);
  for (int i = 0; i < n; i++) {
    tt_path_join(folder, entry[i]->d_name, path);
    if (!e && *path && tt_campaign_is_local(path)) e = found(dst, path);
    free(entry[i]);
  }
  free(entry);
  return e;
}

static tt_err count_one(void *dst, const char *directory)
{
  (void)directory;
  ++*(int *)dst;
  return TT_OK;
}

int tt_campaign_count_local(const char *directory)
{
  int n = 0;
  if (tt_campaign_is_local(directory)) return 1;
  list_folder(directory, count_one, &n);
  return n;
}

/* Campaigns that are read so far. */
typedef struct record_list {
  tt_campaign_record *at;
  int count, capacity;
} record_list;

static tt_err add_record(void *dst, const char *directory)
{
  record_list *all = dst;
  if (all->count == all->capacity) return TT_OK; /* another campaign has just begun */
  TT_TRY(tt_campaign_record_read_local(directory, &all->at[all->count]));
  all->count++;
  return TT_OK;
}

/* Move the campaigns that choose at random to the end; the order is kept otherwise. */
static void put_random_last(tt_campaign_record *s, int n)
{
  for (int left = n, i = 0; left > 0; left--) {
    if (!s[i].is_random) {
      i++;
      continue;
    }
    const tt_campaign_record moved = s[i];
    memmove(&s[i], &s[i + 1], (size_t)(n - 1 - i) * sizeof *s);
    s[n - 1] = moved;
  }
}

static tt_err read_all(const char *const *directory, int n, record_list *all)
{
  for (int i = 0; i < n; i++) {
    int first = all->count;
    if (tt_campaign_is_local(directory[i])) {
      TT_TRY(add_record(all, directory[i]));
      continue;
    }
    TT_TRY(list_folder(directory[i], add_record, all));
    put_random_last(all->at + first, all->count - first);
  }
  if (all->count == 0) return TT_FAIL(NOINPUT, "%s: there is no campaign", directory[0]);
  return tt_campaigns_check_columns(all->at, all->count);
}

/* The last part of the path. */
static const char *folder_of(const tt_campaign_record *s)
{
  const char *slash = strrchr(s->directory, '/');
  return slash && slash[1] ? slash + 1 : s->directory;
}

/* The score alone if no other campaign has the same one; otherwise the folder too. */
static void name_campaigns(tt_campaign_record *s, int n)
{
  for (int k = 0; k < n; k++) {
    int alone = *s[k].score != '\0';
    for (int i = 0; i < n; i++) alone = alone && (i == k || strcmp(s[i].score, s[k].score) != 0);
    snprintf(s[k].name, sizeof s[k].name, "%s%s%.100s", s[k].score,
             alone || !*s[k].score ? "" : " \xE2\x80\x93 ", alone ? "" : folder_of(&s[k]));
  }
}

tt_err tt_campaign_records_read_local(const char *const *directory, int n, tt_campaign_record **out,
                                      int *count)
{
  record_list all = {0};
  for (int i = 0; i < n; i++) all.capacity += tt_campaign_count_local(directory[i]);
  tt_err e = TT_ALLOC(all.at, all.capacity);
  if (!e) e = read_all(directory, n, &all);
  if (!e) name_campaigns(all.at, all.count);
  *out = all.at;
  *count = all.count;
  if (e) tt_campaign_records_free(out, *count);
  return e;
}

void tt_campaign_records_free(tt_campaign_record **s, int count)
{
  for (int i = 0; *s && i < count; i++) tt_campaign_record_free(&(*s)[i]);
  tt_free(*s);
  *s = NULL;
}

tt_history_totals tt_history_sum(const tt_history *h)
{
  tt_history_totals sum = {0};
  for (int64_t i = 0; i < h->rounds; i++) {
    sum.queries += h->round[i].queried;
    sum.failed += h->round[i].label_failed;
    for (int k = 0; k < TT_STAGE_COUNT; k++)
      if (isfinite(h->round[i].seconds[k])) sum.stage[k] += h->round[i].seconds[k];
  }
  for (int k = 0; k < TT_STAGE_COUNT; k++) sum.seconds += sum.stage[k];
  return sum;
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

double tt_curve_value(const tt_campaign_record *s, const tt_campaign_record *unit,
                      tt_curve_kind kind, int64_t column, int64_t i)
{
  const tt_round *r = &s->h->round[i];
  if (kind == TT_CURVE_MEAN) return tt_history_error(s->h, i + 1, unit->h);
  if (kind == TT_CURVE_SPREAD) return r->spread[column];
  return kind == TT_CURVE_RMSE ? r->rmse[column] : r->nll[column];
}

double tt_curve_error_at(const tt_campaign_record *s, const tt_campaign_record *unit, double labels)
{
  const tt_round *r = s->h->round;
  int64_t i = 0;
  while (i < s->h->rounds && (double)r[i].labels < labels) i++;
  if (i == s->h->rounds || (i == 0 && (double)r->labels > labels)) return NAN;
  double value = tt_curve_value(s, unit, TT_CURVE_MEAN, 0, i);
  if (!((double)r[i].labels > labels)) return value;
  double before = tt_curve_value(s, unit, TT_CURVE_MEAN, 0, i - 1);
  double part = (labels - (double)r[i - 1].labels) / (double)(r[i].labels - r[i - 1].labels);
  return before + part * (value - before);
}
