/* net_inputs_file.h — the inputs of the networks in model.h5 (docs/files.md), if they are not the
 * columns themselves. For the files of io/ only. */
#ifndef TT_NET_INPUTS_FILE_H
#define TT_NET_INPUTS_FILE_H
#include "core/columns/net_inputs.h"
#include "io/hdf5/schema.h"

/* The arrays of the file. Owner: the caller, tt_net_inputs_table_free, also after an error. */
typedef struct tt_net_inputs_table {
  int64_t count;           /* F; 0: each column is one input, and nothing is written */
  int32_t *column;         /* [F] */
  int8_t *kind;            /* [F] */
  double *level;           /* [F] */
  const char **level_name; /* [F] borrowed, "" where levels are numbers */
  const char **categories; /* [D] */
  int64_t longest;         /* bytes of the longest text */
} tt_net_inputs_table;

/* Local. Errors: MEM. */
tt_err tt_net_inputs_table_create(const tt_net_inputs *n, tt_net_inputs_table *out);
void tt_net_inputs_table_free(tt_net_inputs_table *t);

/* Dimension of the inputs of the networks: "feature" if each column is one of them. */
const char *tt_net_inputs_dimension(const tt_net_inputs *n);

/* Collective. Dimensions feature and name_strlen exist. */
void tt_net_inputs_write(tt_schema *s, const tt_net_inputs_table *t);

/* Local. `columns` of the table, `count` inputs of the networks; *out is zeroed or created, and is
 * replaced. Errors: DATA, IO, MEM. */
tt_err tt_net_inputs_read_local(tt_h5_reader *r, int64_t columns, int64_t count,
                                tt_net_inputs *out);
#endif
