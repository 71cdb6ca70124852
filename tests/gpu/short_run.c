/* short_run.c — a few steps, an evaluation and a prediction on every path of every engine: short,
 * because tools that check each memory access are slow. Agreement is tested coarsely here, and
 * closely in laws/test_engines.c. */
#include "tests/support/problem.h"
#include "tests/support/trained.h"

#include "core/model/trained_ensemble.h"

enum { ROWS = 45, MEMBERS = 3, EPOCHS = 2, NEW_ROWS = 40 };
static const double COARSE = 1e-2;

static const way plain = {"generic", &tt_engine_cpu, {.threads = 1, .simd = TT_SIMD_generic}, 0, 0,
                          1};

static problem make(tt_output output)
{
  const int64_t hidden[] = {9, 6};
  problem p = problem_make(ROWS, 3, 2, 1, MEMBERS, hidden, 2, TT_ACT_tanh, output);
  p.c.max_epochs = EPOCHS;
  p.c.resample = TT_RESAMPLE_bootstrap;
  for (int64_t i = 0; i < p.c.members; i++) {
    tt_hyper *h = &p.c.member[i].hyper;
    h->epochs = EPOCHS;
    h->epsilon = 1e-4f;
    h->patience = i == 1;
    h->clip_norm = i == 2 ? 0.5f : 0.0f;
  }
  return p;
}

static tt_trained_ensemble *committee_of(const problem *p, const tt_state *s)
{
  tt_trained_ensemble *c = NULL;
  TT_CHECK_OK(trained_create(&p->c.model, 1, p->c.members, &c));
  c->variance_floor = p->c.variance_floor;
  c->ensemble[0] = (tt_ensemble){.members = p->c.members, .targets = p->c.model.targets};
  TT_CHECK_OK(TT_ALLOC(c->ensemble[0].column, p->c.model.targets));
  for (int64_t i = 0; i < p->c.members; i++) {
    memcpy(c->w + i * s->params, tt_state_prediction_weights(s, i),
           (size_t)s->params * sizeof *c->w);
    c->weight[i] = 1.0;
  }
  return c;
}

/* Losses of the members and the mean of the first column, [MEMBERS + NEW_ROWS]. */
static void run(way variant, tt_output output, double *out)
{
  problem p = make(output);
  float x[NEW_ROWS * 3];
  tt_moments *m = NULL;
  for (int i = 0; i < NEW_ROWS * 3; i++) x[i] = sinf((float)i);
  problem_start(&p, variant, everyone(&p));
  problem_finish(&p, 2);
  TT_CHECK_OK(variant.ops->evaluate(p.engine, TT_VALIDATION, out));
  tt_state *s = problem_state(&p, everyone(&p));
  tt_trained_ensemble *c = committee_of(&p, s);
  TT_CHECK_OK(tt_moments_create(NEW_ROWS, tt_trained_ensemble_columns(c), &m));
  TT_CHECK_OK(variant.ops->predict(c, &variant.use, NEW_ROWS, x, m, NULL));
  for (int r = 0; r < NEW_ROWS; r++) out[MEMBERS + r] = m->mean[r * m->columns];
  tt_moments_destroy(&m);
  tt_trained_ensemble_destroy(&c);
  tt_state_destroy(&s);
  problem_free(&p);
}

TT_TEST (every_way_runs) {
  way variant[2 * MAX_WAYS];
  double want[MEMBERS + NEW_ROWS], got[MEMBERS + NEW_ROWS];
  int n = ways(variant);
  n += tensor_ways(variant + n);
  for (int output = 0; output < TT_OUTPUT_COUNT; output++) {
    run(plain, (tt_output)output, want);
    for (int i = 0; i < n; i++) {
      problem p = make((tt_output)output);
      int possible = can(variant[i], &p.c);
      problem_free(&p);
      if (!possible) continue;
      fprintf(stderr, "  %s, output %s\n", variant[i].name, tt_choice_output[output]);
      run(variant[i], (tt_output)output, got);
      for (int k = 0; k < MEMBERS + NEW_ROWS; k++)
        TT_CHECK(fabs(got[k] - want[k]), <=, COARSE * (1.0 + fabs(want[k])));
    }
  }
}
