/* init.c — see init.h. */
#include "src/campaign/driver/init.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "io/data/data.h"
#include "src/campaign/state/file_names.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The files that campaign.yaml is written for. */
typedef struct tt_init_files {
  char data[PATH_MAX], pool[PATH_MAX]; /* paths as written to campaign.yaml */
  const char *inputs, *targets;        /* datasets or columns of data */
  const char *pool_inputs;             /* the same of the pool */
  tt_data_shape shape;
  int64_t candidates;
  int has_hidden_labels, is_example;
} tt_init_files;

/* The example: a function of two inputs with a ridge that a few samples do not resolve */

enum { INITIAL_ROWS = 20, TEST_ROWS = 60, POOL_ROWS = 2000, EXAMPLE_INPUTS = 2 };

static double ridge(double a, double b)
{
  return sin(3.0 * a) * cos(2.0 * b) + 1.5 * exp(-40.0 * (a - b) * (a - b));
}

static tt_err write_samples(const char *file, int64_t rows, uint32_t which)
{
  char *in[] = {"a", "b"}, *out[] = {"height"}, *none[] = {"", ""};
  tt_columns input = {.count = EXAMPLE_INPUTS, .name = in, .units = none, .given = 1},
             target = {.count = 1, .name = out, .units = none, .given = 1};
  double *x = NULL, *y = NULL;
  tt_err e = TT_ALLOC(x, rows * EXAMPLE_INPUTS);
  if (!e) e = TT_ALLOC(y, rows);
  for (int64_t i = 0; !e && i < rows; i++) {
    tt_random4 r = tt_random(1, which, TT_PURPOSE_INIT, 0, (uint32_t)i);
    for (int k = 0; k < EXAMPLE_INPUTS; k++)
      x[EXAMPLE_INPUTS * i + k] = 2.0 * (double)tt_uniform(r.v[k]) - 1.0;
    y[i] = ridge(x[EXAMPLE_INPUTS * i], x[EXAMPLE_INPUTS * i + 1]);
  }
  if (!e) e = tt_data_write_local(file, rows, &input, &target, x, y);
  tt_free_all(&x, &y);
  return e;
}

static tt_err write_example(const char *directory, tt_init_files *p)
{
  char path[TT_PATH_MAX];
  tt_path_join(directory, "pool.h5", path);
  TT_TRY(write_samples(path, POOL_ROWS, 2));
  tt_path_join(directory, "data.h5", path);
  TT_TRY(write_samples(path, INITIAL_ROWS + TEST_ROWS, 1));
  snprintf(p->data, sizeof p->data, "data.h5");
  snprintf(p->pool, sizeof p->pool, "pool.h5");
  p->is_example = p->has_hidden_labels = 1;
  p->candidates = POOL_ROWS;
  return tt_data_read_shape_local(path, "x", "y", &p->shape);
}

/* The files of the user */

/* The path of `file` relative to `directory` if it is inside, otherwise absolute. */
static tt_err relative_path(const char *directory, const char *file, char out[PATH_MAX])
{
  char base[PATH_MAX], whole[PATH_MAX];
  if (!realpath(file, whole)) return TT_FAIL(NOINPUT, "%s: %s", file, strerror(errno));
  size_t n = realpath(directory, base) ? strlen(base) : 0;
  int inside = n > 1 && !strncmp(whole, base, n) && whole[n] == '/';
  snprintf(out, PATH_MAX, "%s", inside ? whole + n + 1 : whole);
  return TT_OK;
}

/* A table without a column x or y has the columns of data. */
static tt_err open_pool(const char *pool, const char *labels, const tt_init_files *p,
                        tt_data_reader **out)
{
  const tt_data_spec spec = {.file = pool,
                             .inputs = p->pool_inputs,
                             .targets = labels,
                             .like_input = &p->shape.input,
                             .like_target = &p->shape.target};
  return tt_data_reader_open_spec_local(&spec, out);
}

static tt_err inspect_pool(const char *data, const char *pool, tt_init_files *p)
{
  tt_data_reader *r = NULL;
  p->pool_inputs = tt_table_is_table(pool) ? "x" : p->inputs;
  TT_TRY(open_pool(pool, NULL, p, &r));
  tt_err e = tt_data_reader_match_local(r, &p->shape.input, NULL, data, 1);
  p->candidates = tt_data_reader_shape(r)->rows;
  tt_data_reader_close_local(&r);
  if (e || open_pool(pool, tt_table_is_table(pool) ? "y" : p->targets, p, &r)) return e;
  p->has_hidden_labels = !tt_data_reader_match_local(r, &p->shape.input, &p->shape.target, data, 0);
  tt_data_reader_close_local(&r);
  return TT_OK;
}

