/* test_caller_rows.c — law: fed with the batches of a job in its order, members on rows of the
 * caller (engine.h: set_batch) have the bits of the job, with every optimizer, loss, schedule,
 * average and feature of a step; also where the caller computes the loss. */
#include "tests/support/settings.h"

/* One ensemble of a setting, without validation rows: rows of the caller have none. */
static problem without_validation(setting v)
{
  const int64_t id = v.number % 2;
  if (v.resample == TT_RESAMPLE_kfold) v.resample = TT_RESAMPLE_none;
  problem p = cast(v, &id, 1, 0, EACH);
  for (int64_t r = 0; r < ROWS; r++)
    if (p.d->split[r] == TT_VALIDATION) p.d->split[r] = TT_TEST;
  return p;
}

/* Batches of all members in the order of the job. */
typedef struct feeder {
  problem *p;
  tt_batch batch;
  int32_t *labeled, *row; /* training rows; [M][batch size] those of the next step */
  int64_t count;
  double *loss; /* [M] */
} feeder;

static feeder feeder_make(problem *p)
{
  feeder f = {.p = p};
  TT_CHECK_OK(tt_cohort_rows(&p->c, p->d, 0, TT_TRAIN, &f.labeled, &f.count));
  TT_CHECK_OK(TT_ALLOC(f.row, p->c.members * p->c.batch_size));
  TT_CHECK_OK(TT_ALLOC(f.loss, p->c.members));
  f.batch = (tt_batch){.rows = p->d->rows,
                       .columns = p->d->targets,
                       .x = p->d->x,
                       .y = p->d->y,
                       .weight = p->d->weight,
                       .row = f.row,
                       .epoch_rows = tt_cohort_epoch_rows(&p->c, f.count),
                       .loss = f.loss};
  return f;
}

static void feeder_free(feeder *f) { tt_free_all(&f->labeled, &f->row, &f->loss); }

static int64_t feeder_batches(const feeder *f)
{
  return (f->batch.epoch_rows + f->p->c.batch_size - 1) / f->p->c.batch_size;
}

/* Give the engine batch number `step` of the job. */
static void feed(feeder *f, int64_t step)
{
  const tt_cohort *c = &f->p->c;
  int64_t epoch = step / feeder_batches(f), first = step % feeder_batches(f) * c->batch_size;
  int64_t left = f->batch.epoch_rows - first;
  f->batch.count = f->batch.stride = left < c->batch_size ? left : c->batch_size;
  for (int64_t m = 0; m < c->members; m++) {
    tt_sampler order = tt_member_sampler(c, &c->member[m], 0, f->count, epoch);
    for (int64_t r = 0; r < f->batch.count; r++)
      f->row[m * f->batch.count + r] = f->labeled[tt_sampler_at(&order, (uint32_t)(first + r))];
  }
  TT_CHECK_OK(f->p->by.ops->set_batch(f->p->engine, &f->batch));
}

/* What the caller computes with. */
typedef struct own_arrays {
  float *output, *delta;     /* [M][count][O] */
  float *o, *y, *weight, *d; /* [O][ld], [K][ld], [ld], [O][ld] of one member */
  double *term;              /* [ld] */
  int64_t ld;
} own_arrays;

static own_arrays arrays_make(const tt_cohort *c)
{
  own_arrays a = {.ld = tt_lanes_up(c->batch_size)};
  TT_CHECK_OK(TT_ALLOC(a.output, c->members * c->batch_size * c->model.outputs));
  TT_CHECK_OK(TT_ALLOC(a.delta, c->members * c->batch_size * c->model.outputs));
  TT_CHECK_OK(TT_ALLOC(a.o, c->model.outputs * a.ld));
  TT_CHECK_OK(TT_ALLOC(a.d, c->model.outputs * a.ld));
  TT_CHECK_OK(TT_ALLOC(a.y, c->model.targets * a.ld));
  TT_CHECK_OK(TT_ALLOC(a.weight, a.ld));
  TT_CHECK_OK(TT_ALLOC(a.term, a.ld));
  return a;
}

