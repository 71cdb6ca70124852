/* predictions.c — the files of `tutti predict`, see results.h. */
#include "core/base/mem.h"
#include "io/results/axis_labels.h"
#include "io/results/results.h"

#include <inttypes.h>

struct tt_prediction_file {
  tt_h5_file *file;
  int64_t columns, quantiles, members, width; /* members 0 = not written */
  int64_t inputs;                             /* of the Jacobians; 0 = not written */
  const double *level;                        /* [levels] borrowed from the model */
  int64_t levels;                             /* of conformal intervals */
  int classes, extrapolation;
  int leverage;
};

static int64_t expected_bytes(const tt_prediction_shape *shape, const tt_axis_labels *o,
                              int64_t width, int64_t inputs)
{
  int64_t per_row = o->columns * (4 * (1 + inputs) + shape->quantiles) * (int64_t)sizeof(double);
  if (shape->members) per_row += 2 * o->members * width * (int64_t)sizeof(double);
  return shape->rows * per_row + o->members * (8 + o->text) + (1 << 16);
}

/* Create a variable; the names of its axes stand last. */
#define DECLARE(name_, type_, units_, meaning_, coordinates_, ...)                                 \
  tt_schema_create_variable(                                                                       \
      s, &(tt_variable)TT_VARIABLE(name_, type_, units_, meaning_, coordinates_, __VA_ARGS__))

static const tt_variable sample =
    TT_VARIABLE("sample", I64, NULL, "row of the data file, from 0", NULL, "sample");

static tt_err declare_columns(tt_schema *s, const char *units)
{
  tt_err e = TT_OK;
#define X(field, name, kind, meaning)                                                              \
  e = DECLARE(name, F64, units, meaning, TT_COLUMN_COORDINATES, "sample", "column");
  TT_PREDICTION_COLUMNS(X)
#undef X
  return e;
}

static tt_err declare_extrapolation(tt_schema *s)
{
  return DECLARE("extrapolation", F64, "1",
                 "largest distance of an input beyond the range of the training rows, in units of "
                 "the range; 0 inside",
                 NULL, "sample");
}

static tt_err declare_leverage(tt_schema *s)
{
  return DECLARE("leverage", F64, "1",
                 "epistemic standard deviation of the normalized target, divided by its root mean "
                 "square over training rows",
                 TT_COLUMN_COORDINATES, "sample", "column");
}

static tt_err declare_quantiles(tt_schema *s, const tt_prediction_shape *shape, const char *units)
{
  TT_SCHEMA_COORDINATE(s, shape->quantiles, shape->quantile, "quantile", F64, "1",
                       "probability of the quantile");
  return DECLARE("y_pred_quantile", F64, units, "quantile of the mixture of the members",
                 TT_COLUMN_COORDINATES, "quantile", "sample", "column");
}

/* The last axis has the targets of a member, or its outputs if there are several per target
 * (levels, classes). */
static tt_err declare_members(tt_schema *s, const tt_axis_labels *o)
{
  static const char labels[] = TT_MEMBER_COORDINATES " member_column";
  tt_axis_labels_write_members(s, o);
  const char *last = tt_axis_labels_write_places(s, o);
  DECLARE("y_member_mean", F64, o->common_units, "mean of a member", labels, "member", "sample",
          last);
  return DECLARE("y_member_variance", F64, NULL, "variance of a member", labels, "member", "sample",
                 last);
}

/* Names and units of the inputs have an axis of characters of their own. */
static tt_err declare_jacobians(tt_schema *s, const tt_columns *input)
{
  tt_err e = TT_OK;
  tt_schema_create_dimension(s, "feature_strlen", tt_schema_max_column_text(input));
  tt_schema_write_columns(s, "feature", "feature_strlen", "feature_name", "feature_units", input);
#define X(field, name, kind, meaning)                                                              \
  e = DECLARE(name "_jacobian", F64, NULL, "derivative by the input: " meaning,                    \
              TT_COLUMN_COORDINATES " feature_name feature_units", "sample", "column", "feature");
  TT_PREDICTION_COLUMNS(X)
#undef X
  return e;
}

