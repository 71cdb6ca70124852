/* history_variables.h — every array of campaign.h5: which variable it is, and where in a history it
 * lives. Floor 3, for the files io/history_*.c only; all local. */
#ifndef TT_HISTORY_VARIABLES_H
#define TT_HISTORY_VARIABLES_H
#include "core/stats/history.h"
#include "io/hdf5/schema.h"

/* One value, or one row of values, for each round or each pick. */
typedef enum tt_variable_location {
  TT_LOCATION_NUMBER,  /* 1, 2, ... of the round itself */
  TT_LOCATION_ROUND,   /* in tt_round */
  TT_LOCATION_COLUMNS, /* behind a pointer of tt_round */
  TT_LOCATION_QUERY,   /* in tt_query */
  TT_LOCATION_X,
  TT_LOCATION_Y
} tt_variable_location;

typedef struct tt_history_variable {
  tt_variable v;
  tt_variable_location location;
  size_t offset; /* of the field in its struct */
  int64_t flags; /* of flag_meanings; 0 = none */
  const char *meanings;
} tt_history_variable;

extern const tt_history_variable tt_history_variables[];
extern const int tt_history_variable_count;

/* Sizes of the axes of an item: rounds or picks first. Returns how many axes. */
int tt_history_variable_dims(const tt_history *h, const tt_history_variable *item, int64_t dims[2]);

/* Copy between a history and an array [dims[0]][dims[1]] of the item. */
void tt_history_variable_get(const tt_history *h, const tt_history_variable *item, void *array);
void tt_history_variable_set(tt_history *h, const tt_history_variable *item, const void *array);

/* XXH3 of all arrays, one after the other, and of what the file has as attributes. Errors: MEM. */
tt_err tt_history_hash(const tt_history *h, uint64_t *hash);
#endif
