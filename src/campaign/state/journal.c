/* journal.c — see journal.h. */
#include "src/campaign/state/journal.h"

#include "core/base/mem.h"
#include "io/hdf5/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { LINE_SIZE = 512, HASH_BLOCK = 1 << 20 };

typedef struct journal_line {
  tt_journal_entry entry;
  int redo;
} journal_line;

struct tt_journal {
  char *file;
  char incarnation[128];
  int descriptor;     /* -1 = only to look at */
  int64_t bytes;      /* of the file up to the end of its last whole line */
  int64_t torn_bytes; /* after them */
  int64_t lines;
  journal_line *journal_line; /* [lines], room for the next power of two */
};

/* ---- One line ----------------------------------------------------------------------------------
 */

/* Pass over `text`, which must stand there. */
static int skip_text(const char **at, const char *text)
{
  size_t n = strlen(text);
  if (strncmp(*at, text, n) != 0) return 0;
  *at += n;
  return 1;
}

static int parse_integer(const char **at, int64_t *value)
{
  char *end;
  if (**at < '1' || **at > '9') return 0;
  errno = 0;
  *value = strtoll(*at, &end, 10);
  *at = end;
  return errno == 0;
}

static int parse_hash(const char **at, uint64_t *value)
{
  char digits[17] = "";
  size_t n = strspn(*at, "0123456789abcdef");
  if (n != 16) return 0;
  memcpy(digits, *at, n);
  *value = strtoull(digits, NULL, 16);
  *at += n;
  return 1;
}

static int parse_seconds(const char **at, double *value)
{
  size_t n = strspn(*at, "0123456789.");
  char *end;
  *value = strtod(*at, &end);
  if (n == 0 || end != *at + n || !isfinite(*value)) return 0;
  *at = end;
  return 1;
}

static int parse_stage(const char **at, tt_stage *stage)
{
  for (int i = 0; tt_stage_name[i]; i++) {
    size_t n = strlen(tt_stage_name[i]);
    if (strncmp(*at, tt_stage_name[i], n) != 0 || (*at)[n] != '"') continue;
    *stage = (tt_stage)i;
    *at += n;
    return 1;
  }
  return 0;
}

/* A text without quotes, escapes and control characters, up to its quote. */
static int skip_string(const char **at)
{
  while ((unsigned char)**at >= 0x20 && **at != '"' && **at != '\\') ++*at;
  return **at == '"';
}

/* Exactly what print_line writes, without the line end. */
static int parse_line(const char *text, journal_line *out)
{
  const char *at = text;
  tt_journal_entry *e = &out->entry;
  *out = (journal_line){0};
  if (!skip_text(&at, "{\"round\": ") || !parse_integer(&at, &e->round)) return 0;
  if (!skip_text(&at, ", \"stage\": \"") || !parse_stage(&at, &e->stage)) return 0;
  out->redo = skip_text(&at, "\", \"again\": true, \"time\": \"");
  if (!out->redo) {
    if (!skip_text(&at, "\", \"inputs\": \"") || !parse_hash(&at, &e->inputs)) return 0;
    if (!skip_text(&at, "\", \"outputs\": \"") || !parse_hash(&at, &e->outputs)) return 0;
    if (!skip_text(&at, "\", \"seconds\": ") || !parse_seconds(&at, &e->seconds)) return 0;
    if (!skip_text(&at, ", \"time\": \"")) return 0;
  }
  return skip_string(&at) && skip_text(&at, "\", \"incarnation\": \"") && skip_string(&at) &&
         skip_text(&at, "\"}") && *at == '\0';
}

