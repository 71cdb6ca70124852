/* memory_plan.c — see memory_plan.h. */
#include "src/train/memory_plan.h"

#include "core/base/mem.h"
#include "core/model/load_balance.h"
#include "io/checkpoint/checkpoint.h"
#include "src/host/memory_limits.h"
#include "src/score/score.h"
#include "src/train/check_outputs.h"
#include "src/train/shard/team_training.h"
#include "src/train/verify.h"
#include "src/train/write_outputs.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* Measured: resident memory of `tutti train` with the smallest job (docs/training.md, Memory), with
 * MPI, and of one process without it. */
static const double program_bytes = 28.0 * 1048576.0, program_bytes_alone = 18.0 * 1048576.0;

static double fraction_of(double part, int64_t rows) { return floor(part * (double)rows); }

/* Numbers of a row: inputs, targets, weight and error bars. */
static double row_values(const tt_memory_job *job)
{
  int has_sigma = job->cfg->data_sigma && *job->cfg->data_sigma;
  int64_t targets = (1 + has_sigma) * job->shape->targets;
  return (double)(job->shape->net_inputs + targets + (*job->cfg->data_weights != '\0'));
}

/* A row in the data set: its numbers and amplitudes of the components of the targets as float,
 * split and selections; with `by` its number in the file. */
static double row_bytes(const tt_memory_job *job)
{
  double values = row_values(job) + (double)job->cfg->data_targets_pca;
  double number = job->cfg->top_by.count ? sizeof(int64_t) : 0.0;
  return 4.0 * values + 1.0 + (double)job->cfg->selections + number;
}

/* Description of the columns, of which the data set and each model have one: the name and the units
 * of each column, numbers of the scaler, ranges, and inputs of the networks. */
static double description_bytes(const tt_memory_job *job)
{
  enum { DOUBLES = 7 /* mean, scale, lambda, fill, lowest, highest; first of the inputs */ };
  const tt_data_shape *shape = job->shape;
  double texts = 2.0 * (double)(tt_alloc_size(1, sizeof(char)) + (int64_t)sizeof(char *));
  double input = DOUBLES * sizeof(double) + sizeof(tt_net_input);
  return texts * (double)(shape->inputs + shape->targets) + input * (double)shape->net_inputs;
}

/* A row while it is read: as double and as normalized float. */
static double read_bytes(const tt_memory_job *job) { return 12.0 * row_values(job); }

/* With `by`, while the groups are made: the group and the order of each row of the file, and the
 * data set of all rows before it is added. */
static double grouping_bytes(const tt_memory_job *job)
{
  int pooled = job->cfg->top_by_small == TT_BY_SMALL_pooled;
  double rows = (double)job->shape->rows / (1.0 + pooled);
  return job->cfg->top_by.count ? rows * (12.0 + pooled * row_bytes(job)) : 0.0;
}

/* Every head is a member at the end. */
static int64_t final_members(const tt_cohort *c, int64_t members)
{
  return members * tt_cohort_expansion(c);
}

static double floats(int64_t count) { return (double)tt_alloc_size(count, sizeof(float)); }

/* State and description of heads as members. */
static double head_bytes(const tt_cohort *c, tt_slice slice)
{
  tt_state_shape shape = {.params = tt_model_of_head(&c->model).params, .epochs = c->max_epochs};
  if (tt_cohort_expansion(c) == 1) return 0.0;
  double members = (double)final_members(c, c->members) * (double)sizeof(tt_member);
  return (double)tt_state_size(final_members(c, slice.count), shape, NULL) + members;
}

/* Rows of the largest ensemble. */
static int64_t most_rows(const tt_memory_job *job, const tt_cohort *c)
{
  int64_t most = 0;
  for (int64_t e = 0; e < c->ensembles; e++)
    if (c->ensemble[e].rows.count > most) most = c->ensemble[e].rows.count;
  return most ? most : job->shape->rows;
}

/* Scores of one cohort on the test rows, or out of bag on the training rows; with `by` of one group
 * after the other. */
static double score_bytes(const tt_memory_job *job, const tt_cohort *c, int ranks)
{
  const tt_model *m = &c->model;
  const tt_config *cfg = job->cfg;
  int64_t at_once = cfg->top_by.count ? 1 : c->ensembles, width = m->targets * m->quantities;
  int64_t members = final_members(c, c->members) * at_once / c->ensembles;
  if (cfg->data_targets_pca) width = job->shape->targets;
  int64_t test = (int64_t)fraction_of(cfg->data_split_test, most_rows(job, c));
  int64_t train = (int64_t)fraction_of(cfg->data_split_train, most_rows(job, c));
  double predict =
      job->ops->predict_bytes ? (double)job->ops->predict_bytes(m, at_once * width, job->use) : 0.0;
  double tested = tt_score_bytes(m, members, at_once, width, test, ranks, 1) + predict;
  if (tt_run_has_baselines(cfg)) tested += tt_score_baseline_bytes(m, at_once, train, test);
  if (c->resample == TT_RESAMPLE_none) return tested;
  double bag = tt_score_bytes(m, members, at_once, width, train, ranks, 0) + predict;
  return fmax(tested, bag + (double)members * (double)train / 8.0);
}

