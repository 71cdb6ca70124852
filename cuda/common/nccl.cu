/* nccl.cu — tt_device_link_ops by NCCL; see device_link.h. */
#include "cuda/common/nccl.cuh"

#include "core/base/mem.h"
#include "cuda/common/device.cuh"
#include "cuda/common/engine_functions.cuh"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#define LIBRARY "libnccl.so.2"
#define ADVICE "or use run.exchange: host"
enum { SPINS = 10000, PAUSE_MICROSECONDS = 20 }; /* polls before the thread sleeps in between */

struct tt_device_link {
  const tt_nccl *nccl;
  void *comm; /* NULL: broken */
  cudaStream_t stream;
};

static tt_err find_functions(void *library, tt_nccl *out)
{
#define X(name, result, parameters)                                                                \
  out->name = reinterpret_cast<result(*) parameters>(dlsym(library, #name));                       \
  if (!out->name)                                                                                  \
    return TT_FAIL(UNAVAILABLE, "run.exchange: nccl: " LIBRARY " has no " #name                    \
                                ": it is older than NCCL 2.14; load a newer one, " ADVICE);
  TT_NCCL_FUNCTIONS(X)
#undef X
  return TT_OK;
}

static tt_err check_version(tt_nccl *n)
{
  if (n->ncclGetVersion(&n->version) != TT_NCCL_SUCCESS) n->version = 0;
  if (n->version >= TT_NCCL_OLDEST) return TT_OK;
  int after_2_8 = n->version >= 10000, unit = after_2_8 ? 10000 : 1000;
  return TT_FAIL(UNAVAILABLE,
                 "run.exchange: nccl needs NCCL 2.14 or newer, but " LIBRARY
                 " is %d.%d.%d; load a newer one (module, LD_LIBRARY_PATH), " ADVICE,
                 n->version / unit, n->version % unit / 100, n->version % 100);
}

/* Open the library and find its functions, once; it stays open. */
static tt_err load(const tt_nccl **out)
{
  static tt_nccl nccl;
  *out = &nccl;
  if (nccl.version >= TT_NCCL_OLDEST) return TT_OK;
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return TT_FAIL(UNAVAILABLE,
                   "run.exchange: nccl: the library of NCCL cannot be opened: %s; load its module "
                   "or add its folder to LD_LIBRARY_PATH (2.14 or newer), " ADVICE,
                   dlerror());
  TT_TRY(find_functions(library, &nccl));
  return check_version(&nccl);
}

static tt_err version(char *text, int64_t capacity)
{
  const tt_nccl *n;
  TT_TRY(load(&n));
  snprintf(text, (size_t)capacity, "NCCL %d.%d.%d", n->version / 10000, n->version % 10000 / 100,
           n->version % 100);
  return TT_OK;
}

static tt_err fail(const tt_nccl *n, void *comm, int result, const char *call)
{
  return TT_FAIL(
      UNAVAILABLE, "%s: %s of NCCL failed: %s (%s); NCCL_DEBUG=WARN says more; run again, " ADVICE,
      tt_cuda_location(), call, n->ncclGetErrorString(result), n->ncclGetLastError(comm));
}

static tt_err make_id(tt_device_link_id *out)
{
  const tt_nccl *n;
  TT_TRY(load(&n));
  int result = n->ncclGetUniqueId(out);
  return result == TT_NCCL_SUCCESS ? TT_OK : fail(n, NULL, result, "ncclGetUniqueId");
}

/* Count a poll, and wait a little. Returns 1 if another rank has failed. */
static int has_ended(const tt_device_link_watch *watch, int64_t *polls)
{
  if (++*polls > SPINS)
    usleep(PAUSE_MICROSECONDS);
  else
    sched_yield();
  return watch->has_ended(watch->with);
}

/* Wait until NCCL has accepted a call, whose result was `result`. */
static tt_err wait_for_call(const tt_device_link *l, int result, const char *call,
                            const tt_device_link_watch *watch, int *ended)
{
  int64_t polls = 0;
  while (result == TT_NCCL_IN_PROGRESS && !*ended) {
    int error = l->nccl->ncclCommGetAsyncError(l->comm, &result);
    if (error != TT_NCCL_SUCCESS) result = error;
    if (result == TT_NCCL_IN_PROGRESS) *ended = has_ended(watch, &polls);
  }
  return *ended || result == TT_NCCL_SUCCESS ? TT_OK : fail(l->nccl, l->comm, result, call);
}

/* Wait until the messages have arrived. An error of another process or of the network comes from
 * ncclCommGetAsyncError: the kernels of NCCL go on waiting. */
static tt_err wait_for_messages(const tt_device_link *l, const tt_device_link_watch *watch,
                                int *ended)
{
  int64_t polls = 0;
  while (!*ended) {
    int state = TT_NCCL_SUCCESS;
    cudaError_t e = cudaStreamQuery(l->stream);
    if (e == cudaSuccess) return TT_OK;
    if (e != cudaErrorNotReady) return TT_CUDA(e);
    (void)cudaGetLastError(); /* no error, but CUDA remembers it */
    int error = l->nccl->ncclCommGetAsyncError(l->comm, &state);
    if (error == TT_NCCL_SUCCESS) error = state;
    if (error != TT_NCCL_SUCCESS && error != TT_NCCL_IN_PROGRESS)
      return fail(l->nccl, l->comm, error, "an exchange");
    *ended = has_ended(watch, &polls);
  }
  return TT_OK;
}

/* Free the communicator without waiting for the other ranks, also during a call. */
static void break_link(tt_device_link *l)
{
  if (l->comm) (void)l->nccl->ncclCommAbort(l->comm);
  l->comm = NULL;
}

static void close(tt_device_link **l)
{
  if (!*l) return;
  break_link(*l);
  if ((*l)->stream) (void)cudaStreamDestroy((*l)->stream);
  tt_free(*l);
}

static tt_err connect(tt_device_link *l, const tt_device_link_id *id, int ranks, int rank,
                      const tt_device_link_watch *watch, int *ended)
{
  tt_nccl_config config = {sizeof config, TT_NCCL_MAGIC, TT_NCCL_OLDEST, 0};
  TT_TRY(TT_CUDA(cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking)));
  int result = l->nccl->ncclCommInitRankConfig(&l->comm, ranks, *id, rank, &config);
  return wait_for_call(l, result, "ncclCommInitRankConfig", watch, ended);
}

static tt_err open(const tt_device_link_id *id, int device, int ranks, int rank,
                   const tt_device_link_watch *watch, tt_device_link **out)
{
  tt_device_link *l = NULL;
  int ended = 0;
  *out = NULL;
  TT_TRY(TT_CUDA(cudaSetDevice(device)));
  TT_TRY(TT_ALLOC(l, 1));
  tt_err e = load(&l->nccl);
  if (!e) e = connect(l, id, ranks, rank, watch, &ended);
  if (e || ended)
    close(&l);
  else
    *out = l;
  return e;
}

/* Start all messages, as one group of NCCL. */
static tt_err begin(const tt_device_link *l, int64_t count, const tt_device_message *message,
                    const tt_device_link_watch *watch, int *ended)
{
  const tt_nccl *n = l->nccl;
  int first = n->ncclGroupStart();
  if (first != TT_NCCL_SUCCESS) return fail(n, l->comm, first, "ncclGroupStart");
  for (int64_t k = 0; k < count; k++) {
    const tt_device_message *m = &message[k];
    int result =
        m->sends
            ? n->ncclSend(m->data, (size_t)m->bytes, TT_NCCL_INT8, m->rank, l->comm, l->stream)
            : n->ncclRecv(m->data, (size_t)m->bytes, TT_NCCL_INT8, m->rank, l->comm, l->stream);
    if (first == TT_NCCL_SUCCESS && result != TT_NCCL_IN_PROGRESS) first = result;
  }
  int result = n->ncclGroupEnd(); /* after an error too: it closes the group */
  if (first != TT_NCCL_SUCCESS) return fail(n, l->comm, first, "a message");
  return wait_for_call(l, result, "ncclGroupEnd", watch, ended);
}

static tt_err move(tt_device_link *l, int64_t count, const tt_device_message *message,
                   const tt_device_link_watch *watch)
{
  int ended = !l->comm;
  tt_err e = ended || !count ? TT_OK : begin(l, count, message, watch, &ended);
  if (!e && !ended && count) e = wait_for_messages(l, watch, &ended);
  if (e || ended) break_link(l);
  return e;
}

const tt_device_link_ops tt_cuda_link = {version, make_id, open, move, close};
