/* broadcast.c — tt_model_read of model_file.h: rank 0 reads, all ranks get all members. */
#include "core/base/mem.h"
#include "core/groups/by_groups.h"
#include "io/model/model_file.h"

#include <string.h>

/* Everything of a cohort except its weights, as one block of bytes. The functions visit the fields
 * in the same order in each mode: count the bytes, pack them, or unpack them. */
typedef enum archive_mode { COUNT, PACK, UNPACK } archive_mode;
typedef struct archive {
  archive_mode mode;
  char *bytes;
  int64_t at;
} archive;

static void archive_bytes(archive *k, void *field, int64_t bytes)
{
  if (k->mode == PACK) memcpy(k->bytes + k->at, field, (size_t)bytes);
  if (k->mode == UNPACK) memcpy(field, k->bytes + k->at, (size_t)bytes);
  k->at += bytes;
}

static tt_err archive_text(archive *k, char **text)
{
  if (k->mode == UNPACK) TT_TRY(tt_text_set(text, k->bytes + k->at));
  archive_bytes(k, *text, (int64_t)strlen(*text) + 1);
  return TT_OK;
}

static tt_err archive_ensemble(archive *k, tt_ensemble *e)
{
  TT_TRY(archive_text(k, &e->name));
  archive_bytes(k, &e->first, sizeof e->first);
  archive_bytes(k, &e->members, sizeof e->members);
  archive_bytes(k, &e->targets, sizeof e->targets);
  archive_bytes(k, &e->key, sizeof e->key);
  if (k->mode == UNPACK) TT_TRY(TT_ALLOC(e->column, e->targets));
  archive_bytes(k, e->column, e->targets * (int64_t)sizeof *e->column);
  return TT_OK;
}

static tt_err archive_columns(archive *k, tt_columns *c)
{
  int64_t count = c->count;
  archive_bytes(k, &count, sizeof count);
  if (k->mode == UNPACK) TT_TRY(tt_columns_create(count, c));
  archive_bytes(k, &c->given, sizeof c->given);
  int has_id = c->id != NULL;
  archive_bytes(k, &has_id, sizeof has_id);
  if (has_id) TT_TRY(archive_text(k, &c->id));
  for (int64_t i = 0; i < count; i++) {
    TT_TRY(archive_text(k, &c->name[i]));
    TT_TRY(archive_text(k, &c->units[i]));
    TT_TRY(archive_text(k, &c->classes[i]));
  }
  return TT_OK;
}

/* The map from columns to inputs of the networks. */
static tt_err archive_net_inputs(archive *k, tt_net_inputs *n)
{
  int64_t bytes = 0;
  tt_err e = TT_OK;
  if (k->mode == UNPACK) {
    tt_net_inputs_free(n);
    e = tt_net_inputs_unpack(k->bytes + k->at, n, &bytes);
  } else {
    bytes = tt_net_inputs_pack(n, k->mode == PACK ? k->bytes + k->at : NULL);
  }
  k->at += bytes;
  return e;
}

static tt_err archive_scaler(archive *k, tt_scaler *s, int64_t inputs, int64_t targets)
{
  const int64_t bytes = sizeof *s->x_mean;
  if (k->mode == UNPACK) TT_TRY(tt_scaler_create(inputs, targets, s));
  archive_bytes(k, s->x_mean, inputs * bytes);
  archive_bytes(k, s->x_scale, inputs * bytes);
  archive_bytes(k, s->y_mean, targets * bytes);
  archive_bytes(k, s->y_scale, targets * bytes);
  archive_bytes(k, s->x_lambda, inputs * bytes);
  archive_bytes(k, s->y_lambda, targets * bytes);
  archive_bytes(k, s->x_fill, inputs * bytes);
  archive_bytes(k, s->x_normalize, inputs);
  archive_bytes(k, s->y_normalize, targets);
  TT_TRY(archive_net_inputs(k, &s->net));
  int64_t components = s->components;
  archive_bytes(k, &components, sizeof components);
  if (!components) return TT_OK;
  if (k->mode == UNPACK) TT_TRY(tt_scaler_add_components(s, components));
  archive_bytes(k, s->component, components * targets * bytes);
  archive_bytes(k, s->component_mean, targets * bytes);
  archive_bytes(k, s->residual, targets * bytes);
  return TT_OK;
}

