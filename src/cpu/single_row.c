/* single_row.c — see single_row.h. */
#include "src/cpu/single_row.h"

#include "src/cpu/cpu_internal.h"

#include "core/base/mem.h"

#include <string.h>

static const int64_t most_floats = (64 << 20) / 4;

struct tt_single_row {
  const tt_trained_ensemble *m;
  const tt_kernels *kernels;
  int64_t width[TT_MAX_LAYERS];  /* units of a layer, rounded up to TT_LANES */
  int64_t offset[TT_MAX_LAYERS]; /* of the layer in the weights of a member */
  int64_t stride;                /* floats of a member */
  int64_t widest;                /* of all layers and the inputs, rounded up */
  float *w;                      /* [used members][stride]; a layer: [1 + in][width], the first row
                                    is the bias */
};

static int64_t round_to_lanes(int64_t n) { return (n + TT_LANES - 1) / TT_LANES * TT_LANES; }

static void lay_out(const tt_model *m, tt_single_row *s)
{
  s->widest = round_to_lanes(m->inputs);
  for (int l = 0; l < m->layers; l++) {
    s->width[l] = round_to_lanes(m->layer[l].out);
    s->offset[l] = s->stride;
    s->stride += (1 + m->layer[l].in) * s->width[l];
    if (s->width[l] > s->widest) s->widest = s->width[l];
  }
}

static void pack_member(const tt_single_row *s, const float *w, float *to)
{
  for (int l = 0; l < s->m->model.layers; l++) {
    const tt_layer *layer = &s->m->model.layer[l];
    float *at = to + s->offset[l];
    for (int64_t o = 0; o < layer->out; o++) {
      at[o] = w[layer->bias + o];
      for (int64_t i = 0; i < layer->in; i++)
        at[(1 + i) * s->width[l] + o] = w[layer->weight + o * layer->in + i];
    }
  }
}

static tt_err pack(tt_single_row *s)
{
  int64_t used = 0;
  for (int64_t i = 0; i < s->m->members; i++) used += s->m->weight[i] > 0.0;
  TT_TRY(TT_ALLOC(s->w, used * s->stride));
  float *to = s->w;
  for (int64_t i = 0; i < s->m->members; i++) {
    if (!(s->m->weight[i] > 0.0)) continue;
    pack_member(s, s->m->w + i * s->m->model.params, to);
    to += s->stride;
  }
  return TT_OK;
}

tt_err tt_single_row_create(const tt_trained_ensemble *m, tt_simd simd, tt_single_row **out)
{
  tt_single_row *s = NULL;
  *out = NULL;
  TT_TRY(TT_ALLOC(s, 1));
  s->m = m;
  lay_out(&m->model, s);
  /* a convolution fills the lanes with rows alone */
  int fits = !m->networks && !m->model.front.layers && !m->scaler.components &&
             m->members <= most_floats / s->stride;
  tt_err e = tt_kernels_get(simd, &s->kernels);
  if (!e && fits) e = pack(s);
  if (e || !fits)
    tt_single_row_destroy(&s);
  else
    *out = s;
  return e;
}

void tt_single_row_destroy(tt_single_row **s)
{
  if (!*s) return;
  tt_free((*s)->w);
  tt_free(*s);
}

/* Two vectors with a first element of 1, z, room for layer_norm, mean and variance. */
int64_t tt_single_row_scratch(const tt_single_row *s)
{
  int normed = s->m->model.layer[0].norm >= 0;
  return 2 * (TT_LANES + s->widest) + s->widest + (normed ? TT_LANES * s->widest : 0) +
         2 * round_to_lanes(tt_trained_ensemble_width(s->m));
}

/* layer_norm of z[out]: the kernel normalises 16 rows, of which this one is the first. */
static void normalize_row(const tt_single_row *s, const tt_layer *layer, const float *w, float *z,
                          float *rows)
{
  for (int64_t o = 0; o < layer->out; o++) rows[o * TT_LANES] = z[o];
  s->kernels->norm(layer->out, 1, w + layer->norm, w + layer->norm + layer->out, rows, NULL, NULL,
                   TT_LANES, TT_LANES);
  for (int64_t o = 0; o < layer->out; o++) z[o] = rows[o * TT_LANES];
}

/* Outputs of the last layer of a member, in z.
 *   w, packed  its weights;  in  its inputs after a 1;  other  room for outputs after a 1 */
static void forward_row(const tt_single_row *s, const float *w, const float *packed, float *in,
                        float *other, float *z, float *rows)
{
  const tt_model *m = &s->m->model;
  for (int l = 0; l < m->layers; l++) {
    const tt_layer *layer = &m->layer[l];
    int64_t n = s->width[l];
    s->kernels->product(1, 1 + layer->in, in, 0, 1, NULL, packed + s->offset[l], NULL, z, n, n);
    if (l == m->layers - 1) return;
    if (layer->norm >= 0) normalize_row(s, layer, w, z, rows);
    s->kernels->activate(layer->activation, n, z, other + 1, 0);
    for (int64_t o = 0; layer->residual && o < layer->out; o++) other[1 + o] += in[1 + o];
    float *swap = in;
    in = other;
    other = swap;
  }
}

void tt_single_row_predict(const tt_single_row *s, const float *x, float *scratch, tt_moments *into)
{
  const tt_trained_ensemble *c = s->m;
  const tt_model *m = &c->model;
  int64_t width = tt_trained_ensemble_width(c), room = TT_LANES + s->widest;
  float *first = scratch + TT_LANES - 1, *second = first + room, *z = scratch + 2 * room;
  float *mean = z + s->widest, *variance = mean + round_to_lanes(width);
  float *rows = variance + round_to_lanes(width), *packed = s->w;
  tt_moments_clear(into);
  for (int64_t e = 0; e < c->ensembles; e++)
    for (int64_t i = c->ensemble[e].first; i < c->ensemble[e].first + c->ensemble[e].members; i++) {
      if (!(c->weight[i] > 0.0)) continue;
      first[0] = second[0] = 1.0f;
      memcpy(first + 1, x, (size_t)m->inputs * sizeof *x);
      forward_row(s, c->w + i * m->params, packed, first, second, z, rows);
      packed += s->stride;
      for (int64_t k = 0; k < m->targets; k++)
        tt_output_predict(m->output, m->levels, c->variance_floor, z + k, m->targets,
                          mean + k * m->quantities, variance + k * m->quantities, 1);
      tt_moments_add(into, e * width, width, c->weight[i], mean, variance, 1);
    }
}
