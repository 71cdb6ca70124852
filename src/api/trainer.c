/* trainer.c — see tutti.h: members that are trained step by step. */
#include "src/api/trainer_batch.h"

#include "core/base/mem.h"
#include "src/api/call.h"
#include "src/api/trainer_options.h"
#include "src/host/resources.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void destroy(tutti_trainer **trainer)
{
  tutti_trainer *t = *trainer;
  if (!t) return;
  if (t->engine) t->ops->destroy(&t->engine);
  tt_state_destroy(&t->state);
  tt_cohorts_destroy(&t->cohorts);
  tt_dataset_destroy(&t->data);
  tt_config_destroy(&t->cfg);
  tt_free_all(&t->resolved, &t->loss, &t->number, &t->x, &t->y);
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
  if (o->size != sizeof *o)
    return TT_FAIL(USAGE,
                   "options->size is %zu; set it to sizeof(tutti_trainer_options), which is %zu in "
                   "the tutti.h of libtutti " TUTTI_VERSION,
                   o->size, sizeof *o);
  if (!o->options) return TT_FAIL(USAGE, "options->options is NULL: give YAML text");
  for (int i = 0; i < o->nset; i++)
    if (!o->set || !o->set[i])
      return TT_FAIL(USAGE, "text %d of the %d in set is NULL", o->set ? i : 0, o->nset);
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

static void set_scale(int64_t count, const double *mean, const double *scale, double *dst_mean,
                      double *dst_scale)
{
  for (int64_t i = 0; mean && i < count; i++) {
    dst_mean[i] = mean[i];
    dst_scale[i] = scale[i];
  }
}

/* A data set with names and scales, whose only row is not used. */
static tt_err create_data(const tutti_trainer_options *o, tutti_trainer *t)
{
  TT_TRY(tt_dataset_create(1, o->inputs, o->targets, 0, &t->data));
  tt_dataset *d = t->data;
  d->split[0] = TT_UNUSED_ROW;
  TT_TRY(name_columns("x", o->input_name, &d->input));
  TT_TRY(name_columns("y", o->target_name, &d->target));
  set_scale(o->inputs, o->x_mean, o->x_scale, d->scaler.x_mean, d->scaler.x_scale);
  set_scale(o->targets, o->y_mean, o->y_scale, d->scaler.y_mean, d->scaler.y_scale);
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

static tt_err create_engine(const tutti_trainer_options *o, tutti_trainer *t)
{
  t->ops = &tt_engine_cpu;
  t->use =
      (tt_resources){.threads = tt_resources_team_local(o->threads), .simd = (tt_simd)t->cfg->simd};
  TT_TRY(TT_ALLOC(t->loss, t->cohort->members));
  TT_TRY(t->ops->create(t->cohort, (tt_slice){0, t->cohort->members}, &t->use, &t->engine));
  return t->ops->init(t->engine);
}

static tt_err create(const tutti_trainer_options *o, tutti_trainer *t)
{
  TT_TRY(check_options(o));
  TT_TRY(tt_config_parse_without_data("options", o->options, (int64_t)strlen(o->options), o->set,
                                      o->nset, &t->cfg));
  TT_TRY(tt_config_to_yaml(t->cfg, &t->resolved));
  TT_TRY(create_data(o, t));
  TT_TRY(tt_cohorts_create(t->cfg, t->data->inputs, &t->data->target, NULL, &t->cohorts));
  t->epoch_rows = o->epoch_rows;
  TT_TRY(tt_trainer_check_options(t));
  t->cohort = t->cohorts.at[0];
  set_epochs(t);
  return create_engine(o, t);
}

int tutti_trainer_create(const tutti_trainer_options *options, tutti_trainer **out)
{
  tt_call caller;
  tutti_trainer *t = NULL;
  tt_call_begin(&caller);
  if (out) *out = NULL;
  tt_err e = out ? TT_ALLOC(t, 1) : TT_FAIL(USAGE, "out is NULL: give a place for it");
  if (!e) e = create(options, t);
  if (e)
    destroy(&t);
  else
    *out = t;
  return tt_call_end(&caller, e);
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
  if (src->size != sizeof *out)
    return TT_FAIL(USAGE,
                   "batch->size is %zu; set it to sizeof(tutti_batch), which is %zu in the tutti.h "
                   "of libtutti " TUTTI_VERSION,
                   src->size, sizeof *out);
  *out = *src;
  return TT_OK;
}

static tt_err step(tutti_trainer *t, const tutti_batch *batch, double *loss)
{
  tutti_batch b;
  tt_progress progress;
  TT_TRY(tt_trainer_check(t));
  TT_TRY(copy_batch(batch, &b));
  if (t->has_gradient)
    return TT_FAIL(USAGE, "there is a gradient of tutti_trainer_backward: call "
                          "tutti_trainer_update before the next step");
  t->may_go_back = 0;
  TT_TRY(tt_trainer_give_batch(t, &b, 1));
  TT_TRY(t->ops->train(t->engine, 1, &progress));
  for (int64_t m = 0; loss && m < t->cohort->members; m++)
    loss[m] = t->loss[m] / (double)t->batch.count;
  return TT_OK;
}

int tutti_trainer_step(tutti_trainer *trainer, const tutti_batch *batch, double *loss)
{
  tt_call caller;
  tt_call_begin(&caller);
  return tt_call_end(&caller, step(trainer, batch, loss));
}

static tt_err check_parts(const tutti_trainer *t)
{
  return t->cohort->parts == 1
             ? TT_OK
             : TT_FAIL(USAGE,
                       "train.parts is %" PRId64 ": forward and backward are for whole batches",
                       t->cohort->parts);
}

static tt_err forward(tutti_trainer *t, const tutti_batch *batch, float *output)
{
  tutti_batch b;
  TT_TRY(tt_trainer_check(t));
  TT_TRY(check_parts(t));
  TT_TRY(copy_batch(batch, &b));
  if (!output) return TT_FAIL(USAGE, "output is NULL");
  t->may_go_back = 0;
  TT_TRY(tt_trainer_give_batch(t, &b, 0));
  t->may_go_back = 1;
  return t->ops->forward(t->engine, output, NULL);
}

int tutti_trainer_forward(tutti_trainer *trainer, const tutti_batch *batch, float *output)
{
  tt_call caller;
  tt_call_begin(&caller);
  return tt_call_end(&caller, forward(trainer, batch, output));
}

static tt_err backward(tutti_trainer *t, const float *gradient, float *input_gradient)
{
  TT_TRY(tt_trainer_check(t));
  if (!gradient) return TT_FAIL(USAGE, "gradient is NULL");
  if (!t->may_go_back)
    return TT_FAIL(USAGE, "call tutti_trainer_forward before tutti_trainer_backward");
  if (input_gradient && (t->cohort->model.front.layers || tt_model_frozen(&t->cohort->model)))
    return TT_FAIL(USAGE, "input_gradient: not for networks with a front or frozen layers");
  TT_TRY(t->ops->backward(t->engine, gradient, input_gradient));
  t->has_gradient = 1;
  const double *scale = t->data->scaler.x_scale;
  int64_t inputs = t->data->inputs, values = t->cohort->members * t->batch.count * inputs;
  for (int64_t i = 0; input_gradient && t->is_scaled && i < values; i++)
    input_gradient[i] = (float)((double)input_gradient[i] / scale[i % inputs]);
  return TT_OK;
}

int tutti_trainer_backward(tutti_trainer *trainer, const float *gradient, float *input_gradient)
{
  tt_call caller;
  tt_call_begin(&caller);
  return tt_call_end(&caller, backward(trainer, gradient, input_gradient));
}

static tt_err update(tutti_trainer *t)
{
  TT_TRY(tt_trainer_check(t));
  if (!t->has_gradient)
    return TT_FAIL(USAGE, "call tutti_trainer_backward before tutti_trainer_update");
  t->has_gradient = t->may_go_back = 0;
  return t->ops->update(t->engine);
}

int tutti_trainer_update(tutti_trainer *trainer)
{
  tt_call caller;
  tt_call_begin(&caller);
  return tt_call_end(&caller, update(trainer));
}

static tt_err predict(tutti_trainer *t, int64_t rows, const float *x, float *output)
{
  TT_TRY(tt_trainer_check(t));
  if (rows < 0) return TT_FAIL(USAGE, "the number of rows is %" PRId64, rows);
  if (rows > 0 && (!x || !output)) return TT_FAIL(USAGE, "%s is NULL", x ? "output" : "x");
  int64_t members = t->cohort->members, outputs = tutti_trainer_outputs(t);
  int64_t chunk = tt_trainer_chunk(t);
  t->may_go_back = 0;
  if (rows <= chunk && rows > 0) {
    TT_TRY(tt_trainer_give_rows(t, x, rows));
    return t->ops->forward(t->engine, output, NULL);
  }
  float *block = NULL;
  TT_TRY(TT_ALLOC_VALUES(block, members * chunk * outputs));
  tt_err e = TT_OK;
  for (int64_t r = 0; !e && r < rows; r += chunk) {
    int64_t count = rows - r < chunk ? rows - r : chunk;
    e = tt_trainer_give_rows(t, x + r * t->data->inputs, count);
    if (!e) e = t->ops->forward(t->engine, block, NULL);
    for (int64_t m = 0; !e && m < members; m++)
      memcpy(output + (m * rows + r) * outputs, block + m * count * outputs,
             (size_t)(count * outputs) * sizeof *output);
  }
  tt_free(block);
  return e;
}

int tutti_trainer_predict(tutti_trainer *trainer, int64_t rows, const float *x, float *output)
{
  tt_call caller;
  tt_call_begin(&caller);
  return tt_call_end(&caller, predict(trainer, rows, x, output));
}
