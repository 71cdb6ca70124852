/* memory_plan.c — see memory_plan.h. */
#include "src/train/memory_plan.h"

#include "core/base/mem.h"
#include "core/model/load_balance.h"
#include "io/checkpoint/checkpoint.h"
#include "src/score/score.h"
#include "src/train/shard/ensemble_early_stopping.h"
#include "src/train/shard/team_training.h"
#include "src/train/shard/wave.h"

#include <math.h>
#include <string.h>

/* Measured: resident memory of `tutti train` with the smallest job (docs/training.md, Memory), with
 * MPI, and of one process without it. */
static const double program_bytes = 28.0 * 1048576.0, program_bytes_alone = 18.0 * 1048576.0;

static double fraction_of(double part, int64_t rows) { return floor(part * (double)rows); }

/* Rows that the arrays of the data set hold for each row: one more for each fold that members leave
 * out (data.normalize_folds), where all rows have labels. */
static double stored_rows(const tt_config *cfg)
{
  double rows = 1.0;
  if (!tt_config_normalizes_folds(cfg)) return rows;
  for (int64_t k = 0; k < cfg->ensembles; k++) {
    const tt_ensemble_config *own = &cfg->ensemble[k];
    int64_t before = 0;
    if (own->train_resample != TT_RESAMPLE_kfold) continue;
    for (int64_t j = 0; j < k; j++) {
      const tt_ensemble_config *other = &cfg->ensemble[j];
      int same = other->train_resample == TT_RESAMPLE_kfold &&
                 other->train_folds == own->train_folds && other->selection == own->selection;
      if (same && other->members > before) before = other->members;
    }
    int64_t left_out = own->members < own->train_folds ? own->members : own->train_folds;
    if (left_out > before) rows += (double)(left_out - before);
  }
  return rows;
}

/* A row in the data set: inputs, targets, amplitudes of their components and weight as float, split
 * and selections. */
