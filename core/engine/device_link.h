/* device_link.h — moves values between devices of several engines (run.exchange: nccl). An engine
 * knows no ranks: its caller numbers the ends of a link from 0.
 *
 * Why nothing waits for ever. All functions return: they poll, and ask `has_ended` again and again,
 * which says that another end has failed or left; then they give up and the link is broken. So the
 * callers need a way of their own to tell each other (mpi/team.h), and an end whose function has
 * failed tells the others before it does anything else. An end whose process dies is the business
 * of the launcher, as with messages of MPI: a process that polls can be ended by a signal. */
#ifndef TT_DEVICE_LINK_H
#define TT_DEVICE_LINK_H
#include "core/base/err.h"
#include "core/base/host_device.h"

#include <stdint.h>
TT_BEGIN_C

typedef struct tt_device_link tt_device_link;

/* Names a link: one end makes it and gives it to the others. */
typedef struct tt_device_link_id {
  char bytes[128];
} tt_device_link_id;

/* Called while a function of a link waits: 1 if another end has failed. */
typedef struct tt_device_link_watch {
  int (*has_ended)(void *with);
  void *with;
} tt_device_link_watch;

typedef struct tt_device_message {
  int end, sends; /* to or from this end; 1: to it */
  int64_t bytes;  /* > 0; both ends pass the same number */
  void *data;     /* on the device; no work on it is under way */
} tt_device_message;

typedef struct tt_device_link_ops {
  /* "NCCL 2.28.9". Errors: UNAVAILABLE (the library is missing or too old). */
  tt_err (*version)(char *text, int64_t room);
  tt_err (*make_id)(tt_device_link_id *out);
  /* Collective over the ends, each on another device: the present one of the thread is `device`.
   *   out  owned by the caller; NULL on error, and, without an error, if has_ended
   * Errors: UNAVAILABLE. */
  tt_err (*open)(const tt_device_link_id *id, int device, int ends, int end,
                 const tt_device_link_watch *watch, tt_device_link **out);
  /* Collective over the ends. All of these messages; those from one end to another arrive in the
   * order of its list. Complete when it returns, unless has_ended, which is no error here.
   * Errors: UNAVAILABLE. */
  tt_err (*move)(tt_device_link *l, int64_t count, const tt_device_message *message,
                 const tt_device_link_watch *watch);
  void (*close)(tt_device_link **l); /* local; accepts NULL */
} tt_device_link_ops;
TT_END_C
#endif
