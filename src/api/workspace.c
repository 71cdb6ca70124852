/* workspace.c — see workspace.h and tutti.h. */
#include "src/api/workspace.h"

#include "core/base/int.h"
#include "core/base/mem.h"
#include "src/api/call.h"
#include "src/host/resources.h"
#include "src/predict/prediction_block.h"

/* Sizes of the arrays of a tt_row_scratch, the largest of all trained ensembles. */
typedef struct scratch_sizes {
  int64_t inputs, outputs, scratch, columns;
} scratch_sizes;

static scratch_sizes measure(const tutti_model *model)
{
  scratch_sizes most = {0};
  for (int64_t i = 0; i < model->all.count; i++) {
    const tt_trained_ensemble *m = model->all.at[i];
    most.inputs = tt_max_i64(most.inputs, m->model.inputs);
    most.outputs = tt_max_i64(most.outputs, m->model.outputs);
    most.scratch = tt_max_i64(most.scratch, tt_single_row_scratch(model->single[i]));
    most.columns = tt_max_i64(most.columns, tt_trained_ensemble_columns(m));
  }
  return most;
}

/* Floats come first, so that the scratch is aligned; two of them take the place of a double. */
static tt_err allocate_arrays(const tutti_model *model, int derivatives, tt_row_scratch *r)
{
  scratch_sizes n = measure(model);
  int64_t slopes = derivatives ? n.outputs * n.inputs : 0;
  int64_t floats = (n.scratch + n.inputs + n.outputs + slopes + 1) / 2;
  TT_TRY(TT_ALLOC(r->block, floats + n.outputs + slopes + 4 * n.columns));
  r->scratch = (float *)(void *)r->block;
  r->x = r->scratch + n.scratch;
  r->o = r->x + n.inputs;
  r->d_o = r->o + n.outputs;
  r->out = r->block + floats;
  r->d_out = r->out + n.outputs;
  r->sums = r->d_out + slopes;
  return TT_OK;
}

/* tt_slopes_source.at: adds the member to the moments too. Derivatives that are not wanted keep
 * older values, which nothing that is wanted depends on. */
static tt_member_outputs member_outputs(void *context, int64_t member)
{
  tt_row_scratch *r = context;
  const tt_single_row *single = r->model->single[r->current];
  const tt_model *m = &r->model->all.at[r->current]->model;
  tt_single_row_member(single, member, r->x, r->wanted, r->scratch, r->o, r->d_o);
  tt_single_row_add(single, member, r->o, r->scratch, &r->moments);
  for (int64_t i = 0; i < m->outputs; i++) {
    int64_t column = i % m->targets * m->each + i / m->targets;
    r->out[column] = (double)r->o[i];
    for (int64_t d = 0; i < r->wanted && d < m->inputs; d++)
      r->d_out[column * m->inputs + d] = (double)r->d_o[i * m->inputs + d];
  }
  return (tt_member_outputs){r->out, r->d_out};
}

tt_err tt_row_scratch_create(const tutti_model *model, int derivatives, tt_row_scratch *out)
{
  const tt_slopes_source source = {member_outputs, out};
  *out = (tt_row_scratch){.model = model};
  if (model->single) TT_TRY(allocate_arrays(model, derivatives, out));
  if (!derivatives) return TT_OK;
  TT_TRY(TT_ALLOC(out->slopes, model->all.count));
  for (int64_t i = 0; i < model->all.count; i++)
    TT_TRY(tt_row_slopes_create(model->all.at[i], model->single ? &source : NULL, &out->slopes[i]));
  return TT_OK;
}

void tt_row_scratch_free(tt_row_scratch *r)
{
  for (int64_t i = 0; r->slopes && i < r->model->all.count; i++) tt_row_slopes_free(&r->slopes[i]);
  tt_free_all(&r->slopes, &r->block);
}

