/* test_steps.c — law: steps follow the textbook. Every optimizer and schedule, and every feature
 * that changes a step (clipping, noise, dropout, averages), over many steps
 * against the formulas of reference.h in double, on every engine. */
#include "tests/support/recipes.h"

static problem one_member(const recipe *r)
{
  problem p = ref_network(TT_ACT_tanh, TT_LOSS_mse, REF_COLUMNS, r->flags);
  p.c.optimizer = r->optimizer;
  p.c.nesterov = r->nesterov;
  p.c.schedule = r->schedule;
  p.c.schedule_options =
      (tt_schedule_options){.milestones = 2, .milestone = {4, 15}, .growth = 1.5f, .peak = 0.3f};
  p.c.average = r->average;
  p.c.batch_size = BATCH;
  p.c.max_epochs = EPOCHS;
  p.c.members = p.c.ensemble[0].members = 1;
  p.c.member[0].hyper = filled(r);
  return p;
}

/* The training of a member by the textbook formulas. */
typedef struct walk {
  double w[REF_PARAMS], slots[3 * REF_PARAMS], average[REF_PARAMS];
  int64_t averaged;
  double rate, best; /* reduce_on_plateau */
  int wait;
} walk;

static void book_average(walk *k, int64_t params, double keep)
{
  for (int64_t i = 0; i < params; i++)
    k->average[i] = k->averaged ? keep * k->average[i] + (1.0 - keep) * k->w[i] : k->w[i];
  k->averaged++;
}

static void book_step(const problem *p, walk *k, int64_t t, const int32_t *order, int64_t rows)
{
  const tt_hyper *h = &p->c.member[0].hyper;
  double g[REF_PARAMS];
  int64_t batches = (rows + BATCH - 1) / BATCH, first = t % batches * BATCH, left = rows - first;
  double rate = (double)h->learning_rate * k->rate * ref_schedule(&p->c, h, t, batches);
  ref_gradient((ref_batch){p, 0, order + first, left < BATCH ? left : BATCH, t}, k->w, g);
  ref_step(&p->c, h, rate, t + 1, k->w, g, k->slots);
  if (p->c.average == TT_AVERAGE_ema && t / batches >= h->average_start)
    book_average(k, p->c.model.params, (double)h->average_decay);
}

/* The validation loss sets the learning rate of the following epochs. */
static void book_epoch(const problem *p, walk *k, int64_t epoch, const int32_t *check, int64_t rows)
{
  const tt_hyper *h = &p->c.member[0].hyper;
  if (p->c.average == TT_AVERAGE_swa && epoch >= h->average_start)
    book_average(k, p->c.model.params, (double)k->averaged / (double)(k->averaged + 1));
  if (p->c.schedule != TT_SCHEDULE_reduce_on_plateau) return;
  double loss = ref_batch_loss(&(ref_batch){p, 0, check, rows, -1}, k->w, NULL);
  k->wait++;
  if (loss < k->best - (double)h->min_delta) k->best = loss, k->wait = 0;
  if (k->wait <= h->schedule_step) return;
  k->wait = 0;
  k->rate = fmax(k->rate * (double)h->schedule_gamma, (double)h->schedule_min);
}

static double gap(const float *got, const double *want, int64_t n)
{
  double worst = 0.0, size = ref_largest(want, n);
  for (int64_t i = 0; i < n; i++) {
    double apart = fabs((double)got[i] - want[i]);
    worst = fmax(worst, isnan(apart) ? INFINITY : apart / size);
  }
  return worst;
}

static double book_walk(const problem *p, const tt_state *start, const tt_state *end,
                        const int32_t *order, int64_t rows)
{
  walk k = {.rate = 1.0, .best = INFINITY};
  int32_t *check = NULL;
  int64_t checks, params = p->c.model.params, batches = (rows + BATCH - 1) / BATCH;
  TT_CHECK_OK(tt_dataset_rows(p->d, TT_VALIDATION, (tt_slice){0, 0}, p->c.ensemble[0].column,
                              REF_COLUMNS, &check, &checks));
  for (int64_t i = 0; i < params; i++) k.w[i] = (double)TT_FIELD(start, weights)[i];
  for (int64_t t = 0; t < STEPS; t++) {
    book_step(p, &k, t, order, rows);
    if ((t + 1) % batches == 0) book_epoch(p, &k, t / batches, check, checks);
  }
  double worst = gap(TT_FIELD(end, weights), k.w, params);
  double *used = k.averaged ? k.average : k.w; /* validation: no noise, no dropout */
  double loss = ref_batch_loss(&(ref_batch){p, 0, check, checks, -1}, used, NULL);
  TT_CHECK(fabs((double)TT_FIELD(end, loss_validation)[EPOCHS - 1] - loss), <=, 1e-5 * loss);
  tt_free(check);
  TT_CHECK(fabs((double)TT_FIELD(end, lr_factor)[0] - k.rate), <=, 1e-6);
  TT_CHECK(TT_FIELD(end, averaged)[0], ==, k.averaged);
  if (k.averaged) worst = fmax(worst, gap(TT_FIELD(end, average), k.average, params));
  return worst;
}

