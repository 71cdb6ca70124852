/* kernels.h — the inner loops of the cpu engine: one table of functions per instruction set.
 *
 * Layout: a batch is feature-major, x[feature][ld]: rows of the batch are contiguous, so that
 * layers of any width use full vectors. Row counts are padded to TT_LANES = 16; ld is an odd
 * multiple of 16, so that features are not in the same cache sets.
 *
 * Bits: products over features add in index order; sums over rows add in 16 lanes, then add the
 * upper half of the lanes to the lower (8, 4, 2, 1), for any width of the registers; a weight
 * gradient may be the sum of two such sums (tt_cpu_cut). So AVX2 and AVX-512 with fused
 * multiply-add give the same bits. Results do not depend on alignment, threads or other members. */
#ifndef TT_KERNELS_H
#define TT_KERNELS_H
#include "core/base/int.h"
#include "core/model/cohort.h"

enum { TT_LANES = 16, TT_LOSS_CHUNK = 256 /* rows */ };

/* The smallest multiple of TT_LANES that is at least n. */
static inline int64_t tt_lanes_up(int64_t n) { return tt_round_up(n, TT_LANES); }

/* Dropout in one step of one member: arguments of tt_dropout_draw (cohort.h), probability. */
typedef struct tt_dropout {
  uint64_t seed, stream;
  int64_t step;
  uint32_t batch_size;
  uint32_t first; /* row of the batch that is row 0 of the buffers, a multiple of 4 */
  float p;
} tt_dropout;

/* Pairs of positions, those of a key together: pairs [first[k], first[k + 1]) are of key k. */
typedef struct tt_taps {
  int64_t keys;
  const int32_t *first; /* [keys + 1] */
  const int32_t *at, *from;
} tt_taps;

/* A convolution of one group of channels, for its outputs, its inputs or its weights. */
typedef struct tt_convolution {
  int64_t outputs, channels;         /* channels that are computed, and that each of them adds */
  int64_t output_step, channel_step; /* from one of them to the next one in the weights */
  int64_t positions, from_positions; /* of a channel of `outputs` and of `channels` */
  tt_taps taps;
} tt_convolution;

/* Normalization of a channel with given moments. */
typedef struct tt_channel_norm {
  float mean, inverse_std, gain, shift;
} tt_channel_norm;

