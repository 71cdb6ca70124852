/* test_oracle.c — laws: fifty steps equal those of PyTorch in double precision, up to 1e-5 of the
 * largest weight. Every optimizer, schedule, loss and average, layer_norm and residual layers;
 * recorded by tests/oracle/record.py in tests/data/oracle.h5. So do the losses and weights of twenty
 * steps of networks for images and profiles: every kind of row and two residual networks; recorded by
 * tests/oracle/record_front.py in tests/data/fronts.h5. */
#include "tests/support/problem.h"

#include <hdf5.h>

enum { ROWS = 36, TRAIN = 24, INPUTS = 3, TARGETS = 2, KEPT = 2 };
enum { FRONT_ROWS = 24, FRONT_STEPS = 20 };

static void read_all(hid_t place, const char *name, hid_t type, void *dst)
{
  hid_t d = H5Dopen2(place, name, H5P_DEFAULT);
  TT_CHECK(d, >=, 0);
  TT_CHECK(H5Dread(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, dst), >=, 0);
  H5Dclose(d);
}

/* "key=value key=value " of a run. */
static void read_settings(hid_t run, char *text, size_t capacity)
{
  hid_t a = H5Aopen(run, "settings", H5P_DEFAULT), type = H5Aget_type(a);
  TT_CHECK(H5Tget_size(type), <, capacity);
  memset(text, 0, capacity);
  TT_CHECK(H5Aread(a, type, text), >=, 0);
  H5Tclose(type);
  H5Aclose(a);
}

static const char *find(const char *settings, const char *key)
{
  char pattern[64];
  snprintf(pattern, sizeof pattern, "%s=", key);
  const char *cursor = strstr(settings, pattern);
  while (cursor && cursor != settings && cursor[-1] != ' ') cursor = strstr(cursor + 1, pattern);
  return cursor ? cursor + strlen(pattern) : NULL;
}

static float number(const char *settings, const char *key, float without)
{
  const char *cursor = find(settings, key);
  return cursor ? strtof(cursor, NULL) : without;
}

static int choice(const char *settings, const char *key, const char *const *names)
{
  const char *cursor = find(settings, key);
  for (int i = 0; cursor && names[i]; i++) {
    size_t length = strlen(names[i]);
    if (!strncmp(cursor, names[i], length) && cursor[length] == ' ') return i;
  }
  TT_CHECK(cursor == NULL, ==, 1);
  return 0;
}

static void set_hyper(const char *s, tt_hyper *h)
{
  *h = usual_hyper();
  h->beta2 = 0.99f;
#define TAKE(name) h->name = number(s, #name, h->name)
  TAKE(learning_rate);
  TAKE(l2);
  TAKE(weight_decay);
  TAKE(momentum);
  TAKE(clip_norm);
  TAKE(warmup);
  TAKE(schedule_gamma);
  TAKE(schedule_min);
  TAKE(min_delta);
  TAKE(average_decay);
#undef TAKE
  h->schedule_step = (int32_t)number(s, "schedule_step", 0.0f);
  h->epochs = 50;
}

static void set_cohort(const char *s, tt_cohort *c)
{
  int layers = number(s, "layers", 0.0f) > 0.0f;
  const int64_t hidden[] = {8, layers ? 8 : 6};
  tt_model_shape shape = usual_shape(INPUTS, TARGETS, hidden, 2, TT_ACT_tanh,
                                     (tt_output)choice(s, "output", tt_choice_output));
  shape.layer_norm = shape.residual = layers;
  TT_CHECK_OK(tt_model_lay_out(&shape, &c->model));
  c->loss = (tt_loss)choice(s, "loss", tt_choice_loss);
  c->optimizer = (tt_optimizer)choice(s, "optimizer", tt_choice_optimizer);
  c->schedule = (tt_schedule)choice(s, "schedule", tt_choice_schedule);
  c->average = (tt_weight_average)choice(s, "average", tt_choice_average);
  c->nesterov = number(s, "nesterov", 0.0f) > 0.0f;
  c->variance_floor = 1e-3f;
  c->nll_beta = number(s, "nll_beta", 0.0f);
  c->schedule_options =
      (tt_schedule_options){.growth = number(s, "growth", 1.0f), .peak = number(s, "peak", 0.3f)};
  char *cursor = (char *)(uintptr_t)find(s, "milestones");
  for (; cursor && *cursor && *cursor != ' '; cursor += *cursor == ',')
    c->schedule_options.milestone[c->schedule_options.milestones++] =
        (int32_t)strtol(cursor, &cursor, 10);
  c->batch_size = TRAIN;
  c->parts = 1;
  c->max_epochs = 50;
}

