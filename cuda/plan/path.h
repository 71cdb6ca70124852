/* path.h — which way the cuda engine trains a cohort. Floor 3; plain C, no CUDA: the choice can be
 * made, printed and tested where there is no GPU. */
#ifndef TT_PATH_H
#define TT_PATH_H
#include "core/model/cohort.h"
#ifdef __cplusplus
extern "C" {
#endif

/* What the choice depends on beside the cohort. */
typedef struct tt_path_context {
  int64_t shared_bytes;            /* most shared memory a block can have: 232448 on an H200 */
  tt_precision precision;          /* that is asked of it */
  const char *warp_unsupported;    /* the path's own word; NULL: nothing against it, or not asked */
  const char *block_unsupported;   /* likewise */
  const char *layered_unsupported; /* likewise */
  const char *cluster_unsupported; /* likewise */
  int capability;                  /* 10 * major + minor: 90 */
  int64_t multiprocessors, members; /* that train on them: for advice, not for choice; 0: unknown */
} tt_path_context;

typedef struct tt_path_choice {
  tt_gpu_path path;
  char why[112]; /* for people */
} tt_path_choice;

/* Multiply-adds of one forward pass over a batch, P B, that one warp does on its own sooner than
 * the warps of a block come to an understanding: a step takes a warp about as many cycles as that,
 * and a block pays some 3,000 for barriers and for what one thread does while the others wait. Of a
 * member with fewer, a multiprocessor has TT_WARPS_PER_MULTIPROCESSOR beside one another that need
 * not wait. */
enum { TT_PATH_WARP_MAX_MACS = 32768 };

/* Choose: layered if it alone does what a member asks for (tt_cohort_needs_layered); else warp if a
 * step of a member is small (P B <= TT_PATH_WARP_MAX_MACS) and a multiprocessor holds many such
 * members (TT_WARPS_PER_MULTIPROCESSOR), in fp32; else block if a member fits into a thread block,
 * else layered. Never cluster: it is of use for few members alone, its bits are not those of the
 * others, and a member must not depend on how many there are. Where it would be of use, `why` says
 * so. wanted  TT_GPU_PATH_auto: by shape; else this one out     written only on TT_OK Local.
 * Errors: UNAVAILABLE (the wanted path, or every path, refuses; the message says why). */
tt_err tt_path_choose(const tt_cohort *c, const tt_path_context *on, tt_gpu_path wanted,
                      tt_path_choice *out);
#ifdef __cplusplus
}
#endif
#endif
