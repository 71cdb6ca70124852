/* trainer.c — see tutti.h: members that are trained step by step. */
#include "src/api/trainer_batch.h"

#include "core/base/int.h"
#include "core/base/mem.h"
#include "src/api/call.h"
#include "src/api/trainer_ranks.h"
#include "src/host/resources.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void destroy(tutti_trainer **trainer)
{
  tutti_trainer *t = *trainer;
  if (!t) return;
  if (t->engine) t->ops->destroy(&t->engine);
  tt_state_destroy(&t->state);
  tt_cohorts_destroy(&t->cohorts);
  tt_dataset_destroy(&t->data);
  tt_config_destroy(&t->cfg);
  tt_free_all(&t->resolved, &t->loss, &t->number, &t->x.value, &t->y.value, &t->own.value,
              &t->ranks);
  for (int k = 0; k < 3; k++) tt_free(t->gathered[k].value);
  tt_comm_end(&t->comm);
  tt_free(*trainer);
}

static tt_err check_scales(const char *name, int64_t count, const double *mean, const double *scale)
{
  if (!mean != !scale)
    return TT_FAIL(USAGE, "%s_mean and %s_scale: give both, or neither", name, name);
  for (int64_t i = 0; mean && i < count; i++)
    if (!isfinite(mean[i]) || !(scale[i] > 0.0) || !isfinite(scale[i]))
      return TT_FAIL(USAGE,
                     "%s_mean[%" PRId64 "] is %g, %s_scale[%" PRId64
                     "] is %g: both are finite, and a scale is above 0",
                     name, i, mean[i], name, i, scale[i]);
  return TT_OK;
}

static tt_err check_options(const tutti_trainer_options *o)
{
  if (!o) return TT_FAIL(USAGE, "options is NULL");
  TT_TRY(
      tt_call_check_size("tutti_trainer_options", "options->size", o->size, sizeof *o, sizeof *o));
  if (!o->options) return TT_FAIL(USAGE, "options->options is NULL: give YAML text");
  TT_TRY(tt_call_check_set(o->set, o->nset));
  if (o->inputs < 1 || o->targets < 1 || o->inputs > INT32_MAX || o->targets > INT32_MAX)
    return TT_FAIL(USAGE, "%" PRId64 " inputs and %" PRId64 " targets: at least 1 each", o->inputs,
                   o->targets);
  if (o->epoch_rows < 0 || o->epoch_rows > INT32_MAX)
    return TT_FAIL(USAGE, "epoch_rows is %" PRId64 ": 0 to 2147483647", o->epoch_rows);
  TT_TRY(check_scales("x", o->inputs, o->x_mean, o->x_scale));
  return check_scales("y", o->targets, o->y_mean, o->y_scale);
}

/*   letter  of the names x0, x1, ... that columns without a name get */
static tt_err name_columns(const char *letter, const char *const *name, tt_columns *columns)
{
  for (int64_t i = 0; i < columns->count; i++) {
    char made[32];
    snprintf(made, sizeof made, "%s%" PRId64, letter, i);
    if (name && !name[i])
      return TT_FAIL(USAGE, "the name of column %s is NULL: give all names, or none", made);
    tt_free(columns->name[i]);
    TT_TRY(tt_text_format(&columns->name[i], "%s", name ? name[i] : made));
  }
  columns->given = name != NULL;
  return TT_OK;
}

/* Nothing without values. */
static void copy(int64_t count, const double *src, double *dst)
{
  if (src) memcpy(dst, src, (size_t)count * sizeof *dst);
}

/* A data set with names and scales, whose only row is not used. */
static tt_err create_data(const tutti_trainer_options *o, tutti_trainer *t)
{
  TT_TRY(tt_dataset_create(1, o->inputs, o->targets, 0, &t->data));
  tt_dataset *d = t->data;
  d->split[0] = TT_UNUSED_ROW;
  TT_TRY(name_columns("x", o->input_name, &d->input));
  TT_TRY(name_columns("y", o->target_name, &d->target));
  copy(o->inputs, o->x_mean, d->scaler.x_mean);
  copy(o->inputs, o->x_scale, d->scaler.x_scale);
  copy(o->targets, o->y_mean, d->scaler.y_mean);
  copy(o->targets, o->y_scale, d->scaler.y_scale);
  t->is_scaled = o->x_mean || o->y_mean;
  return TT_OK;
}