/* The copy of the weights of this rank's members of a cohort, and numbers of all members. */
static double model_bytes(const tt_cohort *c, tt_slice slice)
{
  int64_t params = tt_model_of_head(&c->model).params;
  int64_t all = final_members(c, c->members), mine = final_members(c, slice.count);
  return floats(mine * params) + 24.0 * (double)all;
}

/* Arrays of results.h5: three losses per epoch, the hyper-parameters of all members; those of
 * model.h5 are smaller. */
static double result_bytes(const tt_cohort *c, tt_slice slice)
{
  double loss = floats(final_members(c, slice.count) * c->max_epochs);
  return 3.0 * loss + (double)final_members(c, c->members) * (double)sizeof(tt_hyper);
}

/* Sums over cohorts: of a field of the states in a checkpoint, and of the end of a run. */
typedef struct end_bytes {
  double field;
  double heads, freed; /* states of heads; then the states of their members go */
  double models;
  double scores;  /* of the ensembles of the last cohort; the networks of an ensemble together */
  double largest; /* of arrays that are needed one after the other */
} end_bytes;

/* Whether the ranks of a team train the members of a cohort together. */
static int is_shared(const tt_cohort *c, const tt_team_place *place)
{
  return place->ranks > 1 && c->parts > 1;
}

/* Only the first rank of a team trains members that it does not share. */
static int has_engine(const tt_cohort *c, tt_slice slice, const tt_team_place *place)
{
  return slice.count > 0 && (place->rank == 0 || is_shared(c, place));
}

static tt_pipeline_grid grid_of(const tt_memory_job *job, const tt_cohort *c,
                                const tt_team_place *place)
{
  return tt_pipeline_grid_of(&c->model, (int)job->cfg->run_stages, place->ranks);
}

static tt_pipeline_place place_of(const tt_memory_job *job, const tt_cohort *c,
                                  const tt_team_place *place)
{
  return tt_pipeline_place_of(&c->model, grid_of(job, c, place), c->parts, place->rank);
}

/* The part of the work that a rank of a team has for each member. The result points into `p`. */
static tt_engine_share share_of(const tt_memory_job *job, const tt_cohort *c,
                                const tt_team_place *place, const tt_pipeline_place *p)
{
  return (tt_engine_share){
      .parts = p->parts,
      .stage = job->cfg->run_stages > 1 ? &p->layers : NULL,
      .window = tt_pipeline_window(grid_of(job, c, place).stages, p->stage, p->parts.count)};
}

/* What the engine of some members needs on a GPU and for it; nothing if the GPU cannot train them,
 * which is an error when it is created. */
static tt_device_need device_need(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                                  const tt_team_place *place)
{
  const tt_pipeline_place p = place_of(job, c, place);
  const tt_engine_share share = share_of(job, c, place, &p);
  const tt_device_job wanted = {.cohort = c,
                                .slice = slice,
                                .rows = job->shape->rows,
                                .weighted = *job->cfg->data_weights != '\0',
                                .streamed = tt_memory_device_data(job) <= 0.0,
                                .context = job->gpu,
                                .wanted = (tt_gpu_path)job->cfg->gpu_path,
                                .share = is_shared(c, place) ? &share : NULL,
                                .device_exchange = job->use->device_exchange};
  tt_device_need need;
  return tt_device_need_of(&wanted, &need) ? (tt_device_need){0} : need;
}

static double device_bytes(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                           const tt_team_place *place)
{
  return has_engine(c, slice, place) ? (double)device_need(job, c, slice, place).device : 0.0;
}

/* Host memory, in bytes, of the engine that trains the members `slice`. */
static double engine_bytes(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                           const tt_team_place *place)
{
  const tt_pipeline_place p = place_of(job, c, place);
  const tt_engine_share share = share_of(job, c, place, &p);
  tt_resources use = *job->use;
  if (!has_engine(c, slice, place)) return 0.0;
  if (job->gpu) {
    const tt_device_need need = device_need(job, c, slice, place);
    return (double)(need.pinned + need.lists);
  }
  if (!job->ops->host_bytes) return 0.0;
  if (!is_shared(c, place))
    return (double)job->ops->host_bytes(c, slice, job->shape->rows, NULL, &use);
  use.own = &p.segment;
  return (double)job->ops->host_bytes(c, slice, job->shape->rows, &share, &use);
}

