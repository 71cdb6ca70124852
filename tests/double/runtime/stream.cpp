/* stream.cpp — streams, events, capture and graphs. Work is a closure; a stream does it at once,
 * keeps it for later (lazy), or records it (capture). */
#include "tests/double/runtime/core.h"

#include <chrono>
#include <deque>
#include <map>
#include <memory>

using namespace tt_double;

struct event_state {                 /* outlives the event while work refers to it */
  int64_t recorded = 0, reached = 0; /* numbers of the last record asked for and done */
  int64_t captured = 0;              /* the capture that recorded it last; 0: none */
  double ms = 0;
};

struct CUevent_st {
  std::shared_ptr<event_state> state;
};

struct CUgraph_st {
  std::vector<work> nodes;
};

struct CUgraphExec_st {
  std::shared_ptr<const std::vector<work>> nodes;
};

namespace
{
struct item {
  int64_t number; /* counts all work of the program: the order of asking */
  work what;
  std::shared_ptr<event_state> event; /* must have reached `target` before, if not NULL */
  int64_t target;
};
} // namespace

struct CUstream_st {
  bool waits_for_default;
  std::deque<item> queue;
  CUgraph_st *capture; /* NULL: not capturing */
  int64_t number;      /* of the capture, from 1 */
  bool relaxed;        /* its mode */
  bool invalid;        /* it is broken */
};

namespace
{
std::map<int64_t, cudaStream_t> streams; /* by age */
int64_t streams_made, items_made, records_made, captures_made;
std::mt19937_64 random_streams;
bool busy; /* work is being done: it may not ask for more */

bool is_ready(const item &i) { return !i.event || i.event->reached >= i.target; }

/* The next stream among those with work. */
cudaStream_t next_stream()
{
  std::vector<cudaStream_t> ready;
  for (auto &entry : streams)
    if (!entry.second->queue.empty() && is_ready(entry.second->queue.front()))
      ready.push_back(entry.second);
  if (ready.empty()) return nullptr;
  switch (now().threads.kind) {
  case TT_DOUBLE_RANDOM: return ready[random_streams() % ready.size()];
  case TT_DOUBLE_REVERSE: return ready.back();
  case TT_DOUBLE_FORWARD: break;
  }
  cudaStream_t first = ready[0];
  for (cudaStream_t s : ready)
    if (s->queue.front().number < first->queue.front().number) first = s;
  return first;
}

void run_item(cudaStream_t stream)
{
  item i = stream->queue.front();
  stream->queue.pop_front();
  busy = true;
  if (i.what) i.what();
  busy = false;
}

/* Do the work of the streams until `done` holds. */
template <class Condition> void run_until(Condition done)
{
  while (!done()) {
    cudaStream_t next = next_stream();
    if (!next) fail_hard("streams wait for an event that nobody will record");
    run_item(next);
  }
}

bool idle(bool blocking_only)
{
  for (auto &entry : streams)
    if (!entry.second->queue.empty() && (!blocking_only || entry.second->waits_for_default))
      return false;
  return true;
}

bool exists(cudaStream_t stream)
{
  if (!stream) return true;
  for (auto &entry : streams)
    if (entry.second == stream) return true;
  return false;
}

/* What cannot be done while `broken` streams capture: it breaks their captures. */
template <class Condition> cudaError_t break_captures(cudaError_t e, Condition broken)
{
  bool any = false;
  for (auto &entry : streams) {
    cudaStream_t s = entry.second;
    if (!s->capture || !broken(s)) continue;
    s->invalid = any = true;
  }
  return any ? set_last_error(e) : cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, item i)
{
  if (busy) fail_hard("a call of the runtime from inside a kernel");
  if (!exists(stream)) fail_hard("a stream that does not exist (any more)");
  if (!stream) {
    if (cudaError_t e = fail_if_legacy_captures()) return e;
    run_until([] { return idle(true); });
    busy = true;
    if (i.what) i.what();
    busy = false;
    return cudaSuccess;
  }
  if (stream->capture) {
    if (stream->invalid) return set_last_error(cudaErrorStreamCaptureInvalidated);
    if (i.what) stream->capture->nodes.push_back(i.what);
    return cudaSuccess;
  }
  i.number = ++items_made;
  stream->queue.push_back(i);
  if (!now().lazy) run_until([stream] { return stream->queue.empty(); });
  return cudaSuccess;
}

double clock_ms()
{
  std::chrono::duration<double, std::milli> t = std::chrono::steady_clock::now().time_since_epoch();
  return t.count();
}
} // namespace

