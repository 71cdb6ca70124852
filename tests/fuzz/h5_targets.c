/* h5_targets.c — readers of HDF5 files. An input damages a copy of a valid file of tutti; the
 * reader must refuse it with a message, or give values that all code may rely on. */
#include "core/base/mem.h"
#include "core/config/config.h"
#include "core/stats/history.h"
#include "io/campaign/campaign_files.h"
#include "io/campaign/oracle_files.h"
#include "io/campaign/pool_scores.h"
#include "io/checkpoint/checkpoint_internal.h"
#include "io/data/data.h"
#include "io/data/pool.h"
#include "io/hdf5/foreign_check.h"
#include "io/model/model_file.h"
#include "io/results/describe_file.h"
#include "io/results/results_read.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <hdf5.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_SEEDS = 16, MAX_SEED_BYTES = 4 << 20, CHILD_SECONDS = 20 };

static const fuzz_target *target;
static tt_comm *comm;
static struct {
  uint8_t *bytes;
  size_t count;
} seed[MAX_SEEDS];
static unsigned seeds;

static void load_seed(const char *folder, const char *name)
{
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "rb");
  uint8_t *bytes = malloc(MAX_SEED_BYTES);
  FUZZ_CHECK(f && bytes);
  seed[seeds].bytes = bytes;
  seed[seeds++].count = fread(bytes, 1, MAX_SEED_BYTES, f);
  fclose(f);
}

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

/* All files FOLDER/NAME-*.h5, by name. */
static void load_seeds(const char *folder, const char *name)
{
  char file[MAX_SEEDS][256];
  int files = 0;
  DIR *d = folder ? opendir(folder) : NULL;
  for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
    if (files < MAX_SEEDS && !strncmp(e->d_name, name, strlen(name)) &&
        e->d_name[strlen(name)] == '-')
      strcpy(file[files++], e->d_name);
  if (d) closedir(d);
  qsort(file, (size_t)files, sizeof file[0], by_name);
  for (int i = 0; i < files; i++) load_seed(folder, file[i]);
  if (seeds) return;
  fprintf(stderr, "no %s-*.h5 in %s: script/fuzz makes them\n", name, folder ? folder : "--seeds=");
  exit(66);
}

static void begin_files(const fuzz_target *t, const char *folder)
{
  target = t;
  load_seeds(folder, t->name);
  if (!freopen("/dev/null", "w", stdout)) exit(73); /* tt_describe_file_local prints */
}

static void begin_ranks(const fuzz_target *t, const char *folder)
{
  FUZZ_CHECK(!tt_comm_begin(&comm));
  begin_files(t, folder);
}

static tt_columns pool_input, pool_target;

static void name_columns(tt_columns *columns, int64_t count, const char *const *name)
{
  FUZZ_CHECK(!tt_columns_create(count, columns));
  for (int64_t i = 0; i < count; i++) FUZZ_CHECK(!tt_text_set(&columns->name[i], name[i]));
}

/* A pool with rows that are excluded: the program writes no such dataset. */
static void begin_pool(const fuzz_target *t, const char *folder)
{
  enum { POOL_ROWS = 30 };
  static const int64_t is_used[POOL_ROWS] = {[3] = 1, [5] = 1};
  const hsize_t rows = POOL_ROWS;
  const char *path = fuzz_path("seed.h5");
  begin_ranks(t, folder);
  name_columns(&pool_input, 4, (const char *const[]){"a", "b", "c", "d"});
  name_columns(&pool_target, 2, (const char *const[]){"y0", "y1"});
  fuzz_write_file(path, seed[0].bytes, seed[0].count);
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), space = H5Screate_simple(1, &rows, NULL);
  hid_t used_rows =
      H5Dcreate2(file, "used", H5T_NATIVE_INT64, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  FUZZ_CHECK(H5Dwrite(used_rows, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, is_used) >= 0);
  H5Dclose(used_rows);
  H5Sclose(space);
  H5Fclose(file);
  free(seed[--seeds].bytes);
  load_seed(fuzz_path("."), "seed.h5");
}

