/* test_fronts.c — laws for networks with a front: gradients are finite differences of the
 * definitions in double, for every kind of row and option; the bits of a member depend on its
 * arithmetic alone: not on threads, slices, calls and restarts. */
#include "tests/support/reference.h"

#include "tests/support/memory_hook.h"
#include "tests/support/trained.h"

#define ROW(...)                                                                                   \
  {                                                                                                \
    __VA_ARGS__, NULL                                                                              \
  }
typedef struct front_case {
  int dims;
  int64_t size[3];
  const char *row[9];
} front_case;

/* Together all kinds of rows and all options, on images that are not square, on profiles, and with
 * channels that are no multiple of a register tile. */
static const front_case cases[] = {
    {2, {1, 5, 4}, ROW("conv 3 3", "pool max 2")},
    {2, {2, 5, 3}, ROW("conv 4 2 stride 2 pad 1 groups 2", "conv 5 1")},
    {2, {1, 4, 6}, ROW("conv 2 3 dilation 2 pad 2", "group_norm 2", "pool mean 2 stride 1")},
    {1, {3, 9}, ROW("conv 4 3", "residual 2", "conv 6 5", "conv 4 3 groups 2", "global_mean")},
    {1, {2, 12}, ROW("residual 1", "conv 2 3 groups 2", "pool max 3 stride 2", "dropout")},
    {1,
     {1, 16},
     ROW("conv 4 4 stride 3", "dropout", "group_norm 1", "residual 3", "conv 4 3", "group_norm 4",
         "dropout", "conv 3 2")},
    {2, {1, 3, 3}, ROW("residual 1", "pool max 1", "conv 7 3 pad 0")},
    {1, {6, 4}, ROW("pool mean 2", "conv 8 3 pad 4", "conv 3 2 dilation 3")},
    {2,
     {1, 5, 4},
     ROW("conv 2 3", "residual 2 project activate", "conv 3 3 stride 2 activation relu",
         "conv 3 3 activation none", "pool max 3 stride 2 pad 1")},
    {1,
     {2, 9},
     ROW("residual 3 project", "conv 4 3 stride 2", "group_norm 2", "dropout",
         "residual 2 activate", "conv 3 3", "conv 4 3")},
    {1, {1, 3}, ROW("conv 66 3", "conv 5 1", "conv 3 3 stride 2", "global_mean")}, /* tiles */
    {1, {2, 8}, ROW("conv 3 3", "batch_norm", "pool mean 3 stride 2 pad 1", "batch_norm")},
    {1, {2, 9}, ROW("batch_norm", "conv 2 3 stride 2", "batch_norm")},
    {2, {1, 4, 4}, ROW("conv 2 3", "batch_norm", "basic 3 stride 2", "global_mean")},
    {1, {2, 8}, ROW("bottleneck 2 4 times 2", "dropout", "conv 2 3 activation gelu")},
};
enum {
  WRITTEN = sizeof cases / sizeof *cases,
  FIRST_BATCH_NORM = 11,
  CASES = WRITTEN + TT_POOLING_COUNT
};

/* Behind the cases above, one for each pool, with windows that overlap. */
static tt_front front_of(int number, tt_activation activation)
{
  tt_front f;
  tt_front_fault fault;
  char pool[TT_FRONT_TEXT] = "";
  front_case k = {1, {2, 9}, ROW("conv 3 3", pool, "conv 2 3")};
  tt_front_shape shape = {.size = k.size, .row = k.row, .activation = activation};
  if (number < WRITTEN)
    k = cases[number];
  else
    snprintf(pool, sizeof pool, "pool %s 3 stride 2", tt_pooling_name[number - WRITTEN]);
  shape.dims = k.dims;
  while (k.row[shape.rows]) shape.rows++;
  int possible = tt_front_lay_out(&shape, &f, &fault);
  if (!possible) fprintf(stderr, "row %d: %s\n", (int)fault.row, fault.why);
  TT_CHECK(possible, ==, 1);
  return f;
}

