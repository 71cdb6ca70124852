/* formulas.cuh — every formula of the headers that host and device share, in one kernel: nvcc and a
 * C++17 compiler accept all of them, and both sides compute the same values. */
#ifndef TT_DOUBLE_FORMULAS_CUH
#define TT_DOUBLE_FORMULAS_CUH
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "core/engine/engine.h"
#include "core/formulas/layer_norm.h"
#include "core/model/epoch_end.h"
#include "core/model/partition.h"
#include "core/model/state.h"
#include "cuda/common/device.cuh"

/* The results of one thread, one value per formula. */
typedef struct formula_results {
  float act[TT_ACT_COUNT], act_grad[TT_ACT_COUNT];
  tt_loss_grad loss[TT_LOSS_COUNT];
  float stepped[TT_OPT_COUNT], slot[TT_OPT_COUNT][TT_MAX_SLOTS];
  uint32_t shuffled, ordered[TT_RESAMPLE_COUNT], drawn[4], below;
  float unit, log1p, inverse_std, normalized, scaled, delta, last_loss;
} formula_results;

typedef struct formula_args {
  tt_sampler order;       /* its resample is replaced by each of the words */
  tt_optimizer_args step; /* corrected on the device */
  tt_loss_args loss;
  formula_results *out; /* one per thread of the grid */
} formula_args;

TT_HD formula_results formulas_at(formula_args a, uint32_t i)
{
  formula_results r = {};
  float x = ((float)i - 100.0f) * 0.0625f;
  for (int act = 0; act < TT_ACT_COUNT; act++) {
    r.act[act] = tt_act((tt_activation)act, x);
    r.act_grad[act] = tt_act_grad((tt_activation)act, x, r.act[act]);
  }
  for (int loss = 0; loss < TT_LOSS_COUNT; loss++)
    r.loss[loss] = tt_loss_two_outputs((tt_loss)loss, x, 0.5f * x, 0.25f, a.loss);
  tt_optimizer_bias_correction(&a.step, (int64_t)i + 1);
  for (int kind = 0; kind < TT_OPT_COUNT; kind++) {
    r.stepped[kind] = 0.5f;
    tt_optimizer_step((tt_optimizer)kind, &r.stepped[kind], x, &r.slot[kind][0], &r.slot[kind][1],
                      &r.slot[kind][2], a.step);
  }
  r.shuffled = tt_shuffle_at(&a.order.epoch, i);
  for (int kind = 0; kind < TT_RESAMPLE_COUNT; kind++) {
    a.order.resample = kind;
    r.ordered[kind] = tt_sampler_at(&a.order, i);
  }
  tt_random4 drawn = tt_random(a.order.seed, a.order.stream, TT_PURPOSE_INIT, 3, i);
  for (int word = 0; word < 4; word++) r.drawn[word] = drawn.v[word];
  r.unit = tt_uniform(drawn.v[0]);
  r.below = tt_uniform_below(drawn.v[1], drawn.v[2], 1000);
  r.log1p = tt_log1pf(r.unit);
  r.inverse_std = tt_layer_norm_inverse_std(3.0f + x * x, 0.125f);
  r.normalized = tt_layer_norm_normalized(x, 0.3f, r.inverse_std);
  r.scaled = tt_layer_norm_output(r.normalized, 1.5f, -0.25f);
  r.delta = tt_layer_norm_delta(x, 0.1f, 0.2f, r.normalized, r.inverse_std);
  r.last_loss = tt_last_epoch_loss(r.act, TT_ACT_COUNT, 0, (int64_t)(i % 2));
  return r;
}

__global__ void formulas(formula_args a)
{
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  a.out[i] = formulas_at(a, i);
}
#endif
