/* forward_backward.cu — forward and backward pass for all members at once; see
 * layered_internal.cuh.
 *
 * A delta is always dL/dz: the backward product of a layer multiplies by the slope of the layer
 * before it, and stores dL/dy too if a residual layer needs it. */
#include "cuda/layered/layer_extras.cuh"
#include "cuda/layered/update.cuh"
#include "cuda/product/multiply.cuh"

/* Member `first` of the pass, of an array with `step` floats per member; rows have `ld` floats. */
static tt_factor make_factor(const float *place, int64_t step, int64_t ld)
{
  tt_factor f = {place, step, (int32_t)ld, tt_has_vectors(place, step, ld)};
  return f;
}

static tt_factor weights_of(const tt_layered_pass *pass, const tt_layer *layer)
{
  return make_factor(pass->w + pass->first * pass->w_stride + layer->weight, pass->w_stride,
                     layer->in);
}

/* The inputs of layer l. */
static tt_factor inputs_of(tt_engine *e, const tt_layered_pass *pass, int l)
{
  const tt_layered *own = tt_layered_of(e);
  const tt_front *front = &e->cohort->model.front;
  int64_t in = e->cohort->model.layer[l].in;
  if (l) return make_factor(own->h[l - 1], pass->rows * in, in);
  if (!front->layers) return make_factor(own->x, pass->x_stride, in);
  return make_factor(tt_cuda_front_features(front, own->front), pass->rows * in, in);
}

static tt_product_args product_args(const tt_layered_pass *pass, int64_t m, int64_t n, int64_t k,
                                    float *result, int64_t step)
{
  tt_product_args a = {};
  a.skip = pass->skip ? pass->skip + pass->first : NULL;
  a.m = (int32_t)m;
  a.n = (int32_t)n;
  a.k = (int32_t)k;
  a.result = result;
  a.step = step;
  a.vector = tt_has_vectors(result, step, n);
  return a;
}

/* The products of training steps may be in tf32, but for layers too narrow for tensor cores. */
static tt_precision precision_of(const tt_engine *e, const tt_layered_pass *pass,
                                 const tt_layer *layer)
{
  return pass->keep && !tt_layered_is_narrow(layer) ? e->precision : TT_PRECISION_fp32;
}

static tt_err multiply(tt_engine *e, const tt_layered_pass *pass, tt_product_kind kind,
                       const tt_layer *layer, const tt_product_args &a)
{
  int tile = tt_choose_product_tile(a.m, a.n, pass->members, e->dev.multiprocessors,
                                    precision_of(e, pass, layer));
  if (kind == TT_PRODUCT_GRADIENT && pass->step)
    return tt_layered_gradient_step(tile, a, *pass->step, *layer, pass->members, e->dev.stream);
  return tt_multiply(kind, tile, a, pass->members, e->dev.stream);
}

/* Whether a layer has parts beyond its product and activation in this pass. */
static int has_extras(const tt_layered *own, const tt_layered_pass *pass, const tt_layer *layer)
{
  return layer->norm >= 0 || layer->residual || (pass->keep && own->size.dropout && layer->dropout);
}

static tt_layer_extras_args extras_args(tt_engine *e, const tt_layered_pass *pass, int l)
{
  const tt_layered *own = tt_layered_of(e);
  const tt_model *m = &e->cohort->model;
  const tt_layer *layer = &m->layer[l];
  tt_layer_extras_args a = {};
  a.v = e->view;
  a.skip = pass->skip ? pass->skip + pass->first : NULL;
  if (layer->norm >= 0) a.gain = pass->w + pass->first * pass->w_stride + layer->norm;
  if (layer->norm >= 0 && pass->gradient) a.gradient = pass->gradient + layer->norm;
  if (layer->residual) a.x = l ? own->h[l - 1] : own->x;
  a.x_stride = l ? pass->rows * layer->in : pass->x_stride;
  a.y = own->h[l];
  if (pass->keep) a.slope = own->slope[l], a.xhat = own->xhat[l], a.rstd = own->rstd[l];
  a.params = pass->w_stride;
  a.first = pass->first;
  a.rows = pass->rows;
  a.out = (int32_t)layer->out;
  for (int k = 0; k < l; k++) a.unit += (int32_t)m->layer[k].out;
  a.uses_dropout = pass->keep && own->size.dropout && layer->dropout;
  a.batch_part = own->batch_part;
  a.activation = layer->activation;
  return a;
}