static tt_err inspect_files(const char *directory, const char *data, const char *pool,
                            tt_init_files *p)
{
  if (!data && (strcmp(p->inputs, "x") != 0 || strcmp(p->targets, "y") != 0))
    return TT_FAIL(USAGE, "--inputs and --targets need --data: the first labeled samples");
  if (!data && pool) return TT_FAIL(USAGE, "--pool needs --data: the first labeled samples");
  if (!data) return write_example(directory, p);
  TT_TRY(relative_path(directory, data, p->data));
  TT_TRY(tt_data_read_shape_local(data, p->inputs, p->targets, &p->shape));
  snprintf(p->pool, sizeof p->pool, tt_table_is_table(data) ? "pool.csv" : "pool.h5");
  if (!pool) return TT_OK;
  TT_TRY(relative_path(directory, pool, p->pool));
  return inspect_pool(data, pool, p);
}

/* The text of campaign.yaml */

/* The target's name if it has at most 48 letters, digits and . _ - only; otherwise "target" and its
 * number. */
static void ensemble_name(const char *target, int64_t number, char out[64])
{
  static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  int plain = *target && strlen(target) <= 48 && target[strspn(target, good)] == '\0';
  if (plain)
    snprintf(out, 64, "%s", target);
  else
    snprintf(out, 64, "target%" PRId64, number);
}

enum { MAX_ENSEMBLES = 20 };

static void write_ensembles(const tt_init_files *p, FILE *out)
{
  const tt_columns *t = &p->shape.target;
  fputs("\n# Members disagree where they know little. Ensembles may have networks and settings of\n"
        "# their own: {name: a, target: t, members: 5, model: {hidden: [50]}}\nensembles:\n",
        out);
  if (t->count > MAX_ENSEMBLES)
    fprintf(out, "- {name: all, members: 5} # learns all %" PRId64 " targets together\n", t->count);
  for (int64_t i = 0; t->count <= MAX_ENSEMBLES && i < t->count; i++) {
    char name[64];
    ensemble_name(t->name[i], i, name);
    fprintf(out, "- {name: %s, target: ", name);
    tt_yaml_write_text(t->name[i], out);
    fputs(", members: 5}\n", out);
  }
}

static int64_t clamp(int64_t low, int64_t x, int64_t high)
{
  return x < low ? low : x > high ? high : x;
}

/* Use validation rows only if there are enough for a meaningful mean. */
static const char *choose_split(const tt_init_files *p)
{
  if (p->is_example) return "train: 0.25, validation: 0, test: 0.75";
  return p->shape.rows < 100 ? "train: 0.9, validation: 0, test: 0.1"
                             : "train: 0.8, validation: 0.1, test: 0.1";
}

static void write_job(const tt_init_files *p, FILE *out)
{
  int64_t rows = p->is_example ? INITIAL_ROWS : p->shape.rows;
  int64_t batch = clamp(4, rows / 10, 64), epochs = clamp(50, 4000 * batch / rows, 1000);
  fprintf(out,
          "# An active-learning campaign: repeat: train, score the candidates, label the best.\n"
          "#   tutti campaign run campaign.yaml     starts it, or continues where it stopped\n"
          "#   tutti report campaign                writes a page about its results\n"
          "# Every option with its range and default: tutti options; docs/active-learning.md.\n\n"
          "data: # the initial labeled samples; rows: %" PRId64 ", inputs: %" PRId64
          ", targets: %" PRId64 "\n  file: ",
          p->shape.rows, p->shape.inputs, p->shape.targets);
  tt_yaml_write_text(p->data, out);
  fputs("\n  inputs: ", out);
  tt_yaml_write_text(p->inputs, out);
  fputs("\n  targets: ", out);
  tt_yaml_write_text(p->targets, out);
  fprintf(out,
          "\n  split: {%s, seed: 1} # the test rows measure every round\n\n"
          "model: {hidden: [64, 64], activation: silu} # width of each hidden layer\n"
          "train:\n"
          "  loss: mse # gaussian_nll also learns the noise of the labels\n"
          "  learning_rate: 1e-3\n"
          "  batch_size: %" PRId64 "\n"
          "  epochs: %" PRId64 " # of each round\n",
          choose_split(p), batch, epochs);
  write_ensembles(p, out);
}

