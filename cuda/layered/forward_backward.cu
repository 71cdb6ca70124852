/* forward_backward.cu — forward and backward pass for all members at once; see
 * layered_internal.cuh.
 *
 * cuBLAS is column-major: a row-major [rows][n] is its n x rows, a weight matrix [out][in] its in x
 * out, so that no product needs a transposed copy:
 *   Z = W X         out x rows   (in x out)^T  (in x rows)
 *   dL/dX = W^T D   in x rows    (in x out)    (out x rows)
 *   gradient        in x out     (in x rows)   (out x rows)^T */
#include "cuda/layered/layer_extras.cuh"

int64_t tt_layered_group(const tt_cohort *c)
{
  const int64_t side = 128, most_rows = 65536;
  int64_t widest = 1, group = TT_GROUP_MIN_MEMBERS;
  int64_t rows = c->batch_size < most_rows ? c->batch_size : most_rows;
  for (int l = 0; l < c->model.layers; l++)
    if (c->model.layer[l].out > widest) widest = c->model.layer[l].out;
  int64_t tiles = ((rows + side - 1) / side) * ((widest + side - 1) / side);
  while (group * tiles < TT_GROUP_TILES && group < TT_GROUP_MAX_MEMBERS) group *= 2;
  return group;
}

int tt_layered_uses_gemm(const tt_model *m)
{
  int wide = 0;
  for (int l = 0; l < m->layers; l++) wide += !tt_layered_is_narrow(&m->layer[l]);
  return wide > 0;
}

static tt_layer_args layer_args(tt_engine *e, const tt_layered_pass *pass, int l)
{
  const tt_layered *own = tt_layered_of(e);
  const tt_model *m = &e->cohort->model;
  const tt_layer *layer = &m->layer[l];
  tt_layer_args a = {};
  a.skip = pass->skip ? pass->skip + pass->first : NULL;
  a.w = pass->w + pass->first * pass->w_stride + layer->weight;
  a.x = l ? own->h[l - 1] : own->x;
  a.x_stride = l ? pass->rows * layer->in : pass->x_stride;
  a.y = own->h[l];
  a.slope = pass->keep ? own->slope[l] : NULL;
  if (pass->gradient) a.gradient = pass->gradient + layer->weight;
  a.params = pass->w_stride;
  a.rows = pass->rows;
  a.in = (int32_t)layer->in;
  a.out = (int32_t)layer->out;
  a.activation = layer->activation;
  return a;
}

/* Launch `kernel` with `items` items per member, `each` items per block. */
static tt_err launch_layer(tt_engine *e, const tt_layered_pass *pass, void (*kernel)(tt_layer_args),
                           tt_layer_args a, int64_t items, int each, size_t shared_bytes)
{
  a.parts = (int32_t)tt_grid_size(items, each);
  return tt_launch(kernel, (unsigned)pass->members * (unsigned)a.parts, TT_LAYERED_THREADS,
                   shared_bytes, e->dev.stream, a);
}

