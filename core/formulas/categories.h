/* categories.h — data.categories: columns whose values are levels, and not amounts. */
#ifndef TT_CATEGORIES_H
#define TT_CATEGORIES_H
#include "core/base/host_device.h"

/* name, meaning. A column of levels gives the network one input for each level that the training
 * rows have. In a row, the input of its level is 1, and the others are 0. */
#define TT_CATEGORIES(X)                                                                           \
  X(none, "the column has amounts")                                                                \
  X(error, "levels; a level that no training row has is an error")                                 \
  X(zeros, "levels; for a level that no training row has, all inputs of the column are 0")

typedef enum tt_categories {
#define X(name, ...) TT_CATEGORIES_##name,
  TT_CATEGORIES(X)
#undef X
      TT_CATEGORIES_COUNT
} tt_categories;

enum { TT_MAX_LEVELS = 1000 }; /* of one column */
#endif
