/* run_page_internal.h — the parts of the page of a run, for the files of this directory. Local. */
#ifndef TT_RUN_PAGE_INTERNAL_H
#define TT_RUN_PAGE_INTERNAL_H
#include "io/results/results_read.h"
#include "src/host/status_file.h"
#include "src/report/page/page.h"

/* Columns [first, first + count) of the results. */
typedef struct tt_target {
  int64_t first, count;
  int64_t member, end_member; /* the members of its ensemble */
  int64_t rows;               /* test rows with a label */
  double determination;       /* R2 of the middle column; NaN for classes */
  char title[256];
} tt_target;
tt_target tt_target_of(const tt_results *k, int64_t first);
/* Whether the target of a column is a class. */
int tt_target_is_class(const tt_results *k, int64_t column);

typedef struct tt_run_page {
  FILE *f;
  const char *directory;
  tt_results *k;               /* NULL = the run has no results.h5 yet */
  const tt_run_status *status; /* NULL = no status.json */
  char *groups;    /* tt_group_scores_text of a run with `by`, without k and d; or NULL */
  int64_t targets; /* in all */
  int64_t shown;   /* with charts: the first ones */
  tt_target *t;    /* [targets] */
} tt_run_page;

/* What the test rows say about one target, in numbers and words. NaN = not known. */
typedef struct tt_target_verdict {
  double error;    /* rmse; accuracy of a class */
  double relative; /* rmse / standard deviation of the labels; errors / errors without inputs */
  double inside, nominal; /* fraction of the rows inside the central interval; what it should be */
  double low, high;       /* range of `inside` that chance allows: 95 % */
  const char *how_good;   /* "accurate"; "" = not known */
  const char *how_sure;   /* "too narrow" */
} tt_target_verdict;
tt_target_verdict tt_target_judge(const tt_run_page *p, int64_t target);

/* Write the charts of a target of p->t: predictions, residuals, calibration if is_sure, spread; of
 * the first target of an ensemble the learning curves. Errors: MEM. */
tt_err tt_target_put_charts(const tt_run_page *p, const tt_target *t, int is_sure);

/* Write the parts of the page. */
void tt_run_page_put_verdict(tt_run_page *p);
tt_err tt_run_page_put_targets(const tt_run_page *p);
tt_err tt_run_page_put_members(const tt_run_page *p);
/* A sentence about the best member if hyper-parameters differ, else "". */
void tt_run_page_say_best(const tt_run_page *p, char *text, size_t size);
tt_err tt_run_page_put_sweep(const tt_run_page *p);
/* If the job was a search. Errors: MEM. */
tt_err tt_run_page_put_search(const tt_run_page *p);
void tt_run_page_put_out_of_bag(const tt_run_page *p);
/* If there is importance.h5; a file that is damaged, old or of another model is a warning. */
tt_err tt_run_page_put_importance(const tt_run_page *p);
/* Of a run without results: its state, and the losses so far. */
tt_err tt_run_page_put_state(const tt_run_page *p);

/* Whether a hyper-parameter differs between members of the ensemble [first, end). */
int tt_run_page_differs(const tt_run_page *p, int hyper, int64_t first, int64_t end);
/* Score of a member that the page compares: the first one that it has of rmse, accuracy, nll of the
 * first column of its ensemble; else its best validation loss. */
double tt_run_page_score(const tt_run_page *p, int64_t member, const char **name);
#endif
