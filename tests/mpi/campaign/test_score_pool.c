/* test_score_pool.c — laws of stage score: the bits of pool_scores.h5 and of the sums do not depend
 * on ranks or pieces; if the stage fails, no file is left behind. */
#include "core/base/log.h"
#include "io/campaign/pool_scores.h"
#include "io/hdf5/h5.h"
#include "src/campaign/pool/score_pool.h"
#include "src/predict/normalization.h"
#include "tests/support/scored.h"

#include <float.h>
#include <xxhash.h>

enum { ROWS = 1500, MANY = 300000 };

/* Rank 0 writes a pool; every 10th row is excluded. */
static tt_pool *pool_of(const char *file, int64_t rows, double *x)
{
  const int64_t shape[] = {rows, D};
  const char *const files[] = {file};
  tt_pool *pool = NULL;
  tt_columns names = {0};
  TT_CHECK_OK(tt_columns_create(D, &names));
  tt_pool_options plan = {
      .file = files, .files = 1, .first = FIRST, .inputs = "x", .exclude = "mask", .input = &names};
  if (tt_comm_is_root(comm)) {
    tt_h5_file *f = NULL;
    int8_t *mask = NULL;
    TT_CHECK_OK(TT_ALLOC(mask, rows));
    for (int64_t r = 0; r < rows; r += 10) mask[r] = 1;
    TT_CHECK_OK(tt_h5_create(NULL, file, 0, &f));
    tt_h5_write_from_root(f, "x", TT_H5_F64, 2, shape, x);
    tt_h5_write_from_root(f, "mask", TT_H5_I8, 1, shape, mask);
    TT_CHECK_OK(tt_h5_commit(&f));
    tt_free(mask);
  }
  tt_barrier(comm);
  TT_CHECK_OK(tt_pool_open(comm, &plan, &pool));
  tt_columns_free(&names);
  return pool;
}

/* The same bits for every rank count and piece */

typedef struct wanted {
  float *score; /* [L][rows] */
  int64_t lists;
  tt_round round;
  double spread[MOST_COLUMNS];
} wanted;

static void begin_round(tt_round *r, double *spread)
{
  memset(r, 0, sizeof *r);
  r->spread = spread;
}

static void add(int64_t n, tt_partial_sum *dst, const tt_partial_sum *src)
{
  for (int64_t i = 0; i < n; i++) {
    dst[i].sum += src[i].sum;
    dst[i].count += src[i].count;
  }
}

/* Rows are hashed in units, units in blocks, blocks in one hash. */
static uint64_t hash_of(int64_t rows, int64_t block, const double *raw)
{
  uint64_t all[2048] = {0};
  int64_t blocks = (rows + block - 1) / block;
  for (int64_t offset = 0; offset < rows; offset += TT_POOL_SCORER_SUM_ROWS) {
    int64_t n = rows - offset < TT_POOL_SCORER_SUM_ROWS ? rows - offset : TT_POOL_SCORER_SUM_ROWS;
    uint64_t *h = &all[offset / block];
    *h = XXH3_64bits_withSeed(raw + offset * D, (size_t)(n * D) * sizeof *raw, *h);
  }
  return XXH3_64bits(all, (size_t)blocks * sizeof *all);
}

/* The computation of the ranks on one rank: pieces, units added to blocks of `block` rows, blocks
 * added to totals. */
