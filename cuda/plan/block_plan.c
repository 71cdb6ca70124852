/* block_plan.c — see block_plan.h.
 *
 * Of all plans that fit, the one with the least time in a simple model of a multiprocessor is
 * chosen. The constants of the model are data sheet values and estimates, except where a comment
 * says that they were measured; a wrong constant costs speed only. */
#include "cuda/plan/block_plan.h"

#include "core/base/int.h"
#include "core/formulas/optimizer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* A multiprocessor, in cycles: each of its four schedulers issues one instruction per cycle. */
enum {
  SCHEDULERS = 4,
  SHARED_LATENCY = 24, /* of shared memory, per step of a product, with one warp per scheduler */
  STORE_TERMS = 3,     /* cost of storing a tile, in inner indices */
  MMA_CYCLES = 4,      /* of a tensor core for 16 x 8 x 8 products */
  MMA_LATENCY = 60,    /* of shared memory and tensor cores, likewise per step */
  SWEEP_LATENCY = 60,  /* from load to store of a value updated in place */
  ACTIVATIONS_PER_CYCLE = 4, /* activations, forward and backward, per cycle */
  UPDATES_PER_CYCLE = 3,     /* parameters updated per cycle */
  FETCH_LATENCY = 2000,      /* of loading rows from device memory */
  BARRIER_CYCLES = 600,      /* barriers of a layer, forward and backward */
  L2_BYTES_PER_CYCLE = 24,   /* per multiprocessor */
  REGISTERS = 65536,
  GROUPS =
      4, /* of rows in a batch at least, if it has enough rows: ranks of a cluster share them */
  RESERVED_BYTES = 1024 /* bytes of shared memory that the driver reserves per block */
};

/* Registers of a kernel by its largest tile. */
static const struct tile {
  int rows, columns, registers;
} tiles[TT_BLOCK_TILE_COUNT] = {{1, 1, 120},   {4, 4, 120},   {8, 4, 128},  {8, 8, 232},
                                {32, 16, 128}, {32, 32, 128}, {32, 64, 200}};

/* Row stride: an odd number of float4, so that eight rows are in different banks. Narrow rows,
 * which are read float by float, are packed. */
static int64_t padded_stride(int64_t width)
{
  return width < 4 ? width : tt_round_up(width, 4) + (tt_round_up(width, 4) % 8 == 0 ? 4 : 0);
}

/* x is read along rows only, except in a few steps of the first layer and by tensor cores. */
static int64_t input_stride(int64_t width, tt_precision precision)
{
  if (precision != TT_PRECISION_fp32) return padded_stride(width);
  return width < 4 ? width : tt_round_up(width, 4);
}

/* Whether tensor cores are of use for a layer. */
static int mma_applies(int64_t in, int64_t out)
{
  return in >= TT_BLOCK_MMA_MIN_WIDTH && out >= TT_BLOCK_MMA_MIN_WIDTH;
}

/* Precision of the kernel: fp32 if no layer can use tensor cores. */
static tt_precision effective_precision(const tt_model *m, tt_precision wanted)
{
  for (int l = 0; l < m->layers; l++)
    if (mma_applies(m->layer[l].in, m->layer[l].out)) return wanted;
  return TT_PRECISION_fp32;
}

/* Size in floats of a plan, before rows and placement are chosen. */
typedef struct footprint {
  int64_t params; /* Q */
  int64_t row;    /* of one row of a batch: x, all layers, y, weight, number */
} footprint;

static footprint footprint_of(const tt_cohort *c, tt_precision precision)
{
  const tt_model *m = &c->model;
  footprint s = {0, input_stride(m->inputs, precision) + m->targets + 2};
  for (int l = 0; l < m->layers; l++) {
    const tt_layer *layer = &m->layer[l];
    int keeps = l < m->layers - 1 && tt_act_grad_needs_input(layer->activation);
    s.params += tt_round_up(layer->out * padded_stride(layer->in), 4) + tt_round_up(layer->out, 4);
    s.row += padded_stride(layer->out) * (keeps ? 2 : 1);
  }
  return s;
}

