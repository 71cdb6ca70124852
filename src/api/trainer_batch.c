/* trainer_batch.c — rows of the caller for the engine of a trainer; see trainer_batch.h. */
#include "src/api/trainer_batch.h"

#include "core/base/int.h"
#include "core/base/mem.h"
#include "core/formulas/output.h"
#include "src/host/resources.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

static int64_t inputs_of(const tutti_trainer *t) { return t->data->inputs; }
static int64_t members_of(const tutti_trainer *t) { return t->cohort->members; }

int64_t tt_trainer_chunk(const tutti_trainer *t)
{
  return tt_part_max_rows(t->cohort->batch_size, t->cohort->parts);
}

tt_err tt_trainer_check(const tutti_trainer *t)
{
  if (!t) return TT_FAIL(USAGE, "the trainer is NULL: create one with tutti_trainer_create");
  if (t->ops != &tt_engine_cpu && t->process != getpid())
    return TT_FAIL(UNAVAILABLE, "this process was forked from the one that created the trainer on "
                                "a GPU: create it here, or with run.device: cpu");
  if (tt_resources_team_local(t->use.threads) < t->use.threads)
    return TT_FAIL(UNAVAILABLE, "this process was forked from the one that created the trainer "
                                "with several threads: create it here, or with one thread");
  return TT_OK;
}

/* 0, 1, 2, ..., at least `count` numbers. */
static tt_err number_rows(tutti_trainer *t, int64_t count)
{
  if (count <= t->numbers) return TT_OK;
  tt_free(t->number);
  t->numbers = 0;
  TT_TRY(TT_ALLOC(t->number, count));
  for (int64_t i = 0; i < count; i++) t->number[i] = (int32_t)i;
  t->numbers = count;
  return TT_OK;
}

tt_err tt_trainer_reserve(tt_trainer_floats *array, int64_t values)
{
  if (values <= array->values && array->value) return TT_OK;
  tt_free(array->value);
  array->values = 0;
  TT_TRY(TT_ALLOC_VALUES(array->value, values));
  array->values = values;
  return TT_OK;
}

/* What batch->count, own_rows and index say. */
static tt_err find_rows(const tutti_trainer *t, const tutti_batch *b, tt_batch *out)
{
  int64_t members = members_of(t), groups = b->own_rows ? members : 1;
  int64_t most = b->index ? INT64_MAX : b->rows / groups;
  if (b->rows < 1 || b->rows > INT32_MAX)
    return TT_FAIL(USAGE, "batch->rows is %" PRId64 ": 1 to 2147483647", b->rows);
  if (b->index && b->own_rows) return TT_FAIL(USAGE, "batch has an index and own_rows: set one");
  if (b->own_rows && b->rows % members)
    return TT_FAIL(
        USAGE, "batch->rows is %" PRId64 ": with own_rows a multiple of the %" PRId64 " members",
        b->rows, members);
  if (b->index && b->count < 1)
    return TT_FAIL(USAGE, "batch->count is %" PRId64 ": with an index it is at least 1", b->count);
  out->count = b->count ? b->count : most;
  if (out->count < 1 || out->count > most)
    return TT_FAIL(USAGE, "batch->count is %" PRId64 ", but each member has %" PRId64 " rows",
                   out->count, most);
  if (out->count > t->cohort->batch_size)
    return TT_FAIL(USAGE, "a step has %" PRId64 " rows: at most train.batch_size, %" PRId64,
                   out->count, t->cohort->batch_size);
  out->rows = b->rows;
  out->stride = b->index ? out->count : b->own_rows ? b->rows / members : 0;
  return TT_OK;
}

static tt_err check_index(const tutti_trainer *t, const tutti_batch *b, const tt_batch *out)
{
  uint32_t largest = 0;
  int64_t values = b->index ? members_of(t) * out->count : 0;
  for (int64_t i = 0; i < values; i++)
    largest = (uint32_t)b->index[i] > largest ? (uint32_t)b->index[i] : largest;
  if (values == 0 || largest < (uint64_t)b->rows) return TT_OK;
  for (int64_t i = 0;; i++)
    if ((uint32_t)b->index[i] >= (uint64_t)b->rows)
      return TT_FAIL(USAGE,
                     "batch->index of member %" PRId64 ", place %" PRId64
                     ", is %d: rows are 0 to %" PRId64,
                     i / out->count, i % out->count, (int)b->index[i], b->rows - 1);
}

/* Whether all values of a row are finite: 0 times another one is not 0. */
static int are_finite(const float *value, int64_t count)
{
  float probe = 0.0f;
  for (int64_t i = 0; i < count; i++) probe += 0.0f * value[i];
  return probe == 0.0f;
}