static problem read_problem(hid_t file, const char *settings)
{
  char labels[64];
  const int64_t none = 1;
  problem p = problem_make(ROWS, INPUTS, TARGETS, 1, 1, &none, 1, TT_ACT_tanh, TT_OUTPUT_mean);
  set_cohort(settings, &p.c);
  set_hyper(settings, &p.c.member[0].hyper);
  tt_free(p.c.ensemble[0].column);
  TT_CHECK_OK(TT_ALLOC(p.c.ensemble[0].column, TARGETS));
  for (int32_t k = 0; k < TARGETS; k++) p.c.ensemble[0].column[k] = k;
  p.c.ensemble[0].targets = TARGETS;
  snprintf(labels, sizeof labels, "y_%s", tt_choice_output[p.c.model.output]);
  read_all(file, "x", H5T_NATIVE_FLOAT, p.d->x);
  read_all(file, labels, H5T_NATIVE_FLOAT, p.d->y);
  for (int r = 0; r < ROWS; r++) p.d->split[r] = r < TRAIN ? TT_TRAIN : TT_VALIDATION;
  return p;
}

static double apart(const float *got, const double *want, int64_t n)
{
  double worst = 0.0, size = 0.0;
  for (int64_t i = 0; i < n; i++) {
    double gap = fabs((double)got[i] - want[i]);
    worst = fmax(worst, isnan(gap) ? INFINITY : gap);
    size = fmax(size, fabs(want[i]));
  }
  return worst / size;
}

/* Largest difference in the weights, or in their average, at the recorded steps. */
static double follow(problem *p, way variant, hid_t run, const int32_t *kept)
{
  double *want = NULL, worst = 0.0;
  tt_progress progress;
  int64_t params = p->c.model.params;
  TT_CHECK_OK(TT_ALLOC(want, KEPT * params));
  read_all(run, "weights", H5T_NATIVE_DOUBLE, want);
  problem_start(p, variant, everyone(p));
  tt_state *s = problem_state(p, everyone(p));
  read_all(run, "init", H5T_NATIVE_FLOAT, TT_FIELD(s, weights));
  TT_CHECK_OK(variant.ops->load(p->engine, everyone(p), s));
  for (int k = 0; k < KEPT; k++) {
    TT_CHECK_OK(variant.ops->train(p->engine, kept[k] - (k ? kept[k - 1] : 0), &progress));
    TT_CHECK_OK(variant.ops->save(p->engine, everyone(p), s));
    worst = fmax(worst, apart(s->averages ? TT_FIELD(s, average) : TT_FIELD(s, weights),
                              want + k * params, params));
  }
  tt_state_destroy(&s);
  tt_free(want);
  return worst;
}

static void one_run(hid_t file, const char *name, int turn)
{
  char settings[512];
  int32_t kept[KEPT];
  hid_t run = H5Gopen2(file, name, H5P_DEFAULT);
  read_settings(run, settings, sizeof settings);
  read_all(file, "kept", H5T_NATIVE_INT32, kept);
  for (const way *w = every_way(); w->name; w++) {
    problem p = read_problem(file, settings);
    if (has_turn(*w, turn) && can(*w, &p.c)) {
      double worst = follow(&p, *w, run, kept);
      fprintf(stderr, "  %-21s %-26s %.1e\n", w->name, name, worst);
      TT_CHECK(worst, <=, 1e-5);
    }
    problem_free(&p);
  }
  H5Gclose(run);
}

/* The number of recorded runs in a file of tests/data. */
static int all_runs(const char *data, void (*one)(hid_t file, const char *name, int turn))
{
  char path[512], name[64];
  const char *elsewhere = getenv("TUTTI_TEST_DATA"); /* for a program copied to another machine */
  snprintf(path, sizeof path, "%s/%s", elsewhere ? elsewhere : TUTTI_TEST_DATA, data);
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  H5G_info_t all;
  int runs = 0;
  TT_CHECK(file, >=, 0);
  TT_CHECK(H5Gget_info(file, &all), >=, 0);
  for (hsize_t i = 0; i < all.nlinks; i++) {
    H5Lget_name_by_idx(file, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT);
    if (strchr(name, '_') == name + 1 || !strcmp(name, "x") || !strcmp(name, "kept")) continue;
    one(file, name, runs++);
  }
  H5Fclose(file);
  return runs;
}

