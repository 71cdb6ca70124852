/* test_path.c — the choice of the GPU path: a table of shapes, and what the choice may depend on.
 */
#include "tests/support/check.h"
#include "tests/support/plain_model.h"

#include "cuda/plan/block_plan.h"
#include "cuda/plan/cluster_plan.h"
#include "cuda/plan/path.h"
#include "cuda/plan/warp_plan.h"

#include <string.h>

enum { H200 = 232448, A100 = 166912, ADA = 101376 }; /* bytes of shared memory a block can have */

typedef struct shape {
  int64_t inputs, targets, hidden[5], layers;
  tt_optimizer optimizer;
  tt_loss loss;
  int64_t batch, shared;
  tt_gpu_path path;
} shape;

#define ADAM TT_OPT_adam
#define ADAMW TT_OPT_adamw
#define SGD TT_OPT_sgd
#define MSE TT_LOSS_mse
#define NLL TT_LOSS_gaussian_nll

static const shape shapes[] = {
    /* tiny networks on small batches: warp */
    {1, 1, {0}, 0, ADAM, MSE, 1, ADA, TT_GPU_PATH_warp},
    {1, 1, {1}, 1, SGD, MSE, 1, ADA, TT_GPU_PATH_warp},
    {4, 1, {16}, 1, ADAM, MSE, 64, ADA, TT_GPU_PATH_warp},
    {4, 1, {16}, 1, ADAM, MSE, 64, H200, TT_GPU_PATH_warp},
    {6, 1, {8, 8}, 2, ADAM, NLL, 32, ADA, TT_GPU_PATH_warp},
    {8, 2, {16, 16}, 2, ADAMW, MSE, 64, H200, TT_GPU_PATH_warp},
    {8, 1, {32}, 1, ADAM, MSE, 100, H200, TT_GPU_PATH_warp},
    {6, 1, {8, 8, 8, 8}, 4, ADAM, NLL, 64, H200, TT_GPU_PATH_warp},
    /* small ones on every GPU: block; also tiny ones with work for several warps, or with too many
     * arrays for many warps in one multiprocessor */
    {4, 1, {16}, 1, ADAM, MSE, 100000, ADA, TT_GPU_PATH_block},
    {4, 1, {16}, 1, ADAM, MSE, 512, ADA, TT_GPU_PATH_block},
    {8, 1, {16, 16}, 2, ADAM, MSE, 256, ADA, TT_GPU_PATH_block},
    {8, 1, {32}, 1, ADAM, MSE, 100, ADA, TT_GPU_PATH_block},
    {8, 1, {65}, 1, ADAM, MSE, 16, H200, TT_GPU_PATH_block},
    {6, 1, {8, 8, 8, 8, 8}, 5, ADAM, NLL, 64, H200, TT_GPU_PATH_block},
    {8, 1, {32, 32}, 2, ADAM, MSE, 256, ADA, TT_GPU_PATH_block},
    {8, 1, {32, 32}, 2, ADAMW, NLL, 256, H200, TT_GPU_PATH_block},
    {8, 3, {32, 32, 32, 32}, 4, ADAM, NLL, 256, H200, TT_GPU_PATH_block},
    {8, 1, {64, 64}, 2, ADAM, MSE, 256, H200, TT_GPU_PATH_block},
    {8, 1, {64, 64}, 2, SGD, MSE, 256, A100, TT_GPU_PATH_block},
    {8, 1, {64, 64}, 2, ADAM, MSE, 32, ADA, TT_GPU_PATH_block},
    {16, 2, {64, 64, 64}, 3, ADAM, NLL, 256, H200, TT_GPU_PATH_block},
    {16, 1, {96, 96}, 2, ADAM, MSE, 256, H200, TT_GPU_PATH_block},
    {16, 1, {128, 128}, 2, ADAM, MSE, 256, H200, TT_GPU_PATH_block},
    {16, 1, {128, 128}, 2, SGD, MSE, 1024, H200, TT_GPU_PATH_block},
    {500, 1, {32}, 1, ADAM, MSE, 64, H200, TT_GPU_PATH_block},
    /* wide or deep ones: layered; smaller ones too on devices with less shared memory */
    {16, 1, {128, 128}, 2, ADAM, MSE, 256, ADA, TT_GPU_PATH_layered},
    {16, 1, {192, 192}, 2, ADAM, MSE, 256, A100, TT_GPU_PATH_layered},
    {16, 1, {192, 192}, 2, ADAM, MSE, 512, H200, TT_GPU_PATH_layered},
    {16, 1, {256, 256}, 2, ADAM, MSE, 256, H200, TT_GPU_PATH_layered},
    {32, 10, {256, 256, 256}, 3, ADAM, MSE, 512, H200, TT_GPU_PATH_layered},
    {32, 10, {256, 256, 256}, 3, SGD, MSE, 1, H200, TT_GPU_PATH_layered},
    {16, 1, {128, 128, 128, 128}, 4, ADAM, MSE, 256, H200, TT_GPU_PATH_layered},
    {8, 1, {2048}, 1, ADAM, MSE, 256, H200, TT_GPU_PATH_layered},
    {8, 1, {512, 512}, 2, ADAM, NLL, 64, H200, TT_GPU_PATH_layered},
    {2000, 1, {32}, 1, ADAM, MSE, 64, H200, TT_GPU_PATH_layered},
    {4000, 1, {0}, 0, SGD, MSE, 64, H200, TT_GPU_PATH_layered},
    {64, 800, {16}, 1, ADAM, NLL, 64, H200, TT_GPU_PATH_layered},
    {8, 1, {64, 64}, 2, ADAM, MSE, 256, 32 * 1024, TT_GPU_PATH_layered},
    {4, 1, {16}, 1, ADAM, MSE, 64, 4 * 1024, TT_GPU_PATH_layered},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

enum { MEMBERS = 100 };
static tt_member plain[4 * MEMBERS];

static tt_cohort cohort_of(const shape *s)
{
  tt_cohort c = {.optimizer = s->optimizer,
                 .loss = s->loss,
                 .batch_size = s->batch,
                 .members = MEMBERS,
                 .member = plain};
  tt_output output = s->loss == TT_LOSS_mse ? TT_OUTPUT_mean : TT_OUTPUT_mean_variance;
  TT_CHECK_OK(
      tt_model_plain(s->inputs, s->targets, s->hidden, s->layers, TT_ACT_tanh, output, &c.model));
  return c;
}

static tt_path_choice choose_in(const shape *s, int precision)
{
  tt_path_choice got;
  tt_cohort c = cohort_of(s);
  tt_path_context context = {.shared_bytes = s->shared, .precision = (tt_precision)precision};
  TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_auto, &got));
  return got;
}

