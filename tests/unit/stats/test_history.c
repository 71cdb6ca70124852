/* test_history.c — the history of a campaign, the queried rows, and the stop rules. */
#include "tests/support/check.h"

#include "core/stats/history.h"

#include <math.h>
#include <string.h>

enum { D = 2, T = 3, C = 2 };

/* Rounds 1 to `rounds`, each with two queries: rows 100 - 2 round and the one before. */
static tt_history *made(int64_t rounds)
{
  tt_history *h = NULL;
  TT_CHECK_OK(tt_history_create(D, T, &h));
  for (int64_t r = 1; r <= rounds; r++) {
    tt_round *round;
    TT_CHECK_OK(tt_history_add_round(h, C, &round));
    round->labels = 20 + 2 * (r - 1);
    round->pool = round->candidate = 1000 - 2 * (r - 1);
    for (int c = 0; c < C; c++) round->rmse[c] = (double)(c + 1) / (double)r;
    const tt_query query[2] = {{.row = 100 - 2 * r, .round = (int32_t)r, .score = (double)r},
                               {.row = 99 - 2 * r, .round = (int32_t)r, .random = 1, .score = NAN}};
    const double x[2][D] = {{(double)r, 1}, {(double)r, 2}};
    const double y[2][T] = {{(double)r, NAN, 3}, {NAN, NAN, NAN}};
    TT_CHECK_OK(tt_history_add_queries(h, 2, query, x[0], y[0]));
  }
  return h;
}

TT_TEST (rounds_and_queries_are_kept) {
  tt_history *h = made(37);
  TT_CHECK(h->rounds, ==, 37);
  TT_CHECK(h->queries, ==, 74);
  TT_CHECK(h->columns, ==, C);
  for (int64_t r = 1; r <= 37; r++) {
    TT_CHECK(h->round[r - 1].labels, ==, 18 + 2 * r);
    TT_CHECK(h->round[r - 1].rmse[1], ==, 2.0 / (double)r);
    TT_CHECK(isnan(h->round[r - 1].nll[1]), !=, 0);
    TT_CHECK(isnan(h->round[r - 1].change), !=, 0);
    TT_CHECK(h->query[2 * r - 1].row, ==, 99 - 2 * r);
    TT_CHECK(h->x[(2 * r - 1) * D], ==, (double)r);
    TT_CHECK(h->y[(2 * r - 2) * T], ==, (double)r);
    TT_CHECK(isnan(h->y[(2 * r - 2) * T + 1]), !=, 0);
  }
  tt_round *round;
  TT_CHECK((int)tt_history_add_round(h, C + 1, &round), ==, TT_E_INTERNAL);
  tt_history_destroy(&h);
}

/* Truncating and adding the same rounds again gives the same history, at any round. */
TT_TEST (truncating_removes_rounds_queries_and_the_end) {
  for (int64_t round = 1; round <= 20; round++) {
    tt_history *h = made(18), *small = made(round <= 18 ? round - 1 : 18);
    h->ended = TT_STOP_RULE_plateau;
    tt_history_truncate(h, round);
    TT_CHECK(h->rounds, ==, small->rounds);
    TT_CHECK(h->queries, ==, small->queries);
    TT_CHECK(h->columns, ==, small->columns);
    TT_CHECK(h->ended, ==, -1);
    if (h->queries)
      TT_CHECK(memcmp(h->query, small->query, (size_t)h->queries * sizeof *h->query), ==, 0);
    tt_round *more;
    TT_CHECK_OK(tt_history_add_round(h, h->rounds ? C : C + 3, &more));
    TT_CHECK(h->rounds, ==, small->rounds + 1);
    tt_history_destroy(&h);
    tt_history_destroy(&small);
  }
}

TT_TEST (used_rows_are_the_queries) {
  for (int64_t rounds = 0; rounds < 12; rounds++) {
    tt_history *h = made(rounds);
    tt_used_rows t;
    TT_CHECK_OK(tt_history_used_rows(h, &t));
    TT_CHECK(t.count, ==, 2 * rounds);
    int64_t below = 0;
    for (int64_t row = 60; row < 110; row++) {
      TT_CHECK(tt_used_rows_below(&t, row), ==, below);
      int taken = row <= 98 && row > 98 - 2 * rounds;
      TT_CHECK(tt_is_row_used(&t, row), ==, taken);
      below += taken;
    }
    tt_used_rows_free(&t);
    tt_history_destroy(&h);
  }
}

/* stop rules */

