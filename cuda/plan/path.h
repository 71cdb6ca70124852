/* path.h — choice of the path on which the cuda engine trains a cohort. Plain C, no CUDA: the
 * choice can be made, printed and tested without a GPU. */
#ifndef TT_PATH_H
#define TT_PATH_H
#include "cuda/plan/path_verdict.h"
TT_BEGIN_C

typedef struct tt_path_choice {
  tt_gpu_path path;
  tt_precision precision;         /* of training steps */
  int ranks;                      /* blocks that train a member on the cluster path; else 0 */
  char why[TT_PATH_REASON_BYTES]; /* reason, for messages */
} tt_path_choice;

/* Least inputs and outputs of a layer for which tensor cores are faster. A step on an H100
 * (bench/results/gpu/2026-11-22-h100-kit.md and -steps.txt) took, in us: 16 of 8-32-32-1,
 * 27.6 in fp32, 44.2 in tf32; 4096 of 4-16-1, 23.7 and 52.7; 10,000 of 4-16-16-1, 96.2 and 180.9;
 * but 128 of 8-64-64-1, 45.6 and 37.8. Widths between were not measured. */
enum { TT_PATH_TENSOR_MIN_WIDTH = 64 };

/* The precision in which auto trains a cohort: fp32 if no layer has TT_PATH_TENSOR_MIN_WIDTH inputs
 * and outputs (a conv: weights of an output, and channels of a group), else the wanted one, if the
 * chosen path has it, or fp32. */
tt_precision tt_path_precision(const tt_cohort *c, tt_precision wanted);

/* Choose a path: the first row of TT_GPU_PATHS that is automatic, supported and preferred, so warp
 * if a member is tiny, else block if it fits into a thread block, else layered. The bits follow
 * from this choice, so it depends on the shape alone. Then cluster in place of block, which gives
 * the same bits, if the members are so few that it is faster.
 *   wanted  TT_GPU_PATH_auto: as above, in tt_path_precision; else this path, in the precision of
 *           the context
 *   out     written only on TT_OK
 * Local. Errors: UNAVAILABLE (the wanted path cannot train the cohort; the message says why). */
tt_err tt_path_choose(const tt_cohort *c, const tt_path_context *context, tt_gpu_path wanted,
                      tt_path_choice *out);

/* Minimum compute capability of a path, as 10 * major + minor; 0: every GPU that tutti supports. */
int tt_path_min_capability(tt_gpu_path path);
TT_END_C
#endif