static tt_path_choice choose(const shape *s) { return choose_in(s, TT_PRECISION_fp32); }

TT_TEST (every_shape_has_the_path_of_the_table) {
  for (int i = 0; i < SHAPES; i++) {
    tt_cohort c = cohort_of(&shapes[i]);
    tt_path_choice got = choose(&shapes[i]);
    fprintf(stderr, "  %2d %7d parameters, batch %6d, %3d KiB: %s, %s\n", i, (int)c.model.params,
            (int)c.batch_size, (int)(shapes[i].shared / 1024), tt_choice_gpu_kernel[got.path],
            got.why);
    TT_CHECK((int)got.path, ==, (int)shapes[i].path);
    if (c.model.params <= TT_PATH_BLOCK_MAX_PARAMS || shapes[i].shared != H200)
      TT_CHECK_HAS(got.why, "of shared memory");
    TT_CHECK_HAS(got.why, got.path == TT_GPU_PATH_layered ? "a member needs" : "rows at a time");
    if (got.path == TT_GPU_PATH_warp) TT_CHECK_HAS(got.why, "multiply-adds a batch");
  }
}

/* The limit of the warp path is the work of a batch: one more row exceeds it. */
TT_TEST (the_limit_of_a_warp_is_its_work) {
  for (int i = 0; i < SHAPES; i++) {
    shape s = shapes[i];
    tt_cohort c = cohort_of(&s);
    s.shared = H200;
    s.batch = TT_PATH_WARP_MAX_MACS / c.model.params;
    if (shapes[i].path != TT_GPU_PATH_warp || s.batch < 1) continue;
    TT_CHECK((int)choose(&s).path, ==, TT_GPU_PATH_warp);
    s.batch++;
    TT_CHECK((int)choose(&s).path, ==, TT_GPU_PATH_block);
  }
}

