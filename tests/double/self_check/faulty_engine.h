/* faulty_engine.h — the cuda engine on the double, with the fault that TT_DOUBLE_FAULT names, as
 * "block formula" or "warp bit 7": on this path, where it is asked for by name, as the self-check
 * does. Faults: formula, row (every eighth is lost), race (a weight has other bits now and then), bit (one
 * flips, in call number 7 of one step; -2: in the second of an engine of one member, as run.verify
 * has), hang, crash, error, none. TT_DOUBLE_BUSY names a path that gets no GPU, which says nothing
 * about it. */
#ifndef TT_DOUBLE_FAULTY_ENGINE_H
#define TT_DOUBLE_FAULTY_ENGINE_H
#include "core/engine/engine.h"

extern tt_engine_ops tt_engine_faulty;
#endif
