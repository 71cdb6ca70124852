/* resources.c — see resources.h. */
#include "src/host/resources.h"

#include "core/base/log.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* A rank while it looks around. */
typedef struct look {
  tt_place place;
  tt_device_info *device; /* [place.devices], or of the cpu [1] */
  const tt_engine_ops *ops;
} look;

int tt_machine_cores_local(void)
{
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  int cores = CPU_COUNT(&set);
  return cores < 1 ? 1 : cores;
}

tt_wish tt_machine_wish(const tt_config *cfg)
{
  if (!cfg) return (tt_wish){.threads = -1, .share_gpu = 1};
  return (tt_wish){.device = (tt_device)cfg->run_device,
                   .simd = (tt_simd)cfg->run_simd,
                   .path = (tt_path)cfg->run_path,
                   .precision = (tt_precision)cfg->run_precision,
                   .threads = cfg->run_threads,
                   .gpu_map = cfg->run_gpu_map,
                   .share_gpu = cfg->run_share_gpu};
}

static int is_cpu(const tt_engine_ops *ops) { return !strcmp(ops->name, "cpu"); }

static int is_wanted(tt_device device, const tt_engine_ops *ops)
{
  return device == TT_DEVICE_auto || (device == TT_DEVICE_cpu) == is_cpu(ops);
}

static tt_err built_without(void)
{
  return TT_FAIL(UNAVAILABLE, "run.device: gpu, but this tutti was built without CUDA: build it "
                              "where nvcc is found, or set run.device: auto or cpu");
}

tt_err tt_machine_engine_local(tt_device device, const tt_engine_ops **ops)
{
  for (int i = 0; tt_engines[i]; i++)
    if (is_wanted(device, tt_engines[i])) {
      *ops = tt_engines[i];
      return TT_OK;
    }
  return built_without();
}

static tt_err no_gpu(void)
{
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  return TT_FAIL(UNAVAILABLE,
                 "run.device: gpu, but no GPU is seen: check nvidia-smi, the job's --gpus or "
                 "--gpus-per-task, and CUDA_VISIBLE_DEVICES (%s%s), or set run.device: cpu",
                 visible ? "now " : "not set", visible ? *visible ? visible : "empty" : "");
}

/* The first engine of the wish that has a device, and how many. */
static tt_err find_engine(const tt_engine_ops *const *engines, tt_device device, look *l, int *n)
{
  for (int i = 0; engines[i]; i++) {
    if (!is_wanted(device, engines[i])) continue;
    TT_TRY(engines[i]->count(n));
    if (*n > 0) {
      l->ops = engines[i];
      return TT_OK;
    }
    l->place.no_gpu |= !is_cpu(engines[i]);
  }
  return l->place.no_gpu ? no_gpu() : built_without();
}

/* Tensor cores are for GPUs: to compute in fp32 instead would be other results than asked for. */
static tt_err check_precision(const tt_wish *wish, const look *l)
{
  if (wish->precision == TT_PRECISION_fp32 || !is_cpu(l->ops)) return TT_OK;
  return TT_FAIL(UNAVAILABLE,
                 "run.precision: %s needs a GPU, and %s; set run.precision: fp32 to train on the "
                 "CPU",
                 tt_choice_precision[wish->precision],
                 l->place.no_gpu ? "none is seen: check nvidia-smi and the job's --gpus"
                 : wish->device == TT_DEVICE_cpu ? "run.device is cpu"
                                                 : "this tutti was built without CUDA");
}

/* The engine and all its devices that this rank sees. */
static tt_err find_devices(const tt_engine_ops *const *engines, const tt_wish *wish, look *l)
{
  int n = 0;
  tt_place *p = &l->place;
  TT_TRY(find_engine(engines, wish->device, l, &n));
  TT_TRY(check_precision(wish, l));
  TT_TRY(TT_ALLOC(l->device, n));
  for (int i = 0; i < n; i++)
    TT_TRY(l->ops->describe(i, &l->device[i]));
  p->devices = is_cpu(l->ops) ? 0 : n;
  p->sight = XXH3_64bits(p->host, sizeof p->host);
  for (int i = 0; i < p->devices; i++)
    p->sight = XXH3_64bits_withSeed(l->device[i].uuid, sizeof l->device[i].uuid, p->sight);
  snprintf(p->engine, sizeof p->engine, "%s", l->ops->name);
  return TT_OK;
}

