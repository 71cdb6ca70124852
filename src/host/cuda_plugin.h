/* cuda_plugin.h — the cuda engine of libtutti_cuda.so. Local. */
#ifndef TT_CUDA_PLUGIN_H
#define TT_CUDA_PLUGIN_H
#include "core/engine/engine.h"

/* Opens the library at the first call of count or versions. Only name, count and versions may be
 * called before count, which fills in the rest when it has opened the library.
 *   count     Errors: UNAVAILABLE (the library or one that it needs is missing, or it was built
 *             from other sources)
 *   versions  also works without the library: it tells why */
extern tt_engine_ops tt_engine_cuda_plugin;

/* 1: the library is not installed, in a program that was built to do without (TUTTI_CUDA=FIND). */
int tt_cuda_plugin_is_left_out_local(void);
#endif
