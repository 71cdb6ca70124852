/* api.c — see tutti.h. */
#include "src/api/tutti.h"

#include "core/base/mem.h"
#include "core/engine/engine.h"
#include "io/model/model_file.h"
#include "src/host/resources.h"
#include "src/predict/normalization.h"
#include "src/train/trainer.h"

enum { CHUNK_ROWS = 4096 }; /* rows at a time */

struct tutti_model {
  tt_trained_ensembles all;
};

const char *tutti_version(void) { return TUTTI_VERSION; }
const char *tutti_error(void) { return tt_err_last(); }

int tutti_train(const char *job, const char *const *set, int nset)
{
  tt_comm *c = NULL;
  tt_train_options o = {.job = {.file = job, .set = set, .nset = nset, .command = "tutti_train"}};
  tt_err e = tt_comm_begin(&c);
  if (!e) e = tt_train(c, &o);
  tt_comm_end(&c);
  return tt_err_exit_code(e);
}

static tt_err open_model(const char *file, tutti_model **out)
{
  tutti_model *m = NULL;
  TT_TRY(TT_ALLOC(m, 1));
  tt_err e = tt_model_read_local(file, &m->all);
  if (e)
    tutti_close(&m);
  else
    *out = m;
  return e;
}

int tutti_open(const char *file, tutti_model **out)
{
  *out = NULL;
  return tt_err_exit_code(open_model(file, out));
}

void tutti_close(tutti_model **model)
{
  if (!*model) return;
  tt_trained_ensembles_destroy(&(*model)->all);
  tt_free(*model);
}

int64_t tutti_inputs(const tutti_model *model) { return model->all.at[0]->model.inputs; }
int64_t tutti_columns(const tutti_model *model)
{
  return tt_trained_ensembles_columns(&model->all);
}
int64_t tutti_members(const tutti_model *model)
{
  return tt_trained_ensembles_members(&model->all);
}

const char *tutti_input_name(const tutti_model *model, int64_t input)
{
  const tt_columns *c = &model->all.at[0]->input;
  return input >= 0 && input < c->count ? c->name[input] : NULL;
}

/* The ensemble a column of one committee belongs to, and its target column. */
static const tt_ensemble *column_in(const tt_trained_ensemble *c, int64_t column, int32_t *target)
{
  int64_t width = tt_trained_ensemble_width(c);
  const tt_ensemble *e = &c->ensemble[column / width];
  *target = e->column[column % width / c->model.quantities];
  return e;
}

/* The ensemble a predicted column belongs to, and its target column; NULL if there is none. */
static const tt_ensemble *find_column(const tutti_model *model, int64_t column, int32_t *target)
{
  for (int64_t i = 0; column >= 0 && i < model->all.count; i++) {
    int64_t columns = tt_trained_ensemble_columns(model->all.at[i]);
    if (column < columns) return column_in(model->all.at[i], column, target);
    column -= columns;
  }
  return NULL;
}

const char *tutti_ensemble_name(const tutti_model *model, int64_t column)
{
  int32_t t;
  const tt_ensemble *e = find_column(model, column, &t);
  return e ? e->name : NULL;
}

const char *tutti_target_name(const tutti_model *model, int64_t column)
{
  int32_t t;
  return find_column(model, column, &t) ? model->all.at[0]->target.name[t] : NULL;
}

const char *tutti_target_units(const tutti_model *model, int64_t column)
{
  int32_t t;
  return find_column(model, column, &t) ? model->all.at[0]->target.units[t] : NULL;
}

static void store(double *out, int64_t cell, double value)
{
  if (out) out[cell] = value;
}

/* Rows of one call: normalised inputs, and columns [first_column, ...) of the whole table. */
typedef struct chunk {
  int64_t first, rows;
  const float *normalized;
  int64_t first_column, columns;
  double *const *out;
} chunk;

static tt_err predict_ensemble(const tt_trained_ensemble *c, const tt_resources *use,
                               const chunk *p, tt_moments *moments)
{
  TT_TRY(tt_engine_cpu.predict(c, use, p->rows, p->normalized, moments, NULL));
  for (int64_t column = 0; column < moments->columns; column++) {
    int32_t t = 0;
    column_in(c, column, &t);
    double scale = c->scaler.y_scale[t];
    double spread = scale * tt_calibration_std_scale(&c->calibration, column);
    for (int64_t r = 0; r < p->rows; r++) {
      tt_uncertainty at = tt_moments_at(moments, r, column);
      int64_t cell = (p->first + r) * p->columns + p->first_column + column;
      store(p->out[0], cell, at.mean * scale + c->scaler.y_mean[t]);
      store(p->out[1], cell, at.total * spread);
      store(p->out[2], cell, at.aleatoric * spread);
      store(p->out[3], cell, at.epistemic * spread);
    }
  }
  return TT_OK;
}

static tt_err predict_chunk(const tutti_model *model, const tt_resources *use, chunk *p,
                            const double *x, float *normalized)
{
  tt_err e = tt_normalize_checked_local(model->all.at[0], "tutti_predict", "x", p->first, p->rows,
                                        x + p->first * tutti_inputs(model), normalized);
  p->first_column = 0;
  for (int64_t i = 0; !e && i < model->all.count; i++) {
    tt_moments *moments = NULL;
    e = tt_moments_create(p->rows, tt_trained_ensemble_columns(model->all.at[i]), &moments);
    if (!e) e = predict_ensemble(model->all.at[i], use, p, moments);
    p->first_column += tt_trained_ensemble_columns(model->all.at[i]);
    tt_moments_destroy(&moments);
  }
  return e;
}

int tutti_predict(const tutti_model *model, int64_t rows, const double *x, int threads,
                  double *mean, double *total, double *aleatoric, double *epistemic)
{
  double *const out[4] = {mean, total, aleatoric, epistemic};
  tt_resources use = {.threads = threads > 0 ? threads : tt_resources_cores_local()};
  float *normalized = NULL;
  tt_err e = TT_ALLOC(normalized, CHUNK_ROWS * tutti_inputs(model));
  chunk p = {.normalized = normalized, .columns = tutti_columns(model), .out = out};
  for (; !e && p.first < rows; p.first += CHUNK_ROWS) {
    p.rows = rows - p.first < CHUNK_ROWS ? rows - p.first : CHUNK_ROWS;
    e = predict_chunk(model, &use, &p, x, normalized);
  }
  tt_free(normalized);
  return tt_err_exit_code(e);
}