static void work_out(const tt_score_pool_args *what, int64_t rows, int64_t block, const double *raw,
                     wanted *w)
{
  enum { PIECE = 65536 };
  static float x[MANY * D], score[PIECE * E];
  static int8_t skip[PIECE];
  static tt_partial_sum unit[PIECE / TT_POOL_SCORER_SUM_ROWS * (MOST_COLUMNS + 1)],
      part[MOST_COLUMNS + 1];
  tt_partial_sum all[MOST_COLUMNS + 1] = {{0}};
  tt_pool_scorer *j = NULL;
  double most = -INFINITY;
  const tt_row_chunk *chunk;
  tt_scaler_normalize_inputs(&what->model->at[0]->scaler, rows, raw, x);
  tt_row_predictor *p = predictor_of(what, rows, x);
  TT_CHECK(tt_row_predictor_rows(p), ==, rows < PIECE ? rows : PIECE);
  TT_CHECK_OK(tt_pool_scorer_create_local(what, &j));
  int64_t each = tt_pool_scorer_columns(j) + 1;
  w->lists = tt_pool_scorer_lists(j);
  begin_round(&w->round, w->spread);
  TT_CHECK_OK(TT_ALLOC(w->score, w->lists * rows));
  while (!tt_row_predictor_next(p, TT_OK, &chunk) && chunk) {
    int64_t offset = chunk->first, n = chunk->rows;
    for (int64_t r = 0; r < n; r++) {
      skip[r] = (offset + r) % 10 == 0 || tt_is_row_used(what->used_rows, FIRST + offset + r);
      w->round.pool += !skip[r];
    }
    tt_pool_scorer_score(j, FIRST + offset, chunk, skip, score, unit, &most);
    for (int64_t l = 0; l < w->lists; l++)
      memcpy(w->score + l * rows + offset, score + l * n, (size_t)n * sizeof *score);
    for (int64_t u = 0; u * TT_POOL_SCORER_SUM_ROWS < n; u++) {
      if ((offset + u * TT_POOL_SCORER_SUM_ROWS) % block == 0) {
        add(each, all, part);
        memset(part, 0, sizeof part);
      }
      add(each, part, unit + u * each);
    }
  }
  add(each, all, part);
  memset(part, 0, sizeof part);
  for (int64_t i = 0; i < each - 1; i++) w->spread[i] = all[i].sum / (double)all[i].count;
  w->round.score_mean = all[each - 1].sum / (double)all[each - 1].count;
  w->round.score_max = most;
  w->round.pool_hash = hash_of(rows, block, raw);
  tt_pool_scorer_destroy_local(&j);
  tt_row_predictor_close(&p);
}

static void check_file(const char *file, int64_t rows, const wanted *w)
{
  float *got = NULL;
  tt_pool_scores_reader *r = NULL;
  TT_CHECK_OK(tt_pool_scores_open_local(file, &r));
  TT_CHECK(r->first, ==, FIRST);
  TT_CHECK(r->rows, ==, rows);
  TT_CHECK(r->lists, ==, w->lists);
  TT_CHECK_OK(TT_ALLOC(got, rows));
  for (int64_t l = 0; l < w->lists; l++) {
    TT_CHECK_OK(tt_pool_scores_read_local(r, l, FIRST, rows, got));
    for (int64_t i = 0; i < rows; i++) {
      float want = w->score[l * rows + i];
      if (!isnan(want) || !isnan(got[i])) TT_CHECK(got[i], ==, want);
    }
  }
  tt_free(got);
  tt_pool_scores_close_local(&r);
}

static void check_round(const tt_round *got, int64_t columns, const wanted *w)
{
  TT_CHECK(got->pool, ==, w->round.pool);
  TT_CHECK(got->score_mean, ==, w->round.score_mean);
  TT_CHECK(got->score_max, ==, w->round.score_max);
  TT_CHECK(got->pool_hash == w->round.pool_hash, ==, 1);
  for (int64_t i = 0; i < columns; i++) TT_CHECK(got->spread[i], ==, w->spread[i]);
}

static void check_pool(tt_config *cfg, tt_trained_ensembles *m, const char *name, int64_t rows,
                       int64_t block, const tt_used_rows *used_rows)
{
  static const int64_t piece[] = {768, 0};
  double *raw = NULL, spread[MOST_COLUMNS];
  wanted w = {0};
  TT_CHECK_OK(TT_ALLOC(raw, rows * D));
  inputs(rows, raw);
  tt_score_pool_args what = scoring(cfg, m);
  what.used_rows = used_rows;
  what.pool = pool_of(at(name), rows, raw);
  what.file = at("pool_scores.h5");
  work_out(&what, rows, block, raw, &w);
  for (int i = 0; i < (rows > ROWS ? 1 : 2); i++) { /* long pools are slow */
    tt_round round;
    uint64_t hash = 0;
    begin_round(&round, spread);
    what.max_piece_rows = piece[i];
    TT_CHECK_OK(tt_score_pool(comm, &what, &round));
    TT_CHECK_OK(tt_score_pool_hash(comm, &what, &hash));
    TT_CHECK(hash == round.pool_hash, ==, 1);
    check_file(what.file, rows, &w);
    check_round(&round, tt_trained_ensembles_columns(m), &w);
    tt_barrier(comm);
  }
  tt_pool_close_local(&what.pool);
  tt_free(w.score);
  tt_free(raw);
}

