/* test_snapshot.c — laws of snapshots that become members. */
#include "tests/support/check.h"

#include "core/base/mem.h"
#include "core/model/snapshot.h"

#include <math.h>
#include <string.h>

enum { MEMBERS = 5, CYCLES = 3, EPOCHS = 12, PARAMS = 4, BATCHES = 7, LAST = EPOCHS / CYCLES };

/* Two ensembles; member 1 diverged in epoch 6, in its second cycle. */
static tt_cohort *make_cohort(void)
{
  tt_cohort *c = NULL;
  TT_CHECK_OK(TT_ALLOC(c, 1));
  c->method = TT_METHOD_snapshot;
  c->snapshots = CYCLES;
  c->max_epochs = EPOCHS;
  c->model.params = PARAMS;
  c->ensembles = 2;
  c->members = MEMBERS;
  TT_CHECK_OK(TT_ALLOC(c->ensemble, 2));
  TT_CHECK_OK(TT_ALLOC(c->member, MEMBERS));
  c->model.inputs = 3; /* a category of two levels, and an amount */
  TT_CHECK_OK(TT_ALLOC(c->column_of, 3));
  c->column_of[2] = 1;
  c->columns = 2;
  for (int e = 0; e < 2; e++) {
    c->ensemble[e].first = 2 * e;
    c->ensemble[e].members = e ? MEMBERS - 2 : 2;
    c->ensemble[e].targets = 1;
    TT_CHECK_OK(tt_text_set(&c->ensemble[e].name, e ? "b" : "a"));
    TT_CHECK_OK(TT_ALLOC(c->ensemble[e].column, 1));
    c->ensemble[e].column[0] = e;
  }
  for (int i = 0; i < MEMBERS; i++) {
    c->member[i].stream = 100u + (uint64_t)i;
    c->member[i].ensemble = i >= 2;
    c->member[i].index = i >= 2 ? i - 2 : i;
    c->member[i].hyper.epochs = EPOCHS;
    c->member[i].hyper.learning_rate = 0.1f * (float)i;
  }
  return c;
}

static float weight_of(int64_t member, int64_t snapshot, int p)
{
  return (float)(member * 100 + snapshot * 10 + p);
}

static tt_state *make_state(tt_slice slice, int validated)
{
  tt_state *s = NULL;
  tt_state_shape shape = {.params = PARAMS, .slots = 2, .epochs = EPOCHS, .snapshots = CYCLES};
  TT_CHECK_OK(tt_state_create(slice, shape, &s));
  for (int64_t i = 0; i < slice.count; i++) {
    int64_t m = slice.first + i;
    int lost = m == 1;
    TT_FIELD(s, epoch)[i] = lost ? 6 : EPOCHS;
    TT_FIELD(s, batch)[i] = lost ? 3 : 0;
    TT_FIELD(s, step)[i] = TT_FIELD(s, epoch)[i] * BATCHES + TT_FIELD(s, batch)[i];
    TT_FIELD(s, status)[i] = lost ? TT_STATUS_diverged : TT_STATUS_finished;
    TT_FIELD(s, attempt)[i] = (int32_t)m;
    for (int e = 0; e < TT_FIELD(s, epoch)[i]; e++) {
      TT_FIELD(s, loss_train)[i * EPOCHS + e] = (float)(m + e);
      if (validated) TT_FIELD(s, loss_validation)[i * EPOCHS + e] = (float)(10 * m + e);
    }
    for (int k = 0; k < CYCLES * PARAMS; k++) TT_FIELD(s, snapshots)
    [i * CYCLES * PARAMS + k] = weight_of(m, k / PARAMS, k % PARAMS);
  }
  return s;
}

static void check_member(const tt_state *wide, int64_t i, int64_t m, int64_t cycle, int validated)
{
  int taken = m != 1 || cycle == 0;
  int until = taken ? (int)(cycle + 1) * LAST : 6;
  TT_CHECK(TT_FIELD(wide, status)[i], ==, taken ? TT_STATUS_finished : TT_STATUS_diverged);
  TT_CHECK(TT_FIELD(wide, epoch)[i], ==, until);
  TT_CHECK(TT_FIELD(wide, step)[i], ==, until * BATCHES + (taken ? 0 : 3));
  TT_CHECK(TT_FIELD(wide, attempt)[i], ==, (int32_t)m);
  for (int e = 0; e < EPOCHS; e++)
    TT_CHECK(isnan(TT_FIELD(wide, loss_train)[i * EPOCHS + e]) != 0, ==, e >= until);
  if (!taken) return;
  for (int p = 0; p < PARAMS; p++)
    TT_CHECK(tt_state_prediction_weights(wide, i)[p], ==, weight_of(m, cycle, p));
  TT_CHECK(TT_FIELD(wide, best_epoch)[i], ==, validated ? until - 1 : -1);
  if (validated) TT_CHECK(TT_FIELD(wide, best_loss)[i], ==, (double)(10 * m + until - 1));
}

