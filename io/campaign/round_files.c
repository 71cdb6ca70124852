/* round_files.c — picks.h5 and answers.h5 of a round; see campaign_files.h. */
#include "io/campaign/campaign_files.h"
#include "io/hdf5/schema.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <math.h>

tt_err tt_picks_create(int64_t count, int64_t inputs, tt_picks **out)
{
  tt_picks *p = NULL;
  *out = NULL;
  tt_err e = TT_ALLOC(p, 1);
  if (!e) p->count = count, p->inputs = inputs;
  if (!e) e = TT_ALLOC(p->row, count);
  if (!e) e = TT_ALLOC(p->score, count);
  if (!e) e = TT_ALLOC(p->random, count);
  if (!e) e = TT_ALLOC(p->x, count * inputs);
  if (e) tt_picks_destroy(&p);
  *out = p;
  return e;
}

void tt_picks_destroy(tt_picks **p)
{
  if (!*p) return;
  tt_free((*p)->row);
  tt_free((*p)->score);
  tt_free((*p)->random);
  tt_free((*p)->x);
  tt_free(*p);
}

tt_err tt_answers_create(int64_t count, int64_t targets, tt_answers **out)
{
  tt_answers *a = NULL;
  *out = NULL;
  tt_err e = TT_ALLOC(a, 1);
  if (!e) a->count = count, a->targets = targets;
  if (!e) e = TT_ALLOC(a->answer, count);
  if (!e) e = TT_ALLOC(a->y, count * targets);
  for (int64_t i = 0; !e && i < count * targets; i++)
    a->y[i] = NAN;
  if (e) tt_answers_destroy(&a);
  *out = a;
  return e;
}

void tt_answers_destroy(tt_answers **a)
{
  if (!*a) return;
  tt_free((*a)->answer);
  tt_free((*a)->y);
  tt_free(*a);
}

/* ---- Writing -----------------------------------------------------------------------------------
 */

static const tt_variable v_row = {"row", TT_H5_I64, {"pick"}, NULL, "number of the candidate",
                                  NULL};
static const tt_variable v_score = {
    "score", TT_H5_F64, {"pick"}, NULL, "when it was chosen, missing if at random", NULL};
static const tt_variable v_random = {"random", TT_H5_I8, {"pick"}, NULL, "how it was chosen", NULL};
static const tt_variable v_x = {"x",  TT_H5_F64, {"pick", "feature"},
                                NULL, "inputs",  "feature_name feature_units"};
static const tt_variable v_answer = {"answer", TT_H5_I8, {"pick"}, NULL, "what became of it", NULL};
static const tt_variable v_y = {"y",
                                TT_H5_F64,
                                {"pick", "target"},
                                NULL,
                                "labels, missing where unlabelled",
                                "target_name target_units"};

/* Collective. A file of `count` picks with the names of `columns`. */
static tt_err begin(tt_comm *c, const char *file, const char *schema, const char *dim,
                    const char *name, const char *units, const tt_columns *columns, int64_t count,
                    tt_schema *s)
{
  *s = (tt_schema){0};
  TT_TRY(tt_h5_create(c, file, count * (columns->count + 3) * 8 + (1 << 14), &s->file));
  tt_h5_attr_text(s->file, "/", "Conventions", "CF-1.10");
  tt_h5_attr_text(s->file, "/", "tutti_schema", schema);
  tt_schema_dim(s, "name_strlen", tt_schema_columns_length(columns));
  tt_schema_dim(s, "pick", count);
  tt_schema_columns(s, dim, "name_strlen", name, units, columns);
  return TT_OK;
}

tt_err tt_picks_write(tt_comm *c, const char *file, const tt_picks *p, const tt_columns *input)
{
  tt_schema s;
  tt_err e = begin(c, file, TT_SCHEMA_PICKS, "feature", "feature_name", "feature_units", input,
                   p->count, &s);
  if (e) return e;
  tt_schema_root(&s, &v_row, p->row);
  tt_schema_root(&s, &v_score, p->score);
  tt_schema_root(&s, &v_random, p->random);
  tt_schema_flags(&s, "random", 2, "by_score at_random");
  tt_schema_root(&s, &v_x, p->x);
  return tt_h5_commit(&s.file, NULL);
}

tt_err tt_answers_write(tt_comm *c, const char *file, const tt_picks *p, const tt_answers *a,
                        const tt_columns *target)
{
  tt_schema s;
  tt_err e = begin(c, file, TT_SCHEMA_ANSWERS, "target", "target_name", "target_units", target,
                   p->count, &s);
  if (e) return e;
  tt_schema_root(&s, &v_row, p->row);
  tt_schema_root(&s, &v_answer, a->answer);
  tt_schema_flags(&s, "answer", 2, "failed labelled");
  tt_schema_root(&s, &v_y, a->y);
  return tt_h5_commit(&s.file, NULL);
}

/* ---- Reading -----------------------------------------------------------------------------------
 */

/* How many picks, and columns of the matrix. Picks may be none. */
static tt_err sizes(tt_h5_reader *r, const char *matrix, int64_t *count, int64_t *columns)
{
  tt_h5_info info;
  TT_TRY(tt_h5_info_local(r, matrix, &info));
  if (info.ndims != 2 || info.dims[1] < 1)
    return TT_FAIL(DATA, "%s: '%s' has no columns" TT_DAMAGED, tt_h5_file_name(r), matrix);
  *count = info.dims[0];
  *columns = info.dims[1];
  return tt_schema_shape_local(r, matrix, 2, info.dims);
}

