/* caller_calls.c — steps, outputs, gradients and predictions of members on rows of the
 * caller are those of the cpu engine, in any sequence of calls and with any number of rows, and do
 * not depend on the other members. */
#include "tests/support/problem.h"

enum { ROWS = 320, INPUTS = 6, EACH = 3, ROUNDS = 11, MOST = 300, MOST_OUTPUTS = 4 };

/* A network and the options that differ from the usual ones. */
typedef struct calls_case {
  const char *name, *front; /* rows of a front, or NULL */
  int64_t batch, few;       /* rows of a step, at most; of every other round */
  int64_t hidden[2];
  int layer_norm, residual, heads;
  tt_optimizer optimizer;
  tt_weight_average average;
  float dropout, clip; /* dropout: label noise of member 2 too */
  int64_t epoch_rows;
} calls_case;

static const calls_case cases[] = {
    {"plain", NULL, 20, 7, {9, 9}, 0, 0, 1, TT_OPT_adam, TT_AVERAGE_none, 0, 0, 0},
    {"no layer", NULL, 20, 1, {0}, 0, 0, 1, TT_OPT_sgd, TT_AVERAGE_ema, 0, 0.5f, 0},
    {"heads", NULL, 20, 3, {8, 5}, 0, 0, 3, TT_OPT_adamw, TT_AVERAGE_ema, 0, 0, 0},
    {"chunks", NULL, MOST, 140, {16, 8}, 0, 0, 1, TT_OPT_adam, TT_AVERAGE_none, 0, 0, 0},
    {"chunks, clipped", NULL, MOST, 30, {17, 0}, 0, 0, 1, TT_OPT_sgd, TT_AVERAGE_none, 0, 0.1f, 0},
    {"extras", NULL, 33, 8, {6, 6}, 1, 1, 1, TT_OPT_amsgrad, TT_AVERAGE_ema, 0.2f, 1.0f, 0},
    {"epochs", NULL, 20, 20, {7, 0}, 0, 0, 1, TT_OPT_adam, TT_AVERAGE_swa, 0, 0, 50},
    {"front",
     "conv 4 3,batch_norm,pool max 2",
     12,
     5,
     {6, 0},
     0,
     0,
     1,
     TT_OPT_adam,
     TT_AVERAGE_none,
     0,
     0,
     0},
};
enum { CASES = sizeof cases / sizeof *cases };

static problem make(const calls_case *a)
{
  static const int64_t profile[] = {1, INPUTS};
  tt_front front = {0};
  tt_front_fault fault = {0};
  int possible = 1, layers = !a->hidden[0] ? 0 : a->hidden[1] ? 2 : 1;
  problem p =
      problem_make(ROWS, INPUTS, 1, 1, EACH, a->hidden, layers, TT_ACT_tanh, TT_OUTPUT_mean);
  tt_model_shape shape = usual_shape(INPUTS, 1, a->hidden, layers, TT_ACT_silu, TT_OUTPUT_mean);
  const tt_front_shape from = {.dims = 1, .size = profile, .activation = TT_ACT_tanh};
  if (a->front) TT_CHECK_OK(tt_front_read(a->front, &from, &front, &possible, &fault));
  TT_CHECK(possible, ==, 1);
  shape.layer_norm = a->layer_norm;
  shape.residual = a->residual;
  shape.heads = a->heads;
  shape.front = &front;
  TT_CHECK_OK(tt_model_lay_out(&shape, &p.c.model));
  p.c.batch_size = a->batch;
  p.c.optimizer = a->optimizer;
  p.c.average = a->average;
  p.c.max_epochs = a->epoch_rows ? 3 : 1;
  for (int64_t i = 0; i < EACH; i++) {
    tt_hyper *h = &p.c.member[i].hyper;
    h->epochs = a->epoch_rows ? 3 - (int32_t)(i % 2) : 1;
    h->learning_rate = 1e-2f * (float)(1 + i);
    h->epsilon = 1e-3f; /* steps do not depend on the sign of a gradient of almost 0 */
    h->average_decay = 0.7f;
    h->dropout = a->dropout;
    h->clip_norm = i == 1 ? a->clip : 0.0f;
    h->label_noise = i == 2 ? a->dropout : 0.0f;
  }
  return p;
}

static int64_t outputs_of(const problem *p) { return p->c.model.layer[p->c.model.layers - 1].out; }

/* What the calls of a round return. */
typedef struct round_results {
  double loss[EACH], none[EACH]; /* none: of update, which has no loss */
  float output[EACH * MOST * MOST_OUTPUTS], input[EACH * MOST * INPUTS],
      predicted[EACH * MOST * MOST_OUTPUTS];
} round_results;

