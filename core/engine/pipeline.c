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

static int64_t layer_cost(const tt_model *m, int layer)
{
  const tt_layer *dense = &m->layer[layer < m->front.layers ? 0 : layer - m->front.layers];
  int64_t products = layer < m->front.layers ? (int64_t)tt_front_products(&m->front.layer[layer])
                                             : dense->in * dense->out;
  int trains = tt_model_rate(m, layer) > 0.0f;
  return (1 + trains + tt_pipeline_has_gradient(m, layer)) * products;
}

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
  int count, first[TT_MAX_STAGES + 1]; /* first layer; of the end too */
  int64_t before[TT_MAX_STAGES + 1];   /* cost of the blocks before */
} blocks;

static void list_blocks(const tt_model *m, blocks *b)
{
  int layers = tt_pipeline_layers(m);
  int64_t cost = 0;
  b->count = 0;
  for (int l = 0; l < layers; l++) {
    if (tt_front_can_cut(&m->front, l)) {
      b->first[b->count] = l;
      b->before[b->count++] = cost;
    }
    cost += layer_cost(m, l);
  }
  b->first[b->count] = layers;
  b->before[b->count] = cost;
}

static int64_t cost_of(const blocks *b, int first, int end)
{
  return b->before[end] - b->before[first];
}

/* The first block after the stage that begins with block `first`. The stage has one block or more:
 * as many as cost at most `most` together. One block is left for each of the `later` stages. */
static int end_of_stage(const blocks *b, int first, int64_t most, int later)
{
  int end = first + 1;
  while (end < b->count - later && cost_of(b, first, end + 1) <= most) end++;
  return end;
}

static int fits(const blocks *b, int stages, int64_t most)
{
  int first = 0;
  for (int s = 0; s < stages; s++) {
    int end = end_of_stage(b, first, most, stages - 1 - s);
    if (cost_of(b, first, end) > most) return 0;
    first = end;
  }
  return first == b->count;
}

/* The smallest largest cost of a stage: by halves, since what fits one cost fits all above. */
static int64_t least_largest_cost(const blocks *b, int stages)
{
  int64_t low = 0, high = cost_of(b, 0, b->count);
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
  blocks b;
  list_blocks(m, &b);
  return used_stages(&b, stages);
}

void tt_pipeline_cut(const tt_model *m, int stages, tt_pipeline_stage *out)
{
  blocks b;
  list_blocks(m, &b);
  int used = used_stages(&b, stages), block = 0;
  int64_t most = least_largest_cost(&b, used);
  for (int s = 0; s < stages; s++) {
    int end = s < used ? end_of_stage(&b, block, most, used - 1 - s) : b.count;
    int first = b.first[block], next = b.first[end];
    int64_t begin = first_param(m, first);
    out[s] = (tt_pipeline_stage){first, next - first, {begin, first_param(m, next) - begin}};
    block = end;
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
  blocks b;
  list_blocks(m, &b);
  int64_t most = tt_pipeline_column_parts(grid, parts);
  double balance = (double)cost_of(&b, 0, b.count) /
                   (double)least_largest_cost(&b, used_stages(&b, grid.stages));
  return balance * (1.0 - tt_pipeline_bubble(grid.stages, most)) * (double)parts / (double)most;
}
