/* plan.c — see plan.h. */
#include "src/tools/plan.h"

#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/model/load_balance.h"
#include "core/model/parts.h"
#include "core/model/state.h"
#include "cuda/plan/path.h"
#include "io/data/data.h"
#include "src/host/memory_limits.h"
#include "src/host/resources.h"
#include "src/tools/plan_campaign.h"
#include "src/tools/plan_data.h"
#include "src/tools/plan_front.h"
#include "src/tools/plan_teams.h"
#include "src/train/memory_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct job_plan {
  const tt_config *cfg;
  tt_data_shape shape;
  int64_t part[TT_SPLITS]; /* rows for training, validation, test */
  tt_cohorts all;
  const tt_engine_ops *ops;
  FILE *out;
} job_plan;

static void print_bytes(FILE *out, const char *what, double bytes)
{
  char text[32];
  fprintf(out, "  %-34s %12s\n", what, tt_memory_text(bytes, text));
}

/* Size of the state of one member in a checkpoint. */
static double state_bytes(const tt_cohort *c)
{
  return (double)tt_state_member_bytes(tt_cohort_state_shape(c));
}

/* Members in model.h5: with method: snapshot, every snapshot is a member. */
static double final_members(const tt_cohort *c)
{
  return (double)c->members * (double)(c->snapshots > 0 ? c->snapshots : 1);
}

/* Size of a cohort in model.h5. */
static double model_bytes(const tt_cohort *c)
{
  return final_members(c) * (4.0 * (double)c->model.params + 32.0);
}

static int64_t training_rows(const job_plan *p)
{
  return (int64_t)(p->cfg->data_split_train * (double)p->shape.rows);
}

static void print_network(const job_plan *p, const tt_cohort *c)
{
  const tt_model *m = &c->model;
  tt_activation first = tt_model_activation(m);
  fprintf(p->out, "network    %" PRId64, m->inputs);
  if (m->front.layers) fprintf(p->out, "-front-%" PRId64, m->front.features);
  for (int l = 0; l < m->layers; l++) fprintf(p->out, "-%" PRId64, m->layer[l].out);
  fprintf(p->out, ", %s, %" PRId64 " parameters\n", tt_choice_activation[first], m->params);
  tt_plan_front_print(&m->front, p->out);
  for (int64_t e = 0; e < c->ensembles; e++) {
    const tt_ensemble *from = &c->ensemble[e];
    fprintf(p->out, "ensemble   %s: %" PRId64 " member%s, target%s", from->name, from->members,
            tt_plural(from->members), tt_plural(from->targets));
    for (int64_t k = 0; k < from->targets; k++)
      fprintf(p->out, "%s %s", k ? "," : "", p->shape.target.name[from->column[k]]);
    fprintf(p->out, "\n");
  }
}

static int team_count(const job_plan *p, int ranks)
{
  return tt_load_balance_teams(&p->all, p->cfg->run_ranks_per_member, p->cfg->run_stages, ranks);
}

/* Number of members on a rank, or of a team. */
static tt_err rank_members(const job_plan *p, int ranks, int rank, int64_t *members)
{
  tt_slice *slice = NULL;
  TT_TRY(TT_ALLOC(slice, p->all.count));
  tt_err e = tt_load_balance(&p->all, training_rows(p), ranks, rank, slice);
  *members = 0;
  for (int64_t i = 0; !e && i < p->all.count; i++) *members += slice[i].count;
  tt_free(slice);
  return e;
}

static tt_err print_teams(const job_plan *p, int ranks, int teams)
{
  int64_t first, last;
  int least = ranks / teams, most = (ranks + teams - 1) / teams;
  TT_TRY(rank_members(p, teams, 0, &first));
  TT_TRY(rank_members(p, teams, teams - 1, &last));
  fprintf(p->out, "ranks      %d: %d team%s of %d", ranks, teams, tt_plural(teams), least);
  if (most > least) fprintf(p->out, " or %d", most);
  fprintf(p->out, " ranks, %" PRId64 " member%s in the first, %" PRId64 " in the last\n", first,
          tt_plural(first), last);
  tt_plan_print_team(p->out, &p->all, most, p->cfg->run_stages > 1);
  return TT_OK;
}

static tt_err print_ranks(const job_plan *p, int ranks)
{
  int64_t first, last;
  if (team_count(p, ranks) < ranks) return print_teams(p, ranks, team_count(p, ranks));
  TT_TRY(rank_members(p, ranks, 0, &first));
  TT_TRY(rank_members(p, ranks, ranks - 1, &last));
  if (ranks == 1)
    fprintf(p->out, "ranks      1: trains all %" PRId64 " member%s\n", first, tt_plural(first));
  else
    fprintf(p->out, "ranks      %d: %" PRId64 " member%s on rank 0, %" PRId64 " on rank %d\n",
            ranks, first, tt_plural(first), last, ranks - 1);
  if (ranks > 1 && last == 0) tt_plan_print_choice(p->out, &p->all, ranks);
  return TT_OK;
}

