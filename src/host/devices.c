/* devices.c — see devices.h. */
#include "src/host/devices.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ASK_FOR_GPUS                                                                               \
  "ask for GPUs (srun --gpus-per-task=1), or start the container with them (apptainer --nv, "      \
  "docker --gpus all)"

static tt_err assign_from_map(const tt_rank_binding *s, const tt_int_list *map, int share,
                              int *device)
{
  if (s->node_rank >= map->count && !share)
    return TT_FAIL(UNAVAILABLE,
                   "run.gpu_map names %" PRId64 " GPUs for the %d ranks of this node: name one for "
                   "each rank, start fewer ranks per node (--ntasks-per-node=%" PRId64
                   "), or let ranks share GPUs (run.share_gpu: true)",
                   map->count, s->node_ranks, map->count);
  int64_t gpu = map->value[s->node_rank % map->count];
  if (gpu >= s->devices)
    return TT_FAIL(UNAVAILABLE,
                   "run.gpu_map gives GPU %" PRId64 " to rank %d of the node, which sees %d (from "
                   "0 to %d): correct it, or CUDA_VISIBLE_DEVICES, or the job's --gpus",
                   gpu, s->node_rank, s->devices, s->devices - 1);
  *device = (int)gpu;
  return TT_OK;
}

tt_err tt_device_assign(const tt_rank_binding *binding, const tt_int_list *map, int share,
                        int *device)
{
  if (map->count > 0) return assign_from_map(binding, map, share, device);
  if (binding->peers > binding->devices && !share)
    return TT_FAIL(UNAVAILABLE,
                   "%d ranks of this node see the same %d GPU%s: start fewer ranks per node "
                   "(--ntasks-per-node=%d), or let ranks share GPUs (run.share_gpu: true)",
                   binding->peers, binding->devices, binding->devices == 1 ? "" : "s",
                   binding->devices);
  *device = binding->peer % binding->devices;
  return TT_OK;
}

static int exists(const char *root, const char *path)
{
  char whole[1024];
  snprintf(whole, sizeof whole, "%s%s", root, path);
  return access(whole, F_OK) == 0;
}

/* Device nodes of GPUs, /dev/nvidia0 and so on; *usable of them can be opened. If none can, `why`
 * is the errno of one: a cgroup of the job denies GPUs that were not asked for. */
static int count_nodes(const char *root, int *usable, int *why)
{
  char folder[1024], node[2048];
  int n = 0;
  *usable = *why = 0;
  snprintf(folder, sizeof folder, "%s/dev", root);
  DIR *all = opendir(folder);
  for (struct dirent *one; all && (one = readdir(all));) {
    if (strncmp(one->d_name, "nvidia", 6) != 0 || !isdigit((unsigned char)one->d_name[6])) continue;
    n++;
    snprintf(node, sizeof node, "%s/%s", folder, one->d_name);
    if (access(node, R_OK | W_OK) == 0)
      ++*usable;
    else
      *why = errno;
  }
  if (all) closedir(all);
  return n;
}

static void explain_hidden(const char *visible, int nodes, char *text, size_t size)
{
  if (!visible)
    snprintf(
        text, size,
        "CUDA finds no GPU, although %d device node%s: check nvidia-smi (with MIG, a GPU needs "
        "instances), and that a container has libcuda.so.1 of the driver (apptainer --nv)",
        nodes, nodes == 1 ? " exists" : "s exist");
  else if (!strncmp(visible, "MIG-", 4))
    snprintf(text, size,
             "CUDA_VISIBLE_DEVICES is '%.80s', but there is no such MIG instance: nvidia-smi -L "
             "lists them",
             visible);
  else
    snprintf(text, size,
             "CUDA_VISIBLE_DEVICES is '%.80s', which names none of the GPUs of this host (%d): "
             "nvidia-smi -L lists them",
             visible, nodes);
}

