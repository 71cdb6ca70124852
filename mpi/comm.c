/* comm.c — see comm.h. */
#define TT_COMM_MPI
#include "mpi/comm.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/process.h"
#include "mpi/fatal.h"
#include "mpi/launch.h"

#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* MPI counts are int: data are sent in pieces of at most this many bytes. */
enum { MAX_MESSAGE_BYTES = 1 << 30 };
enum { GATHER_TAG = 7 };
/* MPI_MAX_LIBRARY_VERSION_STRING of every library: 256 of Open MPI, 8192 of MPICH. */
enum { MAX_VERSION_BYTES = 8192 };

struct tt_comm {
  MPI_Comm mpi, node; /* all ranks; those of this node; MPI_COMM_NULL: one process without MPI */
  int rank, ranks, node_rank, node_ranks;
  int started;  /* tt_comm_begin called MPI_Init, so tt_comm_end calls MPI_Finalize */
  int launched; /* by mpirun, from the environment before MPI_Init */
  int64_t votes;
  int64_t fault; /* number of the vote that fails on this rank, 0 = none */
};

/* The error that the failed rank broadcasts after a vote. */
typedef struct error_text {
  char where[256];
  char text[TT_ERR_MESSAGE_SIZE];
} error_text;

int tt_comm_rank(const tt_comm *c) { return c->rank; }
int tt_comm_ranks(const tt_comm *c) { return c->ranks; }
int tt_comm_is_root(const tt_comm *c) { return c->rank == 0; }
int tt_comm_node_rank(const tt_comm *c) { return c->node_rank; }
int tt_comm_node_ranks(const tt_comm *c) { return c->node_ranks; }
int64_t tt_comm_votes(const tt_comm *c) { return c->votes; }
MPI_Comm tt_comm_mpi(const tt_comm *c) { return c->mpi; }

const tt_comm_env tt_comm_env_defaults[] = {
    {"OMPI_MCA_sharedfp", "individual",
     "shared file pointers leave semaphores behind, and later opens hang"},
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION == 4
    {"OMPI_MCA_io", "romio321", "OMPIO of Open MPI 4 reports short writes as success"},
#elif defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION > 4
    {"OMPI_MCA_io", "romio341", "OMPIO of Open MPI 5 makes two files for each rank beside a file"},
#endif
    {NULL, NULL, NULL}};

static void set_mpi_environment_local(void)
{
  for (const tt_comm_env *s = tt_comm_env_defaults; s->name; s++) setenv(s->name, s->value, 0);
}

/* Slurm has several tasks, but each process is an MPI world of one rank. With mpirun inside a job
 * the number of ranks is the choice of the user and is no error. */
tt_err tt_comm_check_launch_local(const tt_comm *c)
{
  const char *tasks = getenv("SLURM_NTASKS");
  if (c->ranks > 1 || c->launched || !tasks || atoi(tasks) <= 1) return TT_OK;
  if (!tt_comm_has_mpi_local())
    return TT_FAIL(
        UNAVAILABLE,
        "Slurm has %s tasks (SLURM_NTASKS), but this tutti was built without MPI, for one "
        "process: ask for one task, or build tutti with MPI",
        tasks);
  return TT_FAIL(UNAVAILABLE,
                 "Slurm has %s tasks (SLURM_NTASKS) but this MPI world has one rank: every task "
                 "would train the whole ensemble; start with `srun --mpi=pmix tutti ...` "
                 "(`srun --mpi=list` shows the choices) or `mpirun tutti ...`, or ask for one task",
                 tasks);
}

static tt_err read_fault_local(tt_comm *c)
{
  const char *text = getenv("TUTTI_FAULT");
  int rank = 0, end = 0;
  int64_t vote = 0;
  if (!text) return TT_OK;
  if (sscanf(text, "%d:%" SCNd64 "%n", &rank, &vote, &end) != 2 || text[end] || rank < 0 ||
      vote < 1)
    return TT_FAIL(USAGE, "TUTTI_FAULT=%s: expected rank:vote, for example 1:12", text);
  if (rank == c->rank) c->fault = vote;
  return TT_OK;
}