/* Limits at which no rule holds; the case of a rule sets its own limit. */
static tt_config no_limits(void)
{
  return (tt_config){.stop_rounds = 1000,
                     .stop_labels = -1,
                     .stop_wall_time = -1,
                     .stop_accurate_fraction = 1,
                     .stop_accurate_rounds = 2,
                     .stop_plateau_rounds = 0,
                     .stop_plateau_delta = 0.01,
                     .stop_change = 0,
                     .stop_change_rounds = 3};
}

/* A history of four rounds and limits at which the rule just holds (on = 1) or just does not. */
static void set_rounds(tt_history *h, tt_config *l, int enabled)
{
  (void)h;
  l->stop_rounds = enabled ? 3 : 4;
}

static void set_labels(tt_history *h, tt_config *l, int enabled)
{
  l->stop_labels = h->round[3].labels + !enabled;
}

static void set_wall_time(tt_history *h, tt_config *l, int enabled)
{
  for (int i = 0; i < 4; i++)
    h->round[i].seconds[TT_STAGE_label] = h->round[i].seconds[TT_STAGE_train] = 10;
  l->stop_wall_time = enabled ? 80 : 80.5;
}

static void set_accurate(tt_history *h, tt_config *l, int enabled)
{
  for (int i = 2 + !enabled; i < 4; i++)
    h->round[i].accurate = 995, h->round[i].pool = 1000, h->round[i].candidate = 5;
  l->stop_accurate_fraction = 0.995;
}

static void set_candidates(tt_history *h, tt_config *l, int enabled)
{
  (void)l;
  h->round[3].candidate = !enabled;
  h->round[3].failed = h->round[3].pool - !enabled;
}

/* Errors 1, 0.5, then not better by a hundredth for two rounds; or just better. */
static void set_plateau(tt_history *h, tt_config *l, int enabled)
{
  for (int c = 0; c < C; c++) {
    h->round[2].rmse[c] = 0.4951 * h->round[0].rmse[c];
    h->round[3].rmse[c] = (enabled ? 0.4951 : 0.4949) * h->round[0].rmse[c];
  }
  l->stop_plateau_rounds = 2;
}

static void set_change(tt_history *h, tt_config *l, int enabled)
{
  for (int i = 1; i < 4; i++) h->round[i].change = 0.02;
  h->round[2].change = enabled ? 0.049 : 0.05;
  l->stop_change = 0.05;
}

static void set_error(tt_history *h, tt_config *l, int enabled)
{
  h->round[3].error_rows = 20;
  h->round[3].error = 0.5;
  h->round[3].error_se = enabled ? 0.1 : 0.2;
  l->stop_error = 0.65;
}

typedef void (*setter)(tt_history *h, tt_config *l, int enabled);
static const setter set[] = {
#define X(name, option, meaning) set_##name,
    TT_STOP_RULES(X)
#undef X
};

static int ends(tt_history *h, tt_config *l, int trusted, char why[256])
{
  static char lower[] = "0.1", none[] = "";
  strcpy(why, "left over");
  l->select_lower = trusted ? lower : none;
  return tt_history_should_stop(h, l, 1, why, 256);
}

TT_TEST (every_rule_holds_at_its_limit_and_not_before) {
  char why[256];
  for (int rule = 0; rule < TT_STOP_RULE_COUNT; rule++) {
    tt_history *h = made(4);
    tt_config l = no_limits();
    TT_CHECK(ends(h, &l, 1, why), ==, -1);
    TT_CHECK(why[0], ==, 0);
    set[rule](h, &l, 0);
    TT_CHECK(ends(h, &l, 1, why), ==, -1);
    tt_history_destroy(&h);
    h = made(4);
    l = no_limits();
    set[rule](h, &l, 1);
    TT_CHECK(ends(h, &l, 1, why), ==, rule);
    TT_CHECK((int)strlen(why), >, 20);
    TT_CHECK(tt_history_should_stop(h, &l, 1, why, 10), ==, rule);
    TT_CHECK((int)strlen(why), ==, 9);
    TT_CHECK((int)strlen(tt_stop_rule_name[rule]), >, 0);
    h->ended = rule;
    TT_CHECK((int)strlen(tt_history_end_cause(h)), >, 0);
    tt_history_destroy(&h);
  }
  TT_CHECK(tt_stop_rule_name[TT_STOP_RULE_COUNT] == NULL, ==, 1);
}

