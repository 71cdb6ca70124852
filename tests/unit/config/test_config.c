/* test_config.c — laws of the job file: valid files are read, and text and hash are equal after a
 * round trip. `unit_config --write-docs` writes docs/options.md. */
#include "core/base/mem.h"
#include "core/config/config_internal.h"
#include "tests/support/check.h"
#include "tests/unit/config/config_job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* valid files */

TT_TEST (a_list_of_columns_is_one_text) {
  static const char job[] = "data: {file: t.csv, inputs: [a, 'f*', \"b, c\", '!id']}\n"
                            "ensembles: [{name: a}]\n";
  char *text = NULL;
  tt_config *c = must_parse(job, NULL, 0);
  same_text(c->data_inputs, "a,f*,\"b, c\",!id");
  TT_CHECK_OK(tt_config_to_yaml(c, &text));
  tt_config *again = must_parse(text, NULL, 0);
  same_text(again->data_inputs, c->data_inputs);
  tt_config_destroy(&again);
  tt_config_destroy(&c);
  tt_free(text);
}

TT_TEST (the_values_of_a_job_file_are_read) {
  tt_config *c = must_parse(main_job, NULL, 0);
  char here[4096], path[5000];
  assert_non_null(getcwd(here, sizeof here));
  same_text(c->top_title, "Heating and cooling load of buildings");
  snprintf(path, sizeof path, "%s/energy.h5", here);
  same_text(c->data_file, path);
  snprintf(path, sizeof path, "%s/out", here);
  same_text(c->run_directory, path);
  same_text(c->data_inputs, "x");
  same_text(c->data_weights, "");
  same_text(c->data_normalize, "standard");
  TT_CHECK(c->data_split_train, ==, 0.8);
  TT_CHECK(c->data_split_seed, ==, 7);
  TT_CHECK(c->defaults.model_hidden.count, ==, 2);
  TT_CHECK(c->defaults.model_hidden.value[1], ==, 64);
  TT_CHECK(c->defaults.model_activation, ==, (int)TT_ACT_silu);
  TT_CHECK(c->defaults.model_output, ==, (int)TT_OUTPUT_mean_variance);
  TT_CHECK(c->ensembles, ==, 2);
  same_text(c->ensemble[0].name, "heating");
  same_text(c->ensemble[1].target, "cooling_load");
  TT_CHECK(c->ensemble[1].members, ==, 50);
  TT_CHECK(c->ensemble[1].targets.count, ==, 0);
  TT_CHECK(c->ensemble[0].train_learning_rate, ==, 1e-3);
  TT_CHECK(c->defaults.train_loss, ==, (int)TT_LOSS_gaussian_nll);
  TT_CHECK(c->defaults.train_learning_rate, ==, 1e-3);
  TT_CHECK(c->defaults.train_epochs, ==, 200);
  TT_CHECK(c->defaults.train_resample, ==, (int)TT_RESAMPLE_bootstrap);
  TT_CHECK(c->defaults.train_patience, ==, 20);
  TT_CHECK(c->defaults.train_nesterov, ==, 0);
  TT_CHECK(c->checkpoint_every, ==, 600.0);
  TT_CHECK(c->run_seed, ==, 2026);
  TT_CHECK(c->run_threads, ==, -1);
  TT_CHECK(c->run_max_time, ==, -1.0);
  tt_config_destroy(&c);
}