static tt_err archive_calibration(archive *k, tt_calibration *c)
{
  const double none[TT_MAX_CONFORMAL] = {0};
  int64_t size[2] = {c->columns, c->levels};
  archive_bytes(k, size, sizeof size);
  if (!size[0]) return TT_OK;
  if (k->mode == UNPACK) TT_TRY(tt_calibration_create(size[0], size[1], none, c));
  archive_bytes(k, c->std_scale, size[0] * (int64_t)sizeof *c->std_scale);
  archive_bytes(k, c->noise, size[0] * (int64_t)sizeof *c->noise);
  archive_bytes(k, c->rows, size[0] * (int64_t)sizeof *c->rows);
  archive_bytes(k, c->level, size[1] * (int64_t)sizeof *c->level);
  archive_bytes(k, c->width, size[1] * size[0] * (int64_t)sizeof *c->width);
  return TT_OK;
}

/* After the scaler, which decides the number of columns. */
static tt_err archive_epistemic(archive *k, tt_trained_ensemble *m)
{
  int64_t columns = m->typical_epistemic ? tt_trained_ensemble_columns(m) : 0;
  archive_bytes(k, &columns, sizeof columns);
  if (!columns) return TT_OK;
  if (k->mode == UNPACK) TT_TRY(TT_ALLOC(m->typical_epistemic, columns));
  archive_bytes(k, m->typical_epistemic, columns * (int64_t)sizeof *m->typical_epistemic);
  return TT_OK;
}

static tt_err archive_groups(archive *k, tt_trained_ensemble *m)
{
  int64_t size[2] = {-1, 0}, values = m->ensembles * m->model.inputs * (int64_t)sizeof(double);
  if (m->groups) size[0] = m->groups->small, size[1] = m->groups->pooled;
  archive_bytes(k, size, sizeof size);
  if (size[0] < 0) return TT_OK;
  if (k->mode == UNPACK)
    TT_TRY(tt_by_groups_create(m->ensembles, size[0], m->model.inputs, &m->groups));
  tt_by_groups *g = m->groups;
  g->pooled = (int)size[1];
  TT_TRY(archive_text(k, &g->columns));
  TT_TRY(archive_text(k, &g->ensemble));
  for (int64_t i = 0; i < g->count; i++) {
    TT_TRY(archive_text(k, &g->name[i]));
    TT_TRY(archive_scaler(k, &g->scaler[i], m->input.count, m->target.count));
  }
  for (int64_t i = 0; i < g->small; i++) TT_TRY(archive_text(k, &g->small_name[i]));
  archive_bytes(k, g->small_rows, g->small * (int64_t)sizeof *g->small_rows);
  archive_bytes(k, g->x_low, values);
  archive_bytes(k, g->x_high, values);
  return TT_OK;
}

static tt_err archive_trained_ensemble(archive *k, tt_trained_ensemble *m)
{
  archive_bytes(k, &m->variance_floor, sizeof m->variance_floor);
  archive_bytes(k, m->weight, m->members * (int64_t)sizeof *m->weight);
  archive_bytes(k, m->status, m->members * (int64_t)sizeof *m->status);
  archive_bytes(k, m->index, m->members * (int64_t)sizeof *m->index);
  archive_bytes(k, m->head, m->members * (int64_t)sizeof *m->head);
  archive_bytes(k, m->cohort, m->members * (int64_t)sizeof *m->cohort);
  for (int64_t i = 0; i < m->ensembles; i++) TT_TRY(archive_ensemble(k, &m->ensemble[i]));
  archive_bytes(k, m->x_low, m->model.inputs * (int64_t)sizeof *m->x_low);
  archive_bytes(k, m->x_high, m->model.inputs * (int64_t)sizeof *m->x_high);
  TT_TRY(archive_columns(k, &m->input));
  TT_TRY(archive_columns(k, &m->target));
  TT_TRY(archive_calibration(k, &m->calibration));
  TT_TRY(archive_scaler(k, &m->scaler, m->input.count, m->target.count));
  TT_TRY(archive_epistemic(k, m));
  return archive_groups(k, m);
}