TT_TEST (ranks_and_pieces_change_no_bit) {
  int64_t row[] = {FIRST + 1, FIRST + 10, FIRST + 255, FIRST + 256, FIRST + 1001, FIRST + 1499};
  const tt_used_rows used_rows = {.count = 6, .row = row};
  static const struct {
    tt_acquisition by;
    tt_ensemble_reduction join;
  } law[] = {{TT_ACQUISITION_epistemic_std, TT_ENSEMBLE_REDUCTION_weighted},
             {TT_ACQUISITION_disagreement, TT_ENSEMBLE_REDUCTION_quota},
             {TT_ACQUISITION_random, TT_ENSEMBLE_REDUCTION_max}};
  for (size_t i = 0; i < sizeof law / sizeof *law; i++) {
    tt_trained_ensembles m = model_of(TT_OUTPUT_mean_variance);
    tt_config *cfg = config(law[i].by);
    cfg->score_ensemble_reduction = (int)law[i].join;
    use.threads = 1 + (int)i;
    check_pool(cfg, &m, "pool.h5", ROWS, TT_POOL_SCORER_SUM_ROWS, &used_rows);
    tt_config_destroy(&cfg);
    tt_trained_ensembles_destroy(&m);
  }
  use.threads = 1;
}

TT_TEST (a_long_pool_has_the_same_bits) {
  const tt_used_rows nobody = {0};
  tt_config *cfg = config(TT_ACQUISITION_relative_std);
  tt_trained_ensembles m = {0};
  TT_CHECK_OK(tt_trained_ensembles_create(2, &m));
  m.at[0] = committee(2, 2, TT_OUTPUT_mean, "heating-1", "cooling");
  m.at[1] = committee(2, 1, TT_OUTPUT_mean, "third", "fourth");
  check_pool(cfg, &m, "long.h5", MANY, (int64_t)2 * TT_POOL_SCORER_SUM_ROWS, &nobody);
  tt_config_destroy(&cfg);
  tt_trained_ensembles_destroy(&m);
}

/* errors */

static void refused(tt_score_pool_args *what, tt_err wanted_error, const char *part)
{
  double spread[MOST_COLUMNS];
  tt_round round;
  begin_round(&round, spread);
  TT_CHECK((int)tt_score_pool(comm, what, &round), ==, (int)wanted_error);
  TT_CHECK_HAS(tt_err_last(), part);
  tt_barrier(comm);
  TT_CHECK(scratch_count(scratch, "refused"), ==, 0);
}

/* More rows than HDF5 keeps in memory of a file that stays open. */
enum { PLENTY = 20000 };

/* Rank 0 replaces a value by NaN in a pool that has been opened and checked. */
static void spoil(const char *file, double value)
{
  static char bytes[2 * PLENTY * D * sizeof(double)];
  const double hole = NAN;
  if (tt_comm_is_root(comm)) {
    FILE *f = fopen(file, "r+");
    assert_non_null(f);
    size_t size = fread(bytes, 1, sizeof bytes, f);
    const char *found = memmem(bytes, size, &value, sizeof value);
    assert_non_null(found);
    fseek(f, found - bytes, SEEK_SET);
    TT_CHECK(fwrite(&hole, sizeof hole, 1, f), ==, 1u);
    TT_CHECK(fclose(f), ==, 0);
  }
  tt_barrier(comm);
}

