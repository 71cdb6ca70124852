/* test_stream.cpp — streams, events and graphs: a captured round gives the same bits as a direct
 * one, late execution shows missing waits, operations that cannot be captured are rejected. */
#include "tests/double/rig.h"
#include "tests/double/sample.cuh"

enum { N = 200, ROUNDS = 5 };

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

/* One round: kernel, product, kernel, copy and fill, in an order that matters. */
static tt_err put_round(const buffers *x)
{
  const float one = 1.0f, half = 0.5f;
  sample_args forth = {x->b, x->a, N, 0}, back = {x->a, x->c, N, 0};
  TT_TRY(tt_launch(shift_and_double, 2, 128, 0, dev.stream, forth));
  TT_TRY(TT_CUBLAS(cublasSgemm(dev.blas, CUBLAS_OP_N, CUBLAS_OP_T, 10, 10, 20, &half, x->b, 10,
                               x->b, 10, &one, x->c, 10)));
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

TT_TEST (what_a_graph_cannot_hold_breaks_the_capture) {
  for (int what = 0; what < 4; what++) {
    float *a = nullptr, *kept = nullptr;
    cudaGraphExec_t graph = nullptr;
    TT_CHECK_OK(tt_dev_alloc(&kept, 1, "kept"));
    TT_CHECK_OK(tt_graph_begin(dev.stream));
    tt_err e = what == 0   ? tt_dev_alloc(&a, 1, "in a capture")
               : what == 1 ? tt_stream_synchronize(dev.stream)
               : what == 2 ? TT_CUDA(cudaMemset(kept, 0, 4))
                           : TT_CUDA(cudaDeviceSynchronize());
    TT_CHECK(e, ==, TT_E_INTERNAL);
    TT_CHECK(tt_graph_end(dev.stream, &graph), ==, TT_E_INTERNAL);
    TT_CHECK(graph == nullptr, ==, true);
    TT_CHECK_OK(tt_stream_synchronize(dev.stream)); /* the stream works as before */
    tt_dev_free(kept);
  }
}

TT_TEST (a_captured_product_needs_a_workspace) {
  buffers x = make_buffers();
  TT_CHECK(cublasSetStream(dev.blas, dev.stream), ==, CUBLAS_STATUS_SUCCESS); /* forgets it */
  TT_CHECK_OK(put_round(&x));
  TT_CHECK_DIES("without a workspace", {
    (void)tt_graph_begin(dev.stream);
    (void)put_round(&x);
  });
  TT_CHECK_OK(TT_CUBLAS(cublasSetWorkspace(dev.blas, dev.workspace, 1 << 20)));
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

static int open_with_blas(void **state)
{
  return open_device(state) || tt_dev_open_blas(&dev) ? -1 : 0;
}

TT_SUITE(open_with_blas, close_device)
