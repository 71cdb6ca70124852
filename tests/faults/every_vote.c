/* every_vote.c: the n-th vote of each rank fails, for every n until a run has no n-th vote. All
 * trials in one process per rank.
 *
 *   mpirun -n 2 every_vote [STRIDE]     only every STRIDE-th vote; each rank starts at another one
 *
 * A trial trains from two checkpoints. All ranks must get the error of the fault, or, if the run
 * survives the fault, the model of an undisturbed run; a checkpoint must exist, and resuming from
 * it must give that model. */
#include "tests/support/scratch.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/data/data.h"
#include "io/model/model_file.h"
#include "mpi/fatal.h"
#include "src/train/trainer.h"

#include <inttypes.h>

enum { ROWS = 40, INPUTS = 2, TARGETS = 1, MOST_VOTES = 100000, FILE_ROOM = 1 << 20 };

static const char job_text[] = "data: {file: data.h5}\n"
                               "model: {hidden: [4], activation: tanh}\n"
                               "ensembles: [{name: only, members: 3}]\n"
                               "train: {batch_size: 8, epochs: 3, resample: kfold, folds: 3}\n"
                               "checkpoint: {every: 1h}\n"
                               "run: {device: cpu, threads: 1, watchdog: 30s, directory: out}\n";

/* The data of all trials. */
typedef struct site {
  tt_comm *world;
  char folder[SCRATCH_ROOM], out[2 * SCRATCH_ROOM], job[2 * SCRATCH_ROOM];
  tt_trained_ensembles wanted; /* rank 0 */
  char *first, *second;        /* rank 0: bytes of the two checkpoints every trial starts from */
  int64_t first_bytes, second_bytes;
  int untouched_is_known; /* set when a run has been resumed from the two checkpoints alone */
  int64_t stride, failures, trials, met;
} site;

static void complain(site *s, int rank, int64_t n, const char *what)
{
  s->failures++;
  if (tt_comm_is_root(s->world))
    fprintf(stderr, "rank %d, vote %" PRId64 ": %s: %s\n", rank, n, what, tt_err_last());
}

/* files: rank 0 alone */

static void name_of(const site *s, const char *file, char path[3 * SCRATCH_ROOM])
{
  snprintf(path, 3 * SCRATCH_ROOM, "%s/%s", s->out, file);
}

static int exists(const site *s, const char *file)
{
  char path[3 * SCRATCH_ROOM];
  name_of(s, file, path);
  return access(path, F_OK) == 0;
}

static int64_t read_bytes(const site *s, const char *file, char *bytes)
{
  char path[3 * SCRATCH_ROOM];
  name_of(s, file, path);
  FILE *f = fopen(path, "rb");
  if (!f) return -1;
  size_t n = fread(bytes, 1, FILE_ROOM, f);
  fclose(f);
  return (int64_t)n;
}

static void write_bytes(const site *s, const char *file, const char *bytes, int64_t n)
{
  char path[3 * SCRATCH_ROOM];
  name_of(s, file, path);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes, 1, (size_t)n, f) != (size_t)n || fclose(f) != 0)
    tt_panic("%s: cannot be written", path);
}

/* The run directory as it was when two checkpoints had been written. */
static void restore(const site *s)
{
  tt_directory_remove(s->out);
  if (mkdir(s->out, 0700) != 0) tt_panic("%s: cannot be made", s->out);
  write_bytes(s, "ckpt-g000001.h5", s->first, s->first_bytes);
  write_bytes(s, "ckpt-g000002.h5", s->second, s->second_bytes);
}

/* The checkpoints are unchanged, and no other checkpoint exists. */
static int is_untouched(const site *s)
{
  char *now = NULL;
  if (TT_ALLOC(now, FILE_ROOM)) tt_panic("no memory");
  int same = read_bytes(s, "ckpt-g000001.h5", now) == s->first_bytes &&
             !memcmp(now, s->first, (size_t)s->first_bytes) &&
             read_bytes(s, "ckpt-g000002.h5", now) == s->second_bytes &&
             !memcmp(now, s->second, (size_t)s->second_bytes);
  tt_free(now);
  return same && scratch_count(s->out, "ckpt-") == 2 && !exists(s, "model.h5");
}

