/* test_waves.c — laws of waves: members that train wave after wave have the bits of members that
 * train at once, for every size of a wave, across restarts with another one, and for several
 * cohorts; and memory holds the states and the engines of one wave. */
#include "tests/support/settings.h"

#include "src/train/shard/retry.h"
#include "src/train/shard/shard.h"
#include "src/train/shard/wave_training.h"
#include "tests/support/memory_hook.h"
#include "tests/support/restart.h"

#include <unistd.h>

enum { COHORTS = 2, MEMBERS = ENSEMBLES * EACH, LIST = COHORTS * MEMBERS, MOST_CALLS = 500 };

/* Two cohorts of one job, with the data set of the first. */
typedef struct two_cohorts {
  problem p[COHORTS];
  tt_cohort *at[COHORTS];
  tt_job job;
  tt_state *want[COHORTS];
} two_cohorts;

static void start(two_cohorts *t, setting one, setting other, way variant)
{
  const int64_t id[ENSEMBLES] = {0, 1};
  other.loss = one.loss; /* of the kind of labels that the data have */
  other.noise = one.noise;
  const setting v[COHORTS] = {one, other};
  *t = (two_cohorts){.job = {.ops = variant.ops, .use = variant.use}};
  for (int k = 0; k < COHORTS; k++) {
    t->p[k] = cast(v[k], id, ENSEMBLES, 0, EACH);
    t->at[k] = &t->p[k].c;
    t->p[k].c.retries = 1;
    t->p[k].c.stop = TT_EARLY_STOPPING_member;
  }
  t->p[0].c.member[1].hyper.learning_rate = 1e30f; /* diverges, and again */
  t->job.cohorts = (tt_cohorts){COHORTS, t->at};
  t->job.data = t->p[0].d;
  t->job.training = *t->p[0].d;
}

static void stop(two_cohorts *t)
{
  for (int k = 0; k < COHORTS; k++) {
    tt_state_destroy(&t->want[k]);
    problem_free(&t->p[k]);
  }
}

static void create(const two_cohorts *t, int64_t wave, tt_shards *all)
{
  TT_CHECK_OK(tt_shards_create_local(&t->job, 1, 0, NULL, 0, wave, all));
  TT_CHECK(all->waves.count, ==, wave ? (LIST + wave - 1) / wave : 1);
}

/* One call of the trainer. Returns the members in training. */
static int64_t train(tt_shards *all, int64_t steps)
{
  int64_t training = 0, waiting = 0, members = 0;
  for (int64_t i = 0; i < all->count; i++) {
    TT_CHECK_OK(tt_shard_train_local(&all->at[i], steps));
    TT_CHECK_OK(tt_retry_diverged_local(&all->at[i]));
  }
  TT_CHECK_OK(tt_wave_advance_local(all));
  for (int64_t i = 0; i < all->count; i++) {
    const tt_progress *p = &all->at[i].local_progress;
    training += p->training;
    waiting += p->waiting;
    members += p->training + p->finished + p->early_stopped + p->diverged;
  }
  TT_CHECK(members, ==, LIST);
  TT_CHECK(training - waiting, <=, all->waves.members);
  return training;
}

/* Killed and started again from the saved states, with other waves. */
static void restart(const two_cohorts *t, int64_t wave, tt_shards *all)
{
  tt_shards again;
  create(t, wave, &again);
  move_states(all, &again);
  tt_shards_destroy(all);
  *all = again;
}

static void compare(const two_cohorts *t, const tt_shards *all)
{
  for (int k = 0; k < COHORTS; k++)
    for (int64_t m = 0; m < MEMBERS; m++) same_member(t->want[k], all->at[k].state, m, "in waves");
}

/* Train to the end.
 *   then  size of the waves after a restart in the middle; 0 = no restart */
static void check(const two_cohorts *t, int64_t wave, int64_t steps, int64_t then)
{
  tt_shards all;
  int64_t calls = 0;
  create(t, wave, &all);
  while (train(&all, steps) > 0) {
    TT_CHECK(++calls, <, MOST_CALLS);
    if (then && calls % 4 == 2) restart(t, calls % 8 == 2 ? then : wave, &all);
  }
  save_shards(&all);
  compare(t, &all);
  tt_shards_destroy(&all);
}

/* The members that train at once. */
static void find_wanted(two_cohorts *t)
{
  tt_shards all;
  create(t, 0, &all);
  while (train(&all, 1000) > 0) continue;
  save_shards(&all);
  for (int k = 0; k < COHORTS; k++) {
    t->want[k] = all.at[k].state;
    all.at[k].state = NULL;
  }
  tt_shards_destroy(&all);
}