/* Bytes of a rank for members that its team trains together, beside its shards and engines. Where
 * the members are not in its shards: the state of one of them too. */
static double team_bytes(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                         const tt_team_place *place)
{
  if (!is_shared(c, place) || slice.count == 0) return 0.0;
  int stages = job->cfg->run_stages > 1 ? (int)job->cfg->run_stages : 0;
  double buffers = (double)tt_team_buffer_bytes_local(c, stages, job->use->device_exchange,
                                                      place->ranks, place->rank);
  if (place->rank == 0) return buffers;
  const tt_pipeline_place p = place_of(job, c, place);
  return buffers + (double)tt_state_size(1, tt_cohort_state_shape(c), &p.segment);
}

/* Bytes for run.verify, on the host and on the GPU: of one member, one cohort after the other. */
static void add_verification(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                             const tt_team_place *place, double *host, double *device)
{
  const tt_slice one = {slice.first, 1};
  if (slice.count == 0 || is_shared(c, place) ||
      tt_verify_interval(c, job->gpu != NULL, job->cfg->run_verify) == 0.0)
    return;
  *host = fmax(*host, tt_verify_bytes_local(c, job->shape->rows, job->gpu != NULL) +
                          engine_bytes(job, c, one, place));
  if (job->gpu) *device = fmax(*device, device_bytes(job, c, one, place));
}

static void add_cohort(const tt_memory_job *job, const tt_cohort *c, tt_slice slice, int ranks,
                       tt_memory_plan *p, end_bytes *end)
{
  double state = (double)tt_state_size(slice.count, tt_cohort_state_shape(c), NULL);
  state += 8.0 * (double)slice.count; /* a checksum for each member */
  p->members += (double)sizeof *c + (double)c->members * (double)sizeof(tt_member);
  p->files += state;
  end->heads += head_bytes(c, slice);
  end->field += (double)(slice.count * tt_state_largest_field_bytes(tt_cohort_state_shape(c)));
  if (tt_cohort_expansion(c) > 1) end->freed += state;
  end->models += model_bytes(c, slice) + description_bytes(job);
  end->scores = (c->joined ? end->scores : 0.0) + score_bytes(job, c, ranks);
  end->largest = fmax(end->largest, fmax(result_bytes(c, slice), end->scores));
}

double tt_memory_device_data(const tt_memory_job *job)
{
  double bytes = 4.0 * (double)job->shape->rows * row_values(job);
  return 2.0 * bytes > job->gpu_bytes ? 0.0 : bytes;
}

/* Bytes on the GPU of a rank for what its team exchanges. */
static double team_device_bytes(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                                const tt_team_place *place)
{
  int stages = job->cfg->run_stages > 1 ? (int)job->cfg->run_stages : 0;
  if (!is_shared(c, place) || slice.count == 0 || !job->use->device_exchange) return 0.0;
  return (double)tt_team_device_bytes_local(c, stages, place->ranks, place->rank);
}

typedef double engine_bytes_of(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                               const tt_team_place *place);

/* Bytes of the engines of all cohorts.
 *   slice  members of this rank
 *   bytes  of the engine of some members */
static double sum_of_engines(const tt_memory_job *job, const tt_slice *slice,
                             const tt_team_place *place, engine_bytes_of *bytes)
{
  double sum = 0.0;
  for (int64_t i = 0; i < job->cohorts->count; i++)
    sum += bytes(job, job->cohorts->at[i], slice[i], place);
  return sum;
}

/* The members of each cohort that this rank trains, or of its team. */
static tt_err slices_of_rank(const tt_memory_job *job, int ranks, int rank, tt_team_place *place,
                             tt_slice **slice)
{
  int64_t train = (int64_t)fraction_of(job->cfg->data_split_train, job->shape->rows);
  int teams = tt_load_balance_teams(job->cohorts, job->cfg->run_ranks_per_member,
                                    job->cfg->run_stages, ranks);
  *place = tt_load_balance_place(ranks, teams, rank);
  TT_TRY(TT_ALLOC(*slice, job->cohorts->count));
  return tt_load_balance(job->cohorts, train, teams, place->team, *slice);
}