static void find_node(tt_comm *c)
{
  MPI_Comm_split_type(c->mpi, MPI_COMM_TYPE_SHARED, c->rank, MPI_INFO_NULL, &c->node);
  MPI_Comm_rank(c->node, &c->node_rank);
  MPI_Comm_size(c->node, &c->node_ranks);
}

/* Start MPI unless it runs, and fill in the ranks. */
static void set_ranks(tt_comm *c)
{
  MPI_Comm_rank(c->mpi, &c->rank);
  MPI_Comm_size(c->mpi, &c->ranks);
  find_node(c);
}

static tt_err begin_mpi(tt_comm *c, int running)
{
  int level = MPI_THREAD_FUNNELED, now;
  TT_TRY(tt_comm_check_library_local(&now));
  if (!running) {
    set_mpi_environment_local();
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    c->started = 1;
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &c->mpi);
  tt_fatal_install_handlers(c->mpi);
  set_ranks(c);
  return level >= MPI_THREAD_FUNNELED
             ? TT_OK
             : TT_FAIL(UNAVAILABLE, "this MPI does not allow threads (MPI_THREAD_FUNNELED)");
}

tt_err tt_comm_alone_local(tt_comm **out)
{
  TT_TRY(TT_ALLOC(*out, 1));
  **out = (tt_comm){.mpi = MPI_COMM_NULL, .node = MPI_COMM_NULL, .ranks = 1, .node_ranks = 1};
  return TT_OK;
}

tt_err tt_comm_of_program(int handle, tt_comm **out)
{
  tt_comm *c = NULL;
  int running;
  TT_TRY(tt_comm_check_library_local(&running));
  MPI_Comm given = running ? MPI_Comm_f2c((MPI_Fint)handle) : MPI_COMM_NULL;
  if (given == MPI_COMM_NULL)
    return TT_FAIL(UNAVAILABLE,
                   !tt_comm_has_mpi_local() ? "communicator %d: this tutti was built without MPI"
                   : running ? "the communicator %d is no communicator of this program"
                             : "communicator %d: call MPI_Init before",
                   handle);
  TT_TRY(tt_comm_alone_local(&c));
  MPI_Comm_dup(given, &c->mpi);
  set_ranks(c);
  *out = c;
  return TT_OK;
}

static tt_err begin(int singletons, tt_comm **out)
{
  tt_comm *c = NULL;
  int running = 0, ended = 0;
  MPI_Initialized(&running);
  MPI_Finalized(&ended);
  int launched = tt_process_is_launched_local();
  if (ended && launched)
    return TT_FAIL(UNAVAILABLE,
                   "MPI has been finalized and cannot start again: call MPI_Init before "
                   "the first training and MPI_Finalize after the last");
  if (!running && launched) TT_TRY(tt_launch_check_local());
  TT_TRY(tt_comm_alone_local(&c));
  c->launched = getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_SIZE");
  c->votes = -1; /* do not count the vote of this function */
  tt_err e = !ended && (running || launched) ? begin_mpi(c, running) : TT_OK;
  tt_log_set_rank(c->rank, c->ranks);
  if (!e && !singletons) e = tt_comm_check_launch_local(c);
  e = tt_agree(c, e ? e : read_fault_local(c));
  if (e)
    tt_comm_end(&c);
  else
    *out = c;
  return e;
}

tt_err tt_comm_begin(tt_comm **out) { return begin(0, out); }
tt_err tt_comm_begin_singletons(tt_comm **out) { return begin(1, out); }

void tt_comm_end(tt_comm **c)
{
  if (!*c) return;
  if ((*c)->mpi != MPI_COMM_NULL) {
    MPI_Comm_free(&(*c)->node);
    MPI_Comm_free(&(*c)->mpi);
  }
  if ((*c)->started) MPI_Finalize();
  tt_free(*c);
}

