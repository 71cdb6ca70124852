/* journal.c — see journal.h. */
#include "src/campaign/state/journal.h"

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "io/files/files.h"
#include "src/campaign/state/line_log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { HASH_BLOCK = 1 << 20 };

typedef struct journal_line {
  tt_journal_entry entry;
  int redo;
} journal_line;

struct tt_journal {
  const char *file; /* while its lines are read */
  tt_line_log *log;
  char incarnation[128];
  int64_t lines, capacity;
  journal_line *journal_line; /* [lines] */
};

/* One line */

static int parse_hash(const char *text, uint64_t *value)
{
  if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return 0;
  *value = strtoull(text, NULL, 16);
  return 1;
}

static int parse_stage(const char *text, tt_stage *stage)
{
  for (int i = 0; tt_stage_name[i]; i++)
    if (!strcmp(text, tt_stage_name[i])) {
      *stage = (tt_stage)i;
      return 1;
    }
  return 0;
}

/* Accept exactly the keys that format_line writes. */
static int read_object(json_t *object, journal_line *out)
{
  tt_journal_entry *e = &out->entry;
  const char *stage, *inputs, *outputs, *time, *incarnation;
  json_int_t round;
  *out = (journal_line){.redo = json_is_true(json_object_get(object, "again"))};
  int bad =
      out->redo
          ? json_unpack(object, "{s:I, s:s, s:b, s:s, s:s !}", "round", &round, "stage", &stage,
                        "again", &out->redo, "time", &time, "incarnation", &incarnation)
          : json_unpack(object, "{s:I, s:s, s:s, s:s, s:F, s:s, s:s !}", "round", &round, "stage",
                        &stage, "inputs", &inputs, "outputs", &outputs, "seconds", &e->seconds,
                        "time", &time, "incarnation", &incarnation);
  if (bad || round < 1 || !parse_stage(stage, &e->stage)) return 0;
  e->round = round;
  if (out->redo) return 1;
  return parse_hash(inputs, &e->inputs) && parse_hash(outputs, &e->outputs) && e->seconds >= 0.0;
}

static int parse_line(const char *text, size_t bytes, journal_line *out)
{
  json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
  int valid = read_object(object, out);
  json_decref(object);
  return valid;
}

static tt_err format_line(const journal_line *l, const char *incarnation, char **text)
{
  const tt_journal_entry *e = &l->entry;
  char when[32], inputs[17], outputs[17];
  json_t *object = json_object();
  snprintf(inputs, sizeof inputs, "%016" PRIx64, e->inputs);
  snprintf(outputs, sizeof outputs, "%016" PRIx64, e->outputs);
  tt_json_set(&object, "round", json_integer(e->round));
  tt_json_set(&object, "stage", json_string(tt_stage_name[e->stage]));
  if (l->redo) {
    tt_json_set(&object, "again", json_true());
  } else {
    tt_json_set(&object, "inputs", json_string(inputs));
    tt_json_set(&object, "outputs", json_string(outputs));
    tt_json_set(&object, "seconds", json_real(e->seconds));
  }
  tt_json_set(&object, "time", json_string(tt_utc_text(when)));
  tt_json_set(&object, "incarnation", tt_json_text(incarnation));
  return tt_json_format(object, 0, text);
}

/* Reading */

static tt_err store_line(tt_journal *j, const journal_line *l)
{
  TT_TRY(TT_GROW(j->journal_line, j->lines, 1, j->capacity));
  j->journal_line[j->lines++] = *l;
  return TT_OK;
}

static tt_err take_line(void *journal, const char *text, size_t bytes, int64_t line)
{
  tt_journal *j = journal;
  journal_line l;
  if (parse_line(text, bytes, &l)) return store_line(j, &l);
  return TT_FAIL(DATA,
                 "%s:%" PRId64 ": '%.*s' is not a journal entry; correct the line, or remove it: "
                 "its stage then runs again",
                 j->file, line, bytes > 80 ? 80 : (int)bytes - 1, text);
}

tt_err tt_journal_open_local(const char *file, const char *incarnation, tt_journal **out)
{
  tt_journal *j = NULL;
  *out = NULL;
  TT_TRY(TT_ALLOC(j, 1));
  j->file = file;
  if (incarnation) snprintf(j->incarnation, sizeof j->incarnation, "%s", incarnation);
  tt_err e = tt_line_log_open_local(file, incarnation ? TT_LINE_LOG_replace : TT_LINE_LOG_read,
                                    take_line, j, &j->log);
  if (e) tt_journal_close_local(&j);
  *out = j;
  return e;
}

void tt_journal_close_local(tt_journal **j)
{
  if (!*j) return;
  tt_line_log_close_local(&(*j)->log);
  tt_free_all(&(*j)->journal_line, j);
}

const tt_journal_entry *tt_journal_find(const tt_journal *j, int64_t round, tt_stage stage)
{
  for (int64_t i = j->lines - 1; i >= 0; i--) {
    const journal_line *l = &j->journal_line[i];
    const tt_journal_entry *e = &l->entry;
    if (!l->redo && e->round == round && e->stage == stage) return e;
    if (l->redo && (e->round < round || (e->round == round && e->stage <= stage))) return NULL;
  }
  return NULL;
}

double tt_journal_seconds(const tt_journal *j)
{
  double seconds = 0.0;
  for (int64_t i = 0; i < j->lines; i++) seconds += j->journal_line[i].entry.seconds;
  return seconds;
}

/* Appending */

static tt_err append_line(tt_journal *j, const journal_line *l)
{
  char *text = NULL;
  TT_TRY(format_line(l, j->incarnation, &text));
  tt_err e = tt_line_log_append_local(j->log, text);
  tt_free(text);
  return e ? e : store_line(j, l);
}

/* Round the seconds to three digits as in the file, so that a reader gets the same value. */
tt_err tt_journal_append_done_local(tt_journal *j, const tt_journal_entry *e)
{
  journal_line l = {.entry = *e};
  l.entry.seconds = l.entry.seconds >= 0.0 ? round(1e3 * l.entry.seconds) / 1e3 : 0.0;
  return append_line(j, &l);
}

tt_err tt_journal_append_redo_local(tt_journal *j, int64_t round, tt_stage stage)
{
  const journal_line l = {.entry = {.round = round, .stage = stage}, .redo = 1};
  return append_line(j, &l);
}

/* Hash of a file */

static tt_err hash_stream(const char *path, FILE *f, XXH3_state_t *state, char *block,
                          uint64_t *hash)
{
  size_t n;
  XXH3_64bits_reset(state);
  while ((n = fread(block, 1, HASH_BLOCK, f)) > 0) XXH3_64bits_update(state, block, n);
  if (ferror(f)) return TT_FAIL(IO, "%s: %s", path, strerror(errno));
  *hash = XXH3_64bits_digest(state);
  return TT_OK;
}

tt_err tt_file_hash_local(const char *path, uint64_t *hash)
{
  char *block = NULL;
  FILE *f = NULL;
  TT_TRY(tt_file_open_stream(path, &f));
  XXH3_state_t *state = XXH3_createState();
  tt_err e = TT_ALLOC(block, HASH_BLOCK);
  if (!e && !state) e = TT_FAIL(MEM, "out of memory for the hash of %s", path);
  if (!e) e = hash_stream(path, f, state, block, hash);
  XXH3_freeState(state);
  tt_free(block);
  fclose(f);
  return e;
}
