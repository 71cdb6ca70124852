/* plan_gpu.c — see plan_internal.h. */
#include "src/tools/plan_internal.h"

#include "core/base/text.h"
#include "src/host/memory_limits.h"

#include <inttypes.h>

/* Compute capability, largest shared memory of a block in KiB (CUDA C++ Programming Guide,
 * "Technical Specifications per Compute Capability"), number of multiprocessors. */
#define GPU(capability_, kib_, count_)                                                             \
  {                                                                                                \
    .shared_bytes = (kib_)*1024, .capability = (capability_), .multiprocessors = (count_)          \
  }
#define A40 GPU(86, 99, 84)
#define L40S GPU(89, 99, 142)
#define A100 GPU(80, 163, 108)
#define H100 GPU(90, 227, 132)
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

tt_err tt_plan_choose_path_local(const tt_config *cfg, const tt_cohort *c, tt_path_context context,
                                 int ranks, tt_path_choice *out)
{
  context.precision = (tt_precision)cfg->run_precision;
  context.members = (c->members + ranks - 1) / ranks;
  return tt_path_choose(c, &context, (tt_gpu_path)cfg->gpu_path, out);
}

static void print_memory(const tt_job_plan *p, const tt_cohort *c, int ranks, tt_slice own,
                         const tt_plan_gpu *gpu)
{
  double exchange = tt_plan_exchange_bytes(p, c, ranks), data;
  double bytes = tt_plan_device_bytes(p, c, own, ranks, gpu, &data);
  char text[32];
  fprintf(p->out, "GPU memory %s for %" PRId64 " member%s of a rank", tt_memory_text(bytes, text),
          own.count, tt_plural(own.count));
  if (exchange > 0.0) fprintf(p->out, ", %s for what it exchanges", tt_memory_text(exchange, text));
  if (data > 0.0)
    fprintf(p->out, ", and %s for the data set\n", tt_memory_text(data, text));
  else
    fprintf(p->out, "; the data set does not fit: its rows come from the host\n");
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

void tt_plan_print_gpu_local(const tt_job_plan *p, const tt_cohort *c, int ranks, tt_slice own)
{
  const tt_plan_gpu *layered = NULL;
  for (int i = 0; i < TT_PLAN_GPUS; i++) {
    const tt_plan_gpu *gpu = &tt_plan_gpus[i];
    tt_path_choice choice = {0};
    if (tt_plan_choose_path_local(p->cfg, c, gpu->on, ranks, &choice))
      fprintf(p->out, "CUDA path  none on %s: %s\n", gpu->name, tt_err_last());
    else {
      fprintf(p->out, "CUDA path  %s on %s: %s\n", tt_choice_gpu_kernel[choice.path], gpu->name,
              choice.why);
      print_use(gpu, &choice, (c->members + ranks - 1) / ranks, p->out);
    }
    if (choice.path == TT_GPU_PATH_layered) layered = gpu;
  }
  if (layered) print_memory(p, c, ranks, own, layered);
}
