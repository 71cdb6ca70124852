/* model.c — see model.h. */
#include "spec/model.h"

#include "base/rng.h"

#include <inttypes.h>
#include <math.h>

tt_err tt_model_build(int64_t inputs, int64_t targets, const int64_t *hidden, int64_t layers,
                      tt_activation activation, tt_output output, tt_model *out)
{
  if (layers + 1 > TT_MAX_LAYERS)
    return TT_FAIL(CONFIG, "model.hidden has %" PRId64 " layers; at most %d are possible", layers,
                   TT_MAX_LAYERS - 1);
  tt_model m = {.inputs = inputs, .targets = targets, .layers = (int)layers + 1, .output = output};
  m.outputs = output == TT_OUTPUT_mean_variance ? 2 * targets : targets;
  int64_t in = inputs;
  for (int l = 0; l < m.layers; l++) {
    int last = l == m.layers - 1;
    tt_layer *layer = &m.layer[l];
    layer->in = in;
    layer->out = last ? m.outputs : hidden[l];
    layer->activation = last ? TT_ACT_identity : activation;
    layer->weight = m.params;
    layer->bias = m.params + layer->in * layer->out;
    m.params = layer->bias + layer->out;
    in = layer->out;
    if (m.params > INT32_MAX)
      return TT_FAIL(CONFIG, "the network has more than %d parameters; make model.hidden smaller",
                     INT32_MAX);
  }
  *out = m;
  return TT_OK;
}

static void bounds(tt_init init, double in, double out, float *weights, float *biases)
{
  switch (init) {
#define X(name, w, b, source)                                                                      \
  case TT_INIT_##name:                                                                             \
    *weights = (float)(w), *biases = (float)(b);                                                   \
    return;
    TT_INITS(X)
#undef X
  default:
    *weights = *biases = 0.0f;
  }
  (void)out;
}

static void fill(float *w, int64_t count, float bound, uint64_t seed, uint64_t stream, int layer,
                 int64_t offset)
{
  for (int64_t i = 0; i < count; i++) {
    uint64_t index = (uint64_t)(offset + i);
    tt_random4 r = tt_random(seed, stream, TT_FOR_INIT, (uint32_t)layer, (uint32_t)(index / 4));
    w[i] = bound * (2.0f * tt_unit(r.v[index % 4]) - 1.0f);
  }
}

void tt_model_init(const tt_model *model, tt_init init, uint64_t seed, uint64_t stream, float *w)
{
  for (int l = 0; l < model->layers; l++) {
    const tt_layer *layer = &model->layer[l];
    float weights, biases;
    bounds(init, (double)layer->in, (double)layer->out, &weights, &biases);
    fill(w + layer->weight, layer->in * layer->out, weights, seed, stream, l, 0);
    fill(w + layer->bias, layer->out, biases, seed, stream, l, layer->in * layer->out);
  }
}

double tt_model_flops(const tt_model *model, int64_t rows)
{
  double products = 0.0;
  for (int l = 0; l < model->layers; l++) {
    double size = (double)(model->layer[l].in * model->layer[l].out);
    products += l == 0 ? 2.0 * size : 3.0 * size;
  }
  return 2.0 * (double)rows * products;
}
