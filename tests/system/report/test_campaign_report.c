/* test_campaign_report.c — status and report of campaigns, from files with known values. One
 * process. With TUTTI_TEST_KEEP=DIR the output stays in DIR for check_campaign_report.py. */
#include "tests/support/check.h"
#include "tests/support/made_up.h"

#include "core/base/directory.h"
#include "core/base/log.h"
#include "io/campaign/campaign_files.h"
#include "src/campaign/report/campaign_report.h"
#include "src/campaign/state/file_names.h"
#include "src/campaign/state/journal.h"
#include "src/host/status_file.h"
#include "src/report/chart.h"

#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 5, OUTPUT_ROOM = 1 << 16 };

static char output[OUTPUT_ROOM];

/* test campaigns */

/* Errors fall like 1 / labels^power. */
static void make_round(tt_history *h, int64_t columns, int64_t i, double power)
{
  tt_round *r = NULL;
  TT_CHECK_OK(tt_history_add_round(h, columns, &r));
  r->labels = 20 + 10 * i;
  r->pool = r->pool_rows = 1000 - 10 * i;
  r->accurate = r->pool / 2;
  r->candidate = r->pool - r->accurate;
  r->queried = i + 1 < ROUNDS ? 11 : 0;
  r->label_failed = i + 1 < ROUNDS ? 1 : 0;
  r->diverged = i == 2;
  for (int k = 0; k < TT_STAGE_COUNT; k++) r->seconds[k] = 0.5 * (k + 1);
  for (int64_t c = 0; c < columns; c++) {
    r->rmse[c] = (double)(c + 1) * pow(20.0 / (double)r->labels, power);
    r->nll[c] = -r->rmse[c];
    r->spread[c] = 0.1 * r->rmse[c];
  }
}

/* Eleven queries with three inputs; the first one has no label. */
static void make_queries(tt_history *h, int32_t round)
{
  enum { QUERIES = 11 };
  tt_query query[QUERIES];
  double x[3 * QUERIES], y[4 * QUERIES];
  for (int i = 0; i < QUERIES; i++) {
    query[i] =
        (tt_query){.row = 100 * round + i, .round = round, .label_status = i > 0, .score = i};
    for (int d = 0; d < 3; d++) x[3 * i + d] = round + 0.1 * i * d;
  }
  for (int i = 0; i < 4 * QUERIES; i++) y[i] = i;
  TT_CHECK_OK(tt_history_add_queries(h, QUERIES, query, x, y));
}

static const char *place(const char *name)
{
  tt_directory_create(at(name));
  return at(name);
}

static void make_campaign(const char *name, int64_t rounds, int64_t columns, double power,
                          const char *by, int ended)
{
  static const char *const label[] = {"q<e>", "\xCE\xB8 & co"};
  char resolved[512], path[TT_PATH_MAX];
  tt_history *h = NULL;
  tt_columns input = {0}, target = {0};
  made_up_columns(&input, 3, "feature");
  made_up_columns(&target, columns, "target");
  TT_CHECK_OK(tt_history_create(3, columns, &h));
  for (int64_t i = 0; i < rounds; i++) make_round(h, columns, i, power);
  for (int64_t i = 0; i + 1 < rounds; i++) make_queries(h, (int32_t)i + 1);
  h->ended = ended;
  static int seed = 0;
  snprintf(resolved, sizeof resolved,
           "data: {file: d.h5, split: {seed: %d}}\nmodel: {hidden: [5]}\npool: {file: p.h5}\n"
           "label: {command: [a]}\nscore: {acquisition: %s}\nensembles: [{name: a}]\n"
           "campaign: {directory: d%d}\nrun: {seed: %d}\n",
           seed, by, seed, seed);
  seed++;
  tt_provenance provenance = made_up_provenance(comm);
  provenance.resolved = resolved;
  const tt_history_names names = {&input, &target, label, NULL};
  tt_path_join(place(name), "campaign.h5", path);
  TT_CHECK_OK(tt_history_write(comm, path, h, &names, &provenance));
  tt_columns_free(&input);
  tt_columns_free(&target);
  tt_history_destroy(&h);
}

