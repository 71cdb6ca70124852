/* test_independence.c — law C1: the state of a member depends on (seed, stream, hyper-parameters,
 * data) alone. Bit-identical in every field of the state, for every optimizer, resampling, batch
 * order and loss, with shapes and batch sizes that are no multiple of a vector. */
#include "tests/support/settings.h"

/* Member i of state a against member j of state b. */
static void same_bits(const tt_state *a, int64_t i, const tt_state *b, int64_t j, const char *what)
{
  tt_state moved = *b;
  moved.first = i - (j - b->first);
  same_member(a, &moved, i, what);
}

static tt_state *reference(setting v, way variant)
{
  problem p = usual(v);
  tt_state *s = problem_run(&p, variant, everyone(&p), 7);
  problem_free(&p);
  return s;
}

/* Returns 1 if the engine supports a setting, and, on the double, if the case is assigned to this
 * order of threads. */
static int meets(way variant, setting v)
{
  problem p = usual(v);
  int suited = can(variant, &p.c);
  problem_free(&p);
  if (DOUBLE && variant.use.path == TT_GPU_PATH_layered && v.number < PLAIN && v.number % 2)
    return 0;
  return suited && takes(variant, v.number);
}

/* References of settings and ways, which most laws compare with. */
static tt_state *kept[SETTINGS][MAX_WAYS];

static int free_kept(void **state)
{
  (void)state;
  for (int number = 0; number < SETTINGS; number++)
    for (int i = 0; i < MAX_WAYS; i++) tt_state_destroy(&kept[number][i]);
  return 0;
}

/* Each law uses three of six settings in turn, which also cover every row. */
static int is_dealt(setting v, int half) { return (v.number / 3 + half) % 2 == 0; }

static void all_settings(void (*law)(setting v, way variant, const tt_state *want), int half)
{
  way variant[MAX_WAYS];
  int n = ways(variant);
  for (int number = 0; number < SETTINGS; number++)
    for (int i = 0; i < n; i++) {
      setting v = setting_of(number);
      if (variant[i].ops != &tt_engine_cpu && variant[i].use.path != TT_GPU_PATH_layered)
        v.parts = 1;
      if (!is_dealt(v, half) || !meets(variant[i], v)) continue;
      if (!kept[number][i]) kept[number][i] = reference(v, variant[i]);
      law(v, variant[i], kept[number][i]);
    }
}

static int bit(int value) { return 1 << value; }

/* Each half of the settings uses every row of every table, and every other option with both values.
 */
static void uses_every_row(int half)
{
  int optimizer = 0, resample = 0, loss = 0, schedule = 0, average = 0;
  int flags = 0, flagless = 0;
  for (int k = 0; k < SETTINGS; k++) {
    setting v = setting_of(k);
    if (!is_dealt(v, half)) continue;
    const int enabled[] = {v.layer_norm, v.residual && network(v).layer[1].residual,
                           v.dropout && network(v).layers > 1, v.noise,
                           v.rates && network(v).layers > 1};
    for (int f = 0; f < 5; f++) *(enabled[f] ? &flags : &flagless) |= bit(f);
    optimizer |= bit((int)v.optimizer), resample |= bit((int)v.resample);
    loss |= bit((int)v.loss);
    schedule |= bit((int)v.schedule), average |= bit((int)v.average);
  }
  TT_CHECK(optimizer, ==, bit(TT_OPT_COUNT) - 1);
  TT_CHECK(resample, ==, bit(TT_RESAMPLE_COUNT) - 1);
  TT_CHECK(loss, ==, bit(TT_LOSS_COUNT) - 1);
  TT_CHECK(schedule, ==, bit(TT_SCHEDULE_COUNT) - 1);
  TT_CHECK(average, ==, bit(TT_AVERAGE_COUNT) - 1);
  TT_CHECK(flags & flagless, ==, bit(5) - 1);
}

TT_TEST (the_settings_use_every_row) {
  uses_every_row(0);
  uses_every_row(1);
}

/* Every member must change and none may diverge, otherwise the law is trivial. */
static void learns(setting v, way variant, const tt_state *want)
{
  problem p = usual(v);
  problem_start(&p, variant, everyone(&p));
  tt_state *start = problem_state(&p, everyone(&p));
  for (int64_t i = 0; i < p.c.members; i++) {
    int64_t offset = i * p.c.model.params;
    TT_CHECK(memcmp(TT_FIELD(start, weights) + offset, TT_FIELD(want, weights) + offset,
                    (size_t)p.c.model.params * sizeof(float)),
             !=, 0);
    TT_CHECK(TT_FIELD(want, status)[i], !=, TT_STATUS_diverged);
    TT_CHECK(TT_FIELD(want, step)[i], >, 0);
    for (int64_t j = 0; j < i; j++)
      TT_CHECK(memcmp(TT_FIELD(want, weights) + j * p.c.model.params,
                      TT_FIELD(want, weights) + offset, (size_t)p.c.model.params * sizeof(float)),
               !=, 0);
  }
  tt_state_destroy(&start);
  problem_free(&p);
}

