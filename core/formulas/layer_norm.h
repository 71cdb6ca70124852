/* layer_norm.h — layer normalization, as torch.nn.LayerNorm: the z of a row of a layer get mean 0
 * and variance 1, then a gain and a shift for each unit. For gcc and nvcc: all engines use it.
 * Source: Ba, Kiros & Hinton 2016.
 *
 * Engines sum over the units in their own order; the formulas after the sums are here.
 * share: 1 / units of the layer. */
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
#endif
