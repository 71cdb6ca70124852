/* test_label_told.c — stage label with labels that are told, and with labels hidden in the pool. */
#include "tests/mpi/campaign/oracle_rig.h"

#include "io/data/data.h"
#include "src/campaign/points/requests.h"

/* Run the stage without waiting; returns the log of rank 0. */
static void still_waiting(const char *more, char text[TT_ERR_MESSAGE_SIZE])
{
  hearing h;
  hear_begin(comm, scratch, &h);
  refused("", more, TT_E_STOPPED, "label.max_wait");
  hear_end(&h, text);
}

/* tutti tell */

static const char *hand(void)
{
  static char path[ROOM];
  snprintf(path, sizeof path, "%s/hand.csv", campaign);
  return path;
}

static tt_err tell(const char *file)
{
  const tt_tell_options o = {.directory = campaign, .file = file};
  return tt_tell_local(&o);
}

static void tell_refused(const char *text, const char *why)
{
  put_text(hand(), text);
  TT_CHECK((int)tell(hand()), ==, (int)TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), why);
}

static void give(int64_t first, int64_t count)
{
  char *text = NULL;
  size_t bytes = 0;
  tt_queries *p = queries();
  FILE *f = open_memstream(&text, &bytes);
  fprintf(f, "id,y0,y1\n");
  for (int64_t i = first; i < first + count; i++) {
    double y[T];
    oracle_label(p->x + i * D, y);
    fprintf(f, "%" PRId64 ",%.17g,%.17g\n", i, y[0], y[1]);
  }
  fclose(f);
  put_text(hand(), text);
  free(text);
  tt_queries_destroy(&p);
  TT_CHECK_OK(tell(hand()));
}

static void refuse_and_give(void)
{
  tell_refused("id,y0,y1\n0,1,2\n99,1,2\n", "hand.csv:3: id 99 is no point of this campaign");
  tell_refused("id,y0,y1\n0,1,2\n0,1,2\n", "hand.csv:3: the id of this row occurs twice");
  tell_refused("id,y0,y1\n0,1,inf\n", "hand.csv:2: target 'b' is inf");
  tell_refused("id,y0,y1,status\n0,1,2,good\n", "hand.csv:2: the status is not ok");
  tell_refused("id,y0,y1\n0,,\n", "hand.csv:2: no target has a value");
  tell_refused("id,y0\n0,1\n", "the columns do not match the targets (2)");
  tell_refused("y0,y1\n0,1\n", "there is no column 'id'");
  tell_refused("id,y0,y1\n0.5,1,2\n", "hand.csv:2: id 0.5 is not a whole number");
  tell_refused("id,y0,y1\n0,x,2\n", "hand.csv:2: column 'y0': 'x' is not a number");
  tell_refused("id;y0;y1\n0;1,5;2\n", "write numbers with a decimal point");
  TT_CHECK((int)tell("/nowhere.csv"), ==, (int)TT_E_NOINPUT);
  give(0, 3);
}

TT_TEST (told_labels_are_taken) {
  char text[TT_ERR_MESSAGE_SIZE];
  keeps_record = 1;
  still_waiting("mode: ask, max_wait: 0s", text);
  if (tt_comm_is_root(comm)) refuse_and_give();
  tt_barrier(comm);
  still_waiting("mode: ask, max_wait: 0s", text);
  TT_CHECK_HAS(tt_err_last(), "2 points have no label after label.max_wait (0 s)");
  if (tt_comm_is_root(comm)) give(1, 4); /* points 1 and 2 are known */
  tt_barrier(comm);
  TT_CHECK(labeled_by("", "mode: ask, max_wait: 1h"), ==, N);
  TT_CHECK(calls(), ==, 0);
  keeps_record = 0;
  clear();
}

/* hidden */

/* A pool of 50 rows: y = (row, unlabeled); if 5 divides the row number, both are unlabeled. */
static void write_pool(const char *file)
{
  double x[50 * D], y[50 * T];
  for (int i = 0; i < 50 * D; i++) x[i] = i;
  for (int i = 0; i < 50; i++) {
    y[i * T] = i % 5 ? (double)i : (double)NAN;
    y[i * T + 1] = NAN;
  }
  TT_CHECK_OK(tt_data_write_local(file, 50, &input, &target, x, y));
}

TT_TEST (hidden_labels_come_from_the_pool) {
  char file[ROOM];
  const char *const files[] = {file};
  const tt_pool_options plan = {.file = files,
                                .files = 1,
                                .first = 100,
                                .inputs = "x",
                                .labels = "y",
                                .input = &input,
                                .target = &target};
  static const int64_t row[N] = {149, 101, 120, 108, 107};
  tt_config *cfg = job("good", "retries: 0");
  tt_queries *p = queries();
  tt_pool *pool = NULL;
  tt_query_labels *a = NULL;
  snprintf(file, sizeof file, "%s/pool.h5", scratch);
  if (tt_comm_is_root(comm)) write_pool(file);
  tt_barrier(comm);
  TT_CHECK_OK(tt_pool_open(comm, &plan, &pool));
  for (int i = 0; i < N; i++) p->row[i] = row[i];
  cfg->label_mode = TT_LABEL_hidden;
  TT_CHECK_OK(ask_of(cfg, p, pool, &a));
  for (int i = 0; i < N; i++) {
    int has = (row[i] - 100) % 5 != 0;
    TT_CHECK(!isnan(a->y[i * T]), ==, has);
    if (has) TT_CHECK(a->y[i * T], ==, (double)(row[i] - 100));
    TT_CHECK(isnan(a->y[i * T + 1]), !=, 0);
  }
  TT_CHECK(access(label, F_OK), ==, -1);
  tt_query_labels_destroy(&a);
  tt_pool_close_local(&pool);
  tt_queries_destroy(&p);
  tt_config_destroy(&cfg);
}
