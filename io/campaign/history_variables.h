/* history_variables.h — every array of campaign.h5: its variable and its field in tt_history. For
 * the files of io/campaign only; all functions are local unless they say otherwise. */
#ifndef TT_HISTORY_VARIABLES_H
#define TT_HISTORY_VARIABLES_H
#include "core/columns/net_inputs.h"
#include "core/stats/history.h"
#include "io/hdf5/schema.h"

/* One value, or one row of values, for each round or each query. */
typedef enum tt_variable_location {
  TT_LOCATION_NUMBER,  /* number of the round, 1, 2, ...; no field */
  TT_LOCATION_ROUND,   /* a field of tt_round */
  TT_LOCATION_COLUMNS, /* an array that a field of tt_round points to */
  TT_LOCATION_QUERY,   /* a field of tt_query */
  TT_LOCATION_X,       /* tt_history.x */
  TT_LOCATION_Y        /* tt_history.y */
} tt_variable_location;

typedef struct tt_history_variable {
  tt_variable v;
  tt_variable_location location;
  size_t offset; /* of the field in its struct */
  int64_t flags; /* number of flag_meanings; 0 = none */
  const char *meanings;
} tt_history_variable;

extern const tt_history_variable tt_history_variables[];
extern const int tt_history_variable_count;

/* Sizes of the axes of an item: rounds or queries first. Returns the number of axes. */
int tt_history_variable_dims(const tt_history *h, const tt_history_variable *item, int64_t dims[2]);

/* Copy between a history and an array [dims[0]][dims[1]] of the item. */
void tt_history_variable_get(const tt_history *h, const tt_history_variable *item, void *array);
void tt_history_variable_set(tt_history *h, const tt_history_variable *item, const void *array);

/* XXH3 of all arrays, one after the other, and of the values that the file stores as attributes.
 * Errors: MEM. */
tt_err tt_history_hash(const tt_history *h, uint64_t *hash);

/* level_texts.c: the texts of levels in campaign.h5 and queries.h5, where inputs are numbers. */

/* Input level_column[i] with the value level[i] has the text level_name[i]. */
typedef struct tt_level_texts {
  int64_t count;
  int32_t *column;   /* [count] from 0 */
  double *value;     /* [count] */
  const char **text; /* [count] borrowed */
} tt_level_texts;

/* Local. net NULL: no levels. Owner: the caller, tt_level_texts_free, also after an error.
 * Errors: MEM. */
tt_err tt_level_texts_create(const tt_net_inputs *net, tt_level_texts *out);
void tt_level_texts_free(tt_level_texts *t);

/* Bytes of what is written, to reserve the space of a file. */
int64_t tt_level_texts_bytes(const tt_level_texts *t);
/* Collective. Nothing is written if no level is a text. */
void tt_level_texts_write(tt_schema *s, const tt_level_texts *t);
#endif
