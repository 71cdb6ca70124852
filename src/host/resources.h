/* resources.h — what the ranks may use: cores, engine, GPU. Floor 4. */
#ifndef TT_RESOURCES_H
#define TT_RESOURCES_H
#include "core/config/config.h"
#include "core/engine/engine.h"
#include "mpi/comm.h"
#include "src/host/devices.h"

/* What a job asks of the machine: the options of section run. Borrows the map. */
typedef struct tt_resource_request {
  tt_device device;
  tt_simd simd;
  tt_gpu_path path;
  tt_precision precision;
  int64_t threads; /* -1 = auto */
  tt_int_list gpu_map;
  int share_gpu;
} tt_resource_request;

/* The wish of a job; of a program that has none (cfg NULL): auto everything, and ranks share GPUs
 * where they must. */
tt_resource_request tt_resources_request(const tt_config *cfg);

/* What the ranks got. */
typedef struct tt_inventory {
  int ranks;
  tt_rank_resources *rank_entry; /* [ranks], the same on all ranks */
  const tt_engine_ops *ops;      /* of this rank; NULL with a fault */
  int64_t seen, used;            /* distinct GPUs that all ranks see, and use */
} tt_inventory;

/* Collective. Look at the machine and choose for every rank; what goes wrong on a rank is in its
 * place. threads: auto is the cores a rank is bound to, divided among the ranks bound to the same
 * ones. device: auto is the first of `engines` (NULL-terminated) that has a device.
 * Owner: the caller, tt_inventory_destroy. Errors: MEM. */
tt_err tt_inventory_create(tt_comm *c, const tt_engine_ops *const *engines,
                           const tt_resource_request *request, tt_inventory **out);
void tt_inventory_destroy(tt_inventory **s);

/* Collective. Engine and resources of this rank. Warns of GPUs that no rank uses.
 * Errors: UNAVAILABLE (no GPU with device: gpu; more ranks than GPUs, or two ranks on one, without
 * share_gpu; not the same engine everywhere; a precision that no engine here has), MEM. */
tt_err tt_resources_assign(tt_comm *c, const tt_engine_ops *const *engines,
                           const tt_resource_request *request, const tt_engine_ops **ops,
                           tt_resources *use);

/* The same with the engines compiled in: for a job, and for programs that have none. */
tt_err tt_resources_for_job(tt_comm *c, const tt_config *cfg, const tt_engine_ops **ops,
                            tt_resources *use);
tt_err tt_resources_default(tt_comm *c, const tt_engine_ops **ops, tt_resources *use);

/* Collective. Would all ranks compute the same bits? Otherwise results would depend on which rank
 * trains a member.
 *   arithmetic  tt_engine_info.arithmetic of this rank; "" = it computes nothing and has no say
 *   anyhow      a difference is only warned of
 *   first       what the first rank with a say computes, "" if none has one; may be NULL
 * Errors: UNAVAILABLE, MEM. */
enum { TT_ARITHMETIC_SIZE = sizeof((tt_engine_info *)0)->arithmetic };
tt_err tt_resources_check_arithmetic(tt_comm *c, const char *arithmetic, int warn_only,
                                     char first[TT_ARITHMETIC_SIZE]);

/* The engine that a choice of run.device means where there is a GPU; asks no driver. Local.
 * Errors: UNAVAILABLE (built without it). */
tt_err tt_resources_engine_local(tt_device device, const tt_engine_ops **ops);

/* Cores this process is bound to. */
int tt_resources_cores_local(void);
#endif