namespace tt_double
{
cudaError_t submit(cudaStream_t stream, work what)
{
  return enqueue(stream, {0, what, nullptr, 0});
}

void wait_for_all()
{
  run_until([] { return idle(false); });
}

bool is_capturing(cudaStream_t stream) { return stream && stream->capture; }

cudaError_t fail_if_capturing()
{
  return break_captures(cudaErrorStreamCaptureUnsupported,
                        [](cudaStream_t s) { return !s->relaxed; });
}

cudaError_t fail_if_legacy_captures()
{
  return break_captures(cudaErrorStreamCaptureImplicit,
                        [](cudaStream_t s) { return s->waits_for_default; });
}
} // namespace tt_double

/* streams */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
  TT_DOUBLE_ENTER();
  *out = new CUstream_st{flags != cudaStreamNonBlocking, {}, nullptr, 0, false, false};
  streams[++streams_made] = *out;
  counts().streams++;
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
  return cudaStreamCreateWithFlags(out, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
  cudaError_t e = begin_call();
  if (!stream || !exists(stream)) fail_hard("cudaStreamDestroy: not (or no longer) a stream");
  if (stream->capture) fail_hard("cudaStreamDestroy: the stream is still capturing");
  run_until([stream] { return stream->queue.empty(); });
  for (auto it = streams.begin(); it != streams.end(); ++it)
    if (it->second == stream) {
      streams.erase(it);
      break;
    }
  delete stream;
  counts().streams--;
  return e;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
  TT_DOUBLE_ENTER();
  counts().waits++;
  if (!exists(stream)) fail_hard("cudaStreamSynchronize: not (or no longer) a stream");
  cudaError_t e = stream ? break_captures(cudaErrorStreamCaptureUnsupported,
                                          [stream](cudaStream_t s) { return s == stream; })
                         : fail_if_legacy_captures();
  if (e != cudaSuccess) return e;
  if (stream) run_until([stream] { return stream->queue.empty(); });
  if (!stream) run_until([] { return idle(true); });
  return cudaSuccess;
}

