/* resources.c — see resources.h. */
#include "src/host/resources.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "src/host/cuda_plugin.h"
#include "src/host/self_check.h"
#include "src/host/stop_request.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* Resources of this rank while they are detected. */
typedef struct probe {
  tt_rank_resources rank_entry;
  tt_device_info *device; /* [rank_entry.devices], or [1] for the CPU */
  const tt_engine_ops *ops;
} probe;

int tt_resources_cores_local(void)
{
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  int cores = CPU_COUNT(&set);
  return cores < 1 ? 1 : cores;
}

static int is_forked; /* from a process that has had a team of threads */

static void set_forked(void) { is_forked = 1; }
static void watch_forks(void) { pthread_atfork(NULL, NULL, set_forked); }

/* The threads of a team, before its first start. */
static int start_team(int threads)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (threads > 1) pthread_once(&once, watch_forks);
  return is_forked ? 1 : threads;
}

int tt_resources_team_local(int wanted)
{
  if (wanted == 1) return 1;
  int cores = tt_resources_cores_local();
  return start_team(wanted > 0 && wanted < cores ? wanted : cores);
}

/* Open MPI: the parent process, mpirun or its daemon on this node, has the cores that a rank gets
 * without binding. */
static int launcher_cores(void)
{
  cpu_set_t set;
  if (!getenv("OMPI_COMM_WORLD_SIZE") || sched_getaffinity(getppid(), sizeof set, &set)) return 0;
  return CPU_COUNT(&set);
}

tt_resource_request tt_resources_request(const tt_config *cfg)
{
  if (!cfg) return (tt_resource_request){.threads = -1, .share_gpu = 1};
  return (tt_resource_request){.device = (tt_device)cfg->run_device,
                               .simd = (tt_simd)cfg->simd,
                               .path = (tt_gpu_path)cfg->gpu_path,
                               .precision = (tt_precision)cfg->run_precision,
                               .exchange = (tt_exchange)cfg->run_exchange,
                               .threads = cfg->run_threads,
                               .gpu_map = cfg->run_gpu_map,
                               .share_gpu = cfg->run_share_gpu};
}

static int is_cpu(const tt_engine_ops *ops) { return !strcmp(ops->name, "cpu"); }

static int is_wanted(tt_device device, const tt_engine_ops *ops)
{
  if (ops == &tt_engine_cuda_plugin && device == TT_DEVICE_auto &&
      tt_cuda_plugin_is_left_out_local())
    return 0;
  return device == TT_DEVICE_auto || (device == TT_DEVICE_cpu) == is_cpu(ops);
}

static tt_err no_cuda_error(void)
{
  return TT_FAIL(UNAVAILABLE, "run.device: gpu, but this tutti was built without CUDA: build it "
                              "with nvcc, or set run.device: auto or cpu");
}

tt_err tt_resources_engine_local(tt_device device, const tt_engine_ops **ops)
{
  for (int i = 0; tt_engines[i]; i++)
    if (is_wanted(device, tt_engines[i])) {
      *ops = tt_engines[i];
      return TT_OK;
    }
  return no_cuda_error();
}

static tt_err no_gpu(const char *reason)
{
  return TT_FAIL(UNAVAILABLE, "run.device: gpu, but no GPU is visible: %s; or set run.device: cpu",
                 reason);
}

/* The first engine that fits `device` and has devices; *n = their number. With device: auto an
 * engine that cannot be used is passed over, and no_gpu_reason says why. */
static tt_err find_engine(const tt_engine_ops *const *engines, tt_device device, probe *l, int *n)
{
  tt_rank_resources *p = &l->rank_entry;
  for (int i = 0; engines[i]; i++) {
    if (!is_wanted(device, engines[i])) continue;
    tt_err e = engines[i]->count(n);
    if (e && (is_cpu(engines[i]) || device != TT_DEVICE_auto)) return e;
    if (!e && *n > 0) {
      l->ops = engines[i];
      return TT_OK;
    }
    if (is_cpu(engines[i])) continue;
    p->no_gpu = 1;
    p->no_gpu_error = e != TT_OK;
    if (e)
      snprintf(p->no_gpu_reason, sizeof p->no_gpu_reason, "%s", tt_err_last());
    else
      tt_gpu_explain_absence("", getenv("CUDA_VISIBLE_DEVICES"), p->no_gpu_reason,
                             sizeof p->no_gpu_reason);
  }
  return p->no_gpu ? no_gpu(p->no_gpu_reason) : no_cuda_error();
}