TT_TEST (waves_change_no_bit) {
  int checked = 0;
  for (const way *w = every_way(); w->name; w++)
    for (int number = 0; number < SETTINGS; number += DOUBLE ? 11 : 2) {
      two_cohorts t;
      if (!has_turn(*w, number)) continue;
      start(&t, setting_of(number), setting_of((number + 7) % SETTINGS), *w);
      if (can(*w, &t.p[0].c) && can(*w, &t.p[1].c)) {
        static const int64_t wave[] = {1, 2, MEMBERS, LIST - 1};
        find_wanted(&t);
        check(&t, wave[number % 4], 5, 0);
        check(&t, wave[(number + 1) % 4], 3, wave[number % 4]);
        checked++;
      }
      stop(&t);
    }
  TT_CHECK(checked, >, 0);
}

/* Bytes of the engines of the wave that needs most. */
static int64_t most_of_waves(const two_cohorts *t, int64_t wave, way variant)
{
  const tt_slice slice[COHORTS] = {{0, MEMBERS}, {0, MEMBERS}};
  const tt_wave_list list = tt_wave_list_of(slice, COHORTS, wave);
  int64_t most = 0;
  for (int64_t w = 0; w < list.count; w++) {
    int64_t sum = 0;
    for (int k = 0; k < COHORTS; k++) {
      tt_slice of = tt_wave_slice(&list, slice, k, w);
      if (of.count > 0) sum += variant.ops->host_bytes(&t->p[k].c, of, ROWS, NULL, &variant.use);
    }
    most = sum > most ? sum : most;
  }
  return most;
}

TT_TEST (memory_holds_the_engines_of_one_wave) {
  for (const way *w = every_way(); w->name; w++)
    for (int64_t wave = 1; wave <= LIST && w->ops->host_bytes; wave += 3) {
      two_cohorts t;
      tt_shards all;
      start(&t, setting_of(8), setting_of(3), *w);
      t.p[0].c.retries = t.p[1].c.retries = 0;
      int64_t before = tt_hook_held(), states = 0, most = most_of_waves(&t, wave, *w);
      for (int k = 0; k < COHORTS; k++)
        states += tt_state_size(MEMBERS, tt_cohort_state_shape(&t.p[k].c), NULL, 0).memory;
      int64_t lists = tt_alloc_size(COHORTS, sizeof(tt_shard)) +
                      2 * tt_alloc_size(MEMBERS, 32); /* of progress */
      tt_hook_begin_peak();
      create(&t, wave, &all);
      while (train(&all, 50) > 0) continue;
      TT_CHECK(tt_hook_peak() - before, <=, states + most + lists);
      tt_shards_destroy(&all);
      TT_CHECK(tt_hook_held(), ==, before);
      stop(&t);
    }
}

/* With a directory, large fields of the states are in files, and memory holds the rest. */
TT_TEST (states_in_files_have_the_same_bits) {
  char place[] = "waves-XXXXXX"; /* in the folder of the build: /tmp may be in memory */
  tt_state *stored = NULL, *plain = NULL;
  tt_state_shape shape = {.params = 5000, .slots = 2, .epochs = 3};
  TT_CHECK(mkdtemp(place) != NULL, ==, 1);
  int64_t before = tt_hook_held();
  TT_CHECK_OK(tt_state_create((tt_slice){2, 10}, shape, &plain));
  TT_CHECK(tt_hook_held() - before, ==, tt_state_size(10, shape, NULL, 0).memory);
  before = tt_hook_held();
  TT_CHECK_OK(tt_mem_store_in(place));
  TT_CHECK_OK(tt_state_create_stored((tt_slice){2, 10}, shape, &stored));
  TT_CHECK_OK(tt_mem_store_in(""));
  TT_CHECK(rmdir(place), ==, 0); /* the files have no names */
  const tt_mem_sum size = tt_state_size(10, shape, NULL, 1);
  TT_CHECK(size.file, ==, 10 * 4 * 5000 * (int64_t)sizeof(float));
  TT_CHECK(tt_hook_held() - before, ==, size.memory);
  for (int64_t m = 2; m < 12; m++) same_member(plain, stored, m, "in files");
  for (int64_t k = 0; k < 10 * 5000; k++) {
    TT_CHECK(TT_FIELD(stored, weights)[k], ==, 0.0f);
    TT_FIELD(stored, weights)[k] = TT_FIELD(plain, weights)[k] = (float)k;
  }
  TT_CHECK(tt_state_hash(stored, 3) == tt_state_hash(plain, 3), ==, 1);
  tt_state_destroy(&stored);
  TT_CHECK(tt_hook_held(), ==, before);
  tt_state_destroy(&plain);
}

TT_TEST (files_in_memory_are_refused) {
  if (access("/dev/shm", W_OK)) return;
  TT_CHECK((int)tt_mem_store_in("/dev/shm"), ==, TT_E_MEM);
  TT_CHECK_HAS(tt_err_last(), "/dev/shm is in memory (tmpfs)");
  TT_CHECK((int)tt_mem_store_in("/no/such/directory"), ==, TT_E_CANTCREAT);
}
