/* self_check.c — see self_check.h. */
#include "src/host/self_check.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/process.h"
#include "io/files/files.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <xxhash.h>

enum { OUTPUT_SIZE = 512, BLOCK = 1 << 16, TIME_LIMIT = 120 };
static const char *const result_name[] = {"none", "passed", "unknown", "failed"};

const char *tt_self_check_way(int way, char text[32])
{
  snprintf(text, 32, "%s in %s", tt_choice_gpu_kernel[way / TT_PRECISION_COUNT],
           tt_choice_precision[way % TT_PRECISION_COUNT]);
  return text;
}

/* Of the shared library, or the program, that holds the engine. */
static uint64_t hash_engine(const tt_engine_ops *ops)
{
  static _Atomic uint64_t known;
  char block[BLOCK];
  void *address = NULL;
  Dl_info file;
  memcpy(&address, &ops->create, sizeof address); /* ISO C has no cast from a function to void * */
  if (known || !address || !dladdr(address, &file)) return known;
  FILE *f = fopen(file.dli_fname, "rb");
  if (!f) f = fopen("/proc/self/exe", "rb");
  uint64_t hash = 0;
  for (size_t n; f && (n = fread(block, 1, sizeof block, f)) > 0;)
    hash = XXH3_64bits_withSeed(block, n, hash);
  if (f) fclose(f);
  return known = hash;
}

/* What the result depends on, and the file that remembers it. */
static void identify(const tt_engine_ops *ops, const tt_rank_resources *mine, tt_self_check *out,
                     char path[TT_PATH_MAX])
{
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int given = cache && *cache == '/';
  snprintf(out->uuid, sizeof out->uuid, "%s", mine->info.uuid); /* zeros behind the text */
  snprintf(out->name, sizeof out->name, "%s", mine->info.name);
  if (ops->versions) ops->versions(out->versions, sizeof out->versions);
  snprintf(out->engine, sizeof out->engine, "%016" PRIx64, hash_engine(ops));
  snprintf(path, TT_PATH_MAX, "%s%s/tutti/gpu-%016" PRIx64,
           given  ? cache
           : home ? home
                  : "",
           given ? "" : "/.cache", XXH3_64bits(out, offsetof(tt_self_check, seconds)));
}

/* A file of another size, or for another GPU, driver or engine, is none. */
static void read_record(const char *path, tt_self_check *out)
{
  tt_self_check found;
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(&found, 1, sizeof found, f) : 0;
  if (f) fclose(f);
  if (n == sizeof found && !memcmp(&found, out, offsetof(tt_self_check, seconds))) *out = found;
}

/* Only whole results are remembered. Without a place for them, each start checks again. */
static void write_record(const char *path, const tt_self_check *c)
{
  char folder[TT_PATH_MAX], temporary[TT_PATH_MAX];
  for (int i = 0; i < TT_GPU_PATH_WAYS; i++)
    if (c->way[i].result == TT_SELF_CHECK_unknown) return;
  tt_file_dirname_local(path, folder);
  tt_err e = tt_directory_create(folder);
  if (!e) e = tt_file_temporary_name_local(path, temporary);
  FILE *f = e ? NULL : fopen(temporary, "wb");
  int whole = f && fwrite(c, sizeof *c, 1, f) == 1;
  if (f && fclose(f)) whole = 0;
  if (!whole || rename(temporary, path))
    tt_log_this_rank(TT_LOG_WARN, "the self-check is not remembered: %s cannot be written", path);
}

/* A child that hangs or crashes has failed; one that ends otherwise may be another program. */
static tt_self_check_result take_answer(const tt_process_result *child, double limit, char *answer,
                                        char text[TT_SELF_CHECK_TEXT])
{
  char *end = strchr(answer, '\n'), *said = strchr(answer, ' ');
  int signal_number = WIFSIGNALED(child->status) ? WTERMSIG(child->status) : 0;
  if (child->failed)
    snprintf(text, TT_SELF_CHECK_TEXT, "it does not start: %s", strerror(child->failed));
  else if (child->timed_out)
    snprintf(text, TT_SELF_CHECK_TEXT, "no answer within %g s (TUTTI_SELF_CHECK)", limit);
  else if (signal_number)
    snprintf(text, TT_SELF_CHECK_TEXT, "its process was ended by signal %d (%s)", signal_number,
             strsignal(signal_number));
  else if (!end || !said)
    snprintf(text, TT_SELF_CHECK_TEXT, "exit code %d", WEXITSTATUS(child->status));
  if (*text)
    return child->failed || !(child->timed_out || signal_number) ? TT_SELF_CHECK_unknown
                                                                 : TT_SELF_CHECK_failed;
  *end = *said = '\0';
  snprintf(text, TT_SELF_CHECK_TEXT, "%s", said + 1);
  int result = TT_SELF_CHECK_failed;
  while (result > TT_SELF_CHECK_none && strcmp(answer, result_name[result]) != 0) result--;
  return (tt_self_check_result)result;
}

static void check_way(char *program, int device, int way, double limit, tt_self_check *out)
{
  char gpu[16], number[16], name[] = "tutti", verb[] = "check-device", answer[OUTPUT_SIZE];
  char *const argv[] = {name, verb, gpu, number, NULL};
  snprintf(gpu, sizeof gpu, "%d", device);
  snprintf(number, sizeof number, "%d", way);
  tt_process_result child = tt_process_run(program, argv, limit, answer, sizeof answer);
  out->way[way].text[0] = '\0';
  out->way[way].result = take_answer(&child, limit, answer, out->way[way].text);
}