static tt_err launch_extras(tt_engine *e, const tt_layered_pass *pass,
                            void (*kernel)(tt_layer_extras_args), tt_layer_extras_args a,
                            int64_t items, int each)
{
  a.parts = (int32_t)tt_grid_size(items, each);
  return tt_launch(kernel, (unsigned)pass->members * (unsigned)a.parts, TT_LAYERED_THREADS,
                   2 * TT_LAYERED_THREADS * sizeof(float), e->dev.stream, a);
}

static tt_product_args forward_args(tt_engine *e, const tt_layered_pass *pass, int l)
{
  const tt_layered *own = tt_layered_of(e);
  const tt_layer *layer = &e->cohort->model.layer[l];
  int extras = has_extras(own, pass, layer);
  tt_product_args a =
      product_args(pass, pass->rows, layer->out, layer->in, own->h[l], pass->rows * layer->out);
  a.left = inputs_of(e, pass, l);
  a.right = weights_of(pass, layer);
  a.bias = pass->w + pass->first * pass->w_stride + layer->bias;
  a.bias_step = pass->w_stride;
  a.activation = extras ? TT_ACT_identity : layer->activation; /* z only */
  if (pass->keep && !extras) a.slope = own->slope[l];
  return a;
}

tt_product_args tt_layered_entry_product(tt_engine *e, const tt_layered_pass *pass)
{
  return forward_args(e, pass, 0);
}

static tt_err layer_forward(tt_engine *e, const tt_layered_pass *pass, int l)
{
  const tt_layer *layer = &e->cohort->model.layer[l];
  tt_product_args a = forward_args(e, pass, l);
  TT_TRY(multiply(e, pass, TT_PRODUCT_FORWARD, layer, a));
  if (!has_extras(tt_layered_of(e), pass, layer)) return TT_OK;
  return launch_extras(e, pass, layer_extras_forward, extras_args(e, pass, l), pass->rows,
                       TT_LAYERED_WARPS * TT_DROPOUT_DRAW_ROWS);
}

static tt_cuda_front_pass front_pass(tt_engine *e, const tt_layered_pass *pass)
{
  const tt_layered *own = tt_layered_of(e);
  const tt_model *m = &e->cohort->model;
  tt_cuda_front_pass p = {};
  p.front = &m->front;
  p.layer = own->front;
  p.members = pass->members;
  p.rows = pass->rows;
  p.skip = pass->skip ? pass->skip + pass->first : NULL;
  p.x = own->x;
  p.x_step = pass->x_stride;
  p.w = pass->w + pass->first * pass->w_stride;
  p.w_step = pass->w_stride;
  p.keep = pass->keep;
  p.batch = own->norm_batch;
  p.precision = pass->keep ? e->precision : TT_PRECISION_fp32;
  p.multiprocessors = e->dev.multiprocessors;
  p.clusters = e->dev.capability >= 90;
  p.chunk_sums = own->conv_chunks;
  p.most_chunk_sums = own->size.conv_chunks;
  p.stream = e->dev.stream;
  return p;
}

/* The factors of the channels that may be dropped in layers [begin, end); their numbers follow
 * those of the hidden units. */
