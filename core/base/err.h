/* err.h — error values with their exit codes, the last error message, and the macros TT_FAIL and
 * TT_TRY. */
#ifndef TT_ERR_H
#define TT_ERR_H
#include "core/base/host_device.h"

TT_BEGIN_C

/* name, process exit code (of sysexits.h where possible), meaning.
 * Sorted by severity: the vote of mpi/comm.h gives every rank the highest value. */
#define TT_ERRORS(X)                                                                               \
  X(OK, 0, "done")                                                                                 \
  X(STOPPED, 75, "stopped before the end with a checkpoint: run again to continue")                \
  X(ENDED, 1, "the campaign has ended")                                                            \
  X(DIVERGED, 76, "finished, but too many members diverged")                                       \
  X(USAGE, 64, "wrong command line")                                                               \
  X(CONFIG, 78, "wrong configuration")                                                             \
  X(DATA, 65, "input data are not usable")                                                         \
  X(NOINPUT, 66, "input file is missing or cannot be read")                                        \
  X(UNAVAILABLE, 69, "no usable GPU or MPI")                                                       \
  X(CANTCREAT, 73, "output cannot be created")                                                     \
  X(IO, 74, "reading or writing failed")                                                           \
  X(MEM, 71, "out of host or device memory")                                                       \
  X(DEVICE, 72, "a device computes wrong results")                                                 \
  X(INTERNAL, 70, "internal error")

typedef enum tt_err {
#define X(name, code, text) TT_E_##name,
  TT_ERRORS(X)
#undef X
      TT_E_COUNT
} tt_err;
#define TT_OK TT_E_OK

/* Bytes of a message; large enough for a list of configuration errors. */
enum { TT_ERR_MESSAGE_SIZE = 16384 };

/* Meaning and process exit code of `e`. */
const char *tt_err_text(tt_err e);
int tt_err_exit_code(tt_err e);

/* This thread's last message, "" if there was none. Valid until the next failure on this thread.
 * tt_err_where() is the source position of the failure ("io/files/files.c:41"), for developers. */
const char *tt_err_last(void);
const char *tt_err_where(void);
void tt_err_clear(void); /* tt_err_last() becomes "" */

/* Where the last message of a thread is stored. A plugin has its own copy of this file: with
 * tt_err_use_record it stores its messages in the program that opened it. */
typedef struct tt_err_record {
  char last[TT_ERR_MESSAGE_SIZE], where[256];
} tt_err_record;
typedef tt_err_record *tt_err_record_get(void);
tt_err_record *tt_err_record_of_thread(void);
void tt_err_use_record(tt_err_record_get *get);

/* Record a message and return `e`. Messages are for users: they name the thing, its value and what
 * to do; the source position is stored separately. Called by TT_FAIL. */
tt_err tt_fail_at(const char *file, int line, tt_err e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
#define TT_FAIL(e_, ...) tt_fail_at(__FILE__, __LINE__, TT_E_##e_, __VA_ARGS__)

/* Whether an errno means that the disk or file system failed (full, quota, size limit of a file,
 * device error, stale handle), and not that a name or a permission is wrong: error IO. */
int tt_errno_is_disk(int error_number);

/* TT_FAIL with ": " and the text of errno after the message; IO if tt_errno_is_disk. */
tt_err tt_fail_errno_at(const char *file, int line, tt_err e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
#define TT_FAIL_ERRNO(e_, ...) tt_fail_errno_at(__FILE__, __LINE__, TT_E_##e_, __VA_ARGS__)

/* Return on error. For local functions only, never between two collective calls. */
#define TT_TRY(call_)                                                                              \
  do {                                                                                             \
    tt_err tt_try_e = (call_);                                                                     \
    if (tt_try_e != TT_OK) return tt_try_e;                                                        \
  } while (0)

TT_END_C
#endif
