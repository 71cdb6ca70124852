/* evaluate.c — see evaluate.h. */
#include "src/score/evaluate.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/data/data.h"
#include "io/hdf5/guarded_check.h"
#include "io/model/model_file.h"
#include "src/host/resources.h"
#include "src/predict/normalization.h"
#include "src/score/score.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct labelled_rows {
  tt_data_reader *rows;
  const tt_trained_ensembles *model;
  const tt_trained_ensemble *first; /* model->at[0]; all have the same input and target columns */
  const char *file, *inputs;
  const tt_table_format *format;
  tt_data_reader *weights; /* the sample weights, read as a dataset of inputs; NULL = all 1 */
  int64_t *column;         /* [targets of the model] column in the file, -1 = none */
} labelled_rows;

static int is_used_by(const tt_trained_ensemble *m, int64_t target)
{
  for (int64_t e = 0; e < m->ensembles; e++)
    for (int64_t k = 0; k < m->ensemble[e].targets; k++)
      if (m->ensemble[e].column[k] == target) return 1;
  return 0;
}

static int is_used(const tt_trained_ensembles *all, int64_t target)
{
  for (int64_t i = 0; i < all->count; i++)
    if (is_used_by(all->at[i], target)) return 1;
  return 0;
}

static tt_err missing_target_error(const labelled_rows *l, int64_t target)
{
  char have[2048], want[2048];
  const tt_data_shape *shape = tt_data_reader_shape(l->rows);
  return TT_FAIL(DATA,
                 "%s has no target column '%s', which the model predicts; its targets are %s, "
                 "those of the model %s",
                 l->file, l->first->target.name[target],
                 tt_columns_list(&shape->target, have, sizeof have),
                 tt_columns_list(&l->first->target, want, sizeof want));
}

/* Find the column of each target by its name; by position if that is not possible and the file or
 * the model has no names. */
static tt_err match_targets(labelled_rows *l)
{
  const tt_data_shape *shape = tt_data_reader_shape(l->rows);
  const tt_trained_ensemble *m = l->first;
  int64_t missing = -1;
  TT_TRY(TT_ALLOC(l->column, m->target.count));
  for (int64_t t = m->target.count - 1; t >= 0; t--) {
    l->column[t] = -1;
    for (int64_t i = 0; i < shape->targets; i++)
      if (!strcmp(shape->target.name[i], m->target.name[t])) l->column[t] = i;
    if (l->column[t] < 0 && is_used(l->model, t)) missing = t;
  }
  if (missing < 0) return TT_OK;
  if ((shape->target.given && m->target.given) || shape->targets != m->target.count)
    return missing_target_error(l, missing);
  for (int64_t t = 0; t < m->target.count; t++) l->column[t] = t;
  tt_log_root(TT_LOG_INFO,
              "%s: the targets are used by position: the file or the model has no names", l->file);
  return TT_OK;
}

static tt_err read_weights(labelled_rows *l, int64_t first, int64_t count, double *weight)
{
  for (int64_t r = 0; r < count; r++) weight[r] = 1.0;
  if (!l->weights) return TT_OK;
  TT_TRY(tt_data_reader_read_local(l->weights, first, count, weight, NULL));
  for (int64_t r = 0; r < count; r++)
    if (!(weight[r] >= 0.0 && weight[r] < INFINITY))
      return TT_FAIL(DATA, "%s: weight %g of row %" PRId64 "; weights are finite and at least 0",
                     l->file, weight[r], first + r);
  return TT_OK;
}

static tt_err read_normalized(labelled_rows *l, int64_t first, int64_t count, double *raw,
                              double *all, float *x, double *y)
{
  int64_t given = tt_data_reader_shape(l->rows)->targets, targets = l->first->target.count;
  TT_TRY(tt_data_reader_read_local(l->rows, first, count, raw, all));
  for (int64_t r = 0; r < count; r++)
    for (int64_t t = 0; t < targets; t++)
      y[r * targets + t] = l->column[t] < 0 ? (double)NAN : all[r * given + l->column[t]];
  return tt_normalize_checked_local(l->first, l->file, l->inputs, first, count, raw, x);
}

static tt_err read_labelled(void *from, int64_t first, int64_t count, float *x, double *y,
                            double *weight)
{
  labelled_rows *l = from;
  double *raw = NULL, *all = NULL;
  tt_err e = TT_ALLOC(raw, count * l->first->model.inputs);
  if (!e) e = TT_ALLOC(all, count * tt_data_reader_shape(l->rows)->targets);
  if (!e) e = read_normalized(l, first, count, raw, all, x, y);
  if (!e) e = read_weights(l, first, count, weight);
  tt_free(raw);
  tt_free(all);
  return e;
}