/* The plan of the rank that needs most. */
static tt_err plan_memory(const job_plan *p, int ranks, tt_memory_plan *most)
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

static tt_err print_memory(const job_plan *p, int ranks)
{
  tt_memory_plan need;
  tt_memory_limit limit[TT_MEMORY_LIMITS];
  char text[32];
  TT_TRY(plan_memory(p, ranks, &need));
  fprintf(p->out, "memory per rank\n");
  print_bytes(p->out, "program and libraries", need.program);
  print_bytes(p->out, "data set", need.data);
  print_bytes(p->out, "copies while the data set is read", need.reading);
  print_bytes(p->out, "training state of the members", need.members);
  print_bytes(p->out, "write buffers", need.files);
  print_bytes(p->out, "model and scores, at the end", need.outputs);
  print_bytes(p->out, "peak", need.peak);
  tt_memory_limits_local("", limit);
  const tt_memory_limit *least = tt_memory_least_local(limit);
  if (need.peak > least->bytes)
    tt_log_root(TT_LOG_WARN,
                "a rank needs more memory than is left here: %s of %s; use more ranks on more "
                "nodes, or fewer members",
                tt_memory_text(least->bytes, text), least->name);
  return TT_OK;
}

/* GPUs of the plan: largest shared memory of a block, compute capability (CUDA C++ Programming
 * Guide, "Technical Specifications per Compute Capability") and number of multiprocessors. */
static const struct {
  const char *name;
  tt_path_context on;
} gpus[] = {{"A100", {.shared_bytes = 163 * 1024, .capability = 80, .multiprocessors = 108}},
            {"H100, H200", {.shared_bytes = 227 * 1024, .capability = 90, .multiprocessors = 132}}};

static tt_err choose_path(const job_plan *p, const tt_cohort *c, tt_path_context on, int ranks,
                          tt_path_choice *out)
{
  on.precision = (tt_precision)p->cfg->run_precision;
  on.members = (c->members + ranks - 1) / ranks;
  return tt_path_choose(c, &on, (tt_gpu_path)p->cfg->run_gpu_path, out);
}

static void print_paths(const job_plan *p, const tt_cohort *c, int ranks)
{
  for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
    tt_path_choice choice;
    if (choose_path(p, c, gpus[i].on, ranks, &choice))
      fprintf(p->out, "CUDA path  none on %s: %s\n", gpus[i].name, tt_err_last());
    else
      fprintf(p->out, "CUDA path  %s on %s: %s\n", tt_choice_gpu_kernel[choice.path], gpus[i].name,
              choice.why);
  }
}

/* Print the ranks that train the members of a cohort, as "0-2" or "1". */
static tt_err print_cohort_ranks(const job_plan *p, int64_t number, int ranks)
{
  tt_slice *slice = NULL;
  int first = -1, last = -1;
  TT_TRY(TT_ALLOC(slice, p->all.count));
  tt_err e = TT_OK;
  for (int r = 0, teams = team_count(p, ranks); !e && r < ranks; r++) {
    int team = tt_load_balance_place(ranks, teams, r).team;
    e = tt_load_balance(&p->all, training_rows(p), teams, team, slice);
    if (e || slice[number].count == 0) continue;
    if (first < 0) first = r;
    last = r;
  }
  if (!e)
    fprintf(p->out, "cohort     %" PRId64 ": %" PRId64 " member%s on rank%s %d", number,
            p->all.at[number]->members, tt_plural(p->all.at[number]->members),
            last > first ? "s" : "", first);
  if (!e && last > first) fprintf(p->out, "-%d", last);
  if (!e) fprintf(p->out, "\n");
  tt_free(slice);
  return e;
}

/* Networks, ensembles and CUDA paths of each cohort; the ranks too, if there are several cohorts.
 */
static tt_err print_cohorts(const job_plan *p, int gpu, int ranks)
{
  for (int64_t i = 0; i < p->all.count; i++) {
    if (p->all.count > 1) TT_TRY(print_cohort_ranks(p, i, ranks));
    print_network(p, p->all.at[i]);
    if (gpu) print_paths(p, p->all.at[i], ranks);
  }
  return TT_OK;
}

