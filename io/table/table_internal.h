/* table_internal.h — what the files of io/table share. All functions are local. */
#ifndef TT_TABLE_INTERNAL_H
#define TT_TABLE_INTERNAL_H
#include "io/table/table.h"

#include <stddef.h>

/* What to do with a table that is not UTF-8. */
#define TT_TO_UTF8 "convert the table: iconv -f WINDOWS-1252 -t UTF-8 OLD.csv >NEW.csv"

/* Fill a table whose `file` is set, of one kind of file; after an error tt_table_close_local frees
 * what it has. */
tt_err tt_csv_table_open_local(const tt_table_format *format, tt_table *t);
tt_err tt_npy_table_open_local(tt_table *t);
tt_err tt_npz_table_open_local(tt_table *t);

/* Read a decimal number at p, which ends before a byte that belongs to no number: the nearest
 * double, as strtod in the C locale. Returns the byte after the number, NULL if there is none.
 * inf and nan are no numbers. */
const char *tt_number_parse(const char *p, char decimal, double *out);

/* true and false as 1 and 0; inf and infinity. Return 1 if the text is one of these. */
int tt_truth_parse(const char *text, double *out);
int tt_infinity_parse(const char *text, double *out);
/* 2024-03-01, 1.3.2024, 03/01/24, each with or without a time; 12:30. */
int tt_text_is_date(const char *text);

/* 2024-03-01, with or without a time (ISO 8601; "T" or a blank before the time; seconds and zone
 * are optional): days since 1970-01-01 0:00, sine and cosine of the part of the year. Returns 1
 * or 0. */
int tt_date_parse(const char *text, double out[3]);

/* Bytes of a file in any order, decompressed if the file is compressed by gzip. Going back in a
 * compressed file starts again at its beginning. */
typedef struct tt_bytes tt_bytes;
tt_err tt_bytes_open_local(const char *file, tt_bytes **out);
/* Read at most `capacity` bytes from `offset` on; fewer only at the end. Errors: IO, DATA
 * (compressed data that are damaged or truncated). */
tt_err tt_bytes_read_local(tt_bytes *b, int64_t offset, size_t capacity, char *dst, size_t *got);
/* Size of a file as it is stored, compressed or not. Errors: IO. */
tt_err tt_bytes_stored_local(const tt_bytes *b, int64_t *size);
/* Size of a file that is not compressed. Errors: IO, DATA (it is compressed). */
tt_err tt_bytes_size_local(const tt_bytes *b, int64_t *size);
void tt_bytes_close_local(tt_bytes **b); /* accepts NULL */
#endif
