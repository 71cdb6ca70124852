/* npy.h — the header of an array of NumPy. For the files of io/table only. */
#ifndef TT_NPY_H
#define TT_NPY_H
#include "io/table/table_internal.h"

/* Type and shape of an array; `kind` is f i u b, or 0: not numbers. */
typedef struct tt_npy_array {
  char kind;
  int bytes; /* of one value */
  int fortran;
  int64_t rows, columns; /* columns 1 for one axis; rows -1: not one or two axes */
  int64_t data;          /* offset of the values */
  int64_t size;          /* bytes of the values */
  char type[32];         /* as in the header, for messages */
} tt_npy_array;

enum { TT_NPY_HEADER = 65536 }; /* longest header that is read */

/* Parse the header of an array in `head`, the first `count` bytes of it. Errors: DATA. */
tt_err tt_npy_header_parse(const char *file, const char *head, size_t count, tt_npy_array *out);

/* Convert n values at `from`, `step` bytes apart, to double. */
void tt_npy_convert(const tt_npy_array *a, const char *from, size_t step, int64_t n, double *to,
                    int64_t to_step);
#endif