static tt_err print_engine(job_plan *p, int *gpu)
{
  TT_TRY(tt_resources_engine_local(tt_resources_request(p->cfg).device, &p->ops));
  int fp32 = p->cfg->run_precision == TT_PRECISION_fp32;
  *gpu = strcmp(p->ops->name, "cpu") != 0;
  int either = *gpu && fp32 && p->cfg->run_device == TT_DEVICE_auto;
  fprintf(p->out, "engine     %s%s\n", p->ops->name, either ? ", or cpu if no GPU is found" : "");
  if (!fp32)
    fprintf(p->out, "precision  %s%s\n", tt_choice_precision[p->cfg->run_precision],
            *gpu ? "" : ": not available, this tutti is built without CUDA");
  return TT_OK;
}

/* Sizes of the files, and floating-point operations. */
static void print_files_and_compute(const job_plan *p)
{
  double model = 0.0, members = 0.0, state = 0.0, epoch = 0.0, all = 0.0;
  int64_t longest = 0;
  char name[64];
  for (int64_t i = 0; i < p->all.count; i++) {
    const tt_cohort *c = p->all.at[i];
    double g = (double)c->members, flops = tt_model_flops(&c->model, training_rows(p));
    model += model_bytes(c);
    members += final_members(c);
    state += g * state_bytes(c);
    epoch += g * flops;
    all += g * flops * (double)c->max_epochs;
    longest = c->max_epochs > longest ? c->max_epochs : longest;
  }
  fprintf(p->out, "files in %s\n", p->cfg->run_directory);
  print_bytes(p->out, "model.h5", model);
  print_bytes(p->out, "results.h5", members * 8.0 * (double)longest);
  snprintf(name, sizeof name, "checkpoints (%" PRId64 " kept, 1 in progress)",
           p->cfg->checkpoint_keep);
  print_bytes(p->out, name, state * (double)(p->cfg->checkpoint_keep + 1));
  fprintf(p->out, "compute    %.3g GFLOP per epoch of all members, at most %.3g in total\n",
          1e-9 * epoch, 1e-9 * all);
}

static tt_err print_all(job_plan *p, int ranks)
{
  int gpu = 0;
  fprintf(p->out, "data       %s: %" PRId64 " row%s, %" PRId64 " input%s, %" PRId64 " target%s\n",
          p->cfg->data_file, p->shape.rows, tt_plural(p->shape.rows), p->shape.inputs,
          tt_plural(p->shape.inputs), p->shape.targets, tt_plural(p->shape.targets));
  fprintf(p->out,
          "split      %" PRId64 " rows for training, %" PRId64 " for validation, %" PRId64
          " for test\n",
          p->part[TT_TRAIN], p->part[TT_VALIDATION], p->part[TT_TEST]);
  TT_TRY(print_engine(p, &gpu));
  TT_TRY(print_cohorts(p, gpu, ranks));
  TT_TRY(print_ranks(p, ranks));
  TT_TRY(print_memory(p, ranks));
  print_files_and_compute(p);
  return p->cfg->campaign ? tt_plan_campaign_print_local(p->cfg, &p->shape, &p->all, p->out)
                          : TT_OK;
}

/* JSON */

static json_t *ensemble_to_json(const job_plan *p, const tt_ensemble *from)
{
  json_t *row = json_object(), *targets = json_array();
  for (int64_t k = 0; k < from->targets; k++)
    json_array_append_new(targets, tt_json_text(p->shape.target.name[from->column[k]]));
  tt_json_set(&row, "name", tt_json_text(from->name));
  tt_json_set(&row, "members", json_integer(from->members));
  tt_json_set(&row, "targets", targets);
  return row;
}

static json_t *cohort_to_json(const job_plan *p, const tt_cohort *c)
{
  json_t *row = json_object(), *layers = json_array(), *ensembles = json_array();
  for (int l = 0; l < c->model.layers; l++)
    json_array_append_new(layers, json_integer(c->model.layer[l].out));
  for (int64_t e = 0; e < c->ensembles; e++)
    json_array_append_new(ensembles, ensemble_to_json(p, &c->ensemble[e]));
  tt_json_set(&row, "members", json_integer(c->members));
  tt_json_set(&row, "inputs", json_integer(c->model.inputs));
  if (c->model.front.layers) tt_json_set(&row, "front", tt_plan_front_to_json(&c->model.front));
  tt_json_set(&row, "layers", layers);
  tt_json_set(&row, "parameters", json_integer(c->model.params));
  tt_json_set(&row, "epochs", json_integer(c->max_epochs));
  tt_json_set(
      &row, "gflop_per_epoch",
      tt_json_number(1e-9 * (double)c->members * tt_model_flops(&c->model, training_rows(p))));
  tt_json_set(&row, "ensembles", ensembles);
  return row;
}

static json_t *memory_to_json(const tt_memory_plan *need)
{
  json_t *row = json_object();
  const struct {
    const char *name;
    double bytes;
  } part[] = {{"program", need->program}, {"data", need->data},   {"reading", need->reading},
              {"members", need->members}, {"files", need->files}, {"outputs", need->outputs},
              {"peak", need->peak}};
  for (size_t i = 0; i < sizeof part / sizeof *part; i++)
    tt_json_set(&row, part[i].name, tt_json_number(part[i].bytes));
  return row;
}

