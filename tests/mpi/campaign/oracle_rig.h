/* oracle_rig.h — a campaign with five queries, for the tests of stage label. Paths contain blanks
 * and quotes, because no shell may be used. */
#ifndef TT_ORACLE_RIG_H
#define TT_ORACLE_RIG_H
#include "tests/mpi/campaign/oracle_child.h"
#include "tests/support/check.h"
#include "tests/support/ranks.h"

#include "core/base/log.h"
#include "io/checkpoint/checkpoint.h"
#include "io/files/files.h"
#include "io/hdf5/guarded_check.h"
#include "src/campaign/label/oracle.h"

#include <inttypes.h>

enum { N = 5, D = 3, T = ORACLE_TARGETS, ROOM = 4096 };

static char campaign[SCRATCH_ROOM + 32], label[SCRATCH_ROOM + 64], program[SCRATCH_ROOM + 32];
static tt_run_id owner;
static tt_columns input, target;
static const int64_t rows[N] = {40, 7, 4000000007, 12, 3};

/* Text as a YAML string in single quotes. */
static inline void quote(const char *text, char *dst)
{
  while ((*dst++ = *text) != '\0')
    if (*text++ == '\'') *dst++ = '\'';
}

/* Without `word`, there is no label.command. */
static inline tt_config *job(const char *word, const char *more)
{
  char text[2 * ROOM], quoted[ROOM];
  tt_config *cfg = NULL;
  quote(program, quoted);
  snprintf(text, sizeof text,
           "data: {file: d.h5}\nensembles: [{name: a}]\npool: {file: p.h5}\n"
           "label: {poll_interval: 0.01s, %s%s%s%s%s}\n",
           *word ? "command: ['" : "", *word ? quoted : "", *word ? "', oracle, " : "", word,
           *word ? ", '{input}', '{output}'], " : "");
  snprintf(text + strlen(text) - 2, sizeof text - strlen(text), "%s}\n", more);
  TT_CHECK_OK(tt_config_parse("campaign.yaml", text, (int64_t)strlen(text), NULL, 0, &cfg));
  return cfg;
}

static inline tt_queries *queries(void)
{
  tt_queries *p = NULL;
  TT_CHECK_OK(tt_queries_create(N, D, &p));
  for (int i = 0; i < N; i++) p->row[i] = rows[i];
  for (int i = 0; i < N * D; i++) p->x[i] = (i + 1) / 3.0;
  return p;
}

static inline void drop_record(void)
{
  char path[ROOM];
  snprintf(path, sizeof path, "%s/events.jsonl", campaign);
  if (tt_comm_is_root(comm)) unlink(path);
}

/* 0 = each stage begins with an empty record: only the groups tell what is labeled. */
static int keeps_record;

static inline tt_err ask_of(const tt_config *cfg, const tt_queries *p, tt_pool *pool,
                            tt_query_labels **out)
{
  tt_points *points = NULL;
  if (!keeps_record) drop_record();
  tt_err e = tt_comm_is_root(comm) ? tt_points_open_local(campaign, TT_LINE_LOG_replace, &input,
                                                          &target, "rig", &points)
                                   : TT_OK;
  tt_label_request q = {.cfg = cfg,
                        .file = "campaign.yaml",
                        .campaign = campaign,
                        .incarnation = owner.incarnation,
                        .directory = label,
                        .round = 1,
                        .queries = p,
                        .points = points,
                        .pool = pool,
                        .input = &input,
                        .target = &target};
  e = tt_agree(comm, e);
  if (!e) e = tt_oracle_label(comm, &q, out);
  tt_points_close_local(&points);
  return e;
}

static inline tt_err ask(const char *word, const char *more, tt_query_labels **out)
{
  tt_config *cfg = job(word, more);
  tt_queries *p = queries();
  tt_err e = ask_of(cfg, p, NULL, out);
  tt_queries_destroy(&p);
  tt_config_destroy(&cfg);
  return e;
}

static inline const char *in_label(const char *name)
{
  static char path[2][ROOM];
  static int turn;
  turn = !turn;
  snprintf(path[turn], ROOM, "%s/%s", label, name);
  return path[turn];
}

static inline int is_there(const char *name) { return !access(in_label(name), F_OK); }

static inline void clear(void)
{
  tt_barrier(comm);
  if (tt_comm_is_root(comm)) {
    tt_directory_remove(label);
    drop_record();
  }
  tt_barrier(comm);
}

/* Number of calls so far, over all groups. */
static inline int calls(void)
{
  int n = 0;
  char group[32];
  for (int g = 1; g <= 2 * N; g++) {
    snprintf(group, sizeof group, "%04d", g);
    n += scratch_count(in_label(group), "try-");
  }
  return n;
}

/* Number of labeled rows; checks that all labels are right. The same on all ranks. */
static inline int check_labels(const tt_query_labels *a)
{
  int n = 0;
  tt_queries *p = queries();
  for (int i = 0; i < N; i++) {
    double y[T];
    oracle_label(p->x + i * D, y);
    for (int k = 0; k < T; k++)
      if (!isnan(a->y[i * T + k])) TT_CHECK(a->y[i * T + k], ==, y[k]);
    n += !isnan(a->y[i * T]) || !isnan(a->y[i * T + 1]);
  }
  TT_CHECK(tt_labeled_rows(a->y, N, T), ==, n);
  tt_queries_destroy(&p);
  return n;
}

static inline int labeled_by(const char *word, const char *more)
{
  tt_query_labels *a = NULL;
  TT_CHECK_OK(ask(word, more, &a));
  int n = check_labels(a);
  tt_query_labels_destroy(&a);
  return n;
}

static inline void refused(const char *word, const char *more, tt_err wanted, const char *text)
{
  tt_query_labels *a = NULL;
  TT_CHECK((int)ask(word, more, &a), ==, (int)wanted);
  TT_CHECK_HAS(tt_err_last(), text);
  TT_CHECK(a == NULL, ==, 1);
}

/* begin and end */

static inline void name_columns(void)
{
  TT_CHECK_OK(tt_columns_create(D, &input));
  TT_CHECK_OK(tt_columns_create(T, &target));
  for (int k = 0; k < D; k++)
    TT_CHECK_OK(tt_text_set(&input.name[k], k ? k == 1 ? "u" : "\"v\"" : "speed, m/s"));
  TT_CHECK_OK(tt_text_set(&target.name[0], "a, with a comma"));
  TT_CHECK_OK(tt_text_set(&target.name[1], "b"));
}

/* This program under a name that a shell would split. */
static inline void make_program(void)
{
  char self[ROOM];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n > 0 ? n : 0] = '\0';
  snprintf(program, sizeof program, "%s/it's a \"program\" $HOME", scratch);
  if (tt_comm_is_root(comm)) TT_CHECK(symlink(self, program), ==, 0);
}

static int rig_begin(void **unused)
{
  (void)unused;
  snprintf(campaign, sizeof campaign, "%s/it's a \"campaign\"", scratch);
  snprintf(label, sizeof label, "%s/round-0001/label", campaign);
  if (tt_ckpt_claim(comm, campaign, 0, 0, &owner)) return -1;
  make_program();
  name_columns();
  return 0;
}

static int rig_end(void **unused)
{
  (void)unused;
  tt_ckpt_release_local(comm, campaign);
  tt_columns_free(&input);
  tt_columns_free(&target);
  return 0;
}

TT_SUITE(rig_begin, rig_end)
TT_COMMAND("oracle", oracle_main)
TT_COMMAND("check-data", tt_guarded_check_child_local)
#endif
