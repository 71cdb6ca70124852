/* read_tables.c — the tables of members and ensembles of a model file, which are read once for all
 * cohorts; see model_internal.h. */
#include "core/base/mem.h"
#include "core/model/state.h"
#include "io/model/model_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static tt_err read_numbers(tt_h5_reader *r, const char *path, int64_t members, int32_t **out)
{
  TT_TRY(tt_schema_read_array_local(r, path, TT_H5_I32, 1, &members, out));
  for (int64_t i = 0; i < members; i++)
    if ((*out)[i] < 0)
      return TT_FAIL(DATA, "%s: '%s' of member %" PRId64 " is %" PRId32 TT_DAMAGED,
                     tt_h5_file_name(r), path, i, (*out)[i]);
  return TT_OK;
}

static tt_err read_members(tt_h5_reader *r, int64_t members, tt_model_tables *t)
{
  TT_TRY(tt_schema_read_array_local(r, "status", TT_H5_I8, 1, &members, &t->status));
  TT_TRY(tt_schema_read_array_local(r, "member_weight", TT_H5_F64, 1, &members, &t->weight));
  TT_TRY(read_numbers(r, "member_index", members, &t->index));
  TT_TRY(read_numbers(r, "member_cohort", members, &t->cohort));
  return tt_h5_has_local(r, "head") ? read_numbers(r, "head", members, &t->head) : TT_OK;
}

/* Number of columns of the scales; with `by` each ensemble has its own scales. */
static tt_err find_columns(tt_h5_reader *r, const char *path, int64_t ensembles, int64_t *columns)
{
  int64_t shape[2] = {ensembles, -1};
  int grouped = tt_h5_has_local(r, "by/columns");
  TT_TRY(tt_schema_check_shape_local(r, path, grouped ? 2 : 1, grouped ? shape : shape + 1));
  *columns = shape[1];
  return TT_OK;
}

/* Ensembles of each network: those whose first member it has. A network without one has further
 * members of the only ensemble of the network before. */
static tt_err find_ensembles(tt_h5_reader *r, const int64_t *first, tt_model_file_info *w)
{
  int64_t next = 0, before = 0;
  for (int64_t k = 0; k < w->networks; k++) {
    tt_model_network_info *s = &w->network_info[k];
    s->ensemble = next;
    while (next < w->ensembles && first[next] < s->member + s->members) next++;
    s->ensembles = next - s->ensemble;
    if (s->ensembles == 0 && before != 1)
      return TT_FAIL(DATA, "%s: 'ensemble_first' has no ensemble of network %" PRId64 TT_DAMAGED,
                     tt_h5_file_name(r), k);
    before = s->ensembles ? s->ensembles : before;
  }
  if (next == w->ensembles) return TT_OK;
  return TT_FAIL(DATA, "%s: 'ensemble_first' of ensemble %" PRId64 " is %" PRId64 TT_DAMAGED,
                 tt_h5_file_name(r), next, first[next]);
}

tt_err tt_model_read_tables_local(tt_h5_reader *r, tt_model_file_info *w, tt_model_tables *t)
{
  int64_t n = w->ensembles, shape[2] = {n, w->targets};
  t->inputs = t->targets = -1;
  TT_TRY(find_columns(r, "scaler/x_mean", n, &t->inputs));
  TT_TRY(find_columns(r, "scaler/y_mean", n, &t->targets));
  TT_TRY(read_members(r, w->members, t));
  TT_TRY(tt_schema_read_texts_local(r, "ensemble_name", n, &t->name));
  TT_TRY(tt_schema_read_array_local(r, "ensemble_first", TT_H5_I64, 1, &n, &t->first));
  TT_TRY(tt_schema_read_array_local(r, "ensemble_members", TT_H5_I64, 1, &n, &t->count));
  TT_TRY(tt_schema_read_array_local(r, "ensemble_key", TT_H5_I64, 1, &n, &t->key));
  TT_TRY(tt_schema_read_array_local(r, "ensemble_column", TT_H5_I32, 2, shape, &t->column));
  return find_ensembles(r, t->first, w);
}

