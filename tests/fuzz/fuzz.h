/* fuzz.h — targets of the fuzz program: one per kind of input that tutti reads. */
#ifndef TT_FUZZ_H
#define TT_FUZZ_H
#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct fuzz_target {
  const char *name;
  /* Once, before the first input. seeds: a folder with valid files made by tutti; only the targets
   * of HDF5 files need it. */
  void (*begin)(const struct fuzz_target *t, const char *seeds);
  /* Read one input. A report of a sanitizer, a failed FUZZ_CHECK, a leak or a timeout is a
   * finding. */
  void (*run)(const uint8_t *bytes, size_t count);
  tt_err (*read)(const char *file); /* targets of HDF5 files: the reader under test */
} fuzz_target;

extern const fuzz_target fuzz_text_targets[], fuzz_h5_targets[]; /* end with a NULL name */

/* A law that every input must satisfy. */
#define FUZZ_CHECK(condition_)                                                                     \
  do {                                                                                             \
    if (!(condition_)) {                                                                           \
      fprintf(stderr, "%s:%d: %s is false; last message: %s\n", __FILE__, __LINE__, #condition_,   \
              tt_err_last());                                                                      \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

/* The functions that libFuzzer calls, once and for each input. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* TMPDIR/name: a file of this process; script/fuzz puts TMPDIR into memory. */
const char *fuzz_path(const char *name);
void fuzz_write_file(const char *path, const void *bytes, size_t count);

/* Change a valid HDF5 file in place as the bytes say: types, shapes, values, attributes, links,
 * and the bytes of the file. Returns 1 if bytes of the file itself were changed, so that HDF5 may
 * crash; else 0. The file may be any file after that. */
int fuzz_damage_h5(const char *path, const uint8_t *bytes, size_t count);
#endif