/* What the other ranks need for allocation, with the networks. */
typedef struct header {
  int64_t networks, ensembles, bytes;
} header;

static tt_err measure_local(tt_trained_ensemble *m, header *h, tt_network **network)
{
  archive k = {COUNT, NULL, 0};
  TT_TRY(archive_trained_ensemble(&k, m));
  *h = (header){tt_trained_ensemble_networks(m), m->ensembles, k.at};
  TT_TRY(TT_ALLOC(*network, h->networks));
  if (m->networks)
    memcpy(*network, m->network, (size_t)h->networks * sizeof **network);
  else
    **network = (tt_network){.model = m->model, .members = m->members};
  return TT_OK;
}

static tt_err allocate_local(const header *h, int root, const tt_network *network,
                             tt_trained_ensemble **m, char **bytes)
{
  TT_TRY(TT_ALLOC(*bytes, h->bytes));
  return root ? TT_OK : tt_trained_ensemble_create_mixed(h->networks, network, h->ensembles, m);
}

/* Collective. The layers of the fronts of the networks; the other ranks then have them too. */
static tt_err broadcast_fronts(tt_comm *c, int64_t networks, tt_network *network)
{
  int root = tt_comm_is_root(c);
  tt_err e = TT_OK;
  for (int64_t i = 0; !root && i < networks; i++) network[i].model.front.layer = NULL;
  for (int64_t i = 0; !e && i < networks; i++) {
    tt_front *f = &network[i].model.front;
    e = tt_agree(c, root ? TT_OK : TT_ALLOC(f->layer, f->layers));
    if (!e) tt_bcast(c, f->layer, f->layers * (int64_t)sizeof *f->layer);
  }
  return e;
}

/* Collective. *m exists on rank 0 and is created on the others. */
static tt_err broadcast_cohort(tt_comm *c, tt_trained_ensemble **m)
{
  header h = {0};
  char *bytes = NULL;
  tt_network *network = NULL;
  int root = tt_comm_is_root(c);
  tt_err e = tt_agree(c, root ? measure_local(*m, &h, &network) : TT_OK);
  if (!e) tt_bcast(c, &h, sizeof h);
  if (!e) e = tt_agree(c, root ? TT_OK : TT_ALLOC(network, h.networks));
  if (!e) tt_bcast(c, network, h.networks * (int64_t)sizeof *network);
  if (!e) e = broadcast_fronts(c, h.networks, network);
  if (!e) e = tt_agree(c, allocate_local(&h, root, network, m, &bytes));
  if (!e) {
    if (root) e = archive_trained_ensemble(&(archive){PACK, bytes, 0}, *m);
    tt_bcast(c, bytes, h.bytes);
    if (!root) e = archive_trained_ensemble(&(archive){UNPACK, bytes, 0}, *m);
    e = tt_agree(c, e);
  }
  if (!e) tt_bcast(c, (*m)->w, tt_trained_ensemble_parameters(*m) * (int64_t)sizeof *(*m)->w);
  for (int64_t i = 0; !root && network && i < h.networks; i++)
    tt_front_destroy(&network[i].model.front);
  tt_free(bytes);
  tt_free(network);
  return e;
}

tt_err tt_model_read_group(tt_comm *c, const char *file, tt_model_choice choice,
                           tt_trained_ensembles *out)
{
  tt_trained_ensembles all = {0};
  int root = tt_comm_is_root(c);
  tt_err e = tt_agree(c, root ? tt_model_read_group_local(file, NULL, 0, choice, &all) : TT_OK);
  int64_t count = all.count;
  uint64_t hash = all.hash;
  if (!e) tt_bcast(c, &count, sizeof count);
  if (!e) tt_bcast(c, &hash, sizeof hash);
  if (!e) e = tt_agree(c, root ? TT_OK : tt_trained_ensembles_create(count, &all));
  for (int64_t i = 0; !e && i < count; i++) e = broadcast_cohort(c, &all.at[i]);
  all.hash = hash;
  if (e) tt_trained_ensembles_destroy(&all);
  *out = all;
  return e;
}

tt_err tt_model_read(tt_comm *c, const char *file, tt_trained_ensembles *out)
{
  return tt_model_read_group(c, file, (tt_model_choice){NULL, 0}, out);
}
