/* text_targets.c — readers of text: job files, tables, journals, status files, oracle outputs. */
#include "core/base/mem.h"
#include "core/config/config.h"
#include "io/campaign/oracle_files.h"
#include "io/table/table.h"
#include "src/campaign/state/journal.h"
#include "src/host/status_file.h"
#include "src/tools/import.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>
#include <unistd.h>

enum { MAX_SETS = 8 };

/* A copy of the input that ends in NUL; owner: the caller, free. */
static char *copy_of(const uint8_t *bytes, size_t count)
{
  char *text = malloc(count + 1);
  FUZZ_CHECK(text);
  if (count) memcpy(text, bytes, count);
  text[count] = '\0';
  return text;
}

/* What is written reads back: the same text again, with the same result hash. */
static void check_round_trip(const tt_config *cfg)
{
  char *once = NULL, *twice = NULL;
  tt_config *again = NULL;
  FUZZ_CHECK(!tt_config_to_yaml(cfg, &once));
  FUZZ_CHECK(!tt_config_parse("/job/job.yaml", once, (int64_t)strlen(once), NULL, 0, &again));
  FUZZ_CHECK(!tt_config_to_yaml(again, &twice));
  FUZZ_CHECK(!strcmp(once, twice));
  FUZZ_CHECK(tt_config_result_hash(cfg) == tt_config_result_hash(again));
  tt_config_destroy(&again);
  tt_free(once);
  tt_free(twice);
}

/* Lines that begin with "--set " at the end of the input are options of the command line. */
static void run_config(const uint8_t *bytes, size_t count)
{
  static const char mark[] = "\n--set ";
  const char *set[MAX_SETS];
  char *text = copy_of(bytes, count), *at = strstr(text, mark);
  int sets = 0;
  size_t length = at ? (size_t)(at - text) : count;
  tt_config *cfg = NULL;
  while (at && sets < MAX_SETS) {
    *at = '\0';
    set[sets++] = at + sizeof mark - 1;
    at = strstr(set[sets - 1], mark);
  }
  tt_err e = tt_config_parse("/job/job.yaml", text, (int64_t)length, set, sets, &cfg);
  FUZZ_CHECK(!e || e == TT_E_CONFIG);
  if (e) FUZZ_CHECK(*tt_err_last());
  if (!e) check_round_trip(cfg);
  tt_config_destroy(&cfg);
  free(text);
}

/* Columns for --inputs and --targets, quoted; 0 if a name cannot be given on the command line. */
static int quote_name(const char *name, char *out, size_t capacity)
{
  if (!*name || strpbrk(name, "\"\n\r") || strlen(name) + 4 > capacity) return 0;
  snprintf(out, capacity, "\"%s\"", name);
  return 1;
}

/* Import the first column as input and the last as target. */
static void import_table(const char *file, const tt_table *t)
{
  char input[256], target[256] = "";
  tt_import_options o = {
      .table = file, .output = fuzz_path("import.h5"), .inputs = input, .force = 1};
  if (!quote_name(t->name[0], input, sizeof input)) return;
  if (t->columns > 1 && quote_name(t->name[t->columns - 1], target, sizeof target))
    o.targets = target;
  tt_err e = tt_import_local(&o);
  FUZZ_CHECK(!e || e == TT_E_DATA);
}

/* Whatever can be read is the same in another order; a wrong cell is refused again. */
static void read_twice(tt_table *t, int64_t column)
{
  enum { MAX_ROWS = 4096 };
  static double value[MAX_ROWS], again;
  char place[256];
  int64_t rows = t->rows[column] < MAX_ROWS ? t->rows[column] : MAX_ROWS;
  tt_err e = tt_table_read_local(t, 0, rows, 1, &column, value);
  FUZZ_CHECK(!e || e == TT_E_DATA);
  for (int64_t row = rows - 1; !e && row >= 0; row -= 1 + rows / 16) {
    FUZZ_CHECK(!tt_table_read_local(t, row, 1, 1, &column, &again));
    FUZZ_CHECK(!memcmp(&again, &value[row], sizeof again));
    tt_table_place_local(t, row, place, sizeof place);
  }
  FUZZ_CHECK(tt_table_read_local(t, t->rows[column], 1, 1, &column, value) == TT_E_DATA);
}

/* Every column in one table, so that later ones are in use together with earlier ones. */
static void read_table(const char *file, const tt_table_format *format)
{
  enum { MAX_COLUMNS = 16 };
  tt_table *t = NULL;
  tt_levels levels[MAX_COLUMNS] = {{0}};
  tt_err e = tt_table_open_local(file, format, &t);
  FUZZ_CHECK(!e || e == TT_E_DATA);
  for (int64_t k = 0; !e && k < t->columns && k < MAX_COLUMNS; k++) {
    tt_cell_kind kind = (tt_cell_kind)(k % TT_CELL_UNUSED);
    levels[k].learns = 1;
    tt_err used = kind == TT_CELL_LEVEL ? tt_table_use_levels_local(t, k, &levels[k])
                                        : tt_table_use_local(t, k, kind);
    FUZZ_CHECK(!used || used == TT_E_DATA);
    if (!used && t->rows[k] > 0) read_twice(t, k);
  }
  tt_table_close_local(&t);
  for (int k = 0; k < MAX_COLUMNS; k++) tt_levels_free(&levels[k]);
}

