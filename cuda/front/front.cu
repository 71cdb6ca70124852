/* front.cu — the layers of a front one after the other; see front.cuh.
 *
 * A delta is always dL/dz: the backward pass of a layer ends with the slope of the layer before it,
 * as in the dense layers. Spans of a residual are not inside each other, so one array keeps the
 * derivative by the sum at the end of a span for the layer that is added, and one that by the input
 * of a projection for the layer where the span begins. */
#include "cuda/front/front.cuh"
#include "cuda/front/front_layer.cuh"

/* How a layer of each kind is computed; residuals and blocks are no layers. */
static const struct {
  tt_front_function *forward, *backward;
} kinds[] = {{tt_front_conv_forward, tt_front_conv_backward},
             {tt_front_norm_forward, tt_front_norm_backward},
             {tt_front_pool_forward, tt_front_pool_backward},
             {tt_front_pool_forward, tt_front_pool_backward},
             {tt_front_mask_forward, tt_front_mask_backward},
             {tt_front_batch_norm_forward, tt_front_batch_norm_backward}};
static_assert(TT_FRONT_conv == 0 && TT_FRONT_group_norm == 1 && TT_FRONT_pool == 2 &&
                  TT_FRONT_global_mean == 3 && TT_FRONT_dropout == 4 && TT_FRONT_batch_norm == 5 &&
                  TT_FRONT_residual == 6 && TT_FRONT_KIND_COUNT == 10,
              "kinds has this order");

static const tt_front_layer *layer_of(const tt_cuda_front_pass *p, int l)
{
  return &p->front->layer[l];
}

static int trains(const tt_cuda_front_pass *p, int l) { return p->front->layer[l].rate > 0.0f; }

/* Whether layer l begins a projection: it does not read the layer before. */
static int begins_projection(const tt_cuda_front_pass *p, int l)
{
  return layer_of(p, l)->from != l - 1;
}

/* Result of layer l, -1: the inputs, of the first member; and the distance to that of the next. */
static const float *result_of(const tt_cuda_front_pass *p, int l, int64_t *step)
{
  *step = l < 0 ? p->x_step : p->rows * tt_front_values(layer_of(p, l));
  return l < 0 ? p->x : p->layer[l].y;
}