static void learn_slower(problem *p)
{
  p->c.member[1].hyper.learning_rate *= 0.5f;
  if (p->by.ops->set_hyper) p->by.ops->set_hyper(p->engine);
}

/* Member 0 begins again. */
static void restart(problem *p)
{
  tt_state *fresh = NULL;
  TT_CHECK_OK(tt_state_create((tt_slice){0, 1}, tt_cohort_state_shape(&p->c), &fresh));
  tt_member_init_weights(&p->c, &p->c.member[0], 0, TT_FIELD(fresh, weights));
  TT_CHECK_OK(p->by.ops->load(p->engine, (tt_slice){0, 1}, fresh));
  tt_state_destroy(&fresh);
}

/* A step with a loss of the caller, the sum of two; diverges: its gradient is not finite for the
 * first member. */
static void own_step(problem *p, tt_slice slice, int64_t values, int diverges, round_results *out)
{
  static float delta[EACH * MOST * MOST_OUTPUTS];
  const tt_engine_ops *ops = p->by.ops;
  TT_CHECK_OK(ops->forward(p->engine, out->output));
  for (int64_t k = 0; k < slice.count * values; k++) delta[k] = 0.01f * (out->output[k] - 0.2f);
  if (diverges) delta[0] = INFINITY;
  TT_CHECK_OK(ops->backward(p->engine, delta, p->c.model.front.layers ? NULL : out->input));
  for (int64_t k = 0; k < slice.count * values; k++)
    delta[k] = 0.01f * sinf((float)(k + slice.first * values));
  TT_CHECK_OK(ops->backward(p->engine, delta, NULL));
  TT_CHECK_OK(ops->update(p->engine));
  TT_CHECK_OK(ops->backward(p->engine, delta, NULL)); /* by the new weights */
  TT_CHECK_OK(ops->update(p->engine));
}

static int64_t rows_of(const calls_case *a, int k) { return k % 2 && k < 5 ? a->few : a->batch; }

/* Round k of the calls of a case. */
static void call(problem *p, const calls_case *a, tt_slice slice, int k, round_results *out)
{
  static int32_t row[EACH * MOST];
  static float weight[ROWS];
  const tt_engine_ops *ops = p->by.ops;
  int64_t count = rows_of(a, k), own = k % 3 == 2 ? count : 0;
  for (int i = 0; i < EACH * MOST; i++) row[i] = (7 * i + k) % ROWS;
  for (int i = 0; i < ROWS; i++) weight[i] = 0.5f + (float)(i % 3);
  tt_batch b = {.rows = ROWS,
                .columns = p->d->targets,
                .x = p->d->x,
                .y = p->d->y,
                .weight = k == 4 ? weight : NULL,
                .count = count,
                .row = row + slice.first * own,
                .stride = own,
                .epoch_rows = a->epoch_rows,
                .loss = out->loss};
  TT_CHECK_OK(ops->set_batch(p->engine, &b));
  TT_CHECK_OK(ops->train(p->engine, 1, NULL));
  if (k == 3) learn_slower(p);
  b.loss = out->none;
  TT_CHECK_OK(ops->set_batch(p->engine, &b));
  own_step(p, slice, count * outputs_of(p), k == 5 && slice.first == 0, out);
  b.predicts = 1;
  b.y = b.weight = NULL;
  b.row = row;
  b.count = a->few;
  b.stride = 0;
  TT_CHECK_OK(ops->set_batch(p->engine, &b));
  TT_CHECK_OK(ops->forward(p->engine, out->predicted));
  if (k == 6 && slice.first == 0) restart(p);
}

static round_results *run(const calls_case *a, way variant, tt_slice slice)
{
  problem p = make(a);
  round_results *r = NULL;
  TT_CHECK_OK(TT_ALLOC(r, ROUNDS));
  p.by = variant;
  follow_schedule(variant);
#ifdef TT_CUDA_DOUBLE
  tt_double_set_lazy(variant.schedule); /* 0: at once; else when the host waits */
#endif
  TT_CHECK_OK(variant.ops->create(&p.c, slice, &variant.use, &p.engine));
  TT_CHECK_OK(variant.ops->init(p.engine));
  for (int k = 0; k < ROUNDS; k++) call(&p, a, slice, k, &r[k]);
  problem_free(&p);
  return r;
}

static void close(const calls_case *a, way variant, int k, const char *what, double want,
                  double got)
{
  if (want == got || (isnan(want) && isnan(got)) || fabs(want - got) <= 1e-3 * (1.0 + fabs(want)))
    return;
  fprintf(stderr, "%s, %s, round %d, %s: %.9g, by the cpu %.9g\n", variant.name, a->name, k, what,
          got, want);
  fail();
}

