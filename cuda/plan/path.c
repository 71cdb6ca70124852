/* path.c — see path.h. */
#include "cuda/plan/path.h"

#include <stdio.h>
#include <string.h>

/* A row of TT_GPU_PATHS. */
typedef struct path_row {
  int automatic, fused;
  tt_precision precision; /* it has this one and those before it */
  int capability;
  void (*assess)(const tt_cohort *c, const tt_path_context *on, tt_path_verdict *out);
} path_row;
static const path_row rows[TT_GPU_PATH_COUNT] = {{0},
#define X(name, automatic, fused, precision, capability)                                           \
  {automatic, fused, TT_PRECISION_##precision, capability, tt_path_assess_##name},
                                                 TT_GPU_PATHS(X)
#undef X
};

int tt_path_min_capability(tt_gpu_path path) { return rows[path].capability; }

void tt_path_assess_layered(const tt_cohort *c, const tt_path_context *context,
                            tt_path_verdict *out)
{
  (void)c;
  (void)context;
  out->supported = out->preferred = 1;
}

static int has_failed(const tt_path_context *context, int path)
{
  return (context->check.failed & TT_GPU_PATH_BIT(path, context->precision)) != 0;
}

static tt_path_verdict assess(const tt_cohort *c, const tt_path_context *context, int path)
{
  const path_row *row = &rows[path];
  const char *not_fused = row->fused ? tt_cohort_needs_layered(c) : NULL;
  tt_path_verdict v = {0};
  if (not_fused)
    snprintf(v.why, sizeof v.why, "%s", not_fused);
  else if (context->capability < row->capability)
    snprintf(v.why, sizeof v.why,
             "it needs a GPU of compute capability %d.%d or newer, this one has %d.%d",
             row->capability / 10, row->capability % 10, context->capability / 10,
             context->capability % 10);
  else if (context->precision > row->precision)
    snprintf(v.why, sizeof v.why, "it trains in fp32 only, not in %s",
             tt_choice_precision[context->precision]);
  else if (has_failed(context, path))
    snprintf(v.why, sizeof v.why,
             "it has not passed the self-check in %s on this GPU (tutti doctor)",
             tt_choice_precision[context->precision]);
  else
    row->assess(c, context, &v);
  return v;
}

/* The layered path accepts every cohort, and a GPU on which it fails the self-check in fp32 is not
 * used; `why` is the reason of the path before it. */
static void choose_by_shape(const tt_cohort *c, const tt_path_context *context, tt_path_choice *out)
{
  for (int path = TT_GPU_PATH_auto + 1; path < TT_GPU_PATH_COUNT; path++) {
    if (!rows[path].automatic) continue;
    tt_path_context here = *context;
    if (here.precision > rows[path].precision || has_failed(&here, path))
      here.precision = TT_PRECISION_fp32;
    tt_path_verdict v = assess(c, &here, path);
    if (*v.why) memcpy(out->why, v.why, sizeof v.why);
    out->path = (tt_gpu_path)path;
    out->precision = here.precision;
    if (v.supported && v.preferred) break;
  }
}

/* The cluster path gives the bits of the block path, so the number of members may decide. */
static void choose_by_members(const tt_cohort *c, const tt_path_context *context,
                              tt_path_choice *out)
{
  if (out->path != TT_GPU_PATH_block) return;
  tt_path_verdict v = assess(c, context, TT_GPU_PATH_cluster);
  if (!v.supported || !v.preferred) return;
  out->path = TT_GPU_PATH_cluster;
  out->ranks = v.ranks;
  memcpy(out->why, v.why, sizeof v.why);
}

tt_precision tt_path_precision(const tt_cohort *c, tt_precision wanted)
{
  const tt_model *m = &c->model;
  int64_t least = TT_PATH_TENSOR_MIN_WIDTH;
  for (int l = 0; l < m->layers; l++)
    if (m->layer[l].in >= least && m->layer[l].out >= least) return wanted;
  for (int i = 0; i < m->front.layers; i++) {
    const tt_front_layer *l = &m->front.layer[i];
    if (l->kind == TT_FRONT_conv && tt_front_fan_in(l) >= least && l->channels / l->groups >= least)
      return wanted;
  }
  return TT_PRECISION_fp32;
}

/* With the precision that is faster for the shape. */
static void choose_automatically(const tt_cohort *c, const tt_path_context *wanted,
                                 tt_path_choice *out)
{
  tt_path_context context = *wanted;
  context.precision = tt_path_precision(c, wanted->precision);
  context.check.failed |=
      context.check.unproven & ~TT_GPU_PATH_BIT(TT_GPU_PATH_layered, TT_PRECISION_fp32);
  out->ranks = 0;
  choose_by_shape(c, &context, out);
  choose_by_members(c, &context, out);
  size_t used = strlen(out->why);
  if (context.precision != wanted->precision)
    snprintf(out->why + used, sizeof out->why - used, "; in fp32, which is faster below %d x %d",
             TT_PATH_TENSOR_MIN_WIDTH, TT_PATH_TENSOR_MIN_WIDTH);
}

tt_err tt_path_choose(const tt_cohort *c, const tt_path_context *context, tt_gpu_path wanted,
                      tt_path_choice *out)
{
  if (wanted == TT_GPU_PATH_auto) {
    choose_automatically(c, context, out);
    return TT_OK;
  }
  tt_path_verdict v = assess(c, context, wanted);
  if (!v.supported)
    return TT_FAIL(UNAVAILABLE,
                   "TUTTI_GPU_PATH: %s cannot train these members: %s; remove the variable",
                   tt_choice_gpu_kernel[wanted], v.why);
  out->path = wanted;
  out->ranks = v.ranks;
  out->precision = context->precision;
  int used = snprintf(out->why, sizeof out->why, "as TUTTI_GPU_PATH says");
  if (v.ranks)
    snprintf(out->why + used, sizeof out->why - (size_t)used, ", %d block%s for each member",
             v.ranks, v.ranks == 1 ? "" : "s");
  return TT_OK;
}