TT_TEST (json_comments_and_byte_order_mark_are_accepted) {
  static const char *const good[] = {
      "{\"data\":{\"file\":\"d.h5\"},\"ensembles\":[{\"name\":\"a\",\"members\":5}]}",
      "{\n\t\"data\": {\"file\": \"d.h5\"},\n\t\"ensembles\": [{\"name\": \"a\"}]\n}",
      "\xEF\xBB\xBF# a job\ndata: {file: d.h5} # the samples\nensembles: [{name: a}]\n",
      "%YAML 1.2\n---\ndata: {file: d.h5}\nensembles:\n  - name: a\n    targets: one\n...\n",
      "data: {file: d.h5}\r\nensembles: [{name: a, targets: [b, c]}]\r\ntrain:\r\n",
      "ensembles: [{name: a-b.c_9}]\ndata: {file: d.h5}\ntrain: {learning_rate: 1.e+2}",
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    tt_config *c = must_parse(good[i], NULL, 0);
    TT_CHECK(c->ensemble[0].members, ==, 5);
    tt_config_destroy(&c);
  }
}

TT_TEST (set_changes_ensembles_by_number_and_by_name) {
  static const char *const set[] = {"ensembles[0].members=3",
                                    "ensembles.cooling.members=4",
                                    "train.learning_rate=0.5",
                                    "ensembles.heating.train.learning_rate=2",
                                    "ensembles.cooling.name=a.b",
                                    "ensembles.a.b.members=6",
                                    "ensembles.a.b.train.on_diverged.retries=3",
                                    "ensembles[1].model.quantiles=[0.1, 0.9]",
                                    "data.split.seed=3",
                                    "model.hidden=[]",
                                    "title=''"};
  tt_config *c = must_parse(main_job, set, (int)(sizeof set / sizeof *set));
  TT_CHECK(c->ensemble[0].members, ==, 3);
  TT_CHECK(c->ensemble[1].members, ==, 6);
  TT_CHECK(c->ensemble[0].train_learning_rate, ==, 2.0);
  TT_CHECK(c->ensemble[1].train_learning_rate, ==, 0.5);
  TT_CHECK(c->ensemble[0].train_on_diverged_retries, ==, 0);
  TT_CHECK(c->ensemble[1].train_on_diverged_retries, ==, 3);
  TT_CHECK(c->ensemble[1].model_quantiles.value[1], ==, 0.9);
  TT_CHECK(c->defaults.model_quantiles.count, ==, 5);
  same_text(c->ensemble[1].name, "a.b");
  TT_CHECK(c->data_split_seed, ==, 3);
  TT_CHECK(c->defaults.model_hidden.count, ==, 0);
  same_text(c->top_title, "");
  tt_config_destroy(&c);
}

TT_TEST (relative_paths_start_from_the_job_file) {
  static const struct {
    const char *file, *set, *wanted;
  } path[] = {{"/no/such/place/job.yaml", "data.file=d.h5", "/no/such/place/d.h5"},
              {"/no/such/place/job.yaml", "data.file=/abs/d.h5", "/abs/d.h5"},
              {"/job.yaml", "data.file=./d.h5", "/d.h5"},
              {"/usr/../job.yaml", "data.file=x/d.h5", "/x/d.h5"}};
  for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
    tt_config *c = NULL;
    TT_CHECK_OK(
        tt_config_parse(path[i].file, least_job, (int64_t)strlen(least_job), &path[i].set, 1, &c));
    same_text(c->data_file, path[i].wanted);
    tt_config_destroy(&c);
  }
}

/* every row of the table */