static int64_t plan_bytes(footprint s, int64_t rows, int64_t vectors)
{
  return (int64_t)sizeof(float) * (TT_BLOCK_HEADER_FLOATS + s.params * vectors + s.row * rows);
}

int64_t tt_block_min_bytes(const tt_cohort *c, tt_precision precision)
{
  return plan_bytes(footprint_of(c, effective_precision(&c->model, precision)), TT_BLOCK_TILE_ROWS,
                    1);
}

/* model of time */

/* `time` of one block alone, and `busy`, the part of it in which the block uses a unit that all
 * blocks share. */
typedef struct cost {
  int64_t time, busy;
} cost;

/* One step of a product: a warp adds `inner` terms to all sums of its tile. Cycles of its
 * scheduler, of shared memory, and the latency of both. */
typedef struct step {
  int64_t inner, issue, reads, wait;
} step;

/* Register tiles read float4; a read of a warp takes 2.44 cycles of shared memory (an H100,
 * bench/kit/micro.cu). Tensor cores add eight terms; a lane reads four numbers for 16 rows and two
 * for 8 columns, half of them with bank conflicts in one of the products, and rounds them. */
static step tile_step_of(int t)
{
  int64_t down = tiles[t].rows, across = tiles[t].columns, numbers = (down + across) / 4;
  if (t < TT_BLOCK_TILE_mma16)
    return (step){1, down * across + tt_ceil_div(down + across, 4), 5 * (down + across) / 8,
                  SHARED_LATENCY};
  int64_t products = down / 16 * (across / 8);
  return (step){8, numbers * 2 + products * MMA_CYCLES, numbers * 3 / 2, MMA_LATENCY};
}

/* One step of as many tiles as there are warps. */
static int64_t wave(int64_t warps, step s)
{
  if (!warps) return 0;
  int64_t deep = tt_ceil_div(warps, SCHEDULERS);
  return tt_max_i64(deep * s.issue, warps * s.reads) + s.wait / deep;
}

/* `items` tiles with `inner` terms each, stored `stores` times, over `warps` warps. */
static cost cost_of(int t, int64_t items, int64_t inner, int64_t stores, int64_t warps)
{
  step s = tile_step_of(t);
  int64_t steps = tt_ceil_div(inner, s.inner) + tt_ceil_div(STORE_TERMS, s.inner) * stores;
  cost c = {steps * (items / warps * wave(warps, s) + wave(items % warps, s)),
            steps * items * tt_max_i64(s.issue, SCHEDULERS * s.reads) / SCHEDULERS};
  return c;
}

/* Columns that a warp covers with 32 rows. */
static int64_t tile_columns(int t)
{
  return t < TT_BLOCK_TILE_mma16 ? tiles[t].rows * tiles[t].columns : tiles[t].columns;
}

static void add(cost *sum, cost c)
{
  sum->time += c.time;
  sum->busy += c.busy;
}

/* Whether a product of a layer may use tile t: a kernel with tensor cores has no large register
 * tiles, and narrow layers use register tiles. */
static int tile_allowed(int t, tt_precision precision, int64_t in, int64_t out, int narrow)
{
  if (t == TT_BLOCK_TILE_1x1) return 1;
  if (narrow) return 0;
  if (t >= TT_BLOCK_TILE_mma16) return precision != TT_PRECISION_fp32 && mma_applies(in, out);
  return precision == TT_PRECISION_fp32 || t == TT_BLOCK_TILE_4x4;
}

/* The best tile of Z = X W^T or, with `turned`, of X = Z W; adds its cost. */
static int8_t pick_product(tt_precision precision, int64_t rows, int64_t in, int64_t out,
                           int transposed, int64_t warps, cost *sum)
{
  int best = TT_BLOCK_TILE_1x1, narrow = transposed && in < 4;
  int64_t inner = transposed ? out : in, columns = transposed ? in : out;
  cost least = {INT64_MAX, 0};
  for (int t = 0; t < TT_BLOCK_TILE_COUNT; t++) {
    if (!tile_allowed(t, precision, in, out, narrow)) continue;
    int64_t items = rows / TT_BLOCK_TILE_ROWS * tt_ceil_div(columns, tile_columns(t));
    cost c = cost_of(t, items, inner, 1, warps);
    if (c.time < least.time) best = t, least = c;
  }
  add(sum, least);
  return (int8_t)best;
}

