/* csv_internal.h — a CSV file while it is read. For csv_table.c and csv_cells.c only. */
#ifndef TT_CSV_INTERNAL_H
#define TT_CSV_INTERNAL_H
#include "io/table/csv_lines.h"
#include "io/table/problems.h"

typedef struct tt_csv_table {
  tt_table *table;
  tt_csv_lines lines;
  char decimal;
  char **na; /* [nas] owned */
  int64_t nas;
  int64_t mark_capacity; /* allocated elements of table->marks.mark */
  int64_t next;          /* row that `lines` reads next */
  int64_t cells;         /* of a row; the columns behind them are made of dates */
  int64_t *season;       /* [cells] first of the two columns made of a column of dates; 0: none */
  tt_cell_kind *kind;    /* [columns] */
  int64_t *slot;         /* [columns] place of a column in a row of the block, -1 = not in use */
  int64_t slots, last;   /* columns in use; last of them in the file */
  double *block;         /* [block_rows][slots] */
  int64_t block_first, block_rows;
  tt_problems *problems; /* not NULL while they are listed */
} tt_csv_table;

/* Write the cell [p, end) of column k to value[c->slot[k]], of a date also sine and cosine to their
 * columns. The text may be changed. Errors: DATA, MEM. */
tt_err tt_csv_parse_column(const tt_csv_table *c, int64_t line, int64_t k, char *p, char *end,
                           double *value);

/* While the problems of the file are listed, a bad cell is added to them; else it ends the reading.
 *   column  -1: the whole row */
tt_err tt_csv_bad_cell(const tt_csv_table *c, int64_t line, int64_t column, const char *text,
                       const tt_problem *how);
#endif
