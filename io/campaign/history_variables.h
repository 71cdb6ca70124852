/* history_variables.h — every array of campaign.h5: which variable it is, and where in a history it
 * lives. Floor 3, for the files io/history_*.c only; all local. */
#ifndef TT_HISTORY_ITEMS_H
#define TT_HISTORY_ITEMS_H
#include "io/hdf5/schema.h"
#include "core/stats/history.h"

/* One value, or one row of values, for each round or each pick. */
typedef enum tt_item_home {
  TT_HOME_NUMBER,  /* 1, 2, ... of the round itself */
  TT_HOME_ROUND,   /* in tt_round */
  TT_HOME_COLUMNS, /* behind a pointer of tt_round */
  TT_HOME_PICK,    /* in tt_picked */
  TT_HOME_X,
  TT_HOME_Y
} tt_item_home;

typedef struct tt_history_item {
  tt_variable v;
  tt_item_home home;
  size_t offset; /* of the field in its struct */
  int64_t flags; /* of flag_meanings; 0 = none */
  const char *meanings;
} tt_history_item;

extern const tt_history_item tt_history_items[];
extern const int tt_history_item_count;

/* Sizes of the axes of an item: rounds or picks first. Returns how many axes. */
int tt_history_item_dims(const tt_history *h, const tt_history_item *item, int64_t dims[2]);

/* Copy between a history and an array [dims[0]][dims[1]] of the item. */
void tt_history_item_get(const tt_history *h, const tt_history_item *item, void *array);
void tt_history_item_set(tt_history *h, const tt_history_item *item, const void *array);

/* XXH3 of all arrays, one after the other, and of what the file has as attributes. Errors: MEM. */
tt_err tt_history_hash(const tt_history *h, uint64_t *hash);
#endif