/* Number of warp tiles of the gradient of the weights: the smallest tile takes 32 consecutive
 * weights. */
static int64_t gradient_tiles(int t, int64_t in, int64_t out)
{
  if (t == TT_BLOCK_TILE_1x1) return tt_ceil_div(in * out, TT_BLOCK_TILE_ROWS);
  return tt_ceil_div(out, TT_BLOCK_TILE_ROWS) * tt_ceil_div(in, tile_columns(t));
}

/* The least groups of a piece. Where a block would have fewer, more of them cost it some stores and
 * barriers; with the gradient in device memory they would cost more. */
static int64_t least_groups(const tt_block_plan *p)
{
  int shared = p->precision == TT_PRECISION_fp32 && p->gradient_shared;
  return shared && p->piece >= GROUPS * TT_BLOCK_TILE_ROWS && GROUPS % p->pieces == 0
             ? GROUPS / p->pieces
             : 1;
}

/* The best tile of the gradient of the weights, and the groups of rows: as many as the warps can
 * sum at the same time, or more; a rank of a cluster has its number. Adds the cost. */
static void pick_gradient(const tt_block_plan *p, tt_block_layer *layer, cost *sum)
{
  tt_precision precision = (tt_precision)p->precision;
  int narrow = layer->in < 4 || layer->out < 4;
  int64_t warps = p->threads / TT_BLOCK_TILE_ROWS, given = layer->groups;
  cost least = {INT64_MAX, 0};
  for (int t = 0; t < TT_BLOCK_TILE_COUNT; t++) {
    if (!tile_allowed(t, precision, layer->in, layer->out, narrow)) continue;
    int64_t items = gradient_tiles(t, layer->in, layer->out), turns = tt_max_i64(1, warps / items);
    int64_t groups = tt_max_i64(turns, least_groups(p));
    if (p->ranks) groups = given, turns = 1;
    cost c = cost_of(t, items * groups, tt_ceil_div(p->rows, groups), turns, warps);
    if (c.time >= least.time) continue;
    least = c;
    layer->gradient = (int8_t)t;
    layer->groups = (int8_t)groups;
  }
  add(sum, least);
  if (!p->ranks) layer->share = (int16_t)(p->piece / layer->groups);
}

/* Tiles and groups of one layer for R rows at a time; adds their cost. */
static void pick_layer(const tt_block_plan *p, int first, tt_block_layer *layer, cost *sum)
{
  tt_precision precision = (tt_precision)p->precision;
  int64_t rows = p->rows, warps = p->threads / TT_BLOCK_TILE_ROWS;
  layer->forward = pick_product(precision, rows, layer->in, layer->out, 0, warps, sum);
  pick_gradient(p, layer, sum);
  layer->backward = layer->forward;
  if (!first) layer->backward = pick_product(precision, rows, layer->in, layer->out, 1, warps, sum);
}

/* `count` values over all threads, `each` of them per cycle. */
static cost sweep_cost(int64_t count, int64_t each, int64_t threads)
{
  cost c = {tt_max_i64(tt_ceil_div(count, 4 * threads) * SWEEP_LATENCY, count / each),
            count / each};
  return c;
}

/* Choose tiles and groups for R rows at a time; the cost of one optimizer step. */
static cost pick_tiles(tt_block_plan *p)
{
  cost sum = {FETCH_LATENCY + BARRIER_CYCLES * p->layers, 0};
  cost update = sweep_cost(p->params / (p->ranks ? p->ranks : 1), UPDATES_PER_CYCLE, p->threads);
  int64_t passes = p->ranks ? 1 : p->pieces, outside = p->slots - p->slots_shared;
  p->largest_tile = TT_BLOCK_TILE_4x4;
  for (int l = 0; l < p->layers; l++) {
    tt_block_layer *layer = &p->layer[l];
    pick_layer(p, l == 0, layer, &sum);
    add(&sum, sweep_cost((int64_t)p->rows * layer->out, ACTIVATIONS_PER_CYCLE, p->threads));
    p->largest_tile = (int32_t)tt_max_i64(
        p->largest_tile, tt_max_i64(layer->forward, tt_max_i64(layer->backward, layer->gradient)));
  }
  int64_t vectors = 2 * outside + (p->gradient_shared ? 0 : 2 * passes);
  int64_t traffic = vectors * p->params * (int64_t)sizeof(float) / L2_BYTES_PER_CYCLE;
  return (cost){passes * sum.time + update.time + traffic,
                passes * sum.busy + update.busy + traffic};
}

