/* plugin.c — see plugin.h. */
#include "core/engine/plugin.h"

const char tt_engine_interface[] = TUTTI_VERSION " " TUTTI_INTERFACE;
