/* wave_plan.c — which waves fit into memory, and the check before a job; see memory_plan.h. */
#include "src/train/memory_plan.h"

#include "src/host/memory_limits.h"
#include "src/train/check_outputs.h"

#include <math.h>

/* What decides about waves. */
typedef struct wave_search {
  const tt_memory_job *job;
  int ranks, rank;
  double memory, address;
} wave_search;

static int fits_host(const wave_search *s, const tt_memory_plan *p)
{
  return p->peak <= s->memory && p->peak + p->stored <= s->address;
}

static int fits(const wave_search *s, const tt_memory_plan *p)
{
  return fits_host(s, p) && (!s->job->gpu || p->device <= s->job->gpu_bytes);
}

static tt_err try_waves(const wave_search *s, int64_t members, int stored, tt_wave_plan *wave,
                        tt_memory_plan *plan)
{
  *wave = (tt_wave_plan){.members = members, .waves = 1, .stored = stored};
  return tt_memory_plan_rank(s->job, s->ranks, s->rank, wave, plan);
}

/* The largest wave that fits, of at most `most` members; 1 if none fits. */
static tt_err search(const wave_search *s, int64_t most, int stored, tt_wave_plan *wave,
                     tt_memory_plan *plan)
{
  int64_t low = 1, high = most + 1; /* low fits, or is 1; high does not */
  TT_TRY(try_waves(s, most, stored, wave, plan));
  if (fits(s, plan)) return TT_OK;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    TT_TRY(try_waves(s, middle, stored, wave, plan));
    if (fits(s, plan))
      low = middle;
    else
      high = middle;
  }
  return try_waves(s, low, stored, wave, plan);
}

/* Members of this method take their steps together. */
static int can_wave(const tt_memory_job *job)
{
  for (int64_t i = 0; i < job->cohorts->count; i++)
    if (job->cohorts->at[i]->method == TT_METHOD_fusion) return 0;
  return 1;
}

tt_err tt_memory_plan_waves(const tt_memory_job *job, int ranks, int rank, double memory,
                            double address, tt_wave_plan *wave, tt_memory_plan *plan)
{
  const wave_search s = {job, ranks, rank, memory, address};
  int64_t members, most;
  TT_TRY(tt_memory_rank_members(job, ranks, rank, &members));
  most = job->cfg->run_wave > 0 ? job->cfg->run_wave : members;
  if (most > members) most = members;
  if (members < 1 || !can_wave(job)) return try_waves(&s, 0, 0, wave, plan);
  for (int stored = 0; stored < 2; stored++) {
    if (job->cfg->run_wave > 0)
      TT_TRY(try_waves(&s, most, stored, wave, plan));
    else
      TT_TRY(search(&s, most, stored, wave, plan));
    if (fits_host(&s, plan)) break;
  }
  wave->waves = (members + wave->members - 1) / wave->members;
  return TT_OK;
}

/* The rule of run.memory. */
static tt_err check_option(const tt_config *cfg, const tt_wave_plan *wave,
                           const tt_memory_plan *plan)
{
  char text[3][32];
  if (cfg->run_memory < 0.0 || plan->peak <= cfg->run_memory) return TT_OK;
  return TT_FAIL(MEM,
                 "a rank needs at least %s of memory%s (%s of it for data and program), but "
                 "run.memory is %s: use more ranks, fewer members or a smaller train.batch_size",
                 tt_memory_text(plan->peak, text[0]),
                 wave->stored ? ", with one member at a time and the states in files" : "",
                 tt_memory_text(plan->program + plan->data, text[1]),
                 tt_memory_text(cfg->run_memory, text[2]));
}

/* Shares count what is needed besides the program; data may be in memory already. */
static tt_err choose(const tt_memory_job *job, int ranks, int rank, double there,
                     const tt_memory_share *share, tt_memory_check_args *a)
{
  double limit = job->cfg->run_memory, memory = INFINITY, address = INFINITY;
  if (limit > 0.0) memory = limit;
  if (!share->fits) {
    memory = fmin(memory, share->memory + there);
    address = share->address + there;
  }
  TT_TRY(tt_memory_plan_waves(job, ranks, rank, memory, address, &a->wave, &a->plan));
  return check_option(job->cfg, &a->wave, &a->plan);
}

static tt_memory_need need_of(const tt_memory_plan *p, double there)
{
  return (tt_memory_need){p->peak - there, p->stored};
}

static tt_err check(tt_comm *c, const tt_memory_job *job, tt_memory_check_args *a)
{
  int ranks = tt_comm_ranks(c), rank = tt_comm_rank(c);
  const tt_wave_plan at_once = {.waves = 1};
  tt_memory_share share;
  tt_err e = tt_agree(c, tt_memory_plan_rank(job, ranks, rank, &at_once, &a->plan));
  if (e) return e;
  double there = a->plan.program + (a->job->data ? a->plan.data : 0.0);
  tt_memory_need need = need_of(&a->plan, there);
  e = tt_memory_share_of_rank(c, &need, &share);
  if (!e) e = tt_agree(c, choose(job, ranks, rank, there, &share, a));
  need = need_of(&a->plan, there);
  return e ? e : tt_memory_check(c, &need);
}

/* The GPU of this rank and what it may use of its memory. Local. */
static tt_err find_gpu(const tt_comm *c, const tt_job *job, tt_path_context *gpu, double *bytes)
{
  tt_device_info info = {.capability = 0};
  int devices = 1;
  *bytes = 0.0;
  TT_TRY(job->ops->describe(job->use.device, &info));
  if (info.multiprocessors < 1) return TT_OK; /* not a GPU */
  TT_TRY(job->ops->count(&devices));
  int sharing = job->cfg->run_share_gpu ? (tt_comm_node_ranks(c) + devices - 1) / devices : 1;
  *bytes = TT_GPU_MEMORY_PART * (double)info.total_bytes / (double)sharing;
  *gpu = (tt_path_context){.shared_bytes = info.shared_bytes,
                           .precision = job->use.precision,
                           .capability = info.capability,
                           .multiprocessors = info.multiprocessors};
  return TT_OK;
}

tt_err tt_memory_check_job(tt_comm *c, const tt_data_shape *shape, void *args)
{
  tt_memory_check_args *a = args;
  const tt_job *job = a->job;
  tt_cohorts cohorts = {0};
  tt_path_context gpu = {0};
  double bytes = 0.0;
  tt_err e = tt_agree(c, find_gpu(c, job, &gpu, &bytes));
  if (e) return e;
  const tt_memory_job m = {.cfg = job->cfg,
                           .cohorts = &cohorts,
                           .shape = shape,
                           .ops = job->ops,
                           .use = &job->use,
                           .gpu = bytes > 0.0 ? &gpu : NULL,
                           .gpu_bytes = bytes};
  const tt_dataset unread = {.rows = shape->rows};
  e = tt_agree(c, tt_cohorts_create(job->cfg, shape->net_inputs, &shape->target,
                                    job->data ? job->data : &unread, &cohorts));
  if (!e) e = check(c, &m, a);
  if (!e) e = tt_agree(c, tt_check_outputs_local(&cohorts, job->cfg->data_targets_pca, shape));
  tt_cohorts_destroy(&cohorts);
  return e;
}