/* Time of a step of a block that is alone on its multiprocessor, as in a small ensemble, times
 * the time per step on a multiprocessor full of such blocks, as in a large one, because one plan
 * serves both. A rank of a cluster is always alone. */
static double plan_score(int64_t shared_bytes, tt_block_plan *p)
{
  cost step = pick_tiles(p);
  p->cycles = step.time;
  if (p->ranks) return (double)step.time;
  int64_t blocks = tt_min_i64((shared_bytes + RESERVED_BYTES) / (p->bytes + RESERVED_BYTES),
                              REGISTERS / (p->threads * tiles[p->largest_tile].registers));
  return (double)step.time * (double)tt_max_i64(step.busy, step.time / tt_max_i64(1, blocks));
}

/* placement */

static void assign_param_offsets(const tt_model *m, tt_block_plan *p)
{
  int64_t offset = 0;
  for (int l = 0; l < m->layers; l++) {
    const tt_layer *src = &m->layer[l];
    tt_block_layer *layer = &p->layer[l];
    layer->in = (int32_t)src->in;
    layer->out = (int32_t)src->out;
    layer->source = (int32_t)src->weight;
    layer->stride = (int32_t)padded_stride(src->in);
    layer->weight = (int32_t)offset;
    layer->bias = (int32_t)(offset + tt_round_up(src->out * layer->stride, 4));
    offset = layer->bias + tt_round_up(src->out, 4);
  }
  p->params = (int32_t)offset;
}

/* Offsets in shared memory, for R rows and the chosen placement of slots and gradient. */
static void assign_offsets(const tt_model *m, tt_block_plan *p)
{
  int32_t used = TT_BLOCK_HEADER_FLOATS, rows = p->rows;
#define ASSIGN(field, floats) (p->field = used, used += (int32_t)(floats))
  ASSIGN(weights, p->params);
  ASSIGN(gradient, p->gradient_shared ? p->copies * p->params : 0);
  ASSIGN(slot, p->slots_shared * p->params);
  p->x_ld = (int32_t)input_stride(m->inputs, (tt_precision)p->precision);
  ASSIGN(x, rows * p->x_ld);
  for (int l = 0; l < p->layers; l++) {
    p->layer[l].ld = (int32_t)padded_stride(p->layer[l].out);
    ASSIGN(layer[l].output, rows * p->layer[l].ld);
    p->layer[l].slope = p->layer[l].output;
    if (p->stores_slope && l < p->layers - 1) ASSIGN(layer[l].slope, rows * p->layer[l].ld);
  }
  ASSIGN(y, rows * m->targets);
  ASSIGN(weight, rows);
  ASSIGN(row, rows);
#undef ASSIGN
  p->bytes = (int64_t)sizeof(float) * used;
}

/* Try all numbers of warps for the chosen placement; keep the best plan so far. */
static void try_warps(int64_t shared_bytes, tt_block_plan *p, double *least, tt_block_plan *best)
{
  for (int warps = TT_BLOCK_MAX_WARPS; warps >= 1; warps /= 2) {
    p->threads = warps * TT_BLOCK_TILE_ROWS;
    double score = plan_score(shared_bytes, p);
    if (score >= *least) continue;
    *least = score;
    *best = *p;
  }
}

/* The same for the placement of slots and gradient with most arrays in shared memory. */
static void try_placements(const tt_cohort *c, footprint s, int64_t shared_bytes, tt_block_plan *p,
                           double *least, tt_block_plan *best)
{
  for (int inside = p->slots + 1; inside >= 0; inside--) {
    if (plan_bytes(s, p->rows, 1 + inside) > shared_bytes) continue;
    p->gradient_shared = inside > 0;
    p->slots_shared = inside > 0 ? inside - 1 : 0;
    assign_offsets(&c->model, p);
    try_warps(shared_bytes, p, least, best);
    return;
  }
}