static tt_err check_inputs(const tutti_trainer *t, int64_t row, const float *x)
{
  if (are_finite(x, inputs_of(t))) return TT_OK;
  for (int64_t i = 0;; i++)
    if (!isfinite(x[i]))
      return TT_FAIL(DATA, "x[%" PRId64 "][%" PRId64 "] is %g: inputs are finite", row, i,
                     (double)x[i]);
}

static tt_err check_labels(const tutti_trainer *t, int64_t row, const float *y)
{
  const tt_model *m = &t->cohort->model;
  tt_label_type type = tt_output_labels(m->output);
  int64_t targets = t->data->targets;
  if (type == TT_LABEL_TYPE_real && are_finite(y, targets)) return TT_OK;
  for (int64_t k = 0; k < targets; k++) {
    int missing = isnan(y[k]) && t->cohort->partial_labels;
    if (!missing && !(isfinite(y[k]) && tt_label_fits(type, m->levels, (double)y[k])))
      return TT_FAIL(DATA,
                     "y[%" PRId64 "][%" PRId64 "] is %g: it is no label for output %s; a missing "
                     "label is NaN with data.partial_labels: use",
                     row, k, (double)y[k], tt_choice_output[m->output]);
  }
  return TT_OK;
}

static tt_err check_row(const tutti_trainer *t, const tutti_batch *b, int labels, int64_t row)
{
  TT_TRY(check_inputs(t, row, b->x + row * inputs_of(t)));
  if (labels) TT_TRY(check_labels(t, row, b->y + row * t->data->targets));
  if (labels && b->weight && !(b->weight[row] >= 0.0f && isfinite(b->weight[row])))
    return TT_FAIL(DATA, "weight[%" PRId64 "] is %g: weights are finite and not negative", row,
                   (double)b->weight[row]);
  return TT_OK;
}

/* All rows that members use. */
static tt_err check_values(const tutti_trainer *t, const tutti_batch *b, const tt_batch *out,
                           int labels)
{
  int64_t members = out->stride ? members_of(t) : 1;
  for (int64_t m = 0; m < members; m++)
    for (int64_t r = 0; r < out->count; r++)
      TT_TRY(check_row(t, b, labels, out->row[m * out->stride + r]));
  return TT_OK;
}

/* The values of the caller as the networks get them: all rows of the arrays. */
static tt_err scale_rows(tutti_trainer *t, tt_batch *out)
{
  const tt_scaler *s = &t->data->scaler;
  int64_t inputs = inputs_of(t), targets = t->data->targets;
  TT_TRY(tt_trainer_reserve(&t->x, out->rows * inputs));
  if (out->y) TT_TRY(tt_trainer_reserve(&t->y, out->rows * targets));
  for (int64_t r = 0; r < out->rows; r++) {
    for (int64_t i = 0; i < inputs; i++)
      t->x.value[r * inputs + i] =
          (float)(((double)out->x[r * inputs + i] - s->x_mean[i]) / s->x_scale[i]);
    for (int64_t k = 0; out->y && k < targets; k++)
      t->y.value[r * targets + k] =
          (float)(((double)out->y[r * targets + k] - s->y_mean[k]) / s->y_scale[k]);
  }
  out->x = t->x.value;
  if (out->y) out->y = t->y.value;
  return TT_OK;
}

tt_err tt_trainer_give_batch(tutti_trainer *t, const tutti_batch *b, int labels)
{
  tt_batch out = {.columns = t->data->targets,
                  .x = b->x,
                  .y = labels ? b->y : NULL,
                  .weight = b->weight,
                  .epoch_rows = t->epoch_rows,
                  .loss = t->loss};
  if (!b->x) return TT_FAIL(USAGE, "batch->x is NULL");
  if (labels && !b->y) return TT_FAIL(USAGE, "batch->y is NULL: a step needs labels");
  TT_TRY(find_rows(t, b, &out));
  TT_TRY(check_index(t, b, &out));
  if (!b->index) TT_TRY(number_rows(t, out.stride ? b->rows : out.count));
  out.row = b->index ? b->index : t->number;
  TT_TRY(check_values(t, b, &out, labels));
  if (t->is_scaled) TT_TRY(scale_rows(t, &out));
  t->batch = out;
  return t->engine ? t->ops->set_batch(t->engine, &t->batch) : TT_OK;
}

tt_err tt_trainer_give_rows(tutti_trainer *t, const float *x, int64_t count)
{
  tt_batch out = {.rows = count,
                  .columns = t->data->targets,
                  .x = x,
                  .count = count,
                  .predicts = 1,
                  .epoch_rows = t->epoch_rows,
                  .loss = t->loss};
  TT_TRY(number_rows(t, count));
  out.row = t->number;
  for (int64_t r = 0; r < count; r++) TT_TRY(check_inputs(t, r, x + r * inputs_of(t)));
  if (t->is_scaled) TT_TRY(scale_rows(t, &out));
  t->batch = out;
  return t->engine ? t->ops->set_batch(t->engine, &t->batch) : TT_OK;
}
