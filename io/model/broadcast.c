/* broadcast.c — tt_model_read of model_file.h: rank 0 reads, all ranks get all members. */
#include "core/base/mem.h"
#include "io/model/model_file.h"

#include <string.h>

/* Everything of a committee but its weights, as one block of bytes. One function walks through the
 * fields; the walk counts bytes, copies them out, or copies them in. */
typedef enum walk_mode { COUNT, PACK, UNPACK } walk_mode;
typedef struct walk {
  walk_mode mode;
  char *bytes;
  int64_t at;
} walk;

static void pass(walk *k, void *field, int64_t bytes)
{
  if (k->mode == PACK) memcpy(k->bytes + k->at, field, (size_t)bytes);
  if (k->mode == UNPACK) memcpy(field, k->bytes + k->at, (size_t)bytes);
  k->at += bytes;
}

static tt_err pass_text(walk *k, char **text)
{
  if (k->mode == UNPACK) TT_TRY(tt_text_set(text, k->bytes + k->at));
  pass(k, *text, (int64_t)strlen(*text) + 1);
  return TT_OK;
}

static tt_err pass_ensemble(walk *k, tt_ensemble *e)
{
  TT_TRY(pass_text(k, &e->name));
  pass(k, &e->first, sizeof e->first);
  pass(k, &e->members, sizeof e->members);
  pass(k, &e->targets, sizeof e->targets);
  pass(k, &e->key, sizeof e->key);
  if (k->mode == UNPACK) TT_TRY(TT_ALLOC(e->column, e->targets));
  pass(k, e->column, e->targets * (int64_t)sizeof *e->column);
  return TT_OK;
}

static tt_err pass_columns(walk *k, tt_columns *c)
{
  int64_t count = c->count;
  pass(k, &count, sizeof count);
  if (k->mode == UNPACK) TT_TRY(tt_columns_create(count, c));
  for (int64_t i = 0; i < count; i++) {
    TT_TRY(pass_text(k, &c->name[i]));
    TT_TRY(pass_text(k, &c->units[i]));
  }
  return TT_OK;
}

static tt_err pass_scaler(walk *k, tt_scaler *s, int64_t inputs, int64_t targets)
{
  const int64_t bytes = sizeof *s->x_mean;
  if (k->mode == UNPACK) TT_TRY(tt_scaler_create(inputs, targets, s));
  pass(k, s->x_mean, inputs * bytes);
  pass(k, s->x_scale, inputs * bytes);
  pass(k, s->y_mean, targets * bytes);
  pass(k, s->y_scale, targets * bytes);
  return TT_OK;
}

static tt_err pass_calibration(walk *k, tt_calibration *c)
{
  const double none[TT_MAX_CONFORMAL] = {0};
  int64_t size[2] = {c->columns, c->levels};
  pass(k, size, sizeof size);
  if (!size[0]) return TT_OK;
  if (k->mode == UNPACK) TT_TRY(tt_calibration_create(size[0], size[1], none, c));
  pass(k, c->spread, size[0] * (int64_t)sizeof *c->spread);
  pass(k, c->rows, size[0] * (int64_t)sizeof *c->rows);
  pass(k, c->level, size[1] * (int64_t)sizeof *c->level);
  pass(k, c->width, size[1] * size[0] * (int64_t)sizeof *c->width);
  return TT_OK;
}

static tt_err pass_committee(walk *k, tt_committee *m)
{
  pass(k, &m->variance_floor, sizeof m->variance_floor);
  pass(k, m->weight, m->members * (int64_t)sizeof *m->weight);
  pass(k, m->status, m->members * (int64_t)sizeof *m->status);
  pass(k, m->index, m->members * (int64_t)sizeof *m->index);
  pass(k, m->snapshot, m->members * (int64_t)sizeof *m->snapshot);
  for (int64_t i = 0; i < m->ensembles; i++) TT_TRY(pass_ensemble(k, &m->ensemble[i]));
  TT_TRY(pass_columns(k, &m->input));
  TT_TRY(pass_columns(k, &m->target));
  TT_TRY(pass_calibration(k, &m->calibration));
  return pass_scaler(k, &m->scaler, m->input.count, m->target.count);
}

/* What the others need to make room. */
typedef struct head {
  tt_model model;
  int64_t ensembles, members, bytes;
} head;

static void describe_local(tt_committee *m, head *h)
{
  walk k = {COUNT, NULL, 0};
  pass_committee(&k, m);
  *h = (head){m->model, m->ensembles, m->members, k.at};
}

static tt_err make_room_local(const head *h, int root, tt_committee **m, char **bytes)
{
  TT_TRY(TT_ALLOC(*bytes, h->bytes));
  return root ? TT_OK : tt_committee_create(&h->model, h->ensembles, h->members, m);
}

/* Collective. *m is there on rank 0 and made on the others. */
static tt_err share(tt_comm *c, tt_committee **m)
{
  head h = {0};
  char *bytes = NULL;
  int root = tt_comm_is_root(c);
  if (root) describe_local(*m, &h);
  tt_bcast(c, &h, sizeof h);
  tt_err e = tt_agree(c, make_room_local(&h, root, m, &bytes));
  if (!e) {
    if (root) e = pass_committee(&(walk){PACK, bytes, 0}, *m);
    tt_bcast(c, bytes, h.bytes);
    if (!root) e = pass_committee(&(walk){UNPACK, bytes, 0}, *m);
    e = tt_agree(c, e);
  }
  if (!e) tt_bcast(c, (*m)->w, h.members * h.model.params * (int64_t)sizeof *(*m)->w);
  tt_free(bytes);
  return e;
}

tt_err tt_model_read(tt_comm *c, const char *file, tt_committees *out)
{
  tt_committees all = {0};
  tt_err e = tt_agree(c, tt_comm_is_root(c) ? tt_model_read_local(file, &all) : TT_OK);
  int64_t count = all.count;
  if (!e) tt_bcast(c, &count, sizeof count);
  if (!e) e = tt_agree(c, tt_comm_is_root(c) ? TT_OK : tt_committees_create(count, &all));
  for (int64_t i = 0; !e && i < count; i++) e = share(c, &all.at[i]);
  if (e)
    tt_committees_destroy(&all);
  else
    *out = all;
  return e;
}
