/* test_bytes.c — law: the bytes that an engine says it needs, which `tutti plan` prints, are those
 * that it allocates: for every optimizer, loss, resampling and layer, several threads, parts of a
 * batch, and predictions. Fronts: test_fronts.c; stages: test_stages.c. */
#include "tests/laws/settings.h"

#include "core/model/trained_ensemble.h"
#include "tests/support/memory_hook.h"

/* Nothing is allocated and freed in between: the peak is what the engine holds. */
static void held_bytes_are_planned(setting v, way by)
{
  problem p = usual(v);
  tt_slice slice = {v.number % 3, 1 + v.number % 3};
  by.use.threads = 1 + v.number % 4;
  int64_t before = tt_hook_held();
  int64_t want = by.ops->host_bytes(&p.c, slice, ROWS, &by.use);
  tt_hook_begin_peak();
  problem_start(&p, by, slice);
  fprintf(stderr, "%s", tt_hook_held() - before == want ? "" : tell(v, by, "other bytes\n"));
  TT_CHECK(tt_hook_held() - before, ==, want);
  problem_finish(&p, 5);
  TT_CHECK(tt_hook_held() - before, ==, want);
  TT_CHECK(tt_hook_peak() - before, ==, want);
  tt_engine_info info;
  TT_CHECK_OK(by.ops->info(p.engine, &info));
  TT_CHECK(info.bytes, ==, want);
  problem_free(&p);
}

TT_TEST (held_bytes_are_the_planned_bytes) {
  way by[MAX_WAYS];
  int n = ways(by);
  for (int number = 0; number < SETTINGS; number++)
    for (int i = 0; i < n; i++)
      if (by[i].ops->host_bytes && has_turn(by[i], number))
        held_bytes_are_planned(setting_of(number), by[i]);
}

/* A member whose parts several engines compute: each slice of 8 parts, with 1 to 4 threads. Every
 * other engine has only a segment of the slots and the best weights, at most half of them. */
TT_TEST (parts_of_another_engine_are_in_the_plan) {
  way by[MAX_WAYS];
  int n = ways(by);
  for (int i = 0; i < n && by[i].ops->partial_bytes; i++)
    for (int64_t first = 0; first < 8; first++)
      for (int64_t count = 1; count <= 8 - first; count++) {
        float *sum[TT_MAX_PART_SUMS];
        double loss[TT_MAX_PART_SUMS];
        int training;
        setting v = setting_of(3);
        problem p = usual(v);
        p.c.parts = 8;
        const tt_slice own = {p.c.model.params / (2 + first), p.c.model.params / (2 + first)};
        by[i].use.threads = 1 + (int)(first + count) % 4;
        by[i].use.own = NULL;
        int64_t before = tt_hook_held();
        int64_t all = by[i].ops->host_bytes(&p.c, everyone(&p), ROWS, &by[i].use);
        if (count % 2) by[i].use.own = &own;
        tt_slice parts = {first, count};
        int64_t want = by[i].ops->host_bytes(&p.c, everyone(&p), ROWS, &by[i].use);
        problem_start(&p, by[i], everyone(&p));
        TT_CHECK(tt_hook_held() - before, ==, want);
        if (count % 2) TT_CHECK(all - want, >=, p.c.members * 4 * p.c.model.params);
        want += by[i].ops->partial_bytes(&p.c, everyone(&p), parts, &by[i].use);
        TT_CHECK_OK(by[i].ops->partial(p.engine, 0, parts, &training, sum, loss));
        TT_CHECK(tt_hook_held() - before, ==, want);
        problem_free(&p);
      }
}

TT_TEST (predictions_need_the_planned_bytes) {
  way by[MAX_WAYS];
  int n = ways(by);
  for (int number = 0; number < SETTINGS; number += 3)
    for (int i = 0; i < n; i++) {
      if (!by[i].ops->predict_bytes || !has_turn(by[i], number / 3)) continue;
      setting v = setting_of(number);
      problem p = usual(v);
      tt_trained_ensemble *trained = NULL;
      tt_moments *m = NULL;
      by[i].use.threads = 1 + number % 4;
      for (int e = 0; e < ENSEMBLES; e++) TT_CHECK_OK(tt_text_set(&p.c.ensemble[e].name, "e"));
      TT_CHECK_OK(tt_trained_ensemble_from_cohort(&p.c, p.d, &trained));
      int64_t columns = tt_trained_ensemble_columns(trained);
      TT_CHECK_OK(tt_moments_create(ROWS, columns, &m));
      int64_t before = tt_hook_held();
      tt_hook_begin_peak();
      TT_CHECK_OK(by[i].ops->predict(trained, &by[i].use, ROWS, p.d->x, m, NULL));
      TT_CHECK(tt_hook_held(), ==, before);
      TT_CHECK(tt_hook_peak() - before, ==,
               by[i].ops->predict_bytes(&trained->model, columns, &by[i].use));
      tt_moments_destroy(&m);
      tt_trained_ensemble_destroy(&trained);
      for (int e = 0; e < ENSEMBLES; e++) tt_free(p.c.ensemble[e].name);
      problem_free(&p);
    }
}
