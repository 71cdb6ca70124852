/* bench_engine.c — training speed of the engines on the workloads of workload.h, as lines of JSON.
 * It fills cohort and data set in memory and reads no job file.
 *
 *   bench_engine --workload NAME [--engine cpu|cuda] [--path NAME|all] [--precision NAME|all]
 *                [--threads N] [--share-flops N] [--simd NAME] [--members N] [--case DIR]
 *                [--parts N] [--repeats N] [--seconds S] [--roof-tflops X]
 *       one line per path and precision: its losses compared with the reference in DIR, and its
 *       speed, also as a share of the peak (measured for the cpu engine, that of an H200 for cuda),
 *       or the reason why it cannot run
 *   bench_engine --workload A --export DIR
 *       write the data and initial weights that the programs of peers/ start from
 *   bench_engine --serve [--engine ...] [--members N] [--threads N] [--simd NAME]
 *       read commands and answer each with one line, so that several programs are timed in turn:
 *         list                         print the paths and precisions
 *         prepare DIR PATH PRECISION   prepare a run; the last part of DIR is the workload
 *         time PATH PRECISION SECONDS  print the steps taken and the seconds they took
 *         drop                         free all prepared runs
 *       The programs of peers/ read the same commands. */
#include "bench/bench_line.h"
#include "bench/roof.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HELD = 32, LINE_ROOM = 1024, WORD_ROOM = 512 };

typedef struct options {
  bench_setting set;
  const char *workload, *path, *precision, *export, *folder;
  int64_t members, parts;
  double seconds;
  int repeats, serve;
} options;

/* Number of `word` in a NULL-terminated list, or -1. */
static int number_of(const char *word, const char *const *list)
{
  for (int i = 0; list[i]; i++)
    if (!strcmp(list[i], word)) return i;
  return -1;
}

/* one line for each path and precision */

static tt_err one_way(const options *o, const bench_workload *load, const bench_setting *set)
{
  bench_run *run = NULL;
  bench_time each[BENCH_MOST_REPEATS];
  tt_err e = bench_prepare(load, set, o->folder, &run);
  for (int i = 0; !e && i < o->repeats; i++)
    e = bench_time_steps(run, o->seconds / o->repeats, &each[i]);
  if (e)
    bench_print_refusal(load, set);
  else
    bench_print_summary(run, o->repeats, each);
  bench_drop(&run);
  return e == TT_E_UNAVAILABLE ? TT_OK : e; /* an unsupported shape is not an error */
}

/* 1 if entry `i` of a list is selected by `word`; `all` does not include auto. */
static int asked(const char *word, const char *const *list, int i)
{
  return !strcmp(word, "all") ? strcmp(list[i], "auto") != 0 : !strcmp(word, list[i]);
}

/* Peak FLOP/s of what is timed: as given, that of an H200, or as the processor has it now. */
static double roof_of(const options *o)
{
  if (o->set.roof > 0.0) return o->set.roof;
  return o->set.ops == &tt_engine_cpu ? bench_cpu_roof(o->set.use.threads) : BENCH_H200_FP32;
}

static tt_err all_ways(const options *o)
{
  bench_workload load;
  const double roof = roof_of(o);
  const char *const *ways = bench_ways(o->set.ops);
  tt_err worst = TT_OK;
  TT_TRY(bench_find(o->workload, o->members, &load));
  load.parts = o->parts;
  for (int w = 0; ways[w]; w++)
    for (int p = 0; bench_precisions[p]; p++) {
      if (!asked(o->path, ways, w) || !asked(o->precision, bench_precisions, p)) continue;
      bench_setting set = o->set;
      set.roof = roof;
      set.way = w;
      set.precision = p;
      tt_err e = one_way(o, &load, &set);
      if (e > worst) worst = e;
    }
  return worst;
}

/* commands */

typedef struct held {
  bench_run *run[MOST_HELD];
  int count;
} held;

static void drop_all(held *h)
{
  while (h->count > 0) bench_drop(&h->run[--h->count]);
}

static tt_err prepare(const options *o, held *h, const char *folder, bench_setting *set)
{
  bench_workload load;
  const char *name = strrchr(folder, '/');
  name = name ? name + 1 : folder;
  TT_TRY(bench_find(name, o->members, &load));
  if (h->count == MOST_HELD)
    return TT_FAIL(USAGE, "%d runs are prepared: drop them first", MOST_HELD);
  if (bench_prepare(&load, set, folder, &h->run[h->count])) {
    bench_print_refusal(&load, set);
    bench_drop(&h->run[h->count]);
  } else
    bench_print_ready(h->run[h->count++]);
  return TT_OK;
}

static tt_err time_held(const held *h, const bench_setting *set, double seconds)
{
  bench_time t;
  for (int i = 0; i < h->count; i++)
    if (bench_is(h->run[i], set)) {
      TT_TRY(bench_time_steps(h->run[i], seconds, &t));
      bench_print_time(&t);
      return TT_OK;
    }
  return TT_FAIL(USAGE, "this run is not prepared");
}