static void arrays_free(own_arrays *a)
{
  tt_free_all(&a->output, &a->delta, &a->o, &a->d, &a->y, &a->weight, &a->term);
}

/* The loss of the table by the caller, of one member: dL/d(output) from its outputs, as the layered
 * path computes it. */
static void own_loss_by_rows(const feeder *f, own_arrays *a, int64_t m)
{
  const tt_cohort *c = &f->p->c;
  const tt_dataset *d = f->p->d;
  int64_t count = f->batch.count, outputs = c->model.outputs;
  for (int64_t r = 0; r < count; r++) {
    int64_t row = f->row[m * count + r], offset = (m * count + r) * outputs;
    float weight = d->weight ? d->weight[row] : 1.0f;
    for (int64_t k = 0; k < c->model.targets; k++) {
      const tt_loss_sample w = {.n = (int32_t)(outputs / c->model.targets),
                                .level = c->model.level,
                                .o = a->output + offset + k,
                                .d = a->delta + offset + k,
                                .step = (int32_t)c->model.targets,
                                .y = d->y[row * d->targets + c->ensemble->column[k]],
                                .factor = weight * (1.0f / (float)count)};
      (void)tt_loss_target(c->loss, &w, tt_cohort_loss_args(c));
    }
  }
}

/* The same by the kernel of the cpu engine, so that it has the same bits. */
static void own_loss(const feeder *f, own_arrays *a, int64_t m)
{
  const tt_cohort *c = &f->p->c;
  const tt_dataset *d = f->p->d;
  const tt_kernels *kernels;
  int64_t count = f->batch.count, outputs = c->model.outputs;
  float *output = a->output + m * count * outputs, *delta = a->delta + m * count * outputs;
  TT_CHECK_OK(tt_kernels_get(f->p->by.use.simd, &kernels));
  for (int64_t r = 0; r < count; r++) {
    int64_t row = f->row[m * count + r];
    for (int64_t o = 0; o < outputs; o++) a->o[o * a->ld + r] = output[r * outputs + o];
    for (int64_t k = 0; k < c->model.targets; k++)
      a->y[k * a->ld + r] = d->y[row * d->targets + c->ensemble->column[k]];
    a->weight[r] = d->weight ? d->weight[row] : 1.0f;
  }
  kernels->loss(c->loss, tt_cohort_loss_args(c), &c->model, count, a->o, a->y, NULL,
                d->weight ? a->weight : NULL, 1.0f / (float)count, a->term, a->d, a->ld);
  for (int64_t r = 0; r < count; r++)
    for (int64_t o = 0; o < outputs; o++) delta[r * outputs + o] = a->d[o * a->ld + r];
}

static void step_by_parts(feeder *f, own_arrays *a)
{
  const tt_engine_ops *ops = f->p->by.ops;
  TT_CHECK_OK(ops->forward(f->p->engine, a->output));
  for (int64_t m = 0; m < f->p->c.members; m++)
    if (ops == &tt_engine_cpu)
      own_loss(f, a, m);
    else
      own_loss_by_rows(f, a, m);
  TT_CHECK_OK(ops->backward(f->p->engine, a->delta, NULL));
  TT_CHECK_OK(ops->update(f->p->engine));
}

/* Train to the end on rows of the caller; the state, owned by the caller.
 *   own  1: the caller computes the loss */
static tt_state *train_fed(problem *p, way variant, int own)
{
  p->by = variant;
  follow_schedule(variant);
  TT_CHECK_OK(variant.ops->create(&p->c, everyone(p), &variant.use, &p->engine));
  TT_CHECK_OK(variant.ops->init(p->engine));
  feeder f = feeder_make(p);
  own_arrays a = arrays_make(&p->c);
  for (int64_t step = 0; step < EPOCHS * feeder_batches(&f); step++) {
    feed(&f, step);
    if (own)
      step_by_parts(&f, &a);
    else
      TT_CHECK_OK(variant.ops->train(p->engine, 1, NULL));
  }
  tt_state *s = problem_state(p, everyone(p));
  arrays_free(&a);
  feeder_free(&f);
  problem_stop(p);
  return s;
}