static int takes_rows(way variant)
{
  return variant.ops == &tt_engine_cpu || variant.use.path == TT_GPU_PATH_layered;
}

static const way plain = {"generic", &tt_engine_cpu, {.threads = 1, .simd = TT_SIMD_generic}, 0, 0,
                          1};

static void compare(const calls_case *a, way variant, const round_results *want,
                    const round_results *got)
{
  for (int k = 0; k < ROUNDS; k++) {
    for (int j = 0; j < EACH; j++) close(a, variant, k, "loss", want[k].loss[j], got[k].loss[j]);
    for (int j = 0; j < EACH * MOST * MOST_OUTPUTS; j++) {
      close(a, variant, k, "output", (double)want[k].output[j], (double)got[k].output[j]);
      close(a, variant, k, "prediction", (double)want[k].predicted[j], (double)got[k].predicted[j]);
    }
    for (int j = 0; j < EACH * MOST * INPUTS; j++)
      close(a, variant, k, "dL/d(input)", (double)want[k].input[j], (double)got[k].input[j]);
  }
}

TT_TEST (calls_agree_with_the_cpu) {
  way variant[MAX_WAYS];
  int n = ways(variant);
  for (int c = 0; c < CASES; c++) {
    round_results *want = run(&cases[c], plain, (tt_slice){0, EACH});
    for (int i = 0; i < n; i++) {
      if (!takes_rows(variant[i])) continue;
      round_results *got = run(&cases[c], variant[i], (tt_slice){0, EACH});
      compare(&cases[c], variant[i], want, got);
      tt_free(got);
    }
    tt_free(want);
  }
}

/* The same bits: `count` values of member 1, in all members and alone. */
static void same(const calls_case *a, way variant, int k, const float *all, const float *alone,
                 int64_t count)
{
  if (!memcmp(all + count, alone, (size_t)count * sizeof *all)) return;
  fprintf(stderr, "%s, %s, round %d: a member alone has other bits\n", variant.name, a->name, k);
  fail();
}

TT_TEST (other_members_do_not_change_the_calls) {
  way variant[MAX_WAYS];
  int n = ways(variant);
  for (int c = 0; c < CASES; c++)
    for (int i = 0; i < n; i++) {
      const calls_case *a = &cases[c];
      if (!takes_rows(variant[i]) || !has_turn(variant[i], c)) continue;
      round_results *all = run(a, variant[i], (tt_slice){0, EACH}),
                    *alone = run(a, variant[i], (tt_slice){1, 1});
      for (int k = 0; k < ROUNDS; k++) {
        int64_t rows = rows_of(a, k);
        TT_CHECK(memcmp(&all[k].loss[1], &alone[k].loss[0], sizeof(double)), ==, 0);
        same(a, variant[i], k, all[k].output, alone[k].output, rows * a->heads);
        same(a, variant[i], k, all[k].input, alone[k].input, a->front ? 0 : rows * INPUTS);
        same(a, variant[i], k, all[k].predicted, alone[k].predicted, a->few * a->heads);
      }
      tt_free_all(&all, &alone);
    }
}

#ifdef TT_CUDA_DOUBLE
/* Where memory ends, the batch is refused, and the same call works as soon as there is enough. */
TT_TEST (a_batch_without_memory_may_come_again) {
  tt_err e = TT_E_MEM;
  for (int n = 1; e; n += 5) {
    problem p = make(&cases[0]);
    round_results *r = NULL;
    TT_CHECK_OK(TT_ALLOC(r, 1));
    static const int32_t row[] = {0, 1, 2};
    const tt_batch b = {.rows = ROWS,
                        .columns = p.d->targets,
                        .x = p.d->x,
                        .y = p.d->y,
                        .count = 3,
                        .row = row,
                        .loss = r->loss};
    way layered = {"layered", &tt_engine_cuda, {.threads = 1, .path = TT_GPU_PATH_layered}, 0, 0,
                   1};
    p.by = layered;
    TT_CHECK_OK(layered.ops->create(&p.c, (tt_slice){0, EACH}, &layered.use, &p.engine));
    TT_CHECK_OK(layered.ops->init(p.engine));
    tt_double_fail_alloc(n);
    e = layered.ops->set_batch(p.engine, &b);
    tt_double_fail_alloc(0);
    TT_CHECK(e && e != TT_E_MEM, ==, 0);
    TT_CHECK_OK(layered.ops->set_batch(p.engine, &b));
    TT_CHECK_OK(layered.ops->train(p.engine, 1, NULL));
    TT_CHECK(isfinite(r->loss[0]), !=, 0);
    problem_free(&p);
    tt_free(r);
  }
}
#endif