/* No bound is named that leaves no candidate out; an empty pool is told as such. */
TT_TEST (the_cause_of_no_candidates) {
  static const struct {
    int64_t accurate, failed;
    const char *cause, *why;
  } row[] = {{3, 0, "select.lower", "3 are accurate (select.lower)"},
             {0, 2, "select.upper", "2 failed (select.upper)"},
             {3, 2, "select.lower and select.upper", "none of the 5 candidates"},
             {0, 0, "no row of the pool is left", "no row of the pool is left: each is queried"}};
  for (int i = 0; i < 4; i++) {
    char why[256];
    tt_history *h = made(4);
    tt_round *r = &h->round[3];
    tt_config l = no_limits();
    r->pool = r->accurate = row[i].accurate;
    r->pool += r->failed = row[i].failed;
    r->candidate = 0;
    h->ended = ends(h, &l, 1, why);
    TT_CHECK(h->ended, ==, TT_STOP_RULE_candidates);
    TT_CHECK_HAS(why, row[i].why);
    TT_CHECK_HAS(tt_history_end_cause(h), row[i].cause);
    tt_history_destroy(&h);
  }
}

/* Of several rules that hold, the first of the table counts; a short history ends by no rule. */
TT_TEST (rules_in_the_order_of_the_table) {
  char why[256];
  for (int rule = 0; rule < TT_STOP_RULE_COUNT; rule++) {
    tt_history *h = made(4);
    tt_config l = no_limits();
    for (int other = TT_STOP_RULE_COUNT - 1; other >= rule; other--) set[other](h, &l, 1);
    TT_CHECK(ends(h, &l, 1, why), ==, rule);
    tt_history_truncate(h, 1);
    TT_CHECK(ends(h, &l, 1, why), ==, -1);
    tt_history_destroy(&h);
  }
}

TT_TEST (unknown_values_end_nothing) {
  char why[256];
  tt_history *h = made(4);
  tt_config l = no_limits();
  set_accurate(h, &l, 1);
  TT_CHECK(ends(h, &l, 0, why), ==, -1); /* without select.lower nothing is accurate */
  h->round[3].pool = h->round[3].accurate = 0;
  TT_CHECK(ends(h, &l, 1, why), ==, -1);
  l = no_limits();
  set_change(h, &l, 1);
  h->round[2].change = NAN;
  TT_CHECK(ends(h, &l, 1, why), ==, -1);
  l = no_limits();
  l.stop_plateau_rounds = 2;
  for (int i = 0; i < 4; i++) h->round[i].rmse[0] = h->round[i].rmse[1] = NAN;
  TT_CHECK(ends(h, &l, 1, why), ==, -1);               /* no test rows: no plateau */
  for (int i = 0; i < 4; i++) h->round[i].rmse[1] = 4; /* one column has errors: it counts alone */
  TT_CHECK(ends(h, &l, 1, why), ==, TT_STOP_RULE_plateau);
  l = no_limits();
  l.stop_rounds = 0; /* one training, no labels */
  tt_history_truncate(h, 2);
  TT_CHECK(ends(h, &l, 1, why), ==, TT_STOP_RULE_rounds);
  tt_history_destroy(&h);
}

/* Errors are divided by those of the first round: a column with large values does not decide alone.
 */
TT_TEST (the_plateau_weighs_columns_equally) {
  char why[256];
  tt_history *h = made(3);
  tt_config l = no_limits();
  l.stop_plateau_rounds = 2;
  for (int i = 0; i < 3; i++) {
    h->round[i].rmse[0] = 1e6;
    h->round[i].rmse[1] = 1e-6 * (10 - i);
  }
  TT_CHECK(ends(h, &l, 1, why), ==, -1);
  for (int i = 0; i < 3; i++) h->round[i].rmse[1] = 1e-6;
  TT_CHECK(ends(h, &l, 1, why), ==, TT_STOP_RULE_plateau);
  TT_CHECK_HAS(why, "since round 1");
  tt_history_destroy(&h);
}

/* Classes have no rmse: the nll is used instead. */
TT_TEST (the_error_of_classes_is_their_nll) {
  tt_history *h = made(3);
  for (int i = 0; i < 3; i++) {
    h->round[i].rmse[1] = NAN;
    h->round[i].nll[0] = -7;
    h->round[i].nll[1] = 4 - i;
  }
  TT_CHECK(tt_history_error(h, 1, h), ==, 1.0);
  TT_CHECK(tt_history_error(h, 3, h), ==, (1.0 / 3 + 0.5) / 2);
  for (int i = 0; i < 3; i++) h->round[i].rmse[0] = h->round[i].nll[0] = h->round[i].nll[1] = NAN;
  TT_CHECK(isnan(tt_history_error(h, 2, h)), !=, 0);
  tt_history_destroy(&h);
}
