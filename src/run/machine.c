/* machine.c — see machine.h. */
#include "run/machine.h"

#include "base/mem.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

int tt_machine_cores_local(void)
{
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  int cores = CPU_COUNT(&set);
  return cores < 1 ? 1 : cores;
}

/* Ranks of this host that are bound to the same cores as this one, itself included. */
static tt_err sharers(tt_comm *c, int *out)
{
  struct {
    char host[256];
    cpu_set_t set;
  } place;
  memset(&place, 0, sizeof place);
  gethostname(place.host, sizeof place.host - 1);
  sched_getaffinity(0, sizeof place.set, &place.set);
  uint64_t mine = XXH3_64bits(&place, sizeof place), *all = NULL;
  tt_err e = tt_agree(c, TT_ALLOC(all, tt_comm_ranks(c)));
  if (!e) {
    tt_allgather(c, &mine, sizeof mine, all, NULL);
    *out = 0;
    for (int r = 0; r < tt_comm_ranks(c); r++)
      *out += all[r] == mine;
  }
  tt_free(all);
  return e;
}

tt_err tt_machine_engine_local(tt_device device, const tt_engine_ops **ops)
{
  for (int i = 0; tt_engines[i]; i++) {
    int is_cpu = !strcmp(tt_engines[i]->name, "cpu");
    if (device == TT_DEVICE_auto || (device == TT_DEVICE_cpu) == is_cpu) {
      *ops = tt_engines[i];
      return TT_OK;
    }
  }
  return TT_FAIL(UNAVAILABLE, "run.device: gpu, but this tutti was built without a GPU engine; use "
                              "device: auto or cpu");
}

static tt_err choose(tt_comm *c, tt_device device, tt_simd simd, int64_t threads,
                     const tt_engine_ops **ops, tt_resources *use)
{
  int share = 1;
  tt_err e = tt_agree(c, tt_machine_engine_local(device, ops));
  if (!e) e = sharers(c, &share);
  if (e) return e;
  int cores = tt_machine_cores_local() / share;
  *use = (tt_resources){.threads = threads > 0 ? (int)threads
                                   : cores < 1 ? 1
                                               : cores,
                        .simd = simd,
                        .device = tt_comm_node_rank(c)};
  return TT_OK;
}

tt_err tt_machine_choose(tt_comm *c, const tt_config *cfg, const tt_engine_ops **ops,
                         tt_resources *use)
{
  return choose(c, (tt_device)cfg->run_device, (tt_simd)cfg->run_simd, cfg->run_threads, ops, use);
}

tt_err tt_machine_default(tt_comm *c, const tt_engine_ops **ops, tt_resources *use)
{
  return choose(c, TT_DEVICE_auto, TT_SIMD_auto, -1, ops, use);
}
