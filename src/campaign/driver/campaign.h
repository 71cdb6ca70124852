/* campaign.h — `tutti campaign run`: train, score, select, label, merge, again. Floor 5. */
#ifndef TT_CAMPAIGN_H
#define TT_CAMPAIGN_H
#include "src/job/job.h"

typedef struct tt_campaign_options {
  tt_job_options job;
  int64_t rounds;   /* at most so many more, 0 = until it ends: `campaign step` is 1 */
  const char *from; /* "12:select": do everything from there on again; NULL = go on */
  int any_device;
  double max_time; /* seconds, 0 = what the job says */
} tt_campaign_options;

/* Collective. Begin the campaign of a file, or go on with it wherever it stopped. Every stage is
 * done once and checked by the journal; a round counts when campaign.h5 is renamed.
 * Errors: those of training; STOPPED (a signal, the time limit, a file STOP, an oracle that says
 * later: run again); UNAVAILABLE (the oracle stopped it); DIVERGED (more than label.max_failed of a
 * round's rows have no label); CONFIG, DATA, CANTCREAT, IO, MEM. */
tt_err tt_campaign_run(tt_comm *c, const tt_campaign_options *o);
#endif
