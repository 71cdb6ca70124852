/* warp_plan.c — see warp_plan.h. */
#include "cuda/plan/warp_plan.h"

#include "cuda/plan/block_plan.h"

#include <inttypes.h>
#include <stdio.h>

enum { MIN_LANES = 4 }; /* then every group of lanes has whole float4 of rows */

static int32_t round_up4(int64_t x) { return (int32_t)((x + 3) / 4 * 4); }

/* 1 if the shape fits; else 0 and the reason in `why`. */
static int check_shape(const tt_model *m, char *why, size_t capacity)
{
  int64_t widest = m->inputs;
  for (int l = 0; l < m->layers; l++) widest = m->layer[l].out > widest ? m->layer[l].out : widest;
  if (m->layers > TT_WARP_MAX_LAYERS)
    snprintf(why, capacity, "%d layers, a warp takes %d", m->layers, TT_WARP_MAX_LAYERS);
  else if (widest > TT_WARP_MAX_WIDTH)
    snprintf(why, capacity, "a layer is %" PRId64 " wide, a warp takes %d", widest,
             TT_WARP_MAX_WIDTH);
  else if (m->params > TT_WARP_MAX_PARAMS)
    snprintf(why, capacity, "%" PRId64 " parameters, a warp takes %d", m->params,
             TT_WARP_MAX_PARAMS);
  else
    return 1;
  return 0;
}

static void assign_param_offsets(const tt_model *m, tt_warp_plan *p)
{
  int32_t used = 0;
  for (int l = 0; l < m->layers; l++) {
    const tt_layer *src = &m->layer[l];
    tt_warp_layer *dst = &p->layer[l];
    int64_t larger = src->in > src->out ? src->in : src->out;
    dst->in = (int32_t)src->in;
    dst->out = (int32_t)src->out;
    dst->source = (int32_t)src->weight;
    dst->stride = dst->in < 4 ? dst->in : round_up4(dst->in);
    dst->weight = used;
    dst->bias = round_up4(used + dst->out * dst->stride);
    dst->by_output = dst->out >= dst->in;
    dst->across = MIN_LANES;
    while (dst->across < larger && dst->across < TT_WARP_LANES) dst->across *= 2;
    used = dst->bias + round_up4(dst->out);
  }
  p->params = used;
}

/* Offsets for R rows at a time. */
static void assign_offsets(const tt_model *m, int32_t rows, tt_warp_plan *p)
{
  int32_t used = TT_WARP_HEADER_FLOATS;
  p->rows = rows;
  p->ld = rows + TT_WARP_PADDING;
#define ASSIGN(field, floats) (p->field = used, used += round_up4(floats))
  ASSIGN(weights, p->params);
  ASSIGN(gradient, p->params);
  ASSIGN(slot, p->slots * p->params);
  ASSIGN(row, TT_WARP_PREFETCH_ROWS);
  ASSIGN(step, (p->lr_varies ? 3 : 2) * TT_WARP_LANES);
  ASSIGN(x, m->inputs * p->ld);
  ASSIGN(y, m->targets * p->ld);
  for (int l = 0; l < p->layers; l++) {
    p->layer[l].input = l ? p->layer[l - 1].output : p->x;
    ASSIGN(layer[l].output, p->layer[l].out * p->ld);
    p->layer[l].slope = p->layer[l].output;
    if (p->stores_slope && l < p->layers - 1) ASSIGN(layer[l].slope, p->layer[l].out * p->ld);
  }
#undef ASSIGN
  p->bytes = (int64_t)sizeof(float) * used;
}

int tt_warp_plan_make(const tt_cohort *c, int64_t shared_bytes, tt_warp_plan *out, char *why,
                      size_t capacity)
{
  const tt_model *m = &c->model;
  if (!check_shape(m, why, capacity)) return 0;
  tt_warp_plan p = {.warps = TT_WARPS_PER_BLOCK,
                    .slots = tt_optimizer_slots(c->optimizer),
                    .layers = m->layers,
                    .lr_varies = tt_cohort_lr_varies(c),
                    .stores_slope = tt_act_grad_needs_input(m->layer[0].activation)};
  assign_param_offsets(m, &p);
  assign_offsets(m, TT_WARP_MAX_ROWS, &p);
  if (c->batch_size <= TT_WARP_LANES || TT_WARPS_PER_MULTIPROCESSOR * p.bytes > shared_bytes)
    assign_offsets(m, TT_WARP_LANES, &p);
  while (p.warps > 1 && p.warps * p.bytes > shared_bytes) p.warps /= 2;
  if (p.bytes > shared_bytes) {
    snprintf(why, capacity, "a warp needs %" PRId64 " bytes of shared memory, a block has %" PRId64,
             p.bytes, shared_bytes);
    return 0;
  }
  *out = p;
  return 1;
}

void tt_path_assess_warp(const tt_cohort *c, const tt_path_context *context, tt_path_verdict *out)
{
  tt_warp_plan plan;
  int64_t work = c->model.params * c->batch_size;
  out->supported = tt_warp_plan_make(c, context->shared_bytes, &plan, out->why, sizeof out->why);
  if (!out->supported) return;
  out->preferred = work <= TT_PATH_WARP_MAX_MACS &&
                   plan.bytes * TT_WARPS_PER_MULTIPROCESSOR <= context->shared_bytes;
  snprintf(out->why, sizeof out->why,
           "%" PRId64 " multiply-adds a batch, %" PRId64 " of %" PRId64
           " KiB of shared memory, %d rows at a time",
           work, (plan.bytes + 1023) / 1024, context->shared_bytes / 1024, (int)plan.rows);
}
