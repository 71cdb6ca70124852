/* device_sizes.h — how much device memory an engine will need, before it is created. Plain C that
 * does not call CUDA. */
#ifndef TT_DEVICE_SIZES_H
#define TT_DEVICE_SIZES_H
#include "core/engine/engine.h"
#include "cuda/plan/layered_sizes.h"
#include "cuda/plan/path.h"
TT_BEGIN_C

/* Bytes that the cuda engine allocates for the members of `slice`, without the data set. The
 * engine may need less: rows without labels are counted here, because they are not known yet.
 *   rows    of the data set;  weighted  1: rows have weights
 *   streamed  1: the data set does not fit, and the layered path reads rows from the host
 *   wanted  TUTTI_GPU_PATH
 *   share   of members that several engines train together, without what they exchange; or NULL
 * Errors: those of tt_path_choose. */
tt_err tt_device_bytes(const tt_cohort *c, tt_slice slice, int64_t rows, int weighted, int streamed,
                       const tt_path_context *context, tt_gpu_path wanted,
                       const tt_engine_share *share, int64_t *bytes);
TT_END_C
#endif
