/* test_acquisition.c — laws of the table of scores: every row equals the formula of its source,
 * scores of disagreement are 0 where members agree, and reductions equal their formulas. */
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "core/config/choices.h"
#include "core/formulas/acquisition.h"
#include "tests/support/plain_scores.h"

#include <float.h>
#include <stdlib.h>

enum { MEMBERS = 7, CLASSES = 5 };

/* Members with all values that scores use, in both forms (plain arrays and statistics). */
typedef struct voices {
  double w[MEMBERS], mean[MEMBERS], variance[MEMBERS], p[MEMBERS * CLASSES], mean_p[CLASSES];
  plain plain;
  tt_prediction_stats opinion;
  tt_acquisition_settings rule;
} voices;

static double number(uint32_t law, uint32_t i)
{
  return (double)tt_uniform(tt_random(7, 8, TT_PURPOSE_INIT, law, i).v[0]);
}

/* The mixture of the predictions in v. */
static void mix(voices *v, int members, int classes)
{
  v->plain = (plain){.members = members,
                     .classes = classes,
                     .w = v->w,
                     .mean = v->mean,
                     .variance = v->variance,
                     .p = v->p,
                     .target_zero = -3.0,
                     .best = 0.4,
                     .floor = 0.25,
                     .kappa = 1.5,
                     .minimize = v->rule.goal == TT_GOAL_minimize};
  for (int c = 0; c < classes; c++) v->mean_p[c] = plain_mean_p(&v->plain, c);
  v->rule.floor = v->plain.floor;
  v->rule.kappa = v->plain.kappa;
  v->opinion = (tt_prediction_stats){.mean = plain_mean(&v->plain, v->mean),
                                     .total = plain_total(&v->plain),
                                     .aleatoric = sqrt(plain_mean(&v->plain, v->variance)),
                                     .epistemic = plain_epistemic(&v->plain),
                                     .target_zero = v->plain.target_zero,
                                     .best = v->plain.best,
                                     .classes = classes,
                                     .p = v->mean_p,
                                     .member_entropy = plain_own_entropy(&v->plain),
                                     .members = members,
                                     .member_weight = v->w,
                                     .member = classes ? v->p : v->mean};
}

static void speak(voices *v, uint32_t law, int members, int classes)
{
  for (int i = 0; i < members; i++) {
    double sum = 0.0;
    v->w[i] = i == 1 && members > 2 ? 0.0 : 0.1 + number(law, (uint32_t)i);
    v->mean[i] = v->w[i] > 0.0 ? 4.0 * number(law, 100 + (uint32_t)i) - 2.0 : NAN;
    v->variance[i] = v->w[i] > 0.0 ? number(law, 200 + (uint32_t)i) : NAN;
    for (int c = 0; c < classes; c++)
      sum += v->p[i * classes + c] = 0.01 + number(law, 300 + (uint32_t)(i * classes + c));
    for (int c = 0; c < classes; c++)
      v->p[i * classes + c] = v->w[i] > 0.0 ? v->p[i * classes + c] / sum : NAN;
  }
  mix(v, members, classes);
}

static double score(voices *v, tt_acquisition acquisition)
{
  v->rule.by = acquisition;
  return tt_acquisition_score(&v->rule, &v->opinion);
}

static void check_close(const char *what, double got, double wanted)
{
  if (!(fabs(got - wanted) <= 1e-9 * fmax(1.0, fabs(wanted)))) fprintf(stderr, "%s: ", what);
  TT_CHECK(fabs(got - wanted), <=, 1e-9 * fmax(1.0, fabs(wanted)));
}

static int fits(int kind, int classes)
{
  return tt_acquisition_supports((tt_acquisition)kind,
                                 classes ? TT_OUTPUT_softmax : TT_OUTPUT_mean);
}

TT_TEST (every_score_is_its_plain_formula) {
  for (int kind = 0; kind < TT_ACQUISITION_COUNT; kind++)
    for (uint32_t law = 0; law < 60 && kind != TT_ACQUISITION_random; law++)
      for (int classes = 0; classes <= CLASSES; classes += CLASSES) {
        voices v = {.rule.goal = law % 2 ? TT_GOAL_minimize : TT_GOAL_maximize};
        if (!fits(kind, classes)) continue;
        speak(&v, law, 1 + (int)law % MEMBERS, classes);
        const char *name = tt_choice_acquisition[kind];
        check_close(name, score(&v, (tt_acquisition)kind), plain_score(name, &v.plain));
      }
}

TT_TEST (disagreement_is_zero_where_members_agree) {
  static const tt_acquisition of_members[] = {
      TT_ACQUISITION_epistemic_std, TT_ACQUISITION_relative_std, TT_ACQUISITION_disagreement,
      TT_ACQUISITION_bald, TT_ACQUISITION_vote_entropy};
  for (size_t k = 0; k < sizeof of_members / sizeof *of_members; k++)
    for (int classes = 0; classes <= 3; classes += 3) {
      voices v = {.w = {1.0, 2.0},
                  .mean = {1.5, 1.5},
                  .variance = {0.1, 0.9},
                  .p = {0.25, 0.5, 0.25, 0.25, 0.5, 0.25}};
      if (!fits((int)of_members[k], classes)) continue;
      mix(&v, 2, classes);
      TT_CHECK(score(&v, of_members[k]), ==, 0.0);
    }
}

