/* device_link.h — copies values from device to device by a library such as NCCL (run.exchange:
 * nccl). The engines of a link are its ranks 0, 1, ...; the caller knows which MPI ranks they are.
 *
 * No function waits for ever. While it waits, it calls `has_ended` again and again, which is 1 as
 * soon as another rank has failed or left; then the function gives up, and the link cannot be used
 * any more. The caller needs another way to tell the other ranks of a failure (mpi/team.h): the
 * rank whose function fails tells them at once. If a process dies, mpirun or Slurm ends the
 * others, as with messages of MPI: a process that polls can be ended by a signal. */
#ifndef TT_DEVICE_LINK_H
#define TT_DEVICE_LINK_H
#include "core/base/err.h"
#include "core/base/host_device.h"

#include <stdint.h>
TT_BEGIN_C

typedef struct tt_device_link tt_device_link;

/* Identifies a link, as ncclUniqueId does: one rank creates it and sends it to the others. */
typedef struct tt_device_link_id {
  char bytes[128];
} tt_device_link_id;

/* has_ended is called while a function waits; it returns 1 if another rank has failed. */
typedef struct tt_device_link_watch {
  int (*has_ended)(void *context);
  void *with;
} tt_device_link_watch;

typedef struct tt_device_message {
  int rank, sends; /* the other rank; 1: send to it, 0: receive from it */
  int64_t bytes;   /* > 0; both ranks pass the same number */
  void *data;      /* in memory of the device; no other work uses it now */
} tt_device_message;

typedef struct tt_device_link_ops {
  /* "NCCL 2.28.9". Errors: UNAVAILABLE (the library is missing or too old). */
  tt_err (*version)(char *text, int64_t capacity);
  tt_err (*make_id)(tt_device_link_id *out);
  /* Collective over the ranks of the link, each of which has a device of its own: `device`, which
   * becomes the current device of the thread.
   *   out  owned by the caller; NULL on error, and, without an error, if has_ended
   * Errors: UNAVAILABLE. */
  tt_err (*open)(const tt_device_link_id *id, int device, int ranks, int rank,
                 const tt_device_link_watch *watch, tt_device_link **out);
  /* Collective over the ranks. Send and receive all of these messages; those from one rank to
   * another arrive in the order of its list. All is done when the function returns; if another
   * rank has failed, it returns early, without an error. Errors: UNAVAILABLE. */
  tt_err (*move)(tt_device_link *l, int64_t count, const tt_device_message *message,
                 const tt_device_link_watch *watch);
  void (*close)(tt_device_link **l); /* local; accepts NULL */
} tt_device_link_ops;
TT_END_C
#endif