/* The CPU has no tensor cores; fp32 instead would give other results than requested. */
static tt_err check_precision(const tt_resource_request *request, const probe *l)
{
  if (request->precision == TT_PRECISION_fp32 || !is_cpu(l->ops)) return TT_OK;
  return TT_FAIL(UNAVAILABLE,
                 "run.precision: %s needs a GPU, and %s; set run.precision: fp32 to train on the "
                 "CPU",
                 tt_choice_precision[request->precision],
                 l->rank_entry.no_gpu ? "none is visible: check nvidia-smi and the job's --gpus"
                 : request->device == TT_DEVICE_cpu ? "run.device is cpu"
                                                    : "this tutti was built without CUDA");
}

static tt_err check_exchange(const tt_resource_request *request, const probe *l)
{
  char text[64];
  int is_nccl = request->exchange == TT_EXCHANGE_nccl;
  if (request->exchange != TT_EXCHANGE_device && !is_nccl) return TT_OK;
  if (!l->ops->team || !l->ops->team->device_scratch || !l->ops->team->link)
    return TT_FAIL(UNAVAILABLE, "run.exchange: %s needs a GPU, but the %s engine trains; use host",
                   tt_choice_exchange[request->exchange], l->ops->name);
  return is_nccl ? l->ops->team->link->version(text, sizeof text) : TT_OK;
}

/* Engine of this rank and all its visible devices. */
static tt_err find_devices(const tt_engine_ops *const *engines, const tt_resource_request *request,
                           probe *l)
{
  int n = 0;
  tt_rank_resources *p = &l->rank_entry;
  TT_TRY(find_engine(engines, request->device, l, &n));
  TT_TRY(check_precision(request, l));
  TT_TRY(check_exchange(request, l));
  TT_TRY(TT_ALLOC(l->device, n));
  for (int i = 0; i < n; i++) TT_TRY(l->ops->describe(i, &l->device[i]));
  p->devices = is_cpu(l->ops) ? 0 : n;
  p->visible_gpus = XXH3_64bits(p->host, sizeof p->host);
  for (int i = 0; i < p->devices; i++)
    p->visible_gpus =
        XXH3_64bits_withSeed(l->device[i].uuid, sizeof l->device[i].uuid, p->visible_gpus);
  snprintf(p->engine, sizeof p->engine, "%s", l->ops->name);
  return TT_OK;
}

static void record_error(tt_rank_resources *p, tt_err e)
{
  if (!e) return;
  p->err = e;
  p->device = -1;
  p->engine[0] = 0;
  snprintf(p->fault, sizeof p->fault, "%s", tt_err_last());
}

static void probe_node(tt_comm *c, const tt_engine_ops *const *engines,
                       const tt_resource_request *request, probe *l)
{
  tt_rank_resources *p = &l->rank_entry;
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  const char *gpus = getenv("SLURM_GPUS_ON_NODE");
  p->slurm_gpus = gpus ? atoi(gpus) : 0;
  gethostname(p->host, sizeof p->host - 1);
  p->cpu_set = XXH3_64bits_withSeed(&set, sizeof set, XXH3_64bits(p->host, sizeof p->host));
  p->cores = tt_resources_cores_local();
  p->launcher_cores = launcher_cores();
  p->node_rank = tt_comm_node_rank(c);
  p->node_ranks = tt_comm_node_ranks(c);
  record_error(p, find_devices(engines, request, l));
}

/* What ranks of one node compare. */
typedef struct node_entry {
  uint64_t cpu_set, visible_gpus;
  int devices;
} node_entry;

/* Threads and GPU of this rank.
 *   entry  [node ranks] of the ranks of this node */