static int print_line(const journal_line *l, const char *incarnation, char text[LINE_SIZE])
{
  const tt_journal_entry *e = &l->entry;
  char when[32] = "", middle[160] = "\"again\": true";
  time_t now = time(NULL);
  struct tm utc;
  if (gmtime_r(&now, &utc)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
  if (!l->redo)
    snprintf(middle, sizeof middle,
             "\"inputs\": \"%016" PRIx64 "\", \"outputs\": \"%016" PRIx64 "\", \"seconds\": %.3f",
             e->inputs, e->outputs, e->seconds);
  return snprintf(text, LINE_SIZE,
                  "{\"round\": %" PRId64
                  ", \"stage\": \"%s\", %s, \"time\": \"%s\", \"incarnation\": \"%s\"}\n",
                  e->round, tt_stage_name[e->stage], middle, when, incarnation);
}

/* ---- Reading -----------------------------------------------------------------------------------
 */

static tt_err store_line(tt_journal *j, const journal_line *l)
{
  journal_line *more = NULL;
  if (!j->journal_line || (j->lines & (j->lines - 1)) == 0) {
    TT_TRY(TT_ALLOC(more, j->lines ? 2 * j->lines : 1));
    if (j->lines) memcpy(more, j->journal_line, (size_t)j->lines * sizeof *more);
    tt_free(j->journal_line);
    j->journal_line = more;
  }
  j->journal_line[j->lines++] = *l;
  return TT_OK;
}

static tt_err read_lines(tt_journal *j, FILE *f)
{
  char *text = NULL;
  size_t capacity = 0;
  ssize_t n;
  tt_err e = TT_OK;
  while (!e && (n = getline(&text, &capacity, f)) > 0) {
    journal_line l;
    if (text[n - 1] != '\n') {
      j->torn_bytes = n;
      break;
    }
    text[n - 1] = '\0';
    if ((ssize_t)strlen(text) == n - 1 && parse_line(text, &l))
      e = store_line(j, &l);
    else
      e = TT_FAIL(DATA,
                  "%s:%" PRId64 ": '%.80s' is no line of a journal; put the line right or remove "
                  "it: then its stage is done again",
                  j->file, j->lines + 1, text);
    j->bytes += n;
  }
  if (!e && ferror(f)) e = TT_FAIL(IO, "%s: %s", j->file, strerror(errno));
  free(text);
  return e;
}

static tt_err read_journal(tt_journal *j)
{
  FILE *f = fopen(j->file, "re");
  if (!f && errno == ENOENT) return TT_OK;
  if (!f) return TT_FAIL(IO, "%s: %s", j->file, strerror(errno));
  tt_err e = read_lines(j, f);
  fclose(f);
  return e;
}

static tt_err open_for_append(tt_journal *j)
{
  char directory[TT_PATH_MAX];
  j->descriptor = open(j->file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (j->descriptor < 0) return TT_FAIL(CANTCREAT, "%s: %s", j->file, strerror(errno));
  tt_file_dirname_local(j->file, directory);
  return tt_file_sync_local(directory);
}

tt_err tt_journal_open_local(const char *file, const char *incarnation, tt_journal **out)
{
  tt_journal *j = NULL;
  *out = NULL;
  TT_TRY(TT_ALLOC(j, 1));
  j->descriptor = -1;
  tt_err e = TT_ALLOC(j->file, (int64_t)strlen(file) + 1);
  if (!e) strcpy(j->file, file);
  for (size_t i = 0; incarnation && incarnation[i] && i + 1 < sizeof j->incarnation; i++) {
    unsigned char c = (unsigned char)incarnation[i];
    j->incarnation[i] = (char)(c < 0x20 || c == '"' || c == '\\' ? '_' : c);
  }
  if (!e) e = read_journal(j);
  if (!e && incarnation) e = open_for_append(j);
  if (e) tt_journal_close_local(&j);
  *out = j;
  return e;
}

void tt_journal_close_local(tt_journal **j)
{
  if (!*j) return;
  if ((*j)->descriptor >= 0) close((*j)->descriptor);
  tt_free((*j)->file);
  tt_free((*j)->journal_line);
  tt_free(*j);
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

/* ---- Appending ---------------------------------------------------------------------------------
 */

/* Nobody else has written, and the file ends with a whole line. */
static tt_err truncate_torn_line(tt_journal *j)
{
  struct stat is;
  if (fstat(j->descriptor, &is)) return TT_FAIL(IO, "%s: %s", j->file, strerror(errno));
  if (is.st_size != j->bytes + j->torn_bytes)
    return TT_FAIL(IO,
                   "%s: has %lld bytes instead of %" PRId64 ": something else writes to it; is "
                   "the campaign running twice?",
                   j->file, (long long)is.st_size, j->bytes + j->torn_bytes);
  if (j->torn_bytes && ftruncate(j->descriptor, j->bytes))
    return TT_FAIL(IO, "%s: %s", j->file, strerror(errno));
  j->torn_bytes = 0;
  return TT_OK;
}

/* After an error a part of the line may stand there: it is cut off now, or by the next life. */
static tt_err write_line(tt_journal *j, const char *text, int n)
{
  ssize_t done = write(j->descriptor, text, (size_t)n);
  if (done == n && fsync(j->descriptor) == 0) {
    j->bytes += n;
    return TT_OK;
  }
  int error_number = done >= 0 && done < n ? ENOSPC : errno;
  if (done > 0 && ftruncate(j->descriptor, j->bytes)) j->torn_bytes = done;
  return TT_FAIL(IO, "%s: %s", j->file, strerror(error_number));
}

static tt_err append_line(tt_journal *j, const journal_line *l)
{
  char text[LINE_SIZE];
  journal_line exact;
  int n = print_line(l, j->incarnation, text);
  if (n >= LINE_SIZE || j->descriptor < 0)
    return TT_FAIL(INTERNAL, "%s: a line of %d bytes, descriptor %d", j->file, n, j->descriptor);
  text[n - 1] = '\0';
  if (!parse_line(text, &exact))
    return TT_FAIL(INTERNAL, "%s: would not be read again: %s", j->file, text);
  text[n - 1] = '\n';
  TT_TRY(truncate_torn_line(j));
  TT_TRY(write_line(j, text, n));
  return store_line(j, &exact);
}

tt_err tt_journal_append_done_local(tt_journal *j, const tt_journal_entry *e)
{
  journal_line l = {.entry = *e};
  if (!(l.entry.seconds >= 0.0)) l.entry.seconds = 0.0;
  return append_line(j, &l);
}

tt_err tt_journal_append_redo_local(tt_journal *j, int64_t round, tt_stage stage)
{
  const journal_line l = {.entry = {.round = round, .stage = stage}, .redo = 1};
  return append_line(j, &l);
}

/* ---- Hash of a file ----------------------------------------------------------------------------
 */

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
  FILE *f = fopen(path, "re");
  if (!f) return TT_FAIL(NOINPUT, "%s: %s", path, strerror(errno));
  XXH3_state_t *state = XXH3_createState();
  tt_err e = TT_ALLOC(block, HASH_BLOCK);
  if (!e && !state) e = TT_FAIL(MEM, "no memory to hash %s", path);
  if (!e) e = hash_stream(path, f, state, block, hash);
  XXH3_freeState(state);
  tt_free(block);
  fclose(f);
  return e;
}
