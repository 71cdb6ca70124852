/* devices.h — which GPU a rank takes, and whether the choices of all ranks fit together. Floor 4;
 * local, asks nobody: all of it can be tested without a GPU. */
#ifndef TT_DEVICES_H
#define TT_DEVICES_H
#include "core/config/config.h"
#include "core/engine/engine.h"

/* What decides the GPU of a rank. A rank started with --gpus-per-task=1 sees one GPU that no other
 * rank sees, and is its only peer. */
typedef struct tt_rank_binding {
  int node_rank, node_ranks; /* among the ranks of the node */
  int peer, peers;           /* among those of them that see the same GPUs */
  int devices;               /* GPUs it sees, at least 1 */
} tt_rank_binding;

/* GPU number of a rank: map[node_rank], or without a map (count 0) its number among its peers.
 *   share  ranks go round: modulo the length of the map, or the number of GPUs
 * Errors: UNAVAILABLE (more ranks than GPUs or than entries of the map, without share; an entry of
 * the map that is no GPU): the message names the fixes. */
tt_err tt_device_assign(const tt_rank_binding *binding, const tt_int_list *map, int share,
                        int *device);

/* What a rank has, or what keeps it from having it. Plain bytes: gathered from all ranks. */
typedef struct tt_rank_resources {
  char host[72];
  char engine[16]; /* "cpu", "cuda"; "" with a fault */
  int node_rank, node_ranks;
  int cores,
      ranks_on_cores; /* cores it is bound to; ranks bound to the same ones, itself included */
  int threads;
  int devices; /* GPUs it sees; 0 where nobody asked: run.device: cpu */
  int device;  /* its number, -1 with a fault */
  tt_device_info info;
  int no_gpu;     /* tutti was built for GPUs, and one would have been taken */
  int slurm_gpus; /* that Slurm says the job has on this node, SLURM_GPUS_ON_NODE */
  uint64_t cpu_set,
      visible_gpus; /* fingerprints of the cores, and of the GPUs it sees, on this host */
  tt_err err;       /* and why */
  char fault[1024];
} tt_rank_resources;

/* The first rank before `rank` that uses the same GPU (by UUID), or -1. */
int tt_device_shared_with(const tt_rank_resources *rank_entry, int rank);

/* Two ranks on one GPU. Errors: UNAVAILABLE, naming both ranks and the fixes. */
tt_err tt_device_check_shared(int ranks, const tt_rank_resources *rank_entry);

/* Slurm gave the job GPUs, but the rank would train on the CPU because it sees none: the words for
 * it, with the fix. 0 = no such thing. */
int tt_device_not_visible(const tt_rank_resources *p, char *text, size_t room);

/* More threads than cores for the ranks bound to them: the words for it. 0 = no such thing. */
int tt_cores_oversubscribed(const tt_rank_resources *p, char *text, size_t room);

/* All ranks without a fault must use the same engine: a member's result would depend on its rank.
 * Errors: UNAVAILABLE. */
tt_err tt_device_check_engines(int ranks, const tt_rank_resources *rank_entry);
#endif
