/* replay.c — the fuzz program without libFuzzer, which only clang has: the files of a folder, then
 * random changes of them, the same in every run.
 *   fuzz_replay --target=NAME [--seeds=FOLDER] CORPUS INPUTS [NUMBER]
 * NUMBER: this input only, for a debugger. */
#include "core/base/rng.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <sanitizer/common_interface_defs.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILES = 64, MAX_BYTES = 4096, MAX_CHANGES = 4, SECONDS = 20 };

typedef struct input {
  uint8_t bytes[MAX_BYTES];
  size_t count;
} input;

static input file[MAX_FILES];
static uint32_t files, number, drawn;

static uint32_t below(size_t n)
{
  tt_random4 r = tt_random(1, number, TT_PURPOSE_SHUFFLE, 0, drawn++);
  return tt_uniform_below(r.v[0], r.v[1], (uint32_t)n);
}

static void read_corpus(const char *folder)
{
  struct dirent **entry;
  int entries = scandir(folder, &entry, NULL, alphasort);
  for (int i = 0; i < entries; free(entry[i++])) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
    FILE *f = entry[i]->d_name[0] == '.' || files == MAX_FILES ? NULL : fopen(path, "rb");
    if (!f) continue;
    file[files].count = fread(file[files].bytes, 1, MAX_BYTES, f);
    files++;
    fclose(f);
  }
  if (entries >= 0) free(entry);
  if (files) return;
  fprintf(stderr, "no files in %s\n", folder);
  exit(66);
}

/* Replace `gone` bytes at `offset` by `count` others, which may be bytes of the input itself. */
static void replace(input *in, size_t offset, size_t gone, const uint8_t *bytes, size_t count)
{
  input old = *in;
  if (bytes >= in->bytes && bytes < in->bytes + MAX_BYTES) bytes = old.bytes + (bytes - in->bytes);
  if (offset + count > MAX_BYTES) count = MAX_BYTES - offset;
  memcpy(in->bytes + offset, bytes, count);
  size_t rest = old.count - offset - gone, capacity = MAX_BYTES - offset - count;
  memcpy(in->bytes + offset + count, old.bytes + offset + gone, rest < capacity ? rest : capacity);
  in->count = offset + count + (rest < capacity ? rest : capacity);
}

/* One change: a bit, a byte, bytes removed, repeated, from another file, or a special value. */
static void change(input *in)
{
  static const char *const special[] = {"-1",
                                        "0",
                                        "9223372036854775808",
                                        "1e999",
                                        "nan",
                                        "\xff\xff\xff\x7f",
                                        "",
                                        "\xef\xbb\xbf",
                                        "\r",
                                        "\n",
                                        ",",
                                        "\"",
                                        ":",
                                        "{",
                                        "[",
                                        "\\"};
  const input *other = &file[below(files)];
  size_t offset = below(in->count + 1), rest = in->count - offset,
         some = rest ? 1 + below(rest < 16 ? rest : 16) : 0;
  size_t begin = below(other->count + 1), many = below(other->count - begin + 1);
  const char *word = special[below(sizeof special / sizeof *special)];
  const uint8_t byte = (uint8_t)((rest ? in->bytes[offset] : 0) ^ 1u << below(8));
  const uint8_t any = (uint8_t)below(256);
  switch (below(6)) {
  case 0: replace(in, offset, rest > 0, &byte, 1); break;
  case 1: replace(in, offset, rest > 0, &any, 1); break;
  case 2: replace(in, offset, some, in->bytes, 0); break;
  case 3: replace(in, offset, 0, in->bytes + offset, some); break;
  case 4: replace(in, offset, some, other->bytes + begin, many); break;
  default: replace(in, offset, below(some + 1), (const uint8_t *)word, *word ? strlen(word) : 1);
  }
}

static void tell_number(void)
{
  fprintf(stderr, "fuzz_replay: at input %u; as last argument, only this one is read\n", number);
}

static void run(void)
{
  input in = file[number % files];
  drawn = 0;
  if (number >= files)
    for (uint32_t left = 1 + below(MAX_CHANGES); left; left--) change(&in);
  uint8_t *exact = malloc(in.count + !in.count); /* so that the sanitizer sees the end */
  FUZZ_CHECK(exact);
  memcpy(exact, in.bytes, in.count);
  alarm(SECONDS);
  LLVMFuzzerTestOneInput(exact, in.count);
  free(exact);
}

int main(int argc, char **argv)
{
  LLVMFuzzerInitialize(&argc, &argv);
  char **word = argv + 1;
  while (*word && !strncmp(*word, "--", 2)) word++;
  if (!word[0] || !word[1]) {
    fputs("usage: fuzz_replay --target=NAME [--seeds=FOLDER] CORPUS INPUTS [NUMBER]\n", stderr);
    return 64;
  }
  __sanitizer_set_death_callback(tell_number);
  read_corpus(word[0]);
  uint32_t inputs = (uint32_t)strtoul(word[1], NULL, 10);
  number = word[2] ? (uint32_t)strtoul(word[2], NULL, 10) : 0;
  for (uint32_t end = word[2] ? number + 1 : inputs; number < end; number++) run();
  return 0;
}