static tt_err open_weights(labelled_rows *l, const char *weights)
{
  const tt_data_spec spec = {.file = l->file, .inputs = weights, .format = l->format};
  TT_TRY(tt_data_reader_open_spec_local(&spec, &l->weights));
  const tt_data_shape *s = tt_data_reader_shape(l->weights), *rows = tt_data_reader_shape(l->rows);
  if (s->inputs == 1 && s->rows == rows->rows) return TT_OK;
  return TT_FAIL(DATA,
                 "%s: dataset '%s' (weights) is %" PRId64 " x %" PRId64
                 "; it must have one value for each of the %" PRId64 " rows",
                 l->file, weights, s->rows, s->inputs, rows->rows);
}

static tt_err open_local(labelled_rows *l, const char *targets, const char *weights)
{
  const tt_data_spec spec = {.file = l->file,
                             .inputs = l->inputs,
                             .targets = targets,
                             .like_input = &l->first->input,
                             .like_target = &l->first->target,
                             .format = l->format,
                             .missing_inputs = tt_scaler_fills(&l->first->scaler)};
  TT_TRY(tt_data_reader_open_spec_local(&spec, &l->rows));
  TT_TRY(tt_data_reader_match_local(l->rows, &l->first->input, NULL, "the model", 1));
  if (weights) TT_TRY(open_weights(l, weights));
  return match_targets(l);
}

static tt_err write_scores(tt_comm *c, const tt_evaluate_options *o,
                           const tt_trained_ensembles *all, const tt_scores *const *part)
{
  tt_scores *joined = NULL;
  tt_provenance from = {.title = "",
                        .resolved = "",
                        .original = "",
                        .device = "",
                        .arithmetic = "",
                        .command = o->command ? o->command : "",
                        .ranks = tt_comm_ranks(c),
                        .threads = 1};
  tt_err e = tt_agree(c, tt_scores_concat(all, part, &joined));
  if (!e) e = tt_scores_write(c, o->output, all, joined, &from);
  tt_scores_destroy(&joined);
  return e;
}

static tt_err score_all(tt_comm *c, const tt_evaluate_options *o, const tt_trained_ensembles *all,
                        const tt_engine_ops *ops, const tt_resources *use,
                        const tt_row_source *source)
{
  tt_scores **part = NULL;
  tt_err e = tt_agree(c, TT_ALLOC(part, all->count));
  for (int64_t i = 0; !e && i < all->count; i++) {
    e = tt_score(c, all->at[i], ops, use, source, &part[i], NULL);
    if (!e) tt_score_print_local(c, all->at[i], part[i]);
  }
  if (!e && o->output) e = write_scores(c, o, all, (const tt_scores *const *)part);
  for (int64_t i = 0; part && i < all->count; i++) tt_scores_destroy(&part[i]);
  tt_free(part);
  return e;
}

tt_err tt_evaluate(tt_comm *c, const tt_evaluate_options *o)
{
  const char *inputs = o->inputs ? o->inputs : "x", *targets = o->targets ? o->targets : "y";
  const char *names[] = {tt_optional_default(inputs), tt_optional_default(targets), o->weights};
  tt_trained_ensembles model = {0};
  const tt_engine_ops *ops;
  tt_resources use;
  labelled_rows l = {.model = &model, .file = o->data, .inputs = inputs, .format = &o->format};
  tt_err e = tt_resources_for_job(c, NULL, &ops, &use);
  if (!e) e = tt_model_read(c, o->model, &model);
  if (!e) e = tt_agree(c, tt_comm_is_root(c) ? tt_guarded_check_local(o->data, names, 3) : TT_OK);
  if (!e) l.first = model.at[0];
  if (!e) e = tt_agree(c, open_local(&l, targets, o->weights));
  if (!e) {
    tt_row_source source = {
        .rows = tt_data_reader_shape(l.rows)->rows, .read_local = read_labelled, .from = &l};
    e = score_all(c, o, &model, ops, &use, &source);
  }
  tt_free(l.column);
  tt_data_reader_close_local(&l.weights);
  tt_data_reader_close_local(&l.rows);
  tt_trained_ensembles_destroy(&model);
  return e;
}
