/* jobs.c — see jobs.h. */
#include "src/train/self_check/jobs.h"

#include "src/train/self_check/internal.h"
#include "src/train/verify.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { ROWS = TT_SELF_CHECK_ROWS, TARGETS = 2, VALUES = 5, CLASSES = 3 };
enum { ALL_STEPS = 1 << 20, MOST_MEMBERS = TT_SELF_CHECK_MEMBERS, TEXT = 1024 };
/* Jobs of dense networks, of which a path trains those that it can, then one for each row of
 * TT_FRONT_KINDS; in tf32 every TENSOR_JOBS-th of them. Of those with a front only some train in a
 * team and on rows of a caller, where their kernels are the same. */
#define LARGER(a_, b_) ((int)(a_) > (int)(b_) ? (int)(a_) : (int)(b_))
enum {
  /* each row of these tables has a turn; the job after the last activation has no hidden layer */
  DENSE_JOBS = LARGER(
      LARGER(LARGER(TT_ACT_COUNT + 1, TT_LOSS_COUNT), LARGER(TT_OPT_COUNT, TT_SCHEDULE_COUNT)),
      TT_INIT_COUNT),
  JOBS = DENSE_JOBS + TT_FRONT_KIND_COUNT,
  TENSOR_JOBS = 5,
  FRONTS_IN_ALL_WAYS = 4
};

typedef tt_self_check_trial trial;

/* The job */

/* A row of this kind, with a 2 for each of its numbers, between convolutions; ple is alone, for
 * inputs that are no image. */
static void write_front(FILE *f, int kind)
{
#define X(name, words, numbers, ...) {words, numbers},
  static const struct {
    const char *words;
    int numbers;
  } row[] = {TT_FRONT_KINDS(X)};
#undef X
  int alone = kind == TT_FRONT_ple;
  fprintf(f, ", %s%s%s", alone ? "front: [" : "image: [2, 5, 3], front: [conv 4 3, ",
          row[kind].words, kind == TT_FRONT_pool ? " mean 2 stride 1, pool max" : "");
  for (int i = 0; i < row[kind].numbers; i++) fputs(" 2", f);
  fputs(alone ? "]" : ", conv 4 3, conv 4 3]", f);
}

static tt_optimizer optimizer_of(const trial *t)
{
  int k = TT_OPT_adam + t->number;
  while (t->fused && tt_optimizer_slots((tt_optimizer)(k % TT_OPT_COUNT)) > TT_MAX_FUSED_SLOTS) k++;
  return (tt_optimizer)(k % TT_OPT_COUNT);
}

static tt_loss loss_of(const trial *t)
{
  int k = TT_LOSS_mse + t->number;
  while (t->fused && tt_loss_is_multi_output((tt_loss)(k % TT_LOSS_COUNT))) k++;
  return (tt_loss)(k % TT_LOSS_COUNT);
}

static int is_front(const trial *t) { return t->number >= DENSE_JOBS; }

/* Layers and options of the layered path only. */
static int is_rich(const trial *t) { return !t->fused && t->number % 2; }

/* A network without a hidden layer, and no activation, has a number of its own. */
static const char *hidden_of(const trial *t)
{
  static const char *const hidden[] = {"[9]", "[3, 17]", "[33, 6]", "[70, 5]", "[17, 17]"};
  if (t->number == DENSE_JOBS - 1) return "[]";
  if (t->number % 5 == 3 && t->use.path == TT_GPU_PATH_warp) return "[60, 5]"; /* its widest */
  return hidden[t->number % 5];
}

