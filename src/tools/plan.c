/* plan.c — see plan.h. */
#include "src/tools/plan.h"
#include "src/tools/plan_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/model/load_balance.h"
#include "core/model/row_split.h"
#include "src/host/memory_limits.h"
#include "src/host/resources.h"
#include "src/train/check_outputs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_bytes(FILE *out, const char *what, double bytes)
{
  char text[32];
  fprintf(out, "  %-34s %12s\n", what, tt_memory_text(bytes, text));
}

/* Members of an ensemble in the cohorts of all its networks. */
static int64_t ensemble_members(const tt_cohorts *all, const char *name)
{
  int64_t members = 0;
  for (int64_t i = 0; i < all->count; i++)
    for (int64_t e = 0; e < all->at[i]->ensembles; e++)
      if (!strcmp(all->at[i]->ensemble[e].name, name)) members += all->at[i]->ensemble[e].members;
  return members;
}

static void print_network(const tt_job_plan *p, const tt_cohort *c)
{
  const tt_model *m = &c->model;
  char widths[TT_MODEL_WIDTHS_TEXT];
  fprintf(p->out, "network    %s%s%s, %s, %" PRId64 " parameters\n", c->label,
          *c->label ? ": " : "", tt_model_widths(m, widths),
          tt_choice_activation[tt_model_activation(m)], tt_model_trained_params(m));
  tt_plan_front_print(&m->front, p->out);
  int groups = p->cfg->top_by.count > 0;
  if (groups)
    fprintf(p->out, "groups     %" PRId64 " ensembles, of which the first is\n", c->ensembles);
  for (int64_t e = 0; e < (groups ? 1 : c->ensembles); e++) {
    const tt_ensemble *src = &c->ensemble[e];
    int64_t all = ensemble_members(&p->all, src->name);
    fprintf(p->out, "ensemble   %s: %" PRId64, src->name, src->members);
    if (all > src->members) fprintf(p->out, " of %" PRId64, all);
    fprintf(p->out, " member%s, target%s", tt_plural(all), tt_plural(src->targets));
    for (int64_t k = 0; k < src->targets; k++)
      fprintf(p->out, "%s %s", k ? "," : "", p->shape.target.name[src->column[k]]);
    fprintf(p->out, "\n");
  }
}

/* From which memory the GPUs of a team send. */
static void print_exchange(const tt_job_plan *p)
{
  static const char *const where[] = {
      [TT_EXCHANGE_auto] = "GPU memory where the MPI library says that it takes it (tutti doctor), "
                           "else host memory",
      [TT_EXCHANGE_host] = "host memory",
      [TT_EXCHANGE_device] = "GPU memory, as run.exchange says",
      [TT_EXCHANGE_nccl] = "GPU memory, by NCCL"};
  tt_exchange exchange = tt_plan_exchange(p);
  int cannot = exchange == TT_EXCHANGE_host && p->cfg->run_exchange == TT_EXCHANGE_auto;
  if (!strcmp(p->ops->name, "cpu")) return;
  fprintf(p->out, "exchange   %s from %s%s\n",
          p->cfg->run_stages > 1 ? "gradients, weights and activations" : "gradients and weights",
          where[exchange], cannot ? ": the MPI library of this tutti takes no GPU memory" : "");
}

static tt_err print_teams(const tt_job_plan *p, int ranks, int teams)
{
  int64_t first, last;
  int least = ranks / teams, most = (ranks + teams - 1) / teams;
  TT_TRY(tt_plan_rank_members(p, ranks, 0, &first));
  TT_TRY(tt_plan_rank_members(p, ranks, ranks - 1, &last));
  fprintf(p->out, "ranks      %d: %d team%s of %d", ranks, teams, tt_plural(teams), least);
  if (most > least) fprintf(p->out, " or %d", most);
  fprintf(p->out, " ranks, %" PRId64 " member%s in %s", first, tt_plural(first),
          teams == 1 ? "it\n" : "the first");
  if (teams > 1) fprintf(p->out, ", %" PRId64 " in the last\n", last);
  tt_plan_print_team(p->out, &p->all, most, (int)p->cfg->run_stages);
  print_exchange(p);
  return TT_OK;
}

static tt_err print_ranks(const tt_job_plan *p, int ranks)
{
  int64_t first, last;
  int teams = tt_plan_teams(p, ranks);
  if (teams < ranks) return print_teams(p, ranks, teams);
  TT_TRY(tt_plan_rank_members(p, ranks, 0, &first));
  TT_TRY(tt_plan_rank_members(p, ranks, ranks - 1, &last));
  if (ranks == 1)
    fprintf(p->out, "ranks      1: trains all %" PRId64 " member%s\n", first, tt_plural(first));
  else
    fprintf(p->out, "ranks      %d: %" PRId64 " member%s on rank 0, %" PRId64 " on rank %d\n",
            ranks, first, tt_plural(first), last, ranks - 1);
  if (ranks > 1 && last == 0) tt_plan_print_choice(p->out, &p->all, ranks);
  return TT_OK;
}