/* A table that is opened with the marks of another one has the same last row. */
static void read_with_marks(const char *file, const tt_table *t)
{
  const tt_table_format format = {.marks = &t->marks};
  char a[256], b[256];
  int64_t last = t->marks.rows - 1;
  tt_table *first = NULL, *again = NULL;
  FUZZ_CHECK(!tt_table_open_local(file, NULL, &first));
  FUZZ_CHECK(!tt_table_open_local(file, &format, &again));
  FUZZ_CHECK(again->columns == t->columns && again->rows[0] == t->rows[0]);
  tt_table_place_local(first, last, a, sizeof a);
  FUZZ_CHECK(!strcmp(a, tt_table_place_local(again, last, b, sizeof b)));
  tt_table_close_local(&first);
  tt_table_close_local(&again);
}

static void run_npy(const uint8_t *bytes, size_t count)
{
  fuzz_write_file(fuzz_path("array.npy"), bytes, count);
  read_table(fuzz_path("array.npy"), NULL);
}

static void run_npz(const uint8_t *bytes, size_t count)
{
  fuzz_write_file(fuzz_path("arrays.npz"), bytes, count);
  read_table(fuzz_path("arrays.npz"), NULL);
}

static void run_csv(const uint8_t *bytes, size_t count)
{
  const char *file = fuzz_path("table.csv");
  tt_table *t = NULL;
  fuzz_write_file(file, bytes, count);
  read_table(file, NULL);
  read_table(file, &(tt_table_format){.delimiter = ';', .decimal = ','});
  if (tt_table_open_local(file, NULL, &t)) return;
  read_with_marks(file, t);
  import_table(file, t);
  tt_table_close_local(&t);
}

/* A journal that can be read can be continued, and the next reader finds the new entry. */
static void run_journal(const uint8_t *bytes, size_t count)
{
  const char *file = fuzz_path("journal.jsonl");
  const tt_journal_entry added = {3, TT_STAGE_select, 1, 2, 0.5};
  tt_journal *j = NULL;
  fuzz_write_file(file, bytes, count);
  tt_err e = tt_journal_open_local(file, "fuzz", &j);
  FUZZ_CHECK(!e || e == TT_E_DATA);
  if (e) return;
  for (int64_t round = 1; round < 4; round++)
    for (int stage = 0; stage < TT_STAGE_COUNT; stage++) tt_journal_find(j, round, (tt_stage)stage);
  FUZZ_CHECK(tt_journal_seconds(j) >= 0.0);
  FUZZ_CHECK(!tt_journal_append_done_local(j, &added));
  tt_journal_close_local(&j);
  FUZZ_CHECK(!tt_journal_open_local(file, NULL, &j));
  const tt_journal_entry *found = tt_journal_find(j, added.round, added.stage);
  FUZZ_CHECK(found && found->inputs == added.inputs && found->outputs == added.outputs);
  tt_journal_close_local(&j);
}

static void run_status(const uint8_t *bytes, size_t count)
{
  static tt_status_file f, again;
  const char *folder = fuzz_path(".");
  fuzz_write_file(fuzz_path("status.json"), bytes, count);
  tt_err e = tt_status_file_read_local(folder, &f);
  FUZZ_CHECK(!e || e == TT_E_DATA);
  if (e) return;
  FUZZ_CHECK(!tt_status_file_write_local(folder, &f.status));
  e = tt_status_file_read_local(folder, &again);
  FUZZ_CHECK(!e && f.status.generation == again.status.generation);
  FUZZ_CHECK(!tt_status_file_update_local(folder, f.status.incarnation, "failed", "why", 74));
}

static tt_columns oracle_target;

static void begin_oracle(const fuzz_target *t, const char *seeds)
{
  (void)t, (void)seeds;
  FUZZ_CHECK(!tt_columns_create(2, &oracle_target));
  FUZZ_CHECK(!tt_text_set(&oracle_target.name[0], "period"));
  FUZZ_CHECK(!tt_text_set(&oracle_target.name[1], "swing"));
}

static void read_oracle_input(const char *file)
{
  tt_oracle_input *a = NULL;
  tt_columns header = {0};
  tt_err e = tt_oracle_input_read_local(file, NULL, &a);
  FUZZ_CHECK(!e || e == TT_E_DATA);
  tt_oracle_input_destroy(&a);
  e = tt_output_header_read_local(file, &header);
  FUZZ_CHECK(!e || e == TT_E_DATA || e == TT_E_USAGE);
  tt_columns_free(&header);
}

static void run_oracle(const uint8_t *bytes, size_t count)
{
  enum { REQUESTED = 4 };
  static const int64_t id[REQUESTED] = {7, 3, 12, 40};
  const char *file = fuzz_path("output.csv");
  double y[2 * REQUESTED];
  int64_t given = 0;
  tt_oracle_output *l = NULL;
  fuzz_write_file(file, bytes, count);
  read_oracle_input(file);
  tt_err e = tt_oracle_output_read_local(file, &oracle_target, REQUESTED, &l);
  FUZZ_CHECK(!e || e == TT_E_DATA);
  if (e) return;
  FUZZ_CHECK(l->count >= 1 && l->count <= REQUESTED);
  e = tt_oracle_output_align(l, REQUESTED, id, y, &given);
  FUZZ_CHECK(e ? e == TT_E_DATA : given <= REQUESTED);
  tt_oracle_output_destroy(&l);
}

const fuzz_target fuzz_text_targets[] = {
    {"config", NULL, run_config, NULL},
    {"csv", NULL, run_csv, NULL},
    {"npy", NULL, run_npy, NULL},
    {"npz", NULL, run_npz, NULL},
    {"journal", NULL, run_journal, NULL},
    {"status", NULL, run_status, NULL},
    {"oracle", begin_oracle, run_oracle, NULL},
    {NULL, NULL, NULL, NULL},
};
