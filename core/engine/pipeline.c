/* pipeline.c — see pipeline.h. */
#include "core/engine/pipeline.h"

int tt_pipeline_layers(const tt_model *m) { return m->front.layers + m->layers; }

int64_t tt_pipeline_values(const tt_model *m, int layer)
{
  if (layer < m->front.layers) return tt_front_values_in(&m->front.layer[layer]);
  if (layer < tt_pipeline_layers(m)) return m->layer[layer - m->front.layers].in;
  return m->outputs;
}

int tt_pipeline_has_gradient(const tt_model *m, int layer) { return tt_model_frozen(m) < layer; }

/* The first of the parameters of this layer and of those behind it. */
static int64_t first_param(const tt_model *m, int layer)
{
  int64_t params = 0;
  if (layer == tt_pipeline_layers(m)) return m->params;
  if (layer >= m->front.layers) return m->layer[layer - m->front.layers].weight;
  for (int l = 0; l < layer; l++) params += tt_front_layer_params(&m->front.layer[l]);
  return params;
}

/* The network as blocks of layers that stay together. */
typedef struct blocks {
  const tt_model *m;
  int layers, frozen, count; /* count: blocks */
} blocks;

static int next_block(const blocks *b, int layer)
{
  do layer++;
  while (!tt_front_can_cut(&b->m->front, layer));
  return layer;
}

static blocks find_blocks(const tt_model *m)
{
  blocks b = {.m = m, .layers = tt_pipeline_layers(m), .frozen = tt_model_frozen(m)};
  for (int l = 0; l < b.layers; l = next_block(&b, l)) b.count++;
  return b;
}

static int64_t layer_cost(const blocks *b, int layer)
{
  const tt_model *m = b->m;
  const tt_layer *dense = &m->layer[layer < m->front.layers ? 0 : layer - m->front.layers];
  int64_t products = layer < m->front.layers ? (int64_t)tt_front_products(&m->front.layer[layer])
                                             : dense->in * dense->out;
  int trains = tt_model_rate(m, layer) > 0.0f;
  return (1 + trains + (b->frozen < layer)) * products;
}

static int64_t cost_of(const blocks *b, int first, int end)
{
  int64_t cost = 0;
  for (int l = first; l < end; l++) cost += layer_cost(b, l);
  return cost;
}

/* A stage while the layers are walked through: its layers and cost; blocks behind it. */
typedef struct walk {
  int first, end, left;
  int64_t cost;
} walk;

static walk before_first(const blocks *b) { return (walk){.left = b->count}; }

/* The stage behind `w`. It has one block or more: as many as cost at most `most` together. One
 * block is left for each of the `later` stages. */
static walk next_stage(const blocks *b, walk w, int64_t most, int later)
{
  walk next = {w.end, w.end, w.left, 0};
  while (next.left > later) {
    int end = next_block(b, next.end);
    int64_t cost = next.cost + cost_of(b, next.end, end);
    if (next.end > next.first && cost > most) break;
    next = (walk){next.first, end, next.left - 1, cost};
  }
  return next;
}

static int fits(const blocks *b, int stages, int64_t most)
{
  walk w = before_first(b);
  for (int s = 0; s < stages; s++) {
    w = next_stage(b, w, most, stages - 1 - s);
    if (w.cost > most) return 0;
  }
  return w.left == 0;
}

/* The smallest largest cost of a stage: by halves, since what fits one cost fits all above. */
static int64_t least_largest_cost(const blocks *b, int stages)
{
  int64_t low = 0, high = cost_of(b, 0, b->layers);
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (fits(b, stages, middle))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

static int used_stages(const blocks *b, int stages)
{
  return stages < b->count ? stages : b->count;
}

int tt_pipeline_used(const tt_model *m, int stages)
{
  blocks b = find_blocks(m);
  return used_stages(&b, stages);
}

void tt_pipeline_cut(const tt_model *m, int stages, tt_pipeline_stage *out)
{
  blocks b = find_blocks(m);
  int used = used_stages(&b, stages);
  int64_t most = least_largest_cost(&b, used);
  walk w = before_first(&b);
  for (int s = 0; s < stages; s++) {
    w = next_stage(&b, w, most, s < used ? used - 1 - s : 0);
    int64_t begin = first_param(m, w.first);
    out[s] = (tt_pipeline_stage){w.first, w.end - w.first, {begin, first_param(m, w.end) - begin}};
  }
}

tt_pipeline_grid tt_pipeline_grid_of(const tt_model *m, int stages, int ranks)
{
  int most = stages < ranks ? stages : ranks;
  int used = tt_pipeline_used(m, most > 1 ? most : 1);
  return (tt_pipeline_grid){used, ranks / used};
}

tt_pipeline_place tt_pipeline_place_of(const tt_model *m, tt_pipeline_grid grid, int64_t parts,
                                       int rank)
{
  tt_pipeline_stage stage[TT_MAX_STAGES];
  int stage_number = rank / grid.columns, column = rank % grid.columns;
  if (stage_number >= grid.stages)
    return (tt_pipeline_place){
        -1, -1, {tt_pipeline_layers(m), 0, {m->params, 0}}, {parts, 0}, {m->params, 0}};
  tt_pipeline_cut(m, grid.stages, stage);
  return (tt_pipeline_place){stage_number, column, stage[stage_number],
                             tt_part_slice(parts, grid.columns, column),
                             tt_part_segment_of(stage[stage_number].params, grid.columns, column)};
}

int64_t tt_pipeline_window(int stages, int stage, int64_t parts)
{
  int64_t window = stages - stage;
  if (parts < 1) return 1;
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

int64_t tt_pipeline_column_parts(tt_pipeline_grid grid, int64_t parts)
{
  return (parts + grid.columns - 1) / grid.columns;
}

double tt_pipeline_speedup(const tt_model *m, tt_pipeline_grid grid, int64_t parts)
{
  blocks b = find_blocks(m);
  int64_t most = tt_pipeline_column_parts(grid, parts);
  double balance = (double)cost_of(&b, 0, b.layers) /
                   (double)least_largest_cost(&b, used_stages(&b, grid.stages));
  return balance * (1.0 - tt_pipeline_bubble(grid.stages, most)) * (double)parts / (double)most;
}