static json_t *data_to_json(const job_plan *p)
{
  json_t *row = json_object();
  tt_json_set(&row, "file", tt_json_text(p->cfg->data_file));
  tt_json_set(&row, "rows", json_integer(p->shape.rows));
  tt_json_set(&row, "inputs", json_integer(p->shape.inputs));
  tt_json_set(&row, "targets", json_integer(p->shape.targets));
  tt_json_set(&row, "training_rows", json_integer(p->part[TT_TRAIN]));
  tt_json_set(&row, "validation_rows", json_integer(p->part[TT_VALIDATION]));
  tt_json_set(&row, "test_rows", json_integer(p->part[TT_TEST]));
  return row;
}

static tt_err print_json(job_plan *p, int ranks)
{
  tt_memory_plan need;
  double model = 0.0;
  TT_TRY(tt_resources_engine_local(tt_resources_request(p->cfg).device, &p->ops));
  TT_TRY(plan_memory(p, ranks, &need));
  json_t *all = json_object(), *cohorts = json_array(), *of_rank = json_array();
  tt_err e = TT_OK;
  for (int64_t i = 0; i < p->all.count; i++) {
    json_array_append_new(cohorts, cohort_to_json(p, p->all.at[i]));
    model += model_bytes(p->all.at[i]);
  }
  for (int r = 0; !e && r < ranks; r++) {
    int64_t members = 0;
    e = rank_members(p, ranks, r, &members);
    json_array_append_new(of_rank, json_integer(members));
  }
  tt_json_set(&all, "data", data_to_json(p));
  tt_json_set(&all, "engine", tt_json_text(p->ops->name));
  tt_json_set(&all, "members", json_integer(tt_cohorts_members(&p->all)));
  tt_json_set(&all, "cohorts", cohorts);
  tt_json_set(&all, "ranks", json_integer(ranks));
  tt_json_set(&all, "members_of_rank", of_rank);
  tt_json_set(&all, "memory_of_rank", memory_to_json(&need));
  tt_json_set(&all, "directory", tt_json_text(p->cfg->run_directory));
  tt_json_set(&all, "model_bytes", tt_json_number(model));
  if (!e) return tt_json_print(all, 2);
  json_decref(all);
  return e;
}

/* Read the shapes from the headers of the data file; the labels too, if classes must be counted. */
static tt_err read_shapes(job_plan *p)
{
  const tt_config *cfg = p->cfg;
  tt_dataset *labels = NULL;
  TT_TRY(tt_data_job_shape_local(cfg, &p->shape));
  tt_err e = tt_plan_read_labels_local(cfg, &p->shape, &labels);
  if (!e) e = tt_cohorts_create(cfg, p->shape.inputs, &p->shape.target, labels, &p->all);
  tt_dataset_destroy(&labels);
  return e;
}

static void free_plan(job_plan *p)
{
  tt_cohorts_destroy(&p->all);
  tt_data_shape_free(&p->shape);
}

tt_err tt_plan_path_local(const tt_config *cfg, int ranks, const tt_device_info *gpu, char *text,
                          int64_t room)
{
  job_plan p = {.cfg = cfg};
  tt_path_choice choice;
  const tt_path_context on = {.shared_bytes = gpu->shared_bytes,
                              .capability = gpu->capability,
                              .multiprocessors = gpu->multiprocessors};
  int64_t used = 0;
  tt_err e = read_shapes(&p);
  text[0] = '\0';
  for (int64_t i = 0; !e && i < p.all.count && used < room; i++) {
    e = choose_path(&p, p.all.at[i], on, ranks, &choice);
    if (!e)
      used += snprintf(text + used, (size_t)(room - used), "%s%s: %s", i ? "; " : "",
                       tt_choice_gpu_kernel[choice.path], choice.why);
  }
  free_plan(&p);
  return e;
}

tt_err tt_plan_print_local(const tt_job_options *o, int ranks, int json, FILE *out)
{
  tt_config *cfg = NULL;
  if (ranks < 1) return TT_FAIL(USAGE, "--ranks: %d; give at least 1", ranks);
  TT_TRY(tt_config_load(o->file, o->set, o->nset, &cfg));
  job_plan p = {.cfg = cfg, .out = out};
  tt_err e = read_shapes(&p);
  if (!e) e = tt_data_split_count_local(cfg, p.part);
  if (!e) e = json ? print_json(&p, ranks) : print_all(&p, ranks);
  free_plan(&p);
  tt_config_destroy(&cfg);
  return e;
}
