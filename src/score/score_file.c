/* score_file.c — see score_file.h. */
#include "src/score/score_file.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/hdf5/guarded_check.h"
#include "src/predict/normalization.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

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

static tt_err missing_target_error(const tt_score_file *l, int64_t target)
{
  char have[2048], want[2048];
  const tt_data_shape *shape = tt_data_reader_shape(l->rows);
  return TT_FAIL(DATA,
                 "%s has no target column '%s', which the model predicts; its targets are %s, "
                 "those of the model %s",
                 l->o.file, l->first->target.name[target],
                 tt_columns_list(&shape->target, have, sizeof have),
                 tt_columns_list(&l->first->target, want, sizeof want));
}

/* Find the column of each target by its name; by position if that is not possible and the file or
 * the model has no names. */
static tt_err match_targets(tt_score_file *l)
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
              "%s: the targets are used by position: the file or the model has no names",
              l->o.file);
  return TT_OK;
}

tt_err tt_score_file_read_weights_local(tt_score_file *l, int64_t first, int64_t count,
                                        double *weight)
{
  for (int64_t r = 0; r < count; r++) weight[r] = 1.0;
  if (!l->weights) return TT_OK;
  TT_TRY(tt_data_reader_read_local(l->weights, first, count, weight, NULL));
  for (int64_t r = 0; r < count; r++)
    if (!(weight[r] >= 0.0 && weight[r] < INFINITY))
      return TT_FAIL(DATA, "%s: weight %g of row %" PRId64 "; weights are finite and at least 0",
                     l->o.file, weight[r], first + r);
  return TT_OK;
}

static tt_err read_normalized(tt_score_file *l, int64_t first, int64_t count, double *raw,
                              double *all, float *x, double *y)
{
  int64_t given = tt_data_reader_shape(l->rows)->targets, targets = l->first->target.count;
  TT_TRY(tt_data_reader_read_local(l->rows, first, count, raw, all));
  for (int64_t r = 0; r < count; r++)
    for (int64_t t = 0; t < targets; t++)
      y[r * targets + t] = l->column[t] < 0 ? (double)NAN : all[r * given + l->column[t]];
  return tt_normalize_checked_local(l->first, l->o.file, l->o.inputs, first, count, raw, x);
}

tt_err tt_score_file_read_local(void *src, int64_t first, int64_t count, float *x, double *y,
                                double *weight)
{
  tt_score_file *l = src;
  double *raw = NULL, *all = NULL;
  tt_err e = TT_ALLOC(raw, count * l->first->scaler.inputs);
  if (!e) e = TT_ALLOC(all, count * tt_data_reader_shape(l->rows)->targets);
  if (!e) e = read_normalized(l, first, count, raw, all, x, y);
  if (!e) e = tt_score_file_read_weights_local(l, first, count, weight);
  tt_free_all(&raw, &all);
  return e;
}

static tt_err open_weights(tt_score_file *l)
{
  tt_table_format format = l->o.format ? *l->o.format : (tt_table_format){0};
  const tt_data_spec spec = {.file = l->o.file, .inputs = l->o.weights, .format = &format};
  format.marks = tt_data_reader_marks(l->rows);
  TT_TRY(tt_data_reader_open_spec_local(&spec, &l->weights));
  const tt_data_shape *s = tt_data_reader_shape(l->weights), *rows = tt_data_reader_shape(l->rows);
  if (s->inputs == 1 && s->rows == rows->rows) return TT_OK;
  return TT_FAIL(DATA,
                 "%s: dataset '%s' (weights) is %" PRId64 " x %" PRId64
                 "; it must have one value for each of the %" PRId64 " rows",
                 l->o.file, l->o.weights, s->rows, s->inputs, rows->rows);
}

/* Collective. */
static tt_err open_rows(tt_comm *c, tt_score_file *l)
{
  const tt_data_spec spec = {.file = l->o.file,
                             .inputs = l->o.inputs,
                             .targets = l->o.targets,
                             .like_input = &l->first->input,
                             .like_target = &l->first->target,
                             .format = l->o.format,
                             .missing_inputs = tt_scaler_fills(&l->first->scaler),
                             .net = &l->first->scaler.net};
  return tt_data_reader_open(c, &spec, &l->rows);
}

static tt_err match_local(tt_score_file *l)
{
  TT_TRY(tt_data_reader_match_local(l->rows, &l->first->input, NULL, "the model", 1));
  if (l->o.weights) TT_TRY(open_weights(l));
  return match_targets(l);
}

tt_err tt_score_file_open(tt_comm *c, const tt_trained_ensembles *model,
                          const tt_score_file_options *o, tt_score_file *out)
{
  *out = (tt_score_file){.o = *o, .model = model, .first = model->at[0]};
  if (!o->inputs) out->o.inputs = "x";
  if (!o->targets) out->o.targets = "y";
  const char *names[] = {tt_optional_default(out->o.inputs), tt_optional_default(out->o.targets),
                         o->weights};
  tt_err e = tt_agree(c, tt_comm_is_root(c) ? tt_guarded_check_local(o->file, names, 3) : TT_OK);
  if (!e) e = open_rows(c, out);
  return e ? e : tt_agree(c, match_local(out));
}

void tt_score_file_close_local(tt_score_file *l)
{
  tt_free(l->column);
  tt_data_reader_close_local(&l->weights);
  tt_data_reader_close_local(&l->rows);
}
