/* pipeline.c — see pipeline.h. */
#include "core/engine/pipeline.h"

static int64_t layer_cost(const tt_model *m, int l)
{
  return (l == 0 ? 2 : 3) * m->layer[l].in * m->layer[l].out;
}

static int64_t cost_of(const tt_model *m, int first, int end)
{
  int64_t sum = 0;
  for (int l = first; l < end; l++) sum += layer_cost(m, l);
  return sum;
}

/* The first layer after the stage that begins with layer `first`. The stage has one layer or more:
 * as many as cost at most `most` together. One layer is left for each of the `later` stages. */
static int end_of_stage(const tt_model *m, int first, int64_t most, int later)
{
  int end = first + 1;
  while (end < m->layers - later && cost_of(m, first, end + 1) <= most) end++;
  return end;
}

static int fits(const tt_model *m, int stages, int64_t most)
{
  int first = 0;
  for (int s = 0; s < stages; s++) {
    int end = end_of_stage(m, first, most, stages - 1 - s);
    if (cost_of(m, first, end) > most) return 0;
    first = end;
  }
  return first == m->layers;
}

/* The smallest largest cost of a stage: the cost of some contiguous layers. */
static int64_t least_largest_cost(const tt_model *m, int stages)
{
  int64_t best = cost_of(m, 0, m->layers);
  for (int first = 0; first < m->layers; first++)
    for (int end = first + 1; end <= m->layers; end++) {
      int64_t cost = cost_of(m, first, end);
      if (cost < best && fits(m, stages, cost)) best = cost;
    }
  return best;
}

int tt_pipeline_used(const tt_model *m, int stages)
{
  return stages < m->layers ? stages : m->layers;
}

void tt_pipeline_cut(const tt_model *m, int stages, tt_pipeline_stage *out)
{
  int used = tt_pipeline_used(m, stages), first = 0;
  int64_t most = least_largest_cost(m, used);
  for (int s = 0; s < stages; s++) {
    int end = s < used ? end_of_stage(m, first, most, used - 1 - s) : m->layers;
    int64_t begin = first < m->layers ? m->layer[first].weight : m->params;
    int64_t next = end < m->layers ? m->layer[end].weight : m->params;
    out[s] = (tt_pipeline_stage){first, end - first, {begin, next - begin}};
    first = end;
  }
}

int64_t tt_pipeline_window(int stages, int stage, int64_t parts)
{
  int64_t window = stages - stage;
  return window < parts ? window : parts;
}

int tt_pipeline_is_forward(int64_t parts, int64_t window, int64_t forward, int64_t backward)
{
  return forward < parts && forward - backward < window;
}

double tt_pipeline_bubble(int stages, int64_t parts)
{
  return (double)(stages - 1) / (double)(parts + stages - 1);
}

double tt_pipeline_speedup(const tt_model *m, int stages, int64_t parts)
{
  int used = tt_pipeline_used(m, stages);
  double balance = (double)cost_of(m, 0, m->layers) / (double)least_largest_cost(m, used);
  return balance * (1.0 - tt_pipeline_bubble(used, parts));
}
