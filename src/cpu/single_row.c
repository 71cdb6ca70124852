/* single_row.c — see single_row.h. */
#include "src/cpu/single_row.h"

#include "src/cpu/cpu_internal.h"

#include "core/base/mem.h"

#include <string.h>

static const int64_t most_floats = (64 << 20) / 4;
enum { GROUP = 8 }; /* outputs that are differentiated together */

/* Places in the scratch of the caller, in floats. */
typedef struct places {
  int64_t first, second;              /* [widest] inputs and outputs of a layer, each after a 1 */
  int64_t slope[TT_MAX_LAYERS];       /* [width] of a layer: z, then f'(z) */
  int64_t normed[TT_MAX_LAYERS];      /* [widest][TT_LANES] with layer_norm */
  int64_t inverse_std[TT_MAX_LAYERS]; /* [TT_LANES] with layer_norm */
  int64_t rows, d_rows;               /* [widest][TT_LANES] with layer_norm */
  int64_t d, d_in, d_out;             /* [GROUP][widest] derivatives by z, inputs and outputs */
  int64_t sums;                       /* [TT_LANES] */
  int64_t mean, variance;             /* [K q] */
  int64_t end;
} places;

struct tt_single_row {
  const tt_trained_ensemble *m;
  const tt_kernels *kernels;
  int64_t width[TT_MAX_LAYERS];  /* units of a layer, rounded up to TT_LANES */
  int64_t offset[TT_MAX_LAYERS]; /* of the layer in the weights of a member */
  int64_t stride;                /* floats of a member */
  int64_t widest;                /* of all layers and the inputs, rounded up */
  float *w;                      /* [members][stride]; a layer: [1 + in][width], the first row is
                                    the bias; zero for members of weight 0 */
  places at;
};

/* One pass through the network of a member. */
typedef struct pass {
  float *scratch;
  const float *w, *packed; /* of the member */
  float *in, *out, *d_in, *d_out;
} pass;

/* Add a place of `floats` floats. */
static int64_t add_place(places *p, int64_t floats)
{
  int64_t offset = p->end;
  p->end += tt_lanes_up(floats);
  return offset;
}

static void lay_out_scratch(tt_single_row *s)
{
  const tt_model *m = &s->m->model;
  places *p = &s->at;
  int64_t width = tt_trained_ensemble_width(s->m), work = TT_LANES + s->widest;
  int64_t lanes = m->layer[0].norm >= 0 ? TT_LANES * s->widest : 0, group = GROUP * s->widest;
  p->first = add_place(p, work) + TT_LANES - 1;
  p->second = add_place(p, work) + TT_LANES - 1;
  for (int l = 0; l < m->layers; l++) {
    p->slope[l] = add_place(p, s->width[l]);
    p->normed[l] = add_place(p, lanes);
    p->inverse_std[l] = add_place(p, TT_LANES);
  }
  p->rows = add_place(p, lanes);
  p->d_rows = add_place(p, lanes);
  p->d = add_place(p, group);
  p->d_in = add_place(p, group);
  p->d_out = add_place(p, group);
  p->sums = add_place(p, TT_LANES);
  p->mean = add_place(p, width);
  p->variance = add_place(p, width);
}

static void lay_out(const tt_model *m, tt_single_row *s)
{
  s->widest = tt_lanes_up(m->inputs);
  for (int l = 0; l < m->layers; l++) {
    s->width[l] = tt_lanes_up(m->layer[l].out);
    s->offset[l] = s->stride;
    s->stride += (1 + m->layer[l].in) * s->width[l];
    s->widest = tt_max_i64(s->widest, s->width[l]);
  }
  lay_out_scratch(s);
}

static void pack_member(const tt_single_row *s, const float *w, float *dst)
{
  for (int l = 0; l < s->m->model.layers; l++) {
    const tt_layer *layer = &s->m->model.layer[l];
    float *place = dst + s->offset[l];
    for (int64_t o = 0; o < layer->out; o++) {
      place[o] = w[layer->bias + o];
      for (int64_t i = 0; i < layer->in; i++)
        place[(1 + i) * s->width[l] + o] = w[layer->weight + o * layer->in + i];
    }
  }
}

static tt_err pack(tt_single_row *s)
{
  TT_TRY(TT_ALLOC(s->w, s->m->members * s->stride));
  for (int64_t i = 0; i < s->m->members; i++)
    if (s->m->weight[i] > 0.0)
      pack_member(s, s->m->w + i * s->m->model.params, s->w + i * s->stride);
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
  tt_free_all(&(*s)->w, s);
}

int64_t tt_single_row_scratch(const tt_single_row *s) { return s->at.end; }

static void swap(float **a, float **b)
{
  float *kept = *a;
  *a = *b;
  *b = kept;
}

/* The kernels of layer_norm compute 16 rows, of which this one is the first. */
static void to_lanes(int64_t n, const float *row, float *rows)
{
  for (int64_t i = 0; i < n; i++) rows[i * TT_LANES] = row[i];
}

static void from_lanes(int64_t n, const float *rows, float *row)
{
  for (int64_t i = 0; i < n; i++) row[i] = rows[i * TT_LANES];
}

static void normalize_row(const tt_single_row *s, const pass *p, int l)
{
  const tt_layer *layer = &s->m->model.layer[l];
  const float *gain = p->w + layer->norm;
  float *z = p->scratch + s->at.slope[l], *rows = p->scratch + s->at.rows;
  to_lanes(layer->out, z, rows);
  s->kernels->norm(layer->out, 1, gain, gain + layer->out, rows, p->scratch + s->at.normed[l],
                   p->scratch + s->at.inverse_std[l], TT_LANES, TT_LANES);
  from_lanes(layer->out, rows, z);
}

