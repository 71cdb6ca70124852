/* test_select.c — the queries are those of a selection from all candidates at once, on any number
 * of ranks. */
#include "tests/support/check.h"

#include "core/base/mem.h"
#include "core/base/rng.h"
#include "io/campaign/pool_scores.h"
#include "io/hdf5/h5.h"
#include "src/campaign/select/select.h"
#include "tests/mpi/campaign/select_slow.h"
#include "tests/mpi/ranks/received.h"
#include "tests/support/ranks.h"

static char pool_file[2 * SCRATCH_ROOM], score_file[2 * SCRATCH_ROOM];
static tt_pool *pool;
static int64_t taken_row[ROWS];
static tt_used_rows used_rows = {0, taken_row};

static uint32_t word(uint32_t series, int64_t i)
{
  return tt_random(5, series, TT_PURPOSE_LABEL_NOISE, 0, (uint32_t)i).v[0];
}

/* files */

static void put_pool(int64_t rows, int64_t width, const float *value)
{
  tt_h5_file *f = NULL;
  const int64_t shape[] = {rows, width};
  const char *file = pool_file;
  tt_columns names = {0};
  TT_CHECK_OK(tt_columns_create(width, &names));
  tt_pool_options plan = {
      .file = &file, .files = 1, .first = FIRST, .inputs = "x", .input = &names};
  if (tt_comm_is_root(comm)) {
    TT_CHECK_OK(tt_h5_create(NULL, pool_file, 0, &f));
    tt_h5_write_from_root(f, "x", TT_H5_F32, 2, shape, value);
    TT_CHECK_OK(tt_h5_commit(&f));
  }
  tt_barrier(comm);
  tt_pool_close_local(&pool);
  TT_CHECK_OK(tt_pool_open(comm, &plan, &pool));
  tt_columns_free(&names);
}

/* Rank 0 has all candidates to write, the others none. */
static void put_scores(int64_t lists, int64_t first, int64_t rows, const float *value)
{
  static const char *const list[] = {"a", "b", "c", "d"};
  tt_pool_scores_writer *f = NULL;
  TT_CHECK(lists, <=, 4);
  TT_CHECK_OK(tt_pool_scores_create(comm, score_file, lists, list, first, rows, NULL, &f));
  TT_CHECK_OK(tt_pool_scores_write(f, first, tt_comm_is_root(comm) ? rows : 0, value));
  TT_CHECK_OK(tt_pool_scores_commit(&f));
}

/* Few values, so that many are equal; some negative if asked for. */
static void make_scores(int64_t lists, uint32_t round, double lowest)
{
  for (int64_t l = 0; l < lists; l++)
    for (int64_t i = 0; i < ROWS; i++)
      score[l * ROWS + i] =
          (float)((double)(word(100 * round + (uint32_t)l, i) % 256) / 64.0 + lowest);
  for (int64_t l = 0; l < lists; l++) {
    for (int64_t i = 0; i < used_rows.count; i++) score[l * ROWS + used_rows.row[i] - FIRST] = NAN;
    for (int64_t i = 3; i < ROWS; i += 50) score[l * ROWS + i] = NAN; /* excluded */
  }
  put_scores(lists, FIRST, ROWS, score);
}

static void configure(tt_select_method method, const char *lower, const char *upper)
{
  static tt_ensemble_config ensemble[LISTS];
  static char low[16], up[16];
  for (int i = 0; i < LISTS; i++) ensemble[i].number = i;
  snprintf(low, sizeof low, "%s", lower);
  snprintf(up, sizeof up, "%s", upper);
  cfg = (tt_config){.run_seed = 42,
                    .ensembles = LISTS,
                    .ensemble = ensemble,
                    .select_method = (int)method,
                    .select_lower = low,
                    .select_upper = up,
                    .select_prefilter = -1,
                    .select_length_scale = 0.5,
                    .select_temperature = 0.8,
                    .score_ensemble_reduction = TT_ENSEMBLE_REDUCTION_max};
}

static tt_select_args question(int64_t round, int64_t max_queries)
{
  return (tt_select_args){.cfg = &cfg,
                          .scores = score_file,
                          .pool = pool,
                          .used_rows = &used_rows,
                          .round = round,
                          .max_queries = max_queries,
                          .scaler = &scaler,
                          .labeled = labeled,
                          .labeled_count = LABELED};
}

