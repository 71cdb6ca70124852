/* table.h — tables: named columns that are read as numbers, in slices of rows. CSV and TSV files,
 * also compressed by gzip, and arrays of NumPy (.npy, .npz). Reading is serial and streamed: memory
 * does not depend on the number of rows. All functions are local. */
#ifndef TT_TABLE_H
#define TT_TABLE_H
#include "core/base/err.h"
#include "io/table/levels.h"

#include <stdint.h>
#include <stdio.h>

/* Where the rows of a CSV file begin: of rows 0, TT_MARK_ROWS, 2 TT_MARK_ROWS, ... A process that
 * has these of another one reads only the rows that it needs. */
enum { TT_MARK_ROWS = 1024 };
typedef struct tt_row_mark {
  int64_t offset, line;
} tt_row_mark;
typedef struct tt_row_marks {
  int64_t rows, count; /* count 0: none, the file is no CSV file */
  int64_t file_bytes;  /* size of the file */
  tt_row_mark *mark;   /* [count] owned */
} tt_row_marks;
/* *dst is zeroed before; owner: the caller, tt_free(dst->mark). Errors: MEM. */
tt_err tt_row_marks_copy(const tt_row_marks *src, tt_row_marks *dst);

/* How cells of a CSV file are written. Zeros are the defaults. Texts are borrowed. */
typedef struct tt_table_format {
  char delimiter; /* 0 = the most frequent of comma, tab and semicolon in the header */
  char decimal;   /* '.' or ','; 0 = '.' */
  int64_t nas;
  const char *const *na; /* [nas] texts of missing values, besides those of tt_table_open_local */
  int64_t dates;
  const char *const *date; /* [dates] columns of dates: a date is the number of days since the
                            * beginning of 1970, and there are two more columns, NAME.sin and
                            * NAME.cos of the time of the year */
  const char *classes;     /* data.classes: columns whose texts are names of classes; or NULL */
  int any_name;            /* 1: a file whose name is not that of a table is a CSV file, not HDF5 */
  const tt_row_marks *marks; /* of this file, from a table that is or was open anywhere; NULL or
                              * count 0: the file is read for them. Borrowed while it is opened */
} tt_table_format;

/* What the cells of a column must be. If a column is used twice, the first kind counts. */
typedef enum tt_cell_kind {
  TT_CELL_NUMBER, /* a finite number */
  TT_CELL_LABEL,  /* a finite number, or NaN where it is missing */
  TT_CELL_RESULT, /* a number, which may be infinite, or NaN where it is missing */
  TT_CELL_KEY,    /* any text or number: a hash of it, whose bits are stored in the double */
  TT_CELL_LEVEL,  /* any text: its number in tt_table.levels; a number where numbers are stored;
                   * NaN where it is missing */
  TT_CELL_SEEN,   /* of a CSV file: any text, for tt_table.see; there is no value */
  TT_CELL_UNUSED
} tt_cell_kind;

typedef struct tt_table tt_table;
struct tt_table {
  char *file;
  const char *noun; /* word for a column in messages: "column" or "array" */
  int64_t columns;
  char **name;        /* [columns] tt_text_set_name; may be empty or occur twice */
  const char **group; /* [columns] array that a column belongs to, NULL = none; or NULL */
  int64_t *rows;      /* [columns] */
  uint8_t *hidden;    /* [columns] 1 = no pattern matches the column; or NULL */
  tt_row_marks marks; /* of a CSV file; owned */
  char delimiter;     /* of a CSV file; 0: the file is none */
  /* Called for the cells of TT_CELL_SEEN while rows are read; the text may be changed. */
  tt_err (*see)(tt_table *t, int64_t line, int64_t column, int is_missing, char *text);
  void *seen;         /* for `see`, of its owner */
  tt_levels **levels; /* [columns] of TT_CELL_LEVEL, borrowed; NULL: no such column */
  int64_t
      rows_at_once; /* reading the columns that are in use together costs least in such slices */
  tt_err (*use)(tt_table *t, int64_t column, tt_cell_kind kind);
  tt_err (*read)(tt_table *t, int64_t first, int64_t count, int64_t n, const int64_t *column,
                 double *value);
  void (*place)(tt_table *t, int64_t row, char *text, int64_t capacity);
  void (*close)(void *own); /* frees `own` */
  void *own;
};

/* Whether the name of a file says that it is a table: .csv, .tsv, .csv.gz, .tsv.gz, .npy, .npz. */
int tt_table_is_table(const char *file);

/* Open a table and count its rows, unless the format has their marks.
 *   format  NULL = the defaults
 * CSV: RFC 4180; lines end in LF, CRLF or CR; a byte order mark, empty lines and lines that begin
 * with # are skipped; the first other line has the names of the columns. An empty cell and NA, N/A,
 * n/a, #N/A, <NA>, NaN, nan, NAN, -nan, null, NULL, None, none, - and ? are missing values; true
 * and false (also True, TRUE) are 1 and 0.
 * Owner: the caller. Errors: NOINPUT, MEM, IO, DATA (the message begins with file:line; the file is
 * not that of the marks). */
tt_err tt_table_open_local(const char *file, const tt_table_format *format, tt_table **out);
void tt_table_close_local(tt_table **t); /* accepts NULL */

/* The column of this name, -1: there is none. Errors: DATA (two columns have it). */
tt_err tt_table_find(const tt_table *t, const char *name, int64_t *column);

/* Announce that a column will be read. Errors: DATA (it does not hold numbers; its name is not
 * UTF-8), MEM. */
tt_err tt_table_use_local(tt_table *t, int64_t column, tt_cell_kind kind);

/* The same for a column of levels, as TT_CELL_LEVEL; `levels` is used until the table is closed.
 * Errors: DATA, MEM. */
tt_err tt_table_use_levels_local(tt_table *t, int64_t column, tt_levels *levels);

/* Rows [first, first + count) of n columns in use: value [count][n]. Errors: DATA (a cell of a
 * column in use is not what it must be: file, line, column and text; the file has changed), IO. */
tt_err tt_table_read_local(tt_table *t, int64_t first, int64_t count, int64_t n,
                           const int64_t *column, double *value);

/* Bytes of files, decompressed, that this process has read for tables so far. */
int64_t tt_table_bytes_read_local(void);

/* Write a text as a cell of a CSV file, quoted if necessary. */
void tt_table_write_cell(const char *text, FILE *out);

/* Where a row is, for messages: "t.csv:17", or "t.npz: row 15 (from 0)". Returns text. */
const char *tt_table_place_local(tt_table *t, int64_t row, char *text, int64_t capacity);
#endif