/* Outputs of the last layer from the inputs in p->in.
 *   gradient  1: keep the f'(z) of all other layers */
static const float *forward_row(const tt_single_row *s, pass *p, int gradient)
{
  const tt_model *m = &s->m->model;
  p->in[0] = p->out[0] = 1.0f;
  for (int l = 0;; l++) {
    const tt_layer *layer = &m->layer[l];
    float *z = p->scratch + s->at.slope[l];
    int64_t n = s->width[l];
    s->kernels->product(1, 1 + layer->in, p->in, 0, 1, NULL, p->packed + s->offset[l], NULL, z, n,
                        n);
    if (l == m->layers - 1) return z;
    if (layer->norm >= 0) normalize_row(s, p, l);
    s->kernels->activate(layer->activation, 1, n, z, p->out + 1, n, gradient);
    for (int64_t o = 0; layer->residual && o < layer->out; o++) p->out[1 + o] += p->in[1 + o];
    swap(&p->in, &p->out);
  }
}

/* d[width], the derivative by z of layer l, from `delta`[out], that by its result. */
static void differentiate_units(const tt_single_row *s, const pass *p, int l, const float *delta,
                                float *d)
{
  const tt_layer *layer = &s->m->model.layer[l];
  const float *slope = p->scratch + s->at.slope[l];
  float *rows = p->scratch + s->at.rows, *d_rows = p->scratch + s->at.d_rows;
  for (int64_t o = 0; o < layer->out; o++) d[o] = delta[o] * slope[o];
  for (int64_t o = layer->out; o < s->width[l]; o++) d[o] = 0.0f;
  if (layer->norm < 0) return;
  to_lanes(layer->out, d, rows);
  s->kernels->norm_gradient(layer->out, 1, p->w + layer->norm, p->scratch + s->at.normed[l],
                            p->scratch + s->at.inverse_std[l], rows, d_rows, TT_LANES, TT_LANES);
  from_lanes(layer->out, d_rows, d);
}

/* Derivatives d_o[count][D] of outputs [first, first + count) by the inputs: dot products with the
 * rows of the packed weights. */
static void backward_row(const tt_single_row *s, pass *p, int64_t first, int64_t count, float *d_o)
{
  const tt_model *m = &s->m->model;
  int last = m->layers - 1;
  int64_t in = m->layer[last].in;
  const float *w = p->packed + s->offset[last] + s->width[last] + first;
  float *d = p->scratch + s->at.d;
  for (int64_t c = 0; c < count; c++)
    for (int64_t i = 0; i < in; i++) p->d_in[c * in + i] = w[i * s->width[last] + c];
  for (int l = last - 1; l >= 0; l--) {
    const tt_layer *layer = &m->layer[l];
    int64_t n = s->width[l];
    swap(&p->d_in, &p->d_out);
    for (int64_t c = 0; c < count; c++)
      differentiate_units(s, p, l, p->d_out + c * layer->out, d + c * n);
    s->kernels->weight_gradient(count, layer->in, d, p->packed + s->offset[l] + n, p->d_in,
                                p->scratch + s->at.sums, n, n, n);
    for (int64_t i = 0; layer->residual && i < count * layer->in; i++) p->d_in[i] += p->d_out[i];
  }
  memcpy(d_o, p->d_in, (size_t)(count * m->inputs) * sizeof *d_o);
}

void tt_single_row_member(const tt_single_row *s, int64_t member, const float *x, int64_t slopes,
                          float *scratch, float *o, float *d_o)
{
  const tt_model *m = &s->m->model;
  pass p = {scratch,
            s->m->w + member * m->params,
            s->w + member * s->stride,
            scratch + s->at.first,
            scratch + s->at.second,
            scratch + s->at.d_in,
            scratch + s->at.d_out};
  memcpy(p.in + 1, x, (size_t)m->inputs * sizeof *x);
  memcpy(o, forward_row(s, &p, slopes > 0), (size_t)m->outputs * sizeof *o);
  for (int64_t first = 0; first < slopes; first += GROUP)
    backward_row(s, &p, first, tt_min_i64(slopes - first, GROUP), d_o + first * m->inputs);
}

void tt_single_row_add(const tt_single_row *s, int64_t member, const float *o, float *scratch,
                       tt_moments *dst)
{
  const tt_trained_ensemble *c = s->m;
  const tt_model *m = &c->model;
  int64_t e = 0, width = tt_trained_ensemble_width(c);
  float *mean = scratch + s->at.mean, *variance = scratch + s->at.variance;
  while (member >= c->ensemble[e].first + c->ensemble[e].members) e++;
  for (int64_t k = 0; k < m->targets; k++)
    tt_output_predict(m->output, m->levels, c->variance_floor, o + k, m->targets,
                      mean + k * m->quantities, variance + k * m->quantities, 1);
  tt_moments_add(dst, e * width, width, c->weight[member], mean, variance, 1);
}

void tt_single_row_predict(const tt_single_row *s, const float *x, float *scratch, tt_moments *dst)
{
  float *o = scratch + s->at.d;
  tt_moments_clear(dst);
  for (int64_t i = 0; i < s->m->members; i++) {
    if (!(s->m->weight[i] > 0.0)) continue;
    tt_single_row_member(s, i, x, 0, scratch, o, NULL);
    tt_single_row_add(s, i, o, scratch, dst);
  }
}