/* Two ensembles of two members whose networks have this front. */
static problem problem_of(tt_front f, int number, tt_activation activation, int64_t rows)
{
  const int64_t hidden = 4;
  int64_t inputs = (int64_t)f.channels * f.size[0] * f.size[1];
  problem p =
      problem_make(rows, inputs, 2, 2, 2, &hidden, number % 3 > 0, activation, TT_OUTPUT_mean);
  tt_model_shape shape =
      usual_shape(inputs, 1, &hidden, number % 3 > 0, activation, TT_OUTPUT_mean);
  shape.front = &f;
  TT_CHECK_OK(tt_model_lay_out(&shape, &p.c.model));
  return p;
}

static problem front_problem(int number, tt_activation activation, int64_t rows)
{
  return problem_of(front_of(number % CASES, activation), number, activation, rows);
}

/* running[P] after the rows of one part of a batch: those of batch_norm that trains change. */
static void follow_running(const ref_batch *b, const double *w, double *running)
{
  const tt_model *m = &b->p->c.model;
  ref_take_moments(b, w);
  ref_moments.use = 0;
  for (int l = 0; l < m->front.layers; l++)
    for (int64_t i = 0; i < tt_front_running(&m->front.layer[l]); i++) {
      const tt_front_layer *layer = &m->front.layer[l];
      int64_t which = i / layer->channels;
      double n = (double)(b->rows * tt_front_positions(layer));
      double moment = ref_moments.of[l][i % layer->channels][which] * (which ? n / (n - 1.0) : 1.0);
      double *value = &running[layer->running + i];
      if (ref_moments.known[l]) *value = 0.9 * *value + 0.1 * moment;
    }
}

/* Gradient want[P] of a batch in parts, and running[P] after it. */
static void reference_step(ref_batch b, int64_t parts, double *w, double *want, double *running)
{
  double part[REF_PARAMS];
  int64_t params = b.p->c.model.params, rows = b.rows;
  const int32_t *row = b.row;
  for (int64_t i = 0; i < params; i++) want[i] = 0.0, running[i] = w[i];
  for (int64_t k = 0; k < parts; k++) {
    tt_slice own = tt_part_rows(rows, parts, k);
    b.row = row + own.first;
    b.rows = own.count;
    if (!own.count) continue;
    ref_gradient(b, w, part);
    for (int64_t i = 0; i < params; i++) want[i] += part[i] * (double)own.count / (double)rows;
    follow_running(&b, w, running);
  }
}

/* Largest error of the parameters after one step w' = w - rate * gradient of plain sgd. */
static double step_error(const problem *p, int64_t m, const float *old, const float *new,
                         ref_batch b)
{
  double w[REF_PARAMS], want[REF_PARAMS], running[REF_PARAMS], worst = 0.0;
  double rate = (double)p->c.member[m].hyper.learning_rate;
  int64_t params = p->c.model.params;
  for (int64_t i = 0; i < params; i++) w[i] = (double)old[i];
  reference_step(b, p->c.parts, w, want, running);
  for (int64_t i = 0; i < params;) {
    int is_running;
    tt_slice same = tt_model_same_use(&p->c.model, i, params, &is_running);
    for (; i < same.first + same.count; i++) {
      double got = ((double)old[i] - (double)new[i]) / rate;
      double error = fabs(got - want[i] * ref_rate(&p->c.model, i)) / ref_largest(want, params);
      if (is_running) error = fabs((double)new[i] - running[i]) / (1.0 + fabs(running[i]));
      worst = fmax(worst, error);
    }
  }
  return worst;
}