/* More noise in the labels: of numbers, larger variances of all members; of classes, on which the
 * members agree, blunter probabilities. */
TT_TEST (noise_changes_no_epistemic_score) {
  for (int kind = 0; kind < TT_ACQUISITION_COUNT; kind++)
    for (int classes = 0; classes <= CLASSES && kind != TT_ACQUISITION_random; classes += CLASSES) {
      double before = 0.0;
      voices v = {.rule.goal = TT_GOAL_maximize};
      if (!fits(kind, classes)) continue;
      speak(&v, 5, MEMBERS, classes);
      for (int noisy = 0; noisy < 2; noisy++) {
        for (int i = 0; i < MEMBERS; i++) v.variance[i] += 0.7 * noisy;
        for (int i = 0; i < MEMBERS * classes; i++)
          v.p[i] = (i % classes ? 0.05 : 1.0 - 0.05 * (classes - 1)) * (1 - 0.5 * noisy) +
                   0.5 * noisy / classes;
        mix(&v, MEMBERS, classes);
        if (!noisy) before = score(&v, (tt_acquisition)kind);
      }
      double change = fabs(score(&v, (tt_acquisition)kind) - before);
      if (plain_grows_with_noise(tt_choice_acquisition[kind]))
        TT_CHECK(change, >, 0.01);
      else
        TT_CHECK(change, <, 1e-12);
    }
}

TT_TEST (classes_have_their_closed_forms) {
  const double ln2 = 0.6931471805599453;
  voices certain = {.w = {1.0, 1.0}, .p = {1.0, 0.0, 0.0, 1.0}};
  mix(&certain, 2, 2);
  check_close("certain, apart: entropy", score(&certain, TT_ACQUISITION_entropy), ln2);
  check_close("certain, apart: bald", score(&certain, TT_ACQUISITION_bald), ln2);
  check_close("certain, apart: votes", score(&certain, TT_ACQUISITION_vote_entropy), ln2);
  check_close("certain, apart: KL", score(&certain, TT_ACQUISITION_disagreement), ln2);
  voices undecided = {.w = {1.0, 1.0}, .p = {0.5, 0.5, 0.5, 0.5}};
  mix(&undecided, 2, 2);
  check_close("undecided: entropy", score(&undecided, TT_ACQUISITION_entropy), ln2);
  TT_CHECK(score(&undecided, TT_ACQUISITION_bald), ==, 0.0);
  TT_CHECK(score(&undecided, TT_ACQUISITION_vote_entropy), ==,
           0.0); /* a tie counts for the first class */
  voices shares = {.w = {3.0, 1.0}, .p = {0.9, 0.1, 0.2, 0.8}};
  mix(&shares, 2, 2);
  check_close("votes by share", score(&shares, TT_ACQUISITION_vote_entropy),
              -0.75 * log(0.75) - 0.25 * log(0.25));
}

TT_TEST (an_improvement_has_its_closed_forms) {
  tt_acquisition_settings up = {.by = TT_ACQUISITION_expected_improvement}, down = up;
  down.goal = TT_GOAL_minimize;
  tt_prediction_stats o = {.mean = 2.0, .best = 2.0, .total = 1.0};
  check_close("at the best", tt_acquisition_score(&up, &o), 0.3989422804014327);
  check_close("at the best", tt_acquisition_score(&down, &o), 0.3989422804014327);
  o.mean = 3.0; /* pdf(1) + cdf(1) */
  check_close("one above", tt_acquisition_score(&up, &o), 0.24197072451914337 + 0.8413447460685429);
  check_close("one above", tt_acquisition_score(&down, &o),
              0.24197072451914337 - 0.15865525393145707);
  o.total = 0.0;
  TT_CHECK(tt_acquisition_score(&up, &o), ==, 1.0);
  TT_CHECK(tt_acquisition_score(&down, &o), ==, 0.0);
  o = (tt_prediction_stats){.mean = -500.0, .best = 0.0, .total = 1.0};
  TT_CHECK(tt_acquisition_score(&up, &o), ==, 0.0);
  for (double z = 0.0; z > -30.0; z -= 0.5) { /* never below 0, and increasing */
    tt_prediction_stats low = {.mean = z - 0.5, .total = 1.0}, high = {.mean = z, .total = 1.0};
    TT_CHECK(tt_acquisition_score(&up, &low), >=, 0.0);
    TT_CHECK(tt_acquisition_score(&up, &high), >, tt_acquisition_score(&up, &low));
  }
}