static void alone(setting v, way variant, const tt_state *want)
{
  for (int64_t e = 0; e < ENSEMBLES; e++)
    for (int64_t k = 0; k < EACH; k++) {
      problem p = cast(v, &e, 1, k, 1);
      tt_state *got = problem_run(&p, variant, everyone(&p), 7);
      same_bits(want, e * EACH + k, got, 0, tell(v, variant, "alone"));
      tt_state_destroy(&got);
      problem_free(&p);
    }
}

/* Two further members in each ensemble, and an ensemble before and one between. */
static void in_a_crowd(setting v, way variant, const tt_state *want)
{
  const int64_t ids[] = {3, 0, 5, 1};
  problem p = cast(v, ids, 4, 0, EACH + 2);
  tt_state *got = problem_run(&p, variant, everyone(&p), 7);
  for (int64_t k = 0; k < EACH; k++) {
    same_bits(want, k, got, EACH + 2 + k, tell(v, variant, "in a crowd"));
    same_bits(want, EACH + k, got, 3 * (EACH + 2) + k, tell(v, variant, "in a crowd"));
  }
  tt_state_destroy(&got);
  problem_free(&p);
}

static void any_slice(setting v, way variant, const tt_state *want)
{
  const tt_slice slices[] = {{0, 1}, {1, 4}, {5, 1}, {2, 0}};
  problem p = usual(v);
  for (size_t k = 0; k < sizeof slices / sizeof *slices; k++) {
    tt_state *got = problem_run(&p, variant, slices[k], 7);
    for (int64_t i = slices[k].first; i < slices[k].first + slices[k].count; i++)
      same_member(want, got, i, tell(v, variant, "in a slice"));
    tt_state_destroy(&got);
  }
  problem_free(&p);
}

/* How the steps are divided into calls, and numbers of threads: fewer on the double, which is slow. */
static void any_cut_any_threads(setting v, way variant, const tt_state *want)
{
  const int64_t steps[] = {1, 1000000, 3};
  problem p = usual(v);
  for (int k = 0; k < 3 - DOUBLE; k++) {
    way with = variant;
    with.use.threads = 1 + (k + v.number) % 2;
    tt_state *got = problem_run(&p, with, everyone(&p), steps[k]);
    for (int64_t i = 0; i < p.c.members; i++)
      same_member(want, got, i, tell(v, variant, "other cut, other threads"));
    tt_state_destroy(&got);
  }
  problem_free(&p);
}

/* Members `slice` continue in another engine from a state saved after some steps. */
static void continue_from(problem *p, setting v, way variant, const tt_state *saved, tt_slice slice,
                          const tt_state *want)
{
  problem_start(p, variant, slice);
  TT_CHECK_OK(variant.ops->load(p->engine, slice, saved));
  problem_finish(p, 5);
  tt_state *got = problem_state(p, slice);
  problem_stop(p);
  for (int64_t i = slice.first; i < slice.first + slice.count; i++)
    same_member(want, got, i, tell(v, variant, "restarted"));
  tt_state_destroy(&got);
}

static void restarted(setting v, way variant, const tt_state *want)
{
  problem p = usual(v);
  for (int64_t stop = 1; stop < 12; stop += 1 + DOUBLE + (v.number + stop) % 4) {
    tt_progress progress;
    problem_start(&p, variant, everyone(&p));
    TT_CHECK_OK(variant.ops->train(p.engine, stop, &progress));
    tt_state *saved = problem_state(&p, everyone(&p));
    problem_stop(&p);
    continue_from(&p, v, variant, saved, (tt_slice){0, 2}, want);
    continue_from(&p, v, variant, saved, (tt_slice){2, 4}, want);
    tt_state_destroy(&saved);
  }
  problem_free(&p);
}

