/* test_machine.c — laws of the choice of engine and GPU over ranks, with a fake engine: any rank
 * can be given any visible GPUs. */
#include "tests/mpi/ranks/received.h"
#include "tests/support/check.h"
#include "tests/support/ranks.h"

#include "core/base/log.h"
#include "src/host/memory_limits.h"
#include "src/host/resources.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_GPUS = 8 };

static struct {
  int count, gpu[MOST_GPUS]; /* what this rank sees: numbers of GPUs of the whole node */
  tt_err broken;             /* the result of a call of the driver */
  int asked;
} made_up;

static tt_err made_up_count(int *devices)
{
  made_up.asked++;
  *devices = made_up.count;
  return made_up.broken
             ? TT_FAIL(UNAVAILABLE, "the driver of rank %d is broken", tt_comm_rank(comm))
             : TT_OK;
}

static tt_err made_up_describe(int device, tt_device_info *out)
{
  memset(out, 0, sizeof *out);
  if (device < 0 || device >= made_up.count) return TT_FAIL(UNAVAILABLE, "device %d", device);
  snprintf(out->name, sizeof out->name, "made up");
  snprintf(out->uuid, sizeof out->uuid, "GPU-%d", made_up.gpu[device]);
  return TT_OK;
}

static const tt_engine_ops gpu_engine = {
    .name = "cuda", .count = made_up_count, .describe = made_up_describe};
static const tt_engine_ops *const engines[] = {&gpu_engine, &tt_engine_cpu, NULL};
static const tt_engine_ops *const only_cpu[] = {&tt_engine_cpu, NULL};

/* Make `count` GPUs visible, from number `first` on, modulo `all`. */
static void see(int first, int count, int all)
{
  memset(&made_up, 0, sizeof made_up);
  made_up.count = count;
  for (int i = 0; i < count; i++) made_up.gpu[i] = (first + i) % all;
}

static tt_resource_request any(void) { return (tt_resource_request){.threads = -1}; }

static int gpu_of(const tt_resources *use) { return made_up.gpu[use->device]; }

/* How many different GPUs the ranks took. */
static int distinct(int gpu)
{
  int64_t taken[64] = {0};
  int n = 0;
  taken[gpu] = 1;
  tt_allreduce_sum_i64(comm, taken, 64);
  for (int i = 0; i < 64; i++) n += taken[i] > 0;
  return n;
}

/* Every way to hand out GPUs: either the ranks get different ones, or all ranks get the same error;
 * ranks that may share always get one. */
TT_TEST (ranks_have_different_gpus_or_an_error) {
  int rank = tt_comm_rank(comm), ranks = tt_comm_ranks(comm);
  for (int all = 1; all <= 4; all++) {
    for (int count = 1; count <= all; count++) {
      for (int step = 0; step <= 2; step++) {
        const tt_engine_ops *ops = NULL;
        tt_resources use = {0};
        tt_resource_request request = any();
        see(step * rank, count, all);
        tt_err e = tt_resources_assign(comm, engines, &request, &ops, &use);
        TT_CHECK((int)e, ==, (int)tt_agree(comm, e));
        if (e) TT_CHECK((int)e, ==, TT_E_UNAVAILABLE);
        if (e) TT_CHECK_HAS(tt_err_last(), "run.share_gpu");
        if (!e) TT_CHECK(distinct(gpu_of(&use)), ==, ranks);
        if (ranks <= count) TT_CHECK((int)e, ==, TT_OK);
        request.share_gpu = 1;
        TT_CHECK_OK(tt_resources_assign(comm, engines, &request, &ops, &use));
        TT_CHECK((int)(ops == &gpu_engine), ==, 1);
      }
    }
  }
}

/* srun --gpus-per-task=1: every rank sees one GPU, its own, as number 0. */
TT_TEST (a_gpu_per_task_needs_no_map) {
  const tt_engine_ops *ops = NULL;
  tt_resources use = {.device = -1};
  tt_resource_request request = any();
  see(tt_comm_rank(comm), 1, MOST_GPUS);
  TT_CHECK_OK(tt_resources_assign(comm, engines, &request, &ops, &use));
  TT_CHECK(use.device, ==, 0);
  TT_CHECK(distinct(gpu_of(&use)), ==, tt_comm_ranks(comm));
}

