/* api.c — see tutti.h. */
#include "src/api/tutti.h"

#include "core/base/mem.h"
#include "core/engine/engine.h"
#include "io/model/model_file.h"
#include "src/host/resources.h"
#include "src/predict/normalization.h"
#include "src/predict/prediction_block.h"
#include "src/train/trainer.h"

#include <locale.h>

enum { CHUNK_ROWS = 4096 };

struct tutti_model {
  tt_trained_ensembles all;
};

const char *tutti_version(void) { return TUTTI_VERSION; }
const char *tutti_error(void) { return tt_err_last(); }

/* Numbers in files and messages have a decimal point in every locale of the caller: between these
 * two, the calling thread uses the locale "C". Returns the locale of the caller. */
static locale_t begin_call(void) { return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); }

static int end_call(locale_t caller, tt_err e)
{
  locale_t used = uselocale(caller);
  if (used != caller) freelocale(used); /* equal if newlocale failed */
  return tt_err_exit_code(e);
}

int tutti_train(const char *job, const char *const *set, int nset)
{
  locale_t caller = begin_call();
  tt_comm *c = NULL;
  tt_train_options o = {.job = {.file = job, .set = set, .nset = nset, .command = "tutti_train"}};
  tt_err e = tt_comm_begin(&c);
  if (!e) e = tt_train(c, &o);
  tt_comm_end(&c);
  return end_call(caller, e);
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
  locale_t caller = begin_call();
  *out = NULL;
  return end_call(caller, open_model(file, out));
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

/* Ensemble and target column of a predicted column; NULL if there is no such column. */
static const tt_ensemble *find_column(const tutti_model *model, int64_t column, int32_t *target)
{
  for (int64_t i = 0; column >= 0 && i < model->all.count; i++) {
    int64_t columns = tt_trained_ensemble_columns(model->all.at[i]);
    if (column < columns) return tt_column_ensemble(model->all.at[i], column, target);
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

/* Predict the rows of a block: the columns of all trained ensembles. */
static tt_err predict_block(const tutti_model *model, const tt_resources *use, const double *x,
                            float *normalized, tt_prediction_block *b)
{
  tt_err e = tt_normalize_checked_local(model->all.at[0], "tutti_predict", "x", b->first, b->rows,
                                        x + b->first * tutti_inputs(model), normalized);
  int64_t column = 0;
  for (int64_t i = 0; !e && i < model->all.count; i++) {
    const tt_trained_ensemble *m = model->all.at[i];
    tt_moments *moments = NULL;
    e = tt_moments_create(b->rows, tt_trained_ensemble_columns(m), &moments);
    if (!e) e = tt_engine_cpu.predict(m, use, b->rows, normalized, moments, NULL);
    tt_ensemble_prediction own = {.m = m, .column = column, .moments = moments};
    if (!e) e = tt_prediction_block_fill(b, &own);
    column += tt_trained_ensemble_columns(m);
    tt_moments_destroy(&moments);
  }
  return e;
}

static double *at_row(double *out, int64_t cell) { return out ? out + cell : NULL; }

int tutti_predict(const tutti_model *model, int64_t rows, const double *x, int threads,
                  double *mean, double *total, double *aleatoric, double *epistemic)
{
  locale_t caller = begin_call();
  tt_resources use = {.threads = threads > 0 ? threads : tt_resources_cores_local()};
  int64_t columns = tutti_columns(model);
  float *normalized = NULL;
  tt_err e = TT_ALLOC(normalized, CHUNK_ROWS * tutti_inputs(model));
  for (int64_t first = 0; !e && first < rows; first += CHUNK_ROWS) {
    tt_prediction_block b = {.first = first,
                             .rows = rows - first < CHUNK_ROWS ? rows - first : CHUNK_ROWS,
                             .columns = columns,
                             .mean = at_row(mean, first * columns),
                             .total = at_row(total, first * columns),
                             .aleatoric = at_row(aleatoric, first * columns),
                             .epistemic = at_row(epistemic, first * columns)};
    e = predict_block(model, &use, x, normalized, &b);
  }
  tt_free(normalized);
  return end_call(caller, e);
}
