/* test_stream.cpp — streams, events and graphs: a captured round gives the same bits as a direct
 * one, late execution shows missing waits, operations that cannot be captured are rejected. */
#include "tests/double/rig.h"
#include "tests/double/sample.cuh"

#include <cublas_v2.h>
#include <thread>

enum { N = 200, ROUNDS = 3 };

typedef struct buffers {
  float *a, *b, *c;
  float *pinned; /* [N] */
} buffers;

static buffers make_buffers(void)
{
  buffers x = {on_device(numbers(N)), nullptr, nullptr, nullptr};
  TT_CHECK_OK(tt_dev_alloc(&x.b, N, "b"));
  TT_CHECK_OK(tt_dev_alloc(&x.c, N, "c"));
  TT_CHECK_OK(tt_pinned_alloc(&x.pinned, N, "pinned"));
  return x;
}

static void free_buffers(buffers *x)
{
  tt_dev_free(x->a);
  tt_dev_free(x->b);
  tt_dev_free(x->c);
  tt_pinned_free(x->pinned);
}

/* One round: kernels, copies and a fill, in an order that matters. */
static tt_err put_round(const buffers *x)
{
  sample_args forth = {x->b, x->a, N, 0}, mix = {x->c, x->b, N, 2}, back = {x->a, x->c, N, 0};
  TT_TRY(tt_launch(shift_and_double, 2, 128, 0, dev.stream, forth));
  TT_TRY(tt_launch(neighbors<true>, 1, N, N * sizeof(float), dev.stream, mix));
  TT_TRY(tt_dev_upload(x->c + 190, x->pinned, 10, dev.stream));
  TT_TRY(tt_launch(shift_and_double, 2, 128, 0, dev.stream, back));
  TT_TRY(tt_dev_zero(x->a + 50, 10, dev.stream));
  return tt_dev_copy(x->a, x->b + 100, 25, dev.stream);
}

static uint64_t direct_rounds(void)
{
  buffers x = make_buffers();
  for (int round = 0; round < ROUNDS; round++) {
    x.pinned[3] =
        (float)round; /* the upload of this round reads it: wait before it changes again */
    TT_CHECK_OK(put_round(&x));
    TT_CHECK_OK(tt_stream_synchronize(dev.stream));
  }
  uint64_t hash = hash_of(from_device(x.a, N));
  free_buffers(&x);
  return hash;
}

static uint64_t recorded_rounds(void)
{
  buffers x = make_buffers();
  cudaGraphExec_t graph = nullptr;
  TT_CHECK_OK(tt_graph_begin(dev.stream));
  tt_err e = put_round(&x);
  TT_CHECK_OK(tt_graph_end(dev.stream, &graph));
  TT_CHECK_OK(e);
  TT_CHECK(hash_of(from_device(x.a, N)), ==, hash_of(numbers(N))); /* nothing has run yet */
  for (int round = 0; round < ROUNDS; round++) {
    x.pinned[3] = (float)round;
    TT_CHECK_OK(tt_graph_launch(graph, dev.stream));
    TT_CHECK_OK(tt_stream_synchronize(dev.stream));
  }
  uint64_t hash = hash_of(from_device(x.a, N));
  tt_graph_destroy(&graph);
  tt_graph_destroy(&graph);
  free_buffers(&x);
  return hash;
}

TT_TEST (a_graph_gives_the_bits_of_direct_launches) {
  uint64_t first = direct_rounds();
  for (const schedule &s : schedules) {
    use_schedule(s);
    TT_CHECK(direct_rounds(), ==, first);
    TT_CHECK(recorded_rounds(), ==, first);
  }
  tt_double_reset();
}

/* Calls during a capture and the error that CUDA gives them. */
static cudaEvent_t before, inside; /* recorded before and in the capture */
static cudaStream_t own, blocking; /* not capturing, and capturing if `from_legacy` */
static void *block, *pinned;

static cudaError_t launch_into(cudaStream_t stream)
{
  fill_args a = {static_cast<float *>(block), 2.0f, 1};
  void *list[] = {&a};
  return cudaLaunchKernel(fill, 1, 32, list, 0, stream);
}

typedef struct capture_case {
  const char *what;
  cudaError_t (*call)(cudaStream_t capturing);
  cudaError_t strict, relaxed, from_legacy; /* the last: captured by a blocking stream */
} capture_case;

static const cudaError_t ok = cudaSuccess, bad = cudaErrorStreamCaptureUnsupported,
                         implicit = cudaErrorStreamCaptureImplicit,
                         isolated = cudaErrorStreamCaptureIsolation,
                         captured_event = cudaErrorCapturedEvent;
