/* npy.h — the header of an array of NumPy. For the files of io/table only. */
#ifndef TT_NPY_H
#define TT_NPY_H
#include "io/table/table_internal.h"

/* Type and shape of an array; `kind` is f i u b, or 0: not numbers. */
typedef struct tt_npy_array {
  char kind;
  char text; /* U or S: texts of 4 or 1 bytes a character; 0: no texts */
  int bytes; /* of one value */
  int fortran;
  int64_t rows, columns; /* columns 1 for one axis; rows -1: not one or two axes */
  int64_t data;          /* offset of the values */
  int64_t size;          /* bytes of the values */
  char type[32];         /* as in the header, for messages */
} tt_npy_array;

enum { TT_NPY_HEADER = 65536 }; /* longest header that is read */
enum { TT_NPY_CHARACTERS = 256, TT_NPY_TEXT = 4 * TT_NPY_CHARACTERS + 1 }; /* longest text */

/* Parse the header of an array in `head`, the first `count` bytes of it. Errors: DATA. */
tt_err tt_npy_header_parse(const char *file, const char *head, size_t count, tt_npy_array *out);

/* The text of `bytes` bytes at `src` as UTF-8, without the zeros at its end.
 *   dst  [TT_NPY_TEXT]
 * Returns 0 if it is no valid text. */
int tt_npy_decode_text(const tt_npy_array *a, const char *src, char *dst);

/* Convert n values at `src`, `step` bytes apart, to double. */
void tt_npy_convert(const tt_npy_array *a, const char *src, size_t step, int64_t n, double *dst,
                    int64_t to_step);
#endif
