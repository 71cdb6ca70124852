/* api.c — see tutti.h. */
#include "tutti.h"

#include "base/mem.h"
#include "engine/engine.h"
#include "io/model_io.h"
#include "run/machine.h"
#include "run/normal.h"
#include "run/trainer.h"

enum { PIECE = 4096 }; /* rows at a time */

struct tutti_model {
  tt_committee *committee;
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
  tt_err e = tt_model_read_local(file, &m->committee);
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
  tt_committee_destroy(&(*model)->committee);
  tt_free(*model);
}

int64_t tutti_inputs(const tutti_model *model) { return model->committee->model.inputs; }
int64_t tutti_columns(const tutti_model *model) { return tt_committee_columns(model->committee); }
int64_t tutti_members(const tutti_model *model) { return model->committee->members; }

const char *tutti_input_name(const tutti_model *model, int64_t input)
{
  const tt_columns *c = &model->committee->input;
  return input >= 0 && input < c->count ? c->name[input] : NULL;
}

/* The ensemble a predicted column belongs to, and its target column; NULL if there is none. */
static const tt_ensemble *owner(const tutti_model *model, int64_t column, int32_t *target)
{
  const tt_committee *c = model->committee;
  for (int64_t e = 0; column >= 0 && e < c->ensembles; e++) {
    if (column < c->ensemble[e].targets) {
      *target = c->ensemble[e].column[column];
      return &c->ensemble[e];
    }
    column -= c->ensemble[e].targets;
  }
  return NULL;
}

const char *tutti_ensemble_name(const tutti_model *model, int64_t column)
{
  int32_t t;
  const tt_ensemble *e = owner(model, column, &t);
  return e ? e->name : NULL;
}

const char *tutti_target_name(const tutti_model *model, int64_t column)
{
  int32_t t;
  return owner(model, column, &t) ? model->committee->target.name[t] : NULL;
}

const char *tutti_target_units(const tutti_model *model, int64_t column)
{
  int32_t t;
  return owner(model, column, &t) ? model->committee->target.units[t] : NULL;
}

static void put(double *out, int64_t cell, double value)
{
  if (out) out[cell] = value;
}

static tt_err predict_piece(const tutti_model *model, const tt_resources *use, int64_t first,
                            int64_t rows, const double *x, float *normal, tt_moments *moments,
                            double *const out[4])
{
  const tt_committee *c = model->committee;
  int64_t columns = moments->columns;
  moments->rows = rows;
  TT_TRY(tt_normal_rows_local(c, "tutti_predict", "x", first, rows, x + first * c->model.inputs,
                              normal));
  TT_TRY(tt_engine_cpu.predict(c, use, rows, normal, moments, NULL));
  for (int64_t column = 0; column < columns; column++) {
    int32_t t = 0;
    owner(model, column, &t);
    double scale = c->scaler.y_scale[t];
    for (int64_t r = 0; r < rows; r++) {
      tt_spread at = tt_moments_at(moments, r, column);
      int64_t cell = (first + r) * columns + column;
      put(out[0], cell, at.mean * scale + c->scaler.y_mean[t]);
      put(out[1], cell, at.total * scale);
      put(out[2], cell, at.aleatoric * scale);
      put(out[3], cell, at.epistemic * scale);
    }
  }
  return TT_OK;
}

int tutti_predict(const tutti_model *model, int64_t rows, const double *x, int threads,
                  double *mean, double *total, double *aleatoric, double *epistemic)
{
  double *const out[4] = {mean, total, aleatoric, epistemic};
  tt_resources use = {.threads = threads > 0 ? threads : tt_machine_cores_local()};
  float *normal = NULL;
  tt_moments *moments = NULL;
  tt_err e = TT_ALLOC(normal, PIECE * tutti_inputs(model));
  if (!e) e = tt_moments_create(PIECE, tutti_columns(model), &moments);
  for (int64_t first = 0; !e && first < rows; first += PIECE)
    e = predict_piece(model, &use, first, rows - first < PIECE ? rows - first : PIECE, x, normal,
                      moments, out);
  tt_moments_destroy(&moments);
  tt_free(normal);
  return tt_err_exit_code(e);
}