/* The limit is the memory of the smallest block plan, exact to the byte, in every precision. */
TT_TEST (the_limit_is_the_smallest_plan) {
  for (int i = 0; i < SHAPES; i++) {
    shape s = shapes[i];
    tt_cohort c = cohort_of(&s);
    if (c.model.params > TT_PATH_BLOCK_MAX_PARAMS) continue;
    for (int precision = 0; precision < TT_PRECISION_COUNT; precision++) {
      s.shared = tt_block_min_bytes(&c, tt_path_precision(&c, (tt_precision)precision));
      TT_CHECK((int)choose_in(&s, precision).path, ==, TT_GPU_PATH_block);
      s.shared--;
      TT_CHECK((int)choose_in(&s, precision).path, ==, TT_GPU_PATH_layered);
    }
  }
}

/* As measured (path.h): members with narrow layers are as in fp32, whatever precision is wanted. */
TT_TEST (tensor_cores_are_for_wide_layers) {
  static const struct {
    shape of;
    int wide;
  } measured[] = {
      {{8, 1, {32, 32}, 2, ADAM, MSE, 256, H200, TT_GPU_PATH_block}, 0},
      {{4, 1, {16}, 1, ADAM, MSE, 64, H200, TT_GPU_PATH_warp}, 0},
      {{4, 1, {16, 16}, 2, ADAM, MSE, 32, H200, TT_GPU_PATH_warp}, 0},
      {{8, 1, {64, 64}, 2, ADAM, MSE, 256, H200, TT_GPU_PATH_block}, 1},
      {{16, 1, {128, 128}, 2, ADAM, MSE, 256, H200, TT_GPU_PATH_block}, 1},
      {{16, 1, {192, 192}, 2, ADAM, MSE, 512, H200, TT_GPU_PATH_layered}, 1},
      {{32, 10, {256, 256, 256}, 3, ADAM, MSE, 512, H200, TT_GPU_PATH_layered}, 1},
  };
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
    for (int precision = 0; precision < TT_PRECISION_COUNT; precision++) {
      int kept = measured[i].wide ? precision : TT_PRECISION_fp32;
      tt_path_choice got = choose_in(&measured[i].of, precision);
      TT_CHECK((int)got.path, ==, (int)measured[i].of.path);
      TT_CHECK((int)got.precision, ==, kept);
      TT_CHECK(strstr(got.why, "; in fp32, which is faster below 64 x 64") != NULL, ==,
               kept != precision);
    }
}

/* A requested path keeps the requested precision; the warp path has no tensor cores. */
TT_TEST (a_requested_path_keeps_the_precision) {
  tt_path_context context = {.shared_bytes = H200, .precision = TT_PRECISION_tf32};
  tt_cohort c = cohort_of(&shapes[2]);
  tt_path_choice got;
  TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_block, &got));
  TT_CHECK((int)got.precision, ==, TT_PRECISION_tf32);
  TT_CHECK((int)tt_path_choose(&c, &context, TT_GPU_PATH_warp, &got), ==, TT_E_UNAVAILABLE);
  TT_CHECK_HAS(tt_err_last(), "in fp32 only, not in tf32");
}

