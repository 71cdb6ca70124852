/* plan_parts.c — numbers of a plan; see plan_internal.h. */
#include "src/tools/plan_internal.h"

#include "core/base/mem.h"
#include "core/model/load_balance.h"
#include "src/host/memory_limits.h"
#include "src/host/resources.h"

#include <math.h>
#include <string.h>

double tt_plan_final_members(const tt_cohort *c)
{
  return (double)c->members * (double)tt_cohort_expansion(c);
}

double tt_plan_checkpoint_bytes(const tt_job_plan *p)
{
  double bytes = 0.0;
  for (int64_t i = 0; i < p->all.count; i++)
    bytes += (double)p->all.at[i]->members *
             (double)tt_state_member_bytes(tt_cohort_state_shape(p->all.at[i]));
  return bytes;
}

double tt_plan_model_bytes(const tt_job_plan *p)
{
  double bytes = 0.0;
  for (int64_t i = 0; i < p->all.count; i++) {
    const tt_cohort *c = p->all.at[i];
    bytes += tt_plan_final_members(c) * (4.0 * (double)tt_model_of_head(&c->model).params + 32.0);
  }
  return bytes;
}

int64_t tt_plan_training_rows(const tt_job_plan *p)
{
  int64_t groups = p->cfg->top_by.count ? p->all.at[0]->ensembles : 1;
  return (int64_t)(p->cfg->data_split_train * (double)p->shape.rows / (double)groups);
}

int tt_plan_teams(const tt_job_plan *p, int ranks)
{
  return tt_load_balance_teams(&p->all, p->cfg->run_ranks_per_member, p->cfg->run_stages, ranks);
}

static tt_err balance(const tt_job_plan *p, int ranks, int rank, tt_slice **slice)
{
  int teams = tt_plan_teams(p, ranks), team = tt_load_balance_place(ranks, teams, rank).team;
  TT_TRY(TT_ALLOC(*slice, p->all.count));
  return tt_load_balance(&p->all, tt_plan_training_rows(p), teams, team, *slice);
}

tt_err tt_plan_slice(const tt_job_plan *p, int64_t number, int ranks, int rank, tt_slice *out)
{
  tt_slice *slice = NULL;
  tt_err e = balance(p, ranks, rank, &slice);
  if (!e) *out = slice[number];
  tt_free(slice);
  return e;
}

tt_err tt_plan_rank_members(const tt_job_plan *p, int ranks, int rank, int64_t *members)
{
  tt_slice *slice = NULL;
  tt_err e = balance(p, ranks, rank, &slice);
  *members = 0;
  for (int64_t i = 0; !e && i < p->all.count; i++) *members += slice[i].count;
  tt_free(slice);
  return e;
}

tt_exchange tt_plan_exchange(const tt_job_plan *p)
{
  tt_exchange wanted = (tt_exchange)p->cfg->run_exchange;
  int may = tt_comm_may_take_gpu_memory_local(), sends = strcmp(p->ops->name, "cpu") != 0;
  return tt_resources_exchange_on_device(wanted, sends, may) ? wanted : TT_EXCHANGE_host;
}

/* Ranks of the first team. */
static int team_ranks(const tt_job_plan *p, int ranks)
{
  return tt_load_balance_place(ranks, tt_plan_teams(p, ranks), 0).ranks;
}

double tt_plan_exchange_bytes(const tt_job_plan *p, const tt_cohort *c, int ranks)
{
  int stages = p->cfg->run_stages > 1 ? (int)p->cfg->run_stages : 0;
  if (tt_plan_exchange(p) == TT_EXCHANGE_host) return 0.0;
  return tt_memory_exchange_bytes(c, stages, team_ranks(p, ranks));
}

double tt_plan_device_bytes(const tt_job_plan *p, const tt_cohort *c, tt_slice own, int ranks,
                            const tt_plan_gpu *gpu, double *data)
{
  tt_path_context context = gpu->on;
  context.precision = (tt_precision)p->cfg->run_precision;
  const tt_resources use = {.device_exchange = tt_plan_exchange(p) != TT_EXCHANGE_host};
  const tt_memory_job job = {.cfg = p->cfg,
                             .shape = &p->shape,
                             .use = &use,
                             .gpu = &context,
                             .gpu_bytes = TT_GPU_MEMORY_PART * gpu->bytes};
  *data = tt_memory_device_data(&job);
  return tt_memory_device_bytes(&job, c, own, team_ranks(p, ranks));
}

tt_err tt_plan_memory(const tt_job_plan *p, int ranks, tt_memory_plan *most)
{
  const tt_resources use = {.threads = p->cfg->run_threads > 0 ? (int)p->cfg->run_threads
                                                               : tt_resources_cores_local()};
  const tt_memory_job job = {
      .cfg = p->cfg, .cohorts = &p->all, .shape = &p->shape, .ops = p->ops, .use = &use};
  *most = (tt_memory_plan){0};
  for (int r = 0; r < ranks; r++) {
    tt_memory_plan one;
    TT_TRY(tt_memory_plan_rank(&job, ranks, r, &one));
    if (one.peak > most->peak) *most = one;
  }
  return TT_OK;
}

/* Whether the number of outputs depends on the labels (classes to count). */
static int needs_class_count(const tt_config *cfg)
{
  for (int64_t k = 0; k < cfg->ensembles; k++)
    if (tt_output_forecast((tt_output)cfg->ensemble[k].model_output) == TT_FORECAST_categorical &&
        cfg->ensemble[k].model_classes < 0)
      return 1;
  return 0;
}

static tt_err copy_labels(tt_data_reader *src, tt_dataset *dst)
{
  enum { CHUNK_ROWS = 4096 };
  double *y = NULL;
  tt_err e = TT_OK;
  TT_TRY(TT_ALLOC(y, CHUNK_ROWS * dst->targets));
  for (int64_t first = 0; !e && first < dst->rows; first += CHUNK_ROWS) {
    int64_t count = first + CHUNK_ROWS < dst->rows ? CHUNK_ROWS : dst->rows - first;
    e = tt_data_reader_read_local(src, first, count, NULL, y);
    for (int64_t i = 0; !e && i < count * dst->targets; i++)
      dst->y[first * dst->targets + i] = (float)y[i];
  }
  tt_free(y);
  return e;
}

static tt_err read_groups(const tt_config *cfg, tt_dataset **out)
{
  tt_comm *alone = NULL;
  TT_TRY(tt_comm_alone_local(&alone));
  tt_err e = tt_data_read_groups(alone, cfg, NULL, out);
  tt_comm_end(&alone);
  return e;
}

tt_err tt_plan_read_labels_local(const tt_config *cfg, const tt_data_shape *shape, tt_dataset **out)
{
  tt_data_reader *rows = NULL;
  if (cfg->top_by.count) return read_groups(cfg, out);
  if (!needs_class_count(cfg)) return TT_OK;
  TT_TRY(tt_data_reader_open_job_local(cfg, &rows));
  tt_err e = tt_dataset_create(shape->rows, 1, shape->targets, 0, out);
  if (!e) e = copy_labels(rows, *out);
  if (!e) tt_free((*out)->split); /* the split is not known */
  tt_data_reader_close_local(&rows);
  return e;
}