/* comparison */

static void check_counts(int64_t lists, const tt_round *r)
{
  int64_t n[TT_TRUST_COUNT] = {0};
  tt_trust_window w = window_of(lists);
  for (int64_t i = 0; i < ROWS; i++)
    if (!isnan(joint_of(lists, i))) n[tt_trust_window_classify(&w, joint_of(lists, i))]++;
  TT_CHECK(r->accurate, ==, n[TT_TRUST_ACCURATE]);
  TT_CHECK(r->candidate, ==, n[TT_TRUST_CANDIDATE]);
  TT_CHECK(r->failed, ==, n[TT_TRUST_FAILED]);
  if (!isnan(w.lower) || !isnan(r->lower)) TT_CHECK(r->lower, ==, w.lower);
  if (!isnan(w.upper) || !isnan(r->upper)) TT_CHECK(r->upper, ==, w.upper);
}

static tt_queries *check_picks(int64_t lists, int64_t round, int64_t max_queries)
{
  tt_queries *p = NULL;
  tt_round r = {0}, alone = {0};
  tt_select_args s = question(round, max_queries);
  TT_CHECK_OK(tt_select_queries(comm, &s, &r, &p));
  TT_CHECK_OK(tt_select_window_only(comm, &s, &alone));
  check_counts(lists, &r);
  check_counts(lists, &alone);
  int64_t drawn = want_all(lists, round, max_queries);
  TT_CHECK(p->count, ==, wanted);
  TT_CHECK(p->inputs, ==, D);
  for (int64_t k = 0; k < wanted; k++) {
    TT_CHECK(p->row[k], ==, FIRST + want[k]);
    TT_CHECK(p->random[k], ==, k >= wanted - drawn);
    if (!isnan(want_score[k]) || !isnan(p->score[k])) TT_CHECK(p->score[k], ==, want_score[k]);
    for (int d = 0; d < D; d++) TT_CHECK(p->x[k * D + d], ==, (double)x[want[k] * D + d]);
  }
  return p;
}

static void check_once(int64_t lists, int64_t round, int64_t max_queries)
{
  tt_queries *p = check_picks(lists, round, max_queries);
  tt_queries_destroy(&p);
}

static void small_pool(void)
{
  for (int i = 0; i < ROWS * D; i++) x[i] = (float)(word(90, i) % 24) / 2.0f;
  for (int i = 0; i < LABELED * D; i++) labeled[i] = (double)(word(91, i) % 24) / 2.0;
  used_rows.count = 0;
  put_pool(ROWS, D, x);
}

/* laws */

TT_TEST (every_method_equals_a_selection_from_all_candidates) {
  static const char *const window[][2] = {
      {"", ""}, {"1.5", "3.25"}, {"q0.5", ""}, {"q0.25", "q0.9"}};
  small_pool();
  make_scores(1, 1, 0.0);
  for (int m = 0; m < TT_SELECT_COUNT; m++)
    for (size_t w = 0; w < sizeof window / sizeof *window; w++) {
      configure((tt_select_method)m, window[w][0], window[w][1]);
      check_once(1, 1, 1);
      cfg.select_random_fraction = 0.3;
      check_once(1, 1, 17);
    }
}

/* Every row is there four times, and the best rows are the same: each is queried once. */
TT_TEST (all_queries_are_different) {
  small_pool();
  for (int i = 0; i < ROWS * D; i++) x[i] = (float)(i / (4 * D) + i % D);
  put_pool(ROWS, D, x);
  for (int i = 0; i < ROWS; i++) score[i] = (float)(ROWS - i / 4);
  put_scores(1, FIRST, ROWS, score);
  configure(TT_SELECT_top, "", "");
  tt_queries *p = check_picks(1, 1, 20);
  for (int64_t k = 0; k < 20; k++) TT_CHECK(p->row[k], ==, FIRST + 4 * k);
  tt_queries_destroy(&p);
  for (int m = 0; m < TT_SELECT_COUNT; m++) {
    configure((tt_select_method)m, "", "");
    cfg.select_random_fraction = 0.1;
    p = check_picks(1, 1, 310);
    TT_CHECK(p->count, ==, 300);
    tt_queries_destroy(&p);
  }
}

