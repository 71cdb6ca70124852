/* device_sizes.h — bytes of device memory of some members, before an engine is created. Plain C, no
 * CUDA. */
#ifndef TT_DEVICE_SIZES_H
#define TT_DEVICE_SIZES_H
#include "core/engine/engine.h"
#include "cuda/plan/path.h"
TT_BEGIN_C

/* Bytes that the cuda engine of members `slice` allocates, besides the data set; at most, because
 * rows without labels are not known here, and without the buffers of cuBLAS (tf32, 3xtf32).
 *   rows    of the data set;  weighted  1: rows have weights
 *   wanted  run.gpu_path
 * Errors: those of tt_path_choose. */
tt_err tt_device_bytes(const tt_cohort *c, tt_slice slice, int64_t rows, int weighted,
                       const tt_path_context *on, tt_gpu_path wanted, int64_t *bytes);
TT_END_C
#endif