/* A valid value of the option other than its default, as YAML and as it is written back. */
static void other_value(const tt_option *o, char yaml[128], char written[128])
{
  double some = (double)o->low + (o->high > 1e29L ? 0.37 : 0.37 * (double)(o->high - o->low));
  written[0] = '\0';
  switch (o->kind) {
  case TT_KIND_I64: snprintf(yaml, 128, "%d", (int)o->low + 3); break;
  case TT_KIND_F64:
    snprintf(yaml, 128, "%.3g", some);
    snprintf(written, 128, "%.15g", strtod(yaml, NULL));
    break;
  case TT_KIND_SECONDS:
  case TT_KIND_BYTES:
    snprintf(yaml, 128, "%s", o->kind == TT_KIND_BYTES ? "3MiB" : "3min");
    snprintf(written, 128, "%s", o->kind == TT_KIND_BYTES ? "3145728B" : "180s");
    break;
  case TT_KIND_BOOL: snprintf(yaml, 128, "%s", *o->default_value == 't' ? "false" : "true"); break;
  case TT_KIND_NAME:
    snprintf(yaml, 128, "%s",
             o->choices[!strcmp(o->choices[0], o->default_value) || *o->default_value == 'a']);
    break;
  case TT_KIND_COLUMNS:
  case TT_KIND_TEXT:
    snprintf(yaml, 128, "\"%s\"",
             o->default_value ? "a: 'b' # \\\"c\\\" \\\\ \xC3\xA9\\n\\u0001\\x85" : "q.1");
    snprintf(written, 128, "\"%s\"",
             o->default_value ? "a: 'b' # \\\"c\\\" \\\\ \xC3\xA9\\u000A\\u0001\\u0085" : "q.1");
    break;
  case TT_KIND_PATH: snprintf(yaml, 128, "\"/a b/c: d\""); break;
  case TT_KIND_LIST: snprintf(yaml, 128, "[3, 5, 7]"); break;
  case TT_KIND_REALS: snprintf(yaml, 128, "[0.125, 0.5]"); break;
  case TT_KIND_TEXTLIST: snprintf(yaml, 128, "[\"u\", \"v w\"]"); break;
  case TT_KIND_CLASSES:
    snprintf(yaml, 128, "{\"a, b\": [\"u\", \"v, w\"], c: [x, \"y\"]}");
    snprintf(written, 128, "{\"a, b\": [\"u\", \"v, w\"], \"c\": [\"x\", \"y\"]}");
    break;
  case TT_KIND_BYCOLUMN:
    snprintf(yaml, 128, "{a: %s, \"b, c*\": %s}", o->choices[1], o->choices[0]);
    snprintf(written, 128, "{\"a\": %s, \"b, c*\": %s}", o->choices[1], o->choices[0]);
    break;
  }
  if (!*written) snprintf(written, 128, "%s", yaml);
}

/* Values that have rules of their own. */
static void special_value(const tt_option *o, const char *option, char yaml[128], char written[128])
{
  const char *is = NULL;
  if (!strcmp(o->name, "label")) is = "\"b-c\"";
  if (!strcmp(option, "model.profile")) is = "[3, 5]";
  if (!strcmp(option, "train.freeze")) is = "1";
  if (!strcmp(option, "train.layer_rates")) is = "[0.125, 0.5, 1, 2]";
  if (!strcmp(option, "model.front")) is = "[\"conv 2 3\", \"global_mean\"]";
  if (!strncmp(option, "select.", 7) && o->kind == TT_KIND_TEXT) is = "\"0.25\""; /* a threshold */
  if (!is) return;
  snprintf(yaml, 128, "%s", is);
  snprintf(written, 128, "%s", is);
}