/* A prefilter, negative scores, no labels to begin with. */
TT_TEST (kcenter_and_penalty_keep_their_bounds) {
  small_pool();
  make_scores(1, 2, -2.0);
  for (int m = TT_SELECT_kcenter; m <= TT_SELECT_penalty; m++) {
    configure((tt_select_method)m, "", "q0.95");
    cfg.select_prefilter = 60;
    check_once(1, 2, 20);
    check_once(1, 2, 59);
  }
  tt_queries *p = NULL;
  tt_round r = {0};
  tt_select_args s = question(2, 5);
  cfg.select_method = TT_SELECT_kcenter;
  s.labeled_count = 0;
  TT_CHECK_OK(tt_select_queries(comm, &s, &r, &p));
  TT_CHECK(p->count, ==, 5);
  for (int64_t i = 0; i < ROWS; i++)
    if ((double)score[i] < r.upper) TT_CHECK((double)score[i], <=, p->score[0]);
  tt_queries_destroy(&p);
}

static int64_t calls_of(int64_t queries)
{
  tt_queries *p = NULL;
  tt_round r = {0};
  tt_select_args s = question(2, queries);
  const received before = test_received;
  TT_CHECK_OK(tt_select_queries(comm, &s, &r, &p));
  TT_CHECK(p->count, ==, queries);
  tt_queries_destroy(&p);
  return received_since(before).calls;
}

/* A query of kcenter and penalty costs two collective calls, whose bytes do not grow with the
 * number of ranks: the maximum of the keys, and the inputs from the rank that has them. One rank
 * calls nothing. */
TT_TEST (a_distant_query_costs_two_calls) {
  const int64_t calls = tt_comm_ranks(comm) > 1 ? 2 : 0;
  small_pool();
  make_scores(1, 2, 0.0);
  for (int m = TT_SELECT_kcenter; m <= TT_SELECT_penalty; m++) {
    configure((tt_select_method)m, "", "q0.95");
    cfg.select_prefilter = 60;
    TT_CHECK(calls_of(30) - calls_of(10), ==, 20 * calls);
  }
}

/* Each ensemble selects its part by the weights; one of weight 0 selects none; no query belongs to
 * two parts. */
TT_TEST (a_quota_is_kept) {
  static double weight[][LISTS] = {{1, 1, 1}, {5, 0, 2}};
  small_pool();
  make_scores(LISTS, 3, 0.0);
  for (int m = 0; m < TT_SELECT_COUNT; m++)
    for (int w = 0; w < 2; w++) {
      configure((tt_select_method)m, "0.5", "q0.8");
      cfg.score_ensemble_reduction = TT_ENSEMBLE_REDUCTION_quota;
      cfg.score_weights.count = LISTS;
      cfg.score_weights.value = weight[w];
      cfg.select_random_fraction = 0.1;
      check_once(LISTS, 3, 20);
    }
}

/* The part of an ensemble without scores goes to the others. */
TT_TEST (a_part_without_candidates_goes_to_the_others) {
  small_pool();
  make_scores(LISTS, 4, 0.0);
  for (int64_t i = 0; i < ROWS; i++) score[2 * ROWS + i] = NAN;
  put_scores(LISTS, FIRST, ROWS, score);
  configure(TT_SELECT_top, "", "");
  cfg.score_ensemble_reduction = TT_ENSEMBLE_REDUCTION_quota;
  tt_queries *p = NULL;
  tt_round r = {0};
  tt_select_args s = question(4, 30);
  TT_CHECK_OK(tt_select_queries(comm, &s, &r, &p));
  TT_CHECK(p->count, ==, 30);
  tt_queries_destroy(&p);
}

static int by_number(const void *a, const void *b)
{
  int64_t p = *(const int64_t *)a, q = *(const int64_t *)b;
  return (p > q) - (p < q);
}

/* With penalty, queries at random are those of top: the highest of the random scores. */
TT_TEST (random_queries_know_no_distance) {
  static const tt_select_method method[] = {TT_SELECT_top, TT_SELECT_penalty};
  tt_queries *p[2] = {NULL, NULL};
  small_pool();
  make_scores(1, 1, 0.0);
  for (int i = 0; i < 2; i++) {
    tt_round r = {0};
    tt_select_args s = question(1, 40);
    configure(method[i], "", "");
    cfg.score_acquisition = TT_ACQUISITION_random;
    TT_CHECK_OK(tt_select_queries(comm, &s, &r, &p[i]));
  }
  TT_CHECK(p[0]->count, ==, 40);
  for (int k = 0; k < 40; k++) TT_CHECK(p[0]->row[k], ==, p[1]->row[k]);
  for (int i = 0; i < 2; i++) tt_queries_destroy(&p[i]);
}