static void note_fault(tt_place *p, tt_err e)
{
  if (!e) return;
  p->err = e;
  p->device = -1;
  p->engine[0] = 0;
  snprintf(p->fault, sizeof p->fault, "%s", tt_err_last());
}

static void look_around(tt_comm *c, const tt_engine_ops *const *engines, const tt_wish *wish,
                        look *l)
{
  tt_place *p = &l->place;
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  const char *gpus = getenv("SLURM_GPUS_ON_NODE");
  p->slurm_gpus = gpus ? atoi(gpus) : 0;
  gethostname(p->host, sizeof p->host - 1);
  p->cpu_set = XXH3_64bits_withSeed(&set, sizeof set, XXH3_64bits(p->host, sizeof p->host));
  p->cores = tt_machine_cores_local();
  p->node_rank = tt_comm_node_rank(c);
  p->node_ranks = tt_comm_node_ranks(c);
  note_fault(p, find_devices(engines, wish, l));
}

/* This rank's threads and GPU, now that it knows of the others. */
static void settle(const tt_wish *wish, int rank, const tt_survey *s, look *l)
{
  tt_place *p = &l->place;
  tt_seat seat = {p->node_rank, p->node_ranks, 0, 0, p->devices};
  for (int r = 0; r < s->ranks; r++) {
    int peer = s->place[r].devices > 0 && s->place[r].sight == p->sight;
    p->sharers += s->place[r].cpu_set == p->cpu_set;
    seat.peers += peer;
    seat.peer += peer && r < rank;
  }
  int share = p->cores / p->sharers;
  p->threads = wish->threads > 0 ? (int)wish->threads : share > 0 ? share : 1;
  if (p->devices > 0 && !p->err)
    note_fault(p, tt_device_pick(&seat, &wish->gpu_map, wish->share_gpu, &p->device));
  if (!p->err) p->info = l->device[p->device];
}