/* Without epochs the state has the history of one, which never ends. */
static void set_epochs(tutti_trainer *t)
{
  tt_cohort *c = t->cohort;
  c->partial_labels = t->cfg->data_partial_labels == TT_PARTIAL_LABELS_use;
  c->retry_reseed = 1; /* of tutti_trainer_reset */
  if (t->epoch_rows) return;
  c->max_epochs = 1;
  for (int64_t i = 0; i < c->members; i++) c->member[i].hyper.epochs = 1;
}

/* Collective. The engine of run.device; on a GPU the path that takes rows of the caller. */
static tt_err find_engine(const tutti_trainer_options *o, tutti_trainer *t)
{
  tt_resource_request request = tt_resources_request(t->cfg);
  request.threads = o->threads > 0 ? o->threads : -1;
  request.quiet = 1;
  tt_err e = tt_resources_assign(t->comm, tt_engines, &request, &t->ops, &t->use);
  t->use.threads = tt_resources_team_local(o->threads);
  t->use.path = TT_GPU_PATH_layered;
  t->use.stop = NULL;
  t->process = getpid();
  return e;
}

static tt_err create_engine(tutti_trainer *t)
{
  TT_TRY(TT_ALLOC(t->loss, 2 * t->cohort->members));
  if (!t->slice.count) return TT_OK;
  TT_TRY(t->ops->create(t->cohort, t->slice, &t->use, &t->engine));
  return t->ops->init(t->engine);
}

/* The members, before they are divided among ranks. Local. */
static tt_err create_members(const tutti_trainer_options *o, tutti_trainer *t)
{
  TT_TRY(tt_config_parse_without_data("options", o->options, (int64_t)strlen(o->options), o->set,
                                      o->nset, &t->cfg));
  TT_TRY(tt_config_to_yaml(t->cfg, &t->resolved));
  TT_TRY(create_data(o, t));
  const tt_dataset of_caller = {.rows = o->epoch_rows};
  TT_TRY(tt_cohorts_create(t->cfg, t->data->inputs, &t->data->target, &of_caller, &t->cohorts));
  t->epoch_rows = o->epoch_rows;
  TT_TRY(tt_trainer_check_options(t));
  t->cohort = t->cohorts.at[0];
  set_epochs(t);
  return TT_OK;
}

static tt_err create(const tutti_trainer_options *o, tutti_trainer *t)
{
  TT_TRY(check_options(o));
  TT_TRY(tt_trainer_join(o, t));
  tt_err e = tt_agree(t->comm, create_members(o, t));
  if (!e) e = tt_trainer_divide(t);
  if (!e) e = find_engine(o, t);
  return e ? e : tt_agree(t->comm, create_engine(t));
}

int tutti_trainer_create(const tutti_trainer_options *options, tutti_trainer **out)
{
  tutti_trainer *t = NULL;
  tt_call caller = tt_call_begin();
  if (out) *out = NULL;
  tt_err e = out ? TT_ALLOC(t, 1) : TT_FAIL(USAGE, "out is NULL: give a place for it");
  if (!e) e = create(options, t);
  if (e)
    destroy(&t);
  else
    *out = t;
  return tt_call_end(caller, e);
}

void tutti_trainer_destroy(tutti_trainer **trainer)
{
  if (trainer) destroy(trainer);
}

int64_t tutti_trainer_members(const tutti_trainer *t) { return t ? t->cohort->members : 0; }
int64_t tutti_trainer_outputs(const tutti_trainer *t)
{
  return t ? t->cohort->model.layer[t->cohort->model.layers - 1].out : 0;
}
int64_t tutti_trainer_parameters(const tutti_trainer *t) { return t ? t->cohort->model.params : 0; }

static tt_err copy_batch(const tutti_batch *src, tutti_batch *out)
{
  if (!src) return TT_FAIL(USAGE, "batch is NULL");
  TT_TRY(tt_call_check_size("tutti_batch", "batch->size", src->size, sizeof *out, sizeof *out));
  *out = *src;
  return TT_OK;
}

static tt_err check_step(tutti_trainer *t, const tutti_batch *batch, tutti_batch *b)
{
  TT_TRY(copy_batch(batch, b));
  return t->has_gradient ? TT_FAIL(USAGE, "there is a gradient of tutti_trainer_backward: call "
                                          "tutti_trainer_update before the next step")
                         : TT_OK;
}

static tt_err step(tutti_trainer *t, const tutti_batch *batch, double *loss)
{
  tutti_batch b;
  TT_TRY(tt_trainer_check(t));
  tt_err e = tt_trainer_gather_rows(t, &b, 1, check_step(t, batch, &b), NULL);
  if (e) return e;
  t->may_go_back = 0;
  e = tt_trainer_give_batch(t, &b, 1);
  if (!e && t->engine) e = t->ops->train(t->engine, 1, NULL);
  e = tt_agree(t->comm, e);
  double *all = tt_comm_ranks(t->comm) == 1 ? t->loss : t->loss + t->cohort->members;
  if (!e) tt_trainer_gather_members(t, t->loss, sizeof *all, all);
  for (int64_t m = 0; !e && loss && m < t->cohort->members; m++)
    loss[m] = all[m] / (double)t->batch.count;
  return e;
}

