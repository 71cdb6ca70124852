/* estimate.c — see estimate.h. */
#include "run/estimate.h"

#include "base/mem.h"
#include "cuda/path.h"
#include "io/data_io.h"
#include "run/machine.h"
#include "spec/plan.h"
#include "spec/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct estimate {
  const tt_config *cfg;
  tt_data_shape shape;
  tt_cohort *cohort;
  double state_bytes;  /* of one member, as in a checkpoint */
  double member_bytes; /* of one member in model.h5 */
  double data_bytes;   /* of the samples on a rank */
} estimate;

static void amount(double bytes, char *text, size_t room)
{
  static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int u = 0;
  for (; bytes >= 1024.0 && u < 4; u++)
    bytes /= 1024.0;
  snprintf(text, room, u ? "%.1f %s" : "%.0f %s", bytes, unit[u]);
}

static void line(const char *what, double bytes)
{
  char text[32];
  amount(bytes, text, sizeof text);
  printf("  %-34s %12s\n", what, text);
}

static tt_err measure(estimate *p)
{
  tt_state *none = NULL;
  const tt_cohort *c = p->cohort;
  TT_TRY(tt_state_create((tt_slice){0, 0}, tt_cohort_state_shape(c), &none));
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field field = tt_state_get(none, f);
    p->state_bytes += (double)(field.bytes * field.length);
  }
  tt_state_destroy(&none);
  p->member_bytes = 4.0 * (double)c->model.params + 32.0;
  p->data_bytes =
      (double)p->shape.rows * (4.0 * (double)(p->shape.inputs + p->shape.targets) + 1.0);
  return TT_OK;
}

static void print_network(const estimate *p)
{
  const tt_model *m = &p->cohort->model;
  printf("network    %" PRId64, m->inputs);
  for (int l = 0; l < m->layers; l++)
    printf("-%" PRId64, m->layer[l].out);
  printf(", %s, %" PRId64 " parameters\n", tt_choice_activation[p->cfg->model_activation],
         m->params);
  for (int64_t e = 0; e < p->cohort->ensembles; e++) {
    const tt_ensemble *from = &p->cohort->ensemble[e];
    printf("ensemble   %s: %" PRId64 " members learn", from->name, from->members);
    for (int64_t k = 0; k < from->targets; k++)
      printf("%s %s", k ? "," : "", p->shape.target.name[from->column[k]]);
    printf("\n");
  }
}

static tt_err print_ranks(const estimate *p, int ranks)
{
  tt_slice first, last;
  TT_TRY(tt_plan_slice(p->cohort->members, ranks, 0, &first));
  TT_TRY(tt_plan_slice(p->cohort->members, ranks, ranks - 1, &last));
  printf("ranks      %d: %" PRId64 " members on rank 0, %" PRId64 " on rank %d\n", ranks,
         first.count, last.count, ranks - 1);
  printf("memory per rank\n");
  line("samples", p->data_bytes);
  line("members in training", p->state_bytes * (double)first.count);
  line("members on their way to files", p->state_bytes * (double)first.count);
  line("all members at the end", p->member_bytes * (double)p->cohort->members);
  return TT_OK;
}

/* On which GPU: the most shared memory that a block can have there, its compute capability (CUDA
 * C++ Programming Guide, "Technical Specifications per Compute Capability"), its multiprocessors.
 */
static const struct {
  const char *name;
  int64_t shared_bytes;
  int capability, multiprocessors;
} gpus[] = {{"A100", 163 * 1024, 80, 108}, {"H100, H200", 227 * 1024, 90, 132}};

static tt_err choose(const estimate *p, tt_path_device on, tt_path_choice *out)
{
  on.precision = (tt_precision)p->cfg->run_precision;
  return tt_path_choose(p->cohort, &on, (tt_path)p->cfg->run_path, out);
}

static void print_paths(const estimate *p, int ranks)
{
  for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
    tt_path_choice choice;
    tt_path_device on = {.shared_bytes = gpus[i].shared_bytes,
                         .capability = gpus[i].capability,
                         .multiprocessors = gpus[i].multiprocessors,
                         .members = (p->cohort->members + ranks - 1) / ranks};
    if (choose(p, on, &choice))
      printf("path       none on %s: %s\n", gpus[i].name, tt_err_last());
    else
      printf("path       %s on %s: %s\n", tt_choice_path[choice.path], gpus[i].name, choice.why);
  }
}