TT_TEST (every_snapshot_is_a_member_of_its_own) {
  for (int validated = 0; validated < 2; validated++)
    for (int64_t first = 0; first < MEMBERS; first += 2) {
      tt_slice slice = {first, first + 2 <= MEMBERS ? 2 : 1};
      tt_cohort *c = make_cohort(), *many = NULL;
      tt_state *s = make_state(slice, validated), *wide = NULL;
      TT_CHECK_OK(tt_snapshot_expand(c, s, &many, &wide));
      TT_CHECK(wide->first, ==, slice.first * CYCLES);
      TT_CHECK(wide->count, ==, slice.count * CYCLES);
      for (int64_t i = 0; i < wide->count; i++)
        check_member(wide, i, first + i / CYCLES, i % CYCLES, validated);
      tt_state_destroy(&s);
      tt_state_destroy(&wide);
      tt_cohort_destroy(&c);
      tt_cohort_destroy(&many);
    }
}

/* A member that diverges at the end of a cycle has no snapshot of this cycle. */
TT_TEST (a_cycle_that_ends_in_divergence_leaves_no_snapshot) {
  tt_cohort *c = make_cohort(), *many = NULL;
  tt_state *s = make_state((tt_slice){0, MEMBERS}, 1), *wide = NULL;
  TT_FIELD(s, epoch)[1] = 2 * LAST;
  TT_FIELD(s, epoch)[3] = EPOCHS;
  TT_FIELD(s, status)[3] = TT_STATUS_diverged;
  TT_CHECK_OK(tt_snapshot_expand(c, s, &many, &wide));
  for (int cycle = 0; cycle < CYCLES; cycle++) {
    TT_CHECK(TT_FIELD(wide, status)[CYCLES + cycle], ==,
             cycle < 1 ? TT_STATUS_finished : TT_STATUS_diverged);
    TT_CHECK(TT_FIELD(wide, status)[3 * CYCLES + cycle], ==,
             cycle < 2 ? TT_STATUS_finished : TT_STATUS_diverged);
  }
  tt_state_destroy(&s);
  tt_state_destroy(&wide);
  tt_cohort_destroy(&c);
  tt_cohort_destroy(&many);
}

TT_TEST (members_keep_their_ensemble_and_number) {
  tt_cohort *c = make_cohort(), *many = NULL;
  tt_state *s = make_state((tt_slice){0, MEMBERS}, 1), *wide = NULL;
  TT_CHECK_OK(tt_snapshot_expand(c, s, &many, &wide));
  TT_CHECK(many->members, ==, MEMBERS * CYCLES);
  TT_CHECK(many->column_of != c->column_of, ==, 1); /* each frees its own */
  for (int64_t i = 0; i < c->model.inputs; i++) TT_CHECK(many->column_of[i], ==, c->column_of[i]);
  TT_CHECK(many->ensemble[1].first, ==, 2 * CYCLES);
  TT_CHECK(many->ensemble[1].members, ==, (MEMBERS - 2) * CYCLES);
  TT_CHECK(tt_cohort_state_shape(many).snapshots, ==, 0);
  assert_string_equal(many->ensemble[1].name, "b");
  for (int64_t i = 0; i < many->members; i++) {
    const tt_member *src = &c->member[i / CYCLES], *to = &many->member[i];
    TT_CHECK(to->stream, ==, src->stream);
    TT_CHECK(to->index, ==, src->index);
    TT_CHECK(to->ensemble, ==, src->ensemble);
    TT_CHECK(to->hyper.learning_rate, ==, src->hyper.learning_rate);
    TT_CHECK(to->snapshot, ==, (int32_t)(i % CYCLES) + 1);
  }
  tt_state_destroy(&s);
  tt_state_destroy(&wide);
  tt_cohort_destroy(&c);
  tt_cohort_destroy(&many);
}