/* Path and precision from their names; errors: USAGE. */
static tt_err read_setting(const options *o, const char *way, const char *precision,
                           bench_setting *out)
{
  *out = o->set;
  out->way = number_of(way, bench_ways(o->set.ops));
  out->precision = number_of(precision, bench_precisions);
  if (out->way < 0) return TT_FAIL(USAGE, "there is no path '%s'", way);
  if (out->precision < 0) return TT_FAIL(UNAVAILABLE, "there is no precision '%s'", precision);
  return TT_OK;
}

static tt_err obey(const options *o, held *h, const char *line)
{
  char a[WORD_ROOM], b[WORD_ROOM], c[WORD_ROOM];
  bench_setting set;
  if (!strncmp(line, "list", 4)) {
    bench_print_list(o->set.ops);
    return TT_OK;
  }
  if (!strncmp(line, "drop", 4)) {
    drop_all(h);
    bench_print_done();
    return TT_OK;
  }
  if (sscanf(line, "prepare %511s %511s %511s", a, b, c) == 3) {
    TT_TRY(read_setting(o, b, c, &set));
    return prepare(o, h, a, &set);
  }
  if (sscanf(line, "time %511s %511s %511s", a, b, c) == 3) {
    TT_TRY(read_setting(o, a, b, &set));
    return time_held(h, &set, atof(c));
  }
  return TT_FAIL(USAGE, "unknown command");
}

static tt_err serve(const options *o)
{
  held h = {0};
  char line[LINE_ROOM];
  while (fgets(line, sizeof line, stdin))
    if (obey(o, &h, line)) bench_print_error();
  drop_all(&h);
  return TT_OK;
}

/* command line */

static tt_err take(options *o, int key, const char *word)
{
  switch (key) {
  case 'w': o->workload = word; break;
  case 'p': o->path = word; break;
  case 'c': o->precision = word; break;
  case 'x': o->export = word; break;
  case 'd': o->folder = word; break;
  case 'm': o->members = atoll(word); break;
  case 'k': o->parts = atoll(word); break;
  case 's': o->seconds = atof(word); break;
  case 'r': o->repeats = atoi(word); break;
  case 't': o->set.use.threads = atoi(word); break;
  case 'h': o->set.use.share_flops = atoll(word); break;
  case 'f': o->set.roof = atof(word) * 1e12; break;
  case 'v': o->serve = 1; break;
  case 'i':
    o->set.use.simd = (tt_simd)number_of(word, tt_choice_simd);
    if (number_of(word, tt_choice_simd) < 0) return TT_FAIL(USAGE, "--simd %s", word);
    break;
  case 'e': return bench_engine_find(word, &o->set.ops);
  default: return TT_FAIL(USAGE, "see the head of bench_engine.c");
  }
  return TT_OK;
}

static tt_err parse(int argc, char **argv, options *o)
{
  static const struct option table[] = {
      {"workload", required_argument, NULL, 'w'}, {"engine", required_argument, NULL, 'e'},
      {"path", required_argument, NULL, 'p'},     {"precision", required_argument, NULL, 'c'},
      {"threads", required_argument, NULL, 't'},  {"simd", required_argument, NULL, 'i'},
      {"members", required_argument, NULL, 'm'},  {"case", required_argument, NULL, 'd'},
      {"export", required_argument, NULL, 'x'},   {"repeats", required_argument, NULL, 'r'},
      {"seconds", required_argument, NULL, 's'},  {"roof-tflops", required_argument, NULL, 'f'},
      {"serve", no_argument, NULL, 'v'},          {"share-flops", required_argument, NULL, 'h'},
      {"parts", required_argument, NULL, 'k'},    {NULL, 0, NULL, 0}};
  for (int key; (key = getopt_long(argc, argv, "", table, NULL)) != -1;)
    TT_TRY(take(o, key, optarg));
  if (!o->serve && !o->workload)
    return TT_FAIL(USAGE, "--workload A|B|C|D|E|F|U1|U2|U3, or --serve");
  if (o->set.use.threads < 1 || !(o->seconds > 0) || o->repeats < 1 || o->members < 0 ||
      o->parts < 1 || o->repeats > BENCH_MOST_REPEATS)
    return TT_FAIL(USAGE,
                   "--threads, --parts, --seconds and --repeats are positive, --repeats at most %d",
                   BENCH_MOST_REPEATS);
  return TT_OK;
}

static tt_err export(const options *o)
{
  bench_workload load;
  TT_TRY(bench_find(o->workload, o->members, &load));
  return bench_export(&load, o->export);
}

int main(int argc, char **argv)
{
  options o = {.set = {.ops = &tt_engine_cpu, .use = {.threads = 2}},
               .path = "all",
               .precision = "all",
               .parts = 1,
               .seconds = 5.0,
               .repeats = 7};
  setvbuf(stdout, NULL, _IOLBF, 0);
  tt_err e = parse(argc, argv, &o);
  if (!e) e = o.serve ? serve(&o) : o.export ? export(&o) : all_ways(&o);
  if (e) fprintf(stderr, "bench_engine: %s\n", tt_err_last());
  return tt_err_exit_code(e);
}