/* Layers with factor 0 keep their weights, and their optimizer slots stay 0. */
static void frozen_layers_stay(const problem *p, const tt_state *start, const tt_state *end)
{
  int64_t params = p->c.model.params;
  for (int64_t i = 0; i < params; i++) {
    if (ref_rate(&p->c.model, i) > 0.0) continue;
    TT_CHECK(TT_FIELD(end, weights)[i], ==, TT_FIELD(start, weights)[i]);
    for (int64_t s = 0; s < end->slots; s++)
      TT_CHECK(TT_FIELD(end, slots)[s * params + i], ==, 0.0f);
  }
}

/* -1 if the engine does not train such members. */
static double walk_error(way variant, const recipe *r)
{
  int64_t rows;
  tt_progress progress;
  double worst = -1.0;
  problem p = one_member(r);
  if (can(variant, &p.c)) {
    int32_t *order = ref_in_turn(&p, &rows);
    problem_start(&p, variant, everyone(&p));
    tt_state *start = problem_state(&p, everyone(&p));
    TT_CHECK_OK(variant.ops->train(p.engine, STEPS, &progress));
    TT_CHECK(progress.member_steps, ==, STEPS);
    tt_state *end = problem_state(&p, everyone(&p));
    worst = book_walk(&p, start, end, order, rows);
    frozen_layers_stay(&p, start, end);
    tt_state_destroy(&start);
    tt_state_destroy(&end);
    tt_free(order);
  }
  problem_free(&p);
  return worst;
}

TT_TEST (steps_follow_the_textbook) {
  recipe all[MAX_RECIPES];
  int count = list_recipes(all);
  for (const way *w = every_way(); w->name; w++)
    for (int r = 0; r < count; r++) {
      if (r < RECIPES && !has_turn(*w, r)) continue; /* rows that have no recipe: on every way */
      double worst = walk_error(*w, &all[r]);
      if (worst < 0.0) continue;
      fprintf(stderr, "  %-21s %-24s %-12s %.1e after %d steps\n", w->name, all[r].name,
              tt_choice_optimizer[all[r].optimizer], worst, STEPS);
      TT_CHECK(worst, <=, 1e-5);
    }
}

TT_TEST (the_recipes_use_every_row) {
  int optimizer[TT_OPT_COUNT] = {0}, schedule[TT_SCHEDULE_COUNT] = {0};
  int average[TT_AVERAGE_COUNT] = {0};
  recipe all[MAX_RECIPES];
  for (int r = 0, n = list_recipes(all); r < n; r++)
    optimizer[all[r].optimizer] = schedule[all[r].schedule] = average[all[r].average] = 1;
  for (int i = 0; i < TT_OPT_COUNT; i++) TT_CHECK(optimizer[i], ==, 1);
  for (int i = 0; i < TT_SCHEDULE_COUNT; i++) TT_CHECK(schedule[i], ==, 1);
  for (int i = 0; i < TT_AVERAGE_COUNT; i++) TT_CHECK(average[i], ==, 1);
}

TT_TEST (schedules_are_the_textbook_formulas) {
  const tt_schedule_options shape = {3, {2, 3, 11}, 1.5f, 0.25f};
  const int64_t steps = 4;
  for (int kind = 0; kind < TT_SCHEDULE_COUNT; kind++)
    for (int warm = 0; warm < 2; warm++)
      for (int64_t step = 0; step < 20 * steps; step++) {
        tt_cohort c = {.schedule = (tt_schedule)kind, .schedule_options = shape};
        tt_hyper h = {.learning_rate = 0.5f,
                      .schedule_gamma = 0.75f,
                      .schedule_min = 0.125f,
                      .schedule_step = 3,
                      .epochs = 20,
                      .warmup = warm ? 2.5f : 0.0f};
        double want = 0.25 * ref_schedule(&c, &h, step, steps);
        double got = (double)tt_member_learning_rate(&h, c.schedule, &c.schedule_options, 0.5f,
                                                     (int32_t)(step / steps), step, steps);
        TT_CHECK(fabs(got - want), <=, 1e-7);
      }
}

/* A constant schedule changes no bit of the learning rate. */
TT_TEST (a_constant_schedule_keeps_the_bits_of_the_rate) {
  const tt_schedule_options none = {0};
  for (int i = 0; i < 1000; i++) {
    tt_hyper h = {.learning_rate =
                      tt_uniform(tt_random(1, 1, TT_PURPOSE_INIT, 0, (uint32_t)i).v[0]),
                  .epochs = 5};
    TT_CHECK(tt_member_learning_rate(&h, TT_SCHEDULE_constant, &none, 1.0f, 3, i, 7), ==,
             h.learning_rate);
  }
}

/* After retries the rate may be below schedule_min: a plateau does not raise it. */
TT_TEST (a_plateau_never_raises_the_rate) {
  for (int32_t i = 0; i < 100; i++) {
    tt_plateau p = {0.01f * (float)i, 1.0, 0};
    tt_plateau q = tt_plateau_end_epoch(p, 1.0, 0.5f, 0.3f, 0, 0.0f);
    TT_CHECK(q.rate, <=, p.rate);
    TT_CHECK(q.rate, ==, p.rate <= 0.3f ? p.rate : fmaxf(0.5f * p.rate, 0.3f));
  }
}