/* Widths and batches that are no multiple of a vector or a tile, and a batch of all rows. */
static void write_job(FILE *f, const trial *t)
{
  static const int batch[] = {15, 36, 20, ROWS};
  int k = t->number, rich = is_rich(t), front = is_front(t);
  fprintf(f, "{model: {hidden: %s, activation: %s, init: %s", hidden_of(t),
          tt_choice_activation[(TT_ACT_relu + k) % TT_ACT_COUNT],
          tt_choice_init[k % TT_INIT_COUNT]);
  if (rich) fprintf(f, ", residual: true, layer_norm: %s", k % 3 ? "true" : "false");
  if (tt_loss_output_head(loss_of(t)) == TT_OUTPUT_softmax) fprintf(f, ", classes: %d", CLASSES);
  if (front) write_front(f, k - DENSE_JOBS);
  fprintf(f, "}, train: {loss: %s, optimizer: %s, batch_size: %d, resample: %s, epochs: %d",
          tt_choice_loss[loss_of(t)], tt_choice_optimizer[optimizer_of(t)],
          front ? 15 : batch[k % 4], tt_choice_resample[k % TT_RESAMPLE_kfold], front ? 1 : 3);
  if (rich)
    fprintf(f, ", parts: %d, average: %s", 1 + k % 3, tt_choice_average[k % TT_AVERAGE_COUNT]);
  fprintf(f, "}, ensembles: [{name: a, target: y0, members: %d}%s]}",
          k % 3 || front ? 2 : MOST_MEMBERS - 1,
          k % 2 ? "" : ", {name: b, target: y1, members: 1}");
}

/* Each member gets other learning rates, penalties and so on. */
static void set_numbers(const trial *t, tt_cohort *c)
{
  int is_real = tt_output_labels(tt_loss_output_head(c->loss)) == TT_LABEL_TYPE_real;
  c->schedule = (tt_schedule)(t->number % TT_SCHEDULE_COUNT);
  c->schedule_options = (tt_schedule_options){1, {1}, 2.0f, 0.4f};
  for (int64_t i = 0; i < c->members; i++) {
    tt_hyper *h = &c->member[i].hyper;
    h->learning_rate = 2e-3f * (float)(1 + i % 3);
    h->epsilon = 1e-4f; /* so that Adam does not divide by tiny roots, which amplify rounding */
    h->momentum = 0.2f * (float)(i % 3);
    h->l2 = i % 4 == 1 ? 1e-3f : 0.0f;
    h->weight_decay = 1e-2f * (float)(i % 2);
    h->clip_norm = i % 3 == 2 ? 0.5f : 0.0f;
    h->patience = i % 3 == 0 ? 1 : 0;
    h->schedule_gamma = 0.5f;
    h->schedule_step = 1;
    h->warmup = 0.4f * (float)(i % 2);
    h->average_decay = 0.7f;
    if (!is_rich(t)) continue;
    h->dropout = i % 3 ? 0.2f : 0.0f;
    h->label_noise = i % 2 && is_real && t->number % 3 == 0 ? 0.1f : 0.0f;
  }
}

static float label_of(tt_output output, float y)
{
  if (output == TT_OUTPUT_softmax) return y < -0.25f ? 0.0f : y < 0.25f ? 1.0f : 2.0f;
  if (output == TT_OUTPUT_sigmoid) return y < 0.0f ? 0.0f : 1.0f;
  return tt_output_labels(output) == TT_LABEL_TYPE_count ? floorf(2.0f + 2.0f * y) : y;
}

static float draw(int64_t place, int64_t column)
{
  return 2.0f *
             tt_uniform(tt_random(1, 2, TT_PURPOSE_INIT, (uint32_t)column, (uint32_t)place).v[0]) -
         1.0f;
}

static tt_err create_data(trial *t)
{
  tt_output output = tt_loss_output_head(loss_of(t));
  int64_t inputs = is_front(t) ? TT_SELF_CHECK_VALUES : VALUES;
  TT_TRY(tt_dataset_create(ROWS, inputs, TARGETS, 0, &t->data));
  for (int64_t r = 0; r < ROWS; r++) {
    float *x = t->data->x + r * inputs, *y = t->data->y + r * TARGETS;
    for (int64_t i = 0; i < inputs; i++) x[i] = draw(r, i);
    for (int64_t k = 0; k < TARGETS; k++)
      y[k] = label_of(output, sinf(2.0f * x[k] + x[2]) * x[3 + k]);
    t->data->split[r] = r % 5 == 3 ? TT_VALIDATION : TT_TRAIN;
  }
  return TT_OK;
}

