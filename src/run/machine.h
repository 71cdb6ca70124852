/* machine.h — what a rank may use: its cores and its engine. Floor 4. */
#ifndef TT_MACHINE_H
#define TT_MACHINE_H
#include "engine/engine.h"
#include "mpi/comm.h"
#include "spec/config.h"

/* Collective. Engine and resources of this rank: run.device, run.simd, run.threads; threads: auto
 * is the cores this rank is bound to, divided among the ranks of the node bound to the same ones.
 * Errors: UNAVAILABLE (device: gpu without one, an instruction set the processor lacks). */
tt_err tt_machine_choose(tt_comm *c, const tt_config *cfg, const tt_engine_ops **ops,
                         tt_resources *use);

/* The same for programs that have no job: auto everything. */
tt_err tt_machine_default(tt_comm *c, const tt_engine_ops **ops, tt_resources *use);

/* The engine for a choice of run.device. Local. Errors: UNAVAILABLE. */
tt_err tt_machine_engine_local(tt_device device, const tt_engine_ops **ops);

/* Cores this process is bound to. */
int tt_machine_cores_local(void);
#endif