static int by_value(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static int64_t count_distinct(uint64_t *v, int64_t n)
{
  int64_t distinct = 0;
  qsort(v, (size_t)n, sizeof *v, by_value);
  for (int64_t i = 0; i < n; i++)
    distinct += i == 0 || v[i] != v[i - 1];
  return distinct;
}

/* Gather the GPUs that each rank sees and count them: into->seen, into->used. */
static tt_err count_gpus(tt_comm *c, const look *l, tt_survey *into)
{
  uint64_t *mine = NULL, *all = NULL;
  int64_t total = 0, used = 0;
  int n = l->place.devices;
  for (int r = 0; r < into->ranks; r++)
    total += into->place[r].devices;
  tt_err e = TT_ALLOC(mine, n);
  if (!e) e = TT_ALLOC(all, total > into->ranks ? total : into->ranks);
  e = tt_agree(c, e);
  if (!e) {
    for (int i = 0; i < n; i++)
      mine[i] = XXH3_64bits(l->device[i].uuid, sizeof l->device[i].uuid);
    tt_allgather(c, mine, n * (int64_t)sizeof *mine, all, NULL);
    into->seen = count_distinct(all, total);
    for (int r = 0; r < into->ranks; r++)
      if (into->place[r].devices > 0 && !into->place[r].err)
        all[used++] = XXH3_64bits(into->place[r].info.uuid, sizeof into->place[r].info.uuid);
    into->used = count_distinct(all, used);
  }
  tt_free(mine);
  tt_free(all);
  return e;
}

tt_err tt_machine_survey(tt_comm *c, const tt_engine_ops *const *engines, const tt_wish *wish,
                         tt_survey **out)
{
  tt_survey *s = NULL;
  look l;
  memset(&l, 0, sizeof l);
  look_around(c, engines, wish, &l);
  tt_err e = TT_ALLOC(s, 1);
  if (!e) e = TT_ALLOC(s->place, tt_comm_ranks(c));
  e = tt_agree(c, e);
  if (!e) {
    s->ranks = tt_comm_ranks(c);
    tt_allgather(c, &l.place, sizeof l.place, s->place, NULL);
    settle(wish, tt_comm_rank(c), s, &l);
    tt_allgather(c, &l.place, sizeof l.place, s->place, NULL);
    s->ops = l.place.err ? NULL : l.ops;
    e = count_gpus(c, &l, s);
  }
  tt_free(l.device);
  if (e)
    tt_survey_destroy(&s);
  else
    *out = s;
  return e;
}

void tt_survey_destroy(tt_survey **s)
{
  if (!*s) return;
  tt_free((*s)->place);
  tt_free(*s);
}

/* The same answer on every rank: it looks at what all of them have. */
static tt_err judge(const tt_survey *s, const tt_wish *wish)
{
  for (int r = 0; r < s->ranks; r++)
    if (s->place[r].err)
      return tt_fail_at(__FILE__, __LINE__, s->place[r].err, "rank %d on %s: %s", r,
                        s->place[r].host, s->place[r].fault);
  char text[1024];
  for (int r = 0; r < s->ranks && wish->device == TT_DEVICE_auto; r++)
    if (tt_device_unseen(&s->place[r], text, sizeof text))
      return TT_FAIL(UNAVAILABLE, "rank %d: %s", r, text);
  TT_TRY(tt_device_check_engines(s->ranks, s->place));
  return wish->share_gpu ? TT_OK : tt_device_check_twins(s->ranks, s->place);
}

static void warn(const tt_survey *s)
{
  char text[1024];
  int r = 0;
  while (r < s->ranks && !tt_device_crowded(&s->place[r], text, sizeof text))
    r++;
  if (r < s->ranks) tt_log_once(TT_LOG_WARN, "rank %d: %s", r, text);
  if (s->seen > s->used)
    tt_log_once(TT_LOG_WARN,
                "%" PRId64 " of %" PRId64 " GPUs have no rank and stay idle: start one rank per "
                "GPU (--ntasks-per-node), or ask for fewer GPUs",
                s->seen - s->used, s->seen);
}

tt_err tt_machine_take(tt_comm *c, const tt_engine_ops *const *engines, const tt_wish *wish,
                       const tt_engine_ops **ops, tt_resources *use)
{
  tt_survey *s = NULL;
  tt_err e = tt_machine_survey(c, engines, wish, &s);
  if (!e) e = judge(s, wish);
  if (!e) {
    const tt_place *mine = &s->place[tt_comm_rank(c)];
    *ops = s->ops;
    *use = (tt_resources){.threads = mine->threads,
                          .simd = wish->simd,
                          .device = mine->device,
                          .path = wish->path,
                          .precision = wish->precision};
    warn(s);
  }
  tt_survey_destroy(&s);
  return e;
}

static tt_err differ(const tt_comm *c, const char *mine, const char *first, int rank)
{
  return TT_FAIL(UNAVAILABLE,
                 "rank %d would compute \"%s\", rank %d \"%s\": results would depend on which rank "
                 "trains a member; use nodes of one kind, choose run.simd or run.path for all, or "
                 "give --allow-different-device",
                 tt_comm_rank(c), mine, rank, first);
}

tt_err tt_machine_same_bits(tt_comm *c, const char *arithmetic, int anyhow,
                            char first[TT_ARITHMETIC_ROOM])
{
  char mine[TT_ARITHMETIC_ROOM] = "", *all = NULL;
  int ranks = tt_comm_ranks(c), r = 0;
  snprintf(mine, sizeof mine, "%s", arithmetic);
  tt_err e = tt_agree(c, TT_ALLOC(all, (int64_t)ranks * TT_ARITHMETIC_ROOM));
  if (e) return e;
  tt_allgather(c, mine, sizeof mine, all, NULL);
  while (r < ranks - 1 && !all[r * TT_ARITHMETIC_ROOM]) r++;
  const char *one = all + r * TT_ARITHMETIC_ROOM;
  int64_t differs = mine[0] && strcmp(one, mine) != 0;
  if (anyhow) {
    tt_max_i64(c, &differs, 1);
    if (differs)
      tt_log_once(TT_LOG_WARN,
                  "not all ranks compute as rank %d does, \"%s\": results depend on which rank "
                  "trains a member",
                  r, one);
  } else {
    e = tt_agree(c, differs ? differ(c, mine, one, r) : TT_OK);
  }
  if (first) memcpy(first, one, TT_ARITHMETIC_ROOM);
  tt_free(all);
  return e;
}

tt_err tt_machine_choose(tt_comm *c, const tt_config *cfg, const tt_engine_ops **ops,
                         tt_resources *use)
{
  tt_wish wish = tt_machine_wish(cfg);
  return tt_machine_take(c, tt_engines, &wish, ops, use);
}

tt_err tt_machine_default(tt_comm *c, const tt_engine_ops **ops, tt_resources *use)
{
  tt_wish wish = tt_machine_wish(NULL);
  return tt_machine_take(c, tt_engines, &wish, ops, use);
}
