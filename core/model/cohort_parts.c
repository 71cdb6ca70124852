/* cohort_parts.c — the ensembles of all cohorts in the order of the job; see cohort.h. */
#include "core/base/mem.h"
#include "core/model/cohort.h"

int64_t tt_cohorts_joined(const tt_cohorts *all, int64_t first)
{
  int64_t end = first + 1;
  while (end < all->count && all->at[end]->joined) end++;
  return end - first;
}

tt_slice tt_cohort_part_members(const tt_cohort_part *p)
{
  const tt_ensemble *e = &p->cohort->ensemble[p->ensemble];
  tt_slice members = {e->first, 0};
  for (int64_t i = 0; i < p->ensembles; i++) members.count += e[i].members;
  return members;
}

/* Cohort and number of each ensemble, as parts of one ensemble, in the order of the job. */
static void place_ensembles(const tt_cohorts *all, tt_cohort_part *place)
{
  for (int64_t k = 0; k < all->count; k++)
    for (int64_t i = 0; !all->at[k]->joined && i < all->at[k]->ensembles; i++)
      place[all->at[k]->ensemble[i].number] = (tt_cohort_part){all->at[k], (int32_t)k, i, 1};
}

tt_err tt_cohorts_parts(const tt_cohorts *all, int64_t *count, tt_cohort_part **part)
{
  tt_cohort_part *place = NULL, *last = NULL;
  int64_t ensembles = 0, n = 0;
  for (int64_t k = 0; k < all->count; k++) ensembles += all->at[k]->ensembles;
  tt_err e = TT_ALLOC(place, ensembles);
  if (!e) e = TT_ALLOC(*part, ensembles);
  if (!e) place_ensembles(all, place);
  for (int64_t i = 0; !e && i < ensembles && place[i].cohort; i++) {
    const tt_cohort_part *p = &place[i];
    if (last && last->cohort == p->cohort && last->ensemble + last->ensembles == p->ensemble) {
      last->ensembles++;
      continue;
    }
    for (int64_t k = 0; k < tt_cohorts_joined(all, p->number); k++)
      (*part)[n++] = (tt_cohort_part){all->at[p->number + k], (int32_t)(p->number + k), p->ensemble,
                                      p->ensembles};
    last = &(*part)[n - 1];
  }
  tt_free(place);
  *count = n;
  return e;
}
