/* machine_file.h — the measured constants of a machine, in one JSON file. Local.
 *
 * The file is that of the environment variable TUTTI_MACHINE, else tutti/machine.json in
 * XDG_CACHE_HOME, else in ~/.cache. */
#ifndef TT_MACHINE_FILE_H
#define TT_MACHINE_FILE_H
#include "src/timing/step_cost.h"

typedef struct tt_machine {
  char host[64], processor[128], simd[16], date[32];
  int threads;             /* that were busy during the measurement */
  tt_step_seconds seconds; /* of one of these threads */
  double cores;            /* that they got: processor seconds per second; 0 if it was read */
  double error;            /* root mean square of the relative errors of the cases */
  double write_rate;       /* bytes per second of a file that is written, synced and compared */
  char directory[512];     /* where that file was */
} tt_machine;

/* Path of the file. Errors: CANTCREAT (no directory is known, too long). */
tt_err tt_machine_path(char *path, int64_t capacity);

/* Errors: NOINPUT (there is none), DATA (not such a file). */
tt_err tt_machine_read(const char *path, tt_machine *out);

/* Creates the directory too; the old file is replaced by a rename. Errors: CANTCREAT, IO, MEM. */
tt_err tt_machine_write(const char *path, const tt_machine *m);
#endif