/* The same bits; on a GPU, whose functions are not those of the host, nearly the same weights but
 * for some: the first step of Adam has the sign of a gradient, also of one of almost 0. */
static void same_own(const tt_state *want, const tt_state *got, way variant, const char *what)
{
  int exact = DOUBLE || variant.ops == &tt_engine_cpu;
  int64_t far = 0;
  for (int64_t m = 0; exact && m < EACH; m++) same_member(want, got, m, what);
  for (int64_t w = 0; !exact && w < EACH * want->params; w++)
    far += fabsf(TT_FIELD(want, weights)[w] - TT_FIELD(got, weights)[w]) > 1e-2f;
  TT_CHECK(50 * far, <=, EACH * want->params);
}

/* The history of the losses is that of the job only where the engine computes them. */
static void forget_losses(tt_state *s)
{
  for (int64_t i = 0; i < s->count * s->epochs; i++) TT_FIELD(s, loss_train)[i] = 0.0f;
}

/* The caller's loss sees whole batches, and knows nothing of label noise; a plateau is one of the
 * losses. */
static int has_own_loss(const problem *p, setting v)
{
  return v.parts == 1 && !v.noise && p->c.schedule != TT_SCHEDULE_reduce_on_plateau;
}

static int takes_rows(way variant)
{
  return variant.ops == &tt_engine_cpu || variant.use.path == TT_GPU_PATH_layered;
}

TT_TEST (a_fed_member_has_the_bits_of_the_job) {
  way variant[MAX_WAYS];
  int n = ways(variant), cases = 0, own = 0;
  for (int number = 0; number < SETTINGS; number++)
    for (int i = 0; i < n; i++) {
      setting v = setting_of(number);
      problem p = without_validation(v);
      if (takes_rows(variant[i]) && takes(variant[i], number)) {
        tt_state *want = problem_run(&p, variant[i], everyone(&p), 7);
        tt_state *got = train_fed(&p, variant[i], 0);
        for (int64_t m = 0; m < EACH; m++) same_member(want, got, m, tell(v, variant[i], "fed"));
        tt_state_destroy(&got);
        cases++;
        if (has_own_loss(&p, v)) {
          got = train_fed(&p, variant[i], 1);
          forget_losses(want);
          forget_losses(got);
          same_own(want, got, variant[i], tell(v, variant[i], "loss of the caller"));
          tt_state_destroy(&got);
          own++;
        }
        tt_state_destroy(&want);
      }
      problem_free(&p);
    }
  printf("%d cases, %d with the loss of the caller\n", cases, own);
}

TT_TEST (threads_do_not_change_a_fed_member) {
  way variant[MAX_WAYS];
  int n = ways(variant);
  for (int number = 0; number < SETTINGS; number += 5)
    for (int i = 0; i < n; i++) {
      setting v = setting_of(number);
      problem p = without_validation(v);
      way several = variant[i];
      several.use.threads = 5;
      several.use.share_flops = 1; /* threads share small members too */
      if (takes_rows(variant[i]) && takes(variant[i], number)) {
        tt_state *want = train_fed(&p, variant[i], p.c.parts == 1);
        tt_state *got = train_fed(&p, several, p.c.parts == 1);
        for (int64_t m = 0; m < EACH; m++) same_member(want, got, m, tell(v, several, "threads"));
        tt_state_destroy(&want);
        tt_state_destroy(&got);
      }
      problem_free(&p);
    }
}

enum { FEW = 5, OUTPUTS = 2 };

/* Members of a smooth network whose rows are those of x [FEW][INPUTS]. */
static void smooth_problem(problem *p, way variant, const float *x, tt_batch *batch, double *loss)
{
  static const int64_t hidden[] = {9, 9};
  static const int32_t row[FEW] = {0, 1, 2, 3, 4};
  *p = problem_make(FEW, INPUTS, 1, 1, EACH, hidden, 2, TT_ACT_tanh, TT_OUTPUT_mean_variance);
  p->c.optimizer = TT_OPT_sgd;
  p->by = variant;
  *batch = (tt_batch){
      .rows = FEW, .columns = 1, .x = x, .y = p->d->y, .count = FEW, .row = row, .loss = loss};
  TT_CHECK_OK(variant.ops->create(&p->c, everyone(p), &variant.use, &p->engine));
  TT_CHECK_OK(variant.ops->init(p->engine));
  TT_CHECK_OK(variant.ops->set_batch(p->engine, batch));
}