int tutti_trainer_step(tutti_trainer *trainer, const tutti_batch *batch, double *loss)
{
  tt_call caller = tt_call_begin();
  return tt_call_end(caller, step(trainer, batch, loss));
}

static tt_err check_parts(const tutti_trainer *t)
{
  return t->cohort->parts == 1
             ? TT_OK
             : TT_FAIL(USAGE,
                       "train.parts is %" PRId64 ": forward and backward are for whole batches",
                       t->cohort->parts);
}

/* Outputs of all members for the rows that the engine has: all [M][count][O]. */
static tt_err compute_outputs(tutti_trainer *t, float *all)
{
  int64_t each = t->batch.count * tutti_trainer_outputs(t);
  float *mine = NULL;
  tt_err e = tt_trainer_own_floats(t, each, all, &mine);
  if (!e && t->engine) e = t->ops->forward(t->engine, mine);
  e = tt_agree(t->comm, e);
  if (!e) tt_trainer_gather_members(t, mine, each * (int64_t)sizeof *all, all);
  return e;
}

static tt_err check_forward(const tutti_trainer *t, const tutti_batch *batch, const float *output,
                            tutti_batch *b)
{
  TT_TRY(check_parts(t));
  TT_TRY(copy_batch(batch, b));
  return output ? TT_OK : TT_FAIL(USAGE, "output is NULL");
}

static tt_err forward(tutti_trainer *t, const tutti_batch *batch, float *output)
{
  tutti_batch b;
  TT_TRY(tt_trainer_check(t));
  tt_err e = tt_trainer_gather_rows(t, &b, 0, check_forward(t, batch, output, &b), NULL);
  if (e) return e;
  t->may_go_back = 0;
  e = tt_agree(t->comm, tt_trainer_give_batch(t, &b, 0));
  if (!e) e = compute_outputs(t, output);
  t->may_go_back = !e;
  return e;
}

int tutti_trainer_forward(tutti_trainer *trainer, const tutti_batch *batch, float *output)
{
  tt_call caller = tt_call_begin();
  return tt_call_end(caller, forward(trainer, batch, output));
}

static tt_err check_backward(const tutti_trainer *t, const float *gradient,
                             const float *input_gradient)
{
  if (!gradient) return TT_FAIL(USAGE, "gradient is NULL");
  if (!t->may_go_back)
    return TT_FAIL(USAGE, "call tutti_trainer_forward before tutti_trainer_backward");
  if (input_gradient && (t->cohort->model.front.layers || tt_model_frozen(&t->cohort->model)))
    return TT_FAIL(USAGE, "input_gradient: not for networks with a front or frozen layers");
  return TT_OK;
}

static tt_err backward(tutti_trainer *t, const float *gradient, float *input_gradient)
{
  TT_TRY(tt_trainer_check(t));
  tt_err e = tt_agree(t->comm, check_backward(t, gradient, input_gradient));
  if (e) return e;
  int64_t inputs = t->data->inputs, each = t->batch.count * inputs;
  float *mine = NULL;
  if (input_gradient) e = tt_trainer_own_floats(t, each, input_gradient, &mine);
  const float *own = gradient + t->slice.first * t->batch.count * tutti_trainer_outputs(t);
  if (!e && t->engine) e = t->ops->backward(t->engine, own, mine);
  e = tt_agree(t->comm, e);
  if (e) return e;
  t->has_gradient = 1;
  if (!input_gradient) return TT_OK;
  tt_trainer_gather_members(t, mine, each * (int64_t)sizeof *mine, input_gradient);
  const double *scale = t->data->scaler.x_scale;
  for (int64_t i = 0; t->is_scaled && i < t->cohort->members * each; i++)
    input_gradient[i] = (float)((double)input_gradient[i] / scale[i % inputs]);
  return TT_OK;
}

int tutti_trainer_backward(tutti_trainer *trainer, const float *gradient, float *input_gradient)
{
  tt_call caller = tt_call_begin();
  return tt_call_end(caller, backward(trainer, gradient, input_gradient));
}