static tt_err draw_masks(tt_engine *e, const tt_layered_pass *pass, int begin, int end)
{
  const tt_layered *own = tt_layered_of(e);
  const tt_model *m = &e->cohort->model;
  int32_t unit = 0;
  for (int l = 0; l < m->layers - 1; l++) unit += (int32_t)m->layer[l].out;
  for (int l = 0; l < end; l++) {
    const tt_front_layer *layer = &m->front.layer[l];
    if (layer->kind != TT_FRONT_dropout) continue;
    int32_t first = unit;
    unit += layer->channels;
    if (l < begin) continue;
    tt_layer_extras_args a = {};
    a.v = e->view;
    a.skip = pass->skip ? pass->skip + pass->first : NULL;
    a.y = own->front[l].mask;
    a.first = pass->first;
    a.rows = pass->rows;
    a.out = layer->channels;
    a.unit = first;
    a.uses_dropout = 1;
    a.batch_part = own->batch_part;
    int64_t draws = tt_grid_size(pass->rows, TT_DROPOUT_DRAW_ROWS);
    TT_TRY(launch_extras(e, pass, draw_channel_masks, a, draws * a.out, TT_LAYERED_THREADS));
  }
  return TT_OK;
}

/* What batch_norm needs of the batch. */
static tt_err describe_batch(tt_engine *e, const tt_layered_pass *pass)
{
  const tt_layered *own = tt_layered_of(e);
  tt_layer_extras_args a = {};
  a.v = e->view;
  a.skip = pass->skip ? pass->skip + pass->first : NULL;
  a.first = pass->first;
  a.batch_part = own->batch_part;
  a.batch = own->norm_batch;
  return launch_extras(e, pass, describe_batches, a, 1, 1);
}

static tt_err forward_front(tt_engine *e, const tt_layered_pass *pass, int begin, int end)
{
  const tt_cuda_front_pass p = front_pass(e, pass);
  if (pass->keep && p.batch) TT_TRY(describe_batch(e, pass));
  if (pass->keep && tt_layered_of(e)->size.dropout) TT_TRY(draw_masks(e, pass, begin, end));
  return tt_cuda_front_forward(&p, begin, end);
}

tt_err tt_layered_forward_layers(tt_engine *e, const tt_layered_pass *pass, int first, int end)
{
  int front = e->cohort->model.front.layers;
  if (first < front) TT_TRY(forward_front(e, pass, first, end < front ? end : front));
  for (int n = first < front ? front : first; n < end; n++)
    TT_TRY(layer_forward(e, pass, n - front));
  return TT_OK;
}

/* The number of layers that a forward pass computes, counted from the first one of the network. */
static int end_of(tt_engine *e, const tt_layered_pass *pass)
{
  return tt_pipeline_layers(&e->cohort->model) - pass->head;
}

tt_err tt_layered_forward(tt_engine *e, const tt_layered_pass *pass)
{
  return tt_layered_forward_layers(e, pass, pass->entry, end_of(e, pass));
}

/* Whether layer l of all does not keep its weights. If it does, nothing is written to its gradient,
 * which is 0 from the beginning. */
static int is_trained(const tt_engine *e, int l)
{
  return tt_model_rate(&e->cohort->model, l) > 0.0f;
}

/* dL/dn in delta, of a layer with layer_norm -> dL/dz, and the gradient of gains and shifts. */
static tt_err layer_norm_backwards(tt_engine *e, const tt_layered_pass *pass, int l, float *delta)
{
  tt_layer_extras_args a = extras_args(e, pass, l);
  a.delta = delta;
  if (is_trained(e, e->cohort->model.front.layers + l))
    TT_TRY(launch_extras(e, pass, layer_norm_gradient, a, a.out, TT_WARP_SIZE));
  return launch_extras(e, pass, layer_norm_backward, a, a.rows, TT_LAYERED_WARPS);
}

/* Layers whose gradients in chunks are not launched yet: several are one launch, which must come
 * before the dL/dz of one of them is overwritten. */
typedef struct waiting_gradients {
  tt_gradients g;
  int kept; /* of the first one nothing is overwritten */
} waiting_gradients;