int tt_block_plan_make(const tt_cohort *c, tt_precision precision, int64_t shared_bytes,
                       tt_block_plan *out)
{
  const tt_model *m = &c->model;
  precision = effective_precision(m, precision);
  footprint s = footprint_of(c, precision);
  int64_t previous = INT64_MAX, batch = c->batch_size;
  double least = (double)INFINITY;
  if (plan_bytes(s, TT_BLOCK_TILE_ROWS, 1) > tt_min_i64(shared_bytes, INT32_MAX)) return 0;
  tt_block_plan p = {.slots = tt_optimizer_slots(c->optimizer),
                     .precision = (int32_t)precision,
                     .layers = m->layers,
                     .copies = 1,
                     .stores_slope = tt_act_grad_needs_input(m->layer[0].activation)};
  assign_param_offsets(m, &p);
  for (int64_t n = tt_ceil_div(batch, TT_BLOCK_MAX_ROWS); previous > TT_BLOCK_TILE_ROWS; n++) {
    p.chunk = (int32_t)tt_ceil_div(tt_ceil_div(batch, n), TT_BLOCK_CHUNKS);
    p.piece = TT_BLOCK_CHUNKS * p.chunk;
    p.pieces = (int32_t)tt_ceil_div(batch, p.piece);
    p.rows = (int32_t)tt_round_up(p.piece, TT_BLOCK_TILE_ROWS);
    if (p.rows == previous) continue;
    previous = p.rows;
    try_placements(c, s, shared_bytes, &p, &least, out);
  }
  return 1;
}

int tt_block_plan_make_rank(const tt_cohort *c, const tt_block_plan *alone, int ranks,
                            int64_t shared_bytes, tt_block_plan *out)
{
  tt_block_plan p = *alone;
  double least = (double)INFINITY;
  if (p.precision != TT_PRECISION_fp32 || p.pieces > ranks) return 0;
  p.ranks = ranks;
  p.slots = p.slots_shared = 0;
  p.gradient_shared = 1;
  for (int l = 0; l < p.layers; l++) {
    int groups = p.layer[l].groups * p.pieces;
    if (groups % ranks) return 0;
    p.layer[l].groups = (int8_t)(groups / ranks);
    p.copies = (int32_t)tt_max_i64(p.copies, p.layer[l].groups);
  }
  p.piece = TT_BLOCK_CHUNKS * p.pieces / ranks * p.chunk;
  p.rows = (int32_t)tt_round_up(p.piece, TT_BLOCK_TILE_ROWS);
  if (plan_bytes(footprint_of(c, TT_PRECISION_fp32), p.rows, 1 + p.copies) > shared_bytes) return 0;
  assign_offsets(&c->model, &p);
  try_warps(shared_bytes, &p, &least, out);
  return 1;
}

void tt_block_too_large(int64_t bytes, const tt_path_context *context, tt_path_verdict *out)
{
  snprintf(out->why, sizeof out->why,
           "a member needs %" PRId64 " KiB of shared memory, a block has %" PRId64,
           tt_ceil_div(bytes, 1024), context->shared_bytes / 1024);
}

void tt_path_assess_block(const tt_cohort *c, const tt_path_context *context, tt_path_verdict *out)
{
  tt_block_plan plan;
  out->supported = tt_block_plan_make(c, context->precision, context->shared_bytes, &plan);
  out->preferred = out->supported && c->model.params <= TT_PATH_BLOCK_MAX_PARAMS;
  if (out->supported && !out->preferred)
    snprintf(out->why, sizeof out->why,
             "a member needs more than one block: %" PRId64 " parameters, at most %d",
             c->model.params, (int)TT_PATH_BLOCK_MAX_PARAMS);
  else if (out->supported)
    snprintf(out->why, sizeof out->why,
             "%" PRId64 " of %" PRId64 " KiB of shared memory, %d rows at a time",
             tt_ceil_div(plan.bytes, 1024), context->shared_bytes / 1024, (int)plan.rows);
  else
    tt_block_too_large(tt_block_min_bytes(c, context->precision), context, out);
}