typedef struct tt_kernels {
  const char *name;       /* "avx512" */
  const char *arithmetic; /* tables with the same text give the same bits */

  /* y[out][ld] = A x (+ bias) (* scale), rows [0, n), n a multiple of 16.
   *   A(o, i) = a[o * row_step + i * column_step];  bias [out] or NULL
   *   scale    [out][ld] or NULL; may be y */
  void (*product)(int64_t out, int64_t in, const float *a, int64_t row_step, int64_t column_step,
                  const float *bias, const float *x, const float *scale, float *y, int64_t ld,
                  int64_t n);
  /* g[out][in] = sum over rows of d[out][ld] x[in][ld];  gb[out] = sum over rows of d. Both are
   * the sum of rows [0, cut), plus that of rows [cut, n); cut is a multiple of 16, at most n. */
  void (*weight_gradient)(int64_t out, int64_t in, const float *d, const float *x, float *g,
                          float *gb, int64_t ld, int64_t cut, int64_t n);
  /* y = f(z), then z = f'(z), both [out][ld], the first n of ld; gradient 0: z does not change. */
  void (*activate)(tt_activation kind, int64_t out, int64_t n, float *z, float *y, int64_t ld,
                   int gradient);
  /* Losses of `rows` rows (not padded): term[rows] = weight * loss, to be added by
   * tt_kernels_add_losses; fills d as o: weight * dl/do * factor, zero in the padding. d
   * may be NULL. With several heads the loss is their mean, but each head has the gradient of its
   * own loss.
   *   o [heads * outputs][ld], y [targets][ld], weight [rows] or NULL
   *   variance  [targets][ld] of the errors of the labels, or NULL: tt_loss_takes_label_variance */
  void (*loss)(tt_loss kind, tt_loss_args args, const tt_model *model, int64_t rows, const float *o,
               const float *y, const float *variance, const float *weight, float factor,
               double *term, float *d, int64_t ld);
  /* One optimizer step for `count` parameters; slots [S][stride]. */
  void (*step)(tt_optimizer kind, int64_t count, float *w, const float *g, float *slots,
               int64_t stride, tt_optimizer_args args);
  /* Sum of squares, in double, in a fixed order. */
  double (*square_sum)(int64_t count, const float *g);
  /* Slots [first, first + count) of the row order of an epoch: row numbers from list[labeled]. */
  void (*order)(const tt_sampler *order, const int32_t *list, int64_t first, int64_t count,
                int32_t *row);
  /* x[columns][ld] from table[...][columns]: the given rows, transposed; zero in the padding to n.
   *   pick [columns] columns of a table with `width` columns, or NULL for the first `columns` */
  void (*gather)(int64_t columns, int64_t width, const int32_t *pick, const float *table,
                 const int32_t *row, int64_t rows, int64_t n, float *x, int64_t ld);

  /* The rest is for optional parts of layers; rows [0, n), n a multiple of 16. */
  /* layer_norm (Ba, Kiros & Hinton 2016): z[out][ld] of each row to mean 0 and variance 1 over its
   * features, stored in normalized, with inverse_std[ld] = 1 / standard deviation, unless NULL;
   * then gain * normalized + shift. A group of group_norm has `each` positions of each channel:
   * z[out][each][ld].
   *   gain, shift [out] */
  void (*norm)(int64_t out, int64_t each, const float *gain, const float *shift, float *z,
               float *normalized, float *inverse_std, int64_t ld, int64_t n);
  /* from = dL/d(result of norm), to = dL/d(z before norm), both [out * each][ld]. */
  void (*norm_gradient)(int64_t out, int64_t each, const float *gain, const float *normalized,
                        const float *inverse_std, const float *from, float *to, int64_t ld,
                        int64_t n);
  /* batch_norm: the two moments of a channel x[each][ld] over `rows` rows (not padded). */
  void (*moments)(int64_t each, int64_t rows, const float *x, float *mean, float *variance,
                  int64_t ld);
  /* y[each][ld] = gain * normalized + shift; normalized[each][ld] may be NULL. */
  void (*normalize)(int64_t each, const tt_channel_norm *c, const float *x, float *normalized,
                    float *y, int64_t ld, int64_t n);
  /* The sums of d, and of d * normalized, over `rows` rows. */
  void (*delta_sums)(int64_t each, int64_t rows, const float *normalized, const float *d,
                     float sums[2], int64_t ld);
  /* from = dL/dy, to = dL/dx if x has these moments; zero in the padding to n.
   *   sums  of delta_sums */
  void (*normalize_gradient)(int64_t each, int64_t rows, const tt_channel_norm *c,
                             const float sums[2], const float *normalized, const float *from,
                             float *to, int64_t ld, int64_t n);
  /* Dropout of units [first, first + units) of all hidden units: multiply h and, unless NULL, slope
   * by 0 or 1 / (1 - p). */
  void (*drop)(const tt_dropout *p, int64_t first, int64_t units, float *h, float *slope,
               int64_t ld, int64_t n);
  void (*add)(int64_t out, const float *x, float *y, int64_t ld, int64_t n);   /* y += x */
  void (*times)(int64_t out, const float *x, float *y, int64_t ld, int64_t n); /* y *= x */

  /* Layers of a front (core/front/front.h); x[channels][positions][ld]. */
  /* y[outputs][positions][ld] = bias + sum over channels, then over the taps of the position, of
   * a[o * output_step + c * channel_step + at] x[c][from]. The keys of the taps are positions of y.
   *   bias [outputs] or NULL */
  void (*convolve)(const tt_convolution *c, const float *a, const float *bias, const float *x,
                   float *y, int64_t ld, int64_t n);
  /* g[o * output_step + c * channel_step + key] = sum over blocks of rows; of each the sum over the
   * pairs of the key, then over its rows, of d[o][at] x[c][from], in 16 lanes. With one key and 64
   * channels or more, the sum over blocks of 128 values, each added in order.  gb[o] = sum of d[o],
   * unless NULL. There are channel_step keys. */
  void (*convolve_gradient)(const tt_convolution *c, const float *d, const float *x, float *g,
                            float *gb, int64_t ld, int64_t n);
  /* Windows are keys of the taps; share = 1 / values of a window. The gradients are added to dx. */
  void (*pool)(tt_pooling by, int64_t channels, int64_t from_positions, const tt_taps *taps,
               float share, const float *x, float *y, int64_t ld, int64_t n);
  void (*pool_gradient)(tt_pooling by, int64_t channels, int64_t from_positions,
                        const tt_taps *taps, float share, const float *x, const float *d, float *dx,
                        int64_t ld, int64_t n);
} tt_kernels;

/* Sum of the losses of rows, in the order that fixes its bits: rows in order; losses of one or two
 * outputs in chunks of TT_LOSS_CHUNK rows. */
double tt_kernels_add_losses(tt_loss kind, int64_t rows, const double *term);

/* sum plus the terms in their order: at most TT_LOSS_CHUNK rows can be added in several calls. */
double tt_kernels_add_terms(double sum, int64_t count, const double *term);

/* The table for TUTTI_SIMD. Errors: UNAVAILABLE (the processor does not support it). */
tt_err tt_kernels_get(tt_simd simd, const tt_kernels **out);

extern const tt_kernels tt_kernels_generic;
#if defined(__x86_64__)
extern const tt_kernels tt_kernels_avx2, tt_kernels_avx512;
#endif
#endif
