/* campaign_report.h — what a campaign has come to, for people: `tutti campaign status` and
 * `report`. Floor 5; local, from the files alone, safe while it runs. */
#ifndef TT_CAMPAIGN_REPORT_H
#define TT_CAMPAIGN_REPORT_H
#include "core/base/err.h"

#include <stdint.h>

/* Round, stage, labels, shares of the last round, test error, time, why it ended. json: as one
 * object. Errors: NOINPUT, DATA. */
tt_err tt_campaign_status_local(const char *directory, int json);

/* Table of all rounds on standard output: labels, test error, accurate / candidate / failed, time
 * of each stage; the learning curve as learning.tsv and, as a picture, learning.svg in `output`.
 *   directory  [n] campaigns: the first is told, the others (a random baseline) are drawn beside it
 * Errors: NOINPUT, DATA, CANTCREAT. */
tt_err tt_campaign_report_local(const char *const *directory, int n, const char *output);
#endif