static tt_err launch_gradients(tt_engine *e, const tt_layered_pass *pass, waiting_gradients *w)
{
  const tt_layered_sizes *s = &tt_layered_of(e)->size;
  if (!w->g.layers) return TT_OK;
  w->g.chunk = (int32_t)s->chunk;
  w->g.copies = (int32_t)s->copies;
  w->g.copy_step = s->members * s->stride;
  int tile = tt_choose_chunk_tile(w->g, pass->members, e->dev.multiprocessors, e->precision);
  TT_TRY(tt_multiply_chunks(tile, w->g, pass->members, e->dev.stream));
  *w = {};
  return TT_OK;
}

/* The gradient of a layer from its dL/dz. */
static tt_err layer_gradient(tt_engine *e, const tt_layered_pass *pass, int l, const float *delta,
                             waiting_gradients *w)
{
  const tt_layer *layer = &e->cohort->model.layer[l];
  tt_product_args a = product_args(pass, layer->out, layer->in, pass->rows,
                                   pass->gradient + layer->weight, pass->w_stride);
  a.left = make_factor(delta, pass->rows * layer->out, layer->out);
  a.right = inputs_of(e, pass, l);
  a.bias_gradient = pass->gradient + layer->bias;
  if (tt_layered_of(e)->size.small) {
    w->g.layer[w->g.layers++] = a;
    return TT_OK;
  }
  return multiply(e, pass, TT_PRODUCT_GRADIENT, layer, a);
}

/* What follows dL/dy of the layer before layer l, which may be the last one of the front. */
static void end_at_layer_before(const tt_layered *own, const tt_model *m, int l, tt_product_args *a)
{
  int residual = 0;
  if (l) {
    a->slope = own->slope[l - 1];
    a->h = own->h[l - 1];
    a->activation = m->layer[l - 1].activation;
    residual = m->layer[l - 1].residual;
  } else if (m->front.layers) {
    const tt_front_layer *last = &m->front.layer[m->front.layers - 1];
    a->slope = own->front[m->front.layers - 1].slope;
    a->h = own->front[m->front.layers - 1].y;
    a->activation = last->activation;
    residual = last->skip != TT_FRONT_NO_SKIP && !last->activates_sum;
  }
  if (residual) a->before_slope = own->residual_delta;
}

static tt_err dense_output_backward(tt_engine *e, const tt_layered_pass *pass, int l)
{
  const tt_layered *own = tt_layered_of(e);
  int64_t out = e->cohort->model.layer[l].out;
  tt_product_args a = product_args(pass, pass->rows, out, 0, own->delta[0], pass->rows * out);
  end_at_layer_before(own, &e->cohort->model, l + 1, &a);
  return tt_multiply_finish_backward(a, pass->members, e->dev.stream);
}

/* dL/dz of layer l in delta -> dL/d(its input); with `ends` dL/dz of the layer before, if there is
 * one. */
static tt_product_args backward_args(tt_engine *e, const tt_layered_pass *pass, int l,
                                     const float *delta, float *before, int ends)
{
  const tt_layered *own = tt_layered_of(e);
  const tt_layer *layer = &e->cohort->model.layer[l];
  tt_product_args a =
      product_args(pass, pass->rows, layer->in, layer->out, before, pass->rows * layer->in);
  a.left = make_factor(delta, pass->rows * layer->out, layer->out);
  a.right = weights_of(pass, layer);
  if (layer->residual) a.residual = own->residual_delta;
  if (ends) end_at_layer_before(own, &e->cohort->model, l, &a);
  return a;
}

static tt_err layer_backward(tt_engine *e, const tt_layered_pass *pass, int l, const float *delta,
                             float *before, int ends)
{
  const tt_layer *layer = &e->cohort->model.layer[l];
  return multiply(e, pass, TT_PRODUCT_BACKWARD, layer,
                  backward_args(e, pass, l, delta, before, ends));
}

tt_product_args tt_layered_head_product(tt_engine *e, const tt_layered_pass *pass)
{
  const tt_layered *own = tt_layered_of(e);
  int l = e->cohort->model.layers - 1;
  tt_product_args a = backward_args(e, pass, l, own->output_delta, own->delta[0], 1);
  a.bias = pass->w + pass->first * pass->w_stride + e->cohort->model.layer[l].bias;
  a.bias_step = pass->w_stride;
  return a;
}