TT_TEST (a_map_assigns_gpus) {
  int ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm);
  int64_t turned[3];
  const tt_engine_ops *ops = NULL;
  tt_resources use = {0};
  tt_resource_request request = any();
  see(0, ranks, MOST_GPUS);
  for (int i = 0; i < ranks; i++) turned[i] = ranks - 1 - i;
  request.gpu_map = (tt_int_list){ranks, turned};
  TT_CHECK_OK(tt_resources_assign(comm, engines, &request, &ops, &use));
  TT_CHECK(use.device, ==, ranks - 1 - rank);
  for (int i = 0; i < ranks; i++) turned[i] = 0;
  tt_err e = tt_resources_assign(comm, engines, &request, &ops, &use);
  TT_CHECK((int)e, ==, ranks == 1 ? TT_OK : TT_E_UNAVAILABLE);
  if (e) TT_CHECK_HAS(tt_err_last(), "rank 0 on ");
  if (e) TT_CHECK_HAS(tt_err_last(), "rank 1 on ");
  turned[0] = ranks; /* one GPU more than exist: an error of rank 0 and so of all ranks */
  TT_CHECK((int)tt_resources_assign(comm, engines, &request, &ops, &use), ==, TT_E_UNAVAILABLE);
  TT_CHECK_HAS(tt_err_last(), "run.gpu_map gives GPU");
}

TT_TEST (auto_falls_back_to_the_cpu_and_gpu_does_not) {
  const tt_engine_ops *ops = NULL;
  tt_resources use = {0};
  tt_resource_request request = any();
  see(0, 0, 1);
  TT_CHECK_OK(tt_resources_assign(comm, engines, &request, &ops, &use));
  assert_string_equal(ops->name, "cpu");
  request.device = TT_DEVICE_gpu;
  TT_CHECK((int)tt_resources_assign(comm, engines, &request, &ops, &use), ==, TT_E_UNAVAILABLE);
  TT_CHECK_HAS(tt_err_last(), "no GPU is visible: ");
  TT_CHECK((int)tt_resources_assign(comm, only_cpu, &request, &ops, &use), ==, TT_E_UNAVAILABLE);
  TT_CHECK_HAS(tt_err_last(), "built without CUDA");
}

/* device: cpu does not call the driver, so a broken one has no effect. */
TT_TEST (the_cpu_does_not_call_the_driver) {
  const tt_engine_ops *ops = NULL;
  tt_resources use = {0};
  tt_resource_request request = {
      .device = TT_DEVICE_cpu, .threads = 3, .path = TT_GPU_PATH_layered};
  see(0, 1, 1);
  made_up.broken = TT_E_UNAVAILABLE;
  TT_CHECK_OK(tt_resources_assign(comm, engines, &request, &ops, &use));
  assert_string_equal(ops->name, "cpu");
  TT_CHECK(made_up.asked, ==, 0);
  TT_CHECK(use.threads, ==, 3);
  TT_CHECK((int)use.path, ==, TT_GPU_PATH_layered);
}

/* An option that needs a GPU is an error without one, on every rank; the CPU is not used instead.
 */
TT_TEST (tensor_cores_need_a_gpu) {
  static const char *const words[] = {"none is visible", "run.device is cpu", "built without CUDA"};
  const tt_engine_ops *const *const src[] = {engines, engines, only_cpu};
  for (int precision = 0; precision < TT_PRECISION_COUNT; precision++) {
    const tt_engine_ops *ops = NULL;
    tt_resources use = {0};
    tt_resource_request request = any();
    request.precision = (tt_precision)precision;
    see(tt_comm_rank(comm), 1, MOST_GPUS);
    TT_CHECK_OK(tt_resources_assign(comm, engines, &request, &ops, &use));
    TT_CHECK((int)use.precision, ==, precision);
    see(0, 0, 1);
    for (int k = 0; k < 3; k++) {
      request.device = k == 1 ? TT_DEVICE_cpu : TT_DEVICE_auto;
      tt_err e = tt_resources_assign(comm, src[k], &request, &ops, &use);
      TT_CHECK((int)e, ==, precision ? TT_E_UNAVAILABLE : TT_OK);
      if (e) TT_CHECK_HAS(tt_err_last(), tt_choice_precision[precision]);
      if (e) TT_CHECK_HAS(tt_err_last(), words[k]);
    }
  }
}

/* If one rank has a broken driver or no GPU, all ranks get an error that names this rank. A rank
 * alone computes on the CPU, unless the job requires a GPU. */