/* Write the files of a driver in stage `stage` of round `round`, and those of the stages before it.
 */
static void make_status(const char *name, const char *state, int64_t round, tt_stage stage)
{
  char path[TT_PATH_MAX];
  tt_journal *j = NULL;
  tt_run_status s = {.state = state,
                     .reason = tt_stage_name[stage],
                     .stop = "",
                     .incarnation = "4712.3.elsewhere.0123456789abcdef",
                     .exit_code = -1,
                     .generation = TT_STAGE_COUNT * (round - 1) + (int64_t)stage};
  TT_CHECK_OK(tt_status_file_write_local(place(name), &s));
  tt_path_join(at(name), "journal.jsonl", path);
  TT_CHECK_OK(tt_journal_open_local(path, "1", &j));
  TT_CHECK_OK(
      tt_journal_append_done_local(j, &(tt_journal_entry){round, TT_STAGE_train, 1, 2, 3661.0}));
  tt_journal_close_local(&j);
}

static void make_training(const char *name, int64_t round)
{
  char path[TT_PATH_MAX];
  const tt_run_status s = {.state = "training",
                           .incarnation = "0.0.elsewhere.1",
                           .exit_code = -1,
                           .members = 50,
                           .training = 47,
                           .finished = 3,
                           .epoch = 120,
                           .epochs = 200,
                           .rate = 1234.5,
                           .eta = 75};
  tt_round_path(at(name), round, "", path);
  TT_CHECK_OK(tt_directory_create(path));
  TT_CHECK_OK(tt_status_file_write_local(path, &s));
}

/* output */

/* Capture standard output in `output` and in a file. */
static int begin_listening(const char *file)
{
  fflush(stdout);
  int kept = dup(STDOUT_FILENO), fd = open(at(file), O_RDWR | O_CREAT | O_TRUNC, 0600);
  dup2(fd, STDOUT_FILENO);
  close(fd);
  return kept;
}

static void end_listening(int kept, const char *file)
{
  fflush(stdout);
  dup2(kept, STDOUT_FILENO);
  close(kept);
  FILE *f = fopen(at(file), "r");
  size_t n = f ? fread(output, 1, sizeof output - 1, f) : 0;
  output[n] = 0;
  if (f) fclose(f);
}

static void listen_to_status(const char *name, int json)
{
  char file[60];
  snprintf(file, sizeof file, "%s%s", name, json ? ".json" : ".txt");
  int kept = begin_listening(file);
  tt_err e = tt_campaign_status_local(at(name), json);
  end_listening(kept, file);
  TT_CHECK_OK(e);
}

/* Write the page. */
static tt_err listen_to_report(const char *const *name, int n, const char *dst)
{
  const char *directory[4];
  char path[4][SCRATCH_ROOM + 64];
  for (int i = 0; i < n; i++) directory[i] = strcpy(path[i], at(name[i]));
  strcat(strcpy(path[3], place(dst)), "/report.html");
  int kept = begin_listening("report.txt");
  tt_err e = tt_campaign_page_write_local(directory, n, path[3], 0, 0);
  end_listening(kept, "report.txt");
  return e;
}

/* The page once more, with its JSON object in report-page.txt. */
static tt_err listen_to_page(const char *name)
{
  char path[SCRATCH_ROOM + 64];
  const char *directory = strcpy(path, at(name));
  int kept = begin_listening("report-page.txt");
  tt_err e = tt_campaign_page_write_local(&directory, 1, at("report/report.html"), 0, 1);
  end_listening(kept, "report-page.txt");
  return e;
}

static void has_all(const char *const *part)
{
  for (; *part; part++) TT_CHECK_HAS(output, *part);
}

