/* test_bytes.c — law: the bytes that an engine says it needs, which `tutti plan` prints, are those
 * that it allocates: for every optimizer, loss, resampling and layer, several threads, parts of a
 * batch, and predictions. Fronts: test_fronts.c; stages: test_stages.c. */
#include "tests/support/settings.h"

#include "core/config/config.h"
#include "core/model/trained_ensemble.h"
#include "src/train/memory_plan.h"
#include "tests/support/memory_hook.h"
#include "tests/support/trained.h"

#include <inttypes.h>

/* Nothing is allocated and freed in between: the peak is what the engine holds. */
static void held_bytes_are_planned(setting v, way variant)
{
  problem p = usual(v);
  tt_slice slice = {v.number % 3, 1 + v.number % 3};
  variant.use.threads = 1 + v.number % 4;
  int64_t before = tt_hook_held();
  int64_t want = variant.ops->host_bytes(&p.c, slice, ROWS, NULL, &variant.use);
  tt_hook_begin_peak();
  problem_start(&p, variant, slice);
  fprintf(stderr, "%s", tt_hook_held() - before == want ? "" : tell(v, variant, "other bytes\n"));
  TT_CHECK(tt_hook_held() - before, ==, want);
  problem_finish(&p, 5);
  TT_CHECK(tt_hook_held() - before, ==, want);
  TT_CHECK(tt_hook_peak() - before, ==, want);
  problem_free(&p);
}

TT_TEST (held_bytes_are_the_planned_bytes) {
  for (int number = 0; number < SETTINGS; number++)
    for (const way *w = every_way(); w->name; w++)
      if (w->ops->host_bytes && has_turn(*w, number))
        held_bytes_are_planned(setting_of(number), *w);
}

/* A member whose parts several engines compute: each slice of 8 parts, with 1 to 4 threads. Every
 * other engine has only a segment of the slots, the best weights and the averages, at most half of
 * them. */
TT_TEST (parts_of_another_engine_are_in_the_plan) {
  way variant[MAX_WAYS];
  int n = ways(variant);
  for (int i = 0; i < n && variant[i].ops->host_bytes; i++)
    for (int64_t first = 0; first < 8; first++)
      for (int64_t count = 1; count <= 8 - first; count++) {
        float *sum[TT_MAX_PART_SUMS];
        double loss[TT_MAX_PART_SUMS];
        int training;
        setting v = setting_of(3);
        problem p = usual(v);
        p.c.parts = 8;
        p.c.average = TT_AVERAGE_ema;
        const tt_slice own = {p.c.model.params / (2 + first), p.c.model.params / (2 + first)};
        variant[i].use.threads = 1 + (int)(first + count) % 4;
        variant[i].use.own = NULL;
        int64_t before = tt_hook_held();
        int64_t all = variant[i].ops->host_bytes(&p.c, everyone(&p), ROWS, NULL, &variant[i].use);
        if (count % 2) variant[i].use.own = &own;
        const tt_engine_share share = {.parts = {first, count}};
        int64_t want = variant[i].ops->host_bytes(&p.c, everyone(&p), ROWS, NULL, &variant[i].use);
        problem_start(&p, variant[i], everyone(&p));
        TT_CHECK(tt_hook_held() - before, ==, want);
        int64_t vectors = tt_optimizer_slots(p.c.optimizer) + 2, blocks = 64 * (vectors + 2);
        if (count % 2)
          TT_CHECK(all - want + blocks, >=,
                   p.c.members * 4 * vectors * (p.c.model.params - own.count));
        want = variant[i].ops->host_bytes(&p.c, everyone(&p), ROWS, &share, &variant[i].use);
        TT_CHECK_OK(variant[i].ops->team->partial(p.engine, 0, share.parts, &training, sum, loss));
        TT_CHECK(tt_hook_held() - before, ==, want);
        problem_free(&p);
      }
}

TT_TEST (predictions_need_the_planned_bytes) {
  way variant[MAX_WAYS];
  int n = ways(variant);
  for (int number = 0; number < SETTINGS; number += 3)
    for (int i = 0; i < n; i++) {
      if (!variant[i].ops->predict_bytes || !has_turn(variant[i], number / 3)) continue;
      setting v = setting_of(number);
      problem p = usual(v);
      tt_trained_ensemble *trained = NULL;
      tt_moments *m = NULL;
      variant[i].use.threads = 1 + number % 4;
      for (int e = 0; e < ENSEMBLES; e++) TT_CHECK_OK(tt_text_set(&p.c.ensemble[e].name, "e"));
      TT_CHECK_OK(trained_from_cohort(&p.c, p.d, &trained));
      int64_t columns = tt_trained_ensemble_columns(trained);
      TT_CHECK_OK(tt_moments_create(ROWS, columns, &m));
      int64_t before = tt_hook_held();
      tt_hook_begin_peak();
      TT_CHECK_OK(variant[i].ops->predict(trained, &variant[i].use, ROWS, p.d->x, m, NULL));
      TT_CHECK(tt_hook_held(), ==, before);
      TT_CHECK(tt_hook_peak() - before, ==,
               variant[i].ops->predict_bytes(&trained->model, columns, &variant[i].use));
      tt_moments_destroy(&m);
      tt_trained_ensemble_destroy(&trained);
      for (int e = 0; e < ENSEMBLES; e++) tt_free(p.c.ensemble[e].name);
      problem_free(&p);
    }
}

