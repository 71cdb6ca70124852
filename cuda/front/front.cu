/* front.cu — the layers of a front one after the other; see front.cuh.
 *
 * A delta is always dL/dz: the backward pass of a layer ends with the slope of the layer before it,
 * as in the dense layers. Spans of a residual are not inside each other, so one array keeps the
 * dL/dy of the end of a span for the layer where it begins. */
#include "cuda/front/front.cuh"
#include "cuda/front/front_layer.cuh"

typedef tt_err (*layer_function)(const tt_front_layer_args &a, int32_t members,
                                 cudaStream_t stream);

/* How a layer of each kind is computed; a residual is no layer. */
static const struct {
  layer_function forward, backward;
} kinds[] = {{tt_front_conv_forward, tt_front_conv_backward},
             {tt_front_norm_forward, tt_front_norm_backward},
             {tt_front_pool_forward, tt_front_pool_backward},
             {tt_front_pool_forward, tt_front_pool_backward},
             {tt_front_mask_forward, tt_front_mask_backward}};
static_assert(TT_FRONT_conv == 0 && TT_FRONT_group_norm == 1 && TT_FRONT_pool == 2 &&
                  TT_FRONT_global_mean == 3 && TT_FRONT_dropout == 4 && TT_FRONT_residual == 5 &&
                  TT_FRONT_KIND_COUNT == 6,
              "kinds has this order");

/* Result of layer l, -1: the inputs, of the first member; and the distance to that of the next. */
static const float *result_of(const tt_cuda_front_pass *p, int l, int64_t *step)
{
  *step = l < 0 ? p->x_step : p->rows * tt_front_values(&p->front->layer[l]);
  return l < 0 ? p->x : p->layer[l].y;
}

/* Without what follows the sum. */
static tt_front_layer_args layer_args(const tt_cuda_front_pass *p, int l)
{
  tt_front_layer_args a = {};
  a.layer = p->front->layer[l];
  a.skip = p->skip;
  a.rows = p->rows;
  a.x = result_of(p, l - 1, &a.x_step);
  a.w = p->w;
  a.w_step = p->w_step;
  if (p->keep) a.mask = p->layer[l].mask, a.moments = p->layer[l].moments;
  return a;
}

static tt_err forward_layer(const tt_cuda_front_pass *p, int l)
{
  tt_front_layer_args a = layer_args(p, l);
  a.result = p->layer[l].y;
  a.step = p->rows * tt_front_values(&a.layer);
  a.activation = a.layer.activation;
  if (p->keep) a.slope = p->layer[l].slope;
  if (a.layer.skip != TT_FRONT_NO_SKIP) a.add = result_of(p, a.layer.skip, &a.add_step);
  return kinds[a.layer.kind].forward(a, p->members, p->stream);
}

tt_err tt_cuda_front_forward(const tt_cuda_front_pass *p, int begin, int end)
{
  for (int l = begin; l < end; l++) TT_TRY(forward_layer(p, l));
  return TT_OK;
}

/* Whether a span that adds the result of layer l (-1: the inputs) begins behind it. */
static int begins_residual(const tt_front *f, int l)
{
  for (int e = l + 1; e < f->layers; e++)
    if (f->layer[e].skip == l) return 1;
  return 0;
}

/* What follows the sum dL/dy of layer l, so that the result is its dL/dz. */
static void end_at_layer(const tt_cuda_front_pass *p, const tt_cuda_front_backward_args *b, int l,
                         tt_front_layer_args *a)
{
  const tt_front_layer *layer = &p->front->layer[l];
  a->activation = layer->activation;
  a->slope = p->layer[l].slope;
  if (layer->activation != TT_ACT_identity) a->y = p->layer[l].y;
  if (layer->skip != TT_FRONT_NO_SKIP) a->before_slope = b->residual_delta;
}

/* dL/dz of layer l -> dL/dz of the layer before, or, of layer `begin`, dL/d(its input). */
static tt_err backward_layer(const tt_cuda_front_pass *p, const tt_cuda_front_backward_args *b,
                             int l, tt_front_layer_args a, float *before)
{
  a.result = before;
  a.step = a.add_step = p->rows * tt_front_values_in(&a.layer);
  if (begins_residual(p->front, l - 1)) a.add = b->residual_delta;
  if (l > b->begin) end_at_layer(p, b, l - 1, &a);
  return kinds[a.layer.kind].backward(a, p->members, p->stream);
}

/* As behind a layer that changes nothing: dropout without a mask. */
tt_err tt_cuda_front_output_backward(const tt_cuda_front_pass *p,
                                     const tt_cuda_front_backward_args *b)
{
  tt_front_layer_args a = {};
  a.layer = p->front->layer[b->end - 1];
  a.skip = p->skip;
  a.rows = p->rows;
  a.d = a.result = b->delta[0];
  a.d_step = a.step = p->rows * tt_front_values(&a.layer);
  end_at_layer(p, b, b->end - 1, &a);
  return tt_front_mask_backward(a, p->members, p->stream);
}

/* The gradient of the parameters of a layer. */
static tt_err layer_gradient(const tt_cuda_front_pass *p, const tt_front_layer_args &a)
{
  if (a.layer.kind == TT_FRONT_conv) TT_TRY(tt_front_conv_gradient(a, p->members, p->stream));
  return tt_front_channel_gradient(a, p->members, p->stream);
}

tt_err tt_cuda_front_backward(const tt_cuda_front_pass *p, const tt_cuda_front_backward_args *b)
{
  int turn = 0, last = b->inputs || b->first < b->begin ? b->begin : b->first;
  for (int l = b->end - 1; l >= last; l--, turn = 1 - turn) {
    tt_front_layer_args a = layer_args(p, l);
    float *before = l > b->begin ? b->delta[1 - turn] : b->inputs;
    a.d = b->delta[turn];
    a.d_step = p->rows * tt_front_values(&a.layer);
    a.gradient = b->gradient;
    if (l == last && l > b->begin) before = NULL;
    if (a.layer.weight >= 0 && b->trains[l]) TT_TRY(layer_gradient(p, a));
    if (before) TT_TRY(backward_layer(p, b, l, a, before));
  }
  return TT_OK;
}
