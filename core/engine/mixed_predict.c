/* mixed_predict.c — see mixed_predict.h. */
#include "core/engine/mixed_predict.h"

#include "core/base/mem.h"

enum { BLOCK_VALUES = 1 << 22 }; /* of the members' predictions, if the caller has no array */
enum { LEAST_ROWS = 256 };

/* Mix the predictions [G][2][W][rows] of rows [first, first + rows).
 *   weight  [columns] scratch */
static void mix(const tt_trained_ensemble *c, int64_t first, int64_t rows, const float *members,
                double *weight, tt_moments *dst)
{
  int64_t cell = first * dst->columns;
  tt_moments part = {.rows = rows,
                     .columns = dst->columns,
                     .weight = weight,
                     .mean = dst->mean + cell,
                     .between = dst->between + cell,
                     .within = dst->within + cell};
  tt_moments_mix(&part, c, members);
}

static tt_err predict_network(tt_predict_one *predict, const tt_trained_ensemble *c, int64_t k,
                              const tt_resources *use, int64_t n, const float *x, float *dst)
{
  tt_ensemble ensemble;
  tt_trained_ensemble part = tt_trained_ensemble_part(c, k, &ensemble);
  return predict(&part, use, n, x, NULL, dst);
}

tt_err tt_mixed_predict(tt_predict_one *predict, const tt_trained_ensemble *c,
                        const tt_resources *use, int64_t rows, const float *x, tt_moments *dst,
                        float *members)
{
  int64_t each = 2 * tt_trained_ensemble_width(c), block = BLOCK_VALUES / (c->members * each);
  float *own = NULL;
  double *weight = NULL;
  if (block < LEAST_ROWS) block = LEAST_ROWS;
  if (members || block > rows) block = rows;
  if (dst) tt_moments_clear(dst);
  if (dst) tt_moments_set_weights(dst, c);
  tt_err e = members ? TT_OK : TT_ALLOC(own, c->members * each * block);
  if (!e) e = TT_ALLOC(weight, each);
  for (int64_t first = 0; !e && first < rows; first += block) {
    int64_t n = rows - first < block ? rows - first : block;
    float *outputs = members ? members : own;
    for (int64_t k = 0; !e && k < c->networks; k++)
      e = predict_network(predict, c, k, use, n, x + first * c->model.inputs,
                          outputs + tt_trained_ensemble_first(c, k) * each * n);
    if (!e && dst) mix(c, first, n, outputs, weight, dst);
  }
  tt_free_all(&own, &weight);
  return e;
}