/* The path does not depend on the number of members and ensembles, nor on seeds. */
TT_TEST (other_members_change_nothing) {
  for (int i = 0; i < SHAPES; i++) {
    tt_path_choice want = choose(&shapes[i]), got;
    tt_cohort c = cohort_of(&shapes[i]);
    c.members = 4 * MEMBERS;
    c.ensembles = 77;
    c.seed = 12345;
    tt_path_context context = {.shared_bytes = shapes[i].shared};
    TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_auto, &got));
    TT_CHECK((int)got.path, ==, (int)want.path);
    TT_CHECK(strcmp(got.why, want.why), ==, 0);
  }
}

static void refused(const tt_cohort *c, tt_path_context context, tt_gpu_path wanted,
                    const char *why)
{
  tt_path_choice got = {.path = TT_GPU_PATH_COUNT};
  TT_CHECK((int)tt_path_choose(c, &context, wanted, &got), ==, TT_E_UNAVAILABLE);
  TT_CHECK((int)got.path, ==, TT_GPU_PATH_COUNT);
  TT_CHECK_HAS(tt_err_last(), why);
}

TT_TEST (a_requested_path_is_used_or_rejected) {
  for (int i = 0; i < SHAPES; i++) {
    tt_path_choice got;
    tt_cohort c = cohort_of(&shapes[i]);
    tt_path_context context = {.shared_bytes = shapes[i].shared};
    TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_layered, &got));
    TT_CHECK((int)got.path, ==, TT_GPU_PATH_layered);
    TT_CHECK_HAS(got.why, "TUTTI_GPU_PATH");
    if (shapes[i].path == TT_GPU_PATH_layered && c.model.params > TT_PATH_BLOCK_MAX_PARAMS &&
        tt_block_min_bytes(&c, TT_PRECISION_fp32) <= context.shared_bytes) {
      TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_block, &got));
      continue;
    }
    if (shapes[i].path == TT_GPU_PATH_layered) {
      refused(&c, context, TT_GPU_PATH_block,
              "TUTTI_GPU_PATH: block cannot train these members: a member needs");
      refused(&c, context, TT_GPU_PATH_warp, "TUTTI_GPU_PATH: warp cannot train these members: ");
      continue;
    }
    if (shapes[i].path == TT_GPU_PATH_warp) {
      TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_warp, &got));
      TT_CHECK((int)got.path, ==, TT_GPU_PATH_warp);
    }
    TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_block, &got));
    TT_CHECK((int)got.path, ==, TT_GPU_PATH_block);
  }
}

static tt_path_context large_gpu(void)
{
  return (tt_path_context){.shared_bytes = H200, .capability = 90, .multiprocessors = 132};
}

TT_TEST (fronts_heads_and_factors_use_the_layered_path) {
  tt_cohort c = cohort_of(&shapes[2]);
  tt_front_layer conv = {
      .kind = TT_FRONT_conv, .in_channels = 8, .channels = 64, .size = {3, 3}, .groups = 1};
  tt_path_choice got;
  c.model.front.layers = 1;
  c.model.front.layer = &conv;
  TT_CHECK((int)tt_path_precision(&c, TT_PRECISION_tf32), ==, TT_PRECISION_tf32);
  conv.channels = 63;
  TT_CHECK((int)tt_path_precision(&c, TT_PRECISION_tf32), ==, TT_PRECISION_fp32);
  TT_CHECK_OK(tt_path_choose(&c, &(tt_path_context){.shared_bytes = H200}, TT_GPU_PATH_auto, &got));
  TT_CHECK((int)got.path, ==, TT_GPU_PATH_layered);
  TT_CHECK_HAS(got.why, "a front needs the layered path");
  refused(&c, large_gpu(), TT_GPU_PATH_block, "a front");
  c.model.front.layers = 0;
  TT_CHECK_OK(tt_model_set_rates(1, NULL, 0, &c.model));
  TT_CHECK_OK(tt_path_choose(&c, &(tt_path_context){.shared_bytes = H200}, TT_GPU_PATH_auto, &got));
  TT_CHECK((int)got.path, ==, TT_GPU_PATH_layered);
  TT_CHECK_HAS(got.why, "learning rates by layer");
  c.model.heads = 2;
  refused(&c, large_gpu(), TT_GPU_PATH_warp, "heads");
  TT_CHECK_OK(tt_path_choose(&c, &(tt_path_context){.shared_bytes = H200}, TT_GPU_PATH_auto, &got));
  TT_CHECK((int)got.path, ==, TT_GPU_PATH_layered);
}

