/* engine_list.c — the engines compiled in. */
#include "core/engine/engine.h"

#include <stddef.h>

const tt_engine_ops *const tt_engines[] = {
#ifdef TUTTI_CUDA
    &tt_engine_cuda,
#endif
    &tt_engine_cpu, NULL};
