/* layer_norm.h — normalizations. Layer normalization, as torch.nn.LayerNorm: the z of a row of a
 * layer get mean 0 and variance 1, then a gain and a shift for each unit. For gcc and nvcc: all
 * engines use it. Source: Ba, Kiros & Hinton 2016.
 *
 * Engines sum over the units in their own order; the formulas after the sums are here.
 * share: 1 / units of the layer.
 *
 * Group normalization sums over some channels and their positions (Wu & He 2018), batch
 * normalization over the rows of a part of the batch and the positions of a channel, as
 * torch.nn.BatchNorm2d (Ioffe & Szegedy 2015). */
#ifndef TT_LAYER_NORM_H
#define TT_LAYER_NORM_H
#include "core/formulas/elementwise.h"

/* Added to the variance. */
#define TT_LAYER_NORM_EPSILON 1e-5f

/* 1 / standard deviation of z.
 *   squares  sum of (z - mean)^2;  mean = share * sum of z */
TT_HD float tt_layer_norm_inverse_std(float squares, float share)
{
  return 1.0f / sqrtf(tt_fma(squares, share, TT_LAYER_NORM_EPSILON));
}

TT_HD float tt_layer_norm_normalized(float z, float mean, float inverse_std)
{
  return (z - mean) * inverse_std;
}

/* The value that the activation gets. */
TT_HD float tt_layer_norm_output(float normalized, float gain, float shift)
{
  return tt_fma(gain, normalized, shift);
}

/* dL/dz from g = gain * dL/d(output).
 *   mean   share * sum of g
 *   along  share * sum of g * normalized */
TT_HD float tt_layer_norm_delta(float g, float mean, float along, float normalized,
                                float inverse_std)
{
  return inverse_std * tt_fma(-along, normalized, g - mean);
}

/* Weight of a batch in the running mean and variance of batch normalization, when it comes. */
#define TT_BATCH_NORM_MOMENTUM 0.1f

/* Parts follow one another, as micro-batches do in PyTorch: running = 0.9 running + 0.1 (mean or
 * variance of the part). The weight of part number `part` of `parts` after the last one. */
TT_HD float tt_batch_norm_share(int64_t part, int64_t parts)
{
  float share = TT_BATCH_NORM_MOMENTUM;
  for (int64_t later = part + 1; later < parts; later++) share *= 1.0f - TT_BATCH_NORM_MOMENTUM;
  return share;
}

enum { TT_BATCH_NORM_MOMENTS = 5 }; /* numbers that the CUDA engine keeps of a channel */

/* The rows of a member from which moments are taken, and their share. */
typedef struct tt_batch_norm_rows {
  int32_t rows;
  float running_share;
} tt_batch_norm_rows;

/* What a part adds to a running variance; `count` values of variance `variance`, of which the
 * unbiased variance is count / (count - 1) times as large. */
TT_HD float tt_batch_norm_variance_change(float variance, int64_t count, float running, float share)
{
  float unbiased = count > 1 ? (float)count / (float)(count - 1) : 1.0f;
  return share * (variance * unbiased - running);
}
#endif