/* Options without fused kernels use the layered path, and the message names the reason. */
TT_TEST (rare_options_use_the_layered_path) {
  static tt_member some[MEMBERS];
  tt_cohort c = cohort_of(&shapes[2]);
  tt_path_context context = large_gpu();
  tt_path_choice got;
  tt_hyper *last = &some[MEMBERS - 1].hyper;
  c.member = some;
  float *const field[] = {&last->dropout, &last->label_noise};
  const char *const word[] = {"dropout", "label_noise"};
  for (int i = 0; i < 2; i++) {
    *field[i] = 0.5f;
    TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_auto, &got));
    TT_CHECK((int)got.path, ==, TT_GPU_PATH_layered);
    TT_CHECK_HAS(got.why, word[i]);
    for (int path = TT_GPU_PATH_warp; path < TT_GPU_PATH_COUNT; path++)
      if (path != TT_GPU_PATH_layered) refused(&c, context, (tt_gpu_path)path, word[i]);
    *field[i] = 0.0f;
  }
  c.parts = 2;
  TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_auto, &got));
  TT_CHECK((int)got.path, ==, TT_GPU_PATH_layered);
  TT_CHECK_HAS(got.why, "train.parts");
  refused(&c, context, TT_GPU_PATH_block, "train.parts needs the layered path");
  c.parts = 1;
  c.optimizer = TT_OPT_amsgrad;
  refused(&c, context, TT_GPU_PATH_block, "amsgrad needs the layered path");
  c.optimizer = TT_OPT_rmsprop;
  TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_auto, &got));
  TT_CHECK((int)got.path, ==, TT_GPU_PATH_warp);
}

/* The cluster path on request; if it cannot train the members, the error gives the reason. */
TT_TEST (a_requested_cluster_is_used_or_rejected) {
  for (int i = 0; i < SHAPES; i++) {
    tt_path_choice got;
    tt_cluster_plan plan;
    tt_cohort c = cohort_of(&shapes[i]);
    tt_path_context context = large_gpu();
    if (!tt_cluster_plan_choose(&c, &context, &plan)) {
      refused(&c, context, TT_GPU_PATH_cluster,
              "TUTTI_GPU_PATH: cluster cannot train these members: a ");
      continue;
    }
    TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_cluster, &got));
    TT_CHECK((int)got.path, ==, TT_GPU_PATH_cluster);
    TT_CHECK(got.ranks, ==, plan.ranks);
    TT_CHECK_HAS(got.why, " for each member");
    TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_auto, &got));
    TT_CHECK((int)got.path, !=, TT_GPU_PATH_cluster); /* the number of members is unknown */
    context.precision = TT_PRECISION_tf32;
    refused(&c, context, TT_GPU_PATH_cluster, "in fp32 only");
    context = large_gpu();
    context.capability = 89;
    refused(&c, context, TT_GPU_PATH_cluster, "9.0 or newer, this one has 8.9");
  }
}

/* The next path, or fp32 on the same one. By name a path that failed is refused; one without a
 * result is taken. The layered path in fp32 is always there. */
