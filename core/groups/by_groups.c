/* by_groups.c — see by_groups.h. */
#include "core/groups/by_groups.h"

#include "core/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int parse_whole(const char *text, long long *number)
{
  char *end;
  *number = strtoll(text, &end, 10);
  if (end == text) return 0;
  if (*end == '.') end += 1 + strspn(end + 1, "0");
  return !*end && strlen(text) < 18;
}

const char *tt_by_name(const char *text, char number[TT_BY_NUMBER_SIZE])
{
  long long whole;
  if (!parse_whole(text, &whole)) return text;
  snprintf(number, TT_BY_NUMBER_SIZE, "%lld", whole);
  return number;
}

int tt_by_compare(const char *a, const char *b)
{
  long long x, y;
  int first = parse_whole(a, &x), second = parse_whole(b, &y);
  if (first != second) return first ? -1 : 1;
  if (first && x != y) return x < y ? -1 : 1;
  return strcmp(a, b);
}

static int compare_names(const void *a, const void *b)
{
  return tt_by_compare(a, *(char *const *)b);
}

static int64_t find(const char *name, int64_t count, char *const *all)
{
  char *const *found = bsearch(name, all, (size_t)count, sizeof *all, compare_names);
  return found ? found - all : -1;
}

int64_t tt_by_groups_find(const tt_by_groups *g, const char *name)
{
  char number[TT_BY_NUMBER_SIZE];
  int64_t place = find(tt_by_name(name, number), g->count - g->pooled, g->name + g->pooled);
  if (place >= 0) return place + g->pooled;
  return g->pooled && !strcmp(name, TT_BY_POOLED) ? 0 : -1;
}

int64_t tt_by_groups_find_small(const tt_by_groups *g, const char *name)
{
  char number[TT_BY_NUMBER_SIZE];
  return find(tt_by_name(name, number), g->small, g->small_name);
}

tt_err tt_by_sort_rows(int64_t rows, const int32_t *group, int64_t groups, int64_t **first,
                       int64_t **order)
{
  int64_t *next = NULL;
  TT_TRY(TT_ALLOC(*first, groups + 1));
  TT_TRY(TT_ALLOC(*order, rows));
  TT_TRY(TT_ALLOC(next, groups));
  for (int64_t r = 0; r < rows; r++)
    if (group[r] >= 0) (*first)[group[r] + 1]++;
  for (int64_t g = 0; g < groups; g++) {
    next[g] = (*first)[g];
    (*first)[g + 1] += next[g];
  }
  for (int64_t r = 0; r < rows; r++)
    if (group[r] >= 0) (*order)[next[group[r]]++] = r;
  tt_free(next);
  return TT_OK;
}

tt_dataset tt_by_groups_data(const tt_dataset *d, int64_t group)
{
  tt_dataset v = *d;
  const tt_slice rows = d->groups->rows[group];
  v.rows = rows.count;
  v.x += rows.first * d->inputs;
  v.y += rows.first * d->targets;
  v.split += rows.first;
  if (d->unit) v.unit += rows.first;
  v.origin += rows.first;
  v.scaler = d->groups->scaler[group];
  v.groups = NULL;
  return v;
}

tt_err tt_by_groups_cohort(const tt_cohort *c, int64_t group, tt_cohort *out)
{
  const tt_ensemble *own = &c->ensemble[group];
  tt_cohort v = *c;
  v.ensembles = 1;
  v.members = own->members;
  v.ensemble = NULL;
  v.member = NULL;
  tt_err e = TT_ALLOC(v.ensemble, 1);
  if (!e) e = TT_ALLOC(v.member, v.members);
  if (e) {
    tt_free(v.ensemble);
    return e;
  }
  v.ensemble[0] = *own;
  v.ensemble[0].first = v.ensemble[0].number = 0;
  v.ensemble[0].rows = (tt_slice){0, 0};
  memcpy(v.member, c->member + own->first, (size_t)v.members * sizeof *v.member);
  for (int64_t i = 0; i < v.members; i++) v.member[i].ensemble = 0;
  *out = v;
  return TT_OK;
}