/* Rounds until the pool is empty: every candidate is queried once, the last round is smaller, and
 * the next one is empty. Most rows were queried before. */
TT_TEST (no_candidate_is_queried_twice) {
  int64_t all = ROWS - ROWS / 50, round = 1;
  for (int m = 0; m < TT_SELECT_COUNT; m++) {
    small_pool();
    for (int64_t i = 0; i < 1100; i++)
      if (i % 50 != 3) used_rows.row[used_rows.count++] = FIRST + i;
    configure((tt_select_method)m, "", "");
    cfg.select_random_fraction = 0.25;
    cfg.select_prefilter = 50;
    for (round = 1; used_rows.count < all; round++) {
      tt_queries *p = NULL;
      tt_round r = {0};
      tt_select_args s = question(round, 40);
      make_scores(1, (uint32_t)round, 0.0);
      TT_CHECK_OK(tt_select_queries(comm, &s, &r, &p));
      TT_CHECK(p->count, ==, all - used_rows.count < 40 ? all - used_rows.count : 40);
      for (int64_t k = 0; k < p->count; k++) used_rows.row[used_rows.count++] = p->row[k];
      qsort(used_rows.row, (size_t)used_rows.count, sizeof *used_rows.row, by_number);
      for (int64_t k = 1; k < used_rows.count; k++)
        TT_CHECK(used_rows.row[k - 1], <, used_rows.row[k]);
      tt_queries_destroy(&p);
    }
    make_scores(1, (uint32_t)round, 0.0);
    check_once(1, round, 10);
    TT_CHECK(wanted, ==, 0);
  }
}

/* More queries than candidates; no candidate in the window: no query, not even a random one; no
 * queries requested. */
TT_TEST (fewer_candidates_than_wanted) {
  small_pool();
  make_scores(1, 5, 0.0);
  for (int m = 0; m < TT_SELECT_COUNT; m++) {
    configure((tt_select_method)m, "q0.98", "");
    check_once(1, 5, 100);
    check_once(1, 5, 0);
    tt_queries *p = NULL;
    tt_round r = {0};
    tt_select_args s = question(5, MOST);
    configure((tt_select_method)m, "q1", "");
    cfg.select_random_fraction = 0.5;
    TT_CHECK_OK(tt_select_queries(comm, &s, &r, &p));
    TT_CHECK(p->count, ==, 0);
    TT_CHECK(r.accurate, ==, ROWS - ROWS / 50);
    TT_CHECK(r.candidate + r.failed, ==, 0);
    tt_queries_destroy(&p);
  }
  tt_round r = {0};
  tt_select_args s = question(5, 0);
  configure(TT_SELECT_top, "", "q1");
  TT_CHECK_OK(tt_select_window_only(comm, &s, &r));
  TT_CHECK(r.candidate, ==, ROWS - ROWS / 50);
}

/* Several pieces a rank: the counts and the best of a pool whose order is known. */
TT_TEST (chunks_change_nothing) {
  static float value[LARGE], one[LARGE];
  for (int64_t i = 0; i < LARGE; i++) value[i] = one[i] = (float)((i * 7919) % LARGE);
  used_rows.count = 0;
  put_pool(LARGE, 1, one);
  put_scores(1, FIRST, LARGE, value);
  configure(TT_SELECT_top, "q0.5", "139990");
  tt_queries *p = NULL;
  tt_round r = {0};
  tt_select_args s = question(1, 5000);
  double zero = 0.0, unit = 1.0;
  int8_t none = TT_NORMALIZE_none;
  tt_scaler narrow = {
      .inputs = 1, .x_mean = &zero, .x_scale = &unit, .x_normalize = &none, .x_lambda = &unit};
  s.scaler = &narrow;
  TT_CHECK_OK(tt_select_queries(comm, &s, &r, &p));
  TT_CHECK(r.accurate, ==, LARGE / 2);
  TT_CHECK(r.failed, ==, LARGE - 139990);
  TT_CHECK(r.lower, ==, (double)(LARGE / 2));
  TT_CHECK(p->count, ==, 5000);
  for (int64_t k = 0; k < 5000; k++) {
    TT_CHECK(p->score[k], ==, (double)(139989 - k));
    TT_CHECK(p->x[k], ==, p->score[k]);
  }
  tt_queries_destroy(&p);
}