TT_TEST (status_of_a_round_that_trains) {
  make_campaign("trains", 3, 2, 0.5, "bald", -1);
  make_status("trains", "running", 4, TT_STAGE_train);
  make_training("trains", 4);
  listen_to_status("trains", 0);
  has_all((const char *const[]){"running: round 4, train", "Slurm 4712, restart 3", "rounds      3",
                                "labels      50; 33 queried, 3 failed",
                                "980 candidates: accurate 50.00 %, candidate 50.00 %, failed 0.00",
                                "test rmse   q<e> 0.7071, \xCE\xB8 & co 1.414",
                                "members     50: 47 in training", "epoch       120 of at most 200",
                                "time left   1:15", "time        1:01:01 in finished stages",
                                NULL});
  listen_to_status("trains", 1);
  has_all((const char *const[]){"\"round\": 4,", "\"rounds\": 3,", "\"stage\": \"train\"",
                                "\"labels_now\": 50,", "\"eta\": 75", "\"epoch\": 120",
                                "\"upper\": null", "\"q<e>\": 0.707106781", "\"ended\": \"\"",
                                NULL});
}

TT_TEST (status_after_the_end) {
  make_campaign("ended", ROUNDS, 1, 0.5, "bald", TT_STOP_RULE_plateau);
  make_status("ended", "done", ROUNDS, TT_STAGE_merge);
  listen_to_status("ended", 0);
  has_all((const char *const[]){"ended by rule plateau (stop.plateau_rounds)", "rounds      5",
                                "labels      60; 44 queried, 4 failed", NULL});
  listen_to_status("ended", 1);
  has_all((const char *const[]){"\"ended\": \"plateau\"", "\"round\": 5,", NULL});
}

/* No finished round yet; the oracle is running; no status file; an empty directory. */
TT_TEST (status_of_a_first_round) {
  make_status("young", "running", 1, TT_STAGE_label);
  char path[TT_PATH_MAX];
  for (int i = 0; i < 5; i++) {
    char group[32];
    snprintf(group, sizeof group, "label/%04d%s", i, i % 2 ? "/accepted.h5" : "");
    tt_round_path(at("young"), 1, group, path);
    TT_CHECK_OK(tt_directory_create(path)); /* a directory in place of a file is enough here */
  }
  listen_to_status("young", 0);
  has_all((const char *const[]){"running: round 1, label", "2 of 5 groups", NULL});
  listen_to_status("young", 1);
  has_all((const char *const[]){"\"groups_done\": 2", "\"rounds\": 0", NULL});
  tt_path_join(at("young"), "status.json", path);
  unlink(path);
  listen_to_status("young", 0);
  has_all((const char *const[]){"state       unknown", NULL});
  TT_CHECK((int)tt_campaign_status_local(at("nothing"), 0), ==, TT_E_NOINPUT);
  TT_CHECK_HAS(tt_err_last(), "campaign.directory");
}

/* A process of this host that does not exist: the number of one that has just ended. */
TT_TEST (a_killed_campaign_is_reported) {
  char host[256] = "", incarnation[320];
  gethostname(host, sizeof host - 1);
  for (int alive = 0; alive < 2; alive++) {
    snprintf(incarnation, sizeof incarnation, "0.0.%.40s.0123456789abcdef", host);
    const tt_run_status s = {.state = "running", .incarnation = incarnation, .generation = 3};
    pid_t child = alive ? 0 : fork();
    if (child == 0) {
      if (tt_status_file_write_local(place("killed"), &s)) _exit(1);
      if (!alive) _exit(0);
    } else {
      waitpid(child, NULL, 0);
    }
    listen_to_status("killed", 0);
    TT_CHECK(strstr(output, "its process has ended") != NULL, ==, !alive);
  }
}

