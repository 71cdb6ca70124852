/* rows.c — shape, names and rows of a data file; see data.h. */
#include "io/data/data_internal.h"

#include "core/base/list.h"
#include "core/base/mem.h"
#include "io/table/column_choice.h"

#include <inttypes.h>
#include <string.h>

struct tt_data_reader {
  tt_source source;
  char *inputs, *targets; /* owned; the matrices borrow them */
  tt_source_matrix x, y;
  int64_t *x_from, *y_from; /* [columns] column of the file for each one read; NULL: in its order */
  double *row;              /* [D or T] scratch, if there is x_from or y_from */
  tt_data_shape shape;
  tt_input_levels levels;
  tt_class_levels classes;
};

/* Names of the columns of a matrix in a table. */
static tt_err name_columns(const tt_table *t, const tt_source_matrix *m, tt_columns *out)
{
  TT_TRY(tt_columns_create(m->columns, out));
  out->given = 1;
  for (int64_t k = 0; k < m->columns; k++) {
    TT_TRY(tt_text_set(&out->name[k], t->name[m->from[k]]));
    out->given &= !t->group || !t->group[m->from[k]];
  }
  return TT_OK;
}

static tt_err read_names(const tt_data_reader *r, int is_target, tt_columns *out)
{
  const tt_source_matrix *m = is_target ? &r->y : &r->x;
  if (m->from) TT_TRY(name_columns(r->source.table, m, out));
  if (m->from) return r->source.h5 ? tt_h5_columns_read_units_local(r->source.h5, out) : TT_OK;
  return tt_h5_columns_read_local(r->source.h5, is_target ? "y" : "x",
                                  is_target ? "target_name" : "feature_name",
                                  is_target ? "target_units" : "feature_units", m->columns, out);
}

/* Which columns the options mean */

static tt_err find_column(tt_source *s, const char *name, int *found)
{
  *found = tt_source_has_local(s, name);
  return *found || !s->h5 ? TT_OK : tt_source_is_by_column_local(s, name, found);
}

tt_err tt_data_reader_has_column_local(tt_data_reader *r, const char *name, int *out)
{
  return find_column(&r->source, name, out);
}

/* Those of `like` that the file has. */
static tt_err list_existing(tt_source *s, const tt_columns *like, char **list)
{
  for (int64_t k = 0; k < like->count; k++) {
    int found = 0;
    TT_TRY(find_column(s, like->name[k], &found));
    if (found) TT_TRY(tt_list_add(list, like->name[k]));
  }
  return TT_OK;
}

/* The default names x and y mean something else in a file that has columns, but none, and no
 * dataset, of these names. An HDF5 file with matrices alone has no columns. */
static int is_default(tt_source *s, const char *text, const char *usual)
{
  tt_table *t;
  if (strcmp(text, usual) != 0 || tt_source_has_local(s, usual)) return 0;
  if (!s->h5) return 1;
  if (tt_source_table_local(s, &t)) return 0;
  for (int64_t k = 0; k < t->columns; k++)
    if (!t->group[k] && !t->hidden[k]) return 1;
  return 0;
}

/* Whether the columns are those of an array without names, and none is called as one of `like`:
 * then they are used by position. */
static int has_no_names(tt_source *s, const tt_columns *like)
{
  if (s->h5) return 0;
  for (int64_t k = 0; k < s->table->columns; k++)
    if (!s->table->group || !s->table->group[k]) return 0;
  for (int64_t k = 0; k < like->count; k++)
    if (tt_source_has_local(s, like->name[k])) return 0;
  return 1;
}

static tt_err find_inputs(tt_data_reader *r, const tt_data_spec *spec)
{
  if (!is_default(&r->source, spec->inputs, "x")) return tt_text_set(&r->inputs, spec->inputs);
  if (!spec->like_input || has_no_names(&r->source, spec->like_input))
    return tt_text_set(&r->inputs, "*");
  for (int64_t k = 0; k < spec->like_input->count; k++)
    TT_TRY(tt_list_add(&r->inputs, spec->like_input->name[k]));
  return TT_OK;
}