static tt_err is_wanted_model(const site *s)
{
  char path[3 * SCRATCH_ROOM];
  tt_trained_ensembles got = {0};
  name_of(s, "model.h5", path);
  TT_TRY(tt_model_read_local(path, &got));
  const tt_trained_ensemble *one = got.at[0], *wanted = s->wanted.at[0];
  size_t bytes = (size_t)(one->members * one->model.params) * sizeof *one->w;
  int same = one->members == wanted->members && !memcmp(one->w, wanted->w, bytes);
  tt_trained_ensembles_destroy(&got);
  return same ? TT_OK : TT_FAIL(DATA, "model.h5 has other bits than the undisturbed run's");
}

static void write_inputs(const site *s)
{
  char path[2 * SCRATCH_ROOM];
  double x[ROWS * INPUTS], y[ROWS * TARGETS];
  char *names[] = {(char[]){"a"}, (char[]){"b"}}, *none[] = {(char[]){""}, (char[]){""}};
  tt_columns input = {INPUTS, names, none, 1, NULL, NULL, 0},
             target = {TARGETS, names, none, 1, NULL, NULL, 0};
  for (int i = 0; i < ROWS; i++) {
    x[INPUTS * i] = (double)(i % 7);
    x[INPUTS * i + 1] = (double)(i % 5);
    y[i] = (double)(i % 3);
  }
  snprintf(path, sizeof path, "%.1000s/data.h5", s->folder);
  if (tt_data_write_local(path, ROWS, &input, &target, x, y)) tt_panic("%s", tt_err_last());
  FILE *f = fopen(s->job, "w");
  if (!f || fputs(job_text, f) < 0 || fclose(f) != 0) tt_panic("%s: cannot be written", s->job);
}

/* starts: collective */

/* Train once. The n-th vote of `rank` fails, if n > 0; *votes is how many there were. */
static tt_err life(int rank, int64_t n, double max_time, const site *s, int64_t *votes)
{
  char fault[64];
  tt_comm *c = NULL;
  tt_train_options o = {.job = {.file = s->job}, .max_time = max_time};
  snprintf(fault, sizeof fault, "%d:%" PRId64, rank, n);
  if (n > 0) setenv("TUTTI_FAULT", fault, 1);
  tt_err e = tt_comm_begin(&c);
  unsetenv("TUTTI_FAULT");
  if (e) return e;
  e = tt_train(c, &o);
  *votes = tt_comm_votes(c);
  tt_comm_end(&c);
  return e;
}

/* Every rank has the same error. */
static int all_same(const site *s, tt_err e)
{
  int64_t both[2] = {(int64_t)e, -(int64_t)e};
  tt_allreduce_max_i64(s->world, both, 2);
  return both[0] == -both[1];
}

static tt_err root_says(const site *s, tt_err mine)
{
  return tt_agree(s->world, tt_comm_is_root(s->world) ? mine : TT_OK);
}

/* After a fault that ended the run: resuming must give the model of the undisturbed run. */
static void judge_rest(site *s, int rank, int64_t n)
{
  int64_t untouched = tt_comm_is_root(s->world) && is_untouched(s), votes = 0;
  tt_allreduce_max_i64(s->world, &untouched, 1);
  if (untouched && s->untouched_is_known) return;
  int64_t lost = tt_comm_is_root(s->world) && scratch_count(s->out, "ckpt-") == 0;
  tt_allreduce_max_i64(s->world, &lost, 1);
  if (lost) complain(s, rank, n, "no checkpoint is left");
  if (life(0, 0, 0.0, s, &votes))
    complain(s, rank, n, "training on failed");
  else if (root_says(s, tt_comm_is_root(s->world) ? is_wanted_model(s) : TT_OK))
    complain(s, rank, n, "training on");
  if (untouched) s->untouched_is_known = 1;
}