TT_TEST (a_report_has_all_rounds) {
  make_campaign("variance", ROUNDS, 2, 1.0, "epistemic_std", TT_STOP_RULE_labels);
  make_campaign("baseline", ROUNDS, 2, 0.5, "random", -1);
  const char *const both[] = {"variance", "baseline"};
  TT_CHECK_OK(listen_to_report(both, 2, "report"));
  TT_CHECK_OK(listen_to_page("variance"));
  TT_CHECK_OK(listen_to_report(both, 2, "report"));
  const char *const same[] = {"variance", "variance"};
  TT_CHECK_OK(listen_to_report(same, 2, "report-same"));
  const char *const other[] = {"variance", "ended"};
  TT_CHECK((int)listen_to_report(other, 2, "report-other"), ==, TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "other columns");
  const char *const none[] = {"nothing"};
  TT_CHECK((int)listen_to_report(none, 1, "report-none"), ==, TT_E_NOINPUT);
}

TT_TEST (a_report_of_one_round) {
  make_campaign("one", 1, 1, 0.5, "bald", -1);
  const char *const one[] = {"one"};
  TT_CHECK_OK(listen_to_report(one, 1, "report-one"));
}

TT_TEST (a_report_compares_campaigns) {
  static const struct {
    const char *name, *by;
    int64_t rounds;
    double power;
  } made[] = {{"compared/z-1", "epistemic_std", 5, 0.4},
              {"compared/z-3", "epistemic_std", 3, 0.6},
              {"compared/a-1", "random", 5, 0.2}};
  enum { N = sizeof made / sizeof *made };
  char folder[N][SCRATCH_ROOM + 64], file[SCRATCH_ROOM + 64];
  const char *directory[N];
  place("compared");
  for (int i = 0; i < N; i++) {
    make_campaign(made[i].name, made[i].rounds, 1, made[i].power, made[i].by, -1);
    directory[i] = strcpy(folder[i], at(made[i].name));
  }
  strcpy(file, at("compared/report.html"));
  int kept = begin_listening("compared.json");
  tt_err e = tt_campaign_page_write_local(directory, N, file, 0, 1);
  end_listening(kept, "compared.json");
  TT_CHECK_OK(e);
}

/* The element has finite coordinates, and no character that ends an attribute. */
static void check_chart(const tt_chart *c, const char *name)
{
  char *text = NULL;
  size_t size = 0;
  FILE *f = open_memstream(&text, &size);
  tt_chart_put_inline(f, c);
  fclose(f);
  TT_CHECK(strstr(text, "nan") == NULL && strstr(text, "inf") == NULL, ==, 1);
  TT_CHECK(strstr(text, "<&>") == NULL, ==, 1);
  TT_CHECK_OK(tt_file_write_atomic_local(at(name), text));
  free(text);
}

TT_TEST (any_numbers_can_be_drawn) {
  static const double edge[] = {0,    1,     -1,       1e-300, 1e300, 0.1,  1e12,
                                -1e9, 1e-12, INFINITY, NAN,    5,     5.01, 123456789};
  enum { N = sizeof edge / sizeof *edge };
  for (int shift = 0; shift < N; shift++) {
    double x[N], y[N];
    for (int i = 0; i < N; i++) {
      x[i] = edge[(i * 3 + shift) % N];
      y[i] = edge[(i * 5 + 2 * shift) % N];
    }
    const char *const odd = "\xFF<&>\x01\xEF\xBF\xBF";
    const tt_chart_series series[] = {
        {.name = odd,
         .points = N - shift,
         .x = x,
         .y = y,
         .mark = (tt_chart_mark)(shift % TT_CHART_MARKS)},
        {.name = "alone",
         .points = 1,
         .x = x + shift,
         .y = y + shift,
         .mark = TT_CHART_LINE,
         .style = 1},
        {.name = "empty", .x = x, .y = y, .mark = TT_CHART_LINE, .style = 2}};
    const tt_chart c = {.title = "a & b",
                        .x_label = "x < y",
                        .y_label = "\"y\"",
                        .count = shift % 4,
                        .series = series,
                        .is_square = shift % 3 == 0,
                        .least_x_step = 1};
    char name[32];
    snprintf(name, sizeof name, "chart-%d.svg", shift);
    check_chart(&c, name);
  }
}

TT_SUITE(errors_only, NULL)