static tt_err find_targets(tt_data_reader *r, const tt_data_spec *spec)
{
  if (is_default(&r->source, spec->targets, "y")) {
    if (spec->like_target) TT_TRY(list_existing(&r->source, spec->like_target, &r->targets));
    if (spec->named_targets) TT_TRY(tt_text_set(&r->targets, spec->named_targets));
  }
  return r->targets ? TT_OK : tt_text_set(&r->targets, spec->targets);
}

/* in_use[columns of the table]: those that a pattern for the targets, or for the inputs, does not
 * match. */
static tt_err mark_in_use(const tt_data_reader *r, const tt_data_spec *spec, int is_target,
                          uint8_t *in_use)
{
  const tt_table *t = r->source.table;
  const tt_column_names names = {t->file, t->columns, t->name, t->group};
  const char *opposite = is_target ? r->inputs : r->targets;
  const tt_source_matrix *m = is_target ? &r->x : &r->y;
  for (int64_t k = 0; t->hidden && k < t->columns; k++)
    in_use[k] =
        t->hidden[k] && (is_target || !tt_data_names_category(spec->categories, t->name[k]));
  for (int i = 0; i < spec->others; i++)
    TT_TRY(tt_columns_mark_named(&names, "data", spec->other[i], in_use));
  for (int64_t k = 0; m->from && k < m->columns; k++) in_use[m->from[k]] = 1;
  return opposite ? tt_columns_mark_named(&names, "data", opposite, in_use) : TT_OK;
}

static tt_err open_matrix(tt_data_reader *r, const tt_data_spec *spec, int is_target, int by_column)
{
  const char *path = is_target ? r->targets : r->inputs;
  uint8_t *in_use = NULL;
  tt_table *t;
  tt_source_role role = {is_target ? "targets" : "inputs",
                         is_target ? TT_CELL_LABEL : TT_CELL_UNUSED, NULL, by_column};
  tt_err e = by_column ? tt_source_table_local(&r->source, &t) : TT_OK;
  if (!e && by_column) e = TT_ALLOC(in_use, t->columns);
  if (!e && by_column) e = mark_in_use(r, spec, is_target, in_use);
  role.in_use = in_use;
  if (!e) e = tt_source_matrix_open_local(&r->source, &role, path, is_target ? &r->y : &r->x);
  tt_free(in_use);
  return e;
}

/* Inputs by columns are chosen after the targets, because patterns leave these out. If one side
 * has columns of HDF5, a dataset of one axis is a column of its name on the other side too. */
static tt_err open_matrices(tt_data_reader *r, const tt_data_spec *spec)
{
  int inputs = 0, targets = 0;
  TT_TRY(tt_source_is_by_column_local(&r->source, r->inputs, &inputs));
  if (!spec->targets) return open_matrix(r, spec, 0, inputs);
  TT_TRY(tt_source_is_by_column_local(&r->source, r->targets, &targets));
  targets |= inputs || strcmp(r->targets, spec->targets) != 0;
  if (inputs) TT_TRY(open_matrix(r, spec, 1, targets));
  TT_TRY(open_matrix(r, spec, 0, inputs));
  return inputs ? TT_OK : open_matrix(r, spec, 1, targets);
}

/* data.id is no column of a matrix. */
static tt_err check_id(const tt_data_reader *r, const char *id, const tt_source_matrix *m,
                       const char *role)
{
  for (int64_t k = 0; id && m->from && k < m->columns; k++)
    if (!strcmp(r->source.table->name[m->from[k]], id))
      return TT_FAIL(CONFIG, "%s: column '%s' has ids (data.id), and is also one of the %s (%s)",
                     tt_source_file_name(&r->source), id, role, m->path);
  return TT_OK;
}

static tt_err check_shapes(const tt_data_reader *r)
{
  const char *file = tt_source_file_name(&r->source);
  if (r->x.rows < 1) return TT_FAIL(DATA, "%s: dataset '%s' has no rows", file, r->x.path);
  if (!r->targets || r->y.rows == r->x.rows) return TT_OK;
  return TT_FAIL(DATA,
                 "%s: '%s' has %" PRId64 " rows, but '%s' has %" PRId64
                 "; inputs and targets must have the same rows",
                 file, r->x.path, r->x.rows, r->y.path, r->y.rows);
}

