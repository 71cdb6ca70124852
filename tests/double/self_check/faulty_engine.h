/* faulty_engine.h — the cuda engine on the double, with the fault that TT_DOUBLE_FAULT names, as
 * "block formula": on this path, where it is asked for by name, as the self-check does. Faults:
 * formula, row (one is lost), bit (one flips in a step), hang, crash, error. */
#ifndef TT_DOUBLE_FAULTY_ENGINE_H
#define TT_DOUBLE_FAULTY_ENGINE_H
#include "core/engine/engine.h"

extern tt_engine_ops tt_engine_faulty;
#endif
