/* team_link.h — GPUs of a team move values to each other by a library of the device
 * (run.exchange: nccl), not by MPI. */
#ifndef TT_TEAM_LINK_H
#define TT_TEAM_LINK_H
#include "core/engine/engine.h"
#include "mpi/team.h"

/* Collective over the team. Open a link between its devices and use it in tt_team_move. An error is
 * that of this rank, so that a vote must follow; then no rank has a link. Errors: MEM, UNAVAILABLE.
 *   device  of this rank */
tt_err tt_team_link_open(tt_team *t, const tt_device_link_ops *ops, int device);
#endif
