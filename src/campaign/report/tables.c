/* tables.c — `tutti campaign report`: tables; see campaign_report.h. */
#include "src/campaign/report/campaign_report.h"
#include "src/campaign/report/report_internal.h"

#include "core/base/mem.h"
#include "src/campaign/state/file_names.h"
#include "src/report/own_file.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { COLUMNS_PER_TABLE = 5 }; /* predicted columns side by side */

static void print_share(int64_t a, const tt_round *r)
{
  if (r->pool)
    printf(" %8.2f", tt_percent(a, r->pool));
  else
    printf(" %8s", "-");
}

static void print_number(double value, int width)
{
  if (isfinite(value))
    printf(" %*.4g", width, value);
  else
    printf(" %*s", width, "-");
}

static void print_rounds(const tt_history *h)
{
  printf("%5s %8s %10s %8s %8s %8s %8s %7s %8s\n", "round", "labels", "error", "spread", "accur.%",
         "candid.%", "failed%", "queried", "no label");
  for (int64_t i = 0; i < h->rounds; i++) {
    const tt_round *r = &h->round[i];
    printf("%5" PRId64 " %8" PRId64, i + 1, r->labels);
    print_number(tt_history_error(h, i + 1, h), 10);
    print_number(tt_history_spread(h, i + 1, h), 8);
    print_share(r->accurate, r);
    print_share(r->candidate, r);
    print_share(r->failed, r);
    printf(" %7" PRId64 " %8" PRId64 "%s\n", r->queried, r->label_failed, r->diverged ? " *" : "");
  }
  printf("error, spread: mean over the columns, in units of round 1\n");
  for (int64_t i = 0; i < h->rounds; i++)
    if (h->round[i].diverged)
      printf("* round %" PRId64 ": %" PRId64 " member%s diverged\n", i + 1, h->round[i].diverged,
             h->round[i].diverged == 1 ? "" : "s");
}

static void print_seconds(const tt_history *h)
{
  printf("\nseconds\n%5s", "round");
  for (int k = 0; k < TT_STAGE_COUNT; k++) printf(" %12s", tt_stage_name[k]);
  printf("\n");
  for (int64_t i = 0; i < h->rounds; i++) {
    const tt_round *r = &h->round[i];
    printf("%5" PRId64, i + 1);
    for (int k = 0; k < TT_STAGE_COUNT; k++)
      printf(" %12.*f", r->seconds[k] < 1000 ? 2 : 0, r->seconds[k]);
    printf("\n");
  }
}

typedef enum column_kind { KIND_RMSE, KIND_NLL, KIND_SPREAD, KINDS } column_kind;

static const double *values(const tt_round *r, column_kind k)
{
  return k == KIND_RMSE ? r->rmse : k == KIND_NLL ? r->nll : r->spread;
}

static int is_known(const tt_history *h, column_kind k)
{
  for (int64_t i = 0; i < h->rounds; i++)
    for (int64_t c = 0; c < h->columns; c++)
      if (isfinite(values(&h->round[i], k)[c])) return 1;
  return 0;
}

static int display_width(const char *label)
{
  int n = 0;
  for (; *label; label++) n += (*label & 0xC0) != 0x80; /* count UTF-8 characters */
  return n;
}

/* A label right-aligned to `width` characters. */
static void print_label(const char *label, int width)
{
  printf(" ");
  for (int i = display_width(label); i < width; i++) printf(" ");
  printf("%s", label);
}

static void print_columns(const tt_campaign_record *s, column_kind k)
{
  static const char *const title[] = {"test rmse", "test nll", "spread over the candidates"};
  const tt_history *h = s->h;
  if (!is_known(h, k)) return;
  for (int64_t from = 0; from < h->columns; from += COLUMNS_PER_TABLE) {
    int64_t end = from + COLUMNS_PER_TABLE < h->columns ? from + COLUMNS_PER_TABLE : h->columns;
    printf("\n%s\n%5s", title[k], "round");
    for (int64_t c = from; c < end; c++) print_label(s->texts.column[c], 12);
    printf("\n");
    for (int64_t i = 0; i < h->rounds; i++) {
      printf("%5" PRId64, i + 1);
      for (int64_t c = from; c < end; c++) {
        int width = display_width(s->texts.column[c]);
        print_number(values(&h->round[i], k)[c], width > 12 ? width : 12);
      }
      printf("\n");
    }
  }
}

static tt_err print_report(const tt_campaign_record *s, int n, const char *output)
{
  const tt_history *h = s->h;
  if (h->rounds == 0) return TT_FAIL(DATA, "%s: no round is finished yet", s->directory);
  print_rounds(h);
  print_seconds(h);
  for (int k = 0; k < KINDS; k++) print_columns(s, (column_kind)k);
  if (h->ended >= 0)
    printf("\nended by rule %s (%s)\n", tt_stop_rule_name[h->ended], tt_history_end_cause(h));
  return tt_learning_curves_write_local(s, n, output);
}

/* Before anything is printed or written. */
static tt_err check_places(const char *output)
{
  char path[TT_PATH_MAX];
  tt_campaign_path(output, "learning.tsv", path);
  TT_TRY(tt_own_file_check_local(path, "campaign\tround\t"));
  tt_campaign_path(output, "learning.svg", path);
  return tt_own_file_check_local(path, "<title>Learning curve</title>");
}

tt_err tt_campaign_report_local(const char *const *directory, int n, const char *output, int force)
{
  tt_campaign_record *s = NULL;
  tt_err e = force ? TT_OK : check_places(output);
  if (!e) e = TT_ALLOC(s, n);
  for (int i = 0; !e && i < n; i++) e = tt_campaign_record_read_local(directory[i], &s[i]);
  if (!e) e = print_report(s, n, output);
  for (int i = 0; s && i < n; i++) tt_campaign_record_free(&s[i]);
  tt_free(s);
  return e;
}