/* Make the error of `failed_rank` the last error of this rank. */
static void receive_error(tt_comm *c, tt_err e, int failed_rank)
{
  error_text v = {{0}, {0}};
  if (c->rank == failed_rank) {
    snprintf(v.where, sizeof v.where, "%s", tt_err_where());
    snprintf(v.text, sizeof v.text, "%s", tt_err_last());
  }
  MPI_Bcast(&v, (int)sizeof v, MPI_BYTE, failed_rank, c->mpi);
  if (c->rank == failed_rank) return;
  char *colon = strrchr(v.where, ':');
  int line = colon ? atoi(colon + 1) : 0;
  if (colon) *colon = 0;
  (void)tt_fail_at(v.where, line, e, "%s", v.text);
}

tt_err tt_agree(tt_comm *c, tt_err mine)
{
  struct {
    int err, rank;
  } in, out;
  c->votes++;
  if (!mine && c->fault > 0 && c->votes == c->fault)
    mine = TT_FAIL(IO, "fault injected on rank %d at vote %" PRId64 " (TUTTI_FAULT)", c->rank,
                   c->votes);
  if (c->ranks == 1) return mine;
  in.err = (int)mine;
  in.rank = c->rank;
  MPI_Allreduce(&in, &out, 1, MPI_2INT, MPI_MAXLOC, c->mpi);
  if (out.err != TT_OK) receive_error(c, (tt_err)out.err, out.rank);
  return (tt_err)out.err;
}

/* "'the line at text', without the line end", or "nothing". */
static void quote_line(const char *text, char out[256])
{
  text += strspn(text, " ");
  int n = (int)strcspn(text, "\n");
  snprintf(out, 256, n ? "'%.*s'" : "nothing", n < 240 ? n : 240, text);
}

/* Compare by lines. The section of an indented line is the last line above without indentation. */
static tt_err compare_texts(const tt_comm *c, const char *what, const char *mine, const char *root)
{
  char here[256], there[256], section[256] = "";
  for (;;) {
    size_t n = strcspn(root, "\n");
    if (strcspn(mine, "\n") != n || memcmp(mine, root, n) != 0) break;
    if (!root[n] && !mine[n]) return TT_OK;
    if (root[0] != ' ') quote_line(root, section);
    root += n + (root[n] == '\n');
    mine += n + (mine[n] == '\n');
  }
  int indented = root[0] == ' ' || mine[0] == ' ';
  quote_line(mine, here);
  quote_line(root, there);
  return TT_FAIL(CONFIG,
                 "not all ranks have the same %s: rank %d has %s, rank 0 has %s%s%s; start all "
                 "ranks with the same program and command line",
                 what, c->rank, here, there, indented ? " in " : "", indented ? section : "");
}

tt_err tt_agree_same(tt_comm *c, const char *what, const char *text)
{
  char *root = NULL;
  int64_t bytes = (int64_t)strlen(text) + 1;
  tt_bcast(c, &bytes, sizeof bytes);
  tt_err e = tt_agree(c, TT_ALLOC(root, bytes));
  if (!e && c->rank == 0) memcpy(root, text, (size_t)bytes);
  if (!e) tt_bcast(c, root, bytes);
  if (!e) e = tt_agree(c, compare_texts(c, what, text, root));
  tt_free(root);
  return e;
}

static void allreduce_chunks(tt_comm *c, char *v, int64_t count, MPI_Datatype type, MPI_Op op)
{
  const int64_t most = MAX_MESSAGE_BYTES / 8; /* both types have 8 bytes */
  if (c->ranks == 1) return;
  for (int64_t i = 0; i < count; i += most) {
    int64_t n = count - i < most ? count - i : most;
    MPI_Allreduce(MPI_IN_PLACE, v + 8 * i, (int)n, type, op, c->mpi);
  }
}

void tt_allreduce_sum_i64(tt_comm *c, int64_t *v, int64_t count)
{
  allreduce_chunks(c, (char *)v, count, MPI_INT64_T, MPI_SUM);
}

void tt_allreduce_max_i64(tt_comm *c, int64_t *v, int64_t count)
{
  allreduce_chunks(c, (char *)v, count, MPI_INT64_T, MPI_MAX);
}

void tt_allreduce_max_f64(tt_comm *c, double *v, int64_t count)
{
  allreduce_chunks(c, (char *)v, count, MPI_DOUBLE, MPI_MAX);
}

