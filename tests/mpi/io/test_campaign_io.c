/* test_campaign_io.c — files of a campaign are read as written, bit by bit, on any number of ranks.
 * With TUTTI_TEST_KEEP=DIR it only leaves files in DIR for other programs. */
#include "tests/mpi/io/samples.h"
#include "tests/support/made_up.h"

#include "core/base/log.h"
#include "io/campaign/campaign_files.h"
#include "io/campaign/history_variables.h"
#include "io/data/raw_data.h"

#include <inttypes.h>
#include <math.h>

enum { C = 3, PICKS = 4, MOST = 8 };

/* A NaN with a known payload. */
static double odd_nan(int64_t i)
{
  uint64_t bits = UINT64_C(0x7FF8000000000000) + (uint64_t)i;
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static double number(int64_t i) { return i % 5 == 3 ? odd_nan(i) : 1.0 / (double)(i + 3); }

static void make_round(tt_history *h, int64_t r)
{
  tt_round *round;
  int64_t i = 1000 * r;
  TT_CHECK_OK(tt_history_add_round(h, C, &round));
#define X(name, meaning) round->name = i++;
  TT_ROUND_COUNTS(X)
#undef X
#define X(name, meaning) round->name = number(i++);
  TT_ROUND_NUMBERS(X)
#undef X
  for (int k = 0; k < TT_STAGE_COUNT; k++) round->seconds[k] = number(i++);
  round->model = UINT64_MAX - (uint64_t)r;
  for (int k = 0; k < C; k++) {
    round->rmse[k] = number(i++);
    round->nll[k] = number(i++);
    round->spread[k] = number(i++);
  }
}

/* `picks` queries in every round but the last one, which has none. */
static tt_history *made(int64_t rounds, int64_t queries)
{
  tt_history *h = NULL;
  TT_CHECK_OK(tt_history_create(D, T, &h));
  h->identity = (tt_history_identity){UINT64_C(0x0123456789ABCDEF), 5, 7};
  for (int64_t r = 1; r <= rounds; r++) {
    tt_query query[PICKS];
    double px[PICKS * D], py[PICKS * T];
    make_round(h, r);
    memset(query, 0, sizeof query);
    for (int64_t i = 0; i < PICKS; i++) {
      query[i].row = (INT64_C(1) << 40) + 100 * r - i;
      query[i].round = (int32_t)r;
      query[i].random = i == 1;
      query[i].label_status = i != 2 ? TT_LABEL_STATUS_labeled : TT_LABEL_STATUS_failed;
      query[i].split = (int8_t)(i == 3 ? TT_UNUSED_ROW : i % 2);
      query[i].score = i == 1 ? odd_nan(r) : number(r + i);
    }
    for (int64_t i = 0; i < PICKS * D; i++) px[i] = 1.0 / (double)(r + i);
    for (int64_t i = 0; i < PICKS * T; i++)
      py[i] = i / T == 2 || i % 5 == 1 ? odd_nan(r + i) : 1e9 / (double)(r + i);
    if (r < rounds) TT_CHECK_OK(tt_history_add_queries(h, queries, query, px, py));
  }
  return h;
}

static void check_same(const tt_history *a, const tt_history *b)
{
  TT_CHECK(a->inputs, ==, b->inputs);
  TT_CHECK(a->targets, ==, b->targets);
  TT_CHECK(a->columns, ==, b->columns);
  assert_memory_equal(&a->identity, &b->identity, sizeof a->identity);
  TT_CHECK(a->rounds, ==, b->rounds);
  TT_CHECK(a->queries, ==, b->queries);
  TT_CHECK(a->ended, ==, b->ended);
  for (int64_t r = 0; r < a->rounds; r++) {
    assert_memory_equal(&a->round[r], &b->round[r], offsetof(tt_round, rmse));
    assert_memory_equal(a->round[r].rmse, b->round[r].rmse, C * sizeof(double));
    assert_memory_equal(a->round[r].nll, b->round[r].nll, C * sizeof(double));
    assert_memory_equal(a->round[r].spread, b->round[r].spread, C * sizeof(double));
  }
  size_t n = (size_t)a->queries;
  if (n == 0) return;
  assert_memory_equal(a->query, b->query, n * sizeof *a->query);
  assert_memory_equal(a->x, b->x, n * D * sizeof *a->x);
  assert_memory_equal(a->y, b->y, n * T * sizeof *a->y);
}

static tt_err write_history(tt_comm *c, const char *path, const tt_history *h)
{
  static const char *const label[] = {"qe", "qi digit=3", "\xCE\xB8"};
  tt_columns input = {0}, target = {0};
  made_up_columns(&input, D, "feature");
  made_up_columns(&target, T, "\xCE\xB8");
  const tt_history_names names = {&input, &target, label, NULL};
  tt_provenance provenance = made_up_provenance(c);
  tt_err e = tt_history_write(c, path, h, &names, &provenance);
  tt_columns_free(&input);
  tt_columns_free(&target);
  return e;
}

TT_TEST (a_history_is_read_bit_by_bit) {
  static const int64_t size[][2] = {{0, 0}, {1, 0}, {2, 0}, {MOST, PICKS}};
  for (int i = 0; i < 4; i++) {
    int64_t rounds = size[i][0], queries = size[i][1];
    tt_history *h = made(rounds, queries), *again = NULL, *shared = NULL;
    h->ended = (int)rounds - 1; /* none, or a rule */
    TT_CHECK_OK(write_history(comm, at("campaign.h5"), h));
    TT_CHECK_OK(tt_history_read_local(at("campaign.h5"), &again));
    check_same(again, h);
    TT_CHECK_OK(tt_history_read(comm, at("campaign.h5"), &shared));
    check_same(shared, h);
    tt_history_destroy(&shared);
    tt_history_truncate(again, rounds / 2 +
                                   1); /* a history that was read can be extended like a new one */
    tt_history_truncate(h, rounds / 2 + 1);
    if (rounds > 1) make_round(again, 99), make_round(h, 99);
    check_same(again, h);
    tt_history_destroy(&h);
    tt_history_destroy(&again);
  }
  TT_CHECK((int)TT_STOP_RULE_COUNT, ==, MOST);
}

TT_TEST (names_are_read_as_written) {
  tt_history *h = made(2, PICKS);
  tt_history_metadata t;
  TT_CHECK_OK(write_history(comm, at("campaign.h5"), h));
  TT_CHECK_OK(tt_history_read_metadata_local(at("campaign.h5"), &t));
  TT_CHECK(t.input.count, ==, D);
  TT_CHECK(t.target.count, ==, T);
  TT_CHECK(t.columns, ==, C);
  assert_string_equal(t.input.name[2], "feature_2");
  assert_string_equal(t.target.name[0], "\xCE\xB8_0");
  assert_string_equal(t.target.units[1], "\xC3\x85");
  assert_string_equal(t.column[1], "qi digit=3");
  assert_string_equal(t.resolved, made_up_provenance(comm).resolved);
  tt_history_metadata_free(&t);
  tt_history_destroy(&h);
}

static size_t slurp(const char *path, char **bytes)
{
  FILE *f = fopen(path, "r");
  TT_CHECK(f != NULL, ==, 1);
  fseek(f, 0, SEEK_END);
  size_t n = (size_t)ftell(f);
  rewind(f);
  *bytes = malloc(n);
  TT_CHECK(fread(*bytes, 1, n, f), ==, n);
  fclose(f);
  return n;
}

TT_TEST (every_variable_is_in_the_manual) {
  char *text = NULL, name[64];
  size_t n = slurp(TUTTI_SOURCE "/docs/files.md", &text);
  text[n - 1] = 0;
  for (int i = 0; i < tt_history_variable_count; i++) {
    const tt_history_variable *item = &tt_history_variables[i];
    snprintf(name, sizeof name, "`%s`", item->v.name);
    if (item->location != TT_LOCATION_NUMBER) TT_CHECK_HAS(text, name);
    TT_CHECK(item->v.long_name != NULL, ==, 1);
  }
  free(text);
}

/* damaged files */

static void spill(const char *path, const char *bytes, size_t n)
{
  FILE *f = fopen(path, "w");
  TT_CHECK(fwrite(bytes, 1, n, f), ==, n);
  fclose(f);
}

static void check_refused(const char *path, tt_err wanted)
{
  tt_history *h = NULL;
  int64_t before = tt_mem_live_blocks();
  TT_CHECK((int)tt_history_read_local(path, &h), ==, (int)wanted);
  TT_CHECK(h == NULL, ==, 1);
  TT_CHECK(tt_mem_live_blocks(), ==, before);
  TT_CHECK_HAS(tt_err_last(), path);
}

/* A wrong bit of a value, a truncated file, another kind of file: each is read on one rank alone.
 */
TT_TEST (a_damaged_file_is_refused) {
  tt_history *h = made(3, PICKS);
  char name[32], *bytes = NULL;
  TT_CHECK_OK(write_history(comm, at("campaign.h5"), h));
  snprintf(name, sizeof name, "damaged-%d.h5", tt_comm_rank(comm));
  const char *path = at(name);
  size_t n = slurp(at("campaign.h5"), &bytes), value = 0;
  for (size_t i = 0; i + 8 <= n && !value; i++)
    if (!memcmp(bytes + i, &h->y[3], 8)) value = i;
  TT_CHECK(value, >, (size_t)0);
  for (size_t bit = 0; bit < 64; bit += 7) {
    bytes[value + bit / 8] ^= (char)(1 << bit % 8);
    spill(path, bytes, n);
    check_refused(path, TT_E_DATA);
    TT_CHECK_HAS(tt_err_last(), "checksum");
    bytes[value + bit / 8] ^= (char)(1 << bit % 8);
  }
  spill(path, bytes, n - 1);
  check_refused(path, TT_E_DATA);
  spill(path, bytes, 0);
  check_refused(path, TT_E_DATA);
  unlink(path);
  check_refused(path, TT_E_NOINPUT);
  free(bytes);
  tt_history_destroy(&h);
}

/* queries and labels */

static void fill_picks(tt_queries *p)
{
  for (int64_t i = 0; i < p->count; i++) {
    p->row[i] = (INT64_C(1) << 50) - 7 * i;
    p->random[i] = i % 3 == 1;
    p->score[i] = p->random[i] ? odd_nan(i) : number(i);
  }
  for (int64_t i = 0; i < p->count * D; i++) p->x[i] = 1.0 / (double)(i + 1);
}

/* Also if the checksum is that of the values. */
TT_TEST (a_query_that_cannot_be_is_refused) {
  static const char *const name[] = {"row", "round", "random", "label_status", "split"};
  for (int i = 0; i < 5; i++) {
    tt_history *h = made(3, PICKS);
    tt_query *q = &h->query[1];
    if (i == 0) q->row = -1;
    if (i == 1) q->round = 4;
    if (i == 2) q->random = 2;
    if (i == 3) q->label_status = -1;
    if (i == 4) q->split = TT_SPLITS;
    TT_CHECK_OK(write_history(comm, at("campaign.h5"), h));
    check_refused(at("campaign.h5"), TT_E_DATA);
    TT_CHECK_HAS(tt_err_last(), name[i]);
    tt_barrier(comm);
    tt_history_destroy(&h);
  }
}

TT_TEST (queries_are_read_as_written) {
  tt_columns input = {0};
  made_up_columns(&input, D, "feature");
  make_values();
  put();
  for (int64_t n = 11; n >= 0; n = n ? n - 11 : -1) {
    tt_queries *p = NULL, *q = NULL;
    tt_query_labels *a = NULL;
    size_t size = (size_t)n;
    TT_CHECK_OK(tt_queries_create(n, D, &p));
    TT_CHECK_OK(tt_query_labels_create(n, T, &a));
    for (int64_t i = 0; i < n * T; i++) TT_CHECK(isnan(a->y[i]) != 0, ==, 1);
    fill_picks(p);
    TT_CHECK_OK(tt_queries_write(comm, at(n ? "queries.h5" : "none.h5"), p, &input, NULL,
                                 &(tt_row_ids){0}, NULL));
    TT_CHECK_OK(tt_queries_read(comm, at(n ? "queries.h5" : "none.h5"), &q));
    TT_CHECK(q->count, ==, n);
    TT_CHECK(q->inputs, ==, D);
    assert_int_equal(memcmp(p->row, q->row, size * sizeof *p->row), 0);
    assert_int_equal(memcmp(p->score, q->score, size * sizeof *p->score), 0);
    assert_int_equal(memcmp(p->random, q->random, size), 0);
    assert_int_equal(memcmp(p->x, q->x, size * D * sizeof *p->x), 0);
    tt_queries_destroy(&q);
    check_refused(at(n ? "queries.h5" : "none.h5"), TT_E_DATA);
    TT_CHECK((int)tt_queries_read_local(file, &q), ==, TT_E_DATA);
    TT_CHECK((int)tt_queries_read(comm, at("missing.h5"), &q), ==, TT_E_NOINPUT);
    tt_queries_destroy(&p);
    tt_query_labels_destroy(&a);
  }
  tt_columns_free(&input);
}

/* Data */

static tt_config config(char *column)
{
  static char none[] = "", inputs[] = "x", targets[] = "y";
  return (tt_config){
      .data_file = file,
      .data_inputs = inputs,
      .data_targets = targets,
      .data_weights = none,
      .data_split_train = 0.7,
      .data_split_validation = 0.2,
      .data_split_test = 0.05,
      .data_split_seed = 7,
      .data_split_column = column ? column : none,
  };
}

TT_TEST (initial_data_are_those_of_the_file) {
  static char column[] = "part";
  const uint64_t recorded[] = {UINT64_C(0xA5EB66777C26F1BA), UINT64_C(0x138D09C8E326743C)};
  make_values();
  put();
  for (int by_column = 0; by_column < 2; by_column++) {
    tt_config cfg = config(by_column ? column : NULL);
    tt_dataset *b = NULL;
    double *bx = NULL, *by = NULL, *bs = NULL;
    tt_dataset *d = NULL;
    TT_CHECK_OK(tt_data_read_raw(comm, &cfg, &b, &bx, &by, &bs));
    TT_CHECK_OK(tt_data_read(comm, &cfg, NULL, &d));
    TT_CHECK(b->rows, ==, N);
    assert_memory_equal(b->split, d->split, N);
    assert_memory_equal(by, y, sizeof y);
    for (int i = 0; i < N * D; i++) TT_CHECK(bx[i], ==, (double)x[i]);
    assert_string_equal(b->input.name[1], "b");
    assert_string_equal(b->target.name[1], "state");
    if (b->hash != recorded[by_column]) print_error("hash 0x%016" PRIX64 "\n", b->hash);
    TT_CHECK(b->hash == recorded[by_column], ==, 1);
    tt_dataset_destroy(&b);
    tt_free_all(&bx, &by);
    tt_dataset_destroy(&d);
  }
}

/* Collective. The rows of a round in a file as another program writes it. */
static void put_round(const char *path, const tt_dataset *b, const double *bx, const double *by,
                      const tt_history *h)
{
  static double gx[(N + MOST * PICKS) * D], gy[(N + MOST * PICKS) * T];
  static int8_t split[N + MOST * PICKS];
  tt_h5_file *f = NULL;
  int64_t n = N;
  memcpy(gx, bx, N * D * sizeof *gx);
  memcpy(gy, by, N * T * sizeof *gy);
  memcpy(split, b->split, N);
  for (int64_t i = 0; i < h->queries; i++) {
    if (h->query[i].label_status != TT_LABEL_STATUS_labeled) continue;
    memcpy(gx + n * D, h->x + i * D, D * sizeof *gx);
    memcpy(gy + n * T, h->y + i * T, T * sizeof *gy);
    split[n++] = h->query[i].split;
  }
  TT_CHECK(n, ==, N + 3 * (h->rounds - 1));
  TT_CHECK_OK(tt_h5_create(comm, path, 0, &f));
  tt_h5_write_from_root(f, "x", TT_H5_F64, 2, (const int64_t[]){n, D}, gx);
  tt_h5_write_from_root(f, "y", TT_H5_F64, 2, (const int64_t[]){n, T}, gy);
  tt_h5_write_from_root(f, "split", TT_H5_I8, 1, (const int64_t[]){n}, split);
  tt_h5_write_texts(f, "feature_name", D, 8, (const char *const *)b->input.name);
  tt_h5_write_texts(f, "target_name", T, 8, (const char *const *)b->target.name);
  TT_CHECK_OK(tt_h5_commit(&f));
}

/* The training data are those of a file with the initial data and the labels, bit by bit. */
TT_TEST (data_of_a_round_are_initial_data_and_labels) {
  static char column[] = "split";
  make_values();
  put();
  for (int64_t rounds = 1; rounds <= 3; rounds += 2) {
    tt_config cfg = config(NULL), of_file = config(column);
    tt_history *h = made(rounds, PICKS);
    tt_dataset *b = NULL;
    double *bx = NULL, *by = NULL, *bs = NULL;
    tt_dataset *d = NULL, *wanted = NULL;
    TT_CHECK_OK(tt_data_read_raw(comm, &cfg, &b, &bx, &by, &bs));
    put_round(at("data.h5"), b, bx, by, h);
    of_file.data_file = strcpy((char[SCRATCH_ROOM + 64]){0}, at("data.h5"));
    TT_CHECK_OK(tt_data_read(comm, &of_file, NULL, &wanted));
    TT_CHECK_OK(tt_round_data_create(comm, &cfg, b, bx, by, bs, h, &d));
    TT_CHECK(d->rows, ==, wanted->rows);
    size_t rows = (size_t)d->rows;
    assert_memory_equal(d->x, wanted->x, rows * D * sizeof *d->x);
    assert_memory_equal(d->y, wanted->y, rows * T * sizeof *d->y);
    assert_memory_equal(d->split, wanted->split, rows);
    assert_memory_equal(d->scaler.x_mean, wanted->scaler.x_mean, D * sizeof(double));
    assert_memory_equal(d->scaler.x_scale, wanted->scaler.x_scale, D * sizeof(double));
    assert_memory_equal(d->scaler.y_mean, wanted->scaler.y_mean, T * sizeof(double));
    assert_memory_equal(d->scaler.y_scale, wanted->scaler.y_scale, T * sizeof(double));
    assert_string_equal(d->target.name[0], "load");
    TT_CHECK(d->hash == wanted->hash, ==, 1);
    tt_dataset_destroy(&b);
    tt_free_all(&bx, &by);
    tt_dataset_destroy(&d);
    tt_dataset_destroy(&wanted);
    tt_history_destroy(&h);
  }
}

/* an error of one rank is an error of all */

static tt_err all_files(tt_comm *c)
{
  tt_config cfg = config(NULL);
  tt_dataset *b = NULL;
  double *bx = NULL, *by = NULL, *bs = NULL;
  tt_dataset *d = NULL;
  tt_history *h = made(2, PICKS);
  tt_err e = tt_data_read_raw(c, &cfg, &b, &bx, &by, &bs);
  if (!e) e = tt_round_data_create(c, &cfg, b, bx, by, bs, h, &d);
  if (!e) e = write_history(c, at("campaign.h5"), h);
  tt_dataset_destroy(&b);
  tt_free_all(&bx, &by);
  tt_dataset_destroy(&d);
  tt_history_destroy(&h);
  return e;
}

/* Some of the votes; tests of the layers below try all of theirs. */
TT_TEST (a_fault_at_a_vote_is_shared) {
  int64_t n = 1;
  make_values();
  put();
  for (tt_err e = TT_E_IO; e; n += n + 1) {
    int64_t before = tt_mem_live_blocks();
    tt_comm *c = comm_with_fault(tt_comm_ranks(comm) - 1, n);
    e = all_files(c);
    if (e) TT_CHECK_HAS(tt_err_last(), "fault injected");
    tt_comm_end(&c);
    TT_CHECK((int)tt_agree(comm, e), ==, (int)e);
    TT_CHECK(tt_mem_live_blocks(), ==, before);
    TT_CHECK(tt_comm_is_root(comm) ? scratch_count(scratch, ".tmp-") : 0, ==, 0);
  }
  TT_CHECK(n, >, 100); /* the faults did reach the votes of all files */
}

/* For other programs: a campaign in its last round, and one in its first. */
static void leave_files(void)
{
  tt_config cfg = config(NULL);
  tt_dataset *b = NULL;
  double *bx = NULL, *by = NULL, *bs = NULL;
  tt_history *h = made(4, PICKS), *young = made(1, 0);
  make_values();
  put();
  TT_CHECK_OK(tt_data_read_raw(comm, &cfg, &b, &bx, &by, &bs));
  if (tt_comm_is_root(comm))
    TT_CHECK_OK(tt_data_write_local(at("data.h5"), b->rows, &b->input, &b->target, bx, by));
  TT_CHECK_OK(write_history(comm, at("campaign.h5"), h));
  TT_CHECK_OK(write_history(comm, at("young.h5"), young));
  tt_dataset_destroy(&b);
  tt_free_all(&bx, &by);
  tt_history_destroy(&h);
  tt_history_destroy(&young);
}

static int end(void **unused)
{
  (void)unused;
  if (getenv("TUTTI_TEST_KEEP")) leave_files();
  return 0;
}

TT_SUITE(name_samples, end)