/* Copy columns [from, from + count) of a calibration to the columns that begin at `place`. */
static void copy_calibration(const tt_calibration *src, int64_t from, int64_t count,
                             tt_calibration *dst, int64_t place)
{
  size_t bytes = (size_t)count * sizeof *src->width;
  memcpy(dst->std_scale + place, src->std_scale + from, bytes);
  memcpy(dst->noise + place, src->noise + from, bytes);
  memcpy(dst->rows + place, src->rows + from, (size_t)count * sizeof *src->rows);
  for (int64_t l = 0; l < src->levels; l++)
    memcpy(dst->width + l * dst->columns + place, src->width + l * src->columns + from, bytes);
}

tt_err tt_by_groups_insert(const tt_trained_ensemble *one, int64_t group, tt_trained_ensemble *all)
{
  int64_t width = tt_trained_ensemble_width(all), inputs = all->model.inputs;
  const tt_calibration *k = &one->calibration;
  size_t bytes = (size_t)inputs * sizeof(double);
  if (k->columns && !all->calibration.columns)
    TT_TRY(tt_calibration_create(all->ensembles * width, k->levels, k->level, &all->calibration));
  if (k->columns) copy_calibration(k, 0, width, &all->calibration, group * width);
  if (!all->typical_epistemic) TT_TRY(TT_ALLOC(all->typical_epistemic, all->ensembles * width));
  memcpy(all->typical_epistemic + group * width, one->typical_epistemic,
         (size_t)width * sizeof(double));
  memcpy(all->weight + all->ensemble[group].first, one->weight,
         (size_t)one->members * sizeof *one->weight);
  memcpy(all->groups->x_low + group * inputs, one->x_low, bytes);
  memcpy(all->groups->x_high + group * inputs, one->x_high, bytes);
  return TT_OK;
}

static void copy_members(const tt_trained_ensemble *all, int64_t first, tt_trained_ensemble *m)
{
  size_t members = (size_t)m->members;
  memcpy(m->w, all->w + first * all->model.params,
         members * (size_t)all->model.params * sizeof *m->w);
  memcpy(m->weight, all->weight + first, members * sizeof *m->weight);
  memcpy(m->status, all->status + first, members);
  memcpy(m->index, all->index + first, members * sizeof *m->index);
  memcpy(m->head, all->head + first, members * sizeof *m->head);
  memcpy(m->cohort, all->cohort + first, members * sizeof *m->cohort);
}

static tt_err copy_group(const tt_trained_ensemble *all, int64_t group, tt_trained_ensemble *m)
{
  int64_t width = tt_trained_ensemble_width(all), inputs = all->model.inputs;
  const tt_calibration *k = &all->calibration;
  size_t bytes = (size_t)inputs * sizeof(double);
  m->variance_floor = all->variance_floor;
  copy_members(all, all->ensemble[group].first, m);
  TT_TRY(tt_ensemble_copy(&all->ensemble[group], &m->ensemble[0]));
  m->ensemble[0].first = m->ensemble[0].number = 0;
  TT_TRY(tt_columns_copy(&all->input, &m->input));
  TT_TRY(tt_columns_copy(&all->target, &m->target));
  TT_TRY(tt_scaler_copy(&all->groups->scaler[group], &m->scaler));
  memcpy(m->x_low, all->groups->x_low + group * inputs, bytes);
  memcpy(m->x_high, all->groups->x_high + group * inputs, bytes);
  if (k->columns) TT_TRY(tt_calibration_create(width, k->levels, k->level, &m->calibration));
  if (k->columns) copy_calibration(k, group * width, width, &m->calibration, 0);
  if (!all->typical_epistemic) return TT_OK;
  TT_TRY(TT_ALLOC(m->typical_epistemic, width));
  memcpy(m->typical_epistemic, all->typical_epistemic + group * width,
         (size_t)width * sizeof(double));
  return TT_OK;
}

tt_err tt_by_groups_extract(const tt_trained_ensemble *all, int64_t group,
                            tt_trained_ensemble **out)
{
  const tt_network network = {.model = all->model, .members = all->ensemble[group].members};
  TT_TRY(tt_trained_ensemble_create_mixed(1, &network, 1, out));
  tt_err e = copy_group(all, group, *out);
  if (e) tt_trained_ensemble_destroy(out);
  return e;
}