void tt_gpu_explain_absence(const char *root, const char *visible, char *text, size_t size)
{
  int usable, why, nodes = count_nodes(root, &usable, &why);
  if (visible && (!*visible || !strcmp(visible, "-1") || !strcmp(visible, "NoDevFiles")))
    snprintf(text, size,
             "CUDA_VISIBLE_DEVICES is %s, which hides every GPU: unset it, or " ASK_FOR_GPUS,
             *visible ? visible : "empty");
  else if (nodes == 0 && exists(root, "/proc/driver/nvidia"))
    snprintf(text, size,
             "this host has an NVIDIA driver, but no device node /dev/nvidia0: " ASK_FOR_GPUS
             "; on a host without them, an administrator runs nvidia-modprobe -u -c 0");
  else if (nodes == 0)
    snprintf(text, size,
             "this host has no NVIDIA driver (no /proc/driver/nvidia, no /dev/nvidia0): "
             "use a node with GPUs, " ASK_FOR_GPUS);
  else if (usable == 0)
    snprintf(text, size,
             "no device node /dev/nvidia* of this host can be opened (%s): the job has no "
             "GPU: " ASK_FOR_GPUS,
             strerror(why));
  else
    explain_hidden(visible, nodes, text, size);
}

static int by_uuid(const void *a, const void *b)
{
  const tt_rank_resources *x = *(tt_rank_resources *const *)a, *y = *(tt_rank_resources *const *)b;
  int order = strcmp(x->info.uuid, y->info.uuid);
  return order ? order : (x > y) - (x < y);
}

tt_err tt_device_find_shared(int ranks, tt_rank_resources *rank_entry)
{
  tt_rank_resources **sorted = NULL;
  TT_TRY(TT_ALLOC(sorted, ranks));
  for (int r = 0; r < ranks; r++) sorted[r] = &rank_entry[r];
  qsort(sorted, (size_t)ranks, sizeof *sorted, by_uuid);
  for (int i = 0, first = 0; i < ranks; i++) {
    const char *uuid = sorted[i]->info.uuid;
    if (strcmp(uuid, sorted[first]->info.uuid) != 0) first = i;
    sorted[i]->shared_with = *uuid && first < i ? (int)(sorted[first] - rank_entry) : -1;
  }
  tt_free(sorted);
  return TT_OK;
}

int tt_device_is_taken(const tt_rank_resources *rank_entry, int r, int may_share, int is_nccl,
                       char *text, size_t size)
{
  const tt_rank_resources *p = &rank_entry[r];
  int other = may_share && !is_nccl ? -1 : p->shared_with;
  if (other < 0) return 0;
  snprintf(text, size,
           "the same GPU as rank %d on %s, %s (%s): give each rank its own (srun "
           "--gpus-per-task=1, or run.gpu_map), or %s",
           other, rank_entry[other].host, p->info.uuid, p->info.name,
           is_nccl ? "use run.exchange: host, because NCCL refuses it"
                   : "let ranks share GPUs (run.share_gpu: true)");
  return 1;
}

int tt_device_not_visible(const tt_rank_resources *p, char *text, size_t size)
{
  if (!p->no_gpu || p->err || p->slurm_gpus < 1) return 0;
  snprintf(
      text, size,
      "Slurm gave this job %d GPU%s on %s, but this rank sees none and would train on the CPU: "
      "give the GPUs to the step too (srun --gpus-per-node=%d, or --gpus-per-task=1 "
      "--gpu-bind=none), check CUDA_VISIBLE_DEVICES and nvidia-smi, or set run.device: cpu",
      p->slurm_gpus, p->slurm_gpus == 1 ? "" : "s", p->host, p->slurm_gpus);
  return 1;
}

