/* test_ckpt_layout.c — where the values of each cohort are in a checkpoint, for sizes that no test
 * can train. */
#include "io/checkpoint/checkpoint_internal.h"
#include "tests/support/check.h"

enum { COHORTS = 2, MEMBERS = 5, SLOTS = 10 };

static tt_err make(int64_t params, int64_t epochs, tt_ckpt_layout *l)
{
  tt_state s = {.params = params, .slots = SLOTS, .epochs = epochs};
  const tt_ckpt_shard shard[COHORTS] = {{MEMBERS, &s}, {MEMBERS, &s}};
  *l = (tt_ckpt_layout){0};
  return tt_ckpt_layout_of_local(COHORTS, shard, l);
}

static int64_t total(const tt_ckpt_layout *l, int field)
{
  return tt_ckpt_first_local(l, field, COHORTS);
}

TT_TEST (members_of_any_size_have_a_place) {
  const int64_t epochs = 1000000;
  for (int64_t params = 1; params <= INT64_C(1) << 40; params *= 32) {
    tt_ckpt_layout l;
    TT_CHECK_OK(make(params, epochs, &l));
    TT_CHECK(total(&l, TT_STATE_FIELD_weights), ==, COHORTS * MEMBERS * params);
    TT_CHECK(total(&l, TT_STATE_FIELD_slots), ==, COHORTS * MEMBERS * SLOTS * params);
    TT_CHECK(total(&l, TT_STATE_FIELD_loss_train), ==, COHORTS * MEMBERS * epochs);
    TT_CHECK(tt_ckpt_length_local(&l, TT_STATE_FIELD_slots, 1), ==, SLOTS * params);
    tt_ckpt_layout_free_local(&l);
  }
}

TT_TEST (sizes_that_no_int64_holds_are_refused) {
  const int64_t params[] = {0, -1, INT64_MAX, INT64_MAX / SLOTS + 1, INT64_MAX / SLOTS};
  for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
    tt_ckpt_layout l;
    TT_CHECK((int)make(params[i], 1, &l), ==, TT_E_DATA);
    tt_ckpt_layout_free_local(&l);
  }
}
