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

/* repeats.c: campaigns that were repeated with other seeds, as one learning curve with a band */

/* Campaigns of one method (tt_config_method_hash): one, or several that are repeats. */
typedef struct tt_repeats {
  const tt_campaign_record *all; /* borrowed */
  int n;
  int *campaign;  /* [n] numbers in `all`, ascending; owned */
  char name[256]; /* "epistemic_std"; the directory too if another method has the same name */
} tt_repeats;

/* Group n campaigns by their method, in the order of the first campaign of each.
 *   out  [*groups], at most n; owned by the caller, tt_repeats_free
 * Errors: MEM. */
tt_err tt_repeats_create(const tt_campaign_record *s, int n, tt_repeats **out, int *groups);
void tt_repeats_free(tt_repeats **g, int groups);

/* What a learning curve shows: of a column, or the mean error of all columns. */
typedef enum tt_curve_kind {
  TT_CURVE_MEAN,
  TT_CURVE_RMSE,
  TT_CURVE_NLL,
  TT_CURVE_SPREAD
} tt_curve_kind;

/* A learning curve over the number of labels. Of one campaign: its rounds. Of several: at every
 * number of labels that at least half of them cover (and two), median and quantiles 0.1 and 0.9 of
 * those; a campaign is interpolated between its rounds. */
typedef struct tt_learning_curve {
  int64_t points;
  double *labels, *value, *low, *high; /* [points]; labels owns the memory of all four */
  int *campaigns;                      /* [points] that were averaged; owned */
} tt_learning_curve;

/* Mean errors are in units of round 1 of the first campaign. Errors: MEM. */
tt_err tt_learning_curve_create(const tt_repeats *g, tt_curve_kind kind, int64_t column,
                                tt_learning_curve *out);
void tt_learning_curve_free(tt_learning_curve *c);
/* Linear interpolation of the value; NaN outside of the curve. */
double tt_learning_curve_at(const tt_learning_curve *c, double labels);

/* campaign_charts.c: the charts of the page */

/* Test error and spread by number of labels, of the first groups. Errors: MEM. */
tt_err tt_campaign_page_put_curves(FILE *f, const tt_repeats *group, int groups);

/* By round: shares of the pool, queries and failures, time of the stages. Errors: MEM. */
tt_err tt_campaign_page_put_rounds(FILE *f, const tt_history *h);

/* The inputs of the queries in pairs, by time of selection. Errors: MEM. */
tt_err tt_campaign_page_put_queries(FILE *f, const tt_campaign_record *s);
#endif
