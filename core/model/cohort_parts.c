/* cohort_parts.c — the ensembles of all cohorts in the order of the job; see cohort.h. */
#include "core/base/mem.h"
#include "core/model/cohort.h"

int64_t tt_cohorts_joined(const tt_cohorts *all, int64_t first)
{
  int64_t end = first + 1;
  while (end < all->count && all->at[end]->joined) end++;
  return end - first;
}

/* Cohort and number of each ensemble, as parts of one ensemble, in the order of the job. */
static void place_ensembles(const tt_cohorts *all, tt_cohort_part *place)
{
  for (int64_t k = 0; k < all->count; k++)
    for (int64_t i = 0; !all->at[k]->joined && i < all->at[k]->ensembles; i++)
      place[all->at[k]->ensemble[i].number] =
          (tt_cohort_part){.cohort = all->at[k], .number = (int32_t)k, .ensemble = i};
}

/* Number of members from `first` on that leave out the same fold. */
static int64_t same_fold(const tt_cohort *c, int64_t first, int64_t end)
{
  int64_t row_set = tt_member_row_set(c, &c->member[first]), next = first + 1;
  while (next < end && tt_member_row_set(c, &c->member[next]) == row_set) next++;
  return next - first;
}

/* Append one ensemble of a cohort to the parts: with kfold one part for each fold. */
static int64_t add_parts(tt_cohort_part p, int64_t n, tt_cohort_part *part)
{
  const tt_ensemble *e = &p.cohort->ensemble[p.ensemble];
  int folded = p.cohort->resample == TT_RESAMPLE_kfold;
  p.ensembles = 1;
  for (int64_t offset = e->first, end = e->first + e->members; offset < end;
       offset += p.members.count) {
    p.members = (tt_slice){offset, folded ? same_fold(p.cohort, offset, end) : end - offset};
    part[n++] = p;
    p.joined = 1;
  }
  return n;
}

static int continues(const tt_cohort_part *last, const tt_cohort_part *p)
{
  return last && last->cohort == p->cohort && p->cohort->resample != TT_RESAMPLE_kfold &&
         last->ensemble + last->ensembles == p->ensemble;
}

static int64_t count_parts(const tt_cohorts *all)
{
  int64_t most = 0;
  for (int64_t k = 0; k < all->count; k++) {
    const tt_cohort *c = all->at[k];
    most += c->resample == TT_RESAMPLE_kfold ? c->members : c->ensembles;
  }
  return most;
}

tt_err tt_cohorts_parts(const tt_cohorts *all, int64_t *count, tt_cohort_part **part)
{
  tt_cohort_part *place = NULL, *last = NULL;
  int64_t ensembles = 0, n = 0;
  for (int64_t k = 0; k < all->count; k++) ensembles += all->at[k]->ensembles;
  tt_err e = TT_ALLOC(place, ensembles);
  if (!e) e = TT_ALLOC(*part, count_parts(all));
  if (!e) place_ensembles(all, place);
  for (int64_t i = 0; !e && i < ensembles && place[i].cohort; i++) {
    const tt_cohort_part *p = &place[i];
    if (continues(last, p)) {
      last->ensembles++;
      last->members.count += p->cohort->ensemble[p->ensemble].members;
      continue;
    }
    for (int64_t k = 0; k < tt_cohorts_joined(all, p->number); k++)
      n = add_parts((tt_cohort_part){.cohort = all->at[p->number + k],
                                     .number = (int32_t)(p->number + k),
                                     .ensemble = p->ensemble,
                                     .joined = k > 0},
                    n, *part);
    last = &(*part)[n - 1];
  }
  tt_free(place);
  *count = n;
  return e;
}