/* A stream with work is not ready the first time, and then it is. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
  TT_DOUBLE_ENTER();
  if (!stream || !exists(stream)) fail_hard("cudaStreamQuery: not (or no longer) a stream");
  cudaError_t e = break_captures(cudaErrorStreamCaptureUnsupported,
                                 [stream](cudaStream_t s) { return s == stream; });
  if (e != cudaSuccess || stream->queue.empty()) return e;
  run_until([stream] { return stream->queue.empty(); });
  return set_last_error(cudaErrorNotReady);
}

cudaError_t cudaDeviceSynchronize()
{
  TT_DOUBLE_ENTER();
  counts().waits++;
  cudaError_t e =
      break_captures(cudaErrorStreamCaptureUnsupported, [](cudaStream_t) { return true; });
  if (e != cudaSuccess) return e;
  wait_for_all();
  return cudaSuccess;
}

/* events */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
  TT_DOUBLE_ENTER();
  *out = new CUevent_st{std::make_shared<event_state>()};
  counts().events++;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
  return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
  cudaError_t e = begin_call();
  delete event;
  counts().events--;
  return e;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
  TT_DOUBLE_ENTER();
  std::shared_ptr<event_state> state = event->state;
  state->captured = is_capturing(stream) ? stream->number : 0;
  if (state->captured) return submit(stream, nullptr); /* order inside one stream: nothing */
  int64_t number = state->recorded = ++records_made;
  return submit(stream, [state, number] {
    state->reached = number;
    state->ms = clock_ms();
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
  TT_DOUBLE_ENTER();
  if (is_capturing(stream) && event->state->captured == stream->number)
    return submit(stream, nullptr);
  if (is_capturing(stream))
    return break_captures(cudaErrorStreamCaptureIsolation,
                          [stream](cudaStream_t s) { return s == stream; });
  if (event->state->captured)
    fail_hard("cudaStreamWaitEvent: a second stream in a capture, which the double does not offer");
  return enqueue(stream, {0, nullptr, event->state, event->state->recorded});
}

namespace
{
/* The host looks at an event: not while it belongs to a capture, nor while a stream captures. */
cudaError_t look_at(const event_state &event)
{
  int64_t captured = event.captured;
  if (!captured) return fail_if_capturing();
  break_captures(cudaErrorCapturedEvent,
                 [captured](cudaStream_t s) { return s->number == captured; });
  return set_last_error(cudaErrorCapturedEvent);
}
} // namespace

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
  TT_DOUBLE_ENTER();
  counts().waits++;
  std::shared_ptr<event_state> state = event->state;
  if (cudaError_t e = look_at(*state)) return e;
  run_until([state] { return state->reached >= state->recorded; });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
  TT_DOUBLE_ENTER();
  if (cudaError_t e = look_at(*event->state)) return e;
  return event->state->reached < event->state->recorded ? set_last_error(cudaErrorNotReady)
                                                        : cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
  TT_DOUBLE_ENTER();
  const event_state &a = *from->state, &b = *to->state;
  if (cudaError_t e = look_at(a)) return e;
  if (cudaError_t e = look_at(b)) return e;
  if (!a.recorded || !b.recorded) return set_last_error(cudaErrorInvalidResourceHandle);
  if (a.reached < a.recorded || b.reached < b.recorded) return set_last_error(cudaErrorNotReady);
  *ms = (float)(b.ms - a.ms);
  return cudaSuccess;
}

/* graphs */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
  TT_DOUBLE_ENTER();
  if (!stream) return set_last_error(cudaErrorStreamCaptureUnsupported);
  if (!exists(stream)) fail_hard("cudaStreamBeginCapture: not (or no longer) a stream");
  if (stream->capture) return set_last_error(cudaErrorIllegalState);
  stream->capture = new CUgraph_st;
  stream->number = ++captures_made;
  stream->relaxed = mode == cudaStreamCaptureModeRelaxed;
  stream->invalid = false;
  counts().graphs++;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
  cudaError_t e = begin_call();
  *out = nullptr;
  if (!stream || !stream->capture) return set_last_error(cudaErrorIllegalState);
  CUgraph_st *recorded = stream->capture;
  bool invalid = stream->invalid;
  stream->capture = nullptr;
  stream->invalid = false;
  if (e == cudaSuccess && !invalid) {
    *out = recorded;
    return cudaSuccess;
  }
  delete recorded;
  counts().graphs--;
  return e != cudaSuccess ? e : set_last_error(cudaErrorStreamCaptureInvalidated);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *, size_t *count)
{
  TT_DOUBLE_ENTER();
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                          unsigned long long)
{
  TT_DOUBLE_ENTER();
  *out = new CUgraphExec_st{std::make_shared<const std::vector<work>>(graph->nodes)};
  counts().graphs++;
  if ((int64_t)graph->nodes.size() > counts().largest_graph)
    counts().largest_graph = (int64_t)graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
  TT_DOUBLE_ENTER();
  std::shared_ptr<const std::vector<work>> nodes = graph->nodes;
  return submit(stream, [nodes] {
    device_access open;
    for (const work &node : *nodes) node();
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
  TT_DOUBLE_ENTER();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
  cudaError_t e = begin_call();
  delete graph;
  counts().graphs--;
  return e;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
  cudaError_t e = begin_call();
  delete graph;
  counts().graphs--;
  return e;
}