/* Options that need another option, and that other option (of the same ensemble or the job). */
static const char *companion(const char *option)
{
  static const char *const pair[][2] = {{"model.output", "train.loss=gaussian_nll"},
                                        {"model.image", "model.front=[global_mean]"},
                                        {"model.profile", "model.front=[global_mean]"},
                                        {"model.front", "model.profile=[1, 8]"},
                                        {"train.init_member", "train.init_from=model.h5"},
                                        {"train.init_layers", "train.init_from=model.h5"},
                                        {"train.momentum", "train.optimizer=sgd"},
                                        {"train.weight_decay", "train.optimizer=adamw"},
                                        {"train.schedule_milestones", "train.schedule=multistep"},
                                        {"search.folds", "search.budget=4"},
                                        {"search.seed", "search.budget=4"},
                                        {"train.when.labels", "campaign.mode=asynchronous"},
                                        {"train.when.share", "campaign.mode=asynchronous"},
                                        {"train.when.wait", "campaign.mode=asynchronous"},
                                        {"label.ahead", "campaign.mode=asynchronous"},
                                        {"pool.labels", "label.mode=hidden"},
                                        {"pool.command", "pool.file=''"},
                                        {"pool.chunks", "pool.command=[a]"},
                                        {"score.target_weights", "score.target_reduction=weighted"},
                                        {"score.weights", "score.ensemble_reduction=weighted"},
                                        {"score.floor", "score.acquisition=relative_std"},
                                        {"score.goal", "score.acquisition=expected_improvement"},
                                        {"score.kappa", "score.acquisition=confidence_bound"},
                                        {"select.prefilter", "select.method=kcenter"},
                                        {"select.length_scale", "select.method=penalty"},
                                        {"select.temperature", "select.method=stochastic"},
                                        {"label.script", "label.mode=slurm"},
                                        {"label.sigma", "data.sigma=s"},
                                        {"stop.accurate_fraction", "select.lower=0.1"},
                                        {"stop.accurate_rounds", "select.lower=0.1"},
                                        {"stop.plateau_delta", "stop.plateau_rounds=3"},
                                        {"stop.error_rows", "stop.error=0.1"},
                                        {"stop.change_rounds", "stop.change=0.1"},
                                        {"run.stages", "train.parts=4"}};
  if (strcmp(option, "train.nesterov") == 0) return "train.momentum=0.5";
  for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
    if (strcmp(option, pair[i][0]) == 0) return pair[i][1];
  return "data.split.seed=1";
}

static void value_is(const tt_option *o, const void *record, const char *wanted)
{
  char got[512] = "";
  FILE *f = fmemopen(got, sizeof got, "w");
  assert_non_null(f);
  tt_value_write(o, record, f);
  fclose(f);
  same_text(got, wanted);
}

static void check_row(const tt_option *o, int64_t element)
{
  static const char job[] = "data: {file: /d.h5, split: {train: 0.2, validation: 0.2, test: 0.2}}\n"
                            "ensembles: [{name: a}]\n";
  static const char campaign[] =
      "data: {file: /d.h5, split: {train: 0.2, validation: 0.2, test: 0.2}}\n"
      "ensembles: [{name: a}, {name: b}]\npool: {file: /p.h5}\nlabel: {command: [a, b]}\n";
  char path[TT_OPTION_PATH_SIZE], option[TT_OPTION_PATH_SIZE], yaml[128], written[128], set[300];
  other_value(o, yaml, written);
  tt_option_path(o, element, path);
  tt_option_path(o, -1, option);
  int of_campaign = tt_is_campaign_section(o->section);
  const char *text = of_campaign ? campaign : job;
  special_value(o, option, yaml, written);
  snprintf(set, sizeof set, "%s=%s", path, yaml);
  const char *also = !strcmp(option, "train.nesterov")     ? "train.optimizer=sgd"
                     : !strcmp(option, "label.mode")       ? "pool.labels=y"
                     : !strcmp(option, "pool.chunks")      ? "pool.file=''"
                     : !strcmp(option, "select.prefilter") ? "select.batch=1"
                                                           : "data.split.seed=1";
  const char *all[] = {companion(option), also, set};
  tt_config *c = must_parse(text, all, 3);
  value_is(o, element < 0 ? (void *)c : (void *)&c->ensemble[element], written);
  round_trip(c);
  tt_config_destroy(&c);
}

TT_TEST (every_option_can_be_set_and_is_read_back) {
  for (int i = 0; i < TT_OPTION_COUNT; i++) check_row(&tt_option_table[i], -1);
  for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++) check_row(&tt_ensemble_option_table[i], 0);
}