/* Sizes of large jobs. Nothing of this size is allocated. */

typedef struct large_job {
  int64_t width, batch, members, rows;
} large_job;

static tt_cohorts cohort_of(large_job j, tt_config **cfg, const tt_columns *target)
{
  char text[512];
  tt_cohorts all = {0};
  int64_t w = j.width;
  int n = snprintf(text, sizeof text,
                   "data: {file: a.h5}\nmodel: {hidden: [%" PRId64 ", %" PRId64 ", %" PRId64
                   ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "], layer_norm: true}\n"
                   "ensembles: [{name: a, members: %" PRId64 "}]\n"
                   "train: {batch_size: %" PRId64 ", parts: 4}",
                   w, w, w, w, w, w, w, j.members, j.batch);
  TT_CHECK_OK(tt_config_parse("job.yaml", text, n, NULL, 0, cfg));
  TT_CHECK_OK(tt_cohorts_create(*cfg, 4, target, NULL, &all));
  return all;
}

/* Numbers of bytes, all but the first: [PARAMS] is the number of parameters of a member. */
enum { PARAMS, ENGINE, PREDICT, STATE, PLAN, COUNTS };
static void count_bytes(large_job j, int64_t bytes[COUNTS])
{
  const tt_resources use = {.threads = 1};
  const tt_engine_ops *cpu = &tt_engine_cpu;
  tt_config *cfg = NULL;
  tt_memory_plan plan;
  tt_data_shape shape = {.rows = j.rows, .inputs = 4, .net_inputs = 4, .targets = 1};
  TT_CHECK_OK(tt_columns_create(1, &shape.target));
  tt_cohorts all = cohort_of(j, &cfg, &shape.target);
  const tt_cohort *c = all.at[0];
  const tt_memory_job job = {.cfg = cfg, .cohorts = &all, .shape = &shape, .ops = cpu, .use = &use};
  TT_CHECK_OK(tt_memory_plan_rank(&job, 1, 0, &plan));
  bytes[PARAMS] = c->model.params;
  bytes[ENGINE] = cpu->host_bytes(c, (tt_slice){0, j.members}, shape.rows, NULL, &use);
  bytes[PREDICT] = cpu->predict_bytes(&c->model, 1, &use);
  bytes[STATE] = tt_state_size(j.members, tt_cohort_state_shape(c), NULL);
  bytes[PLAN] = (int64_t)plan.peak;
  tt_cohorts_destroy(&all);
  tt_config_destroy(&cfg);
  tt_columns_free(&shape.target);
}

/* Jobs in which one size grows in equal steps: the bytes are a polynomial of second degree in the
 * number of the job, known from the first three. A number too large for its type is not on it. */
static void bytes_are_a_polynomial(large_job first, large_job step, int64_t k)
{
  int64_t bytes[4][COUNTS];
  const int64_t offset[] = {0, 1, 2, k};
  for (int i = 0; i < 4; i++)
    count_bytes((large_job){first.width + offset[i] * step.width,
                            first.batch + offset[i] * step.batch,
                            first.members + offset[i] * step.members, first.rows},
                bytes[i]);
  for (int b = 0; b < COUNTS; b++) {
    int64_t slope = bytes[1][b] - bytes[0][b], bend = bytes[2][b] - bytes[1][b] - slope;
    if (bytes[3][b] != bytes[0][b] + k * slope + k * (k - 1) / 2 * bend)
      fprintf(stderr, "number %d of width %" PRId64 ", batch %" PRId64 "\n", b, first.width,
              first.batch);
    TT_CHECK(bytes[3][b], ==, bytes[0][b] + k * slope + k * (k - 1) / 2 * bend);
  }
}

TT_TEST (bytes_of_large_jobs_do_not_overflow) {
  const int64_t w = 16384, params = 6 * w * w + 26 * w + 1;
  int64_t bytes[COUNTS]; /* blocks are whole cache lines, as are the steps */
  bytes_are_a_polynomial((large_job){4096, 65536, 3, 1000}, (large_job){4096, 0, 0, 0}, 3);
  bytes_are_a_polynomial((large_job){w, w, 3, 1000}, (large_job){0, w, 0, 0}, 63);
  bytes_are_a_polynomial((large_job){w, 65536, 64, 1000}, (large_job){0, 0, 64, 0}, 155);
  count_bytes((large_job){w, 65536, 10000, 1 << 30}, bytes);
  TT_CHECK(bytes[PARAMS], ==, params);
  TT_CHECK(bytes[ENGINE], >, 4 * 13 * w * 65536 / 4); /* z and h of the rows of a part */
  TT_CHECK(bytes[STATE], >, 10000 * 16 * params);     /* current and best weights, two slots */
  TT_CHECK(bytes[PLAN], >, 2 * bytes[STATE] + 20ll * (1 << 30));
}
