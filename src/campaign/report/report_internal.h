/* report_internal.h — a campaign read from its files, for the files of this directory. Local. */
#ifndef TT_CAMPAIGN_REPORT_INTERNAL_H
#define TT_CAMPAIGN_REPORT_INTERNAL_H
#include "io/campaign/campaign_files.h"

#include <stdio.h>

/* One campaign: campaign.h5 and its score, from the configuration in it. */
typedef struct tt_campaign_record {
  const char *directory; /* borrowed, unless `place` has it */
  char *place;           /* owned, NULL = none */
  tt_history *h;
  tt_history_metadata texts;
  char score[96];  /* "epistemic_std", "bald, kcenter"; "" = not known */
  int is_random;   /* it chooses at random: a baseline */
  uint64_t method; /* tt_config_method_hash */
} tt_campaign_record;

/* Errors: NOINPUT, DATA, IO, MEM. */
tt_err tt_campaign_record_read_local(const char *directory, tt_campaign_record *out);
void tt_campaign_record_free(tt_campaign_record *s);

/* Read the campaigns of n directories; of a folder of campaigns all, by name, but those that choose
 * at random last. Owner: the caller, tt_campaign_records_free.
 * Errors: NOINPUT (no campaign), DATA (other columns), IO, MEM. */
tt_err tt_campaign_records_read_local(const char *const *directory, int n, tt_campaign_record **out,
                                      int *count);
void tt_campaign_records_free(tt_campaign_record **s, int count);

/* a / b in per cent; NaN if b is 0. */
double tt_percent(int64_t a, int64_t b);
/* The mean of the columns' spreads, each divided by its value in the first round of `unit`. */
double tt_history_spread(const tt_history *h, int64_t round, const tt_history *unit);

/* Labeled rows at the end of a round: those it trained on, plus its new labels. */
int64_t tt_round_labels_after(const tt_round *r);

/* Error if campaigns predict other columns than the first one. Errors: DATA. */
tt_err tt_campaigns_check_columns(const tt_campaign_record *s, int n);
#endif