static tt_cuda_front_backward_args front_args(tt_engine *e, const tt_layered_pass *pass, int turn,
                                              int end)
{
  const tt_layered *own = tt_layered_of(e);
  tt_cuda_front_backward_args b = {};
  b.end = end;
  b.delta[0] = own->delta[turn];
  b.delta[1] = own->delta[1 - turn];
  b.residual_delta = own->residual_delta;
  b.branch_delta = own->branch_delta;
  b.gradient = pass->gradient;
  return b;
}

tt_err tt_layered_output_backward(tt_engine *e, const tt_layered_pass *pass, int n)
{
  int front = e->cohort->model.front.layers;
  if (n >= front) return dense_output_backward(e, pass, n - front);
  const tt_cuda_front_pass p = front_pass(e, pass);
  const tt_cuda_front_backward_args b = front_args(e, pass, 0, n + 1);
  return tt_cuda_front_output_backward(&p, &b);
}

/* Gradients of layers [first, end) of the front, from dL/dz of layer end - 1 in delta[at]. The
 * pass ends at layer `last`: no layer before it trains. */
static tt_err front_backward(tt_engine *e, const tt_layered_pass *pass, int turn, int first,
                             int end, int last, float **input)
{
  const tt_cuda_front_pass p = front_pass(e, pass);
  tt_cuda_front_backward_args b = front_args(e, pass, turn, end);
  b.begin = first;
  b.first = last;
  b.inputs = input ? b.delta[(end - first) % 2] : NULL;
  if (input) *input = b.inputs;
  return tt_cuda_front_backward(&p, &b);
}

/* The gradient of layer n from its dL/dz in delta[at]. `before`, unless NULL, gets dL/dz of the
 * layer before, or with `ends` 0 dL/d(input of layer n). */
static tt_err dense_backward(tt_engine *e, const tt_layered_pass *pass, int n, int turn,
                             float *before, int ends, waiting_gradients *w)
{
  float *delta = tt_layered_of(e)->delta[turn];
  int l = n - e->cohort->model.front.layers, earlier = w->g.layers > w->kept;
  if (e->cohort->model.layer[l].norm >= 0) TT_TRY(layer_norm_backwards(e, pass, l, delta));
  if (is_trained(e, n) && !pass->step) TT_TRY(layer_gradient(e, pass, l, delta, w));
  if (earlier) TT_TRY(launch_gradients(e, pass, w)); /* `before` is the delta of one of them */
  if (before) TT_TRY(layer_backward(e, pass, l, delta, before, ends));
  /* A step changes the weights that the backward product has read. */
  return pass->step ? layer_gradient(e, pass, l, delta, w) : TT_OK;
}

tt_err tt_layered_backward_layers(tt_engine *e, const tt_layered_pass *pass, int first, int end,
                                  float **input)
{
  const tt_layered *own = tt_layered_of(e);
  int front = e->cohort->model.front.layers, last = tt_model_frozen(&e->cohort->model), at = 0;
  waiting_gradients w = {};
  if (last < first) last = first;
  if (pass->head && is_trained(e, end)) {
    TT_TRY(layer_gradient(e, pass, end - front, own->output_delta, &w));
    w.kept = 1;
  }
  for (int n = end - 1; n >= last && n >= front; n--, at = 1 - at) {
    float *before = n > last || input ? own->delta[1 - at] : NULL;
    TT_TRY(dense_backward(e, pass, n, at, before, n > first, &w));
    if (input && n == first) *input = before;
  }
  TT_TRY(launch_gradients(e, pass, &w));
  if (last >= front) return TT_OK;
  return front_backward(e, pass, at, first, end < front ? end : front, last, input);
}

tt_err tt_layered_backward(tt_engine *e, const tt_layered_pass *pass)
{
  return tt_layered_backward_layers(e, pass, 0, end_of(e, pass), NULL);
}
