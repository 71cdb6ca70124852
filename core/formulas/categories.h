/* categories.h — data.categories: columns whose values are levels, and not amounts. */
#ifndef TT_CATEGORIES_H
#define TT_CATEGORIES_H
#include "core/base/host_device.h"

/* name, meaning. A column of levels is one input of the network for each level of the training
 * rows: 1 for the level of the row, 0 for the others. */
#define TT_CATEGORIES(X)                                                                           \
  X(none, "the column has amounts")                                                                \
  X(error, "levels; another level than those of the training rows is an error")                    \
  X(zeros, "levels; of another level than those of the training rows, all inputs are 0")

typedef enum tt_categories {
#define X(name, ...) TT_CATEGORIES_##name,
  TT_CATEGORIES(X)
#undef X
      TT_CATEGORIES_COUNT
} tt_categories;

enum { TT_MAX_LEVELS = 1000 }; /* of one column */
#endif
