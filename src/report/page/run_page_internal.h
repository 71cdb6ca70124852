/* run_page_internal.h — the parts of the page of a run, for the files of this directory. Local. */
#ifndef TT_RUN_PAGE_INTERNAL_H
#define TT_RUN_PAGE_INTERNAL_H
#include "io/results/results_read.h"
#include "src/host/status_file.h"
#include "src/report/page/page.h"

/* Columns [first, first + count) of the results. */
typedef struct tt_target {
  int64_t first, count;
  int64_t column;             /* the middle one, of the point forecast; of classes the first */
  int64_t member, end_member; /* the members of its ensemble */
  int64_t rows;               /* test rows with a label */
  double determination;       /* R2 of the column; NaN for classes */
  char title[256];
} tt_target;
tt_target tt_target_of(const tt_results *k, int64_t first);
/* Whether the target of a column is a class. */
int tt_target_is_class(const tt_results *k, int64_t column);

typedef struct tt_run_page {
  FILE *f;
  const char *directory;
  tt_results *k;
  const tt_run_status *status; /* NULL = no status.json */
  int64_t targets;             /* in all */
  int64_t shown;               /* with charts: the first ones */
  tt_target *t;                /* [targets] */
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

/* Write the charts of a target of p->t: predictions, calibration if is_sure; of the first target of
 * an ensemble the learning curves. Errors: MEM. */
tt_err tt_target_put_charts(const tt_run_page *p, const tt_target *t, int is_sure);

/* Write the parts of the page. */
void tt_run_page_put_verdict(tt_run_page *p);
void tt_run_page_put_scores(const tt_run_page *p);
/* Which classes are taken for which, of up to 12 classes. */
void tt_run_page_put_confusion(const tt_run_page *p, const tt_target *t);
tt_err tt_run_page_put_members(const tt_run_page *p);
/* A sentence about the best member if hyper-parameters differ, else "". */
void tt_run_page_say_best(const tt_run_page *p, char *text, size_t size);
/* If the job was a search. Errors: MEM. */
tt_err tt_run_page_put_search(const tt_run_page *p);
/* If there is importance.h5; a file that is damaged, old or of another model is a warning. */
tt_err tt_run_page_put_importance(const tt_run_page *p);
#endif
