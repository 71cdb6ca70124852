/* main.c — the fuzz program, on libFuzzer or replay.c: fuzz --target=NAME [--seeds=FOLDER] CORPUS... */
#include "core/base/log.h"
#include "core/base/mem.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static const fuzz_target *target;
static int64_t blocks_before;

const char *fuzz_path(const char *name)
{
  static char path[4][512];
  static int next;
  const char *folder = getenv("TMPDIR");
  char *dst = path[next = (next + 1) % 4];
  snprintf(dst, sizeof path[0], "%s/%s", folder ? folder : "/tmp", name);
  return dst;
}

void fuzz_write_file(const char *path, const void *bytes, size_t count)
{
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes, 1, count, f) != count || fclose(f)) {
    perror(path);
    exit(73);
  }
}

static const fuzz_target *find_target(const char *name)
{
  const fuzz_target *const list[] = {fuzz_text_targets, fuzz_h5_targets};
  for (int i = 0; i < 2; i++)
    for (const fuzz_target *t = list[i]; t->name; t++) {
      if (!name) puts(t->name);
      if (name && !strcmp(t->name, name)) return t;
    }
  return NULL;
}

/* libFuzzer ignores arguments that begin with two dashes. */
static const char *option(int argc, char **argv, const char *name)
{
  for (int i = 1; i < argc; i++)
    if (!strncmp(argv[i], name, strlen(name))) return argv[i] + strlen(name);
  return NULL;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
  const char *name = option(*argc, *argv, "--target=");
  if (!name || !(target = find_target(name))) {
    find_target(NULL);
    exit(name ? 64 : 0);
  }
  tt_log_set_level(TT_LOG_ERROR);
  if (target->begin) target->begin(target, option(*argc, *argv, "--seeds="));
  blocks_before = tt_mem_live_blocks();
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
  target->run(bytes, count);
  FUZZ_CHECK(tt_mem_live_blocks() == blocks_before);
  return 0;
}