/* Whether a layer has parts beyond its product and activation in this pass. */
static int has_extras(const tt_layered *own, const tt_layered_pass *pass, const tt_layer *layer)
{
  return layer->norm >= 0 || layer->residual || (pass->keep && own->uses_dropout && layer->dropout);
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
  a.residual_delta = own->residual_delta;
  a.params = pass->w_stride;
  a.first = pass->first;
  a.rows = pass->rows;
  a.out = (int32_t)layer->out;
  for (int k = 0; k < l; k++) a.unit += (int32_t)m->layer[k].out;
  a.uses_dropout = pass->keep && own->uses_dropout && layer->dropout;
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

/* Whether outputs and biases of a layer can be accessed TT_VECTOR at a time. */
static int has_bias_vectors(const tt_layer *layer)
{
  return layer->out % TT_VECTOR == 0 && layer->bias % TT_VECTOR == 0;
}

static tt_err layer_product(tt_engine *e, const tt_layered_pass *pass, int l, tt_layer_args a)
{
  const tt_layer *layer = &e->cohort->model.layer[l];
  int64_t in = a.in, out = a.out, rows = a.rows;
  if (in <= TT_NARROW_WIDTH) {
    int64_t blocks = (int64_t)tt_grid_size(out, TT_NARROW_TILE_OUTPUTS) *
                     tt_grid_size(rows, TT_NARROW_TILE_ROWS);
    return launch_layer(e, pass, narrow_input_forward, a, blocks, 1,
                        (size_t)(in * (TT_NARROW_TILE_OUTPUTS + 1)) * sizeof(float));
  }
  if (out <= TT_NARROW_WIDTH)
    return launch_layer(e, pass, narrow_output_forward, a, rows, TT_LAYERED_WARPS, 0);
  tt_gemm_operand w = {a.w, in, a.params, 1}, x = {a.x, in, a.x_stride, 0};
  TT_TRY(tt_layered_gemm(e, pass, out, rows, in, w, x, a.y, rows * out));
  return launch_layer(e, pass, has_bias_vectors(layer) ? add_bias<TT_VECTOR> : add_bias<1>, a,
                      rows * out, TT_BLOCK_ELEMENTS, 0);
}

static tt_err layer_forward(tt_engine *e, const tt_layered_pass *pass, int l)
{
  tt_layer_args a = layer_args(e, pass, l);
  if (!has_extras(tt_layered_of(e), pass, &e->cohort->model.layer[l]))
    return layer_product(e, pass, l, a);
  a.activation = TT_ACT_identity; /* z only */
  a.slope = NULL;
  TT_TRY(layer_product(e, pass, l, a));
  return launch_extras(e, pass, layer_extras_forward, extras_args(e, pass, l), a.rows,
                       TT_LAYERED_WARPS * TT_DROPOUT_DRAW_ROWS);
}

tt_err tt_layered_forward(tt_engine *e, const tt_layered_pass *pass)
{
  for (int l = 0; l < e->cohort->model.layers; l++) TT_TRY(layer_forward(e, pass, l));
  return TT_OK;
}

/* delta holds dL/dy of a layer: computes dL/dz, and the gradient of gains and shifts. */
static tt_err extras_backward(tt_engine *e, const tt_layered_pass *pass, int l, float *delta)
{
  const tt_layer *layer = &e->cohort->model.layer[l];
  tt_layer_extras_args a = extras_args(e, pass, l);
  a.delta = delta;
  if (layer->residual)
    TT_TRY(tt_dev_copy(tt_layered_of(e)->residual_delta, delta,
                       (int64_t)pass->members * a.rows * a.out, e->dev.stream));
  if (layer->norm < 0) return TT_OK;
  TT_TRY(launch_extras(e, pass, layer_norm_gradient, a, a.out, TT_WARP_SIZE));
  return launch_extras(e, pass, layer_norm_backward, a, a.rows, TT_LAYERED_WARPS);
}

/* product_backward of a narrow layer. */
static tt_err narrow_backward(tt_engine *e, const tt_layered_pass *pass, int l, tt_layer_args a)
{
  const tt_layer *layer = &e->cohort->model.layer[l];
  const size_t shared_bytes = TT_NARROW_WIDTH * TT_LAYERED_THREADS * sizeof(float);
  int whole = layer->in % TT_VECTOR == 0 && layer->weight % TT_VECTOR == 0;
  TT_TRY(launch_layer(e, pass, narrow_weight_gradient, a, a.in > a.out ? a.in : a.out, TT_WARP_SIZE,
                      shared_bytes));
  if (!a.input_delta) return TT_OK;
  return launch_layer(e, pass, whole ? narrow_input_gradient<TT_VECTOR> : narrow_input_gradient<1>,
                      a, (int64_t)a.rows * a.in, TT_BLOCK_ELEMENTS, 0);
}

/* dL/dz in delta -> the gradient of the layer's weights, and dL/dx in `input_delta` unless NULL. */
static tt_err product_backward(tt_engine *e, const tt_layered_pass *pass, int l, float *delta,
                               float *input_delta)
{
  tt_layer_args a = layer_args(e, pass, l);
  int64_t in = a.in, out = a.out, rows = a.rows;
  a.delta = delta;
  a.input_delta = input_delta;
  if (tt_layered_is_narrow(&e->cohort->model.layer[l])) return narrow_backward(e, pass, l, a);
  tt_gemm_operand x = {a.x, in, a.x_stride, 0}, d = {delta, out, rows * out, 0};
  tt_gemm_operand delta_transposed = {delta, out, rows * out, 1}, w = {a.w, in, a.params, 0};
  TT_TRY(tt_layered_gemm(e, pass, in, out, rows, x, delta_transposed, a.gradient, a.params));
  if (!input_delta) return TT_OK;
  return tt_layered_gemm(e, pass, in, rows, out, w, d, input_delta, rows * in);
}

static tt_err layer_backward(tt_engine *e, const tt_layered_pass *pass, int l, float *delta,
                             float *input_delta)
{
  const tt_layer *layer = &e->cohort->model.layer[l];
  tt_layer_args delta_args = layer_args(e, pass, l);
  int wide = has_bias_vectors(layer), vector = wide ? TT_VECTOR : 1;
  if (!delta_args.slope && l < e->cohort->model.layers - 1) delta_args.h = delta_args.y;
  if (layer->norm >= 0) delta_args.slope = NULL; /* delta already includes the slope */
  delta_args.y = delta;
  TT_TRY(extras_backward(e, pass, l, delta));
  TT_TRY(launch_layer(e, pass, wide ? delta_bias_gradient<TT_VECTOR> : delta_bias_gradient<1>,
                      delta_args, delta_args.out, TT_WARP_SIZE * vector,
                      (size_t)vector * TT_LAYERED_THREADS * sizeof(float)));
  TT_TRY(product_backward(e, pass, l, delta, input_delta));
  if (!layer->residual || !input_delta) return TT_OK;
  tt_layer_extras_args a = extras_args(e, pass, l);
  a.y = input_delta;
  return launch_extras(e, pass, add_residual_delta, a, (int64_t)a.rows * a.out, TT_BLOCK_ELEMENTS);
}

tt_err tt_layered_backward(tt_engine *e, const tt_layered_pass *pass)
{
  const tt_layered *own = tt_layered_of(e);
  int at = 0;
  for (int l = e->cohort->model.layers - 1; l >= 0; l--, at = 1 - at)
    TT_TRY(layer_backward(e, pass, l, own->delta[at], l ? own->delta[1 - at] : pass->inputs));
  return TT_OK;
}
