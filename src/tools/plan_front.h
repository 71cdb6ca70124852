/* plan_front.h — the layers of a front in `tutti plan`. Local. */
#ifndef TT_PLAN_FRONT_H
#define TT_PLAN_FRONT_H
#include "core/base/json.h"
#include "core/front/front.h"

/* A line for each layer: its number, result, parameters without running values, and what it reads
 * or adds that is not the result of the layer before; nothing without a front. */
void tt_plan_front_print(const tt_front *f, FILE *out);
/* A list of the same, one object for each layer. */
json_t *tt_plan_front_to_json(const tt_front *f);
#endif
