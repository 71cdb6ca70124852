/* forward_backward.cu — the layers there and back, for all members at once; see
 * layered_internal.cuh.
 *
 * cuBLAS counts columns first: a row-major [rows][n] is its n x rows, a weight matrix [out][in] its
 * in x out, so that no product needs a transposed copy:
 *   Z = W X        out x rows   (in x out)^T  (in x rows)
 *   before = W^T D in x rows    (in x out)    (out x rows)
 *   gradient       in x out     (in x rows)   (out x rows)^T */
#include "cuda/layered/layer_extras.cuh"

int64_t tt_layered_group(const tt_cohort *c)
{
  const int64_t side = 128, most_rows = 65536;
  int64_t widest = 1, group = TT_GROUP_LEAST;
  int64_t rows = c->batch_size < most_rows ? c->batch_size : most_rows;
  for (int l = 0; l < c->model.layers; l++)
    if (c->model.layer[l].out > widest) widest = c->model.layer[l].out;
  int64_t tiles = ((rows + side - 1) / side) * ((widest + side - 1) / side);
  while (group * tiles < TT_GROUP_TILES && group < TT_GROUP_MOST) group *= 2;
  return group;
}

int tt_layered_multiplies(const tt_model *m)
{
  int wide = 0;
  for (int l = 0; l < m->layers; l++) wide += !tt_layered_thin(&m->layer[l]);
  return wide > 0;
}

static tt_layer_args layer_args(tt_engine *e, const tt_pass *pass, int l)
{
  const tt_layered *own = tt_layered_of(e);
  const tt_model *m = &e->cohort->model;
  const tt_layer *layer = &m->layer[l];
  tt_layer_args a = {};
  a.skip = pass->skip ? pass->skip + pass->first : NULL;
  a.w = pass->w + pass->first * pass->w_step + layer->weight;
  a.x = l ? own->h[l - 1] : own->x;
  a.x_step = l ? pass->rows * layer->in : pass->x_step;
  a.y = own->h[l];
  a.slope = pass->keep ? own->slope[l] : NULL;
  if (pass->gradient) a.gradient = pass->gradient + layer->weight;
  a.params = pass->w_step;
  a.rows = pass->rows;
  a.in = (int32_t)layer->in;
  a.out = (int32_t)layer->out;
  a.activation = layer->activation;
  return a;
}

/* Start `kernel` with `items` to do for each member, `each` a block. */
static tt_err start(tt_engine *e, const tt_pass *pass, void (*kernel)(tt_layer_args),
                    tt_layer_args a, int64_t items, int each, size_t shared_bytes)
{
  a.parts = (int32_t)tt_blocks(items, each);
  return tt_launch(kernel, (unsigned)pass->members * (unsigned)a.parts, TT_LAYERED_THREADS,
                   shared_bytes, e->dev.stream, a);
}

/* What a layer has beyond its product and activation in this pass. */
static int finishes(const tt_layered *own, const tt_pass *pass, const tt_layer *layer)
{
  return layer->norm >= 0 || layer->residual || (pass->keep && own->drops && layer->dropout);
}

static tt_finish_args finish_args(tt_engine *e, const tt_pass *pass, int l)
{
  const tt_layered *own = tt_layered_of(e);
  const tt_model *m = &e->cohort->model;
  const tt_layer *layer = &m->layer[l];
  tt_finish_args a = {};
  a.v = e->view;
  a.skip = pass->skip ? pass->skip + pass->first : NULL;
  if (layer->norm >= 0) a.gain = pass->w + pass->first * pass->w_step + layer->norm;
  if (layer->norm >= 0 && pass->gradient) a.gradient = pass->gradient + layer->norm;
  if (layer->residual) a.x = l ? own->h[l - 1] : own->x;
  a.x_step = l ? pass->rows * layer->in : pass->x_step;
  a.y = own->h[l];
  if (pass->keep) a.slope = own->slope[l], a.hat = own->hat[l], a.root = own->root[l];
  a.carry = own->carry;
  a.params = pass->w_step;
  a.first = pass->first;
  a.rows = pass->rows;
  a.out = (int32_t)layer->out;
  for (int k = 0; k < l; k++) a.unit += (int32_t)m->layer[k].out;
  a.drops = pass->keep && own->drops && layer->dropout;
  a.activation = layer->activation;
  return a;
}

static tt_err start_finish(tt_engine *e, const tt_pass *pass, void (*kernel)(tt_finish_args),
                           tt_finish_args a, int64_t items, int each)
{
  a.parts = (int32_t)tt_blocks(items, each);
  return tt_launch(kernel, (unsigned)pass->members * (unsigned)a.parts, TT_LAYERED_THREADS,
                   2 * TT_LAYERED_THREADS * sizeof(float), e->dev.stream, a);
}

