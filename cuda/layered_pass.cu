/* layered_pass.cu — the layers there and back, for all members at once; see layered.cuh.
 *
 * cuBLAS counts columns first: a row-major [rows][n] is its n x rows, a weight matrix [out][in] its
 * in x out, so that no product needs a transposed copy:
 *   Z = W X        out x rows   (in x out)^T  (in x rows)
 *   before = W^T D in x rows    (in x out)    (out x rows)
 *   gradient       in x out     (in x rows)   (out x rows)^T */
#include "cuda/layered_kernels.cuh"

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
  a.gradient = own->gradient + layer->weight;
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

static tt_err layer_forward(tt_engine *e, const tt_pass *pass, int l)
{
  tt_layer_args a = layer_args(e, pass, l);
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

tt_err tt_layered_forward(tt_engine *e, const tt_pass *pass)
{
  for (int l = 0; l < e->cohort->model.layers; l++) TT_TRY(layer_forward(e, pass, l));
  return TT_OK;
}

static tt_err layer_backward(tt_engine *e, const tt_pass *pass, int l, float *delta, float *before)
{
  tt_layer_args a = layer_args(e, pass, l);
  const size_t sums = TT_LAYERED_THREADS * sizeof(float);
  int64_t in = a.in, out = a.out, rows = a.rows;
  int through_kernels = tt_layered_thin(&e->cohort->model.layer[l]);
  a.delta = delta;
  a.before = before;
  tt_layer_args finish = a;
  finish.y = delta;
  TT_TRY(start(e, pass, finish_delta, finish, out, TT_WARP, sums));
  if (through_kernels) {
    TT_TRY(start(e, pass, thin_gradient, a, in * out, TT_WARP, sums));
    return l ? start(e, pass, thin_back, a, rows * in, TT_ELEMENTS, 0) : TT_OK;
  }
  tt_operand x = {a.x, in, a.x_step, CUBLAS_OP_N}, d = {delta, out, rows * out, CUBLAS_OP_N};
  tt_operand turned = {delta, out, rows * out, CUBLAS_OP_T}, w = {a.w, in, a.params, CUBLAS_OP_N};
  TT_TRY(tt_layered_multiply(e, pass, in, out, rows, x, turned, a.gradient, a.params));
  if (l == 0) return TT_OK;
  return tt_layered_multiply(e, pass, in, rows, out, w, d, before, rows * in);
}

tt_err tt_layered_backward(tt_engine *e, const tt_pass *pass)
{
  const tt_layered *own = tt_layered_of(e);
  int at = 0;
  for (int l = e->cohort->model.layers - 1; l >= 0; l--, at = 1 - at)
    TT_TRY(layer_backward(e, pass, l, own->delta[at], own->delta[1 - at]));
  return TT_OK;
}