/* A reader that has ended holds no object of HDF5. */
static void check_closed(void)
{
  FUZZ_CHECK(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL) == 0);
}

static void read_file(const char *path)
{
  tt_err e = target->read(path);
  FUZZ_CHECK(!e || *tt_err_last());
  FUZZ_CHECK(!e || e == TT_E_DATA || e == TT_E_IO || e == TT_E_MEM || e == TT_E_CONFIG);
  check_closed();
  tt_describe_file_local(path, 0, 0);
  tt_describe_file_local(path, 1, 0);
  tt_describe_file_local(path, 0, 1);
  check_closed();
}

/* HDF5 crashes on some damaged bytes. A file that another program may have written is therefore
 * first read by a child, as tutti does; a crash there is a refusal. */
static int child_refuses(const char *path)
{
  int status = 0;
  pid_t child = fork();
  FUZZ_CHECK(child >= 0);
  if (!child) {
    for (int s = 1; s < 32; s++) signal(s, SIG_DFL);
    if (!freopen("/dev/null", "w", stderr)) _exit(1);
    alarm(CHILD_SECONDS);
    tt_err e = target->read(path);
    _exit(e ? 1 : 0);
  }
  while (waitpid(child, &status, 0) < 0) FUZZ_CHECK(errno == EINTR); /* libFuzzer's timer */
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void run_file(const uint8_t *bytes, size_t count)
{
  const char *path = fuzz_path("ckpt-g000001.h5"); /* a checkpoint is found by this name */
  const unsigned which = count ? bytes[0] % seeds : 0;
  fuzz_write_file(path, seed[which].bytes, seed[which].count);
  int raw = count > 1 && fuzz_damage_h5(path, bytes + 1, count - 1);
  FUZZ_CHECK(count > 1 || !target->read(path));
  if (!raw || !child_refuses(path)) read_file(path);
}

/* The readers: as the program calls them. Each uses every value it gets. */

static double sum_of(const double *v, int64_t count)
{
  double sum = 0.0;
  for (int64_t i = 0; i < count; i++) sum += v[i];
  return sum;
}

static size_t length_of(char *const *text, int64_t count)
{
  size_t length = 0;
  for (int64_t i = 0; i < count; i++) length += strlen(text[i]);
  return length;
}

static volatile double used; /* keeps the reads */

/* The same file by its columns: whatever of it can be chosen, the first rows. */
static void read_as_columns(const char *path)
{
  enum { ROWS = 8, MOST = 1 << 16 };
  static const char *const all[] = {"*"};
  static double x[ROWS * MOST];
  tt_data_reader *r = NULL;
  if (tt_foreign_check_local(path, all, 1)) return;
  tt_err e = tt_data_reader_open_local(path, "*", NULL, &r);
  FUZZ_CHECK(!e || e == TT_E_DATA || e == TT_E_IO || e == TT_E_MEM);
  if (e) return;
  const tt_data_shape *s = tt_data_reader_shape(r);
  FUZZ_CHECK(s->rows > 0 && s->inputs > 0);
  used = (double)length_of(s->input.name, s->inputs);
  if (s->inputs <= MOST)
    e = tt_data_reader_read_local(r, 0, s->rows < ROWS ? s->rows : ROWS, x, NULL);
  FUZZ_CHECK(!e || e == TT_E_DATA || e == TT_E_IO || e == TT_E_MEM);
  tt_data_reader_close_local(&r);
}

static tt_err read_data(const char *path)
{
  static const char job[] = "data: {file: %s, split: {train: 0.8, validation: 0.2, test: 0}}\n"
                            "ensembles: [{name: a, target: y0, members: 2}]\n";
  static const char *const dataset[] = {"x", "y"};
  char text[1024];
  tt_config *cfg = NULL;
  tt_dataset *d = NULL;
  int bytes = snprintf(text, sizeof text, job, path);
  read_as_columns(path);
  TT_TRY(tt_foreign_check_local(path, dataset, 2));
  FUZZ_CHECK(!tt_config_parse("/job.yaml", text, bytes, NULL, 0, &cfg));
  tt_err e = tt_data_read(comm, cfg, NULL, &d);
  tt_config_destroy(&cfg);
  if (e) return e;
  for (int64_t i = 0; i < d->rows * d->inputs; i++) FUZZ_CHECK(isfinite(d->x[i]));
  for (int64_t i = 0; i < d->rows * d->targets; i++) FUZZ_CHECK(!isinf(d->y[i]));
  used = (double)(length_of(d->input.name, d->inputs) + length_of(d->target.name, d->targets) +
                  length_of(d->input.units, d->inputs) + length_of(d->target.units, d->targets));
  tt_dataset_destroy(&d);
  return TT_OK;
}

static tt_err use_pool(tt_pool *p)
{
  enum { ROWS = 16, WIDTH = 4 };
  double x[ROWS * WIDTH];
  int64_t rows = tt_pool_rows(p), step = rows / ROWS > 4096 ? rows / 8 : ROWS;
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < rows; i += step) {
    int64_t count = rows - i < ROWS ? rows - i : ROWS;
    used = tt_pool_is_excluded(p, i);
    e = tt_pool_read_local(p, i, count, x);
    for (int64_t k = 0; !e && k < count * WIDTH; k++) FUZZ_CHECK(isfinite(x[k]));
  }
  return e;
}