static tt_err print_memory(const tt_job_plan *p, int ranks)
{
  tt_memory_plan need;
  tt_memory_limit limit[TT_MEMORY_LIMITS];
  char text[32];
  TT_TRY(tt_plan_memory(p, ranks, &need));
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
  if (p->cfg->run_memory > 0.0 && need.peak > p->cfg->run_memory)
    tt_log_root(TT_LOG_WARN,
                "a rank needs more than run.memory: use more ranks, fewer members or a smaller "
                "train.batch_size");
  else if (need.peak > least->bytes)
    tt_log_root(TT_LOG_WARN,
                "a rank needs more memory than is left here: %s of %s; use more ranks on more "
                "nodes, or fewer members",
                tt_memory_text(least->bytes, text), least->name);
  return TT_OK;
}

/* Print the ranks that train the members of a cohort, as "0-2" or "1". */
static tt_err print_cohort_ranks(const tt_job_plan *p, int64_t number, int ranks)
{
  int64_t members = p->all.at[number]->members;
  int first = -1, last = -1;
  tt_slice own;
  for (int r = 0; r < ranks; r++) {
    TT_TRY(tt_plan_slice(p, number, ranks, r, &own));
    if (own.count == 0) continue;
    if (first < 0) first = r;
    last = r;
  }
  fprintf(p->out, "cohort     %" PRId64 ": %" PRId64 " member%s on rank%s %d", number, members,
          tt_plural(members), last > first ? "s" : "", first);
  if (last > first) fprintf(p->out, "-%d", last);
  fprintf(p->out, "\n");
  return TT_OK;
}

/* Networks, ensembles and CUDA paths of each cohort; the ranks too, if there are several cohorts.
 */
static tt_err print_cohorts(const tt_job_plan *p, int gpu, int ranks)
{
  tt_slice own;
  for (int64_t i = 0; i < p->all.count; i++) {
    if (p->all.count > 1) TT_TRY(print_cohort_ranks(p, i, ranks));
    print_network(p, p->all.at[i]);
    if (!gpu) continue;
    TT_TRY(tt_plan_slice(p, i, ranks, 0, &own));
    tt_plan_print_gpu_local(p, p->all.at[i], ranks, own);
  }
  return TT_OK;
}

static tt_err print_engine(tt_job_plan *p, int *gpu)
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
static void print_files_and_compute(const tt_job_plan *p)
{
  double members = 0.0, epoch = 0.0, all = 0.0;
  int64_t longest = 0;
  char name[64];
  for (int64_t i = 0; i < p->all.count; i++) {
    const tt_cohort *c = p->all.at[i];
    double g = (double)c->members, flops = tt_model_flops(&c->model, tt_plan_training_rows(p));
    members += tt_plan_final_members(c);
    epoch += g * flops;
    all += g * flops * (double)c->max_epochs;
    longest = c->max_epochs > longest ? c->max_epochs : longest;
  }
  fprintf(p->out, "files in %s\n", p->cfg->campaign ? "each round" : p->cfg->run_directory);
  print_bytes(p->out, "model.h5", tt_plan_model_bytes(p));
  print_bytes(p->out, "results.h5", members * 8.0 * (double)longest);
  snprintf(name, sizeof name, "checkpoints (%" PRId64 " kept, 1 in progress)",
           p->cfg->checkpoint_keep);
  print_bytes(p->out, name, tt_plan_checkpoint_bytes(p) * (double)(p->cfg->checkpoint_keep + 1));
  fprintf(p->out, "compute    %.3g GFLOP per epoch of all members, at most %.3g in total\n",
          1e-9 * epoch, 1e-9 * all);
}

static void print_time(const tt_job_plan *p)
{
  char text[32];
  const tt_time_estimate *t = p->time;
  if (!t) return;
  fprintf(
      p->out,
      "time       %s on this machine%s: reading %.3g s, training %.3g s, scores and files %.3g s\n"
      "           training: all epochs of members that have not stopped while this was measured\n",
      tt_duration_text(t->reading + t->training + t->outputs, text),
      p->cfg->campaign ? ", the first training" : "", t->reading, t->training, t->outputs);
}