/* Columns of inputs are announced when their names are known: some of them may be levels. */
static tt_err use_inputs(tt_data_reader *r, const tt_data_spec *spec)
{
  if (spec->names_only) return TT_OK;
  TT_TRY(tt_input_levels_create(spec, &r->shape.input, &r->levels));
  return tt_input_levels_use_local(&r->levels, &r->source, &r->x,
                                   spec->missing_inputs ? TT_CELL_LABEL : TT_CELL_NUMBER);
}

static tt_err open_all(tt_data_reader *r, const tt_data_spec *spec)
{
  const char *classes = spec->targets && spec->format ? spec->format->classes : NULL;
  TT_TRY(tt_source_open_local(spec->file, spec->format, &r->source));
  TT_TRY(tt_class_levels_use_local(classes, &r->source, &r->classes));
  TT_TRY(find_inputs(r, spec));
  if (spec->targets) TT_TRY(find_targets(r, spec));
  TT_TRY(open_matrices(r, spec));
  TT_TRY(read_names(r, 0, &r->shape.input));
  TT_TRY(use_inputs(r, spec));
  TT_TRY(check_shapes(r));
  TT_TRY(check_id(r, spec->id, &r->x, "inputs"));
  TT_TRY(check_id(r, spec->id, &r->y, "targets"));
  if (spec->id) TT_TRY(tt_text_set(&r->shape.input.id, spec->id));
  r->shape.rows = r->x.rows;
  r->shape.inputs = r->shape.net_inputs = r->x.columns;
  r->shape.targets = r->y.columns;
  TT_TRY(spec->targets ? read_names(r, 1, &r->shape.target)
                       : tt_columns_create(0, &r->shape.target));
  return tt_class_names_set(classes, &r->shape.target);
}

tt_err tt_data_reader_open_spec_local(const tt_data_spec *spec, tt_data_reader **out)
{
  tt_data_reader *r = NULL;
  TT_TRY(TT_ALLOC(r, 1));
  tt_err e = open_all(r, spec);
  if (e) tt_data_reader_close_local(&r);
  *out = r;
  return e;
}

const tt_row_marks *tt_data_reader_marks(const tt_data_reader *r)
{
  static const tt_row_marks none;
  return r->source.table ? &r->source.table->marks : &none;
}

tt_err tt_data_share_marks(tt_comm *c, tt_row_marks *m)
{
  tt_row_mark *mark = m->mark;
  tt_bcast(c, m, sizeof *m);
  m->mark = mark;
  if (!m->count) return TT_OK;
  int64_t bytes = m->count * (int64_t)sizeof *m->mark;
  return tt_bcast_block(c, &m->mark, &bytes);
}

tt_err tt_data_reader_open(tt_comm *c, const tt_data_spec *spec, tt_data_reader **out)
{
  int root = tt_comm_is_root(c);
  tt_table_format format = spec->format ? *spec->format : (tt_table_format){0};
  tt_data_spec known = *spec;
  tt_row_marks marks = {0};
  *out = NULL;
  tt_err e = tt_agree(c, root ? tt_data_reader_open_spec_local(spec, out) : TT_OK);
  if (!e && root) marks = *tt_data_reader_marks(*out);
  if (!e) e = tt_data_share_marks(c, &marks);
  format.marks = &marks;
  known.format = &format;
  if (!e) e = tt_agree(c, root ? TT_OK : tt_data_reader_open_spec_local(&known, out));
  if (!root) tt_free(marks.mark);
  if (e) tt_data_reader_close_local(out);
  return e;
}

tt_err tt_data_reader_open_local(const char *file, const char *inputs, const char *targets,
                                 tt_data_reader **out)
{
  const tt_data_spec spec = {.file = file, .inputs = inputs, .targets = targets};
  return tt_data_reader_open_spec_local(&spec, out);
}

