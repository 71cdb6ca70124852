/* cpu_work.c — buffers and the forward pass; see cpu.h. */
#include "engine/cpu.h"

#include "base/mem.h"

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

static tt_err allocate(const tt_model *m, int training, tt_work *b)
{
  TT_TRY(TT_ALLOC(b->x, m->inputs * b->ld));
  TT_TRY(TT_ALLOC(b->y, m->targets * b->ld));
  TT_TRY(TT_ALLOC(b->weight, b->ld));
  for (int l = 0; l < m->layers; l++) {
    TT_TRY(TT_ALLOC(b->z[l], m->layer[l].out * b->ld));
    if (l < m->layers - 1) TT_TRY(TT_ALLOC(b->h[l], m->layer[l].out * b->ld));
  }
  b->window_size = b->rows > TT_WINDOW ? b->rows : TT_WINDOW;
  TT_TRY(TT_ALLOC(b->window, b->window_size));
  if (!training) return TT_OK;
  TT_TRY(TT_ALLOC(b->d[0], widest(m) * b->ld));
  TT_TRY(TT_ALLOC(b->d[1], widest(m) * b->ld));
  return TT_ALLOC(b->gradient, m->params);
}

tt_err tt_work_create(const tt_model *model, int64_t batch, int training, tt_work **out)
{
  tt_work *b = NULL;
  TT_TRY(TT_ALLOC(b, 1));
  b->rows = pad(batch);
  b->ld = leading(b->rows);
  tt_err e = allocate(model, training, b);
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
  }
  tt_free(b->d[0]);
  tt_free(b->d[1]);
  tt_free(b->gradient);
  tt_free(b->window);
  tt_free(*w);
}

int64_t tt_work_bytes(const tt_model *model, int64_t batch)
{
  int64_t ld = leading(pad(batch)), features = model->inputs + model->targets + 1;
  for (int l = 0; l < model->layers; l++)
    features += 2 * model->layer[l].out;
  features += 2 * widest(model);
  return 4 * (features * ld + model->params + TT_WINDOW);
}

void tt_cpu_forward(const tt_kernels *k, const tt_model *model, const float *w, tt_work *b,
                    int64_t rows, int gradient)
{
  int64_t n = pad(rows);
  const float *x = b->x;
  for (int l = 0; l < model->layers; l++) {
    const tt_layer *layer = &model->layer[l];
    k->product(layer->out, layer->in, w + layer->weight, layer->in, 1, w + layer->bias, x, NULL,
               b->z[l], b->ld, n);
    if (l == model->layers - 1) return;
    for (int64_t o = 0; o < layer->out; o++)
      k->activate(layer->activation, n, b->z[l] + o * b->ld, b->h[l] + o * b->ld, gradient);
    x = b->h[l];
  }
}