static tt_err update(tutti_trainer *t)
{
  TT_TRY(tt_trainer_check(t));
  if (!t->has_gradient)
    return TT_FAIL(USAGE, "call tutti_trainer_backward before tutti_trainer_update");
  t->has_gradient = t->may_go_back = 0;
  return tt_agree(t->comm, t->engine ? t->ops->update(t->engine) : TT_OK);
}

int tutti_trainer_update(tutti_trainer *trainer)
{
  tt_call caller = tt_call_begin();
  return tt_call_end(caller, update(trainer));
}

static tt_err check_gradient(const tutti_trainer *t, const float *gradient)
{
  if (!gradient) return TT_FAIL(USAGE, "gradient is NULL");
  if (!t->has_gradient)
    return TT_FAIL(USAGE, "call tutti_trainer_backward before tutti_trainer_take_gradient");
  if (tt_model_trained_params(&t->cohort->model) != t->cohort->model.params)
    return TT_FAIL(USAGE, "the network has batch_norm, whose running values only "
                          "tutti_trainer_update changes");
  return TT_OK;
}

static tt_err take_gradient(tutti_trainer *t, float *gradient)
{
  TT_TRY(tt_trainer_check(t));
  tt_err e = tt_agree(t->comm, check_gradient(t, gradient));
  if (e) return e;
  float *mine = NULL;
  e = tt_trainer_own_floats(t, t->cohort->model.params, gradient, &mine);
  if (!e && t->engine) e = t->ops->take_gradient(t->engine, mine);
  e = tt_agree(t->comm, e);
  if (e) return e;
  t->has_gradient = t->may_go_back = 0;
  int64_t bytes = t->cohort->model.params * (int64_t)sizeof *mine;
  tt_trainer_gather_members(t, mine, bytes, gradient);
  return TT_OK;
}

int tutti_trainer_take_gradient(tutti_trainer *trainer, float *gradient)
{
  tt_call caller = tt_call_begin();
  return tt_call_end(caller, take_gradient(trainer, gradient));
}

static tt_err check_predict(int64_t rows, const float *x, const float *output)
{
  if (rows < 0) return TT_FAIL(USAGE, "the number of rows is %" PRId64, rows);
  if (rows > 0 && (!x || !output)) return TT_FAIL(USAGE, "%s is NULL", x ? "output" : "x");
  return TT_OK;
}

/* Rows of this rank in a prediction. */
typedef struct own_rows {
  int64_t first, count;
  float *output; /* [M][count][O] */
} own_rows;

/* Predict all rows a chunk at a time into block [M][chunk][O], and copy those of this rank. */
static tt_err predict_chunks(tutti_trainer *t, const tutti_batch *all, const own_rows *own,
                             float *block)
{
  int64_t outputs = tutti_trainer_outputs(t), chunk = tt_trainer_chunk(t);
  tt_err e = TT_OK;
  for (int64_t r = 0; !e && r < all->rows; r += chunk) {
    int64_t count = tt_min_i64(chunk, all->rows - r);
    e = tt_agree(t->comm, tt_trainer_give_rows(t, all->x + r * t->data->inputs, count));
    if (!e) e = compute_outputs(t, block);
    tt_slice here = tt_slice_intersect((tt_slice){own->first, own->count}, r, count);
    for (int64_t m = 0; !e && here.count && m < t->cohort->members; m++)
      memcpy(own->output + (m * own->count + here.first + r - own->first) * outputs,
             block + (m * count + here.first) * outputs,
             (size_t)(here.count * outputs) * sizeof *block);
  }
  return e;
}

static tt_err predict(tutti_trainer *t, int64_t rows, const float *x, float *output)
{
  tutti_batch b = {.rows = rows, .x = x};
  own_rows own = {.count = rows, .output = output};
  TT_TRY(tt_trainer_check(t));
  tt_err e = tt_trainer_gather_rows(t, &b, 0, check_predict(rows, x, output), &own.first);
  if (e) return e;
  t->may_go_back = 0;
  if (tt_comm_ranks(t->comm) == 1 && rows > 0 && rows <= tt_trainer_chunk(t)) {
    TT_TRY(tt_trainer_give_rows(t, x, rows));
    return compute_outputs(t, output);
  }
  float *block = NULL;
  e = tt_agree(t->comm, TT_ALLOC_VALUES(block, t->cohort->members * tt_trainer_chunk(t) *
                                                   tutti_trainer_outputs(t)));
  if (!e) e = predict_chunks(t, &b, &own, block);
  tt_free(block);
  return e;
}

int tutti_trainer_predict(tutti_trainer *trainer, int64_t rows, const float *x, float *output)
{
  tt_call caller = tt_call_begin();
  return tt_call_end(caller, predict(trainer, rows, x, output));
}