TT_TEST (one_different_rank_is_an_error_of_all) {
  int ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm);
  for (int odd = 0; odd < ranks; odd++) {
    char words[64];
    const tt_engine_ops *ops = NULL;
    tt_resources use = {0};
    tt_resource_request request = any();
    see(rank, 1, MOST_GPUS);
    if (rank == odd) made_up.broken = TT_E_UNAVAILABLE;
    snprintf(words, sizeof words, "the driver of rank %d is broken", odd);
    tt_err e = tt_resources_assign(comm, engines, &request, &ops, &use);
    TT_CHECK((int)e, ==, ranks == 1 ? TT_OK : TT_E_UNAVAILABLE);
    if (e) TT_CHECK_HAS(tt_err_last(), words);
    request.device = TT_DEVICE_gpu;
    TT_CHECK((int)tt_resources_assign(comm, engines, &request, &ops, &use), ==, TT_E_UNAVAILABLE);
    TT_CHECK_HAS(tt_err_last(), words);
    request.device = TT_DEVICE_auto;
    see(rank, rank == odd ? 0 : 1, MOST_GPUS);
    e = tt_resources_assign(comm, engines, &request, &ops, &use);
    TT_CHECK((int)e, ==, ranks == 1 ? TT_OK : TT_E_UNAVAILABLE);
    if (e) TT_CHECK_HAS(tt_err_last(), "the cpu engine");
  }
}

static void check_entry(const tt_rank_resources *p, int rank)
{
  char uuid[16];
  snprintf(uuid, sizeof uuid, "GPU-%d", rank);
  assert_string_equal(p->info.uuid, uuid);
  TT_CHECK(p->node_rank, ==, rank);
  TT_CHECK((int64_t)p->threads * p->ranks_on_cores, <=,
           p->cores > p->ranks_on_cores ? p->cores : p->ranks_on_cores);
}

/* The inventory counts GPUs by UUID. Every rank has its own entry, and rank 0 those of all ranks.
 */
TT_TEST (an_inventory_counts_gpus_seen_and_used) {
  int ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm);
  tt_inventory *s = NULL;
  tt_resource_request request = any();
  see(0, 5, MOST_GPUS);
  TT_CHECK_OK(tt_inventory_create(comm, engines, &request, &s));
  TT_CHECK(s->ranks, ==, ranks);
  check_entry(&s->mine, rank);
  TT_CHECK((int)(s->rank_entry != NULL), ==, rank == 0);
  TT_CHECK(s->seen, ==, rank ? 0 : 5);
  TT_CHECK(s->used, ==, rank ? 0 : ranks);
  for (int r = 0; s->rank_entry && r < ranks; r++) check_entry(&s->rank_entry[r], r);
  tt_inventory_destroy(&s);
  see(rank, 2, MOST_GPUS); /* the GPUs of neighboring ranks overlap */
  TT_CHECK_OK(tt_inventory_create(comm, engines, &request, &s));
  TT_CHECK(s->seen, ==, rank ? 0 : ranks + 1);
  TT_CHECK(s->used, ==, rank ? 0 : ranks);
  tt_inventory_destroy(&s);
}

/* At the start a rank gets a few bytes from each rank of its node, and only rank 0 an entry of each
 * rank of the job. */
TT_TEST (a_start_receives_no_entries_of_other_ranks) {
  int ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm);
  tt_resource_request request = any();
  tt_inventory *s = NULL;
  const received before = test_received;
  see(rank, 1, MOST_GPUS);
  TT_CHECK_OK(tt_inventory_create(comm, engines, &request, &s));
  TT_CHECK_OK(tt_memory_check(comm, 1.0));
  TT_CHECK_OK(tt_resources_check_arithmetic(comm, "avx2", 0, NULL));
  int64_t each = 128 + (rank ? 0 : (int64_t)sizeof *s->rank_entry);
  TT_CHECK(received_since(before).bytes, <=, 512 + (ranks - 1) * each);
  tt_inventory_destroy(&s);
}

/* A rank with other arithmetic is an error of all ranks, unless the user allows it. */
TT_TEST (all_ranks_compute_the_same_bits) {
  int ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm);
  TT_CHECK_OK(tt_resources_check_arithmetic(comm, "cuda fp32 block r128 w8", 0, NULL));
  for (int odd = 1; odd < ranks; odd++) {
    const char *mine = rank == odd ? "cuda fp32 block r64 w8" : "cuda fp32 block r128 w8";
    TT_CHECK((int)tt_resources_check_arithmetic(comm, mine, 0, NULL), ==, TT_E_UNAVAILABLE);
    char who[32];
    snprintf(who, sizeof who, "rank %d would compute", odd);
    TT_CHECK_HAS(tt_err_last(), who);
    TT_CHECK_HAS(tt_err_last(), "block r64 w8\", rank 0 \"cuda fp32 block r128 w8");
    TT_CHECK_OK(tt_resources_check_arithmetic(comm, mine, 1, NULL));
  }
}

TT_SUITE(errors_only, NULL)
