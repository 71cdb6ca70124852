/* plan_gpu.c — see plan_gpu.h. */
#include "src/tools/plan_gpu.h"

#include "core/base/text.h"
#include "cuda/plan/layered_sizes.h"
#include "src/host/memory_limits.h"

#include <inttypes.h>

/* Largest shared memory of a block, compute capability (CUDA C++ Programming Guide, "Technical
 * Specifications per Compute Capability") and number of multiprocessors. */
#define A40                                                                                        \
  {                                                                                                \
    .shared_bytes = 99 * 1024, .capability = 86, .multiprocessors = 84                             \
  }
#define L40S                                                                                       \
  {                                                                                                \
    .shared_bytes = 99 * 1024, .capability = 89, .multiprocessors = 142                            \
  }
#define A100                                                                                       \
  {                                                                                                \
    .shared_bytes = 163 * 1024, .capability = 80, .multiprocessors = 108                           \
  }
#define H100                                                                                       \
  {                                                                                                \
    .shared_bytes = 227 * 1024, .capability = 90, .multiprocessors = 132                           \
  }
#define GIB 1073741824.0
const tt_plan_gpu tt_plan_gpus[TT_PLAN_GPUS] = {{"A40", A40, 44.0 * GIB},
                                                {"L40S", L40S, 44.0 * GIB},
                                                {"A100", A100, 39.0 * GIB},
                                                {"H100, H200", H100, 78.0 * GIB}};
const tt_plan_gpu tt_plan_gpu_memories[TT_PLAN_MEMORIES] = {
    {"A100 (40 GB)", A100, 39.0 * GIB},
    {"A40 or L40S (48 GB)", A40, 44.0 * GIB},
    {"A100 or H100 (80 GB)", H100, 78.0 * GIB},
    {"H200 (141 GB)", H100, 139.0 * GIB}};

tt_err tt_plan_choose_path_local(const tt_config *cfg, const tt_cohort *c, tt_path_context on,
                                 int ranks, tt_path_choice *out)
{
  on.precision = (tt_precision)cfg->run_precision;
  on.members = (c->members + ranks - 1) / ranks;
  return tt_path_choose(c, &on, (tt_gpu_path)cfg->run_gpu_path, out);
}

static void print_memory(const tt_config *cfg, const tt_data_shape *shape, const tt_cohort *c,
                         tt_slice own, double exchange, tt_precision precision, FILE *out)
{
  int weighted = *cfg->data_weights != '\0';
  int64_t errors = *cfg->data_sigma ? shape->targets : 0;
  tt_layered_sizes s = tt_layered_sizes_of(c, own, shape->rows, weighted, 0, precision);
  double members = (double)tt_layered_bytes(&s, &c->model) +
                   (double)own.count * (double)tt_device_state_bytes(c);
  double data =
      4.0 * (double)shape->rows * (double)(shape->net_inputs + shape->targets + weighted + errors);
  char text[32];
  fprintf(out, "GPU memory %s for %" PRId64 " member%s of a rank", tt_memory_text(members, text),
          own.count, tt_plural(own.count));
  if (exchange > 0.0) fprintf(out, ", %s for what it exchanges", tt_memory_text(exchange, text));
  fprintf(out, ", and %s for the data set\n", tt_memory_text(data, text));
}

/* Multiprocessors that have a block, if some have none. Up to one block on each, more members take
 * the same time. */
static void print_use(const tt_plan_gpu *gpu, const tt_path_choice *choice, int64_t members,
                      FILE *out)
{
  int64_t all = gpu->on.multiprocessors, blocks = choice->ranks ? choice->ranks : 1;
  int one_block_each = choice->path == TT_GPU_PATH_block || choice->path == TT_GPU_PATH_cluster;
  if (!one_block_each || members * blocks >= all) return;
  fprintf(out,
          "GPU use    %" PRId64 " of %" PRId64 " multiprocessors of %s (%.0f %%); %" PRId64
          " members of a rank would take the same time\n",
          members * blocks, all, gpu->name, 100.0 * (double)(members * blocks) / (double)all,
          all / blocks);
}

void tt_plan_print_gpu_local(const tt_config *cfg, const tt_data_shape *shape, const tt_cohort *c,
                             int ranks, tt_slice own, double exchange, FILE *out)
{
  int layered = 0;
  tt_precision precision = TT_PRECISION_fp32;
  for (int i = 0; i < TT_PLAN_GPUS; i++) {
    tt_path_choice choice = {0};
    if (tt_plan_choose_path_local(cfg, c, tt_plan_gpus[i].on, ranks, &choice))
      fprintf(out, "CUDA path  none on %s: %s\n", tt_plan_gpus[i].name, tt_err_last());
    else {
      fprintf(out, "CUDA path  %s on %s: %s\n", tt_choice_gpu_kernel[choice.path],
              tt_plan_gpus[i].name, choice.why);
      print_use(&tt_plan_gpus[i], &choice, (c->members + ranks - 1) / ranks, out);
    }
    if (choice.path != TT_GPU_PATH_layered) continue;
    layered = 1;
    precision = choice.precision;
  }
  if (layered) print_memory(cfg, shape, c, own, exchange, precision, out);
}
