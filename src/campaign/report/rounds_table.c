/* rounds_table.c — `tutti report --tsv` of campaigns; see campaign_report.h. */
#include "src/campaign/report/campaign_report.h"
#include "src/campaign/report/report_internal.h"

#include "core/base/text.h"

#include <inttypes.h>

static void print_head(const tt_campaign_record *s)
{
  static const char *const of_column[] = {"rmse", "nll", "spread"};
  printf("campaign\tscore\tround\terror");
#define X(name, meaning) printf("\t" #name);
  TT_ROUND_COUNTS(X)
  TT_ROUND_NUMBERS(X)
#undef X
  for (int k = 0; k < TT_STAGE_COUNT; k++) printf("\tseconds.%s", tt_stage_name[k]);
  for (int k = 0; k < 3; k++)
    for (int64_t c = 0; c < s->h->columns; c++) printf("\t%s.%s", of_column[k], s->texts.column[c]);
  printf("\n");
}

static void print_round(const tt_campaign_record *s, int64_t i, const tt_history *unit)
{
  const tt_round *r = &s->h->round[i];
  const double *const of_column[] = {r->rmse, r->nll, r->spread};
  printf("%s%s\t%s\t%" PRId64 "\t%.9g", tt_table_quote(s->directory), s->directory, s->score, i + 1,
         tt_history_error(s->h, i + 1, unit));
#define X(name, meaning) printf("\t%" PRId64, r->name);
  TT_ROUND_COUNTS(X)
#undef X
#define X(name, meaning) printf("\t%.9g", r->name);
  TT_ROUND_NUMBERS(X)
#undef X
  for (int k = 0; k < TT_STAGE_COUNT; k++) printf("\t%.9g", r->seconds[k]);
  for (int k = 0; k < 3; k++)
    for (int64_t c = 0; c < s->h->columns; c++) printf("\t%.9g", of_column[k][c]);
  printf("\n");
}

tt_err tt_campaign_rounds_print_local(const char *const *directory, int n)
{
  tt_campaign_record *s = NULL;
  int count = 0;
  TT_TRY(tt_campaign_records_read_local(directory, n, &s, &count));
  print_head(s);
  for (int k = 0; k < count; k++)
    for (int64_t i = 0; i < s[k].h->rounds; i++) print_round(&s[k], i, s->h);
  tt_campaign_records_free(&s, count);
  return TT_OK;
}