static tt_err layer_product(tt_engine *e, const tt_pass *pass, tt_layer_args a)
{
  int64_t in = a.in, out = a.out, rows = a.rows;
  if (in <= TT_THIN) {
    int64_t blocks = (int64_t)tt_blocks(out, TT_WIDE) * tt_blocks(rows, TT_TALL);
    return start(e, pass, thin_inputs, a, blocks, 1,
                 (size_t)(in * (TT_WIDE + 1)) * sizeof(float));
  }
  if (out <= TT_THIN) return start(e, pass, thin_outputs, a, rows, TT_LAYERED_WARPS, 0);
  tt_operand w = {a.w, in, a.params, CUBLAS_OP_T}, x = {a.x, in, a.x_step, CUBLAS_OP_N};
  TT_TRY(tt_layered_multiply(e, pass, out, rows, in, w, x, a.y, rows * out));
  return start(e, pass, add_bias, a, rows * out, TT_ELEMENTS, 0);
}

static tt_err layer_forward(tt_engine *e, const tt_pass *pass, int l)
{
  tt_layer_args a = layer_args(e, pass, l);
  if (!finishes(tt_layered_of(e), pass, &e->cohort->model.layer[l]))
    return layer_product(e, pass, a);
  a.activation = TT_ACT_identity; /* z alone */
  a.slope = NULL;
  TT_TRY(layer_product(e, pass, a));
  return start_finish(e, pass, finish_rows, finish_args(e, pass, l), a.rows,
                      TT_LAYERED_WARPS * TT_FINISH_ROWS);
}

tt_err tt_layered_forward(tt_engine *e, const tt_pass *pass)
{
  for (int l = 0; l < e->cohort->model.layers; l++) TT_TRY(layer_forward(e, pass, l));
  return TT_OK;
}

/* delta holds dL/dy of a layer: dL/dz, and the gradient of what it has beyond a plain one. */
static tt_err unfinish(tt_engine *e, const tt_pass *pass, int l, float *delta)
{
  const tt_layer *layer = &e->cohort->model.layer[l];
  tt_finish_args a = finish_args(e, pass, l);
  a.delta = delta;
  if (layer->residual)
    TT_TRY(tt_dev_copy(tt_layered_of(e)->carry, delta, (int64_t)pass->members * a.rows * a.out,
                       e->dev.stream));
  if (layer->norm < 0) return TT_OK;
  TT_TRY(start_finish(e, pass, norm_gradient, a, a.out, TT_WARP));
  return start_finish(e, pass, norm_back, a, a.rows, TT_LAYERED_WARPS);
}

/* dL/dz in delta -> the gradient of the layer's weights, and dL/dx in `before` unless NULL. */
static tt_err product_back(tt_engine *e, const tt_pass *pass, int l, float *delta, float *before)
{
  tt_layer_args a = layer_args(e, pass, l);
  const size_t sums = TT_LAYERED_THREADS * sizeof(float);
  int64_t in = a.in, out = a.out, rows = a.rows;
  a.delta = delta;
  a.before = before;
  if (tt_layered_thin(&e->cohort->model.layer[l])) {
    TT_TRY(start(e, pass, thin_gradient, a, in * out, TT_WARP, sums));
    return before ? start(e, pass, thin_back, a, rows * in, TT_ELEMENTS, 0) : TT_OK;
  }
  tt_operand x = {a.x, in, a.x_step, CUBLAS_OP_N}, d = {delta, out, rows * out, CUBLAS_OP_N};
  tt_operand turned = {delta, out, rows * out, CUBLAS_OP_T}, w = {a.w, in, a.params, CUBLAS_OP_N};
  TT_TRY(tt_layered_multiply(e, pass, in, out, rows, x, turned, a.gradient, a.params));
  if (!before) return TT_OK;
  return tt_layered_multiply(e, pass, in, rows, out, w, d, before, rows * in);
}

static tt_err layer_backward(tt_engine *e, const tt_pass *pass, int l, float *delta, float *before)
{
  const tt_layer *layer = &e->cohort->model.layer[l];
  tt_layer_args finish = layer_args(e, pass, l);
  finish.y = delta;
  if (layer->norm >= 0) finish.slope = NULL; /* it is in delta already */
  TT_TRY(unfinish(e, pass, l, delta));
  TT_TRY(start(e, pass, finish_delta, finish, finish.out, TT_WARP,
               TT_LAYERED_THREADS * sizeof(float)));
  TT_TRY(product_back(e, pass, l, delta, before));
  if (!layer->residual || !before) return TT_OK;
  tt_finish_args a = finish_args(e, pass, l);
  a.y = before;
  return start_finish(e, pass, add_carry, a, (int64_t)a.rows * a.out, TT_ELEMENTS);
}

tt_err tt_layered_backward(tt_engine *e, const tt_pass *pass)
{
  const tt_layered *own = tt_layered_of(e);
  int at = 0;
  for (int l = e->cohort->model.layers - 1; l >= 0; l--, at = 1 - at)
    TT_TRY(layer_backward(e, pass, l, own->delta[at], l ? own->delta[1 - at] : pass->inputs));
  return TT_OK;
}