static void add_all(const tt_memory_job *job, tt_slice *slice, int ranks,
                    const tt_team_place *place, tt_memory_plan *p)
{
  end_bytes end = {0};
  double verify_host = 0.0, verify_device = 0.0;
  double engines = sum_of_engines(job, slice, place, engine_bytes);
  if (job->gpu)
    p->device = tt_memory_device_data(job) + sum_of_engines(job, slice, place, device_bytes);
  for (int64_t i = 0; i < job->cohorts->count; i++) {
    p->members += team_bytes(job, job->cohorts->at[i], slice[i], place);
    if (job->gpu) p->device += team_device_bytes(job, job->cohorts->at[i], slice[i], place);
    add_verification(job, job->cohorts->at[i], slice[i], place, &verify_host, &verify_device);
    if (place->rank > 0) slice[i].count = 0;
    add_cohort(job, job->cohorts->at[i], slice[i], ranks, p, &end);
  }
  if (job->gpu) p->device += verify_device;
  p->members += engines + verify_host;
  p->files += fmin((double)tt_ckpt_buffer_bytes_local(job->cohorts->count), end.field);
  double written = end.models + end.largest - end.freed; /* after the copies of heads */
  p->outputs = fmax(0.0, end.heads + fmax(0.0, written) - engines);
}

/* The model of train.init_from, which a rank keeps: nearly all of its file are weights. */
static double initial_bytes(const tt_config *cfg)
{
  struct stat st;
  return *cfg->train_init_from && !stat(cfg->train_init_from, &st) ? (double)st.st_size : 0.0;
}

tt_err tt_memory_plan_rank(const tt_memory_job *job, int ranks, int rank, tt_memory_plan *out)
{
  tt_slice *slice = NULL;
  tt_team_place place;
  tt_memory_plan p = {.program = ranks > 1 ? program_bytes : program_bytes_alone};
  double rows = (double)job->shape->rows, initial = initial_bytes(job->cfg);
  tt_err e = slices_of_rank(job, ranks, rank, &place, &slice);
  if (!e) add_all(job, slice, ranks, &place, &p);
  tt_free(slice);
  p.data = rows * row_bytes(job) + description_bytes(job) + initial;
  p.reading = rows * read_bytes(job) / (double)ranks;
  p.reading += 40.0 * rows; /* keys of the rows, and where rank 0 looks for equal ones */
  p.reading += grouping_bytes(job);
  if (ranks > 1) p.reading += initial; /* they get the bytes of the file (io/hdf5/shared.c) */
  p.peak = p.program + p.data + fmax(p.reading, p.members + p.files + p.outputs);
  if (!e) *out = p;
  return e;
}

double tt_memory_device_bytes(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                              int ranks)
{
  double most = 0.0;
  for (int r = 0; r < ranks; r++) {
    const tt_team_place place = {.ranks = ranks, .rank = r};
    most = fmax(most, device_bytes(job, c, slice, &place));
  }
  return most;
}

double tt_memory_exchange_bytes(const tt_cohort *c, int stages, int ranks)
{
  int64_t most = 0;
  for (int r = 0; ranks > 1 && c->parts > 1 && r < ranks; r++) {
    int64_t bytes = tt_team_device_bytes_local(c, stages, ranks, r);
    if (bytes > most) most = bytes;
  }
  return (double)most;
}

/* The rule of run.memory. */
static tt_err check_option(const tt_config *cfg, const tt_memory_plan *plan)
{
  char text[3][32];
  if (cfg->run_memory < 0.0 || plan->peak <= cfg->run_memory) return TT_OK;
  return TT_FAIL(MEM,
                 "a rank needs at least %s of memory (%s of it for data and program), but "
                 "run.memory is %s: use more ranks, fewer members or a smaller train.batch_size",
                 tt_memory_text(plan->peak, text[0]),
                 tt_memory_text(plan->program + plan->data, text[1]),
                 tt_memory_text(cfg->run_memory, text[2]));
}

static tt_err check_gpu(const tt_memory_job *job, const tt_memory_plan *plan, int rank)
{
  char need[32], there[32];
  if (plan->device <= job->gpu_bytes) return TT_OK;
  return TT_FAIL(MEM,
                 "the members of rank %d need %s of GPU memory, but it may use %s: use more ranks "
                 "(GPUs), fewer members or a smaller train.batch_size",
                 rank, tt_memory_text(plan->device, need), tt_memory_text(job->gpu_bytes, there));
}

/* The nodes are asked for what is needed besides the program; data may be in memory already. */
static tt_err check(tt_comm *c, const tt_memory_job *job, tt_memory_check_args *a)
{
  const tt_memory_plan *plan = &a->plan;
  tt_err e = tt_memory_plan_rank(job, tt_comm_ranks(c), tt_comm_rank(c), &a->plan);
  if (!e) e = check_option(job->cfg, plan);
  if (!e && job->gpu) e = check_gpu(job, plan, tt_comm_rank(c));
  e = tt_agree(c, e);
  return e ? e : tt_memory_check(c, plan->peak - plan->program - (a->job->data ? plan->data : 0.0));
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
                           .multiprocessors = info.multiprocessors,
                           .check = job->use.check};
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