static tt_err read_pool(const char *path)
{
  static const char *const dataset[] = {"x", "y", "?used"};
  const tt_pool_options o = {.file = &path,
                             .files = 1,
                             .inputs = "x",
                             .labels = "y",
                             .exclude = "used",
                             .input = &pool_input,
                             .target = &pool_target,
                             .checked = 1};
  tt_pool *p = NULL;
  TT_TRY(tt_foreign_check_local(path, dataset, 3));
  TT_TRY(tt_pool_open(comm, &o, &p));
  tt_err e = use_pool(p);
  tt_pool_close_local(&p);
  return e;
}

static void use_ensemble(const tt_trained_ensemble *m)
{
  for (int64_t i = 0; i < m->ensembles; i++) {
    const tt_ensemble *e = &m->ensemble[i];
    FUZZ_CHECK(e->first >= 0 && e->members > 0 && e->first + e->members <= m->members);
    FUZZ_CHECK(e->targets == m->model.targets && strlen(e->name) < 1 << 20);
    for (int64_t k = 0; k < e->targets; k++) {
      int32_t t = e->column[k];
      FUZZ_CHECK(t >= 0 && t < m->target.count);
      FUZZ_CHECK(tt_output_labels(m->model.output) == TT_LABEL_TYPE_real ||
                 (m->scaler.y_mean[t] == 0.0 && m->scaler.y_scale[t] == 1.0));
    }
  }
  for (int64_t i = 0; i < m->members; i++) {
    FUZZ_CHECK(m->weight[i] >= 0.0 && isfinite(m->weight[i]));
    FUZZ_CHECK(m->status[i] >= 0 && m->status[i] <= TT_STATUS_diverged);
    for (int64_t k = 0; k < m->model.params; k++)
      FUZZ_CHECK(m->status[i] == TT_STATUS_diverged || isfinite(m->w[i * m->model.params + k]));
  }
  FUZZ_CHECK(m->input.count == m->scaler.inputs && m->scaler.net.count == m->model.inputs);
  for (int64_t i = 0; i < m->scaler.inputs; i++) FUZZ_CHECK(m->scaler.x_scale[i] > 0.0);
  for (int64_t i = 0; i < m->scaler.targets; i++) FUZZ_CHECK(m->scaler.y_scale[i] > 0.0);
  used = (double)(length_of(m->input.name, m->input.count) +
                  length_of(m->target.units, m->target.count));
  used = sum_of(m->calibration.std_scale, m->calibration.columns);
}

