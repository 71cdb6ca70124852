/* device_list.cuh — the GPUs of this process, for the table of the cuda engine. Local. */
#ifndef TT_DEVICE_LIST_CUH
#define TT_DEVICE_LIST_CUH
#include "core/engine/engine.h"

/* engine.h: count, describe and versions. */
tt_err tt_cuda_count(int *devices);
tt_err tt_cuda_describe(int device, tt_device_info *out);
void tt_cuda_versions(char *text, int64_t capacity);
#endif
