/* team.h — ranks that train a member together. A function is collective over the ranks of its team
 * unless its name ends in _local or it only returns a number. Errors of MPI end all ranks, as in
 * comm.h. */
#ifndef TT_TEAM_H
#define TT_TEAM_H
#include "mpi/comm.h"

typedef struct tt_team tt_team;

/* Collective over all ranks. The ranks that pass the same number `team` >= 0 become a team, in the
 * order of their ranks. Errors: MEM. */
tt_err tt_team_create(tt_comm *c, int team, tt_team **out);
void tt_team_destroy(tt_team **t); /* collective over the team; accepts NULL */

int tt_team_rank(const tt_team *t);
int tt_team_ranks(const tt_team *t);

/* Every rank passes mine[bytes]; all get them in rank order, all[ranks][bytes]. */
void tt_team_allgather(tt_team *t, const void *mine, int64_t bytes, void *all);

/* In place: the largest value of all ranks. */
void tt_team_max(tt_team *t, int64_t *v, int count);

/* From rank 0 of the team. */
void tt_team_bcast(tt_team *t, void *bytes, int64_t count);

/* A message to or from another rank of the team. */
typedef struct tt_team_message {
  int rank;
  int64_t bytes; /* may be 0, and above 2 GiB */
  void *data;
} tt_team_message;

/* Send and receive all of these messages. The messages of one rank to another arrive in the order
 * of its list, and have the bytes that the receiver expects. Buffers must not overlap. */
void tt_team_exchange(tt_team *t, int64_t sends, const tt_team_message *send, int64_t receives,
                      const tt_team_message *receive);

/* A message to or from one other rank that goes on while this rank computes: until
 * tt_team_wait_local the buffer of a send must not change, and that of a receive must not be read.
 * The messages from one rank to another arrive in the order in which both begin them, those of
 * tt_team_exchange included. Only the two ranks of a message call these functions; wait accepts a
 * zeroed one. */
typedef struct tt_team_pending {
  void *request; /* of MPI */
  int64_t count;
} tt_team_pending;
void tt_team_send_local(tt_team *t, const tt_team_message *m, tt_team_pending *out);
void tt_team_receive_local(tt_team *t, const tt_team_message *m, tt_team_pending *out);
void tt_team_wait_local(tt_team_pending *p);

/* What moves messages between devices instead of MPI. */
typedef struct tt_team_mover {
  /* Send and receive all of these messages. While the function waits, it calls
   * tt_team_is_broken_local(t), and returns TT_OK early if that is 1: another rank has failed. */
  tt_err (*move)(void *context, tt_team *t, int64_t sends, const tt_team_message *send,
                 int64_t receives, const tt_team_message *receive);
  void (*close)(void *context); /* called by tt_team_destroy, when no rank moves anything */
  void *with;
} tt_team_mover;
void tt_team_use_mover_local(tt_team *t, const tt_team_mover *mover);

/* As tt_team_exchange, for memory of a device: by the mover, if there is one, else by MPI, which
 * must accept such memory. After an error of one rank no rank moves anything any more, and the
 * functions of the other ranks return TT_OK. So the rank with the error must go on with all
 * collective calls up to the next vote, where the others get its error. Errors: of the mover. */
tt_err tt_team_move(tt_team *t, int64_t sends, const tt_team_message *send, int64_t receives,
                    const tt_team_message *receive);

/* Tell all ranks that this one takes part in no further moves. tt_team_move does so after an error;
 * is_broken: 1 if a rank has. */
void tt_team_break_local(tt_team *t);
int tt_team_is_broken_local(tt_team *t);

/* What this rank has sent to other ranks in tt_team_allgather, exchange, move and send so far; an
 * allgather counts as one message to each other rank. Local. */
typedef struct tt_team_traffic {
  int64_t messages, bytes;
} tt_team_traffic;
tt_team_traffic tt_team_traffic_local(const tt_team *t);
#endif