TT_TEST (a_path_that_has_not_passed_the_self_check_is_left_out) {
  const tt_gpu_path next[] = {
      [TT_GPU_PATH_warp] = TT_GPU_PATH_block, [TT_GPU_PATH_block] = TT_GPU_PATH_layered};
  for (int i = 0; i < SHAPES; i++) {
    tt_cohort c = cohort_of(&shapes[i]);
    tt_path_context context = {.shared_bytes = shapes[i].shared};
    tt_path_choice got;
    TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_auto, &got));
    if (got.path == TT_GPU_PATH_layered) continue;
    tt_gpu_path taken = got.path;
    for (int failed = 0; failed < 2; failed++) {
      unsigned bit = TT_GPU_PATH_BIT(taken, TT_PRECISION_fp32);
      context.check = failed ? (tt_gpu_path_check){bit, 0} : (tt_gpu_path_check){0, bit};
      TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_auto, &got));
      TT_CHECK((int)got.path, >=, (int)next[taken]);
      if (failed) refused(&c, context, taken, "has not passed the self-check");
      if (!failed) TT_CHECK_OK(tt_path_choose(&c, &context, taken, &got));
    }
    context.check = (tt_gpu_path_check){0, ~0u};
    context.precision = TT_PRECISION_tf32;
    TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_auto, &got));
    TT_CHECK((int)got.path, ==, (int)TT_GPU_PATH_layered);
    TT_CHECK((int)got.precision, ==, (int)TT_PRECISION_fp32);
  }
}

static tt_path_choice choose_for(const shape *s, tt_path_context context, int64_t members)
{
  tt_path_choice got;
  tt_cohort c = cohort_of(s);
  context.members = members;
  TT_CHECK_OK(tt_path_choose(&c, &context, TT_GPU_PATH_auto, &got));
  return got;
}

/* The number of members decides between block and cluster alone, which give the same bits. All
 * clusters run at the same time; an unknown number of members has blocks, and so has every
 * number on a GPU or in a precision without clusters. */
TT_TEST (members_decide_between_block_and_cluster_alone) {
  int seen[9] = {0};
  for (int i = 0; i < SHAPES; i++) {
    const int want = (int)shapes[i].path;
    tt_path_context context = large_gpu(), old = large_gpu(), tensor = large_gpu();
    context.shared_bytes = old.shared_bytes = tensor.shared_bytes = shapes[i].shared;
    old.capability = 80;
    tensor.precision = TT_PRECISION_tf32;
    TT_CHECK((int)choose_for(&shapes[i], context, 0).path, ==, want);
    for (int64_t members = 1; members < 140; members += members < 10 ? 1 : 13) {
      tt_path_choice got = choose_for(&shapes[i], context, members);
      seen[got.ranks] = 1;
      if (got.path == TT_GPU_PATH_cluster) {
        TT_CHECK(want, ==, TT_GPU_PATH_block);
        TT_CHECK(members * got.ranks, <=, context.multiprocessors);
        TT_CHECK_HAS(got.why, "blocks for each");
      } else
        TT_CHECK((int)got.path, ==, want);
      TT_CHECK((int)choose_for(&shapes[i], old, members).path, ==, want);
      if (tt_path_precision(&(tt_cohort){.model = cohort_of(&shapes[i]).model}, tensor.precision))
        TT_CHECK((int)choose_for(&shapes[i], tensor, members).path, !=, TT_GPU_PATH_cluster);
    }
  }
  TT_CHECK(seen[0] && seen[2] && seen[4] && seen[8], ==, 1);
}

/* Fewer members have as many blocks each, or more. */
TT_TEST (fewer_members_have_larger_clusters) {
  const shape s = {8, 1, {64, 64}, 2, ADAM, MSE, 256, H200, TT_GPU_PATH_block};
  TT_CHECK(choose_for(&s, large_gpu(), 5).ranks, ==, 4);
  TT_CHECK(choose_for(&s, large_gpu(), 33).ranks, ==, 4);
  TT_CHECK(choose_for(&s, large_gpu(), 34).ranks, ==, 2);
  TT_CHECK(choose_for(&s, large_gpu(), 66).ranks, ==, 2);
  TT_CHECK(choose_for(&s, large_gpu(), 67).ranks, ==, 0);
}