void tt_model_tables_free(const tt_model_file_info *w, tt_model_tables *t)
{
  tt_free_all(&t->status, &t->weight, &t->index, &t->head, &t->cohort, &t->first, &t->count,
              &t->key, &t->column);
  tt_h5_texts_free(w->ensembles, &t->name);
}

static tt_err fill_members(tt_h5_reader *r, const tt_model_tables *t,
                           const tt_model_network_info *s, tt_trained_ensemble *m)
{
  const char *file = tt_h5_file_name(r);
  memcpy(m->status, t->status + s->member, (size_t)s->members * sizeof *m->status);
  memcpy(m->weight, t->weight + s->member, (size_t)s->members * sizeof *m->weight);
  memcpy(m->index, t->index + s->member, (size_t)s->members * sizeof *m->index);
  memcpy(m->cohort, t->cohort + s->member, (size_t)s->members * sizeof *m->cohort);
  if (t->head) memcpy(m->head, t->head + s->member, (size_t)s->members * sizeof *m->head);
  for (int64_t i = 0; i < m->members; i++) {
    if (m->status[i] < TT_STATUS_training || m->status[i] > TT_STATUS_diverged)
      return TT_FAIL(DATA, "%s: 'status' of member %" PRId64 " is %d, expected 0 to %d", file,
                     s->member + i, m->status[i], TT_STATUS_diverged);
    if (!isfinite(m->weight[i]) || m->weight[i] < 0.0 ||
        (m->status[i] == TT_STATUS_diverged && m->weight[i] != 0.0))
      return TT_FAIL(DATA,
                     "%s: 'member_weight' of member %" PRId64 " is %g, which is invalid with "
                     "status %d",
                     file, s->member + i, m->weight[i], m->status[i]);
  }
  return TT_OK;
}

/* Ensembles are consecutive and contain all members. */
static tt_err check_ensembles(const char *file, const tt_trained_ensemble *m, int64_t targets)
{
  int64_t next = 0;
  for (int64_t i = 0; i < m->ensembles; i++) {
    const tt_ensemble *e = &m->ensemble[i];
    if (e->first != next || e->members < 1 || e->members > m->members - next)
      return TT_FAIL(DATA,
                     "%s: ensemble %" PRId64 " ('%s') has members %" PRId64 " + %" PRId64
                     ", expected to begin at %" PRId64 " of %" PRId64 TT_DAMAGED,
                     file, i, e->name, e->first, e->members, next, m->members);
    next += e->members;
    for (int64_t j = 0; j < e->targets; j++)
      if (e->column[j] < 0 || e->column[j] >= targets)
        return TT_FAIL(DATA,
                       "%s: 'ensemble_column' of ensemble '%s' is %" PRId32 ", expected less "
                       "than %" PRId64,
                       file, e->name, e->column[j], targets);
  }
  if (next != m->members)
    return TT_FAIL(DATA,
                   "%s: the ensembles have %" PRId64 " members, 'status' has %" PRId64 TT_DAMAGED,
                   file, next, m->members);
  return TT_OK;
}

tt_err tt_model_fill_tables_local(tt_h5_reader *r, const tt_model_file_info *w,
                                  const tt_model_tables *t, const tt_model_network_info *s,
                                  tt_trained_ensemble *m)
{
  int64_t k = w->components ? w->targets : m->model.targets;
  TT_TRY(fill_members(r, t, s, m));
  for (int64_t i = 0; i < m->ensembles; i++) {
    int64_t offset = s->ensemble + i;
    tt_ensemble *e = &m->ensemble[i];
    e->first = t->first[offset] < 0 ? -1 : t->first[offset] - s->member;
    e->members = t->count[offset];
    e->key = (uint32_t)t->key[offset];
    e->targets = k;
    e->selection = -1;
    TT_TRY(tt_text_set(&e->name, t->name[offset]));
    TT_TRY(TT_ALLOC(e->column, k));
    memcpy(e->column, t->column + offset * w->targets, (size_t)k * sizeof *e->column);
  }
  return check_ensembles(tt_h5_file_name(r), m, t->targets);
}