/* Sum of delta * output of a member, in one row. */
static double weighted(problem *p, int64_t member, int64_t row, const float *delta)
{
  float output[EACH][FEW][OUTPUTS];
  double sum = 0.0;
  TT_CHECK_OK(p->by.ops->forward(p->engine, &output[0][0][0]));
  for (int o = 0; o < OUTPUTS; o++) sum += (double)output[member][row][o] * (double)delta[o];
  return sum;
}

TT_TEST (the_gradient_by_the_inputs_is_that_of_differences) {
  static const float h = 0.02f;
  way variant[MAX_WAYS];
  int n = ways(variant);
  for (int i = 0; i < n; i++) {
    float x[FEW][INPUTS], delta[EACH][FEW][OUTPUTS], got[EACH][FEW][INPUTS];
    double loss[EACH];
    tt_batch batch;
    if (!takes_rows(variant[i])) continue;
    for (int k = 0; k < FEW * INPUTS; k++) x[k / INPUTS][k % INPUTS] = sinf((float)k);
    for (int k = 0; k < EACH * FEW * OUTPUTS; k++)
      delta[k / (FEW * OUTPUTS)][k / OUTPUTS % FEW][k % OUTPUTS] = cosf((float)(3 * k));
    problem p;
    smooth_problem(&p, variant[i], x[0], &batch, loss);
    TT_CHECK_OK(variant[i].ops->backward(p.engine, delta[0][0], got[0][0]));
    for (int m = 0; m < EACH; m++)
      for (int r = 0; r < FEW; r++)
        for (int k = 0; k < INPUTS; k++) {
          float at = x[r][k];
          x[r][k] = at + h;
          double above = weighted(&p, m, r, delta[m][r]);
          x[r][k] = at - h;
          double slope = (above - weighted(&p, m, r, delta[m][r])) / (2.0 * (double)h);
          x[r][k] = at;
          TT_CHECK(fabs(slope - (double)got[m][r][k]), <=, 2e-4);
        }
    problem_free(&p);
  }
}

/* Gradients of two calls of backward are added: of two losses, the step of their sum. */
TT_TEST (calls_of_backward_are_added) {
  way variant[MAX_WAYS];
  int n = ways(variant);
  for (int i = 0; i < n; i++) {
    float x[FEW * INPUTS], delta[3][EACH * FEW * OUTPUTS];
    double loss[EACH];
    tt_batch batch;
    tt_state *s[2];
    if (!takes_rows(variant[i])) continue;
    for (int k = 0; k < FEW * INPUTS; k++) x[k] = sinf((float)k);
    for (int k = 0; k < EACH * FEW * OUTPUTS; k++) {
      delta[0][k] = (float)(k % 7);
      delta[1][k] = (float)(k % 3) - 1.0f;
      delta[2][k] = delta[0][k] + delta[1][k];
    }
    for (int sum = 0; sum < 2; sum++) {
      problem p;
      smooth_problem(&p, variant[i], x, &batch, loss);
      for (int k = sum ? 2 : 0; k < (sum ? 3 : 2); k++)
        TT_CHECK_OK(variant[i].ops->backward(p.engine, delta[k], NULL));
      TT_CHECK_OK(variant[i].ops->update(p.engine));
      s[sum] = problem_state(&p, everyone(&p));
      problem_free(&p);
    }
    for (int64_t w = 0; w < EACH * s[0]->params; w++)
      TT_CHECK(fabsf(TT_FIELD(s[0], weights)[w] - TT_FIELD(s[1], weights)[w]), <=, 1e-6f);
    tt_state_destroy(&s[0]);
    tt_state_destroy(&s[1]);
  }
}