#define CALL(...) #__VA_ARGS__, [](cudaStream_t s) -> cudaError_t { return (void)s, __VA_ARGS__; }
static const capture_case capture_cases[] = {
    {CALL(launch_into(s)), ok, ok, ok},
    {CALL(launch_into(own)), ok, ok, ok},
    {CALL(launch_into(nullptr)), ok, ok, implicit},
    {CALL(cudaStreamSynchronize(s)), bad, bad, bad},
    {CALL(cudaStreamSynchronize(own)), ok, ok, ok},
    {CALL(cudaStreamSynchronize(nullptr)), ok, ok, implicit},
    {CALL(cudaDeviceSynchronize()), bad, bad, bad},
    {CALL(cudaMalloc(&block, 4)), bad, ok, bad},
    {CALL(cudaFree(block)), bad, ok, bad},
    {CALL(cudaMallocHost(&pinned, 4)), bad, ok, bad},
    {CALL(cudaFreeHost(pinned)), bad, ok, bad},
    {CALL(cudaMemset(block, 0, 4)), bad, ok, implicit},
    {CALL(cudaMemcpy(block, pinned, 4, cudaMemcpyHostToDevice)), bad, ok, implicit},
    {CALL(cudaMemsetAsync(block, 0, 4, s)), ok, ok, ok},
    {CALL(cudaEventQuery(before)), bad, ok, bad},
    {CALL(cudaEventSynchronize(before)), bad, ok, bad},
    {CALL(cudaEventQuery(inside)), captured_event, captured_event, captured_event},
    {CALL(cudaEventSynchronize(inside)), captured_event, captured_event, captured_event},
    {CALL(cudaStreamWaitEvent(s, inside)), ok, ok, ok},
    {CALL(cudaStreamWaitEvent(s, before)), isolated, isolated, isolated},
    {CALL(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal)), cudaErrorIllegalState,
     cudaErrorIllegalState, cudaErrorIllegalState},
};

/* A forbidden call returns its error and breaks the capture; the stream works again after its end. */
static void check_capture(const capture_case *c, cudaStream_t stream, cudaStreamCaptureMode mode,
                          cudaError_t wanted)
{
  cudaGraph_t graph = nullptr;
  TT_CHECK(cudaMalloc(&block, 4), ==, ok);
  TT_CHECK(cudaMallocHost(&pinned, 4), ==, ok);
  TT_CHECK(cudaStreamBeginCapture(stream, mode), ==, ok);
  TT_CHECK(cudaEventRecord(inside, stream), ==, ok);
  void *first = block, *first_pinned = pinned;
  cudaError_t got = c->call(stream);
  if (got != wanted) fprintf(stderr, "%s, mode %d\n", c->what, (int)mode);
  TT_CHECK(got, ==, wanted);
  bool whole = wanted == ok || wanted == cudaErrorIllegalState;
  TT_CHECK(launch_into(stream), ==, whole ? ok : cudaErrorStreamCaptureInvalidated);
  TT_CHECK(cudaStreamEndCapture(stream, &graph), ==,
           whole ? ok : cudaErrorStreamCaptureInvalidated);
  TT_CHECK(graph != nullptr, ==, whole);
  if (graph) cudaGraphDestroy(graph);
  cudaGetLastError();
  TT_CHECK(cudaStreamSynchronize(stream), ==, ok);
  if (strstr(c->what, "cudaFree(") == nullptr || wanted != ok) cudaFree(first);
  if (strstr(c->what, "cudaFreeHost(") == nullptr || wanted != ok) cudaFreeHost(first_pinned);
  if (block && block != first) cudaFree(block);
  if (pinned && pinned != first_pinned) cudaFreeHost(pinned);
}

TT_TEST (what_cuda_forbids_during_a_capture_breaks_it) {
  TT_CHECK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), ==, ok);
  TT_CHECK(cudaStreamCreate(&blocking), ==, ok);
  TT_CHECK(cudaEventCreate(&before), ==, ok);
  TT_CHECK(cudaEventCreate(&inside), ==, ok);
  TT_CHECK(cudaEventRecord(before, own), ==, ok);
  for (const capture_case &c : capture_cases) {
    check_capture(&c, dev.stream, cudaStreamCaptureModeThreadLocal, c.strict);
    check_capture(&c, dev.stream, cudaStreamCaptureModeGlobal, c.strict);
    check_capture(&c, dev.stream, cudaStreamCaptureModeRelaxed, c.relaxed);
    check_capture(&c, blocking, cudaStreamCaptureModeThreadLocal, c.from_legacy);
  }
  cudaGraph_t graph = nullptr;
  TT_CHECK(cudaStreamEndCapture(own, &graph), ==, cudaErrorIllegalState);
  TT_CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), ==, bad);
  cudaGetLastError();
  cudaEventDestroy(before);
  cudaEventDestroy(inside);
  cudaStreamDestroy(own);
  cudaStreamDestroy(blocking);
}