static void store_cell(const tutti_prediction *out, int64_t cell, tt_uncertainty uncertainty)
{
  if (out->mean) out->mean[cell] = uncertainty.mean;
  if (out->total) out->total[cell] = uncertainty.total;
  if (out->aleatoric) out->aleatoric[cell] = uncertainty.aleatoric;
  if (out->epistemic) out->epistemic[cell] = uncertainty.epistemic;
}

static void clear_moments(tt_row_scratch *r, int64_t columns)
{
  double *place = r->sums;
  r->moments =
      (tt_moments){1, columns, place, place + columns, place + 2 * columns, place + 3 * columns};
  tt_moments_clear(&r->moments);
}

/* Columns of the present trained ensemble, which begin at cell `first`. */
static void store_moments(const tt_row_scratch *r, int64_t first, const tutti_prediction *out)
{
  for (int64_t c = 0; c < r->moments.columns; c++) {
    tt_column_scale s = tt_column_scale_of(r->model->all.at[r->current], c);
    store_cell(out, first + c, tt_denormalize(&s, tt_moments_at(&r->moments, 0, c)));
  }
}

/* The derivatives of the mean alone need only the first output of each target, if the second one
 * is for the variance. */
static int64_t count_wanted(const tt_model *m, const tt_jacobian *slopes)
{
  int all = slopes->total || slopes->aleatoric || slopes->epistemic;
  return all || !tt_output_has_variance(m->output) ? m->outputs : m->targets;
}

void tt_row_compute(tt_row_scratch *r, int64_t row, const double *x, const tutti_prediction *out)
{
  const tutti_model *model = r->model;
  const tt_jacobian slopes = {out->mean_gradient, out->total_gradient, out->aleatoric_gradient,
                              out->epistemic_gradient};
  int derivatives = slopes.mean || slopes.total || slopes.aleatoric || slopes.epistemic;
  int64_t inputs = tutti_inputs(model), cell = row * model->labels.columns;
  x += row * inputs;
  if (model->single) tt_scaler_normalize_inputs(&model->all.at[0]->scaler, 1, x, r->x);
  for (int64_t i = r->current = 0; i < model->all.count; r->current = ++i) {
    const tt_trained_ensemble *m = model->all.at[i];
    int64_t columns = tt_trained_ensemble_columns(m);
    const tt_jacobian own = tt_jacobian_from(&slopes, cell * inputs);
    r->wanted = count_wanted(&m->model, &slopes);
    if (model->single) clear_moments(r, columns);
    if (derivatives)
      tt_jacobian_row(&r->slopes[i], x, &own);
    else
      tt_single_row_predict(model->single[i], r->x, r->scratch, &r->moments);
    if (model->single) store_moments(r, cell, out);
    cell += columns;
  }
}

static tt_err create(const tutti_model *model, int threads, tutti_workspace **out)
{
  tutti_workspace *w = NULL;
  if (!model) return TT_FAIL(USAGE, "the model is NULL: open one with tutti_open");
  TT_TRY(TT_ALLOC(w, 1));
  *w = (tutti_workspace){.model = model, .threads = tt_resources_team_local(threads)};
  tt_err e = TT_ALLOC(w->per_thread, w->threads);
  for (int t = 0; !e && t < w->threads; t++) e = tt_row_scratch_create(model, 1, &w->per_thread[t]);
  if (e)
    tutti_workspace_destroy(&w);
  else
    *out = w;
  return e;
}

int tutti_workspace_create(const tutti_model *model, int threads, tutti_workspace **out)
{
  tt_call caller = tt_call_begin();
  if (out) *out = NULL;
  tt_err e = out ? create(model, threads, out)
                 : TT_FAIL(USAGE, "out is NULL: there is no place for the workspace");
  return tt_call_end(caller, e);
}

void tutti_workspace_destroy(tutti_workspace **work)
{
  if (!work || !*work) return;
  for (int t = 0; (*work)->per_thread && t < (*work)->threads; t++)
    tt_row_scratch_free(&(*work)->per_thread[t]);
  tt_free_all(&(*work)->per_thread, work);
}
