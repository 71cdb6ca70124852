/* trained.h — trained ensembles for tests: of one network, of a whole cohort. */
#ifndef TT_TESTS_TRAINED_H
#define TT_TESTS_TRAINED_H
#include "core/base/mem.h"
#include "core/model/trained_ensemble.h"

static inline tt_err trained_create(const tt_model *model, int64_t ensembles, int64_t members,
                                    tt_trained_ensemble **out)
{
  const tt_network only = {.model = *model, .members = members};
  return tt_trained_ensemble_create_mixed(1, &only, ensembles, out);
}

/* With weights 0. */
static inline tt_err trained_from_cohort(const tt_cohort *c, const tt_dataset *d,
                                         tt_trained_ensemble **out)
{
  const tt_cohort_part all = {.cohort = c, .ensembles = c->ensembles, .members = {0, c->members}};
  TT_TRY(tt_trained_ensemble_from_parts(1, &all, d, out));
  TT_TRY(TT_ALLOC((*out)->w, tt_trained_ensemble_parameters(*out)));
  if ((*out)->networks) (*out)->network[0].w = (*out)->w;
  return TT_OK;
}
#endif