static tt_err read_model(const char *path)
{
  tt_trained_ensembles all = {0};
  TT_TRY(tt_model_read_local(path, &all));
  FUZZ_CHECK(all.count > 0);
  for (int64_t i = 0; i < all.count; i++) use_ensemble(all.at[i]);
  tt_trained_ensembles_destroy(&all);
  return TT_OK;
}

/* The run to which the seeds of the checkpoints belong. */
enum { MAX_COHORTS = 4 };
static struct {
  tt_run_id id;
  int64_t cohorts, size[MAX_COHORTS][TT_CKPT_SIZES];
} run;

static void read_run(tt_h5_reader *r)
{
  char *arithmetic = NULL;
  tt_ckpt_layout layout = {0};
  FUZZ_CHECK(!tt_h5_read_attr_local(r, "/", "result_hash", TT_H5_U64, 1, &run.id.result_hash));
  FUZZ_CHECK(!tt_h5_read_attr_local(r, "/", "data_hash", TT_H5_U64, 1, &run.id.data));
  FUZZ_CHECK(!tt_h5_read_attr_local(r, "/", "cohorts", TT_H5_I64, 1, &run.cohorts));
  FUZZ_CHECK(!tt_h5_read_attr_text_local(r, "/", "arithmetic", &arithmetic));
  FUZZ_CHECK(run.cohorts <= MAX_COHORTS);
  snprintf(run.id.arithmetic, sizeof run.id.arithmetic, "%s", arithmetic);
  FUZZ_CHECK(!tt_ckpt_layout_read_local(r, &layout) && layout.cohorts == run.cohorts);
  memcpy(run.size, layout.size, (size_t)run.cohorts * sizeof run.size[0]);
  tt_ckpt_layout_free_local(&layout);
  tt_free(arithmetic);
}

static void begin_checkpoint(const fuzz_target *t, const char *folder)
{
  tt_h5_reader *r = NULL;
  const char *path = fuzz_path("seed.h5");
  begin_ranks(t, folder);
  fuzz_write_file(path, seed[0].bytes, seed[0].count);
  FUZZ_CHECK(!tt_h5_open_local(path, &r));
  read_run(r);
  tt_h5_close_local(&r);
  seeds = 1; /* of the same run */
}

static tt_state *state_of(int64_t cohort)
{
  const int64_t *size = run.size[cohort];
  const tt_state_shape shape = {size[1], size[2], size[3], size[4]};
  tt_state *s = NULL;
  FUZZ_CHECK(!tt_state_create((tt_slice){0, size[0]}, shape, &s));
  return s;
}

static tt_err resume(const char *folder)
{
  tt_ckpt_shard shard[MAX_COHORTS];
  int64_t newest = 0, generation = 0;
  for (int64_t k = 0; k < run.cohorts; k++) shard[k] = (tt_ckpt_shard){run.size[k][0], state_of(k)};
  tt_err e = tt_ckpt_read(comm, folder, &run.id, 0, run.cohorts, shard, &newest, &generation);
  FUZZ_CHECK(e || generation == 1);
  for (int64_t k = 0; k < run.cohorts; k++) tt_state_destroy(&shard[k].mine);
  return e;
}

static tt_err read_checkpoint(const char *path)
{
  char folder[512];
  snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
  return resume(folder);
}

static tt_err read_results(const char *path)
{
  tt_results *r = NULL;
  TT_TRY(tt_results_read_local(path, &r));
  used = (double)(length_of(r->owner, r->members) + length_of(r->ensemble, r->columns) +
                  length_of(r->target, r->columns) + length_of(r->units, r->columns));
  used = sum_of(r->rmse, r->columns) + sum_of(r->score[TT_METRIC_nll], r->columns);
  if (r->levels) used = sum_of(r->calibration, r->levels * r->columns) + r->level[r->levels - 1];
  if (r->rows) used = sum_of(r->test.total, r->rows * r->columns) + (double)r->test.row[0];
  for (int64_t i = 0; i < r->members * r->epochs; i++) used = r->loss_train[i];
  tt_results_destroy(&r);
  return TT_OK;
}

