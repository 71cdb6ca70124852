/* devices.h — GPU of each rank, and checks of the choices of all ranks. All functions are local and
 * call no driver, so that tests need no GPU. */
#ifndef TT_DEVICES_H
#define TT_DEVICES_H
#include "core/config/config.h"
#include "core/engine/engine.h"

/* Position of a rank among the ranks of its node. Peers are the ranks that see the same GPUs. With
 * --gpus-per-task=1 each rank sees its own GPU and has only itself as a peer. */
typedef struct tt_rank_binding {
  int node_rank, node_ranks; /* number among the ranks of the node */
  int peer, peers;           /* number among its peers */
  int devices;               /* GPUs it sees, at least 1 */
} tt_rank_binding;

/* GPU number of a rank: map[node_rank], or without a map (count 0) its number among its peers.
 *   share  ranks may share GPUs: the number is taken modulo the length of the map or the number of
 *          GPUs
 * Errors: UNAVAILABLE (without share: more ranks than GPUs or than entries of the map; an entry of
 * the map that is not a visible GPU); the message names the fixes. */
tt_err tt_device_assign(const tt_rank_binding *binding, const tt_int_list *map, int share,
                        int *device);

/* Resources of one rank, or its error. Plain bytes without pointers: gathered from all ranks. */
typedef struct tt_rank_resources {
  char host[72];
  char engine[16]; /* "cpu", "cuda"; "" if err */
  int node_rank, node_ranks;
  int cores;          /* it is bound to */
  int launcher_cores; /* mpirun may use on this node; 0 = not started by mpirun */
  int ranks_on_cores; /* ranks bound to the same cores, itself included */
  int threads;
  int devices;     /* visible GPUs; 0 with run.device: cpu, which does not look for GPUs */
  int device;      /* number of its GPU, -1 if err */
  int shared_with; /* the lowest rank with the same GPU, if that is below this one; -1: none */
  tt_device_info info;
  int no_gpu;              /* tutti was built with CUDA and wants a GPU, but none can be used */
  int no_gpu_error;        /* then: 1 if the engine failed, 0 if no GPU is visible */
  char no_gpu_reason[512]; /* then: why, and what to do */
  int slurm_gpus;          /* GPUs of the job on this node, from SLURM_GPUS_ON_NODE; 0 = unset */
  uint64_t cpu_set, visible_gpus; /* hashes of host and core set, of host and visible GPUs */
  tt_err err;                     /* TT_OK or why it has no device; message in fault */
  char fault[1024];
} tt_rank_resources;

/* Why this process sees no GPU, and what to do; text[size].
 *   root     "" in the program, a folder in tests: where /proc/driver/nvidia and /dev/nvidia* are
 *   visible  value of CUDA_VISIBLE_DEVICES, NULL if not set */
void tt_gpu_explain_absence(const char *root, const char *visible, char *text, size_t size);

/* Log where several ranks compute: one line for ranks in a row that are alike (engine, number of
 * threads, kind of GPU), with the first host; with -v also one for each rank. */
void tt_device_log_places(int ranks, const tt_rank_resources *rank_entry);

/* Find the ranks that use the same GPU (by UUID): sets shared_with of all. Errors: MEM. */
tt_err tt_device_find_shared(int ranks, tt_rank_resources *rank_entry);

/* 1 if rank r must not use its GPU, because another rank does (tt_device_find_shared), and they may
 * not share it, or exchange by NCCL, which refuses it; text[size] then holds the message with the
 * fix. Else 0. */
int tt_device_is_taken(const tt_rank_resources *rank_entry, int r, int may_share, int is_nccl,
                       char *text, size_t size);

/* 1 if Slurm gave the job GPUs, but the rank sees none and would train on the CPU; text[size] then
 * holds the message with the fix. Else 0. */
int tt_device_not_visible(const tt_rank_resources *p, char *text, size_t size);

/* 1 if the ranks bound to the same cores have more threads than cores; text[size] then holds the
 * message with the fix. Else 0. */
int tt_cores_oversubscribed(const tt_rank_resources *p, char *text, size_t size);

/* 1 if mpirun bound the ranks of a node, which have no GPU, to fewer cores than it may use;
 * text[size] then holds the message with the fix. Else 0. */
int tt_cores_unused(const tt_rank_resources *p, char *text, size_t size);

/* Check that all ranks without an error use the same engine; otherwise the result of a member would
 * depend on its rank. Errors: UNAVAILABLE. */
tt_err tt_device_check_engines(int ranks, const tt_rank_resources *rank_entry);
#endif