/* One step with dropout where given. */
static double front_gradient_error(problem *p, way variant, int number)
{
  int64_t rows, params = p->c.model.params;
  double worst = 0.0;
  tt_progress progress;
  p->c.optimizer = TT_OPT_sgd;
  p->c.batch_size = number % 2 ? 21 : 1000;
  if (number % 3 == 2) set_rates(&p->c.model, number);
  for (int64_t i = 0; i < p->c.members; i++) {
    p->c.member[i].hyper = ref_plain(0x1p16f);
    p->c.member[i].hyper.dropout = i % 2 && p->c.parts == 1 ? 0.25f : 0.0f;
  }
  int32_t *order = ref_in_turn(p, &rows);
  problem_start(p, variant, everyone(p));
  tt_state *before = problem_state(p, everyone(p));
  TT_CHECK_OK(variant.ops->train(p->engine, 1, &progress));
  tt_state *after = problem_state(p, everyone(p));
  for (int64_t m = 0; m < p->c.members; m++)
    worst = fmax(worst, step_error(p, m, TT_FIELD(before, weights) + m * params,
                                   TT_FIELD(after, weights) + m * params,
                                   (ref_batch){p, m, order, tt_min_i64(p->c.batch_size, rows), 0}));
  tt_state_destroy(&before);
  tt_state_destroy(&after);
  problem_stop(p);
  tt_free(order);
  return worst;
}

/* With the sanitizers, where the reference takes most of the time, of the pools only, to which
 * tests/rows adds one; every_row_takes_a_step trains the other cases there. */
TT_TEST (front_gradients_are_finite_differences) {
  for (const way *w = every_way(); w->name; w++)
    for (int number = SANITIZED ? WRITTEN : 0; number < CASES; number++) {
      problem p = front_problem(number, number % 2 ? TT_ACT_tanh : TT_ACT_silu, 30);
      if (can(*w, &p.c) && has_turn(*w, number)) {
        double worst = front_gradient_error(&p, *w, number);
        fprintf(stderr, "  %-8s case %d: largest error %.1e of the gradient\n", w->name, number,
                worst);
        TT_CHECK(worst, <=, 1e-5);
      }
      problem_free(&p);
    }
}

/* Each part of a batch has moments of its own, and the running ones follow the parts in turn. */
TT_TEST (batch_norm_follows_the_parts) {
  for (const way *w = every_way(); w->name; w++)
    for (int number = FIRST_BATCH_NORM; number < WRITTEN - 2 * SANITIZED; number++) {
      problem p = front_problem(number, TT_ACT_silu, 30);
      p.c.parts = 3;
      if (can(*w, &p.c) && has_turn(*w, number))
        TT_CHECK(front_gradient_error(&p, *w, number), <=, 1e-5);
      problem_free(&p);
    }
}

/* Of the running values too, the average of swa is the mean of those at the ends of the epochs. */
TT_TEST (an_average_has_the_mean_of_the_running_values) {
  enum { ENDS = 3 };
  way variant[MAX_WAYS];
  for (int i = 0, n = ways(variant); i < n; i++) {
    problem p = front_problem(FIRST_BATCH_NORM, TT_ACT_silu, 30);
    double mean[REF_PARAMS] = {0.0};
    const tt_model *m = &p.c.model;
    p.c.average = TT_AVERAGE_swa;
    p.c.batch_size = 30; /* an epoch is one step */
    p.c.max_epochs = ENDS;
    for (int64_t k = 0; k < p.c.members; k++) p.c.member[k].hyper.epochs = ENDS;
    for (int epoch = 1; can(variant[i], &p.c) && epoch <= ENDS; epoch++) {
      tt_progress progress;
      if (epoch == 1) problem_start(&p, variant[i], everyone(&p));
      TT_CHECK_OK(variant[i].ops->train(p.engine, 1, &progress));
      tt_state *s = problem_state(&p, everyone(&p));
      for (int64_t k = 0; k < m->params; k++) mean[k] += (double)TT_FIELD(s, weights)[k] / ENDS;
      for (int64_t k = 0; epoch == ENDS && k < m->params; k++)
        TT_CHECK(fabs((double)TT_FIELD(s, average)[k] - mean[k]), <=, 1e-6 * (1.0 + fabs(mean[k])));
      tt_state_destroy(&s);
    }
    problem_free(&p);
  }
}

