/* memory_plan.c — see memory_plan.h. */
#include "src/train/memory_plan.h"

#include "core/base/mem.h"
#include "core/model/load_balance.h"
#include "src/host/memory_limits.h"
#include "src/job/job.h"
#include "src/score/score.h"
#include "src/train/shard/team_training.h"

#include <math.h>

/* Measured: resident memory of `tutti train` with the smallest job (docs/training.md, Memory). */
static const double program_bytes = 28.0 * 1048576.0;
/* Largest buffer for the comparison of a written file; a smaller dataset is compared at once. */
static const double verify_bytes = 16.0 * 1048576.0;

static double fraction_of(double part, int64_t rows) { return floor(part * (double)rows); }

/* A row in the data set: inputs, targets, amplitudes of their components and weight as float, split
 * and selections. */
static double row_bytes(const tt_memory_job *job)
{
  double values =
      (double)(job->shape->net_inputs + job->shape->targets + job->cfg->data_targets_pca) +
      (*job->cfg->data_weights ? 1.0 : 0.0) +
      (job->cfg->data_sigma && *job->cfg->data_sigma ? (double)job->shape->targets : 0.0);
  return 4.0 * values + 1.0 + (double)job->cfg->selections;
}

/* A row while it is read: as double and as normalised float. */
static double read_bytes(const tt_memory_job *job)
{
  double values =
      (double)(job->shape->net_inputs + job->shape->targets) +
      (*job->cfg->data_weights ? 1.0 : 0.0) +
      (job->cfg->data_sigma && *job->cfg->data_sigma ? (double)job->shape->targets : 0.0);
  return 12.0 * values;
}

/* Every snapshot and every head is a member at the end. */
static int64_t final_members(const tt_cohort *c, int64_t members)
{
  return members * tt_cohort_expansion(c);
}

static int is_expanded(const tt_cohort *c) { return c->snapshots > 0 || c->model.heads > 1; }

/* State and description of snapshots or heads as members. */
static double snapshot_bytes(const tt_cohort *c, tt_slice slice)
{
  tt_state_shape shape = {.params = tt_model_of_head(&c->model).params, .epochs = c->max_epochs};
  if (!is_expanded(c)) return 0.0;
  return (double)(final_members(c, slice.count) * tt_state_member_bytes(shape)) +
         (double)(final_members(c, c->members) * (int64_t)sizeof(tt_member));
}

/* Scores of one cohort on the test rows, or out of bag on the training rows. */
static double score_bytes(const tt_memory_job *job, const tt_cohort *c, int ranks)
{
  const tt_model *m = &c->model;
  const tt_config *cfg = job->cfg;
  int64_t members = final_members(c, c->members), width = m->targets * m->quantities;
  if (cfg->data_targets_pca) width = job->shape->targets;
  int64_t test = (int64_t)fraction_of(cfg->data_split_test, job->shape->rows);
  int64_t train = (int64_t)fraction_of(cfg->data_split_train, job->shape->rows);
  double predict = job->ops->predict_bytes
                       ? (double)job->ops->predict_bytes(m, c->ensembles * width, job->use)
                       : 0.0;
  double tested = tt_score_bytes(m, members, c->ensembles, width, test, ranks, 1) + predict;
  if (c->resample == TT_RESAMPLE_none) return tested;
  double bag = tt_score_bytes(m, members, c->ensembles, width, train, ranks, 0) + predict;
  return fmax(tested, bag + (double)members * (double)train / 8.0);
}

/* The model of all members of a cohort and the copy of the weights of this rank's. */
static double model_bytes(const tt_cohort *c, tt_slice slice)
{
  double params = 4.0 * (double)tt_model_of_head(&c->model).params;
  double all = (double)final_members(c, c->members), mine = (double)final_members(c, slice.count);
  return all * (params + 24.0) + mine * params;
}