static void assign_resources(const tt_resource_request *request, const node_entry *entry, probe *l)
{
  tt_rank_resources *p = &l->rank_entry;
  tt_rank_binding binding = {p->node_rank, p->node_ranks, 0, 0, p->devices};
  for (int r = 0; r < p->node_ranks; r++) {
    int peer = entry[r].devices > 0 && entry[r].visible_gpus == p->visible_gpus;
    p->ranks_on_cores += entry[r].cpu_set == p->cpu_set;
    binding.peers += peer;
    binding.peer += peer && r < p->node_rank;
  }
  int share = p->cores / p->ranks_on_cores;
  p->threads = start_team(request->threads > 0 ? (int)request->threads : share > 0 ? share : 1);
  if (p->devices > 0 && !p->err)
    record_error(p, tt_device_assign(&binding, &request->gpu_map, request->share_gpu, &p->device));
  if (!p->err) p->info = l->device[p->device];
}

/* Collective. Compare this rank with those of its node. */
static tt_err compare_node(tt_comm *c, const tt_resource_request *request, probe *l)
{
  const tt_rank_resources *p = &l->rank_entry;
  node_entry mine, *all = NULL;
  tt_err e = tt_agree(c, TT_ALLOC(all, p->node_ranks));
  memset(&mine, 0, sizeof mine); /* the padding too: the bytes are sent */
  mine.cpu_set = p->cpu_set;
  mine.visible_gpus = p->visible_gpus;
  mine.devices = p->devices;
  if (!e) {
    tt_node_allgather(c, &mine, sizeof mine, all);
    assign_resources(request, all, l);
  }
  tt_free(all);
  return e;
}

static int64_t count_distinct(uint64_t *v, int64_t n)
{
  int64_t distinct = 0;
  qsort(v, (size_t)n, sizeof *v, tt_compare_i64);
  for (int64_t i = 0; i < n; i++) distinct += i == 0 || v[i] != v[i - 1];
  return distinct;
}

/* Count the GPUs on rank 0: s->seen, s->used. */
static tt_err count_gpus(tt_comm *c, const probe *l, tt_inventory *s)
{
  uint64_t *mine = NULL, *all = NULL;
  int64_t total = 0;
  int n = l->rank_entry.devices;
  for (int r = 0; s->rank_entry && r < s->ranks; r++) {
    const tt_rank_resources *p = &s->rank_entry[r];
    total += p->devices;
    s->used += p->devices > 0 && !p->err && p->shared_with < 0;
  }
  tt_err e = TT_ALLOC(mine, n);
  if (!e && s->rank_entry) e = TT_ALLOC(all, total);
  e = tt_agree(c, e);
  if (!e) {
    for (int i = 0; i < n; i++) mine[i] = XXH3_64bits(l->device[i].uuid, sizeof l->device[i].uuid);
    tt_gatherv(c, mine, n * (int64_t)sizeof *mine, all, NULL);
    s->seen = all ? count_distinct(all, total) : 0;
  }
  tt_free(mine);
  tt_free(all);
  return e;
}

/* Rank 0 gets the entries of all ranks. */
static tt_err gather_entries(tt_comm *c, const probe *l, tt_inventory *s)
{
  tt_err e = tt_agree(c, tt_comm_is_root(c) ? TT_ALLOC(s->rank_entry, s->ranks) : TT_OK);
  if (e) return e;
  tt_gatherv(c, &l->rank_entry, sizeof l->rank_entry, s->rank_entry, NULL);
  return tt_agree(c, s->rank_entry ? tt_device_find_shared(s->ranks, s->rank_entry) : TT_OK);
}

tt_err tt_inventory_create(tt_comm *c, const tt_engine_ops *const *engines,
                           const tt_resource_request *request, tt_inventory **out)
{
  tt_inventory *s = NULL;
  probe l;
  memset(&l, 0, sizeof l);
  probe_node(c, engines, request, &l);
  tt_err e = tt_agree(c, TT_ALLOC(s, 1));
  if (!e) e = compare_node(c, request, &l);
  if (!e) {
    s->ranks = tt_comm_ranks(c);
    s->mine = l.rank_entry;
    s->ops = l.rank_entry.err ? NULL : l.ops;
    e = gather_entries(c, &l, s);
  }
  if (!e) e = count_gpus(c, &l, s);
  tt_free(l.device);
  if (e) tt_inventory_destroy(&s);
  *out = s;
  return e;
}

void tt_inventory_destroy(tt_inventory **s)
{
  if (!*s) return;
  tt_free((*s)->rank_entry);
  tt_free(*s);
}