/* Losses of the trained members: the same in slices and on several threads. */
static void scored(setting v, way variant, const tt_state *want)
{
  double all[ENSEMBLES * EACH], part[ENSEMBLES * EACH];
  problem p = usual(v);
  for (int split = 0; split < TT_SPLITS; split++) {
    problem_start(&p, variant, everyone(&p));
    TT_CHECK_OK(variant.ops->load(p.engine, everyone(&p), want));
    TT_CHECK_OK(variant.ops->evaluate(p.engine, (tt_split)split, all));
    problem_stop(&p);
    way with = variant;
    with.use.threads = 2 + v.number % 7;
    with.use.share_flops = 1;
    problem_start(&p, with, (tt_slice){1, 4});
    TT_CHECK_OK(variant.ops->load(p.engine, (tt_slice){1, 4}, want));
    TT_CHECK_OK(variant.ops->evaluate(p.engine, (tt_split)split, part));
    problem_stop(&p);
    for (int i = 0; i < 4; i++) TT_CHECK(part[i], ==, all[1 + i]);
    if (split != TT_VALIDATION) continue;
    for (int i = 0; i < ENSEMBLES * EACH; i++)
      if (TT_FIELD(want, best_epoch)[i] >= 0) TT_CHECK(all[i], ==, TT_FIELD(want, best_loss)[i]);
  }
  problem_free(&p);
}

TT_TEST (members_train_and_differ) {
  all_settings(learns, 0);
}
TT_TEST (a_member_alone_is_the_member_in_the_cohort) {
  all_settings(alone, 1);
}
TT_TEST (other_members_and_ensembles_change_nothing) {
  all_settings(in_a_crowd, 0);
}
TT_TEST (slices_change_nothing) {
  all_settings(any_slice, 1);
}
TT_TEST (calls_and_threads_change_nothing) {
  all_settings(any_cut_any_threads, 0);
}
TT_TEST (a_restart_changes_nothing) {
  all_settings(restarted, 1);
}
TT_TEST (scores_depend_on_the_member_alone) {
  all_settings(scored, 0);
}

static void arithmetic_of(way variant, char text[64])
{
  problem p = usual((setting){.parts = 1});
  tt_engine_info info;
  problem_start(&p, variant, everyone(&p));
  TT_CHECK_OK(variant.ops->info(p.engine, &info));
  memcpy(text, info.arithmetic, sizeof info.arithmetic);
  problem_free(&p);
}

/* Compare the state of another engine with `want`, if both have the same arithmetic text. */
static void same_way(setting v, way variant, const tt_state *want)
{
  way others[MAX_WAYS];
  char mine[64], theirs[64];
  arithmetic_of(variant, mine);
  for (int k = 0, n = ways(others); k < n; k++) {
    if (!meets(others[k], v)) continue;
    arithmetic_of(others[k], theirs);
    if (!strcmp(others[k].name, variant.name) || strcmp(mine, theirs)) continue;
    tt_state *got = reference(v, others[k]);
    for (int64_t i = 0; i < got->count; i++)
      same_member(want, got, i, tell(v, variant, "against another way of equal arithmetic"));
    tt_state_destroy(&got);
  }
}

TT_TEST (equal_arithmetic_means_equal_bits) {
  all_settings(same_way, 1);
}

/* After a retry a member draws orders, dropout and initial weights as with another seed. */
static void retried(way variant, int rich)
{
  setting v = {.number = 1, .resample = TT_RESAMPLE_bootstrap, .parts = 1, .dropout = rich};
  problem p = usual(v), other = usual(v);
  if (can(variant, &p.c)) {
    other.c.seed = tt_attempt_seed(p.c.seed, 1, 2);
    tt_state *want = problem_run(&other, variant, everyone(&other), 7);
    problem_start(&p, variant, everyone(&p));
    tt_state *s = problem_state(&p, everyone(&p));
    for (int64_t i = 0; i < p.c.members; i++) {
      TT_FIELD(s, attempt)[i] = 2;
      tt_member_init_weights(&p.c, &p.c.member[i], 2, TT_FIELD(s, weights) + i * s->params);
    }
    TT_CHECK_OK(variant.ops->load(p.engine, everyone(&p), s));
    problem_finish(&p, 3);
    TT_CHECK_OK(variant.ops->save(p.engine, everyone(&p), s));
    for (int64_t i = 0; i < p.c.members; i++) {
      TT_CHECK(TT_FIELD(s, attempt)[i], ==, 2);
      TT_FIELD(s, attempt)[i] = 0;
      same_member(want, s, i, tell(v, variant, "retried"));
    }
    tt_state_destroy(&want);
    tt_state_destroy(&s);
  }
  problem_free(&p);
  problem_free(&other);
}

TT_TEST (a_retry_is_another_seed) {
  for (const way *w = every_way(); w->name; w++)
    for (int rich = 0; rich < 2; rich++)
      if (takes(*w, rich)) retried(*w, rich);
}

