/* test_guest.c — libtutti leaves its process as it was: signals, forks, floating-point environment,
 * error printing of HDF5, standard output; and the interface has the shape that programs were
 * compiled with. */
#include "core/base/floating.h"
#include "io/data/data.h"
#include "io/files/files.h"
#include "io/model/model_file.h"
#include "src/api/tutti.h"
#include "src/train/trainer.h"
#include "tests/support/made_up.h"

#include <fenv.h>
#include <hdf5.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { ROWS = 600, COLUMNS = 2 * MADE_UP_K, CELLS = ROWS * COLUMNS, CHILDREN = 4, SECONDS = 60 };

static double x[ROWS * MADE_UP_INPUTS];

/* mpirun binds the process to a core; the library uses at most the cores of its process. */
static int use_all_cores(void **unused)
{
  cpu_set_t all;
  (void)unused;
  CPU_ZERO(&all);
  for (int i = 0; i < CPU_SETSIZE; i++) CPU_SET(i, &all);
  tt_log_set_level(TT_LOG_ERROR);
  return sched_setaffinity(0, sizeof all, &all);
}
TT_SUITE(use_all_cores, NULL)

/* Two ensembles of tanh, in a file of this name. */
static tutti_model *open_model(const char *name)
{
  const int64_t hidden[] = {17, 5};
  tutti_model *model = NULL;
  tt_provenance provenance = made_up_provenance(comm);
  tt_trained_ensemble *m = made_up_committee(7, hidden, 2, TT_OUTPUT_mean_variance);
  const tt_trained_ensembles only = {.count = 1, .at = &m};
  tt_model_shard all = {{0, 7}, m->w};
  TT_CHECK_OK(tt_model_write(comm, at(name), &only, &all, &provenance));
  tt_trained_ensemble_destroy(&m);
  for (int i = 0; i < ROWS * MADE_UP_INPUTS; i++) x[i] = 3.0 * (double)made_up_number(900 + i);
  TT_CHECK(tutti_open(at(name), &model), ==, 0);
  return model;
}

static double mean[2][CELLS], slope[2][CELLS * MADE_UP_INPUTS];

static int compute(const tutti_model *model, int number)
{
  const tutti_prediction values = {.size = sizeof values, .mean = mean[number]};
  const tutti_prediction slopes = {.size = sizeof slopes, .mean_gradient = slope[number]};
  return tutti_predict(model, ROWS, x, 2, &values) || tutti_predict(model, ROWS, x, 2, &slopes);
}

static int has_same_bits(void)
{
  return !memcmp(mean[0], mean[1], sizeof mean[0]) && !memcmp(slope[0], slope[1], sizeof slope[0]);
}