static tt_err create_job(trial *t)
{
  char text[TEXT] = "", name[TARGETS][4];
  FILE *f = fmemopen(text, sizeof text - 1, "w");
  if (!f) return TT_FAIL(MEM, "no memory for the text of a job");
  write_job(f, t);
  fclose(f);
  TT_TRY(tt_config_parse_without_data("self-check", text, (int64_t)strlen(text), NULL, 0, &t->cfg));
  TT_TRY(create_data(t));
  for (int k = 0; k < TARGETS; k++) snprintf(name[k], sizeof name[k], "y%d", k);
  char *names[TARGETS] = {name[0], name[1]};
  const tt_columns target = {.count = TARGETS, .name = names, .given = 1};
  TT_TRY(tt_cohorts_create(t->cfg, t->data->inputs, &target, t->data, &t->cohorts));
  t->cohort = t->cohorts.at[0];
  set_numbers(t, t->cohorts.at[0]);
  return TT_OK;
}

/* The comparison */

static tt_slice everyone(const trial *t) { return (tt_slice){0, t->cohort->members}; }

static tt_err start(const trial *t, const tt_engine_ops *ops, const tt_resources *use,
                    tt_slice slice, tt_engine **out)
{
  TT_TRY(ops->create(t->cohort, slice, use, out));
  TT_TRY(ops->set_data(*out, t->data, NULL));
  return ops->init(*out);
}

/* Compare the counters of a member, and the losses of its epochs. */
static void compare_epochs(trial *t, int64_t i)
{
  const tt_state *a = t->after, *b = t->wanted;
  int64_t epochs = a->epochs, first = i * epochs;
  if (a->f_step[i] != b->f_step[i] || a->f_epoch[i] != b->f_epoch[i] ||
      a->f_status[i] != b->f_status[i])
    tt_self_check_blame(t, i, "it ends a step or an epoch otherwise than the CPU");
  else if (t->use.precision == TT_PRECISION_fp32 &&
           (tt_self_check_are_apart(epochs, a->f_loss_train + first, b->f_loss_train + first) ||
            tt_self_check_are_apart(epochs, a->f_loss_validation + first,
                                    b->f_loss_validation + first)))
    tt_self_check_blame(t, i, "its losses are not those of the CPU");
}

/* Each step on the GPU is taken by the CPU too, from the same state. */
static tt_err take_steps(trial *t)
{
  const tt_slice all = everyone(t);
  int misses[MOST_MEMBERS] = {0};
  tt_progress here = {.training = 1}, there;
  while (here.training > 0 && !*t->why) {
    TT_TRY(t->gpu->save(t->mine, all, t->before));
    TT_TRY(t->gpu->train(t->mine, 1, &here));
    TT_TRY(t->gpu->save(t->mine, all, t->after));
    TT_TRY(t->cpu->load(t->theirs, all, t->before));
    TT_TRY(t->cpu->train(t->theirs, 1, &there));
    TT_TRY(t->cpu->save(t->theirs, all, t->wanted));
    for (int64_t i = 0; i < all.count; i++) {
      double apart = tt_verify_apart(t->after, t->wanted, t->before, i);
      misses[i] = apart <= tt_verify_tolerance[t->use.precision] ? 0 : misses[i] + 1;
      if (misses[i] >= TT_VERIFY_MISSES)
        tt_self_check_blame(t, i, "its steps are not those of the CPU");
      compare_epochs(t, i);
    }
  }
  return TT_OK;
}

