/* engine_list.c — the engines of this build. TUTTI_CUDA is the cuda engine: tt_engine_cuda_plugin,
 * or tt_engine_cuda in a program that contains it. */
#include "src/host/cuda_plugin.h"

#include <stddef.h>

const tt_engine_ops *const tt_engines[] = {
#ifdef TUTTI_CUDA
    &TUTTI_CUDA,
#endif
    &tt_engine_cpu, NULL};
