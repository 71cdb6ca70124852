/* table_columns.h — how the columns of a table are used in the job that is made for it; Local. */
#ifndef TT_TABLE_COLUMNS_H
#define TT_TABLE_COLUMNS_H
#include "io/table/facts.h"

enum { TT_WHY = 256 };
typedef enum tt_column_use {
  TT_USE_INPUT,
  TT_USE_LEFT_OUT,
  TT_USE_TARGET,
  TT_USE_OTHER
} tt_column_use;
typedef struct tt_table_column {
  tt_column_use use;
  int has_classes;                  /* 1: a target of texts, which are its classes */
  int is_date;                      /* 1: for data.dates */
  const char *categories, *missing; /* values of these options, or NULL */
  char why[TT_WHY];
} tt_table_column;

/* Lists of columns as in tt_table_job_options, borrowed. */
typedef struct tt_table_columns {
  const char *table, *inputs, *targets, *group, *by;
  tt_table_facts facts;
  tt_table_column *of; /* [facts.columns] */
  const char *id;      /* column of names of rows, or NULL */
} tt_table_columns;

/* Fill in `of` and `id`. Errors: DATA (no input is left), of tt_columns_choose, MEM. */
tt_err tt_table_columns_use(tt_table_columns *t);
#endif
