/* campaign_page_internal.h — the charts of the page of a campaign. Local. */
#ifndef TT_CAMPAIGN_PAGE_INTERNAL_H
#define TT_CAMPAIGN_PAGE_INTERNAL_H
#include "src/campaign/report/repeats.h"
#include "src/report/page/page.h"

/* Test error and spread by number of labels, of the first groups. Errors: MEM. */
tt_err tt_campaign_page_put_curves(FILE *f, const tt_repeats *group, int groups);

/* By round: shares of the pool, queries and failures, time of the stages. Errors: MEM. */
tt_err tt_campaign_page_put_rounds(FILE *f, const tt_history *h);

/* The inputs of the queries in pairs, by time of selection. Errors: MEM. */
tt_err tt_campaign_page_put_queries(FILE *f, const tt_campaign_record *s);
#endif
