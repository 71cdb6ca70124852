/* facts.h — what stands in the columns of a CSV file, for a first job. Local. */
#ifndef TT_FACTS_H
#define TT_FACTS_H
#include "io/table/table.h"

/* Cells of a column. Missing ones, numbers, dates and other texts add up to its rows. */
typedef struct tt_column_facts {
  int64_t missing, numbers, dates, texts;
  int64_t iso_dates;  /* dates that tt_table_format.date reads */
  int64_t other_mark; /* numbers, read with the other decimal mark */
  double low, high;   /* of the numbers */
  int counts_rows;    /* 1: 0, 1, 2, ... or 1, 2, 3, ... in the order of the rows */
  tt_levels values;   /* different texts, TT_MAX_LEVELS at most, and of numbers the first two */
  int64_t text_line;  /* line and text of the first cell that is no number and no date */
  char text[48];
} tt_column_facts;

typedef struct tt_table_facts {
  int64_t columns, rows;
  char **name;         /* [columns] */
  tt_column_facts *of; /* [columns] */
  char delimiter, decimal;
  char comma_number[32]; /* the first number with a decimal comma; "": none */
  tt_levels missing;     /* texts of missing values */
} tt_table_facts;

/* Read a CSV file once. With format->decimal 0 the decimal mark is a comma if more numbers have one
 * than a point, and no commas separate the columns. Owner: the caller, tt_table_facts_free, also
 * after an error. Errors: as tt_table_open_local and tt_table_read_local. */
tt_err tt_table_facts_read_local(const char *file, const tt_table_format *format,
                                 tt_table_facts *out);
void tt_table_facts_free(tt_table_facts *f); /* accepts a zeroed struct */
#endif
