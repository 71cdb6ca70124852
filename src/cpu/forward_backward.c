/* forward_backward.c — buffers, and the passes through the layers forward and backward; see
 * cpu_internal.h. */
#include "src/cpu/cpu_internal.h"

#include "core/base/mem.h"

#include <string.h>

static int64_t pad(int64_t rows) { return (rows + TT_LANES - 1) / TT_LANES * TT_LANES; }

/* An odd number of 64-byte lines: features do not share the same sets of the cache. */
static int64_t leading(int64_t padded)
{
  return padded / TT_LANES % 2 ? padded : padded + TT_LANES;
}

static int64_t widest(const tt_model *m)
{
  int64_t width = m->inputs;
  for (int l = 0; l < m->layers; l++)
    if (m->layer[l].out > width) width = m->layer[l].out;
  return width;
}

static int any_residual(const tt_model *m)
{
  for (int l = 0; l < m->layers; l++)
    if (m->layer[l].residual) return 1;
  return 0;
}

static tt_err allocate_layer(const tt_layer *layer, int last, int training, int l, tt_work *b)
{
  TT_TRY(TT_ALLOC(b->z[l], layer->out * b->ld));
  if (!last) TT_TRY(TT_ALLOC(b->h[l], layer->out * b->ld));
  if (layer->norm < 0 || !training) return TT_OK;
  TT_TRY(TT_ALLOC(b->hat[l], layer->out * b->ld));
  return TT_ALLOC(b->root[l], b->ld);
}

static tt_err allocate(const tt_model *m, tt_work_for use, tt_work *b)
{
  int training = use != TT_WORK_PREDICT;
  TT_TRY(TT_ALLOC(b->x, m->inputs * b->ld));
  TT_TRY(TT_ALLOC(b->y, m->targets * b->ld));
  TT_TRY(TT_ALLOC(b->weight, b->ld));
  for (int l = 0; l < m->layers; l++)
    TT_TRY(allocate_layer(&m->layer[l], l == m->layers - 1, training, l, b));
  b->window_size = b->rows > TT_WINDOW ? b->rows : TT_WINDOW;
  TT_TRY(TT_ALLOC(b->window, b->window_size));
  if (!training) return TT_OK;
  TT_TRY(TT_ALLOC(b->d[0], widest(m) * b->ld));
  TT_TRY(TT_ALLOC(b->d[1], widest(m) * b->ld));
  TT_TRY(TT_ALLOC(b->seen, m->inputs));
  if (any_residual(m)) TT_TRY(TT_ALLOC(b->side, widest(m) * b->ld));
  if (use == TT_WORK_ADVERSARIAL) TT_TRY(TT_ALLOC(b->second, m->params));
  return TT_ALLOC(b->gradient, m->params);
}

tt_err tt_work_create(const tt_model *model, int64_t batch, tt_work_for use, tt_work **out)
{
  tt_work *b = NULL;
  TT_TRY(TT_ALLOC(b, 1));
  b->rows = pad(batch);
  b->ld = leading(b->rows);
  tt_err e = allocate(model, use, b);
  if (e)
    tt_work_destroy(&b);
  else
    *out = b;
  return e;
}

void tt_work_destroy(tt_work **w)
{
  tt_work *b = *w;
  if (!b) return;
  tt_free(b->x);
  tt_free(b->y);
  tt_free(b->weight);
  for (int l = 0; l < TT_MAX_LAYERS; l++) {
    tt_free(b->z[l]);
    tt_free(b->h[l]);
    tt_free(b->hat[l]);
    tt_free(b->root[l]);
  }
  tt_free(b->d[0]);
  tt_free(b->d[1]);
  tt_free(b->side);
  tt_free(b->gradient);
  tt_free(b->second);
  tt_free(b->seen);
  tt_free(b->window);
  tt_free(*w);
}