TT_TEST (the_layer_reports_a_broken_capture) {
  float *a = nullptr;
  cudaGraphExec_t graph = nullptr;
  TT_CHECK_OK(tt_graph_begin(dev.stream));
  TT_CHECK(tt_dev_alloc(&a, 1, "in a capture"), ==, TT_E_INTERNAL);
  TT_CHECK(tt_graph_end(dev.stream, &graph), ==, TT_E_INTERNAL);
  TT_CHECK(graph == nullptr, ==, true);
  TT_CHECK_OK(tt_stream_synchronize(dev.stream)); /* the stream works as before */
}

TT_TEST (a_second_host_thread_is_reported) {
  TT_CHECK_DIES("from a second host thread", std::thread([] { cudaDeviceSynchronize(); }).join());
}

TT_TEST (a_captured_product_of_cublas_needs_a_workspace) {
  const float one = 1.0f;
  buffers x = make_buffers();
  cublasHandle_t handle;
  TT_CHECK(cublasCreate(&handle), ==, CUBLAS_STATUS_SUCCESS);
  TT_CHECK(cublasSetStream(handle, dev.stream), ==, CUBLAS_STATUS_SUCCESS);
  TT_CHECK_DIES("without a workspace", {
    (void)tt_graph_begin(dev.stream);
    (void)cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, x.a, 4, 16,
                                    x.b, 4, 16, &one, x.c, 4, 16, 1);
  });
  TT_CHECK(cublasDestroy(handle), ==, CUBLAS_STATUS_SUCCESS);
  free_buffers(&x);
}

TT_TEST (late_execution_shows_a_missing_wait) {
  float back[N], *a = on_device(numbers(N));
  for (int lazy = 0; lazy < 2; lazy++) {
    tt_double_set_lazy(lazy);
    memset(back, 0, sizeof back);
    TT_CHECK_OK(tt_dev_download(back, a, N, dev.stream));
    TT_CHECK(back[7] == numbers(N)[7], ==, !lazy);
    TT_CHECK_OK(tt_stream_synchronize(dev.stream));
    TT_CHECK(back[7], ==, numbers(N)[7]);
  }
  tt_double_reset();
  tt_dev_free(a);
}

/* A value is passed from one stream to another, with or without an event between them. */
static float passed_on(bool wait, const schedule &s)
{
  cudaStream_t other = nullptr;
  cudaEvent_t ready = nullptr;
  float back = 0.0f, *a = nullptr, *b = nullptr;
  use_schedule(s);
  TT_CHECK_OK(TT_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking)));
  TT_CHECK_OK(TT_CUDA(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming)));
  TT_CHECK_OK(tt_dev_alloc(&a, 1, "a"));
  TT_CHECK_OK(tt_dev_alloc(&b, 1, "b"));
  fill_args two = {a, 2.0f, 1};
  sample_args five = {b, a, 1, 0};
  TT_CHECK_OK(tt_launch(fill, 1, 32, 0, dev.stream, two));
  TT_CHECK_OK(TT_CUDA(cudaEventRecord(ready, dev.stream)));
  if (wait) TT_CHECK_OK(TT_CUDA(cudaStreamWaitEvent(other, ready)));
  TT_CHECK_OK(tt_launch(shift_and_double, 1, 32, 0, other, five));
  TT_CHECK_OK(tt_dev_download_sync(&back, b, 1, other));
  TT_CHECK_OK(TT_CUDA(cudaEventSynchronize(ready)));
  cudaEventDestroy(ready);
  cudaStreamDestroy(other);
  tt_dev_free(a);
  tt_dev_free(b);
  tt_double_reset();
  return back;
}

TT_TEST (events_order_streams_and_a_missing_one_shows) {
  for (const schedule &s : schedules) TT_CHECK(passed_on(true, s), ==, 5.0f);
  TT_CHECK(passed_on(false, schedules[0]), ==, 5.0f); /* by chance */
  TT_CHECK(passed_on(false, schedules[1]), ==, 1.0f);
}

TT_SUITE(open_device, close_device)
