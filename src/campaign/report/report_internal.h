/* report_internal.h — a campaign read from its files, for the files of this directory. Local. */
#ifndef TT_CAMPAIGN_REPORT_INTERNAL_H
#define TT_CAMPAIGN_REPORT_INTERNAL_H
#include "io/campaign/campaign_files.h"

#include <stdio.h>

/* One campaign: campaign.h5 and its score, from the configuration in it. */
typedef struct tt_campaign_record {
  char *directory;
  tt_history *h;
  tt_history_metadata texts;
  char score[96]; /* "epistemic_std", "bald, kcenter"; "" = not known */
  char name[256]; /* the score; the folder too if another campaign has the same score */
  int is_random;  /* it chooses at random: a baseline */
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

/* Sums over all rounds. */
typedef struct tt_history_totals {
  int64_t queries, failed;
  double stage[TT_STAGE_COUNT], seconds; /* of each stage; of all */
} tt_history_totals;
tt_history_totals tt_history_sum(const tt_history *h);

/* a / b in per cent; NaN if b is 0. */
double tt_percent(int64_t a, int64_t b);
/* The mean of the columns' spreads, each divided by its value in the first round of `unit`. */
double tt_history_spread(const tt_history *h, int64_t round, const tt_history *unit);

/* Labeled rows at the end of a round: those it trained on, plus its new labels. */
int64_t tt_round_labels_after(const tt_round *r);

/* Error if campaigns predict other columns than the first one. Errors: DATA. */
tt_err tt_campaigns_check_columns(const tt_campaign_record *s, int n);

/* What a learning curve shows: of a column, or the mean error of all columns. */
typedef enum tt_curve_kind {
  TT_CURVE_MEAN,
  TT_CURVE_RMSE,
  TT_CURVE_NLL,
  TT_CURVE_SPREAD
} tt_curve_kind;

/* Value after round i, counted from 0; mean errors are in units of round 1 of `unit`. */
double tt_curve_value(const tt_campaign_record *s, const tt_campaign_record *unit,
                      tt_curve_kind kind, int64_t column, int64_t i);
/* The mean error at a number of labels, interpolated between rounds; NaN outside of them. */
double tt_curve_error_at(const tt_campaign_record *s, const tt_campaign_record *unit,
                         double labels);

/* campaign_charts.c: the charts of the page */

/* Test error and spread by number of labels, of the first campaigns. Errors: MEM. */
tt_err tt_campaign_page_put_curves(FILE *f, const tt_campaign_record *s, int n);

/* By round: shares of the pool, queries and failures, time of the stages. Errors: MEM. */
tt_err tt_campaign_page_put_rounds(FILE *f, const tt_history *h);

/* The inputs of the queries in pairs, by time of selection. Errors: MEM. */
tt_err tt_campaign_page_put_queries(FILE *f, const tt_campaign_record *s);
#endif
