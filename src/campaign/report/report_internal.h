/* report_internal.h — a campaign read from its files, for the files of this directory. Local. */
#ifndef TT_CAMPAIGN_REPORT_INTERNAL_H
#define TT_CAMPAIGN_REPORT_INTERNAL_H
#include "io/campaign/campaign_files.h"

#include <stdio.h>

/* One campaign: campaign.h5 and its score, from the configuration in it. */
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
/* The mean of the columns' spreads, each divided by its value in the first round of `unit`. */
double tt_history_spread(const tt_history *h, int64_t round, const tt_history *unit);

/* Labelled rows at the end of a round: those it trained on, plus its new labels. */
int64_t tt_round_labels_after(const tt_round *r);

/* Error if campaigns predict other columns than the first one. Errors: DATA. */
tt_err tt_campaigns_check_columns(const tt_campaign_record *s, int n);

/* Write the learning curves of n campaigns to `output`/learning.tsv and learning.svg, in units of
 * the first campaign; `output` is created. Print one line that compares the first campaign with
 * each other one. Errors: DATA (the campaigns predict different columns), CANTCREAT, IO, MEM. */
tt_err tt_learning_curves_write_local(const tt_campaign_record *s, int n, const char *output);
#endif