/* Without what follows the sum. */
static tt_front_layer_args layer_args(const tt_cuda_front_pass *p, int l)
{
  tt_front_layer_args a = {};
  a.layer = *layer_of(p, l);
  a.skip = p->skip;
  a.rows = p->rows;
  a.x = result_of(p, a.layer.from, &a.x_step);
  a.w = p->w;
  a.w_step = p->w_step;
  a.batch = p->batch;
  a.precision = p->precision;
  a.multiprocessors = p->multiprocessors;
  a.clusters = p->clusters;
  a.chunk_sums = p->keep ? p->chunk_sums : NULL;
  a.most_chunk_sums = p->most_chunk_sums;
  if (p->keep) a.mask = p->layer[l].mask, a.moments = p->layer[l].moments;
  if (a.layer.kind == TT_FRONT_batch_norm && !trains(p, l)) a.moments = NULL;
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

/* What other layers than l + 1 add to dL/dy of layer l (-1: the inputs), where a span begins behind
 * it: the end of the span, or its projection; or NULL. */
static const float *added_delta(const tt_cuda_front_pass *p, const tt_cuda_front_backward_args *b,
                                int l)
{
  for (int e = l + 2; e < p->front->layers; e++)
    if (begins_projection(p, e) && layer_of(p, e)->from == l) return b->branch_delta;
  for (int e = l + 1; e < p->front->layers; e++)
    if (layer_of(p, e)->skip == l) return b->residual_delta;
  return NULL;
}

/* What follows the sum dL/dy of layer l, so that the result is its dL/dz. */
static void end_at_layer(const tt_cuda_front_pass *p, const tt_cuda_front_backward_args *b, int l,
                         tt_front_layer_args *a)
{
  const tt_front_layer *layer = layer_of(p, l);
  a->activation = layer->activation;
  a->slope = p->layer[l].slope;
  if (layer->activation != TT_ACT_identity) a->y = p->layer[l].y;
  if (layer->skip != TT_FRONT_NO_SKIP && !layer->activates_sum) a->before_slope = b->residual_delta;
}

/* dL/dz of layer l -> dL/dz of the layer before, or, of layer `begin`, dL/d(its input). */
static tt_err backward_layer(const tt_cuda_front_pass *p, const tt_cuda_front_backward_args *b,
                             int l, tt_front_layer_args a, float *before)
{
  a.result = before;
  a.step = a.add_step = p->rows * tt_front_values_in(&a.layer);
  a.add = added_delta(p, b, l - 1);
  if (l > b->begin) end_at_layer(p, b, l - 1, &a);
  return kinds[a.layer.kind].backward(a, p->members, p->stream);
}

/* d -> result, values of layer l, as behind a layer that changes nothing: dropout without a mask.
 */
static tt_front_layer_args copy_args(const tt_cuda_front_pass *p, int l, const float *d,
                                     float *result)
{
  tt_front_layer_args a = {};
  a.layer = *layer_of(p, l);
  a.skip = p->skip;
  a.rows = p->rows;
  a.d = d;
  a.result = result;
  a.d_step = a.step = p->rows * tt_front_values(&a.layer);
  return a;
}

/* dL/dy of layer l in `d` -> its dL/dz. */
static tt_err finish_layer(const tt_cuda_front_pass *p, const tt_cuda_front_backward_args *b, int l,
                           const float *d, float *result)
{
  tt_front_layer_args a = copy_args(p, l, d, result);
  end_at_layer(p, b, l, &a);
  return tt_front_mask_backward(a, p->members, p->stream);
}

tt_err tt_cuda_front_output_backward(const tt_cuda_front_pass *p,
                                     const tt_cuda_front_backward_args *b)
{
  return finish_layer(p, b, b->end - 1, b->delta[0], b->delta[0]);
}

/* From dL/dz of the first layer of a projection: dL/d(its input) for the layer where the span
 * begins; and dL/dz of the layer before, the end of the rows of the span, in `before`. */
static tt_err leave_projection(const tt_cuda_front_pass *p, const tt_cuda_front_backward_args *b,
                               int l, tt_front_layer_args a, float *before)
{
  a.result = b->branch_delta;
  a.step = p->rows * tt_front_values_in(&a.layer);
  if (a.layer.from >= b->begin || b->inputs)
    TT_TRY(kinds[a.layer.kind].backward(a, p->members, p->stream));
  return finish_layer(p, b, l - 1, b->residual_delta, before);
}

/* The gradient of the parameters of a layer. That of batch_norm follows from the sums of its
 * backward pass, if there is one. */
static tt_err layer_gradient(const tt_cuda_front_pass *p, const tt_front_layer_args &a,
                             int has_backward)
{
  if (a.layer.kind == TT_FRONT_batch_norm && has_backward) return TT_OK;
  if (a.layer.kind == TT_FRONT_conv) TT_TRY(tt_front_conv_gradient(a, p->members, p->stream));
  if (a.layer.bias < 0) return TT_OK;
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
    if (a.layer.activates_sum) {
      const tt_front_layer_args sum = copy_args(p, l, a.d, b->residual_delta);
      TT_TRY(tt_front_mask_backward(sum, p->members, p->stream));
    }
    if (a.layer.weight >= 0 && trains(p, l))
      TT_TRY(layer_gradient(p, a, before && !begins_projection(p, l)));
    if (!before) continue;
    TT_TRY(begins_projection(p, l) ? leave_projection(p, b, l, a, before)
                                   : backward_layer(p, b, l, a, before));
  }
  return TT_OK;
}