/* Find the conformal levels, which are the same in all cohorts that have them, and whether there
 * are classes. */
static void find_extras(const tt_trained_ensembles *model, tt_prediction_file *f)
{
  for (int64_t i = 0; i < model->count; i++) {
    const tt_trained_ensemble *m = model->at[i];
    if (m->calibration.levels) f->level = m->calibration.level;
    if (m->calibration.levels) f->levels = m->calibration.levels;
    f->classes |= tt_output_is_class(m->model.output);
  }
}

static tt_err declare_extras(tt_schema *s, const tt_prediction_file *f, const char *units)
{
  tt_err e = TT_OK;
  if (f->levels) {
    TT_SCHEMA_COORDINATE(s, f->levels, f->level, "conformal_level", F64, "1",
                         "nominal coverage of the conformal interval");
    DECLARE("y_pred_lower", F64, units, "lower end of the conformal interval",
            TT_COLUMN_COORDINATES, "conformal_level", "sample", "column");
    e = DECLARE("y_pred_upper", F64, units, "upper end of the conformal interval",
                TT_COLUMN_COORDINATES, "conformal_level", "sample", "column");
  }
  if (!f->classes) return e;
  DECLARE("y_entropy", F64, "1", "entropy of the mean probabilities, in nats",
          TT_COLUMN_COORDINATES, "sample", "column");
  return DECLARE("y_mutual_information", F64, "1",
                 "entropy of the mean probabilities minus mean entropy of the members, in nats",
                 TT_COLUMN_COORDINATES, "sample", "column");
}

/* Write the groups of the rows. */
static void write_groups(tt_schema *s, tt_comm *c, const tt_prediction_shape *shape)
{
  const char *const *name = shape->group_name;
  int64_t length = name ? tt_h5_max_text_length(shape->groups, name) : 0;
  tt_bcast(c, &length, sizeof length);
  tt_schema_create_dimension(s, TT_GROUP_AXIS, shape->groups);
  tt_schema_create_dimension(s, "group_strlen", length);
  tt_schema_write_texts(s, "group", TT_GROUP_AXIS, "group_strlen", name,
                        "value of the columns of by");
  tt_h5_write_attr_text(s->file, "group", "by", shape->by_columns);
  TT_SCHEMA_WRITE(s, shape->group_own, "group_own", I8, NULL,
                  "1 = the group has an ensemble; 0 = predicted by that of all rows, or NaN",
                  "group", TT_GROUP_AXIS);
  TT_SCHEMA_WRITE(s, shape->group_of_row, "sample_group", I32, NULL, "group_index of the row", NULL,
                  "sample");
}

static tt_err prepare_local(const tt_trained_ensembles *model, const tt_prediction_shape *shape,
                            tt_axis_labels *o, tt_prediction_file **out)
{
  int64_t columns = tt_trained_ensembles_columns(model);
  if (shape->columns != columns)
    return TT_FAIL(INTERNAL, "%" PRId64 " columns, but the model has %" PRId64, shape->columns,
                   columns);
  TT_TRY(tt_axis_labels_create(model, o));
  TT_TRY(TT_ALLOC(*out, 1));
  (*out)->columns = columns;
  (*out)->quantiles = shape->quantiles;
  (*out)->members = shape->members ? o->members : 0;
  (*out)->width = o->width;
  (*out)->extrapolation = shape->extrapolation;
  (*out)->leverage = shape->leverage;
  (*out)->inputs = shape->jacobian ? model->at[0]->input.count : 0;
  find_extras(model, *out);
  return TT_OK;
}