static void takes_a_step(way variant, tt_front f, int number)
{
  problem p = problem_of(f, number, TT_ACT_relu, 20);
  p.c.batch_size = 20;
  if (can(variant, &p.c)) {
    tt_progress progress;
    problem_start(&p, variant, everyone(&p));
    tt_state *before = problem_state(&p, everyone(&p));
    TT_CHECK_OK(variant.ops->train(p.engine, 1, &progress));
    tt_state *after = problem_state(&p, everyone(&p));
    for (int64_t k = 0; k < p.c.model.params; k++)
      TT_CHECK(isfinite(TT_FIELD(after, weights)[k]), !=, 0);
    TT_CHECK(
        memcmp(TT_FIELD(after, weights), TT_FIELD(before, weights), (size_t)p.c.model.params * 4),
        !=, 0);
    tt_state_destroy(&before);
    tt_state_destroy(&after);
  }
  problem_free(&p);
}

/* Short, for tools that check each access to memory. On the double with tensor cores only: its other
 * ways take these steps in front_gradients_are_finite_differences. */
TT_TEST (every_row_takes_a_step) {
  way variant[2 * MAX_WAYS];
  int n = DOUBLE ? 0 : ways(variant);
  n += tensor_ways(variant + n);
  for (int i = 0; i < n; i++)
    for (int number = 0; number < CASES; number++)
      takes_a_step(variant[i], front_of(number, TT_ACT_relu), number);
}

/* The gradient reaches the first layer of a network of 1,500 layers; on the double, which is slow,
 * of 304 layers, with its threads in a random order. */
TT_TEST (a_deep_network_trains_a_step) {
  static const int64_t size[] = {1, 4};
  static const tt_front_shape shape = {.dims = 1, .size = size, .activation = TT_ACT_relu};
  way variant[MAX_WAYS];
  for (int i = 0, n = ways(variant); i < n; i++) {
    int possible = 0;
    tt_front f;
    tt_front_fault fault;
    if (!takes(variant[i], SCHEDULES - 1)) continue;
    TT_CHECK_OK(tt_front_read(DOUBLE ? "conv 2 3, batch_norm, basic 2 times 75, dropout, dropout"
                                     : "conv 2 3, batch_norm, basic 2 times 374, dropout, dropout",
                              &shape, &f, &possible, &fault));
    TT_CHECK(f.layers, ==, DOUBLE ? 304 : 1500);
    takes_a_step(variant[i], f, 0);
  }
}

/* bits */

/* Dropout and clipping, each of some members. */
static problem busy_problem(int number)
{
  static const int64_t batch[] = {7, 16, 20, 1000, 33};
  problem p = front_problem(number, (tt_activation)(number % TT_ACT_COUNT), 67);
  if (number % 3 == 1) set_rates(&p.c.model, number);
  p.c.optimizer = (tt_optimizer)(number % TT_OPT_COUNT);
  p.c.resample = (tt_resample)(number % 3);
  p.c.init = (tt_init)(number % TT_INIT_COUNT);
  p.c.average = (tt_weight_average)(number % TT_AVERAGE_COUNT);
  p.c.batch_size = batch[number % 5];
  p.c.max_epochs = 3 - DOUBLE; /* the double is slow */
  for (int64_t i = 0; i < p.c.members; i++) {
    tt_hyper *h = &p.c.member[i].hyper;
    h->epochs = 3 - DOUBLE - (int32_t)(i % 2);
    h->dropout = i % 2 ? 0.25f : 0.0f;
    h->clip_norm = i == 1 ? 0.5f : 0.0f;
    h->init_scale = i == 3 ? 0.5f : 1.0f;
  }
  return p;
}

static void same_bits_by(int number, way with, tt_slice slice, int64_t steps, const tt_state *want,
                         const char *what)
{
  problem p = busy_problem(number);
  tt_state *got = problem_run(&p, with, slice, steps);
  for (int64_t i = slice.first; i < slice.first + slice.count; i++) same_member(want, got, i, what);
  tt_state_destroy(&got);
  problem_free(&p);
}