TT_TEST (reductions_are_their_formulas) {
  const double s[] = {3.0, -1.0, 4.0}, w[] = {1.0, 0.0, 3.0}, gap[] = {3.0, NAN, 4.0};
  static const double wanted[] = {4.0, 2.0, 3.75};
  for (int kind = 0; kind < 3; kind++) {
    TT_CHECK(tt_reduce_target_scores((tt_target_reduction)kind, 3, s, w), ==, wanted[kind]);
    TT_CHECK(tt_reduce_ensemble_scores((tt_ensemble_reduction)kind, 3, s, w), ==, wanted[kind]);
    TT_CHECK(isnan(tt_reduce_target_scores((tt_target_reduction)kind, 3, gap, w)), !=, 0);
    TT_CHECK(tt_reduce_target_scores((tt_target_reduction)kind, 1, s, w), ==, 3.0);
  }
  TT_CHECK((int)TT_TARGET_REDUCTION_COUNT, ==, 3);
  TT_CHECK((int)TT_ENSEMBLE_REDUCTION_COUNT, ==, 4);
  TT_CHECK(tt_reduce_ensemble_scores(TT_ENSEMBLE_REDUCTION_quota, 3, s, w), ==, 4.0);
}

TT_TEST (nonfinite_scores_are_stored_as_the_lowest) {
  const double bad[] = {NAN, INFINITY, -INFINITY, -1e300};
  for (int i = 0; i < 4; i++) TT_CHECK(tt_acquisition_score_to_float(bad[i]), ==, -FLT_MAX);
  TT_CHECK(tt_acquisition_score_to_float(1e300), ==, FLT_MAX);
  TT_CHECK(tt_acquisition_score_to_float(0.1), ==, 0.1f);
  for (int kind = 0; kind < TT_ACQUISITION_COUNT;
       kind++) { /* a member that overflowed is visible in every score */
    voices v = {.w = {1.0, 1.0}, .mean = {1.0, NAN}, .variance = {1.0, NAN}, .p = {1, 0, NAN, NAN}};
    int classes = fits(kind, 2) ? 2 : 0;
    mix(&v, 2, classes);
    if (kind != TT_ACQUISITION_random) TT_CHECK(isfinite(score(&v, (tt_acquisition)kind)), ==, 0);
  }
}

TT_TEST (a_random_score_is_uniform_and_depends_on_its_row) {
  enum { N = 20000 };
  double mean = 0.0, square = 0.0, product = 0.0, last = 0.5;
  for (int64_t i = 0; i < N; i++) {
    double u = tt_acquisition_random_score(3, 4, i);
    TT_CHECK(u >= 0.0 && u < 1.0, ==, 1);
    TT_CHECK(u, ==, tt_acquisition_random_score(3, 4, i));
    mean += u / N;
    square += u * u / N;
    product += (u - 0.5) * (last - 0.5) / N;
    last = u;
  }
  TT_CHECK(fabs(mean - 0.5), <, 5.0 * sqrt(1.0 / 12.0 / N));
  TT_CHECK(fabs(square - 1.0 / 3.0), <, 5.0 * sqrt(4.0 / 45.0 / N));
  TT_CHECK(fabs(product), <, 5.0 / 12.0 / sqrt(N));
  TT_CHECK(tt_acquisition_random_score(3, 4, 5), !=, tt_acquisition_random_score(3, 5, 5));
  TT_CHECK(tt_acquisition_random_score(3, 4, 5), !=, tt_acquisition_random_score(4, 4, 5));
  TT_CHECK(tt_acquisition_random_score(3, 4, 5), !=,
           tt_acquisition_random_score(3, 4, 5 + ((int64_t)1 << 32)));
}

TT_TEST (every_output_has_scores_and_the_column_needs_is_right) {
  for (int out = 0; out < TT_OUTPUT_COUNT; out++) {
    char text[256], cut[8];
    tt_acquisition_list_supported((tt_output)out, text, sizeof text);
    tt_acquisition_list_supported((tt_output)out, cut, sizeof cut);
    TT_CHECK(strncmp(text, cut, sizeof cut - 1), ==, 0);
    for (int kind = 0; kind < TT_ACQUISITION_COUNT; kind++) {
      TT_CHECK(strstr(text, tt_choice_acquisition[kind]) != NULL, ==,
               tt_acquisition_supports((tt_acquisition)kind, (tt_output)out));
      if (tt_acquisition_uses_members((tt_acquisition)kind, (tt_output)out) &&
          kind != TT_ACQUISITION_bald)
        TT_CHECK(tt_acquisition_needs((tt_acquisition)kind) & TT_NEEDS_MEMBERS, !=, 0u);
    }
    TT_CHECK(tt_acquisition_supports(TT_ACQUISITION_random, (tt_output)out), ==, 1);
    TT_CHECK(tt_acquisition_supports(TT_ACQUISITION_disagreement, (tt_output)out), ==, 1);
  }
}

/* The manual explains every score. */
TT_TEST (the_manual_explains_every_score) {
  static char page[200000];
  FILE *f = fopen(TUTTI_SOURCE "/docs/active-learning.md", "r");
  assert_non_null(f);
  page[fread(page, 1, sizeof page - 1, f)] = 0;
  fclose(f);
  for (int kind = 0; kind < TT_ACQUISITION_COUNT; kind++) {
    char row[64];
    snprintf(row, sizeof row, "\n| `%s` |", tt_choice_acquisition[kind]);
    TT_CHECK_HAS(page, row);
  }
}