static double row_bytes(const tt_memory_job *job)
{
  double values =
      (double)(job->shape->net_inputs + job->shape->targets + job->cfg->data_targets_pca) +
      (*job->cfg->data_weights ? 1.0 : 0.0) +
      (job->cfg->data_sigma && *job->cfg->data_sigma ? (double)job->shape->targets : 0.0);
  return 4.0 * values * stored_rows(job->cfg) + 1.0 + (double)job->cfg->selections;
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

static tt_mem_sum add(tt_mem_sum a, tt_mem_sum b)
{
  return (tt_mem_sum){a.memory + b.memory, a.file + b.file};
}

static tt_mem_sum floats(int64_t count, int stored)
{
  return tt_stored_size(count, sizeof(float), stored);
}

/* State and description of snapshots or heads as members. */
static tt_mem_sum snapshot_bytes(const tt_cohort *c, tt_slice slice, int stored)
{
  tt_state_shape shape = {.params = tt_model_of_head(&c->model).params, .epochs = c->max_epochs};
  if (!is_expanded(c)) return (tt_mem_sum){0};
  int64_t members = final_members(c, c->members) * (int64_t)sizeof(tt_member);
  return add(tt_state_size(final_members(c, slice.count), shape, NULL, stored),
             (tt_mem_sum){.memory = members});
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

/* The copy of the weights of this rank's members of a cohort, and numbers of all members. */
static tt_mem_sum model_bytes(const tt_cohort *c, tt_slice slice, int stored)
{
  int64_t params = tt_model_of_head(&c->model).params;
  int64_t all = final_members(c, c->members), mine = final_members(c, slice.count);
  return add(floats(mine * params, stored), (tt_mem_sum){.memory = 24 * all});
}

/* Arrays of results.h5: three losses per epoch, the hyper-parameters of all members; those of
 * model.h5 are smaller. */
static tt_mem_sum result_bytes(const tt_cohort *c, tt_slice slice, int stored)
{
  tt_mem_sum loss = floats(final_members(c, slice.count) * c->max_epochs, stored);
  int64_t all = final_members(c, c->members) * (int64_t)sizeof(tt_hyper);
  return (tt_mem_sum){3 * loss.memory + all, 3 * loss.file};
}

/* Sums over cohorts: of a field of the states in a checkpoint, and of the end of a run. */
typedef struct end_bytes {
  double field;
  double snapshots, freed; /* states of snapshots; then the states of their members go */
  double models;
  double scores;  /* of the ensembles of the last cohort; the networks of an ensemble together */
  double largest; /* of arrays that are needed one after the other */
} end_bytes;

/* Validation of ensembles at the end of an epoch, as long as the engines of a wave are there: of
 * the ensembles of the last cohort, the networks of an ensemble together, and the most so far. */
typedef struct validation_bytes {
  double host, device, most_host, most_device;
} validation_bytes;

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
  const tt_mem_sum state = tt_state_size(1, tt_cohort_state_shape(c), &p.segment, 0);
  return buffers + (double)state.memory;
}

/* The larger one of two needs that follow each other; the files are added. */
static void take_larger(tt_mem_sum one, end_bytes *end, tt_memory_plan *p)
{
  end->largest = fmax(end->largest, (double)one.memory);
  p->stored += (double)one.file;
}

static void add_cohort(const tt_memory_job *job, const tt_cohort *c, tt_slice slice, int ranks,
                       const tt_wave_plan *wave, tt_memory_plan *p, end_bytes *end)
{
  int stored = wave->stored;
  tt_mem_sum state = tt_state_size(slice.count, tt_cohort_state_shape(c), NULL, stored);
  tt_mem_sum snapshots = snapshot_bytes(c, slice, stored), model = model_bytes(c, slice, stored);
  state.memory += 8 * slice.count; /* a checksum for each member */
  p->members += (double)sizeof *c + (double)c->members * (double)sizeof(tt_member);
  p->files += (double)state.memory;
  p->stored += (double)(state.file + snapshots.file + model.file);
  end->snapshots += (double)snapshots.memory;
  end->field += (double)(slice.count * tt_state_largest_field_bytes(tt_cohort_state_shape(c)));
  if (is_expanded(c)) end->freed += (double)state.memory;
  end->models += (double)model.memory + description_bytes(job);
  take_larger(result_bytes(c, slice, stored), end, p);
  end->scores = (c->joined ? end->scores : 0.0) + score_bytes(job, c, ranks);
  end->largest = fmax(end->largest, end->scores);
}

double tt_memory_device_data(const tt_memory_job *job)
{
  double columns = (double)(job->shape->net_inputs + job->shape->targets);
  if (*job->cfg->data_weights) columns += 1.0;
  if (job->cfg->data_sigma && *job->cfg->data_sigma) columns += (double)job->shape->targets;
  double bytes = 4.0 * (double)job->shape->rows * columns * stored_rows(job->cfg);
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

static void add_validation(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                           int64_t group, validation_bytes *v)
{
  if (!c->joined) v->host = v->device = 0.0;
  if (c->stop != TT_EARLY_STOPPING_ensemble) return;
  v->host += tt_ensemble_early_stopping_bytes(c, slice.count, group);
  if (job->ops->predict_bytes) v->host += (double)job->ops->predict_bytes(&c->model, 0, job->use);
  v->device += tt_ensemble_early_stopping_device_bytes(c, slice.count, group);
  v->most_host = fmax(v->most_host, v->host);
  v->most_device = fmax(v->most_device, v->device);
}

/* What the validation of ensembles needs besides the engines of a wave. */
static validation_bytes validation_of(const tt_memory_job *job, const tt_slice *slice,
                                      const tt_wave_plan *wave)
{
  validation_bytes v = {0};
  const tt_wave_list all = tt_wave_list_of(slice, job->cohorts->count, wave->members);
  for (int64_t i = 0; i < job->cohorts->count; i++)
    add_validation(job, job->cohorts->at[i], slice[i], all.members, &v);
  return v;
}

typedef double engine_bytes_of(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                               const tt_team_place *place);

/* Bytes of the engine of some members of a cohort, as most_of_waves has found them last. */
typedef struct last_bytes {
  int64_t members;
  tt_used_options used;
  double bytes;
} last_bytes;

/* Waves of equal members need the same. */
static double bytes_of_wave(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                            const tt_team_place *place, engine_bytes_of *bytes, last_bytes *last)
{
  const tt_used_options used = tt_cohort_used_options(c, slice);
  if (last->members != slice.count || memcmp(&last->used, &used, sizeof used) != 0)
    *last = (last_bytes){slice.count, used, bytes(job, c, slice, place)};
  return last->bytes;
}

/* Bytes of the engines of the wave that needs most.
 *   slice  members of this rank
 *   bytes  of the engine of some members */
static double most_of_waves(const tt_memory_job *job, const tt_slice *slice,
                            const tt_team_place *place, const tt_wave_plan *wave,
                            engine_bytes_of *bytes)
{
  int64_t count = job->cohorts->count, first = 0;
  const tt_wave_list all = tt_wave_list_of(slice, count, wave->members);
  double most = 0.0, sum = 0.0;
  for (int64_t i = 0; i < count; first += slice[i++].count) {
    last_bytes last = {.members = -1};
    int64_t begin = first / all.members, end = (first + slice[i].count) / all.members;
    for (int64_t w = begin; slice[i].count > 0 && w <= end && w < all.count; w++) {
      if (w > begin) sum = 0.0; /* the wave begins in this cohort */
      if (w == begin && first == begin * all.members) sum = 0.0;
      sum += bytes_of_wave(job, job->cohorts->at[i], tt_wave_slice(&all, slice, i, w), place, bytes,
                           &last);
      most = fmax(most, sum);
    }
  }
  return most;
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
                    const tt_team_place *place, const tt_wave_plan *wave, tt_memory_plan *p)
{
  end_bytes end = {0};
  double engines = most_of_waves(job, slice, place, wave, engine_bytes);
  if (job->gpu)
    p->device = tt_memory_device_data(job) + most_of_waves(job, slice, place, wave, device_bytes);
  for (int64_t i = 0; i < job->cohorts->count; i++) {
    p->members += team_bytes(job, job->cohorts->at[i], slice[i], place);
    if (job->gpu) p->device += team_device_bytes(job, job->cohorts->at[i], slice[i], place);
    if (place->rank > 0) slice[i].count = 0;
    add_cohort(job, job->cohorts->at[i], slice[i], ranks, wave, p, &end);
  }
  const validation_bytes validation = validation_of(job, slice, wave);
  engines += validation.most_host;
  if (job->gpu) p->device += validation.most_device;
  p->members += engines;
  p->files += fmin((double)tt_ckpt_buffer_bytes_local(job->cohorts->count), end.field);
  double written = end.models + end.largest - end.freed; /* after the copies of snapshots */
  p->outputs = fmax(0.0, end.snapshots + fmax(0.0, written) - engines);
}

tt_err tt_memory_plan_rank(const tt_memory_job *job, int ranks, int rank, const tt_wave_plan *wave,
                           tt_memory_plan *out)
{
  tt_slice *slice = NULL;
  tt_team_place place;
  tt_memory_plan p = {.program = ranks > 1 ? program_bytes : program_bytes_alone};
  double rows = (double)job->shape->rows;
  tt_err e = slices_of_rank(job, ranks, rank, &place, &slice);
  if (!e) add_all(job, slice, ranks, &place, wave, &p);
  tt_free(slice);
  p.data = rows * row_bytes(job) + description_bytes(job);
  p.reading = rows * read_bytes(job) / (double)ranks;
  p.reading += 40.0 * rows;        /* keys of the rows, and where rank 0 looks for equal ones */
  if (stored_rows(job->cfg) > 1.0) /* the inputs before and after they are repeated for the folds */
    p.reading += 4.0 * rows * (double)job->shape->net_inputs;
  p.peak = p.program + p.data + fmax(p.reading, p.members + p.files + p.outputs);
  if (!e) *out = p;
  return e;
}

tt_err tt_memory_rank_members(const tt_memory_job *job, int ranks, int rank, int64_t *members)
{
  tt_slice *slice = NULL;
  tt_team_place place;
  tt_err e = slices_of_rank(job, ranks, rank, &place, &slice);
  *members = 0;
  for (int64_t i = 0; !e && i < job->cohorts->count; i++) *members += slice[i].count;
  if (!e && place.ranks > 1) *members = 0; /* a team trains its members one after the other */
  tt_free(slice);
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
