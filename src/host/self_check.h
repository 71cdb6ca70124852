/* self_check.h — a GPU computes the jobs of src/train/self_check/jobs.h and is compared with the
 * cpu engine, before this build of tutti trains on it for the first time.
 *
 * The result is remembered for the UUID, the driver and the file of the cuda engine, in
 * $XDG_CACHE_HOME/tutti (or ~/.cache/tutti), a file for each. The jobs run in child processes,
 * `tutti check-device`, so that a hang or a crash ends nothing else; in a client of libtutti
 * TUTTI_EXE names this program, and without it only earlier results are known.
 *
 * The result is the record of a path on hardware: of this machine code, driver and GPU. A list of
 * such records in the source would know none of these for most builds. */
#ifndef TT_SELF_CHECK_H
#define TT_SELF_CHECK_H
#include "core/base/json.h"
#include "mpi/comm.h"
#include "src/host/devices.h"

typedef enum tt_self_check_result {
  TT_SELF_CHECK_none, /* the GPU does not have this path in this precision, or was not checked */
  TT_SELF_CHECK_passed,
  TT_SELF_CHECK_unknown, /* no memory, the GPU is busy, or no child that works */
  TT_SELF_CHECK_failed
} tt_self_check_result;

enum { TT_SELF_CHECK_TEXT = 224 };
/* Result for one GPU. Plain bytes without pointers: gathered from all ranks, and the content of a
 * record. */
typedef struct tt_self_check {
  char uuid[96]; /* "": another rank of the node has this GPU, or this rank has none */
  char name[128];
  char versions[256]; /* of the driver and the libraries */
  char engine[17];    /* hash of the file of the cuda engine */
  double seconds;     /* 0: not checked */
  struct {
    tt_self_check_result result;
    char text[TT_SELF_CHECK_TEXT]; /* failed or unknown: why */
  } way[TT_GPU_PATH_WAYS];
} tt_self_check;

/* When to check a GPU: never; without a record; each time. */
typedef enum tt_self_check_when {
  TT_SELF_CHECK_never,
  TT_SELF_CHECK_first,
  TT_SELF_CHECK_again
} tt_self_check_when;

/* Collective. The result for the GPU of this rank, on the first rank of the node that has it. A way
 * that fails is checked twice. The environment variable TUTTI_SELF_CHECK sets the time limit of a
 * way in seconds (default 120); 0: `first` is `never`. Errors: MEM. */
tt_err tt_self_check_gpu(tt_comm *c, const tt_engine_ops *ops, const tt_rank_resources *mine,
                         tt_self_check_when when, tt_self_check *out);

/* Collective. Ways that failed, or that have no result, on any rank: all ranks leave them out, so
 * that no result depends on the rank. Without a check (TT_SELF_CHECK_none) no way is left out. */
tt_gpu_path_check tt_self_check_paths(tt_comm *c, const tt_self_check *mine);

/* A GPU that fails here is not used: this path trains every network, and predicts. */
#define TT_SELF_CHECK_NEEDED TT_GPU_PATH_BIT(TT_GPU_PATH_layered, TT_PRECISION_fp32)

/* Warn of each way that failed; unless quiet, tell the first one that has no result. */
void tt_self_check_log(const tt_self_check *c, int quiet);

json_t *tt_self_check_to_json(const tt_self_check *c); /* for tutti doctor --json */

/* "warp in fp32" */
const char *tt_self_check_way(int way, char text[32]);
#endif
