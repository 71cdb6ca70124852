/* path.h — choice of the path on which the cuda engine trains a cohort. Plain C, no CUDA: the
 * choice can be made, printed and tested without a GPU. */
#ifndef TT_PATH_H
#define TT_PATH_H
#include "cuda/plan/path_verdict.h"
TT_BEGIN_C

typedef struct tt_path_choice {
  tt_gpu_path path;
  char why[TT_PATH_REASON_BYTES]; /* reason, for messages */
} tt_path_choice;

/* Choose a path: the first row of TT_GPU_PATHS that is automatic, supported and preferred, so warp
 * if a member is tiny, else block if it fits into a thread block, else layered. Never cluster: it
 * is faster for few members only, its bits differ from those of the others, and a member must not
 * depend on the number of members. If cluster would be faster, `why` says so.
 *   wanted  TT_GPU_PATH_auto: by shape; else this path
 *   out     written only on TT_OK
 * Local. Errors: UNAVAILABLE (the wanted path cannot train the cohort, or no path can because of
 * train.parts; the message says why). */
tt_err tt_path_choose(const tt_cohort *c, const tt_path_context *on, tt_gpu_path wanted,
                      tt_path_choice *out);

/* Minimum compute capability of a path, as 10 * major + minor; 0: every GPU that tutti supports. */
int tt_path_min_capability(tt_gpu_path path);
TT_END_C
#endif
