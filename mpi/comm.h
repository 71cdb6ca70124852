/* comm.h — ranks: start and end of MPI, the vote, and the collectives that the program needs.
 * Every function is collective unless its name ends in _local or it only returns a number.
 *
 * Errors of MPI and broken invariants inside a collective region end all ranks (mpi/fatal.h),
 * because the program cannot continue. Every expected error is a tt_err and a vote. */
#ifndef TT_COMM_H
#define TT_COMM_H
#include "core/base/err.h"

#include <stdint.h>

typedef struct tt_comm tt_comm;

/* Environment variables to set before MPI_Init; a value that the user has set is kept. */
typedef struct tt_comm_env {
  const char *name, *value;
  const char *why; /* what happens without it, for messages */
} tt_comm_env;
extern const tt_comm_env tt_comm_env_defaults[]; /* ends with a NULL name */

/* Start MPI (funneled) with tt_comm_env_defaults, then tt_fatal_install_handlers; MPI that runs
 * already is used as it is. A process that no launcher has started (tt_process_is_launched_local)
 * is the only rank: it starts no MPI, and the functions of this header return at once. Sets the
 * rank of the log. Errors: UNAVAILABLE (singletons: SLURM_NTASKS > 1 but one rank; those
 * of tt_launch_check_local). */
tt_err tt_comm_begin(tt_comm **out);

/* The same, but singletons are no error: for programs that report them together with other
 * findings. */
tt_err tt_comm_begin_singletons(tt_comm **out);

/* This process alone, without MPI, for functions that need a communicator; tt_comm_end frees it.
 * Local. Errors: MEM. */
tt_err tt_comm_alone_local(tt_comm **out);

/* The ranks of a communicator of the program, which has called MPI_Init; tt_comm_end frees this
 * copy.
 *   handle  MPI_Comm_c2f of it
 * Errors: UNAVAILABLE (MPI does not run here, or is another library, or tutti was built without),
 * MEM. */
tt_err tt_comm_of_program(int handle, tt_comm **out);

/* Check for singletons: each task of the job is an MPI world of one rank. Errors: UNAVAILABLE. */
tt_err tt_comm_check_launch_local(const tt_comm *c);

/* End MPI if tt_comm_begin started it. Accepts NULL. */
void tt_comm_end(tt_comm **c);

int tt_comm_rank(const tt_comm *c);
int tt_comm_ranks(const tt_comm *c);
int tt_comm_is_root(const tt_comm *c);
/* Rank and number of ranks on this node (MPI_Comm_split_type, never from the environment). */
int tt_comm_node_rank(const tt_comm *c);
int tt_comm_node_ranks(const tt_comm *c);

/* The vote. Every rank passes its own result; every rank gets the most severe result, with the text
 * of the rank that passed it. Call it after local work, before the next collective.
 * TUTTI_FAULT=rank:n in the environment makes the n-th vote of that rank fail (for tests). */
tt_err tt_agree(tt_comm *c, tt_err mine);

/* Check that every rank passes the same text. `what` names the text in the message, which names the
 * lowest rank with another text and the first line that differs. Errors: CONFIG, MEM. */
tt_err tt_agree_same(tt_comm *c, const char *what, const char *text);

/* Number of votes so far: the same on all ranks. */
int64_t tt_comm_votes(const tt_comm *c);

/* In place, same count on all ranks. Sums of integers and maxima do not depend on the number of
 * ranks. There is no sum of floating point numbers, because it would: gather and add in a fixed
 * order. */
void tt_allreduce_sum_i64(tt_comm *c, int64_t *v, int64_t count);
void tt_allreduce_max_i64(tt_comm *c, int64_t *v, int64_t count);
void tt_allreduce_max_f64(tt_comm *c, double *v, int64_t count);
void tt_bcast(tt_comm *c, void *bytes, int64_t count); /* from rank 0 */
void tt_bcast_from(tt_comm *c, int rank, void *bytes, int64_t count);
/* Copy the block of *bytes bytes at *block of rank 0 to the other ranks, whose *block is NULL
 * before. tt_bcast_text: the same for a text, or NULL. Owner: the caller, tt_free. Errors: MEM. */
tt_err tt_bcast_block(tt_comm *c, void *block, int64_t *bytes);
tt_err tt_bcast_text(tt_comm *c, char **text);
void tt_barrier(tt_comm *c);

/* Every rank passes mine[mine_bytes]; all ranks get the bytes concatenated in rank order, and the
 * bytes of each rank in counts[R], which may be NULL.
 *   all   room for the sum of all contributions; may be larger than 2 GiB
 * `mine_bytes` may be 0. `all` must not overlap `mine`. */
void tt_allgatherv(tt_comm *c, const void *mine, int64_t mine_bytes, void *all, int64_t *counts);

/* The same to rank 0 only: elsewhere `all` is NULL and counts is not written. What another rank
 * receives does not grow with the number of ranks. */
void tt_gatherv(tt_comm *c, const void *mine, int64_t mine_bytes, void *all, int64_t *counts);

/* Every rank passes mine[bytes]; the ranks of its node get them in rank order, [node ranks][bytes].
 */
void tt_node_allgather(tt_comm *c, const void *mine, int64_t bytes, void *all);

/* 0: built without MPI (-DTUTTI_MPI=OFF), for one process. Local. */
int tt_comm_has_mpi_local(void);

/* Library and version texts for provenance. Local, needs no MPI_Init. */
void tt_comm_versions_local(char *text, int64_t capacity);

/* Check that the functions of MPI in this process are those of the library of this build: a program
 * that is linked with another library has that one.
 *   *running  1 between MPI_Init and MPI_Finalize, also on error
 * Local, needs no MPI_Init. Errors: UNAVAILABLE. */
tt_err tt_comm_check_library_local(int *running);

/* Whether the MPI library of this build may take pointers to GPU memory in messages, and whether it
 * says, after tt_comm_begin, that it does. Local. */
int tt_comm_may_take_gpu_memory_local(void);
int tt_comm_takes_gpu_memory_local(void);

#ifdef TT_COMM_MPI /* defined only by files of mpi/ and io/ */
#include <mpi.h>
MPI_Comm tt_comm_mpi(const tt_comm *c); /* MPI_COMM_NULL: one process without MPI */
#endif
#endif