static tt_err read_list(tt_h5_reader *r, const char *name, tt_h5_type type, int64_t count, void *to)
{
  TT_TRY(tt_schema_shape_local(r, name, 1, (int64_t[]){count}));
  return tt_h5_read_local(r, name, type, 0, count, to);
}

static tt_err wrong(tt_h5_reader *r, const char *name, int64_t i)
{
  return TT_FAIL(DATA, "%s: '%s', entry %" PRId64 " cannot be" TT_DAMAGED, tt_h5_file_name(r), name,
                 i);
}

static tt_err read_picks(tt_h5_reader *r, tt_picks **out)
{
  int64_t count = 0, inputs = 0;
  TT_TRY(tt_schema_check_local(r, TT_SCHEMA_PICKS, "picks"));
  TT_TRY(sizes(r, "x", &count, &inputs));
  TT_TRY(tt_picks_create(count, inputs, out));
  const tt_picks *p = *out;
  TT_TRY(read_list(r, "row", TT_H5_I64, count, p->row));
  TT_TRY(read_list(r, "score", TT_H5_F64, count, p->score));
  TT_TRY(read_list(r, "random", TT_H5_I8, count, p->random));
  TT_TRY(tt_h5_read_local(r, "x", TT_H5_F64, 0, count, p->x));
  for (int64_t i = 0; i < count; i++) {
    if (p->row[i] < 0) return wrong(r, "row", i);
    if (p->random[i] < 0 || p->random[i] > 1) return wrong(r, "random", i);
  }
  return TT_OK;
}

static tt_err read_answers(tt_h5_reader *r, tt_answers **out)
{
  int64_t count = 0, targets = 0;
  TT_TRY(tt_schema_check_local(r, TT_SCHEMA_ANSWERS, "answers"));
  TT_TRY(sizes(r, "y", &count, &targets));
  TT_TRY(tt_answers_create(count, targets, out));
  const tt_answers *a = *out;
  TT_TRY(read_list(r, "answer", TT_H5_I8, count, a->answer));
  TT_TRY(tt_h5_read_local(r, "y", TT_H5_F64, 0, count, a->y));
  for (int64_t i = 0; i < count; i++)
    if (a->answer[i] != TT_ANSWER_failed && a->answer[i] != TT_ANSWER_labelled)
      return wrong(r, "answer", i);
  return TT_OK;
}

tt_err tt_picks_read_local(const char *file, tt_picks **out)
{
  tt_h5_reader *r = NULL;
  *out = NULL;
  TT_TRY(tt_h5_open_local(file, &r));
  tt_err e = read_picks(r, out);
  tt_h5_close_local(&r);
  if (e) tt_picks_destroy(out);
  return e;
}

tt_err tt_answers_read_local(const char *file, tt_answers **out)
{
  tt_h5_reader *r = NULL;
  *out = NULL;
  TT_TRY(tt_h5_open_local(file, &r));
  tt_err e = read_answers(r, out);
  tt_h5_close_local(&r);
  if (e) tt_answers_destroy(out);
  return e;
}

/* ---- All ranks ---------------------------------------------------------------------------------
 */

tt_err tt_picks_read(tt_comm *c, const char *file, tt_picks **out)
{
  int root = tt_comm_is_root(c);
  int64_t size[2] = {0};
  *out = NULL;
  tt_err e = tt_agree(c, root ? tt_picks_read_local(file, out) : TT_OK);
  if (!e && root) size[0] = (*out)->count, size[1] = (*out)->inputs;
  if (!e) tt_bcast(c, size, sizeof size);
  if (!e) e = tt_agree(c, root ? TT_OK : tt_picks_create(size[0], size[1], out));
  if (e) {
    tt_picks_destroy(out);
    return e;
  }
  const tt_picks *p = *out;
  tt_bcast(c, p->row, p->count * (int64_t)sizeof *p->row);
  tt_bcast(c, p->score, p->count * (int64_t)sizeof *p->score);
  tt_bcast(c, p->random, p->count * (int64_t)sizeof *p->random);
  tt_bcast(c, p->x, p->count * p->inputs * (int64_t)sizeof *p->x);
  return TT_OK;
}

tt_err tt_answers_read(tt_comm *c, const char *file, tt_answers **out)
{
  int root = tt_comm_is_root(c);
  int64_t size[2] = {0};
  *out = NULL;
  tt_err e = tt_agree(c, root ? tt_answers_read_local(file, out) : TT_OK);
  if (!e && root) size[0] = (*out)->count, size[1] = (*out)->targets;
  if (!e) tt_bcast(c, size, sizeof size);
  if (!e) e = tt_agree(c, root ? TT_OK : tt_answers_create(size[0], size[1], out));
  if (e) {
    tt_answers_destroy(out);
    return e;
  }
  const tt_answers *a = *out;
  tt_bcast(c, a->answer, a->count * (int64_t)sizeof *a->answer);
  tt_bcast(c, a->y, a->count * a->targets * (int64_t)sizeof *a->y);
  return TT_OK;
}
