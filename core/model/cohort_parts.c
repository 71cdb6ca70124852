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

static int continues(const tt_cohort_part *last, const tt_cohort_part *p)
{
  return last && last->cohort == p->cohort && last->ensemble + last->ensembles == p->ensemble;
}

/* Ensemble i of cohort `number` as a part. */
static tt_cohort_part part_of(const tt_cohorts *all, int64_t number, int64_t i)
{
  const tt_cohort *c = all->at[number];
  const tt_ensemble *e = &c->ensemble[i];
  return (tt_cohort_part){c, (int32_t)number, i, 1, {e->first, e->members}, 0};
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
    if (continues(last, p)) {
      last->ensembles++;
      last->members.count += p->cohort->ensemble[p->ensemble].members;
      continue;
    }
    for (int64_t k = 0; k < tt_cohorts_joined(all, p->number); k++, n++) {
      (*part)[n] = part_of(all, p->number + k, p->ensemble);
      (*part)[n].joined = k > 0;
    }
    last = &(*part)[n - 1];
  }
  tt_free(place);
  *count = n;
  return e;
}
