/* path_verdict.h — whether one path of the cuda engine can train a cohort: path.c asks this for
 * each row of TT_GPU_PATHS. Plain C, no CUDA. */
#ifndef TT_PATH_VERDICT_H
#define TT_PATH_VERDICT_H
#include "core/model/cohort.h"
TT_BEGIN_C

/* What the choice depends on besides the cohort. */
typedef struct tt_path_context {
  int64_t shared_bytes;             /* maximum of shared memory per block: 232448 on an H200 */
  tt_precision precision;           /* requested */
  int capability;                   /* 10 * major + minor: 90 */
  int64_t multiprocessors, members; /* of the GPU; on it. Only for block or cluster; 0: unknown */
  tt_gpu_path_check check;
} tt_path_context;

enum { TT_PATH_REASON_BYTES = 160 };
typedef struct tt_path_verdict {
  int supported;                  /* it can train the cohort */
  int preferred;                  /* without TUTTI_GPU_PATH it may be chosen */
  int ranks;                      /* blocks of a cluster; 0 on other paths */
  char why[TT_PATH_REASON_BYTES]; /* why it can, or cannot */
} tt_path_verdict;

/* Set supported, preferred and why of an empty verdict. Called only if the columns of the row
 * allow the cohort. The function is in the file of the path's plan. */
#define X(name, ...)                                                                               \
  void tt_path_assess_##name(const tt_cohort *c, const tt_path_context *context,                   \
                             tt_path_verdict *out);
TT_GPU_PATHS(X)
#undef X
TT_END_C
#endif
