/* test_memory.c — tutti_train_in_memory: the model of tutti_train, stops and continuations, several
 * threads, and what is refused. */
#include "io/data/data.h"
#include "io/files/files.h"
#include "src/api/tutti.h"
#include "tests/support/made_up.h"

#include <pthread.h>
#include <stdlib.h>

enum { ROWS = 40, MOST_FILES = 4 };

static const char job[] = "data: {file: d.h5}\n"
                          "model: {hidden: [3]}\n"
                          "ensembles: [{name: a, members: 2}]\n"
                          "train: {epochs: 400, batch_size: 8}\n"
                          "run: {device: cpu, threads: 1, directory: .}\n";

/* What a training has stored and said. */
typedef struct result {
  int code, files, polls, stop_at; /* the poll that stops; 0 = none */
  char *bytes[MOST_FILES], name[MOST_FILES][40], error[512];
  int64_t size[MOST_FILES];
} result;

static int poll(void *context, const char *lines)
{
  result *r = context;
  TT_CHECK(lines != NULL, ==, 1);
  return ++r->polls == r->stop_at;
}

static void store(void *context, const tutti_file *file)
{
  result *r = context;
  int i = r->files++;
  r->size[i] = file->size;
  r->bytes[i] = malloc((size_t)file->size);
  memcpy(r->bytes[i], file->bytes, (size_t)file->size);
  snprintf(r->name[i], sizeof r->name[i], "%s", file->name);
}

static void forget(result *r)
{
  for (int i = 0; i < r->files; i++) free(r->bytes[i]);
  *r = (result){.files = 0};
}

/* Number of a stored file, -1: there is none. */
static int find(const result *r, const char *name)
{
  for (int i = 0; i < r->files; i++)
    if (!strncmp(r->name[i], name, strlen(name))) return i;
  return -1;
}

static tutti_file data;

static void train(const char *text, const tutti_file *checkpoint, result *r)
{
  const tutti_file file[] = {data, checkpoint ? *checkpoint : data};
  const tutti_training t = {.size = sizeof t,
                            .job = text,
                            .files = 1 + (checkpoint != NULL),
                            .file = file,
                            .context = r,
                            .poll = poll,
                            .store = store};
  r->code = tutti_train_in_memory(&t);
  snprintf(r->error, sizeof r->error, "%s", tutti_error());
}

/* Also writes the job and its data into the directory of the test. */
static void make_data(void)
{
  char *names[] = {"u"}, *units[] = {""};
  tt_columns column = {1, names, units, 1, NULL, NULL, 0};
  double in[ROWS], out[ROWS];
  for (int i = 0; i < ROWS; i++) in[i] = (double)(i * 7 % 11), out[i] = 0.5 * in[i];
  TT_CHECK_OK(tt_data_write_local(at("d.h5"), ROWS, &column, &column, in, out));
  TT_CHECK_OK(tt_file_write_atomic_local(at("job.yaml"), job));
  static char bytes[1 << 16];
  FILE *f = fopen(at("d.h5"), "rb");
  data = (tutti_file){"d.h5", bytes, (int64_t)fread(bytes, 1, sizeof bytes, f)};
  fclose(f);
}

static double predict(tutti_model *model)
{
  double x = 4.5, mean = 0.0;
  const tutti_prediction p = {.size = sizeof p, .mean = &mean};
  TT_CHECK(tutti_predict(model, 1, &x, 1, &p), ==, 0);
  tutti_close(&model);
  return mean;
}

static double predict_stored(const result *r)
{
  tutti_model *model = NULL;
  int i = find(r, "model.h5");
  TT_CHECK(i, >=, 0);
  TT_CHECK(tutti_open_memory(r->bytes[i], r->size[i], &model), ==, 0);
  return predict(model);
}

TT_TEST (the_model_is_that_of_a_directory) {
  tutti_model *model = NULL;
  result r = {.code = -1};
  make_data();
  train(job, NULL, &r);
  TT_CHECK(r.code, ==, 0);
  TT_CHECK(r.files, ==, 3);
  TT_CHECK(r.polls, >=, 2);
  TT_CHECK(find(&r, "results.h5") >= 0 && find(&r, "status.json") >= 0, ==, 1);
  TT_CHECK(tutti_train(at("job.yaml"), NULL, 0), ==, 0);
  TT_CHECK(tutti_open(at("model.h5"), &model), ==, 0);
  TT_CHECK(predict_stored(&r), ==, predict(model));
  forget(&r);
}

TT_TEST (a_stopped_training_continues) {
  result whole = {.code = -1}, part = {.stop_at = 3}, rest = {.code = -1};
  static char text[sizeof job + 8];
  make_data();
  const char *epochs = strstr(job, "400");
  snprintf(text, sizeof text, "%.*s20000%s", (int)(epochs - job), job, epochs + 3);
  train(text, NULL, &part);
  TT_CHECK(part.code, ==, 75);
  int i = find(&part, "ckpt-");
  TT_CHECK(i, >=, 0);
  TT_CHECK(find(&part, "model.h5"), ==, -1);
  train(text, &(tutti_file){part.name[i], part.bytes[i], part.size[i]}, &rest);
  train(text, NULL, &whole);
  TT_CHECK(rest.code, ==, 0);
  TT_CHECK(predict_stored(&rest), ==, predict_stored(&whole));
  forget(&part), forget(&rest), forget(&whole);
}

static void *train_in_thread(void *out)
{
  for (int i = 0; i < 5; i++) {
    result *r = out;
    forget(r);
    train(job, NULL, r);
    if (r->code) break;
  }
  return NULL;
}

TT_TEST (several_threads_train_at_once) {
  enum { THREADS = 4 };
  pthread_t thread[THREADS];
  result r[THREADS] = {{0}}, alone = {.code = -1};
  make_data();
  train(job, NULL, &alone);
  for (int i = 0; i < THREADS; i++)
    TT_CHECK(pthread_create(&thread[i], NULL, train_in_thread, &r[i]), ==, 0);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < THREADS; i++) {
    TT_CHECK(r[i].code, ==, 0);
    TT_CHECK(predict_stored(&r[i]), ==, predict_stored(&alone));
    forget(&r[i]);
  }
  forget(&alone);
}

static void refuse(const char *text, int code, const char *reason)
{
  result r = {.code = 0};
  train(text, NULL, &r);
  TT_CHECK(r.code, ==, code);
  TT_CHECK_HAS(r.error, reason);
  forget(&r);
}

TT_TEST (what_cannot_be_trained_is_refused) {
  const tutti_training small = {.size = 8}, none = {.size = sizeof none};
  make_data();
  TT_CHECK(tutti_train_in_memory(NULL), ==, 64);
  TT_CHECK(tutti_train_in_memory(&small), ==, 64);
  TT_CHECK_HAS(tutti_error(), "training->size is 8");
  TT_CHECK(tutti_train_in_memory(&none), ==, 64);
  TT_CHECK_HAS(tutti_error(), "job is NULL");
  refuse("model: {hiden: [3]}", 78, "memory:/job.yaml:1:9: unknown key 'hiden'");
  refuse("data: {file: other.h5}\nensembles: [{name: a, members: 2}]\nrun: {directory: .}", 66,
         "other.h5");
  refuse("data: {file: d.h5}\nensembles: [{name: a, members: 2}]\nrun: {directory: /tmp}", 64,
         "run.directory is /tmp: in memory it must be .");
}