static void write_pool(const tt_init_files *p, FILE *out)
{
  if (p->candidates > 0)
    fprintf(out, "\npool: # candidates: %" PRId64 "\n  file: ", p->candidates);
  else
    fputs("\npool: # a file with the inputs of the candidates\n  file: ", out);
  tt_yaml_write_text(p->pool, out);
  fputs("\n  inputs: ", out);
  tt_yaml_write_text(p->pool_inputs, out);
  fputs("\n", out);
  if (p->has_hidden_labels) fputs("  labels: ", out);
  if (p->has_hidden_labels) tt_yaml_write_text(tt_table_is_table(p->pool) ? "y" : p->targets, out);
  if (p->has_hidden_labels)
    fputs(" # known labels, read instead of measured, to test the method\n", out);
}

static void write_label(const tt_init_files *p, FILE *out)
{
  fputs("\nlabel:\n", out);
  if (p->has_hidden_labels)
    fputs("  mode: hidden # for real labels: command, ask, files or slurm (docs/oracle.md), as\n"
          "  # command: [./label, \"{input}\", \"{output}\"] # a program, in any language\n",
          out);
  else
    fputs("  mode: command # or ask (people, other programs), files, slurm (docs/oracle.md)\n"
          "  command: [./label, \"{input}\", \"{output}\"] # a program, in any language\n"
          "  format: csv # of input and output; or hdf5\n"
          "  rows_per_call: 1 # candidates in one call\n"
          "  concurrency: 1 # calls at a time\n"
          "  timeout: 1h\n",
          out);
  fputs("  max_failed: 0.5 # stop if a larger fraction of a round's labels fails\n", out);
}

static void write_campaign(const tt_init_files *p, FILE *out)
{
  int64_t rows = p->is_example ? INITIAL_ROWS : p->shape.rows;
  write_pool(p, out);
  fprintf(
      out,
      "\nscore:\n"
      "  acquisition: epistemic_std # how far the members disagree; `random` is the baseline\n\n"
      "select:\n"
      "  batch: %" PRId64 " # labels per round\n"
      "  method: penalty # high scores that are not close together; top: the highest scores\n"
      "  # lower: 0.05 # candidates with a smaller score count as accurate\n",
      clamp(1, rows / 10 ? rows / 10 : 1, 1000) * (p->is_example ? 5 : 1));
  write_label(p, out);
  fprintf(out,
          "\nstop: # the first rule that holds ends the campaign\n"
          "  rounds: %d\n"
          "  # labels: 500\n"
          "  # wall_time: 2d\n"
          "  # accurate_fraction: 0.99 # with select.lower\n"
          "  # plateau_rounds: 5 # rounds without a better test error\n\n"
          "campaign:\n"
          "  directory: campaign # campaign.h5, the model and the rounds\n"
          "  warm_start: none # params: start from the weights of the previous round\n\n"
          "run: {seed: 1, device: auto}\n",
          p->is_example ? 8 : 20);
}

static tt_err write_file(FILE *out, void *files)
{
  write_job(files, out);
  write_campaign(files, out);
  return TT_OK;
}

tt_err tt_campaign_init_local(const char *directory, const char *data, const char *pool,
                              const char *inputs, const char *targets)
{
  char path[TT_PATH_MAX];
  tt_init_files *p = NULL;
  TT_TRY(tt_directory_create(directory));
  tt_path_join(directory, "campaign.yaml", path);
  if (!access(path, F_OK))
    return TT_FAIL(CANTCREAT, "%s exists; remove it, or give another directory", path);
  TT_TRY(TT_ALLOC(p, 1));
  p->inputs = p->pool_inputs = inputs ? inputs : "x";
  p->targets = targets ? targets : "y";
  if (data && tt_table_is_table(data)) p->pool_inputs = "x";
  tt_err e = inspect_files(directory, data, pool, p);
  if (!e) e = tt_file_print_local(path, write_file, p);
  if (!e) tt_log_root(TT_LOG_INFO, "wrote %s; next: tutti campaign run %s", path, path);
  if (p->shape.inputs) tt_data_shape_free(&p->shape);
  tt_free(p);
  return e;
}