TT_TEST (fifty_steps_are_those_of_pytorch) {
  TT_CHECK(all_runs("oracle.h5", one_run), >=,
           (int)TT_OPT_COUNT + (int)TT_SCHEDULE_COUNT + (int)TT_LOSS_COUNT);
}

/* fronts */

static void read_attribute(hid_t place, const char *name, hid_t type, void *dst)
{
  hid_t a = H5Aopen(place, name, H5P_DEFAULT);
  TT_CHECK(H5Aread(a, type, dst), >=, 0);
  H5Aclose(a);
}

static tt_front read_front(hid_t run)
{
  char rows[512] = "";
  int64_t shape[3];
  int axes, possible;
  tt_front f;
  tt_front_fault fault;
  hid_t a = H5Aopen(run, "front", H5P_DEFAULT), text = H5Aget_type(a);
  TT_CHECK(H5Tget_size(text), <, sizeof rows);
  TT_CHECK(H5Aread(a, text, rows), >=, 0);
  H5Tclose(text);
  H5Aclose(a);
  read_attribute(run, "axes", H5T_NATIVE_INT, &axes);
  read_attribute(run, "shape", H5T_NATIVE_INT64, shape);
  const int64_t size[] = {shape[0], axes == 1 ? shape[2] : shape[1], shape[2]};
  TT_CHECK_OK(
      tt_front_read(rows, &(tt_front_shape){.dims = axes, .size = size, .activation = TT_ACT_tanh},
                    &f, &possible, &fault));
  TT_CHECK(possible, ==, 1);
  return f;
}

/* One member, full batches, one step an epoch. */
static problem read_front_problem(hid_t run)
{
  tt_front f = read_front(run);
  const int64_t none = 1, inputs = (int64_t)f.channels * f.size[0] * f.size[1];
  problem p = problem_make(FRONT_ROWS, inputs, 1, 1, 1, &none, 0, TT_ACT_tanh, TT_OUTPUT_mean);
  tt_model_shape shape = usual_shape(inputs, 1, &none, 0, TT_ACT_tanh, TT_OUTPUT_mean);
  shape.front = &f;
  TT_CHECK_OK(tt_model_lay_out(&shape, &p.c.model));
  p.c.batch_size = FRONT_ROWS;
  p.c.max_epochs = p.c.member[0].hyper.epochs = FRONT_STEPS;
  p.c.member[0].hyper.learning_rate = 0.0078125f;
  for (int r = 0; r < FRONT_ROWS; r++) p.d->split[r] = TT_TRAIN;
  read_all(run, "x", H5T_NATIVE_FLOAT, p.d->x);
  read_all(run, "y", H5T_NATIVE_FLOAT, p.d->y);
  return p;
}

static void follow_front(problem *p, way variant, hid_t run, const char *name)
{
  double *want = NULL, losses[FRONT_STEPS];
  TT_CHECK_OK(TT_ALLOC(want, p->c.model.params));
  problem_start(p, variant, everyone(p));
  tt_state *s = problem_state(p, everyone(p));
  read_all(run, "init", H5T_NATIVE_FLOAT, TT_FIELD(s, weights));
  TT_CHECK_OK(variant.ops->load(p->engine, everyone(p), s));
  problem_finish(p, 7);
  TT_CHECK_OK(variant.ops->save(p->engine, everyone(p), s));
  read_all(run, "weights", H5T_NATIVE_DOUBLE, want);
  read_all(run, "loss", H5T_NATIVE_DOUBLE, losses);
  double weights = apart(TT_FIELD(s, weights), want, p->c.model.params);
  double loss = apart(TT_FIELD(s, loss_train), losses, FRONT_STEPS);
  fprintf(stderr, "  %-8s %-13s weights %.1e, losses %.1e\n", variant.name, name, weights, loss);
  TT_CHECK(weights, <=, 1e-5);
  TT_CHECK(loss, <=, 1e-5);
  tt_state_destroy(&s);
  tt_free(want);
}

static void one_front(hid_t file, const char *name, int turn)
{
  hid_t run = H5Gopen2(file, name, H5P_DEFAULT);
  (void)turn;
  for (const way *w = every_way(); w->name; w++) {
    problem p = read_front_problem(run);
    int suited = !DOUBLE || (takes(*w, 0) && !strstr(name, "net")); /* slow */
    if (suited && can(*w, &p.c)) follow_front(&p, *w, run, name);
    problem_free(&p);
  }
  H5Gclose(run);
}

TT_TEST (twenty_steps_of_fronts_are_those_of_pytorch) {
  TT_CHECK(all_runs("fronts.h5", one_front), >=, 11);
}