/* Arrays of model.h5: one layer of this rank's members, numbers and names of all members. */
static double tensor_bytes(const tt_cohort *c, tt_slice slice)
{
  int64_t most = tt_model_largest_tensor(&c->model);
  return 4.0 * (double)(final_members(c, slice.count) * most) +
         40.0 * (double)final_members(c, c->members);
}

/* Arrays of results.h5: three losses per epoch, the hyper-parameters of all members. */
static double result_bytes(const tt_cohort *c, tt_slice slice)
{
  double mine = (double)final_members(c, slice.count), all = (double)final_members(c, c->members);
  return mine * 12.0 * (double)c->max_epochs + all * (double)sizeof(tt_hyper);
}

/* Sums over cohorts: of a field of the states in a checkpoint, and of the end of a run. */
typedef struct end_bytes {
  double field;
  double snapshots, freed; /* states of snapshots; then engines and states of their members go */
  double models;
  double scores;  /* of the ensembles of the last cohort; the networks of an ensemble together */
  double largest; /* of arrays that are needed one after the other */
} end_bytes;

/* Whether the ranks of a team train the members of a cohort together. */
static int is_shared(const tt_cohort *c, const tt_team_place *at)
{
  return at->ranks > 1 && c->parts > 1;
}

static tt_pipeline_grid grid_of(const tt_memory_job *job, const tt_cohort *c,
                                const tt_team_place *at)
{
  return tt_pipeline_grid_of(&c->model, (int)job->cfg->run_stages, at->ranks);
}

/* The parameters whose slots and best weights a rank has. */
static tt_slice segment_of(const tt_memory_job *job, const tt_cohort *c, const tt_team_place *at)
{
  if (!is_shared(c, at)) return (tt_slice){0, c->model.params};
  return tt_pipeline_place_of(&c->model, grid_of(job, c, at), c->parts, at->rank).segment;
}

/* What the engine of a rank may use; `own` must outlive it. */
static tt_resources use_of(const tt_memory_job *job, const tt_cohort *c, const tt_team_place *at,
                           const tt_slice *own)
{
  tt_resources use = *job->use;
  use.own = is_shared(c, at) ? own : NULL;
  return use;
}

/* Bytes of the stage of a rank. */
static double stage_bytes(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                          const tt_team_place *at)
{
  const tt_pipeline_grid grid = grid_of(job, c, at);
  const tt_pipeline_place p = tt_pipeline_place_of(&c->model, grid, c->parts, at->rank);
  const tt_resources use = use_of(job, c, at, &p.segment);
  if (!job->ops->stage_bytes) return 0.0;
  int64_t window = tt_pipeline_window(grid.stages, p.stage, p.parts.count);
  return (double)job->ops->stage_bytes(c, slice, &p.layers, p.parts, window, &use);
}

/* Bytes of the engine of some members. */
static double engine_bytes(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                           const tt_team_place *at)
{
  const tt_slice own = segment_of(job, c, at);
  const tt_resources use = use_of(job, c, at, &own);
  if (slice.count == 0 || !job->ops->host_bytes) return 0.0;
  return (double)job->ops->host_bytes(c, slice, job->shape->rows, &use);
}

/* Bytes of the gradients of a rank's parts. */
static double sums_bytes(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                         const tt_team_place *at)
{
  const tt_slice own = segment_of(job, c, at);
  const tt_resources use = use_of(job, c, at, &own);
  tt_slice parts = tt_part_slice(c->parts, at->ranks, at->rank);
  if (!job->ops->partial_bytes) return 0.0;
  return (double)job->ops->partial_bytes(c, slice, parts, &use);
}

/* Bytes of a rank for members that its team trains together, beside those of its own members. On
 * ranks that do not have them in their shards: the engine and the state of one member too. */
