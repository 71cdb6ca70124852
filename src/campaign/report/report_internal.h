/* report_internal.h — a campaign as its files tell it, for the files of campaign_report.h. Floor 5;
 * local. */
#ifndef TT_CAMPAIGN_REPORT_INTERNAL_H
#define TT_CAMPAIGN_REPORT_INTERNAL_H
#include "io/campaign/campaign_files.h"

#include <stdio.h>

/* One campaign: campaign.h5, and what its configuration says of it. */
typedef struct tt_campaign_record {
  const char *directory; /* borrowed */
  tt_history *h;
  tt_history_metadata texts;
  char score[96]; /* "epistemic_std", "bald, kcenter"; "" = not known */
} tt_campaign_record;

/* Errors: NOINPUT, DATA, IO, MEM. */
tt_err tt_campaign_record_read_local(const char *directory, tt_campaign_record *out);
void tt_campaign_record_free(tt_campaign_record *s);

/* a / b in per cent; NaN if b is 0. */
double tt_percent(int64_t a, int64_t b);
/* The mean of the columns' spreads, each in units of the first round of `unit`. */
double tt_history_spread(const tt_history *h, int64_t round, const tt_history *unit);

/* Labelled rows at the end of a round: those it learnt from, and its own. */
int64_t tt_round_labels_after(const tt_round *r);

/* The learning curve of n campaigns as `output`/learning.tsv and learning.svg, in units of the
 * first one; `output` is made. A sentence about the first against each other one goes to standard
 * output. Errors: DATA (they predict different columns), CANTCREAT, IO, MEM. */
tt_err tt_learning_curves_write_local(const tt_campaign_record *s, int n, const char *output);
#endif
