/* oracle_child.h — the test program as the oracle: each word selects a behavior. It labels two
 * targets, sum and product of the first two inputs. The number of the call is N in the name of its
 * output, .../try-N/output.h5. */
#ifndef TT_ORACLE_CHILD_H
#define TT_ORACLE_CHILD_H
#include "core/base/mem.h"
#include "io/campaign/oracle_files.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ORACLE_TARGETS = 2 };

static inline void oracle_label(const double *x, double *y)
{
  y[0] = x[0] + x[1];
  y[1] = x[0] * x[1];
}

/* Rows [0, count) of an output in CSV, without the last `torn` bytes. */
static inline int oracle_csv(const char *path, const tt_oracle_input *a, int64_t count, int torn)
{
  char *text = NULL;
  size_t bytes = 0;
  FILE *m = open_memstream(&text, &bytes);
  fprintf(m, "b,id,\"a, with a comma\"\n"); /* any order */
  for (int64_t i = 0; i < count; i++) {
    double y[ORACLE_TARGETS];
    oracle_label(a->x + i * a->inputs, y);
    fprintf(m, "%.17g,%lld,%.17g\n", y[1], (long long)a->id[i], y[0]);
  }
  fclose(m);
  FILE *f = fopen(path, "w");
  size_t n = f ? fwrite(text, 1, bytes - (size_t)torn, f) : 0;
  free(text);
  return f && !fclose(f) && n ? 0 : 2;
}

/* An output of `targets` columns, changed as `word` says. */
static inline int oracle_h5(const char *path, const tt_oracle_input *a, int64_t targets,
                            const char *word)
{
  double *y = NULL;
  tt_columns names = {0};
  int64_t count = a->count;
  if (TT_ALLOC(y, count * 3) || tt_columns_create(targets, &names)) return 2;
  for (int64_t i = 0; i < count; i++) {
    double v[3] = {0};
    oracle_label(a->x + i * a->inputs, v);
    memcpy(y + i * targets, v, (size_t)targets * sizeof *y);
  }
  if (!strcmp(word, "nan_in_one")) y[1] = NAN;
  if (!strcmp(word, "nan_in_all")) y[0] = y[1] = NAN;
  if (!strcmp(word, "infinite")) y[1] = INFINITY;
  if (!strcmp(word, "twice")) a->id[count - 1] = a->id[0];
  if (!strcmp(word, "unasked")) a->id[0] = -5;
  if (!strcmp(word, "partial") || !strcmp(word, "exit_65_partial")) count--;
  int bad = tt_accepted_labels_write_local(path, count, a->id, y, &names, "") != TT_OK;
  tt_columns_free(&names);
  tt_free(y);
  return bad ? 2 : 0;
}

static inline int oracle_write(const char *word, const tt_oracle_input *a, const char *path)
{
  if (!strcmp(word, "fifo")) return mkfifo(path, 0600) ? 2 : 0;
  if (!strcmp(word, "torn")) return oracle_csv(path, a, a->count, 3);
  if (!strcmp(word, "not_hdf5")) return oracle_csv(path, a, a->count, 0);
  if (tt_is_csv(path)) return oracle_csv(path, a, a->count, 0);
  return oracle_h5(path, a, strcmp(word, "wrong_shape") ? ORACLE_TARGETS : 3, word);
}

/* The exit code in a word like "exit_75"; 0 if there is none. */
static inline int oracle_code(const char *word)
{
  return strncmp(word, "exit_", 5) ? 0 : atoi(word + 5);
}

/* argv = {program, "oracle", word, input, output}. */
static inline int oracle_main(int argc, char **argv)
{
  tt_oracle_input *a = NULL;
  if (argc != 5) return 100;
  const char *word = argv[2], *number = strstr(argv[4], "/try-");
  int first = number && atoi(number + 5) == 1;
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  printf("asked with word %s\nand a second line\n", word);
  fflush(stdout);
  if (!strcmp(word, "crash") || (first && !strcmp(word, "crash_once"))) abort();
  if (!strcmp(word, "hang"))
    for (;;) poll(NULL, 0, 1000);
  if (first && !strcmp(word, "later_once")) return 75;
  if (!strcmp(word, "nothing")) return 0;
  if (oracle_code(word) && strcmp(word, "exit_65_partial")) return oracle_code(word);
  if (tt_oracle_input_read_local(argv[3], NULL, &a)) return 101;
  int bad = oracle_write(word, a, argv[4]);
  tt_oracle_input_destroy(&a);
  return bad ? bad : oracle_code(word);
}
#endif