static double team_bytes(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                         const tt_team_place *at)
{
  double state =
      (double)tt_state_segment_bytes(1, tt_cohort_state_shape(c), segment_of(job, c, at));
  if (!is_shared(c, at) || slice.count == 0) return 0.0;
  int stages = job->cfg->run_stages > 1 ? (int)job->cfg->run_stages : 0;
  double buffers = (double)tt_team_buffer_bytes_local(c, stages, at->ranks, at->rank);
  buffers += stages ? stage_bytes(job, c, slice, at) : sums_bytes(job, c, slice, at);
  return at->rank == 0 ? buffers : buffers + state + engine_bytes(job, c, slice, at);
}

static void add_cohort(const tt_memory_job *job, const tt_cohort *c, tt_slice slice, int ranks,
                       const tt_team_place *at, tt_memory_plan *p, end_bytes *end)
{
  p->members += team_bytes(job, c, slice, at);
  if (at->rank > 0) slice.count = 0;
  double engine = engine_bytes(job, c, slice, at);
  double state = (double)tt_state_bytes(slice.count, tt_cohort_state_shape(c)) +
                 8.0 * (double)slice.count; /* and the checksum of a member */
  p->members += (double)c->members * (double)sizeof(tt_member) + engine;
  p->files += state;
  end->field += (double)(slice.count * tt_state_largest_field_bytes(tt_cohort_state_shape(c)));
  end->snapshots += snapshot_bytes(c, slice);
  if (is_expanded(c)) end->freed += engine + state;
  end->models += model_bytes(c, slice);
  end->largest = fmax(end->largest, tensor_bytes(c, slice));
  end->scores = (c->joined ? end->scores : 0.0) + score_bytes(job, c, ranks);
  end->largest = fmax(end->largest, fmax(end->scores, result_bytes(c, slice)));
}

tt_err tt_memory_plan_rank(const tt_memory_job *job, int ranks, int rank, tt_memory_plan *out)
{
  tt_slice *slice = NULL;
  tt_memory_plan p = {.program = program_bytes};
  end_bytes end = {0};
  double rows = (double)job->shape->rows;
  int64_t train = (int64_t)fraction_of(job->cfg->data_split_train, job->shape->rows);
  int teams = tt_load_balance_teams(job->cohorts, job->cfg->run_ranks_per_member,
                                    job->cfg->run_stages, ranks);
  const tt_team_place at = tt_load_balance_place(ranks, teams, rank);
  TT_TRY(TT_ALLOC(slice, job->cohorts->count));
  tt_err e = tt_load_balance(job->cohorts, train, teams, at.team, slice);
  for (int64_t i = 0; !e && i < job->cohorts->count; i++)
    add_cohort(job, job->cohorts->at[i], slice[i], ranks, &at, &p, &end);
  tt_free(slice);
  p.data = rows * row_bytes(job);
  p.reading = rows * read_bytes(job) / (double)ranks;
  p.files += fmin(verify_bytes, end.field);
  p.outputs =
      end.snapshots + fmax(0.0, end.models + end.largest - end.freed); /* peak of the two phases */
  p.peak = p.program + p.data + fmax(p.reading, p.members + p.files + p.outputs);
  if (!e) *out = p;
  return e;
}

static tt_err plan_local(const tt_job *job, const tt_data_shape *shape, int ranks, int rank,
                         tt_memory_plan *p)
{
  tt_cohorts cohorts = {0};
  const tt_memory_job m = {job->cfg, &cohorts, shape, job->ops, &job->use};
  tt_err e = tt_cohorts_create(job->cfg, shape->net_inputs, &shape->target, job->data, &cohorts);
  if (!e) e = tt_memory_plan_rank(&m, ranks, rank, p);
  if (!e && job->data) p->peak -= p->data;
  tt_cohorts_destroy(&cohorts);
  return e;
}

tt_err tt_memory_check_job(tt_comm *c, const tt_data_shape *shape, void *job)
{
  tt_memory_plan p = {0};
  tt_err e = tt_agree(c, plan_local(job, shape, tt_comm_ranks(c), tt_comm_rank(c), &p));
  return e ? e : tt_memory_check(c, p.peak - p.program);
}