tt_err tt_data_reader_match_local(tt_data_reader *r, const tt_columns *input,
                                  const tt_columns *target, const char *owner, int notice)
{
  const char *file = tt_source_file_name(&r->source);
  int64_t width = r->x.columns;
  TT_TRY(tt_h5_columns_match_local(file, r->inputs, input, owner, notice, &r->shape.input,
                                   &r->x_from));
  if (target && r->targets) {
    TT_TRY(tt_h5_columns_match_local(file, r->targets, target, owner, notice, &r->shape.target,
                                     &r->y_from));
    width = r->y.columns > width ? r->y.columns : width;
  }
  return r->x_from || r->y_from ? TT_ALLOC(r->row, width) : TT_OK;
}

static tt_err read_rows(const tt_data_reader *r, int64_t first, int64_t count, double *x, double *y)
{
  if (x) TT_TRY(tt_source_matrix_read_local(&r->source, &r->x, first, count, x));
  if (x) tt_columns_reorder(r->x_from, r->x.columns, count, x, r->row);
  if (y) TT_TRY(tt_source_matrix_read_local(&r->source, &r->y, first, count, y));
  if (y) tt_columns_reorder(r->y_from, r->y.columns, count, y, r->row);
  return TT_OK;
}

tt_err tt_data_reader_read_local(tt_data_reader *r, int64_t first, int64_t count, double *x,
                                 double *y)
{
  if (!r->targets) y = NULL;
  int64_t chunk = r->x.from && r->y.from && x && y ? r->source.table->rows_at_once : count;
  for (int64_t done = 0, n; done < count; done += n) {
    n = count - done < chunk ? count - done : chunk;
    TT_TRY(read_rows(r, first + done, n, x ? x + done * r->x.columns : NULL,
                     y ? y + done * r->y.columns : NULL));
  }
  return TT_OK;
}

const tt_data_shape *tt_data_reader_shape(const tt_data_reader *r) { return &r->shape; }
tt_source *tt_data_reader_file_local(tt_data_reader *r) { return &r->source; }
tt_input_levels *tt_data_reader_levels_local(tt_data_reader *r) { return &r->levels; }

const char *tt_data_reader_text_local(const tt_data_reader *r, int64_t column, double value)
{
  const tt_levels *l = &r->levels.of[r->x_from ? r->x_from[column] : column];
  return value >= 0.0 && value < (double)l->count ? l->text[(int64_t)value] : NULL;
}

const char *tt_data_reader_place_local(const tt_data_reader *r, int is_target, int64_t row,
                                       int64_t column, char *text, int64_t capacity)
{
  const tt_source_matrix *m = is_target ? &r->y : &r->x;
  const int64_t *src = is_target ? r->y_from : r->x_from;
  const tt_columns *names = is_target ? &r->shape.target : &r->shape.input;
  return tt_source_place_local(&r->source, m, row, m->from && src ? src[column] : column,
                               names->name[column], text, capacity);
}

void tt_data_reader_close_local(tt_data_reader **r)
{
  if (!*r) return;
  tt_source_close_local(&(*r)->source);
  tt_source_matrix_free(&(*r)->x);
  tt_source_matrix_free(&(*r)->y);
  tt_free_all(&(*r)->inputs, &(*r)->targets, &(*r)->x_from, &(*r)->y_from, &(*r)->row);
  tt_data_shape_free(&(*r)->shape);
  tt_input_levels_free(&(*r)->levels);
  tt_class_levels_free(&(*r)->classes);
  tt_free(*r);
}

void tt_data_reader_take_shape(tt_data_reader **r, tt_data_shape *out)
{
  *out = (*r)->shape;
  (*r)->shape = (tt_data_shape){0}; /* the caller owns the names now */
  tt_data_reader_close_local(r);
}

tt_err tt_data_read_shape_local(const char *file, const char *inputs, const char *targets,
                                tt_data_shape *out)
{
  tt_data_reader *r = NULL;
  TT_TRY(tt_data_reader_open_local(file, inputs, targets, &r));
  tt_data_reader_take_shape(&r, out);
  return TT_OK;
}

void tt_data_shape_free(tt_data_shape *s)
{
  tt_columns_free(&s->input);
  tt_columns_free(&s->target);
}