static tt_err read_predictions(const char *path) { return tt_describe_file_local(path, 0, 0); }

static tt_err read_queries(const char *path)
{
  tt_queries *q = NULL;
  TT_TRY(tt_queries_read_local(path, &q));
  for (int64_t i = 0; i < q->count; i++) FUZZ_CHECK(q->row[i] >= 0);
  used = sum_of(q->x, q->count * q->inputs) + sum_of(q->score, q->count);
  tt_queries_destroy(&q);
  return TT_OK;
}

static tt_err read_scores(const char *path)
{
  enum { AT_ONCE = 64 };
  float score[AT_ONCE];
  tt_pool_scores_reader *r = NULL;
  TT_TRY(tt_pool_scores_open_local(path, &r));
  int64_t lists = r->lists, rows = r->rows;
  tt_err e = TT_OK;
  for (int64_t l = 0; !e && l < lists && l < AT_ONCE; l++)
    for (int64_t i = 0; !e && i < rows && i < 100 * AT_ONCE; i += AT_ONCE)
      e = tt_pool_scores_read_local(r, l, r->first + i, rows - i < AT_ONCE ? rows - i : AT_ONCE,
                                    score);
  tt_pool_scores_close_local(&r);
  return e;
}

static tt_err read_history(const char *path)
{
  tt_history *h = NULL;
  tt_history_metadata names = {0};
  tt_used_rows rows = {0};
  TT_TRY(tt_history_read_local(path, &h));
  for (int64_t i = 0; i < h->rounds; i++) {
    used = sum_of(h->round[i].rmse, h->columns) + sum_of(h->round[i].spread, h->columns);
    used = tt_history_error(h, i + 1, h);
  }
  for (int64_t i = 0; i < h->queries; i++)
    FUZZ_CHECK(h->query[i].round >= 1 && h->query[i].round <= h->rounds);
  used = sum_of(h->x, h->queries * h->inputs) + sum_of(h->y, h->queries * h->targets);
  tt_err e = tt_history_used_rows(h, &rows);
  tt_used_rows_free(&rows);
  tt_history_destroy(&h);
  if (!e) e = tt_history_read_metadata_local(path, &names);
  if (!e) used = (double)length_of(names.column, names.columns);
  tt_history_metadata_free(&names);
  return e;
}

static tt_err read_labels(const char *path)
{
  enum { REQUESTED = 8 };
  tt_columns names = {0};
  tt_oracle_output *l = NULL;
  char why[64];
  FUZZ_CHECK(!tt_columns_create(2, &names));
  tt_err e = tt_accepted_labels_read_local(path, &names, &l, why, sizeof why);
  if (!e) used = sum_of(l->y, l->count * l->targets);
  tt_oracle_output_destroy(&l);
  if (!e) e = tt_oracle_output_read_local(path, &names, REQUESTED, &l);
  if (!e) FUZZ_CHECK(l->count <= REQUESTED);
  tt_oracle_output_destroy(&l);
  tt_columns_free(&names);
  return e;
}

static tt_err read_oracle_input(const char *path)
{
  tt_oracle_input *a = NULL;
  TT_TRY(tt_oracle_input_read_local(path, NULL, &a));
  used = sum_of(a->x, a->count * a->inputs);
  tt_oracle_input_destroy(&a);
  return TT_OK;
}

const fuzz_target fuzz_h5_targets[] = {
    {"data", begin_ranks, run_file, read_data},
    {"pool", begin_pool, run_file, read_pool},
    {"model", begin_files, run_file, read_model},
    {"checkpoint", begin_checkpoint, run_file, read_checkpoint},
    {"results", begin_files, run_file, read_results},
    {"predictions", begin_files, run_file, read_predictions},
    {"queries", begin_files, run_file, read_queries},
    {"pool_scores", begin_files, run_file, read_scores},
    {"campaign", begin_files, run_file, read_history},
    {"labels", begin_files, run_file, read_labels},
    {"oracle_input", begin_files, run_file, read_oracle_input},
    {NULL, NULL, NULL, NULL},
};
