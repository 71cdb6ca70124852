/* cuda_plugin.c — see cuda_plugin.h. */
#include "src/host/cuda_plugin.h"

#include "core/engine/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libtutti_cuda.so" /* found by the RUNPATH of this program or library */

static tt_err count(int *devices);
static void versions(char *text, int64_t capacity);

tt_engine_ops tt_engine_cuda_plugin = {.name = "cuda", .count = count, .versions = versions};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char fault[1024]; /* why the library cannot be used; "" if it can */
static int left_out;     /* 1: it is not installed, and need not be */

static void open_library(void)
{
  tt_plugin_interface *interface = NULL;
  tt_plugin_entry *entry = NULL;
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  void *first = library ? dlsym(library, TT_PLUGIN_INTERFACE) : NULL;
  void *second = first ? dlsym(library, TT_PLUGIN_ENTRY) : NULL;
  if (!second) {
    snprintf(fault, sizeof fault, "%.900s", dlerror());
#ifdef TUTTI_CUDA_FIND
    left_out = !strncmp(fault, LIBRARY ": cannot open", sizeof LIBRARY ": cannot open" - 1);
    if (left_out) strcpy(fault, "it is not installed (pip install tutti-cuda)");
#endif
    return;
  }
  /* ISO C has no cast from void * to a function */
  memcpy(&interface, &first, sizeof interface);
  memcpy(&entry, &second, sizeof entry);
  if (strcmp(interface(), tt_engine_interface) != 0) {
    snprintf(fault, sizeof fault,
             LIBRARY " is of another build (%.64s) than this program (%s): install both anew",
             interface(), tt_engine_interface);
    return;
  }
  const tt_plugin_host host = {tt_err_record_of_thread, tt_log_get_settings()};
  tt_engine_cuda_plugin = *entry(&host);
}

int tt_cuda_plugin_is_left_out_local(void)
{
#ifdef TUTTI_CUDA_FIND
  pthread_once(&once, open_library);
#endif
  return left_out;
}

static tt_err count(int *devices)
{
  *devices = 0;
  pthread_once(&once, open_library);
  if (*fault)
    return TT_FAIL(
        UNAVAILABLE,
        "the cuda engine cannot be used: %s; on a machine without GPUs set run.device: cpu", fault);
  return tt_engine_cuda_plugin.count(devices);
}

static void versions(char *text, int64_t capacity)
{
  pthread_once(&once, open_library);
  if (*fault)
    snprintf(text, (size_t)capacity, "cannot be used: %s", fault);
  else
    tt_engine_cuda_plugin.versions(text, capacity);
}
