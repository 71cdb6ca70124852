/* nccl.cuh — the part of NCCL's interface that tutti calls (nccl.h of NCCL 2.14, and unchanged
 * since): it is opened at run time and is not needed to build. tests/cuda/nccl_abi.cpp compares the
 * declarations with nccl.h. C++17, for .cu files only. */
#ifndef TT_NCCL_CUH
#define TT_NCCL_CUH
#include "core/engine/device_link.h"

#include <cuda_runtime.h>
#include <stddef.h>

enum {
  TT_NCCL_SUCCESS = 0,
  TT_NCCL_IN_PROGRESS = 7, /* of a communicator that does not block */
  TT_NCCL_INT8 = 0,
  TT_NCCL_OLDEST = 21400 /* 2.14: communicators that do not block */
};

/* ncclConfig_t of 2.14; later ones begin with it. */
typedef struct tt_nccl_config {
  size_t size;
  unsigned magic, version;
  int blocking;
} tt_nccl_config;
#define TT_NCCL_MAGIC 0xcafebeefu

/* Name, result, parameters. Results and types are enums there. */
#define TT_NCCL_FUNCTIONS(X)                                                                       \
  X(ncclGetVersion, int, (int *version))                                                           \
  X(ncclGetUniqueId, int, (tt_device_link_id * id))                                                \
  X(ncclCommInitRankConfig, int,                                                                   \
    (void **comm, int ranks, tt_device_link_id id, int rank, tt_nccl_config *config))              \
  X(ncclCommGetAsyncError, int, (void *comm, int *error))                                          \
  X(ncclCommAbort, int, (void *comm))                                                              \
  X(ncclGetErrorString, const char *, (int error))                                                 \
  X(ncclGetLastError, const char *, (void *comm))                                                  \
  X(ncclGroupStart, int, (void))                                                                   \
  X(ncclGroupEnd, int, (void))                                                                     \
  X(ncclSend, int,                                                                                 \
    (const void *src, size_t count, int type, int peer, void *comm, cudaStream_t stream))          \
  X(ncclRecv, int, (void *dst, size_t count, int type, int peer, void *comm, cudaStream_t stream))

typedef struct tt_nccl {
#define X(name, result, parameters) result(*name) parameters;
  TT_NCCL_FUNCTIONS(X)
#undef X
  int version; /* 22809 is 2.28.9 */
} tt_nccl;
#endif
