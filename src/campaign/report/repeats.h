/* repeats.h — campaigns that were repeated with other seeds, as one learning curve with a band.
 * Local. */
#ifndef TT_CAMPAIGN_REPEATS_H
#define TT_CAMPAIGN_REPEATS_H
#include "src/campaign/report/report_internal.h"

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
#endif