TT_TEST (a_pool_that_cannot_be_scored_is_rejected_and_leaves_no_file) {
  static double raw[PLENTY * D];
  double none[MADE_UP_TARGETS] = {NAN, NAN, NAN, NAN};
  tt_trained_ensembles m = model_of(TT_OUTPUT_mean);
  tt_config *cfg = config(TT_ACQUISITION_bald);
  tt_score_pool_args what = scoring(cfg, &m);
  inputs(PLENTY, raw);
  what.pool = pool_of(at("pool.h5"), PLENTY, raw);
  what.file = at("refused.h5");
  refused(&what, TT_E_DATA,
          "score.acquisition: bald does not fit ensemble 'heating-1', whose output is");
  cfg->score_acquisition = TT_ACQUISITION_expected_improvement;
  what.best = none;
  refused(&what, TT_E_DATA, "has no label yet");
  cfg->score_acquisition = TT_ACQUISITION_total_std;
  cfg->score_target_weights.count = 1;
  refused(&what, TT_E_CONFIG, "score.target_weights has 1 number, but ensemble 'fourth' learns 2");
  cfg->score_target_weights.count = 2;
  what.deadline = 1e-9;
  refused(&what, TT_E_STOPPED, "stopped by the time limit while the pool was scored");
  what.deadline = 0.0;
  TT_CHECK_OK(tt_text_set(&m.at[1]->ensemble[0].name, "fifth"));
  refused(&what, TT_E_DATA, "an ensemble 'fifth' that the campaign's file does not name");
  TT_CHECK_OK(tt_text_set(&m.at[1]->ensemble[0].name, "third"));
  for (int64_t i = 0; i < m.at[1]->members; i++) m.at[1]->weight[i] = 0.0;
  refused(&what, TT_E_DIVERGED, "all 2 members of ensemble 'third' diverged: no member is left");
  cfg->score_acquisition = TT_ACQUISITION_random; /* needs no member, but still reads the rows */
  spoil(at("pool.h5"), raw[700 * D + 1]);
  refused(&what, TT_E_DATA, "pool.h5: dataset 'x', row 700, column 1 ('x1'): nan");
  tt_pool_close_local(&what.pool);
  tt_config_destroy(&cfg);
  tt_trained_ensembles_destroy(&m);
}

/* An input so large that the networks overflow: the lowest score, left out of all means. */
TT_TEST (a_prediction_that_overflows_is_selected_last) {
  static double raw[ROWS * D];
  static float score[ROWS];
  double spread[MOST_COLUMNS];
  tt_round round;
  tt_pool_scores_reader *r = NULL;
  tt_trained_ensembles m = model_of(TT_OUTPUT_rate);
  tt_config *cfg = config(TT_ACQUISITION_total_std);
  tt_score_pool_args what = scoring(cfg, &m);
  inputs(ROWS, raw);
  for (int i = 0; i < D; i++) raw[33 * D + i] = i % 2 ? 3e38 : -3e38;
  for (int i = 0; i < 2; i++)
    for (int l = 0; l < m.at[i]->model.layers; l++)
      m.at[i]->model.layer[l].activation = TT_ACT_identity;
  what.pool = pool_of(at("far.h5"), ROWS, raw);
  what.file = at("pool_scores.h5");
  begin_round(&round, spread);
  tt_log_set_level(TT_LOG_ERROR);
  TT_CHECK_OK(tt_score_pool(comm, &what, &round));
  TT_CHECK_OK(tt_pool_scores_open_local(what.file, &r));
  TT_CHECK_OK(tt_pool_scores_read_local(r, 0, FIRST, ROWS, score));
  tt_pool_scores_close_local(&r);
  for (int64_t i = 0; i < ROWS; i++)
    if (i % 10) TT_CHECK(score[i] == -FLT_MAX, ==, i == 33);
  TT_CHECK(round.pool, ==, ROWS - ROWS / 10);
  TT_CHECK(isfinite(round.score_mean) && isfinite(round.score_max), ==, 1);
  for (int64_t i = 0; i < tt_trained_ensembles_columns(&m); i++)
    TT_CHECK(isfinite(spread[i]), !=, 0);
  tt_pool_close_local(&what.pool);
  tt_config_destroy(&cfg);
  tt_trained_ensembles_destroy(&m);
}

static int begin(void **unused)
{
  (void)unused;
  tt_log_set_level(TT_LOG_WARN);
  return 0;
}

TT_SUITE(begin, NULL)
