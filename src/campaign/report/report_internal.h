/* report_internal.h — a campaign read from its files, for the files of this directory. Local. */
#ifndef TT_CAMPAIGN_REPORT_INTERNAL_H
#define TT_CAMPAIGN_REPORT_INTERNAL_H
#include "io/campaign/campaign_files.h"

/* One campaign: campaign.h5, and what its configuration says. */
typedef struct tt_campaign_record {
  char *directory;
  tt_history *h;
  tt_history_metadata texts;
  char title[256]; /* of the configuration, else the directory */
  char name[256];  /* "bald, kcenter – folder": the score and the last part of the directory */
} tt_campaign_record;

/* Errors: NOINPUT, DATA, IO, MEM. */
tt_err tt_campaign_record_read_local(const char *directory, tt_campaign_record *out);
void tt_campaign_record_free(tt_campaign_record *s);

/* Error if campaigns predict other columns than the first one. Errors: DATA. */
tt_err tt_campaigns_check_columns(const tt_campaign_record *s, int n);

/* Sums over all rounds. */
typedef struct tt_history_totals {
  int64_t queries, failed;
  double label_seconds, seconds; /* of the stage label, and of all */
} tt_history_totals;
tt_history_totals tt_history_sum(const tt_history *h);

/* a / b in per cent; NaN if b is 0. */
double tt_percent(int64_t a, int64_t b);

/* Labeled rows at the end of a round: those it trained on, plus its new labels. */
int64_t tt_round_labels_after(const tt_round *r);

/* The mean error at a number of labels, interpolated between rounds, in units of round 1 of `unit`;
 * NaN outside of them. */
double tt_curve_error_at(const tt_history *h, const tt_history *unit, double labels);
#endif