/* On rank 0. */
static tt_err check_inventory_local(const tt_inventory *s, const tt_resource_request *request)
{
  for (int r = 0; r < s->ranks; r++)
    if (s->rank_entry[r].err)
      return tt_fail_at(__FILE__, __LINE__, s->rank_entry[r].err, "rank %d on %s: %s", r,
                        s->rank_entry[r].host, s->rank_entry[r].fault);
  char text[1024];
  int is_nccl = request->exchange == TT_EXCHANGE_nccl;
  for (int r = 0; r < s->ranks && request->device == TT_DEVICE_auto; r++)
    if (tt_device_not_visible(&s->rank_entry[r], text, sizeof text))
      return TT_FAIL(UNAVAILABLE, "rank %d: %s", r, text);
  for (int r = 0; r < s->ranks; r++)
    if (tt_device_is_taken(s->rank_entry, r, request->share_gpu, is_nccl, text, sizeof text))
      return TT_FAIL(UNAVAILABLE, "rank %d on %s has %s", r, s->rank_entry[r].host, text);
  return tt_device_check_engines(s->ranks, s->rank_entry);
}

/* device: auto never uses the CPU in silence where a GPU could have been meant. */
static void tell_why_no_gpu(const tt_inventory *s)
{
  int r = 0;
  while (r < s->ranks && !s->rank_entry[r].no_gpu_error) r++;
  if (r < s->ranks)
    tt_log_root(TT_LOG_WARN, "rank %d computes on the CPU: %s", r, s->rank_entry[r].no_gpu_reason);
  else if (s->rank_entry[0].no_gpu)
    tt_log_root(TT_LOG_INFO, "computing on the CPU: no GPU is visible (run.device: auto): %s",
                s->rank_entry[0].no_gpu_reason);
}

int tt_resources_exchange_on_device(tt_exchange wanted, int sends, int takes)
{
  return sends && wanted != TT_EXCHANGE_host && (wanted != TT_EXCHANGE_auto || takes);
}

static int sends_device_memory(const tt_engine_ops *ops)
{
  return ops->team && ops->team->device_scratch;
}

static void warn_unused(const tt_inventory *s, const tt_resource_request *request)
{
  char text[1024];
  int r = 0;
  while (r < s->ranks && !tt_cores_oversubscribed(&s->rank_entry[r], text, sizeof text)) r++;
  if (r < s->ranks) tt_log_root(TT_LOG_WARN, "rank %d: %s", r, text);
  for (r = 0; r < s->ranks && !tt_cores_unused(&s->rank_entry[r], text, sizeof text);) r++;
  if (r < s->ranks && request->threads <= 0) tt_log_root(TT_LOG_WARN, "rank %d: %s", r, text);
  if (request->gpu_map.count > 0 && s->used == 0)
    tt_log_root(TT_LOG_WARN, "run.gpu_map names GPUs, but no rank uses one: remove it, or set "
                             "run.device: gpu, which refuses to compute on the CPU");
  if (s->seen > s->used)
    tt_log_root(TT_LOG_WARN,
                "GPUs without a rank: %" PRId64 " of %" PRId64 "; they stay idle: start one "
                "rank per GPU (--ntasks-per-node), or ask for fewer GPUs",
                s->seen - s->used, s->seen);
}

/* Collective. What the self-check leaves out on any rank is left out by all. */
static tt_err check_gpus(tt_comm *c, const tt_inventory *s, int quiet, tt_gpu_path_check *paths)
{
  tt_self_check check;
  TT_TRY(tt_self_check_gpu(c, s->ops, &s->mine, TT_SELF_CHECK_first, &check));
  tt_self_check_log(&check, quiet);
  *paths = tt_self_check_paths(c, &check);
  return TT_OK;
}

/* Collective. No GPU is used where one of them computes wrong on the path that every job needs. */
static tt_err refuse_gpus(tt_comm *c, const tt_engine_ops *const *engines,
                          const tt_resource_request *request, const tt_engine_ops **ops,
                          tt_resources *use)
{
  tt_resource_request on_cpu = *request;
  on_cpu.device = TT_DEVICE_cpu;
  if (request->device == TT_DEVICE_gpu)
    return TT_FAIL(
        UNAVAILABLE,
        "run.device: gpu, but a GPU fails the self-check (see above): leave out its node "
        "(sbatch --exclude), or set run.device: cpu");
  tt_log_root(TT_LOG_WARN, "computing on the CPU: a GPU fails the self-check (run.device: auto)");
  return tt_resources_assign(c, engines, &on_cpu, ops, use);
}