TT_TEST (defaults_are_those_of_the_table) {
  tt_config *c = must_parse(least_job, NULL, 0);
  for (int i = 0; i < TT_OPTION_COUNT; i++) {
    const tt_option *o = &tt_option_table[i];
    char wanted[128];
    int text = o->kind == TT_KIND_TEXT || o->kind == TT_KIND_COLUMNS;
    if (o->kind == TT_KIND_TEXTLIST || o->kind == TT_KIND_CLASSES)
      continue;                                /* not given: not written */
    if (i == TT_OPTION_model_output) continue; /* auto, resolved */
    if (!o->default_value || o->kind == TT_KIND_PATH || o->kind == TT_KIND_SECONDS) continue;
    snprintf(wanted, sizeof wanted, text ? "\"%s\"" : "%s", o->default_value);
    double x = strtod(wanted, NULL);
    if (o->kind != TT_KIND_F64 || strcmp(o->default_value, "auto") == 0)
      value_is(o, c, wanted);
    else
      TT_CHECK(*(double *)(void *)((char *)c + o->offset), ==, x);
  }
  round_trip(c);
  tt_config_destroy(&c);
}

TT_TEST (ensembles_may_differ_from_the_job) {
  static const char job[] = "data: {file: d.h5}\n"
                            "model: {hidden: [8], activation: tanh}\n"
                            "train: {loss: mae, epochs: 7, on_diverged: {retries: 1}}\n"
                            "ensembles:\n"
                            "- {name: a, model: {hidden: [3, 3]}, train: {epochs: 9}}\n"
                            "- {name: b, train: {loss: quantile, on_diverged: {reseed: false}}}\n"
                            "- {name: c}\n";
  tt_config *c = must_parse(job, NULL, 0);
  TT_CHECK(c->ensemble[0].model_hidden.count, ==, 2);
  TT_CHECK(c->ensemble[1].model_hidden.count, ==, 1);
  TT_CHECK(c->ensemble[0].train_epochs, ==, 9);
  TT_CHECK(c->ensemble[2].train_epochs, ==, 7);
  TT_CHECK(c->ensemble[1].train_on_diverged_retries, ==, 1);
  TT_CHECK(c->ensemble[1].train_on_diverged_reseed, ==, 0);
  TT_CHECK(c->ensemble[2].train_on_diverged_reseed, ==, 1);
  TT_CHECK(c->ensemble[0].model_output, ==, (int)TT_OUTPUT_mean);
  TT_CHECK(c->ensemble[1].model_output, ==, (int)TT_OUTPUT_quantiles);
  for (int i = 0; i < 3; i++) TT_CHECK(c->ensemble[i].model_activation, ==, (int)TT_ACT_tanh);
  char *text = NULL;
  TT_CHECK_OK(tt_config_to_yaml(c, &text));
  TT_CHECK_HAS(text, "  - name: \"b\"\n    members: 5\n    first_member: 0\n    model:\n"
                     "      output: quantiles\n    train:\n      loss: quantile\n"
                     "      on_diverged:\n        reseed: false\n");
  tt_free(text);
  round_trip(c);
  tt_config_destroy(&c);
}

/* The mean of members that a sweep makes different is advised against. */
TT_TEST (a_sweep_is_not_combined_by_the_mean_in_silence) {
  static const struct {
    const char *job, *advice;
  } row[] = {
      {"data: {file: a.h5}\nensembles: [{name: a, members: 4}]\n", NULL},
      {"data: {file: a.h5}\nensembles: [{name: b, members: 2}, {name: a, members: 4, sweep:"
       " {learning_rate: {log_uniform: [1e-4, 1]}, dropout: {uniform: [0, 0.5]}}}]\n",
       "ensemble a: its prediction is the plain mean of members that differ in learning_rate, "
       "dropout (sweep)"},
      {"data: {file: a.h5}\nensembles: [{name: a, members: 4, sweep: {l2: {uniform: [0, 1]}}}]\n"
       "combine: {method: greedy}\n",
       NULL},
      {"data: {file: a.h5}\nensembles: [{name: a, members: 1, sweep: {l2: {uniform: [0, 1]}}}]\n",
       NULL}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char text[1024];
    tt_config *c = NULL;
    TT_CHECK_OK(tt_config_parse("job.yaml", row[i].job, (int64_t)strlen(row[i].job), NULL, 0, &c));
    tt_config_mean_advice(c, text, sizeof text);
    TT_CHECK(*text != '\0', ==, row[i].advice != NULL);
    if (row[i].advice) TT_CHECK_HAS(text, row[i].advice);
    if (row[i].advice) TT_CHECK_HAS(text, "\ncombine: {method: greedy}");
    tt_config_destroy(&c);
  }
}