int tt_cores_oversubscribed(const tt_rank_resources *p, char *text, size_t size)
{
  if ((int64_t)p->threads * p->ranks_on_cores <= p->cores) return 0;
  if (p->ranks_on_cores == 1)
    snprintf(text, size,
             "%d threads on %d core%s: give the rank more cores (srun --cpus-per-task=%d, mpirun "
             "--map-by slot:PE=%d), or set run.threads: auto",
             p->threads, p->cores, p->cores == 1 ? "" : "s", p->threads, p->threads);
  else
    snprintf(text, size,
             "%d ranks of %s are bound to the same %d core%s with %d thread%s each: give each rank "
             "cores of its own (srun --cpus-per-task=%d --cpu-bind=cores, mpirun --map-by "
             "slot:PE=%d --bind-to core), start fewer ranks, or set run.threads: auto",
             p->ranks_on_cores, p->host, p->cores, p->cores == 1 ? "" : "s", p->threads,
             p->threads == 1 ? "" : "s", p->threads, p->threads);
  return 1;
}

int tt_cores_unused(const tt_rank_resources *p, char *text, size_t size)
{
  if (p->devices > 0 || (int64_t)p->cores * p->node_ranks >= p->launcher_cores) return 0;
  snprintf(text, size, "mpirun bound this rank to %d of %d cores: start it with mpirun %s",
           p->cores, p->launcher_cores,
           p->node_ranks == 1 ? "--bind-to none" : "--bind-to none, or with more ranks");
  return 1;
}

static tt_err engines_differ(const tt_rank_resources *rank_entry, int first, int r)
{
  const tt_rank_resources *a = &rank_entry[first], *b = &rank_entry[r];
  const char *why = *a->no_gpu_reason ? a->no_gpu_reason : b->no_gpu_reason;
  return TT_FAIL(UNAVAILABLE,
                 "rank %d on %s would use the %s engine, rank %d on %s the %s engine%s%s: ask for "
                 "GPUs on every node (srun --gpus-per-task=1), or set run.device: cpu",
                 first, a->host, a->engine, r, b->host, b->engine, *why ? "; " : "", why);
}

tt_err tt_device_check_engines(int ranks, const tt_rank_resources *rank_entry)
{
  int first = -1;
  for (int r = 0; r < ranks; r++) {
    if (!*rank_entry[r].engine) continue;
    if (first < 0) first = r;
    if (strcmp(rank_entry[r].engine, rank_entry[first].engine) != 0)
      return engines_differ(rank_entry, first, r);
  }
  return TT_OK;
}

static int are_alike(const tt_rank_resources *a, const tt_rank_resources *b)
{
  return !strcmp(a->engine, b->engine) && a->threads == b->threads &&
         !strcmp(a->info.name, b->info.name);
}

/* "CPU, 8 threads", "GPU 3, NVIDIA H100"; for several ranks without the number of the GPU. */
static void describe_place(const tt_rank_resources *p, int one, char text[192])
{
  char number[16] = "";
  if (one) snprintf(number, sizeof number, " %d", p->device);
  if (!strcmp(p->engine, "cpu"))
    snprintf(text, 192, "CPU, %d thread%s%s", p->threads, tt_plural(p->threads),
             one ? "" : " each");
  else
    snprintf(text, 192, "GPU%s, %s", number, p->info.name);
}

void tt_device_log_places(int ranks, const tt_rank_resources *rank_entry)
{
  char place[192], hosts[96];
  for (int r = 0, next; ranks > 1 && r < ranks; r = next) {
    int others = 0;
    for (next = r + 1; next < ranks && are_alike(&rank_entry[r], &rank_entry[next]); next++)
      others += strcmp(rank_entry[next].host, rank_entry[next - 1].host) != 0;
    snprintf(hosts, sizeof hosts, "%s%s", others ? " to " : "",
             others ? rank_entry[next - 1].host : "");
    describe_place(&rank_entry[r], next == r + 1, place);
    if (next == r + 1)
      tt_log_root(TT_LOG_INFO, "rank %d on %s: %s", r, rank_entry[r].host, place);
    else
      tt_log_root(TT_LOG_INFO, "ranks %d to %d on %s%s: %s", r, next - 1, rank_entry[r].host, hosts,
                  place);
  }
  for (int r = 0; ranks > 1 && r < ranks; r++) {
    describe_place(&rank_entry[r], 1, place);
    tt_log_root(TT_LOG_DEBUG, "rank %d on %s: %s", r, rank_entry[r].host, place);
  }
}
