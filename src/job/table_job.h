/* table_job.h — the job of a table without a job file: which columns are inputs, and how. Local. */
#ifndef TT_TABLE_JOB_H
#define TT_TABLE_JOB_H
#include "io/table/table.h"

/* Texts are borrowed; a list that is not given is NULL, a number 0. */
typedef struct tt_table_job_options {
  const char *table;
  const char *inputs, *targets; /* lists of columns or datasets (io/table/column_choice.h) */
  const char *classes;          /* list of the targets that are classes */
  const char *group;            /* column of data.split.group */
  const char *by;               /* list of the columns of `by` */
  tt_table_format format;       /* of a CSV file; zeros are found */
  int members, epochs;
  const char *search;    /* `search:` of the job, as YAML */
  int folds;             /* of it; 1: it needs validation rows */
  const char *file;      /* that the job is written to: its data file is named from there; NULL:
                          * from the working directory */
  const char *directory; /* run.directory in the job */
  const char *command;   /* for its first line: "tutti train energy.csv --targets y" */
} tt_table_job_options;

/* Whether `tutti train FILE` has a table, and no job: by its name, or HDF5 by its first bytes. */
int tt_table_job_is_table(const char *file);

/* Read the table, and write the job that tutti proposes for it, as YAML with a comment for each
 * column: what stands in it, how it is used, and why. A column of texts becomes categories, as a
 * target classes; of missing inputs the mean takes the place; left out are dates, names and numbers
 * of rows, columns with one value, and texts with too many levels. One line about the table is
 * logged.
 *   *text  owner: the caller, tt_free
 * Errors: USAGE (no targets; the message has the columns), as tt_table_facts_read_local,
 * tt_columns_choose and tt_data_reader_open_spec_local. */
tt_err tt_table_job_write_local(const tt_table_job_options *o, char **text);
#endif