static void log_resources(const tt_inventory *s, const tt_resource_request *request)
{
  if (!s->rank_entry || request->quiet) return;
  tell_why_no_gpu(s);
  warn_unused(s, request);
  tt_device_log_places(s->ranks, s->rank_entry);
}

tt_err tt_resources_assign(tt_comm *c, const tt_engine_ops *const *engines,
                           const tt_resource_request *request, const tt_engine_ops **ops,
                           tt_resources *use)
{
  tt_inventory *s = NULL;
  tt_gpu_path_check paths = {0, 0};
  tt_err e = tt_inventory_create(c, engines, request, &s);
  if (!e) e = tt_agree(c, s->rank_entry ? check_inventory_local(s, request) : TT_OK);
  if (!e && s->mine.devices > 0)
    e = check_gpus(c, s, request->quiet, &paths); /* all ranks have one engine */
  if (!e && paths.failed & TT_SELF_CHECK_NEEDED) {
    e = refuse_gpus(c, engines, request, ops, use);
  } else if (!e) {
    *ops = s->ops;
    *use = (tt_resources){
        .threads = s->mine.threads,
        .simd = request->simd,
        .device = s->mine.device,
        .path = request->path,
        .precision = request->precision,
        .check = paths,
        .stop = tt_stop_signal_local,
        .device_exchange = tt_resources_exchange_on_device(
            request->exchange, sends_device_memory(s->ops), tt_comm_takes_gpu_memory_local())};
    log_resources(s, request);
  }
  tt_inventory_destroy(&s);
  return e;
}

static tt_err arithmetic_differs(const tt_comm *c, const char *mine, const char *first, int rank)
{
  return TT_FAIL(UNAVAILABLE,
                 "rank %d would compute \"%s\", rank %d \"%s\": results would depend on which rank "
                 "trains a member; use nodes of one kind, set TUTTI_SIMD or TUTTI_GPU_PATH for "
                 "all ranks, or give --allow-different-device",
                 tt_comm_rank(c), mine, rank, first);
}

tt_err tt_resources_check_arithmetic(tt_comm *c, const char *arithmetic, int warn_only,
                                     char first[TT_ARITHMETIC_SIZE])
{
  char one[TT_ARITHMETIC_SIZE] = "";
  int64_t minus_rank = -(int64_t)(*arithmetic ? tt_comm_rank(c) : tt_comm_ranks(c) - 1);
  tt_err e = TT_OK;
  tt_allreduce_max_i64(c, &minus_rank, 1);
  int r = (int)-minus_rank; /* the first rank that computes, or the last one of all */
  if (r == tt_comm_rank(c)) snprintf(one, sizeof one, "%s", arithmetic);
  tt_bcast_from(c, r, one, sizeof one);
  int64_t differs = *arithmetic && strncmp(one, arithmetic, sizeof one - 1) != 0;
  if (warn_only) {
    tt_allreduce_max_i64(c, &differs, 1);
    if (differs)
      tt_log_root(
          TT_LOG_WARN,
          "not all ranks use the arithmetic of rank %d, \"%s\": results depend on which rank "
          "trains a member",
          r, one);
  } else {
    e = tt_agree(c, differs ? arithmetic_differs(c, arithmetic, one, r) : TT_OK);
  }
  if (first) memcpy(first, one, TT_ARITHMETIC_SIZE);
  return e;
}

tt_err tt_resources_for_job(tt_comm *c, const tt_config *cfg, const tt_engine_ops **ops,
                            tt_resources *use)
{
  tt_resource_request request = tt_resources_request(cfg);
  return tt_resources_assign(c, tt_engines, &request, ops, use);
}

const tt_engine_ops *tt_resources_predict_engine(const tt_engine_ops *ops,
                                                 const tt_trained_ensembles *all)
{
  for (int64_t i = 0; i < all->count; i++)
    if (all->at[i]->scaler.components) return &tt_engine_cpu;
  return ops;
}