TT_TEST (sweeps_are_kept_in_their_order) {
  static const char job[] =
      "data: {file: d.h5}\n"
      "ensembles:\n"
      "- {name: a, members: 4, sweep: {learning_rate: {log_uniform: [1e-4, 1]},\n"
      "   patience: {list: [5, 7, 5, 5]}, epochs: {grid: [3, 9]}}}\n"
      "- {name: b}\n";
  const char *const set[] = {"ensembles.b.sweep.l2={choice: [0, 0.25]}",
                             "ensembles[0].sweep.learning_rate={uniform: [0.1, 0.2]}"};
  tt_config *c = must_parse(job, set, 2);
  const tt_sweep *s = c->ensemble[0].sweep;
  TT_CHECK(c->ensemble[0].sweeps, ==, 3);
  TT_CHECK(s[0].hyper, ==, (int)TT_HYPER_learning_rate);
  TT_CHECK((int)s[0].kind, ==, (int)TT_SWEEP_uniform);
  TT_CHECK(s[0].value[1], ==, 0.2);
  TT_CHECK(s[1].value[1], ==, 7.0);
  TT_CHECK(s[2].count, ==, 2);
  TT_CHECK(c->ensemble[1].sweep[0].value[1], ==, 0.25);
  char *text = NULL;
  TT_CHECK_OK(tt_config_to_yaml(c, &text));
  TT_CHECK_HAS(text, "    sweep:\n      learning_rate: {uniform: [0.1, 0.2]}\n"
                     "      patience: {list: [5, 7, 5, 5]}\n"
                     "      epochs: {grid: [3, 9]}\n");
  tt_free(text);
  round_trip(c);
  tt_config_destroy(&c);
}

TT_TEST (doubles_are_read_back_bit_by_bit) {
  uint64_t s = 88172645463325252ull;
  for (int i = 0; i < 500; i++) {
    double x = (double)(next_random(&s) >> 11) * 0x1p-53;
    for (uint64_t k = next_random(&s) % 8; k > 0; k--) x *= 1e-4;
    char set[64];
    const char *one = set;
    snprintf(set, sizeof set, "train.learning_rate=%.17g", x);
    tt_config *c = must_parse(least_job, &one, 1);
    TT_CHECK(c->defaults.train_learning_rate, ==, x);
    char *text = NULL;
    TT_CHECK_OK(tt_config_to_yaml(c, &text));
    tt_config *back = must_parse(text, NULL, 0);
    TT_CHECK(back->defaults.train_learning_rate, ==, x);
    TT_CHECK(back->ensemble[0].train_learning_rate, ==, x);
    tt_free(text);
    tt_config_destroy(&c);
    tt_config_destroy(&back);
  }
}