static tt_err print_all(tt_job_plan *p, int ranks)
{
  int gpu = 0;
  char text[TT_REPEATED_TEXT], names[240];
  fprintf(p->out, "data       %s: %" PRId64 " row%s, %" PRId64 " input%s, %" PRId64 " target%s\n",
          p->cfg->data_file, p->file_rows, tt_plural(p->file_rows), p->shape.inputs,
          tt_plural(p->shape.inputs), p->shape.targets, tt_plural(p->shape.targets));
  fprintf(p->out, "inputs     %s\n", tt_columns_list(&p->shape.input, names, sizeof names));
  if (p->shape.input.id) fprintf(p->out, "ids        %s\n", p->shape.input.id);
  fprintf(p->out,
          "split      %" PRId64 " rows for training, %" PRId64 " for validation, %" PRId64
          " for test\n",
          p->rows.part[TT_TRAIN], p->rows.part[TT_VALIDATION], p->rows.part[TT_TEST]);
  if (p->rows.repeated)
    fprintf(p->out, "           %s\n",
            tt_repeated_rows_text(p->rows.repeated, p->rows.seen, "\n           ", text));
  TT_TRY(print_engine(p, &gpu));
  TT_TRY(print_cohorts(p, gpu, ranks));
  TT_TRY(print_ranks(p, ranks));
  TT_TRY(print_memory(p, ranks));
  print_files_and_compute(p);
  print_time(p);
  return p->cfg->campaign ? tt_plan_campaign_print_local(p) : TT_OK;
}

/* Read the shapes from the headers of the data file; the labels too, if classes must be counted. */
static tt_err read_shapes(tt_job_plan *p)
{
  const tt_config *cfg = p->cfg;
  tt_dataset *labels = NULL;
  TT_TRY(tt_data_job_shape_local(cfg, &p->shape));
  const tt_dataset unread = {.rows = p->shape.rows};
  tt_err e = tt_plan_read_labels_local(cfg, &p->shape, &labels);
  if (!e)
    e = tt_cohorts_create(cfg, p->shape.net_inputs, &p->shape.target, labels ? labels : &unread,
                          &p->all);
  p->file_rows = p->shape.rows;
  if (!e && labels) p->shape.rows = labels->rows;
  tt_dataset_destroy(&labels);
  return e ? e : tt_check_outputs_local(&p->all, cfg->data_targets_pca, &p->shape);
}

static void free_plan(tt_job_plan *p)
{
  tt_cohorts_destroy(&p->all);
  tt_data_shape_free(&p->shape);
}

tt_err tt_plan_path_local(const tt_config *cfg, int ranks, const tt_device_info *gpu,
                          tt_gpu_path_check check, char *text, int64_t capacity)
{
  tt_job_plan p = {.cfg = cfg};
  tt_path_choice choice;
  const tt_path_context context = {.shared_bytes = gpu->shared_bytes,
                                   .capability = gpu->capability,
                                   .multiprocessors = gpu->multiprocessors,
                                   .check = check};
  int64_t used = 0;
  tt_err e = read_shapes(&p);
  text[0] = '\0';
  for (int64_t i = 0; !e && i < p.all.count && used < capacity; i++) {
    e = tt_plan_choose_path_local(cfg, p.all.at[i], context, ranks, &choice);
    if (!e)
      used += snprintf(text + used, (size_t)(capacity - used), "%s%s: %s", i ? "; " : "",
                       tt_choice_gpu_kernel[choice.path], choice.why);
  }
  free_plan(&p);
  return e;
}

tt_err tt_plan_print_local(const tt_job_options *o, int ranks, int json, int measure, FILE *out)
{
  tt_config *cfg = NULL;
  char advice[1024];
  if (ranks < 1) return TT_FAIL(USAGE, "--ranks: %d; give at least 1", ranks);
  TT_TRY(o->text
             ? tt_config_parse(o->file, o->text, (int64_t)strlen(o->text), o->set, o->nset, &cfg)
             : tt_config_load(o->file, o->set, o->nset, &cfg));
  tt_job_plan p = {.cfg = cfg, .out = out};
  tt_time_estimate time = {0};
  if (*tt_config_mean_advice(cfg, advice, sizeof advice)) tt_log_root(TT_LOG_WARN, "%s", advice);
  tt_err e = tt_data_check_local(cfg, &p.rows);
  if (!e) e = read_shapes(&p);
  if (!e && measure) e = tt_plan_measure(o, cfg, ranks, &time);
  if (measure) p.time = &time;
  if (!e) e = json ? tt_plan_print_json(&p, ranks) : print_all(&p, ranks);
  free_plan(&p);
  tt_config_destroy(&cfg);
  return e;
}
