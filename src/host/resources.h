/* resources.h — cores, engine and GPU of each rank. */
#ifndef TT_RESOURCES_H
#define TT_RESOURCES_H
#include "core/config/config.h"
#include "core/engine/engine.h"
#include "mpi/comm.h"
#include "src/host/devices.h"

/* Resource options of section run. The map is borrowed. */
typedef struct tt_resource_request {
  tt_device device;
  tt_simd simd;
  tt_gpu_path path;
  tt_precision precision;
  tt_exchange exchange;
  int64_t threads; /* -1 = auto */
  tt_int_list gpu_map;
  int share_gpu;
  int quiet; /* 1: nothing is logged */
} tt_resource_request;

/* The options of a job; for a command without a job (cfg NULL): auto, and ranks may share GPUs.
 * Local. */
tt_resource_request tt_resources_request(const tt_config *cfg);

/* Resources of all ranks. */
typedef struct tt_inventory {
  int ranks;
  tt_rank_resources mine;        /* of this rank; shared_with is not set */
  const tt_engine_ops *ops;      /* of this rank; NULL after an error */
  tt_rank_resources *rank_entry; /* [ranks] of all ranks; on rank 0 only, elsewhere NULL */
  int64_t seen, used; /* distinct GPUs visible to all ranks together; used by them; on rank 0 */
} tt_inventory;

/* Collective. Find cores, engine and GPU of every rank; an error of a rank is in its rank_entry.
 * Ranks compare themselves with those of their node; only rank 0 gets the entries of all ranks.
 * threads: auto = cores that a rank is bound to, divided by the number of ranks bound to the same
 * cores. device: auto = the first of `engines` (NULL-terminated) that has a device.
 * Owner: the caller, tt_inventory_destroy. Errors: MEM. */
tt_err tt_inventory_create(tt_comm *c, const tt_engine_ops *const *engines,
                           const tt_resource_request *request, tt_inventory **out);
void tt_inventory_destroy(tt_inventory **s);

/* Collective. Engine and resources of this rank. GPUs that are new to this build are checked first
 * (self_check.h); with device: auto the CPU computes if one fails. Warns of GPUs that no rank uses,
 * of more threads than cores, and, with threads: auto, of cores that mpirun withholds. Errors:
 * UNAVAILABLE (no GPU with device: gpu, or it fails the self-check; without share_gpu: more ranks
 * than GPUs or two ranks on one GPU; different engines; a precision or memory for the exchange that
 * the engine does not have), MEM. */
tt_err tt_resources_assign(tt_comm *c, const tt_engine_ops *const *engines,
                           const tt_resource_request *request, const tt_engine_ops **ops,
                           tt_resources *use);

/* Collective. tt_resources_assign with the engines compiled in.
 *   cfg  NULL: no job */
tt_err tt_resources_for_job(tt_comm *c, const tt_config *cfg, const tt_engine_ops **ops,
                            tt_resources *use);

/* The engine that predicts with these models: `ops`, or the CPU for components of the targets. */
const tt_engine_ops *tt_resources_predict_engine(const tt_engine_ops *ops,
                                                 const tt_trained_ensembles *all);

/* Collective. Check that all ranks use the same arithmetic; otherwise the result of a member would
 * depend on its rank.
 *   arithmetic  tt_engine_info.arithmetic of this rank; "" = it computes nothing and is skipped
 *   warn_only   a difference is a warning, not an error
 *   first       arithmetic of the first rank that is not skipped, "" if all are; may be NULL
 * Errors: UNAVAILABLE. */
enum { TT_ARITHMETIC_SIZE = sizeof((tt_engine_info *)0)->arithmetic };
tt_err tt_resources_check_arithmetic(tt_comm *c, const char *arithmetic, int warn_only,
                                     char first[TT_ARITHMETIC_SIZE]);

/* The engine of run.device if a GPU is present; calls no driver. Local.
 * Errors: UNAVAILABLE (tutti was built without it). */
tt_err tt_resources_engine_local(tt_device device, const tt_engine_ops **ops);

/* Whether ranks exchange memory of their GPUs, by run.exchange: plan and run ask this. Local.
 *   sends  whether the engine can send its memory: that of GPUs can, also where a plan is made and
 *          no GPU is present
 *   takes  auto: whether the MPI library takes GPU memory, or may take it */
int tt_resources_exchange_on_device(tt_exchange wanted, int sends, int takes);

/* Cores this process is bound to. */
int tt_resources_cores_local(void);

/* Size of a team of threads for `wanted` of a caller (below 1: all cores), at most the cores. 1 in
 * a process that is forked from one with such a team: OpenMP of gcc waits in the child for the
 * threads of the parent. */
int tt_resources_team_local(int wanted);
#endif