/* The two slow methods end when a stop is requested. */
TT_TEST (slow_methods_can_be_stopped) {
  small_pool();
  make_scores(1, 7, 0.0);
  for (int m = 0; m < TT_SELECT_COUNT; m++) {
    tt_queries *p = NULL;
    tt_round r = {0};
    tt_select_args s = question(7, 5);
    int slow = m == TT_SELECT_kcenter || m == TT_SELECT_penalty;
    s.deadline = 1e-9;
    configure((tt_select_method)m, "", "");
    TT_CHECK((int)tt_select_queries(comm, &s, &r, &p), ==, slow ? TT_E_STOPPED : TT_OK);
    TT_CHECK(p == NULL, ==, slow);
    tt_queries_destroy(&p);
  }
}

/* Whichever vote fails, all ranks get the error and no memory leaks. Returns the number of votes.
 */
static int64_t with_fault(int rank, int64_t offset, tt_err wanted_error)
{
  tt_queries *p = NULL;
  tt_round r = {0};
  tt_select_args s = question(8, 12);
  int64_t balance = tt_mem_live_blocks();
  tt_comm *c = comm_with_fault(rank, offset);
  TT_CHECK((int)tt_select_queries(c, &s, &r, &p), ==, (int)wanted_error);
  TT_CHECK(p == NULL, ==, wanted_error != TT_OK);
  tt_queries_destroy(&p);
  int64_t votes = tt_comm_votes(c);
  tt_comm_end(&c);
  TT_CHECK(tt_mem_live_blocks(), ==, balance);
  return votes;
}

TT_TEST (any_vote_may_fail) {
  small_pool();
  make_scores(1, 8, 0.0);
  configure(TT_SELECT_kcenter, "q0.5", "");
  cfg.select_random_fraction = 0.2;
  int64_t votes = with_fault(0, 1000000, TT_OK);
  for (int64_t offset = 1; offset <= votes; offset++)
    with_fault((int)(offset % tt_comm_ranks(comm)), offset, TT_E_IO);
}

static void refused(const char *text)
{
  tt_queries *p = NULL;
  tt_round r = {0};
  tt_select_args s = question(1, 5);
  TT_CHECK((int)tt_select_queries(comm, &s, &r, &p), ==, TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), text);
  TT_CHECK(p == NULL, ==, 1);
  TT_CHECK((int)tt_select_window_only(comm, &s, &r), ==, TT_E_DATA);
}

TT_TEST (scores_of_another_pool_are_rejected) {
  small_pool();
  configure(TT_SELECT_top, "", "");
  make_scores(1, 6, 0.0);
  put_scores(1, FIRST, ROWS - 1, score);
  refused("1199 candidates");
  put_scores(1, FIRST + 1, ROWS, score);
  refused("from number 501 on");
  make_scores(LISTS, 6, 0.0);
  refused("3 scores for each candidate");
  make_scores(1, 6, 0.0);
  used_rows.row[0] = FIRST + 1100;
  used_rows.count = 1;
  refused("candidate 1600, which was queried before");
  used_rows.count = 0;
  if (tt_comm_is_root(comm)) unlink(score_file);
  tt_barrier(comm);
  tt_queries *p = NULL;
  tt_round r = {0};
  tt_select_args s = question(1, 5);
  TT_CHECK((int)tt_select_queries(comm, &s, &r, &p), ==, TT_E_NOINPUT);
}

static int begin(void **unused)
{
  (void)unused;
  if (tt_scaler_create(D, 1, &scaler)) return -1;
  for (int d = 0; d < D; d++) {
    scaler.x_mean[d] = 1.5 + d;
    scaler.x_scale[d] = 3.0 / (1 + d);
  }
  snprintf(pool_file, sizeof pool_file, "%s/pool.h5", scratch);
  snprintf(score_file, sizeof score_file, "%s/pool_scores.h5", scratch);
  return 0;
}

static int end(void **unused)
{
  (void)unused;
  tt_pool_close_local(&pool);
  tt_scaler_free(&scaler);
  return 0;
}

TT_SUITE(begin, end)
