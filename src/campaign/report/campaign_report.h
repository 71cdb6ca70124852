/* campaign_report.h — `tutti status` and `tutti report` of campaigns. Local; they only read the
 * files of the campaign and are safe while it runs. */
#ifndef TT_CAMPAIGN_REPORT_H
#define TT_CAMPAIGN_REPORT_H
#include "core/base/err.h"

#include <stdint.h>

/* Whether a campaign is in the directory. */
int tt_campaign_is_local(const char *directory);

/* Print to standard output: round, stage, labels, fractions and test error of the last round, time,
 * why the campaign ended. json: 1 = as one JSON object. Errors: NOINPUT, DATA. */
tt_err tt_campaign_status_local(const char *directory, int json);

/* Write `file`, a page about the first campaign of n directories with the learning curves of all,
 * and say so on standard output.
 *   force  1 = also replace a file that tutti report did not write
 *   json   print the outcome as one JSON object (docs/json.md) instead of the name of the file
 * Errors: NOINPUT, DATA (other columns; no finished round), CANTCREAT, IO, MEM. */
tt_err tt_campaign_page_write_local(const char *const *directory, int n, const char *file,
                                    int force, int json);
#endif
