/* fatal.c — see fatal.h. */
#define TT_COMM_MPI
#include "mpi/fatal.h"

#include "core/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *file_path, *file_temporary; /* NULL = none */
static void (*end_hook)(const char *reason, int exit_code);

/* MPI_File_close of MPICH 4.0 releases the default error handler of files, which the file has not
 * taken. The reference that MPI_File_get_errhandler takes makes up for it. */
static void keep_file_handler(void)
{
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40200000
  MPI_Errhandler file;
  MPI_File_get_errhandler(MPI_FILE_NULL, &file);
#endif
}

void tt_fatal_set_file_local(const char *path, const char *temporary)
{
  if (path) keep_file_handler();
  file_path = path;
  file_temporary = temporary;
}

void tt_fatal_set_hook_local(void (*hook)(const char *reason, int exit_code)) { end_hook = hook; }

static int mpi_is_alive(void)
{
  int running = 0, ended = 0;
  MPI_Initialized(&running);
  MPI_Finalized(&ended);
  return running && !ended;
}

static _Noreturn void end_all_ranks(tt_err e, const char *text)
{
  char reason[TT_ERR_MESSAGE_SIZE], host[256] = "?";
  int rank = 0, alive = mpi_is_alive(), code = tt_err_exit_code(e);
  gethostname(host, sizeof host - 1);
  if (alive) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(reason, sizeof reason, "rank %d on %s cannot continue: %.16000s", rank, host, text);
  tt_log_this_rank(TT_LOG_ERROR, "%s", reason);
  if (file_temporary && *file_temporary) unlink(file_temporary);
  if (end_hook) end_hook(reason, code);
  if (alive) MPI_Abort(MPI_COMM_WORLD, code);
  _exit(code);
}

_Noreturn void tt_panic(const char *fmt, ...)
{
  char text[TT_ERR_MESSAGE_SIZE];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  end_all_ranks(TT_E_INTERNAL, text);
}

/* After a collective call every rank may have the error, but only one knows its cause. That rank
 * ends all ranks at once; the others wait some seconds for it, so that there is one message. */
static void wait_for_other_ranks(int knows_cause)
{
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  struct timespec pause = {(rank ? 1 : 0) + (knows_cause ? 0 : 3), 0};
  while (nanosleep(&pause, &pause) && errno == EINTR) {
    /* MPI_Abort of another rank sends SIGTERM before it kills. */
  }
}

/* MPI has one error code for most errors of files; errno still has the cause on the rank whose
 * system call failed. */
static void end_on_file_error(MPI_File *file, int *code, ...)
{
  int cause = errno, length = 0, known = tt_errno_is_disk(cause);
  char mpi[MPI_MAX_ERROR_STRING] = "", text[TT_ERR_MESSAGE_SIZE];
  (void)file;
  MPI_Error_string(*code, mpi, &length);
  wait_for_other_ranks(known);
  snprintf(text, sizeof text, "%s: cannot be written: %s%s%s%s",
           file_path ? file_path : "a file of MPI-IO", known ? strerror(cause) : mpi,
           known ? " (" : "", known ? mpi : "", known ? ")" : "");
  end_all_ranks(TT_E_IO, text);
}

/* This rank is sound: a new start can continue, so the run has not failed. */
static void end_on_comm_error(MPI_Comm *comm, int *code, ...)
{
  int length = 0;
  char mpi[MPI_MAX_ERROR_STRING] = "", text[TT_ERR_MESSAGE_SIZE];
  (void)comm;
  MPI_Error_string(*code, mpi, &length);
  snprintf(
      text, sizeof text,
      "MPI: %s: another rank has ended or the network failed. The last checkpoint is complete: "
      "run again to continue",
      mpi);
  end_all_ranks(TT_E_STOPPED, text);
}

void tt_fatal_install_handlers(MPI_Comm comm)
{
  MPI_Errhandler file, communication;
  MPI_File_create_errhandler(end_on_file_error, &file);
  MPI_File_set_errhandler(MPI_FILE_NULL, file); /* the default of files opened later */
  MPI_Errhandler_free(&file);
  MPI_Comm_create_errhandler(end_on_comm_error, &communication);
  MPI_Comm_set_errhandler(comm, communication);
  MPI_Errhandler_free(&communication);
}