/* Threads that share a member, slices, calls of other lengths. */
static void depends_on_the_member_alone(int number, way variant, const tt_state *want)
{
  static const int threads[] = {2, 3, 8};
  const tt_slice slices[] = {{3, 1}, {1, 2}, {0, 4}};
  for (int k = 0; k < 3; k++) {
    way with = variant;
    with.use.threads = threads[(k + number) % 3];
    with.use.share_flops = 1;
    same_bits_by(number, with, slices[k], k % 2 ? 1000000 : 3, want, "threads share a member");
  }
}

/* Members continue in another engine from a state that was saved after some steps. */
static void continues(int number, way variant, const tt_state *want)
{
  problem p = busy_problem(number);
  tt_progress progress;
  problem_start(&p, variant, everyone(&p));
  TT_CHECK_OK(variant.ops->train(p.engine, 2, &progress));
  tt_state *saved = problem_state(&p, everyone(&p));
  problem_stop(&p);
  problem_start(&p, variant, (tt_slice){1, 3});
  TT_CHECK_OK(variant.ops->load(p.engine, (tt_slice){1, 3}, saved));
  problem_finish(&p, 5);
  tt_state *got = problem_state(&p, (tt_slice){1, 3});
  for (int64_t i = 1; i < 4; i++) same_member(want, got, i, "restarted");
  tt_state_destroy(&got);
  tt_state_destroy(&saved);
  problem_free(&p);
}

/* Cases for the double: together groups, strides, dropout, norms, residuals, windows that overlap
 * and wide layers. */
static int in_short(int number)
{
  return number < CASES &&
         (number % 4 == 1 || number == FIRST_BATCH_NORM - 1 || number == FIRST_BATCH_NORM + 1);
}

/* With the sanitizers, which look at accesses and not at bits, each case on one instruction set. */
TT_TEST (front_members_depend_on_themselves_alone) {
  for (int number = 0; number < 2 * CASES; number++) {
    tt_state *fused = NULL; /* avx512 and avx2 have the same arithmetic */
    for (const way *w = every_way(); w->name; w++) {
      problem p = busy_problem(number);
      int suited = w->ops == &tt_engine_cpu
                       ? !SANITIZED || (number < CASES && has_turn(*w, number))
                       : can(*w, &p.c) && in_short(number) && has_turn(*w, number);
      tt_state *want = suited ? problem_run(&p, *w, everyone(&p), 7) : NULL;
      problem_free(&p);
      if (!suited) continue;
      TT_CHECK(TT_FIELD(want, step)[0], >, 0);
      depends_on_the_member_alone(number, *w, want);
      continues(number, *w, want);
      if (fused && strcmp(w->name, "avx2") == 0)
        for (int64_t m = 0; m < want->count; m++) same_member(fused, want, m, "avx2 and avx512");
      if (!fused && strcmp(w->name, "avx512") == 0)
        fused = want;
      else
        tt_state_destroy(&want);
    }
    if (fused) tt_state_destroy(&fused);
  }
}

/* The parts of a batch, on one thread and on several. */
TT_TEST (front_parts_change_nothing_with_threads) {
  for (const way *w = every_way(); w->name; w++) {
    problem p = busy_problem(3);
    p.c.parts = 4;
    if (can(*w, &p.c) && (!DOUBLE || takes(*w, 1))) {
      tt_state *one = problem_run(&p, *w, everyone(&p), 7);
      way by = *w;
      by.use.threads = 5;
      tt_state *several = problem_run(&p, by, everyone(&p), 4);
      for (int64_t m = 0; m < p.c.members; m++) same_member(one, several, m, "parts");
      tt_state_destroy(&one);
      tt_state_destroy(&several);
    }
    problem_free(&p);
  }
}