static void check_local(int device, double limit, tt_self_check *out)
{
  char program[TT_PATH_MAX];
  double begin = tt_monotonic_seconds();
  if (!tt_process_find_tutti(program, sizeof program)) {
    for (int way = TT_PRECISION_COUNT; way < TT_GPU_PATH_WAYS; way++) {
      out->way[way].result = TT_SELF_CHECK_unknown;
      snprintf(out->way[way].text, TT_SELF_CHECK_TEXT, "TUTTI_EXE does not name the program tutti");
    }
    return;
  }
  tt_log_this_rank(TT_LOG_INFO,
                   "GPU %d, %s, is new to this build of tutti: it is compared with the CPU, once",
                   device, out->name);
  for (int way = TT_PRECISION_COUNT; way < TT_GPU_PATH_WAYS; way++) {
    check_way(program, device, way, limit, out);
    if (out->way[way].result == TT_SELF_CHECK_failed) /* twice */
      check_way(program, device, way, limit, out);
  }
  out->seconds = tt_monotonic_seconds() - begin;
}

/* Of the ranks of this node, whether this is the first one that has its GPU. */
static tt_err is_first_with_gpu(tt_comm *c, const tt_rank_resources *mine, int *first)
{
  uint64_t own = XXH3_64bits(mine->info.uuid, strlen(mine->info.uuid)), *all = NULL;
  tt_err e = tt_agree(c, TT_ALLOC(all, mine->node_ranks));
  if (!e) tt_node_allgather(c, &own, sizeof own, all);
  *first = mine->devices > 0 && !mine->err;
  for (int r = 0; !e && r < mine->node_rank; r++) *first &= all[r] != own;
  tt_free(all);
  return e;
}

tt_err tt_self_check_gpu(tt_comm *c, const tt_engine_ops *ops, const tt_rank_resources *mine,
                         tt_self_check_when when, tt_self_check *out)
{
  char record[TT_PATH_MAX];
  const char *given = getenv("TUTTI_SELF_CHECK");
  double limit = given && *given ? atof(given) : TIME_LIMIT;
  int first;
  memset(out, 0, sizeof *out);
  tt_err e = is_first_with_gpu(c, mine, &first);
  if (e || !first) return e;
  identify(ops, mine, out, record);
  if (when != TT_SELF_CHECK_again) read_record(record, out);
  if (out->seconds > 0.0 || when == TT_SELF_CHECK_never) return TT_OK;
  if (when == TT_SELF_CHECK_first && limit <= 0.0) return TT_OK;
  check_local(mine->device, limit > 0.0 ? limit : TIME_LIMIT, out);
  if (out->seconds > 0.0) write_record(record, out);
  return TT_OK;
}

tt_gpu_path_check tt_self_check_paths(tt_comm *c, const tt_self_check *mine)
{
  int64_t worst[TT_GPU_PATH_WAYS];
  tt_gpu_path_check out = {0, 0};
  for (int i = 0; i < TT_GPU_PATH_WAYS; i++) worst[i] = mine->way[i].result;
  tt_allreduce_max_i64(c, worst, TT_GPU_PATH_WAYS);
  for (int i = 0; i < TT_GPU_PATH_WAYS; i++) {
    if (worst[i] == TT_SELF_CHECK_failed) out.failed |= 1u << i;
    if (worst[i] == TT_SELF_CHECK_unknown) out.unproven |= 1u << i;
  }
  return out;
}

void tt_self_check_log(const tt_self_check *c, int quiet)
{
  char way[32];
  for (int i = 0; i < TT_GPU_PATH_WAYS; i++) {
    if (c->way[i].result == TT_SELF_CHECK_failed)
      tt_log_this_rank(TT_LOG_WARN,
                       "%s, %s, fails the self-check of %s, which is not used: %s; please report "
                       "the output of tutti doctor --check --json",
                       c->name, c->uuid, tt_self_check_way(i, way), c->way[i].text);
    if (c->way[i].result != TT_SELF_CHECK_unknown || quiet) continue;
    quiet = 1;
    tt_log_this_rank(TT_LOG_INFO,
                     "%s, %s: no result of the self-check of %s (%s); the layered path in fp32 is "
                     "used, or what TUTTI_GPU_PATH names",
                     c->name, c->uuid, tt_self_check_way(i, way), c->way[i].text);
  }
}

json_t *tt_self_check_to_json(const tt_self_check *c)
{
  json_t *all = json_object(), *list = json_array();
  tt_json_set(&all, "gpu_uuid", tt_json_text(c->uuid));
  tt_json_set(&all, "gpu_name", tt_json_text(c->name));
  tt_json_set(&all, "versions", tt_json_text(c->versions));
  tt_json_set(&all, "engine", tt_json_text(c->engine));
  tt_json_set(&all, "seconds", c->seconds > 0.0 ? tt_json_number(c->seconds) : json_null());
  for (int i = 0; i < TT_GPU_PATH_WAYS; i++) {
    if (c->way[i].result == TT_SELF_CHECK_none) continue;
    json_t *row = json_object();
    tt_json_set(&row, "path", tt_json_text(tt_choice_gpu_kernel[i / TT_PRECISION_COUNT]));
    tt_json_set(&row, "precision", tt_json_text(tt_choice_precision[i % TT_PRECISION_COUNT]));
    tt_json_set(&row, "result", tt_json_text(result_name[c->way[i].result]));
    tt_json_set(&row, "text", tt_json_text(c->way[i].text));
    json_array_append_new(list, row);
  }
  tt_json_set(&all, "paths", list);
  return all;
}
