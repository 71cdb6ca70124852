/* test_front_oracle.c — law: twenty steps of networks for images and profiles are those of PyTorch in
 * double precision: losses, and weights up to 1e-5 of the largest one. Every kind of row and two
 * residual networks; recorded by tests/oracle/record_front.py in tests/data/fronts.h5. */
#include "tests/support/problem.h"

#include <hdf5.h>

enum { ROWS = 24, STEPS = 20 };

static void read_all(hid_t place, const char *name, hid_t type, void *dst)
{
  hid_t d = H5Dopen2(place, name, H5P_DEFAULT);
  TT_CHECK(d, >=, 0);
  TT_CHECK(H5Dread(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, dst), >=, 0);
  H5Dclose(d);
}

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
static problem read_problem(hid_t run)
{
  tt_front f = read_front(run);
  const int64_t none = 1, inputs = (int64_t)f.channels * f.size[0] * f.size[1];
  problem p = problem_make(ROWS, inputs, 1, 1, 1, &none, 0, TT_ACT_tanh, TT_OUTPUT_mean);
  tt_model_shape shape = usual_shape(inputs, 1, &none, 0, TT_ACT_tanh, TT_OUTPUT_mean);
  shape.front = &f;
  TT_CHECK_OK(tt_model_lay_out(&shape, &p.c.model));
  p.c.batch_size = ROWS;
  p.c.max_epochs = p.c.member[0].hyper.epochs = STEPS;
  p.c.member[0].hyper.learning_rate = 0.0078125f;
  for (int r = 0; r < ROWS; r++) p.d->split[r] = TT_TRAIN;
  read_all(run, "x", H5T_NATIVE_FLOAT, p.d->x);
  read_all(run, "y", H5T_NATIVE_FLOAT, p.d->y);
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

static void follow(problem *p, way variant, hid_t run, const char *name)
{
  double *want = NULL, losses[STEPS];
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
  double loss = apart(TT_FIELD(s, loss_train), losses, STEPS);
  fprintf(stderr, "  %-8s %-13s weights %.1e, losses %.1e\n", variant.name, name, weights, loss);
  TT_CHECK(weights, <=, 1e-5);
  TT_CHECK(loss, <=, 1e-5);
  tt_state_destroy(&s);
  tt_free(want);
}

TT_TEST (twenty_steps_of_fronts_are_those_of_pytorch) {
  char path[512], name[64];
  const char *elsewhere = getenv("TUTTI_TEST_DATA"); /* for a program copied to another machine */
  snprintf(path, sizeof path, "%s/fronts.h5", elsewhere ? elsewhere : TUTTI_TEST_DATA);
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  H5G_info_t all;
  TT_CHECK(file, >=, 0);
  TT_CHECK(H5Gget_info(file, &all), >=, 0);
  TT_CHECK((int)all.nlinks, >=, 11);
  for (hsize_t i = 0; i < all.nlinks; i++) {
    H5Lget_name_by_idx(file, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT);
    hid_t run = H5Gopen2(file, name, H5P_DEFAULT);
    for (const way *w = every_way(); w->name; w++) {
      problem p = read_problem(run);
      int suited = !DOUBLE || (takes(*w, 0) && !strstr(name, "net")); /* slow */
      if (suited && can(*w, &p.c)) follow(&p, *w, run, name);
      problem_free(&p);
    }
    H5Gclose(run);
  }
  H5Fclose(file);
}