void tt_bcast_from(tt_comm *c, int rank, void *bytes, int64_t count)
{
  if (c->ranks == 1) return;
  for (int64_t i = 0; i < count; i += MAX_MESSAGE_BYTES)
    MPI_Bcast((char *)bytes + i,
              (int)(count - i < MAX_MESSAGE_BYTES ? count - i : MAX_MESSAGE_BYTES), MPI_BYTE, rank,
              c->mpi);
}

void tt_bcast(tt_comm *c, void *bytes, int64_t count) { tt_bcast_from(c, 0, bytes, count); }

tt_err tt_bcast_block(tt_comm *c, void *block, int64_t *bytes)
{
  void *copy = NULL;
  memcpy(&copy, block, sizeof copy);
  tt_bcast(c, bytes, sizeof *bytes);
  tt_err e = c->rank ? tt_alloc_bytes(&copy, *bytes, 1, "what rank 0 sends") : TT_OK;
  memcpy(block, &copy, sizeof copy);
  e = tt_agree(c, e);
  if (!e) tt_bcast(c, copy, *bytes);
  return e;
}

tt_err tt_bcast_text(tt_comm *c, char **text)
{
  int64_t there = *text != NULL, bytes = there ? (int64_t)strlen(*text) + 1 : 0;
  tt_bcast(c, &there, sizeof there);
  return there ? tt_bcast_block(c, text, &bytes) : TT_OK;
}

void tt_barrier(tt_comm *c)
{
  if (c->ranks > 1) MPI_Barrier(c->mpi);
}

/* The gather of one rank. */
static void copy_own(const void *mine, int64_t mine_bytes, void *all, int64_t *counts)
{
  if (mine_bytes > 0) memcpy(all, mine, (size_t)mine_bytes);
  if (counts) *counts = mine_bytes;
}

/* Returns the offset of the bytes of each rank, [R + 1]; the last one is the sum. The caller frees
 * it.
 *   to_all  0: only rank 0 has them, the others NULL
 *   counts  [R] bytes of each rank, may be NULL */
static int64_t *gather_offsets(tt_comm *c, int64_t mine, int to_all, int64_t *counts)
{
  int64_t *start = NULL;
  if ((to_all || c->rank == 0) && TT_ALLOC(start, c->ranks + 1)) tt_panic("%s", tt_err_last());
  int64_t *dst = start ? start + 1 : NULL;
  if (to_all)
    MPI_Allgather(&mine, 1, MPI_INT64_T, dst, 1, MPI_INT64_T, c->mpi);
  else
    MPI_Gather(&mine, 1, MPI_INT64_T, dst, 1, MPI_INT64_T, 0, c->mpi);
  if (!start) return NULL;
  if (counts) memcpy(counts, start + 1, (size_t)c->ranks * sizeof *counts);
  for (int r = 0; r < c->ranks; r++) start[r + 1] += start[r];
  return start;
}

/* The int arrays of MPI_Allgatherv and MPI_Gatherv: counts, then displacements. */
static int *int_counts(const tt_comm *c, const int64_t *start)
{
  int *n = NULL;
  if (TT_ALLOC(n, 2 * (int64_t)c->ranks)) tt_panic("%s", tt_err_last());
  for (int r = 0; r < c->ranks; r++) {
    n[r] = (int)(start[r + 1] - start[r]);
    n[c->ranks + r] = (int)start[r];
  }
  return n;
}

void tt_allgatherv(tt_comm *c, const void *mine, int64_t mine_bytes, void *all, int64_t *counts)
{
  if (c->ranks == 1) {
    copy_own(mine, mine_bytes, all, counts);
    return;
  }
  int64_t *start = gather_offsets(c, mine_bytes, 1, counts);
  char *dst = all;
  if (start[c->ranks] <= MAX_MESSAGE_BYTES) {
    int *n = int_counts(c, start);
    MPI_Allgatherv(mine, (int)mine_bytes, MPI_BYTE, dst, n, n + c->ranks, MPI_BYTE, c->mpi);
    tt_free(n);
  } else {
    memcpy(dst + start[c->rank], mine, (size_t)mine_bytes);
    for (int r = 0; r < c->ranks; r++) tt_bcast_from(c, r, dst + start[r], start[r + 1] - start[r]);
  }
  tt_free(start);
}

