/* devices.c — see devices.h. */
#include "run/devices.h"

#include <inttypes.h>
#include <string.h>

static tt_err pick_from_map(const tt_seat *s, const tt_int_list *map, int share, int *device)
{
  if (s->node_rank >= map->count && !share)
    return TT_FAIL(UNAVAILABLE,
                   "run.gpu_map names %" PRId64 " GPUs for the %d ranks of this node: name one for "
                   "each rank (--gpu-map), start fewer ranks per node (--ntasks-per-node=%" PRId64
                   "), or let ranks share GPUs (--share-gpu, run.share_gpu: true)",
                   map->count, s->node_ranks, map->count);
  int64_t wanted = map->value[s->node_rank % map->count];
  if (wanted >= s->devices)
    return TT_FAIL(UNAVAILABLE,
                   "run.gpu_map gives GPU %" PRId64 " to rank %d of the node, which sees %d (from "
                   "0 to %d): correct --gpu-map, or CUDA_VISIBLE_DEVICES, or the job's --gpus",
                   wanted, s->node_rank, s->devices, s->devices - 1);
  *device = (int)wanted;
  return TT_OK;
}

tt_err tt_device_pick(const tt_seat *s, const tt_int_list *map, int share, int *device)
{
  if (map->count > 0) return pick_from_map(s, map, share, device);
  if (s->peers > s->devices && !share)
    return TT_FAIL(UNAVAILABLE,
                   "%d ranks of this node see the same %d GPU%s: start fewer ranks per node "
                   "(--ntasks-per-node=%d), or let ranks share GPUs (--share-gpu, run.share_gpu: "
                   "true)",
                   s->peers, s->devices, s->devices == 1 ? "" : "s", s->devices);
  *device = s->peer % s->devices;
  return TT_OK;
}

int tt_device_twin(const tt_place *place, int rank)
{
  const char *uuid = place[rank].info.uuid;
  for (int r = 0; r < rank && *uuid; r++)
    if (!strcmp(place[r].info.uuid, uuid)) return r;
  return -1;
}

tt_err tt_device_check_twins(int ranks, const tt_place *place)
{
  for (int r = 0; r < ranks; r++) {
    int twin = tt_device_twin(place, r);
    if (twin >= 0)
      return TT_FAIL(UNAVAILABLE,
                     "rank %d on %s and rank %d on %s use one GPU, %s (%s): give each rank its own "
                     "(srun --gpus-per-task=1, or --gpu-map), or let ranks share GPUs "
                     "(--share-gpu, run.share_gpu: true)",
                     twin, place[twin].host, r, place[r].host, place[r].info.uuid,
                     place[r].info.name);
  }
  return TT_OK;
}

tt_err tt_device_check_engines(int ranks, const tt_place *place)
{
  int first = -1;
  for (int r = 0; r < ranks; r++) {
    if (!*place[r].engine) continue;
    if (first < 0) first = r;
    if (strcmp(place[r].engine, place[first].engine) != 0)
      return TT_FAIL(UNAVAILABLE,
                     "rank %d on %s would use the %s engine, rank %d on %s the %s engine: ask for "
                     "GPUs on every node (srun --gpus-per-task=1), or set run.device: cpu",
                     first, place[first].host, place[first].engine, r, place[r].host,
                     place[r].engine);
  }
  return TT_OK;
}