static tt_err print_engine(const estimate *p, int ranks)
{
  const tt_engine_ops *ops;
  TT_TRY(tt_machine_engine_local((tt_device)p->cfg->run_device, &ops));
  int gpu = strcmp(ops->name, "cpu") != 0, fp32 = p->cfg->run_precision == TT_PRECISION_fp32;
  int either = gpu && fp32 && p->cfg->run_device == TT_DEVICE_auto;
  printf("engine     %s%s\n", ops->name, either ? ", or cpu where no GPU is found" : "");
  if (!fp32)
    printf("precision  %s%s\n", tt_choice_precision[p->cfg->run_precision],
           gpu ? "" : ": not with this tutti, which was built without CUDA");
  if (gpu) print_paths(p, ranks);
  return TT_OK;
}

static tt_err print_all(estimate *p, int ranks)
{
  TT_TRY(measure(p));
  double g = (double)p->cohort->members, epochs = (double)p->cohort->max_epochs;
  printf("data       %s: %" PRId64 " rows, %" PRId64 " inputs, %" PRId64 " targets\n",
         p->cfg->data_file, p->shape.rows, p->shape.inputs, p->shape.targets);
  print_network(p);
  TT_TRY(print_engine(p, ranks));
  TT_TRY(print_ranks(p, ranks));
  printf("files in %s\n", p->cfg->run_directory);
  line("model.h5", p->member_bytes * g);
  line("results.h5", g * 8.0 * epochs);
  char name[64];
  snprintf(name, sizeof name, "checkpoints (%" PRId64 " kept, one in work)",
           p->cfg->checkpoint_keep);
  line(name, p->state_bytes * g * (double)(p->cfg->checkpoint_keep + 1));
  double rows = p->cfg->data_split_train * (double)p->shape.rows;
  printf("work       %.3g GFLOP per epoch of all members, at most %.3g in all\n",
         1e-9 * g * tt_model_flops(&p->cohort->model, (int64_t)rows),
         1e-9 * g * epochs * tt_model_flops(&p->cohort->model, (int64_t)rows));
  return TT_OK;
}

/* What the headers of the data say. */
static tt_err look(estimate *p)
{
  const tt_config *cfg = p->cfg;
  TT_TRY(tt_data_shape_local(cfg->data_file, cfg->data_inputs, cfg->data_targets, &p->shape));
  return tt_cohort_create(cfg, p->shape.inputs, &p->shape.target, &p->cohort);
}

static void forget(estimate *p)
{
  tt_cohort_destroy(&p->cohort);
  tt_data_shape_free(&p->shape);
}

tt_err tt_estimate_path_local(const tt_config *cfg, int ranks, const tt_device_info *gpu,
                              char *text, int64_t room)
{
  estimate p = {.cfg = cfg};
  tt_path_choice choice;
  tt_path_device on = {.shared_bytes = gpu->shared_bytes,
                       .capability = gpu->capability,
                       .multiprocessors = gpu->multiprocessors};
  tt_err e = look(&p);
  if (!e) {
    on.members = (p.cohort->members + ranks - 1) / ranks;
    e = choose(&p, on, &choice);
  }
  if (!e) snprintf(text, (size_t)room, "%s: %s", tt_choice_path[choice.path], choice.why);
  forget(&p);
  return e;
}

tt_err tt_estimate_print_local(const tt_job_options *o, int ranks)
{
  estimate p = {0};
  char *text = NULL;
  int64_t bytes = 0;
  tt_config *cfg = NULL;
  if (ranks < 1) return TT_FAIL(USAGE, "--ranks: %d is not a number of ranks", ranks);
  tt_err e = tt_config_read_file_local(o->file, &text, &bytes);
  if (!e) e = tt_config_parse(o->file, text, bytes, o->set, o->nset, &cfg);
  p.cfg = cfg;
  if (!e) e = look(&p);
  if (!e) e = print_all(&p, ranks);
  forget(&p);
  tt_config_destroy(&cfg);
  tt_free(text);
  return e;
}
