/* step_graphs.cu — steps of the layered path as graphs of 1 to 32 steps, up to the next end of an
 * epoch of any member. All counters are on the device, so that the same graphs serve every batch
 * and the host reads the counters only at ends of epochs. */
#include "cuda/layered/layered_internal.cuh"

/* Several steps with the next rows, or with rows from the host, each with its own buffers. */
static tt_err run_steps(tt_engine *e, int64_t steps, int from_host)
{
  for (int64_t k = 0; k < steps; k++) TT_TRY(tt_layered_run_step(e, from_host ? k : 0));
  return TT_OK;
}

static tt_err capture_steps(tt_engine *e, int steps, cudaGraphExec_t *out, int64_t *nodes)
{
  return tt_graph_capture(
      e->dev.stream, [&] { return run_steps(e, steps, 0); }, out, nodes);
}

/* Capture one step, and choose the number of graphs so that none has too many operations. */
static tt_err capture_first_graph(tt_engine *e)
{
  tt_layered *own = tt_layered_of(e);
  int64_t nodes;
  TT_TRY(capture_steps(e, 1, &own->graph[0], &nodes));
  own->graphs = 1;
  while (own->graphs < TT_LAYERED_GRAPHS && nodes << own->graphs <= TT_LAYERED_GRAPH_NODES)
    own->graphs++;
  return TT_OK;
}

int tt_layered_fits_graph(const tt_engine *e)
{
  const tt_model *m = &e->cohort->model;
  int64_t operations = e->cohort->parts * (4 * m->front.layers + 3 * m->layers + 2);
  return operations <= TT_LAYERED_GRAPH_NODES;
}

/* The first step runs without a graph: CUDA loads kernels at their first use, which cannot be
 * captured. */
tt_err tt_layered_run_steps(tt_engine *e, int64_t steps)
{
  tt_layered *own = tt_layered_of(e);
  if (own->row_stream || !tt_layered_fits_graph(e)) return run_steps(e, steps, 1);
  if (!own->warmed_up && steps > 0) {
    TT_TRY(tt_layered_run_step(e, 0));
    own->warmed_up = 1;
    steps--;
  }
  if (!own->graphs && steps > 0) TT_TRY(capture_first_graph(e));
  for (int k = own->graphs - 1; k >= 0; k--)
    for (; steps >= (int64_t)1 << k; steps -= (int64_t)1 << k) {
      if (!own->graph[k]) TT_TRY(capture_steps(e, 1 << k, &own->graph[k], NULL));
      TT_TRY(tt_graph_launch(own->graph[k], e->dev.stream));
    }
  return TT_OK;
}