TT_TEST (the_hash_depends_on_options_that_decide_results) {
  static const struct {
    const char *set;
    int differs;
  } change[] = {{"run.directory=/else", 0},
                {"run.threads=2", 0},
                {"run.device=cpu", 0},
                {"checkpoint.every=1min", 0},
                {"run.max_time=1h", 0},
                {"title=other", 0},
                {"data.file=/moved.h5", 0},
                {"train.max_diverged=0.5", 0},
                {"run.watchdog=1h", 0},
                {"run.seed=5", 1},
                {"data.split.seed=5", 1},
                {"data.inputs=z", 1},
                {"model.hidden=[64]", 1},
                {"train.epochs=7", 1},
                {"ensembles[1].members=7", 1},
                {"ensembles[1].name=new", 1},
                {"ensembles[0].train.learning_rate=7", 1},
                {"ensembles[0].sweep.l2={uniform: [0, 1]}", 1},
                {"ensembles[0].first_member=7", 1},
                {"ensembles[0].target=t", 1},
                {"train.init=he_uniform", 1},
                {"model.activation=relu", 1}};
  tt_config *c = must_parse(main_job, NULL, 0);
  uint64_t before = tt_config_result_hash(c);
  tt_config_destroy(&c);
  for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
    const char *set = change[i].set;
    if (strcmp(set, "train.init=he_uniform") == 0) set = "model.init=he_uniform";
    c = must_parse(main_job, &set, 1);
    if ((tt_config_result_hash(c) != before) != change[i].differs) fprintf(stderr, "%s\n", set);
    TT_CHECK(tt_config_result_hash(c) != before, ==, change[i].differs);
    tt_config_destroy(&c);
  }
}

TT_TEST (unreadable_files_are_missing_input) {
  char *text = NULL, name[] = "/tmp/test_config_XXXXXX";
  int64_t bytes = 0;
  TT_CHECK(tt_config_read_file("/no/such/job.yaml", &text, &bytes), ==, (tt_err)TT_E_NOINPUT);
  TT_CHECK_HAS(tt_err_last(), "/no/such/job.yaml: No such file");
  TT_CHECK(tt_config_read_file("/tmp", &text, &bytes), ==, (tt_err)TT_E_NOINPUT);
  TT_CHECK_HAS(tt_err_last(), "/tmp is a directory");
  TT_CHECK(tt_config_read_file("/dev/zero", &text, &bytes), ==, (tt_err)TT_E_NOINPUT);
  TT_CHECK_HAS(tt_err_last(), "/dev/zero is a device");
  int fd = mkstemp(name);
  TT_CHECK(write(fd, main_job, sizeof main_job - 1), ==, (ssize_t)sizeof main_job - 1);
  close(fd);
  TT_CHECK_OK(tt_config_read_file(name, &text, &bytes));
  unlink(name);
  TT_CHECK(bytes, ==, (int64_t)sizeof main_job - 1);
  TT_CHECK(memcmp(text, main_job, (size_t)bytes), ==, 0);
  tt_free(text);
}

/* the page of options */

TT_TEST (help_names_every_option) {
  char *text = NULL, path[TT_OPTION_PATH_SIZE];
  TT_CHECK_OK(tt_config_options_text(0, &text));
  for (int i = 0; i < TT_OPTION_COUNT; i++) {
    tt_option_path(&tt_option_table[i], -1, path);
    TT_CHECK_HAS(text, path);
    TT_CHECK_HAS(text, tt_option_table[i].help);
  }
  tt_free(text);
}

TT_TEST (the_page_in_docs_is_up_to_date) {
  char *wanted = NULL, *got = NULL;
  int64_t bytes = 0;
  TT_CHECK_OK(tt_config_options_text(1, &wanted));
  TT_CHECK_OK(tt_config_read_file(TUTTI_SOURCE "/docs/options.md", &got, &bytes));
  if (strcmp(got, wanted) != 0) fprintf(stderr, "run: unit_config --write-docs\n");
  same_text(got, wanted);
  tt_free(wanted);
  tt_free(got);
}

static int write_docs(int argc __attribute__((unused)), char **argv __attribute__((unused)))
{
  char *text = NULL;
  FILE *f = fopen(TUTTI_SOURCE "/docs/options.md", "w");
  if (!f || tt_config_options_text(1, &text) != TT_OK) return 1;
  fputs(text, f);
  tt_free(text);
  return fclose(f) != 0;
}

TT_COMMAND("--write-docs", write_docs)