tt_err tt_prediction_file_create(tt_comm *c, const char *file, const tt_trained_ensembles *model,
                                 const tt_prediction_shape *shape, const tt_provenance *provenance,
                                 tt_prediction_file **out)
{
  tt_axis_labels o = {0};
  tt_prediction_file *p = NULL;
  tt_schema s;
  tt_err e = tt_agree(c, prepare_local(model, shape, &o, &p));
  if (!e) e = tt_h5_create(c, file, expected_bytes(shape, &o, p->width, p->inputs), &p->file);
  if (!e) {
    tt_schema_write_header(&s, c, p->file, TT_SCHEMA_PREDICTION, provenance);
    tt_axis_labels_write_columns(&s, &o);
    tt_schema_create_coordinate(&s, &sample, shape->rows);
    e = tt_schema_write_ids(&s, c, "sample", shape->ids, NULL);
    if (!e && shape->groups) write_groups(&s, c, shape);
    if (!e) e = declare_columns(&s, o.common_units);
    if (!e && p->extrapolation) e = declare_extrapolation(&s);
    if (!e && p->leverage) e = declare_leverage(&s);
    if (!e && shape->quantiles) e = declare_quantiles(&s, shape, o.common_units);
    if (!e && (p->levels || p->classes)) e = declare_extras(&s, p, o.common_units);
    if (!e && shape->members) e = declare_members(&s, &o);
    if (!e && p->inputs) e = declare_jacobians(&s, &model->at[0]->input);
  }
  tt_axis_labels_free(&o);
  if (e) tt_prediction_file_destroy(&p);
  *out = p;
  return e;
}

static tt_err write_jacobians(tt_prediction_file *f, const tt_prediction_block *b)
{
  const int64_t offset[] = {b->first, 0, 0}, size[] = {b->rows, f->columns, f->inputs};
  tt_err e = TT_OK;
#define X(field, name, ...)                                                                        \
  e = tt_h5_write_block(f->file, name "_jacobian", offset, size, b->jacobian.field);
  TT_PREDICTION_COLUMNS(X)
#undef X
  return e;
}

tt_err tt_prediction_file_write(tt_prediction_file *f, const tt_prediction_block *b)
{
  const int64_t offset[] = {0, b->first, 0}, size[] = {b->rows, f->columns};
  const struct {
    const char *variable;
    int64_t layers, width;
    const void *from;
  } part[] = {{"y_pred_quantile", f->quantiles, f->columns, b->quantile},
              {"y_member_mean", f->members, f->width, b->member_mean},
              {"y_member_variance", f->members, f->width, b->member_variance},
              {"y_pred_lower", f->levels, f->columns, b->lower},
              {"y_pred_upper", f->levels, f->columns, b->upper}};
  tt_err e = tt_h5_write_block(f->file, sample.name, &offset[1], size, b->row);
#define X(field, name, ...) e = tt_h5_write_block(f->file, name, &offset[1], size, b->field);
  TT_PREDICTION_COLUMNS(X)
#undef X
  for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
    const int64_t block[] = {b->rows ? part[i].layers : 0, b->rows, part[i].width};
    if (part[i].layers)
      e = tt_h5_write_block(f->file, part[i].variable, offset, block, part[i].from);
  }
  if (f->extrapolation)
    e = tt_h5_write_block(f->file, "extrapolation", &offset[1], size, b->extrapolation);
  if (f->leverage) e = tt_h5_write_block(f->file, "leverage", &offset[1], size, b->leverage);
  if (f->inputs) e = write_jacobians(f, b);
  if (!f->classes) return e;
  tt_h5_write_block(f->file, "y_entropy", &offset[1], size, b->entropy);
  return tt_h5_write_block(f->file, "y_mutual_information", &offset[1], size,
                           b->mutual_information);
}

tt_err tt_prediction_file_close(tt_prediction_file **f)
{
  tt_err e = tt_h5_commit(&(*f)->file);
  tt_free(*f);
  return e;
}

void tt_prediction_file_destroy(tt_prediction_file **f)
{
  if (!*f) return;
  tt_h5_discard(&(*f)->file);
  tt_free(*f);
}