/* Train the members `slice` once more, in one call: the bits must be those of single steps. */
static tt_err repeat(trial *t, tt_slice slice)
{
  tt_engine *e = NULL;
  tt_progress progress;
  tt_err err = start(t, t->gpu, &t->use, slice, &e);
  if (!err) err = t->gpu->train(e, ALL_STEPS, &progress);
  if (!err) err = t->gpu->save(e, slice, t->again);
  for (int64_t i = slice.first; !err && i < slice.first + slice.count; i++)
    if (tt_state_hash(t->again, i) != tt_state_hash(t->after, i))
      tt_self_check_blame(t, i,
                          slice.count > 1 ? "it has other bits when it is trained again"
                                          : "it has other bits when it is trained alone");
  t->gpu->destroy(&e);
  return err;
}

static tt_err compare_predictions(trial *t, tt_trained_ensemble *trained)
{
  int64_t params = t->after->params, each = 2 * tt_trained_ensemble_width(trained) * ROWS;
  float *mine = NULL, *theirs = NULL, *x = t->data->x;
  for (int64_t i = 0; i < trained->members; i++) {
    memcpy(trained->w + i * params, tt_state_prediction_weights(t->after, i),
           (size_t)params * sizeof *trained->w);
    trained->weight[i] = 1.0;
  }
  tt_err e = TT_ALLOC(mine, trained->members * each);
  if (!e) e = TT_ALLOC(theirs, trained->members * each);
  if (!e) e = t->gpu->predict(trained, &t->use, ROWS, x, NULL, mine);
  if (!e) e = t->cpu->predict(trained, &t->on_cpu, ROWS, x, NULL, theirs);
  for (int64_t i = 0; !e && i < trained->members; i++)
    if (tt_self_check_are_apart(each, mine + i * each, theirs + i * each))
      tt_self_check_blame(t, i, "its predictions are not those of the CPU");
  tt_free_all(&mine, &theirs);
  return e;
}

/* The loss of the validation rows, then predictions. */
static tt_err use_members(trial *t)
{
  const tt_cohort_part part = {
      .cohort = t->cohort, .ensembles = t->cohort->ensembles, .members = everyone(t)};
  double mine[MOST_MEMBERS], theirs[MOST_MEMBERS];
  tt_trained_ensemble *trained = NULL;
  TT_TRY(t->cpu->load(t->theirs, everyone(t), t->after));
  TT_TRY(t->gpu->evaluate(t->mine, TT_VALIDATION, mine));
  TT_TRY(t->cpu->evaluate(t->theirs, TT_VALIDATION, theirs));
  for (int64_t i = 0; i < t->cohort->members; i++)
    if (!(fabs(mine[i] - theirs[i]) <= tt_self_check_tolerance * (1.0 + fabs(theirs[i]))))
      tt_self_check_blame(t, i, "its validation loss is not that of the CPU");
  tt_err e = tt_trained_ensemble_from_parts(1, &part, t->data, &trained);
  if (!e) e = TT_ALLOC(trained->w, trained->members * t->after->params);
  if (!e) e = compare_predictions(t, trained);
  tt_trained_ensemble_destroy(&trained);
  return e;
}

static tt_err compare(trial *t)
{
  const tt_slice all = everyone(t);
  const tt_state_shape shape = tt_cohort_state_shape(t->cohort);
  TT_TRY(tt_state_create(all, shape, &t->before));
  TT_TRY(tt_state_create(all, shape, &t->after));
  TT_TRY(tt_state_create(all, shape, &t->again));
  TT_TRY(tt_state_create(all, shape, &t->wanted));
  TT_TRY(start(t, t->cpu, &t->on_cpu, all, &t->theirs));
  TT_TRY(t->gpu->set_data(t->mine, t->data, NULL));
  TT_TRY(t->gpu->init(t->mine));
  TT_TRY(take_steps(t));
  TT_TRY(use_members(t));
  TT_TRY(repeat(t, all));
  TT_TRY(repeat(t, (tt_slice){all.count - 1, 1}));
  if (t->use.path != TT_GPU_PATH_layered || (is_front(t) && t->number % FRONTS_IN_ALL_WAYS != 1))
    return TT_OK;
  TT_TRY(tt_self_check_team(t));
  return tt_self_check_given_rows(t);
}