/* Orders longer than the part that is computed at once, and a restart inside this part. */
static void long_epochs(way variant, tt_resample resample)
{
  const int64_t hidden = 2;
  problem p =
      problem_make(DOUBLE ? 3000 : 12000, 2, 1, 1, 2, &hidden, 1, TT_ACT_relu, TT_OUTPUT_mean);
  p.c.resample = resample;
  p.c.batch_size = 300;
  p.c.max_epochs = p.c.member[0].hyper.epochs = p.c.member[1].hyper.epochs = 2;
  if (can(variant, &p.c)) {
    tt_state *all = problem_run(&p, variant, everyone(&p), 1000000);
    tt_state *some = problem_run(&p, variant, everyone(&p), 9);
    for (int64_t i = 0; i < 2; i++) same_member(all, some, i, "long epochs");
    tt_state_destroy(&all);
    tt_state_destroy(&some);
  }
  problem_free(&p);
}

TT_TEST (long_epochs_may_be_split_anywhere) {
  for (const way *w = every_way(); w->name; w++)
    for (int resample = 0; resample < TT_RESAMPLE_COUNT; resample++)
      if (has_turn(*w, resample)) long_epochs(*w, (tt_resample)resample);
}

/* The layered path multiplies the matrices of many members in one call: a member has the same bits
 * at every position of any number of them. Wide layers run on a GPU only. */
enum { WIDE_INPUTS = 7, MOST = 100, COUNTS = 5, POSITIONS = 3 };

static const int64_t counts[COUNTS] = {1, 5, 16, 17, MOST}; /* members of an engine */

typedef struct width {
  int64_t hidden[2], rows, batch;
  int gpu_only;
} width;

static const width widths[] = {{{20, 17}, 60, 40, 0},
                               {{128, 128}, 300, 128, 1},
                               {{256, 256}, 300, 128, 1},
                               {{128, 256}, 300, 100, 1}};
enum { WIDTHS = sizeof widths / sizeof *widths };

static problem make_wide(const width *w)
{
  problem p =
      problem_make(w->rows, WIDE_INPUTS, 1, 1, MOST, w->hidden, 2, TT_ACT_relu, TT_OUTPUT_mean);
  p.c.batch_size = w->batch;
  p.c.max_epochs = 1;
  for (int64_t i = 0; i < MOST; i++) {
    p.c.member[i].hyper.epochs = 1;
    p.c.member[i].hyper.learning_rate = 1e-3f * (float)(1 + i % 7);
  }
  return p;
}

/* The first and the last `count` members, and those from an odd place of a group on. */
static void every_position(problem *p, way variant, const tt_state *want, int64_t count)
{
  const int64_t firsts[POSITIONS] = {0, (MOST - count) / 2 | 1, MOST - count};
  for (int k = 0; k < (count < MOST ? POSITIONS : 1); k++) {
    tt_slice slice = {firsts[k], count};
    tt_state *got = problem_run(p, variant, slice, 1000);
    for (int64_t i = slice.first; i < slice.first + count; i++)
      same_member(want, got, i, variant.name);
    tt_state_destroy(&got);
  }
}

static void every_count(way variant, const width *w)
{
  problem p = make_wide(w);
  tt_state *want = problem_run(&p, variant, everyone(&p), 1000);
  for (int64_t i = 0; i < MOST; i++) {
    TT_CHECK(TT_FIELD(want, status)[i], !=, TT_STATUS_diverged);
    TT_CHECK(TT_FIELD(want, step)[i], >, 0);
  }
  for (int k = 0; k < COUNTS; k++) every_position(&p, variant, want, counts[k]);
  tt_state_destroy(&want);
  problem_free(&p);
}

static int is_gpu(way variant) { return !DOUBLE && variant.ops != &tt_engine_cpu; }

/* One instruction set of the CPU, and the layered path in one order of threads. */
static int trains_wide(way variant)
{
  if (variant.ops == &tt_engine_cpu) return variant.turn == 0;
  return variant.use.path == TT_GPU_PATH_layered && variant.schedule == 0;
}

static void all_widths(const way *by, int n)
{
  int skipped = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < WIDTHS && trains_wide(by[i]); k++) {
      int skip = widths[k].gpu_only && !is_gpu(by[i]);
      if (!skip) every_count(by[i], &widths[k]);
      skipped += skip;
    }
  if (skipped) printf("%d wide cases are skipped: they need a GPU\n", skipped);
}

TT_TEST (every_position_of_many_members_gives_the_same_bits) {
  way variant[MAX_WAYS];
  all_widths(variant, ways(variant));
}

TT_TEST (and_so_it_has_on_tensor_cores) {
  way variant[MAX_WAYS];
  int n = tensor_ways(variant);
  for (int i = 0; i < n; i++) variant[i].schedule = 0; /* each has one order of threads */
  all_widths(variant, n);
}

TT_SUITE(NULL, free_kept)
