/* loss.h — loss functions: value and gradient of one row and one target. Floor 1; gcc and nvcc.
 *
 * The loss of a batch is (1 / B) * sum over its B rows of weight * sum over targets of l; it is
 * summed over members, never averaged, so a member's learning rate means what it says. */
#ifndef TT_LOSS_H
#define TT_LOSS_H
#include "spec/elementwise.h"

typedef struct tt_loss_args {
  float variance_floor; /* added to softplus(o1) */
  float share;          /* 1 / K: losses that average over targets multiply by it */
} tt_loss_args;

/* What a network says about one target: o0 the mean, o1 the raw variance (0 where there is none).
 */
typedef struct tt_loss_grad {
  float value, d0, d1; /* l, dl/do0, dl/do1 */
} tt_loss_grad;

/* (o0 - y)^2 / K, as torch.nn.MSELoss. */
TT_HD tt_loss_grad tt_loss_mse(float o0, float o1, float y, tt_loss_args a)
{
  float e = o0 - y;
  tt_loss_grad g = {e * e * a.share, 2.0f * e * a.share, 0.0f};
  (void)o1;
  return g;
}

/* ln(v) / 2 + (y - o0)^2 / (2 v) with v = softplus(o1) + floor, without the constant ln(2 pi) / 2,
 * summed over targets. Nix & Weigend 1994. */
TT_HD tt_loss_grad tt_loss_gaussian_nll(float o0, float o1, float y, tt_loss_args a)
{
  float v = tt_softplus(o1) + a.variance_floor;
  float inverse = 1.0f / v, e = o0 - y, z = e * e * inverse;
  float finite = o1 - o1; /* 0, or NaN: an overflow is a diverged member, not a wide prediction */
  tt_loss_grad g = {0.5f * (tt_log(v) + z) + finite, e * inverse,
                    0.5f * inverse * (1.0f - z) * tt_sigmoid(o1)};
  return g;
}

/* name, output it needs, source */
#define TT_LOSSES(X)                                                                               \
  X(mse, mean, "Gauss 1809")                                                                       \
  X(gaussian_nll, mean_variance, "Nix & Weigend 1994")

typedef enum tt_loss {
#define X(name, output, source) TT_LOSS_##name,
  TT_LOSSES(X)
#undef X
      TT_LOSS_COUNT
} tt_loss;

TT_HD tt_loss_grad tt_loss_at(tt_loss kind, float o0, float o1, float y, tt_loss_args a)
{
  tt_loss_grad none = {0.0f, 0.0f, 0.0f};
  switch (kind) {
#define X(name, output, source)                                                                    \
  case TT_LOSS_##name:                                                                             \
    return tt_loss_##name(o0, o1, y, a);
    TT_LOSSES(X)
#undef X
  default:
    return none;
  }
}
#endif