static void close_job(trial *t)
{
  t->gpu->destroy(&t->mine);
  t->cpu->destroy(&t->theirs);
  tt_state_destroy(&t->before);
  tt_state_destroy(&t->after);
  tt_state_destroy(&t->again);
  tt_state_destroy(&t->wanted);
  tt_cohorts_destroy(&t->cohorts);
  tt_dataset_destroy(&t->data);
  tt_config_destroy(&t->cfg);
}

/* The answers */

/* What TT_GPU_PATHS says about each path. */
static const struct {
  int fused, precision, capability;
} path_row[] = {{0, -1, 0},
#define X(name, automatic, fused, precision, capability)                                           \
  {fused, TT_PRECISION_##precision, capability},
                TT_GPU_PATHS(X)
#undef X
};

/* *done: jobs that the path can train. */
static tt_err check_job(trial *t, int *done)
{
  tt_err e = create_job(t);
  if (!e) e = t->gpu->create(t->cohort, everyone(t), &t->use, &t->mine);
  int suits = e != TT_E_UNAVAILABLE;
  t->begun |= !e;
  *done += suits;
  if (!e) e = compare(t);
  close_job(t);
  return suits ? e : TT_OK;
}

/* The rows of the tables do not depend on the precision of the products: there, some jobs do. */
static tt_err check_way(trial *t, const char **answer)
{
  const int precision = (int)t->use.precision, path = (int)t->use.path;
  int devices = 0, done = 0;
  tt_device_info gpu;
  tt_err e = TT_OK;
  *answer = "unknown";
  TT_TRY(tt_resources_engine_local(TT_DEVICE_gpu, &t->gpu));
  TT_TRY(tt_resources_engine_local(TT_DEVICE_cpu, &t->cpu));
  TT_TRY(t->gpu->count(&devices)); /* opens the plugin */
  TT_TRY(t->gpu->describe(t->use.device, &gpu));
  *answer = "none";
  if (path_row[path].capability > gpu.capability || path_row[path].precision < precision)
    return TT_OK;
  t->fused = path_row[path].fused;
  while (!e && !*t->why && t->number < (t->fused ? DENSE_JOBS : JOBS)) {
    e = check_job(t, &done);
    t->number += precision == TT_PRECISION_fp32 ? 1 : TENSOR_JOBS;
  }
  int is_unknown = e == TT_E_MEM || e == TT_E_CONFIG || (e ? !t->begun : !done);
  *answer = is_unknown ? "unknown" : e || *t->why ? "failed" : "passed";
  if (!e && !is_unknown && !*t->why) snprintf(t->why, sizeof t->why, "%d jobs", done);
  return e;
}

int tt_self_check_child_local(int argc, char **argv)
{
  const struct rlimit none = {0, 0};
  int way = argc > 3 ? atoi(argv[3]) : -1;
  const char *answer;
  if (way < 0 || way >= TT_GPU_PATH_WAYS) return tt_err_exit_code(TT_E_USAGE);
  (void)setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  trial t = {.on_cpu = {.threads = 1},
             .use = {.threads = 1,
                     .device = atoi(argv[2]),
                     .path = (tt_gpu_path)(way / TT_PRECISION_COUNT),
                     .precision = (tt_precision)(way % TT_PRECISION_COUNT)}};
  const char *said = check_way(&t, &answer) ? tt_err_last() : t.why;
  printf("%s %.*s\n", answer, (int)strcspn(said, "\n"), said);
  fflush(stdout);
  return 0;
}
