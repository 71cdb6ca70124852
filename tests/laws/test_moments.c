/* test_moments.c — law C2: `predict` of every engine gives exactly the moments of the predictions of
 * the members, on any number of threads and rows per call. */
#include "tests/support/plain_model.h"
#include "tests/support/problem.h"
#include "tests/support/trained.h"

enum { EACH = 4, ROWS = 600, INPUTS = 3 };

/* Two ensembles of two targets each; one member has weight 0, one has weight 2. */
static tt_trained_ensemble *committee(tt_output output)
{
  const int64_t hidden[] = {17, 5};
  tt_model_shape shape = usual_shape(INPUTS, 2, hidden, 2, TT_ACT_tanh, output);
  tt_trained_ensemble *c = NULL;
  tt_model m;
  TT_CHECK_OK(tt_model_lay_out(&shape, &m));
  TT_CHECK_OK(trained_create(&m, 2, 2 * EACH, &c));
  c->variance_floor = 1e-3f;
  for (int e = 0; e < 2; e++) {
    c->ensemble[e] = (tt_ensemble){.first = e * EACH, .members = EACH, .targets = 2};
    TT_CHECK_OK(TT_ALLOC(c->ensemble[e].column, 2));
    c->ensemble[e].column[0] = e;
    c->ensemble[e].column[1] = 1 - e;
  }
  for (int64_t i = 0; i < c->members; i++) {
    tt_model_init_weights(&m, TT_INIT_fan_in_uniform, 3, (uint64_t)i, c->w + i * m.params);
    c->weight[i] = i == 1 ? 0.0 : i == 6 ? 2.0 : 1.0;
  }
  return c;
}

static tt_moments *moments(int64_t rows, int64_t columns)
{
  tt_moments *m = NULL;
  TT_CHECK_OK(tt_moments_create(rows, columns, &m));
  return m;
}

static float *inputs(void)
{
  float *x = NULL;
  TT_CHECK_OK(TT_ALLOC(x, ROWS * INPUTS));
  for (uint32_t i = 0; i < ROWS * INPUTS; i++)
    x[i] = 4.0f * tt_uniform(tt_random(5, 5, TT_PURPOSE_INIT, 0, i).v[0]) - 2.0f;
  return x;
}

/* Moments of the members' own predictions [G][2][K q][ROWS], added in member order. */
static tt_moments *by_hand(const tt_trained_ensemble *c, const float *said)
{
  int64_t k = tt_trained_ensemble_width(c), column = 0;
  tt_moments *m = moments(ROWS, tt_trained_ensemble_columns(c));
  for (int64_t e = 0; e < c->ensembles; column += k, e++)
    for (int64_t i = 0; i < c->ensemble[e].members; i++) {
      int64_t who = c->ensemble[e].first + i;
      const float *mean = said + who * 2 * k * ROWS;
      tt_moments_add(m, column, k, c->weight[who], mean, mean + k * ROWS, ROWS);
    }
  return m;
}

/* Rows [first, first + rows) of two moments are equal to the bit. */
static void same_moments(const tt_moments *all, const tt_moments *some, int64_t first, int64_t rows)
{
  for (int64_t r = 0; r < rows; r++)
    for (int64_t k = 0; k < all->columns; k++) {
      tt_uncertainty a = tt_moments_at(all, first + r, k), b = tt_moments_at(some, r, k);
      TT_CHECK(a.mean, ==, b.mean);
      TT_CHECK(a.total, ==, b.total);
      TT_CHECK(a.aleatoric, ==, b.aleatoric);
      TT_CHECK(a.epistemic, ==, b.epistemic);
    }
}

static void predicts(way variant, tt_output output)
{
  tt_trained_ensemble *c = committee(output);
  float *x = inputs(), *said = NULL;
  int64_t columns = tt_trained_ensemble_columns(c);
  TT_CHECK(columns, ==, 4 * c->model.quantities);
  tt_moments *all = moments(ROWS, columns);
  TT_CHECK_OK(TT_ALLOC(said, c->members * 2 * tt_trained_ensemble_width(c) * ROWS));
  TT_CHECK_OK(variant.ops->predict(c, &variant.use, ROWS, x, all, said));
  tt_moments *want = by_hand(c, said);
  same_moments(want, all, 0, ROWS);
  for (int64_t k = 0; k < columns; k++) TT_CHECK(tt_moments_at(all, 0, k).epistemic, >, 0.0);
  if (output == TT_OUTPUT_mean) TT_CHECK(tt_moments_at(all, 0, 0).aleatoric, ==, 0.0);
  const int64_t cut[] = {0, 1, 2, 18, 35, 291, 547, ROWS};
  for (int i = 0; i + 1 < 8; i++) {
    way with = variant;
    with.use.threads = 1 + i % 2;
    tt_moments *part = moments(cut[i + 1] - cut[i], columns);
    TT_CHECK_OK(variant.ops->predict(c, &with.use, part->rows, x + cut[i] * INPUTS, part, NULL));
    same_moments(all, part, cut[i], part->rows);
    tt_moments_destroy(&part);
  }
  variant.use.threads = 2;
  TT_CHECK_OK(variant.ops->predict(c, &variant.use, ROWS, x, all, NULL)); /* cleared first */
  same_moments(want, all, 0, ROWS);
  tt_moments_destroy(&all);
  tt_moments_destroy(&want);
  tt_free(said);
  tt_free(x);
  tt_trained_ensemble_destroy(&c);
}

TT_TEST (predictions_are_the_moments_of_the_members) {
  for (const way *w = every_way(); w->name; w++)
    for (int output = 0; output < TT_OUTPUT_COUNT; output++) predicts(*w, (tt_output)output);
}

/* A member predicts what its network computes, here in double. */
TT_TEST (members_predict_what_their_networks_compute) {
  way variant[MAX_WAYS];
  for (int i = 0, n = ways(variant); i < n; i++) {
    const int64_t hidden = 1; /* one tanh: written out by hand */
    tt_trained_ensemble *c = NULL;
    tt_model m;
    TT_CHECK_OK(tt_model_plain(1, 1, &hidden, 1, TT_ACT_tanh, TT_OUTPUT_mean_variance, &m));
    TT_CHECK_OK(trained_create(&m, 1, 1, &c));
    c->ensemble[0] = (tt_ensemble){.members = 1, .targets = 1};
    c->variance_floor = 0.01f;
    c->weight[0] = 1.0;
    const float w[] = {0.5f, 0.25f, 2.0f, -3.0f, 0.125f, 1.5f}; /* W0 b0 | W1 (mean, raw) b1 */
    memcpy(c->w, w, sizeof w);
    float x = 0.75f, said[2];
    TT_CHECK_OK(variant[i].ops->predict(c, &variant[i].use, 1, &x, NULL, said));
    double h = tanh(0.5 * 0.75 + 0.25);
    TT_CHECK(fabs((double)said[0] - (2.0 * h + 0.125)), <=, 1e-6);
    TT_CHECK(fabs((double)said[1] - (log1p(exp(-3.0 * h + 1.5)) + 0.01)), <=, 1e-6);
    tt_trained_ensemble_destroy(&c);
  }
}