/* Wait for a child that ends by itself or by its alarm. */
static int exit_status(pid_t child)
{
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TT_TEST (child_of_a_threaded_parent_predicts) {
  tutti_model *model = open_model("fork.h5");
  TT_CHECK(compute(model, 0), ==, 0);
  pid_t child = fork();
  if (child == 0) {
    alarm(SECONDS);
    _exit(compute(model, 1) || !has_same_bits());
  }
  TT_CHECK(exit_status(child), ==, 0);
  tutti_close(&model);
}

static atomic_int opening; /* times that the thread has opened the model; -1 ends it */

static void *open_again(void *file)
{
  while (atomic_load(&opening) >= 0) {
    tutti_model *own = NULL;
    if (tutti_open(file, &own)) return file;
    tutti_close(&own);
    if (atomic_load(&opening) >= 0) atomic_fetch_add(&opening, 1);
  }
  return NULL;
}

/* The allocator of the address sanitizer of gcc 12 has a lock that a fork copies: if another thread
 * allocates at that moment, the child waits for ever. */
#ifdef __SANITIZE_ADDRESS__
enum { CAN_FORK_WHILE_OTHERS_ALLOCATE = 0 };
#else
enum { CAN_FORK_WHILE_OTHERS_ALLOCATE = 1 };
#endif

TT_TEST (child_opens_a_model_while_the_parent_does) {
  pthread_t thread;
  void *failed = NULL;
  if (!CAN_FORK_WHILE_OTHERS_ALLOCATE) skip();
  tutti_model *model = open_model("open.h5");
  char file[2 * SCRATCH_ROOM];
  snprintf(file, sizeof file, "%s", at("open.h5"));
  TT_CHECK(pthread_create(&thread, NULL, open_again, file), ==, 0);
  while (atomic_load(&opening) < 1) sched_yield();
  for (int i = 0; i < CHILDREN; i++) {
    pid_t child = fork();
    if (child == 0) {
      tutti_model *own = NULL;
      alarm(SECONDS);
      _exit(tutti_open(file, &own) || compute(own, 1));
    }
    TT_CHECK(exit_status(child), ==, 0);
  }
  atomic_store(&opening, -2);
  pthread_join(thread, &failed);
  TT_CHECK(failed == NULL, ==, 1);
  tutti_close(&model);
}

enum { TRAPS = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW };

static void set_traps(int traps, int rounding)
{
  fesetenv(FE_DFL_ENV);
  fesetround(rounding);
  feenableexcept(traps);
}

/* Arithmetic shows the rounding and sets flags; fegetround shows a part of the environment that
 * arithmetic does not use. */
static int rounds_upward(void)
{
  volatile double one = 1.0, little = 1e-30;
  return one + little > one;
}

/* Rows so far away that numbers overflow on the way. */
TT_TEST (rounding_traps_and_flags_are_those_of_the_program) {
  tutti_model *model = open_model("floating.h5"), *again = NULL;
  for (int i = 0; i < ROWS * MADE_UP_INPUTS; i++) x[i] *= i % 5 ? 1.0 : 1e35;
  TT_CHECK(compute(model, 0), ==, 0);
#pragma omp parallel num_threads(2)
  set_traps(TRAPS, FE_UPWARD); /* these threads are used by libtutti too */
  int before = rounds_upward() ? fetestexcept(FE_ALL_EXCEPT) : 0;
  int code = compute(model, 1);
  int opened = tutti_open(at("floating.h5"), &again);
  int after = fetestexcept(FE_ALL_EXCEPT), upward = rounds_upward(), traps = fegetexcept();
#pragma omp parallel num_threads(2)
  fesetenv(FE_DFL_ENV);
  TT_CHECK(code || opened, ==, 0);
  TT_CHECK(before, ==, FE_INEXACT);
  TT_CHECK(after, ==, before);
  TT_CHECK(upward, ==, 1);
  TT_CHECK(traps, ==, TRAPS);
  TT_CHECK(has_same_bits(), ==, 1);
  tutti_close(&model);
  tutti_close(&again);
}

static int printed;

static herr_t count_error(hid_t stack, void *data)
{
  (void)stack;
  ++*(int *)data;
  return 0;
}

/* A program with HDF5 of its own. */
TT_TEST (error_printing_of_hdf5_stays_and_open_files_are_named) {
  H5E_auto2_t before = NULL, after = NULL;
  void *data = NULL, *data_before = NULL;
  tutti_model *model = open_model("hdf5.h5"), *again = NULL;
  H5Eget_auto2(H5E_DEFAULT, &before, &data_before);
  H5Eset_auto2(H5E_DEFAULT, count_error, &printed);
  TT_CHECK(tutti_open(at("hdf5.h5"), &again), ==, 0);
  tutti_close(&again);
  hid_t own = H5Fopen(at("hdf5.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  TT_CHECK(tutti_open(at("hdf5.h5"), &again), ==, 66);
  TT_CHECK_HAS(tutti_error(), "hdf5.h5: is open");
  H5Fclose(own);
  H5Eget_auto2(H5E_DEFAULT, &after, &data);
  H5Eset_auto2(H5E_DEFAULT, before, data_before);
  TT_CHECK(after == count_error && data == &printed, ==, 1);
  TT_CHECK(printed, ==, 0);
  tutti_close(&model);
}

static const char job_text[] = "data: {file: d.h5}\n"
                               "model: {hidden: [3]}\n"
                               "ensembles: [{name: a, members: 2}]\n"
                               "train: {epochs: 1000000, batch_size: 8}\n"
                               "run: {device: cpu, threads: 1, directory: long}\n";

static void write_job(void)
{
  enum { DATA_ROWS = 40 };
  char *names[] = {"u"}, *units[] = {""};
  tt_columns column = {1, names, units, 1, NULL, NULL, 0};
  double in[DATA_ROWS], out[DATA_ROWS];
  for (int i = 0; i < DATA_ROWS; i++) in[i] = (double)(i * 7 % 11), out[i] = 0.5 * in[i];
  TT_CHECK_OK(tt_data_write_local(at("d.h5"), DATA_ROWS, &column, &column, in, out));
  TT_CHECK_OK(tt_file_write_atomic_local(at("job.yaml"), job_text));
}

static int received, sent; /* by the handler of the program; during the next training */
static tt_err fails;       /* of the next training */

static void handle(int number) { received = number; }

/* The linker puts this in place of tt_train. */
tt_err __real_tt_train(tt_comm *c, const tt_train_options *o);
tt_err __wrap_tt_train(tt_comm *c, const tt_train_options *o);
tt_err __wrap_tt_train(tt_comm *c, const tt_train_options *o)
{
  if (sent) raise(sent);
  return fails ? fails : __real_tt_train(c, o);
}

/* tutti_train with standard output in the file "stdout". */
static int train(const char *const *set, int nset)
{
  fflush(stdout);
  int before = dup(STDOUT_FILENO), to = open(at("stdout"), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(to, STDOUT_FILENO);
  close(to);
  int code = tutti_train(at("job.yaml"), set, nset);
  fflush(stdout);
  dup2(before, STDOUT_FILENO);
  close(before);
  return code;
}

TT_TEST (handlers_of_the_program_are_put_back) {
  static const int signals[] = {SIGTERM, SIGUSR1, SIGINT};
  static const char *const briefly[] = {"train.epochs=2", "run.directory=brief"};
  struct sigaction own = {.sa_handler = handle}, now;
  struct stat is;
  write_job();
  for (int i = 0; i < 3; i++) sigaction(signals[i], &own, NULL);
  for (int i = 0; i < 3; i++) {
    received = 0, sent = signals[i], fails = TT_OK;
    TT_CHECK(train(NULL, 0), ==, 75); /* the second time it resumes */
    TT_CHECK_HAS(tutti_error(), i == 0 ? "SIGTERM" : i == 1 ? "SIGUSR1" : "SIGINT");
    TT_CHECK(received, ==, 0);
    fails = TT_E_DATA;
    TT_CHECK(train(NULL, 0), ==, 65);
    TT_CHECK(received, ==, signals[i]); /* nothing else has answered it */
    sigaction(signals[i], NULL, &now);
    TT_CHECK(now.sa_handler == handle, ==, 1);
  }
  received = sent = 0, fails = TT_OK;
  TT_CHECK(train(briefly, 2), ==, 0); /* earlier signals are forgotten */
  TT_CHECK(strlen(tutti_error()), ==, 0u);
  TT_CHECK(received, ==, 0);
  for (int i = 0; i < 3; i++) signal(signals[i], SIG_DFL);
  TT_CHECK(stat(at("stdout"), &is), ==, 0);
  TT_CHECK(is.st_size, ==, 0);
}

/* Programs that are compiled with this header depend on these numbers: later versions may only add
 * fields at the end, and raise the version. */
TT_TEST (structs_have_the_shape_of_this_version) {
  static const size_t offset[] = {
#define AT(field) offsetof(tutti_prediction, field)
      AT(size),
      AT(workspace),
      AT(mean),
      AT(total),
      AT(aleatoric),
      AT(epistemic),
      AT(mean_gradient),
      AT(total_gradient),
      AT(aleatoric_gradient),
      AT(epistemic_gradient),
      AT(quantiles),
      AT(probability),
      AT(quantile),
      AT(lower),
      AT(upper),
      AT(entropy),
      AT(mutual_information),
      AT(member_mean),
      AT(member_variance),
      AT(extrapolation),
      sizeof(tutti_prediction)};
#undef AT
  char version[64];
  for (size_t i = 0; i < sizeof offset / sizeof *offset; i++) TT_CHECK(offset[i], ==, 8 * i);
  snprintf(version, sizeof version, "%d.%d.%d", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
           TUTTI_VERSION_PATCH);
  TT_CHECK(strcmp(version, tutti_version()), ==, 0);
}
