/* plugin.h — an engine in a shared library, which the program opens when it first asks for devices:
 * a program that needs no GPU starts without the libraries of CUDA.
 *
 * The library has its own copy of the code of core/ and shares with the program only what stands
 * here. Both sides must be built from the same headers. */
#ifndef TT_PLUGIN_H
#define TT_PLUGIN_H
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/engine/engine.h"
TT_BEGIN_C

/* Version of tutti and hash of the headers in core/: "0.1.0 5e884898da28". Made by CMake. */
extern const char tt_engine_interface[];

/* What the engine uses of the program. */
typedef struct tt_plugin_host {
  tt_err_record_get *record; /* messages of errors */
  tt_log_settings log;
} tt_plugin_host;

/* The functions that a plugin exports. The program calls the second one only if the text of the
 * first one is its own tt_engine_interface. `host` is copied. */
typedef const char *tt_plugin_interface(void);
typedef const tt_engine_ops *tt_plugin_entry(const tt_plugin_host *host);
#define TT_PLUGIN_INTERFACE "tutti_engine_plugin_interface"
#define TT_PLUGIN_ENTRY "tutti_engine_plugin"

TT_END_C
#endif
