/* plan_parts.c — numbers of a plan; see plan_internal.h. */
#include "src/tools/plan_internal.h"

#include "core/base/mem.h"
#include "core/model/load_balance.h"
#include "src/host/resources.h"

double tt_plan_final_members(const tt_cohort *c)
{
  return (double)c->members * (double)tt_cohort_expansion(c);
}

double tt_plan_model_bytes(const tt_cohort *c)
{
  return tt_plan_final_members(c) * (4.0 * (double)tt_model_of_head(&c->model).params + 32.0);
}

int64_t tt_plan_training_rows(const tt_job_plan *p)
{
  return (int64_t)(p->cfg->data_split_train * (double)p->shape.rows);
}

tt_err tt_plan_rank_members(const tt_job_plan *p, int ranks, int rank, int64_t *members)
{
  tt_slice *slice = NULL;
  TT_TRY(TT_ALLOC(slice, p->all.count));
  tt_err e = tt_load_balance(&p->all, tt_plan_training_rows(p), ranks, rank, slice);
  *members = 0;
  for (int64_t i = 0; !e && i < p->all.count; i++) *members += slice[i].count;
  tt_free(slice);
  return e;
}

tt_err tt_plan_memory(const tt_job_plan *p, int ranks, tt_memory_plan *most)
{
  const tt_resources use = {.threads = p->cfg->run_threads > 0 ? (int)p->cfg->run_threads
                                                               : tt_resources_cores_local()};
  const tt_memory_job job = {p->cfg, &p->all, &p->shape, p->ops, &use};
  *most = (tt_memory_plan){0};
  for (int r = 0; r < ranks; r++) {
    tt_memory_plan one;
    TT_TRY(tt_memory_plan_rank(&job, ranks, r, &one));
    if (one.peak > most->peak) *most = one;
  }
  return TT_OK;
}
