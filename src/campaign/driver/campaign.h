/* campaign.h — `tutti campaign run`: repeat train, score, select, label, merge. */
#ifndef TT_CAMPAIGN_H
#define TT_CAMPAIGN_H
#include "src/job/job.h"

typedef struct tt_campaign_options {
  tt_job_options job;
  int64_t rounds;     /* run at most this number of rounds, 0 = no limit; `campaign step` is 1 */
  const char *from;   /* "12:select": run this stage and all later ones again; NULL = continue */
  const char *replay; /* directory of an asynchronous campaign whose labels are taken as they came
                         there, without an oracle; NULL = a campaign of its own */
  int any_device;
  double max_time; /* seconds, 0 = option run.max_time */
} tt_campaign_options;

/* Collective. Start the campaign of a file, or continue it where it stopped. The journal ensures
 * that a finished stage is not repeated; a round is committed when campaign.h5 is renamed.
 * Errors: those of training; STOPPED (a signal, the time limit, a file STOP, the oracle's exit code
 * 75: run again); UNAVAILABLE (the oracle stopped the campaign); DIVERGED (more than
 * label.max_failed of a round's queries have no label); CONFIG, DATA, CANTCREAT, IO, MEM. */
tt_err tt_campaign_run(tt_comm *c, const tt_campaign_options *o);
#endif