int64_t tt_work_bytes(const tt_model *model, int64_t batch, tt_work_for use)
{
  int64_t ld = leading(pad(batch)), features = model->inputs + model->targets + 1;
  for (int l = 0; l < model->layers; l++)
    features += 2 * model->layer[l].out + (model->layer[l].norm < 0 ? 0 : model->layer[l].out + 1);
  features += (any_residual(model) ? 3 : 2) * widest(model);
  int64_t gradients = use == TT_WORK_ADVERSARIAL ? 2 : 1;
  return 4 * (features * ld + gradients * model->params + TT_WINDOW);
}

/* z of hidden layer l -> f(z), after layer_norm if it has one. */
static void respond(const tt_kernels *k, const tt_layer *layer, const float *w, tt_work *b, int l,
                    int64_t n, int gradient)
{
  if (layer->norm >= 0)
    k->norm(layer->out, w + layer->norm, b->z[l], gradient ? b->hat[l] : NULL, b->root[l], b->ld,
            n);
  for (int64_t o = 0; o < layer->out; o++)
    k->activate(layer->activation, n, b->z[l] + o * b->ld, b->h[l] + o * b->ld, gradient);
}

void tt_cpu_forward(const tt_kernels *k, const tt_model *model, const float *w, tt_work *b,
                    int64_t rows, const tt_dropout *drop, int gradient)
{
  int64_t n = pad(rows), unit = 0;
  const float *x = b->x;
  for (int l = 0; l < model->layers; l++) {
    const tt_layer *layer = &model->layer[l];
    k->product(layer->out, layer->in, w + layer->weight, layer->in, 1, w + layer->bias, x, NULL,
               b->z[l], b->ld, n);
    if (l == model->layers - 1) return;
    respond(k, layer, w, b, l, n, gradient);
    if (drop && layer->dropout)
      k->drop(drop, unit, layer->out, b->h[l], gradient ? b->z[l] : NULL, b->ld, n);
    if (layer->residual) k->add(layer->out, x, b->h[l], b->ld, n);
    unit += layer->out;
    x = b->h[l];
  }
}

/* dL/dz of layer l -> dL/dz of the layer below it. */
static void down(const tt_kernels *k, const tt_model *m, const float *w, tt_work *b, int l,
                 const float *d, float *next, float *gradient, int64_t n)
{
  const tt_layer *layer = &m->layer[l], *below = &m->layer[l - 1];
  int plain = !layer->residual && !below->residual && below->norm < 0;
  k->product(layer->in, layer->out, w + layer->weight, 1, layer->in, NULL, d,
             plain ? b->z[l - 1] : NULL, next, b->ld, n);
  if (plain) return;
  if (layer->residual) k->add(layer->in, b->side, next, b->ld, n);
  if (below->residual) memcpy(b->side, next, (size_t)(layer->in * b->ld) * sizeof *next);
  k->times(layer->in, b->z[l - 1], next, b->ld, n);
  if (below->norm >= 0)
    k->norm_gradient(below->out, w + below->norm, b->hat[l - 1], b->root[l - 1], next,
                     gradient + below->norm, b->ld, n);
}

const float *tt_cpu_backward(const tt_kernels *k, const tt_model *m, const float *w, tt_work *b,
                             int64_t rows, float *gradient, int inputs)
{
  int64_t n = pad(rows);
  float *d = b->d[0], *next = b->d[1];
  for (int l = m->layers - 1; l >= 0; l--) {
    const tt_layer *layer = &m->layer[l];
    k->weight_gradient(layer->out, layer->in, d, l ? b->h[l - 1] : b->x, gradient + layer->weight,
                       gradient + layer->bias, b->ld, n);
    if (l == 0) break;
    down(k, m, w, b, l, d, next, gradient, n);
    float *swap = d;
    d = next;
    next = swap;
  }
  if (!inputs) return NULL;
  const tt_layer *first = &m->layer[0];
  k->product(first->in, first->out, w + first->weight, 1, first->in, NULL, d, NULL, next, b->ld, n);
  return next;
}
