/* ask.c — see requests.h: tutti ask. */
#include "src/campaign/points/requests.h"

#include "core/base/mem.h"
#include "io/campaign/campaign_files.h"
#include "io/campaign/oracle_files.h"
#include "io/files/files.h"
#include "src/campaign/points/points_internal.h"
#include "src/host/status_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void tt_request_who(const char *given, char who[128])
{
  char host[TT_HOST_ROOM];
  const char *user = getenv("USER");
  tt_file_host_name_local(host);
  if (given)
    snprintf(who, 128, "%.127s", given);
  else
    snprintf(who, 128, "%.64s@%s", user && *user ? user : "user", host);
}

/* The points of an answer */

static tt_err read_answer(int64_t D, tt_asked *a)
{
  const json_t *answer = a->answer, *point = json_object_get(answer, "point"),
               *text = json_object_get(answer, "text");
  a->count = (int64_t)json_array_size(point);
  TT_TRY(TT_ALLOC(a->id, a->count));
  TT_TRY(TT_ALLOC(a->x, a->count * D));
  if (text) TT_TRY(TT_ALLOC(a->text, a->count * D));
  for (int64_t i = 0; i < a->count; i++) {
    const json_t *words = json_array_get(text, (size_t)i);
    a->id[i] = json_integer_value(json_array_get(point, (size_t)i));
    if (!tt_json_read_row(json_array_get(json_object_get(answer, "x"), (size_t)i), D, a->x + i * D))
      return TT_FAIL(INTERNAL, "an answer without inputs");
    for (int64_t d = 0; text && d < D; d++)
      a->text[i * D + d] = json_string_value(json_array_get(words, (size_t)d));
  }
  return TT_OK;
}

/* Copy a file to standard output. */
static tt_err copy_out(const char *path)
{
  char block[4096];
  size_t n;
  FILE *f = NULL;
  TT_TRY(tt_file_open_stream(path, &f));
  while ((n = fread(block, 1, sizeof block, f)) > 0) fwrite(block, 1, n, stdout);
  int bad = ferror(f);
  fclose(f);
  return bad || fflush(stdout) ? TT_FAIL_ERRNO(IO, "standard output") : TT_OK;
}

static tt_err print_points(const tt_asked *a, const tt_columns *input, int hdf5)
{
  char path[TT_PATH_MAX], folder[] = "/tmp/tutti-ask-XXXXXX";
  if (!mkdtemp(folder)) return TT_FAIL_ERRNO(CANTCREAT, "%s", folder);
  tt_path_join(folder, hdf5 ? "points.h5" : "points.csv", path);
  tt_err e =
      tt_oracle_input_write_local(path, a->count, a->id, a->x, a->text, input, &(tt_row_ids){0});
  if (!e) e = copy_out(path);
  unlink(path);
  rmdir(folder);
  return e;
}

/* Points that a repeated round has left queued are not given away after the end. */
static tt_err check_not_ended(const char *directory)
{
  char path[TT_PATH_MAX];
  tt_err e = TT_OK;
  tt_status_file status;
  tt_history *h = NULL;
  tt_path_join(directory, "campaign.h5", path);
  int done = !tt_status_file_read_local(directory, &status) && !strcmp(status.status.state, "done");
  int ended = done && !tt_history_read_local(path, &h) && h->ended >= 0;
  if (ended)
    e = TT_FAIL(ENDED, "the campaign has ended after %" PRId64 " rounds: %s (%s)", h->rounds,
                tt_stop_rule_name[h->ended], tt_history_end_cause(h));
  tt_history_destroy(&h);
  return e;
}

void tt_asked_free(tt_asked *a)
{
  tt_free_all(&a->id, &a->x, &a->text);
  json_decref(a->answer);
  *a = (tt_asked){0};
}

tt_err tt_ask_points_local(const char *directory, const char *who, const char *lease, int64_t count,
                           int64_t until, int64_t inputs, tt_asked *out)
{
  *out = (tt_asked){0};
  TT_TRY(check_not_ended(directory));
  json_t *request = json_object();
  tt_json_set(&request, "act", json_string("ask"));
  tt_json_set(&request, "k", json_integer(count));
  tt_json_set(&request, "until", json_integer(until));
  tt_json_set(&request, "who", tt_json_text(who));
  if (lease) tt_json_set(&request, "lease", tt_json_text(lease));
  tt_err e = tt_inbox_send_local(directory, who, request, &out->answer);
  return e ? e : read_answer(inputs, out);
}

tt_err tt_ask_local(const tt_ask_options *o)
{
  char who[128];
  tt_columns input = {0}, target = {0};
  tt_asked a = {0};
  tt_request_who(o->who, who);
  tt_err e = o->hdf5 && isatty(STDOUT_FILENO)
                 ? TT_FAIL(USAGE, "--hdf5 writes a file to standard output: add > points.h5")
                 : tt_points_columns_local(o->directory, &input, &target);
  if (!e)
    e = tt_ask_points_local(o->directory, who, NULL, o->count,
                            (int64_t)time(NULL) + (int64_t)o->lease, input.count, &a);
  if (!e) e = print_points(&a, &input, o->hdf5);
  tt_asked_free(&a);
  tt_columns_free(&input);
  tt_columns_free(&target);
  return e;
}