void tt_node_allgather(tt_comm *c, const void *mine, int64_t bytes, void *all)
{
  if (c->node_ranks == 1)
    copy_own(mine, bytes, all, NULL);
  else
    MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, c->node);
}

static void send_chunks(tt_comm *c, const char *mine, int64_t bytes)
{
  for (int64_t i = 0; i < bytes; i += MAX_MESSAGE_BYTES)
    MPI_Send(mine + i, (int)(bytes - i < MAX_MESSAGE_BYTES ? bytes - i : MAX_MESSAGE_BYTES),
             MPI_BYTE, 0, GATHER_TAG, c->mpi);
}

static void receive_chunks(tt_comm *c, int sender, char *dst, int64_t bytes)
{
  for (int64_t i = 0; i < bytes; i += MAX_MESSAGE_BYTES)
    MPI_Recv(dst + i, (int)(bytes - i < MAX_MESSAGE_BYTES ? bytes - i : MAX_MESSAGE_BYTES),
             MPI_BYTE, sender, GATHER_TAG, c->mpi, MPI_STATUS_IGNORE);
}

void tt_gatherv(tt_comm *c, const void *mine, int64_t mine_bytes, void *all, int64_t *counts)
{
  if (c->ranks == 1) {
    copy_own(mine, mine_bytes, all, counts);
    return;
  }
  int64_t *start = gather_offsets(c, mine_bytes, 0, counts), sum = start ? start[c->ranks] : 0;
  char *dst = all;
  tt_bcast(c, &sum, sizeof sum);
  if (sum <= MAX_MESSAGE_BYTES) {
    int *n = start ? int_counts(c, start) : NULL, *at = n ? n + c->ranks : NULL;
    MPI_Gatherv(mine, (int)mine_bytes, MPI_BYTE, dst, n, at, MPI_BYTE, 0, c->mpi);
    tt_free(n);
  } else if (c->rank == 0) {
    memcpy(dst, mine, (size_t)mine_bytes);
    for (int r = 1; r < c->ranks; r++)
      receive_chunks(c, r, dst + start[r], start[r + 1] - start[r]);
  } else {
    send_chunks(c, mine, mine_bytes);
  }
  tt_free(start);
}

#ifdef MPI_SERIAL
int tt_comm_has_mpi_local(void) { return 0; }

void tt_comm_versions_local(char *text, int64_t capacity)
{
  snprintf(text, (size_t)capacity, "no MPI: built for one process");
}
#else
int tt_comm_has_mpi_local(void) { return 1; }

void tt_comm_versions_local(char *text, int64_t capacity)
{
  char library[MAX_VERSION_BYTES] = "";
  int length = 0, major = 0, minor = 0;
  MPI_Get_library_version(library, &length);
  MPI_Get_version(&major, &minor);
  library[strcspn(library, "\n")] = 0;
  snprintf(text, (size_t)capacity, "MPI %d.%d: %s", major, minor, library);
}
#endif

tt_err tt_comm_check_library_local(int *running)
{
  char text[256];
  int ended = 0;
#ifdef OPEN_MPI
  const char *built_with = "Open MPI";
#else
  const char *built_with = "MPICH";
#endif
  MPI_Initialized(running);
  MPI_Finalized(&ended);
  *running &= !ended;
  tt_comm_versions_local(text, sizeof text);
  if ((strstr(text, "Open MPI") != NULL) == !strcmp(built_with, "Open MPI")) return TT_OK;
  return TT_FAIL(UNAVAILABLE,
                 "the program uses another MPI library (%s) than tutti and its HDF5, which were "
                 "built with %s",
                 text, built_with);
}

/* The extension of Open MPI, which others have taken over. */
#if defined(MPIX_CUDA_AWARE_SUPPORT) && MPIX_CUDA_AWARE_SUPPORT
int tt_comm_may_take_gpu_memory_local(void) { return 1; }
int tt_comm_takes_gpu_memory_local(void) { return MPIX_Query_cuda_support() == 1; }
#else
int tt_comm_may_take_gpu_memory_local(void) { return 0; }
int tt_comm_takes_gpu_memory_local(void) { return 0; }
#endif