/* 0 when the run has no n-th vote. */
static int trial(site *s, int rank, int64_t n)
{
  int64_t votes = 0;
  if (tt_comm_is_root(s->world)) restore(s);
  tt_barrier(s->world);
  tt_err e = life(rank, n, 0.0, s, &votes);
  s->trials++;
  if (!all_same(s, e)) complain(s, rank, n, "the ranks do not have the same error");
  if (!e && root_says(s, tt_comm_is_root(s->world) ? is_wanted_model(s) : TT_OK))
    complain(s, rank, n, "reported success");
  if (e && e != TT_E_IO) complain(s, rank, n, "another error than that of the fault");
  if (e) judge_rest(s, rank, n);
  s->met += votes >= n;
  return votes >= n;
}

/* all trials */

/* The undisturbed model, and two checkpoints of starts with a time limit of 0. */
static void prepare(site *s)
{
  int64_t votes = 0;
  int root = tt_comm_is_root(s->world);
  char path[3 * SCRATCH_ROOM];
  snprintf(s->out, sizeof s->out, "%.1000s/out", s->folder);
  snprintf(s->job, sizeof s->job, "%.1000s/job.yaml", s->folder);
  if (root) write_inputs(s);
  tt_barrier(s->world);
  if (life(0, 0, 0.0, s, &votes)) tt_panic("undisturbed: %s", tt_err_last());
  name_of(s, "model.h5", path);
  if (root && tt_model_read_local(path, &s->wanted)) tt_panic("%s", tt_err_last());
  if (root) tt_directory_remove(s->out);
  tt_barrier(s->world);
  for (int i = 0; i < 2; i++)
    if (life(0, 0, 1e-6, s, &votes) != TT_E_STOPPED) tt_panic("no time: %s", tt_err_last());
  if (!root) return;
  if (TT_ALLOC(s->first, FILE_ROOM) || TT_ALLOC(s->second, FILE_ROOM)) tt_panic("no memory");
  s->first_bytes = read_bytes(s, "ckpt-g000001.h5", s->first);
  s->second_bytes = read_bytes(s, "ckpt-g000002.h5", s->second);
  if (s->first_bytes < 1 || s->second_bytes < 1) tt_panic("two checkpoints are missing");
}

static void try_all(site *s)
{
  for (int rank = 0; rank < tt_comm_ranks(s->world); rank++) {
    int64_t n = 1 + rank % s->stride, met = s->met;
    while (n < MOST_VOTES && trial(s, rank, n)) n += s->stride;
    if (s->met == met || n >= MOST_VOTES) complain(s, rank, n, "no run with and one without it");
  }
}

int main(int argc, char **argv)
{
  site s = {.stride = argc > 1 ? atoi(argv[1]) : 1};
  if (s.stride < 1 || !freopen("/dev/null", "w", stdout)) return 1; /* no tables of scores */
  tt_log_set_level(TT_LOG_ERROR);
  if (tt_comm_begin(&s.world)) return 1;
  scratch_begin(s.world, s.folder);
  if (!s.folder[0]) return 1;
  prepare(&s);
  try_all(&s);
  tt_allreduce_sum_i64(s.world, &s.failures, 1);
  if (tt_comm_is_root(s.world))
    fprintf(stderr, "%" PRId64 " trials, %" PRId64 " faults met, %" PRId64 " failures\n", s.trials,
            s.met, s.failures);
  tt_trained_ensembles_destroy(&s.wanted);
  tt_free(s.first);
  tt_free(s.second);
  scratch_end(s.world, s.folder);
  tt_comm_end(&s.world);
  return s.failures > 0;
}
