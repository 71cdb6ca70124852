/* history_variables.c — see history_variables.h. */
#include "io/campaign/history_variables.h"

#include "core/base/mem.h"

#include <stddef.h>
#include <string.h>
#include <xxhash.h>

/* One line each: variable, type, second axis or NULL, units, meaning, labels of that axis,
 * location, field. */
#define OF_ROUND(name, type, axis, units, meaning, labels, location, field)                        \
  {{name, TT_H5_##type, {"round", axis}, units, meaning, labels},                                  \
   TT_LOCATION_##location,                                                                         \
   offsetof(tt_round, field),                                                                      \
   0,                                                                                              \
   NULL},
#define OF_QUERY(name, type, field, meaning, flags, meanings)                                      \
  {{name, TT_H5_##type, {"query"}, NULL, meaning, NULL},                                           \
   TT_LOCATION_QUERY,                                                                              \
   offsetof(tt_query, field),                                                                      \
   flags,                                                                                          \
   meanings},
#define OF_MATRIX(name, axis, meaning, labels, location)                                           \
  {{name, TT_H5_F64, {"query", axis}, NULL, meaning, labels}, TT_LOCATION_##location, 0, 0, NULL},
#define COUNT(name, meaning) OF_ROUND(#name, I64, NULL, "1", meaning, NULL, ROUND, name)
#define NUMBER(name, meaning) OF_ROUND(#name, F64, NULL, NULL, meaning, NULL, ROUND, name)
#define COLUMNS(name, meaning)                                                                     \
  OF_ROUND(#name, F64, "column", NULL, meaning, "column_label", COLUMNS, name)

/* clang-format off */
const tt_history_variable tt_history_variables[] = {
  OF_ROUND("round", I32, NULL, NULL, "round of the campaign, from 1", NULL, NUMBER, model)
  TT_ROUND_COUNTS(COUNT)
  TT_ROUND_NUMBERS(NUMBER)
  OF_ROUND("seconds", F64, "stage", "s", "wall time of a stage", "stage_name", ROUND, seconds)
  OF_ROUND("model_hash", U64, NULL, NULL, "XXH3 of the weights of model.h5", NULL, ROUND, model)
  OF_ROUND("pool_hash", U64, NULL, NULL, "XXH3 of the inputs of the whole pool, 0 = not scored",
           NULL, ROUND, pool_hash)
  COLUMNS(rmse, "root mean square error on the test rows, in the user's units")
  COLUMNS(nll, "negative log likelihood of the test rows")
  COLUMNS(spread, "epistemic standard deviation, mean over the candidates, in the user's units")
  OF_QUERY("query_row", I64, row, "number of the candidate", 0, NULL)
  OF_QUERY("query_round", I32, round, "round that selected it", 0, NULL)
  OF_QUERY("query_score", F64, score, "score at selection, missing if selected at random", 0, NULL)
  OF_QUERY("query_random", I8, random, "how it was selected", 2, "by_score at_random")
  OF_QUERY("query_label_status", I8, label_status, "result of labeling", 2, "failed labeled")
  OF_QUERY("query_split", I8, split, "split of its label, -1 = not used", TT_SPLITS,
          "train validation test")
  OF_MATRIX("query_x", "feature", "inputs", "feature_name feature_units", X)
  OF_MATRIX("query_y", "target", "labels, missing where unlabeled", "target_name target_units", Y)
};
/* clang-format on */
const int tt_history_variable_count =
    (int)(sizeof tt_history_variables / sizeof *tt_history_variables);

static int64_t dimension_size(const tt_history *h, const char *dim)
{
  const struct {
    const char *name;
    int64_t size;
  } of[] = {{"round", h->rounds},   {"query", h->queries},  {"stage", TT_STAGE_COUNT},
            {"column", h->columns}, {"feature", h->inputs}, {"target", h->targets}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    if (!strcmp(dim, of[i].name)) return of[i].size;
  return -1;
}

int tt_history_variable_dims(const tt_history *h, const tt_history_variable *item, int64_t dims[2])
{
  int n = item->v.dim[1] ? 2 : 1;
  dims[1] = 1;
  for (int i = 0; i < n; i++) dims[i] = dimension_size(h, item->v.dim[i]);
  return n;
}

/* Address of the values of round or query i. */
static void *value_address(const tt_history *h, const tt_history_variable *item, int64_t i)
{
  char *cursor;
  switch (item->location) {
  case TT_LOCATION_X: return h->x + i * h->inputs;
  case TT_LOCATION_Y: return h->y + i * h->targets;
  case TT_LOCATION_QUERY: return (char *)&h->query[i] + item->offset;
  case TT_LOCATION_COLUMNS:
    memcpy(&cursor, (char *)&h->round[i] + item->offset, sizeof cursor);
    return cursor;
  default: return (char *)&h->round[i] + item->offset;
  }
}

void tt_history_variable_get(const tt_history *h, const tt_history_variable *item, void *array)
{
  int64_t dims[2];
  tt_history_variable_dims(h, item, dims);
  size_t bytes = (size_t)(dims[1] * tt_h5_type_bytes(item->v.type));
  for (int64_t i = 0; i < dims[0]; i++) {
    const int32_t number = (int32_t)(i + 1);
    const void *src = item->location == TT_LOCATION_NUMBER ? &number : value_address(h, item, i);
    memcpy((char *)array + (size_t)i * bytes, src, bytes);
  }
}

void tt_history_variable_set(tt_history *h, const tt_history_variable *item, const void *array)
{
  int64_t dims[2];
  if (item->location == TT_LOCATION_NUMBER) return;
  tt_history_variable_dims(h, item, dims);
  size_t bytes = (size_t)(dims[1] * tt_h5_type_bytes(item->v.type));
  for (int64_t i = 0; i < dims[0]; i++)
    memcpy(value_address(h, item, i), (const char *)array + (size_t)i * bytes, bytes);
}

tt_err tt_history_hash(const tt_history *h, uint64_t *hash)
{
  const int64_t head[] = {h->inputs, h->targets, h->columns, h->rounds, h->queries, h->ended};
  uint64_t sum = XXH3_64bits(head, sizeof head);
  sum = XXH3_64bits_withSeed(&h->identity, sizeof h->identity, sum);
  for (int i = 0; i < tt_history_variable_count; i++) {
    const tt_history_variable *item = &tt_history_variables[i];
    int64_t dims[2];
    char *array = NULL;
    tt_history_variable_dims(h, item, dims);
    int64_t bytes = dims[0] * dims[1] * tt_h5_type_bytes(item->v.type);
    TT_TRY(TT_ALLOC(array, bytes));
    tt_history_variable_get(h, item, array);
    sum = XXH3_64bits_withSeed(array, (size_t)bytes, sum);
    tt_free(array);
  }
  *hash = sum;
  return TT_OK;
}