/* A member whose loss is not finite stops; its neighbors do not notice. */
TT_TEST (a_diverged_front_stops_alone) {
  for (const way *w = every_way(); w->name; w++) {
    problem p = busy_problem(5);
    p.c.optimizer = TT_OPT_sgd;
    if (can(*w, &p.c) && (!DOUBLE || takes(*w, 2))) {
      tt_state *want = problem_run(&p, *w, everyone(&p), 7);
      p.c.member[1].hyper.learning_rate = 1e30f;
      tt_state *got = problem_run(&p, *w, everyone(&p), 7);
      TT_CHECK((int)TT_FIELD(got, status)[1], ==, TT_STATUS_diverged);
      for (int64_t m = 0; m < 4; m++)
        if (m != 1) same_member(want, got, m, "beside a diverged member");
      tt_state_destroy(&want);
      tt_state_destroy(&got);
    }
    problem_free(&p);
  }
}

/* Of the paths of a GPU, the layered one alone trains a front; the others say so. */
TT_TEST (fused_paths_refuse_a_front) {
  for (const way *w = every_way(); w->name; w++) {
    problem p = front_problem(0, TT_ACT_tanh, 40);
    tt_engine *e = NULL;
    if (!can(*w, &p.c)) {
      TT_CHECK((int)w->ops->create(&p.c, everyone(&p), &w->use, &e), ==, TT_E_UNAVAILABLE);
      TT_CHECK(e == NULL, ==, 1);
      TT_CHECK(strstr(tt_err_last(), "front") != NULL, ==, 1);
    }
    problem_free(&p);
  }
}

/* predictions */

/* Means of members with made-up weights are those of the definitions. */
TT_TEST (front_predictions_are_the_definitions) {
  way variant[MAX_WAYS];
  for (int i = 0, n = ways(variant); i < n; i++)
    for (int number = 0; number < CASES; number++) {
      problem p = front_problem(number, TT_ACT_tanh, 40);
      tt_trained_ensemble *c = NULL;
      double w[REF_PARAMS], x[REF_WIDEST], out[REF_WIDEST];
      float members[4 * 2 * 40];
      int64_t params = p.c.model.params, inputs = p.c.model.inputs;
      if (variant[i].ops == &tt_engine_cpu ||
          (can(variant[i], &p.c) && has_turn(variant[i], number))) {
        for (int e = 0; e < 2; e++) TT_CHECK_OK(tt_text_set(&p.c.ensemble[e].name, e ? "b" : "a"));
        TT_CHECK_OK(trained_from_cohort(&p.c, p.d, &c));
        for (int64_t m = 0; m < 4; m++) {
          c->weight[m] = 1.0;
          tt_member_init_weights(&p.c, &p.c.member[m], 0, c->w + m * params);
        }
        TT_CHECK_OK(variant[i].ops->predict(c, &variant[i].use, 40, p.d->x, NULL, members));
        for (int64_t m = 0; m < 4; m++)
          for (int64_t r = 0; r < 40; r++) {
            for (int64_t k = 0; k < params; k++) w[k] = (double)c->w[m * params + k];
            for (int64_t k = 0; k < inputs; k++) x[k] = (double)p.d->x[r * inputs + k];
            ref_forward(&p.c.model, w, x, NULL, out);
            TT_CHECK(fabs((double)members[m * 80 + r] - out[0]), <=, 1e-5 * (1.0 + fabs(out[0])));
          }
        for (int e = 0; e < 2; e++) tt_free(p.c.ensemble[e].name);
        tt_trained_ensemble_destroy(&c);
      }
      problem_free(&p);
    }
}

TT_TEST (fronts_hold_the_planned_bytes) {
  for (const way *w = every_way(); w->name; w++)
    for (int number = 0; number < CASES; number++) {
      problem p = busy_problem(number);
      if (w->ops->host_bytes && has_turn(*w, number)) {
        way by = *w;
        by.use.threads = 1 + number % 3;
        int64_t before = tt_hook_held();
        problem_start(&p, by, everyone(&p));
        TT_CHECK(tt_hook_held() - before, ==,
                 by.ops->host_bytes(&p.c, everyone(&p), p.d->rows, NULL, &by.use));
      }
      problem_free(&p);
    }
}
