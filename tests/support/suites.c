/* suites.c — the tests of a program in the order of files and lines, and the selected ones. */
#include "tests/support/suites.h"

#include "core/base/directory.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "tests/support/check.h"

#include <fnmatch.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_TESTS = 64, NAME_ROOM = 256 }; /* of one suite */

static tt_test_case *first_case;
static tt_test_around *first_around;
static tt_test_command *first_command;
static char **pattern;
static int patterns;

/* "metrics" of "/somewhere/test_metrics.c", `room` is the buffer for the name. */
static const char *suite_of(const char *file, char scratch[NAME_ROOM])
{
  const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
  if (!strncmp(name, "test_", 5)) name += 5;
  snprintf(scratch, NAME_ROOM, "%.*s", (int)strcspn(name, "."), name);
  return scratch;
}

static int comes_before(const tt_test_case *a, const tt_test_case *b)
{
  int order = strcmp(a->file, b->file);
  return order ? order < 0 : a->line < b->line;
}

void tt_test_enter_case(tt_test_case *c)
{
  tt_test_case **at = &first_case;
  while (*at && comes_before(*at, c)) at = &(*at)->next;
  c->next = *at;
  *at = c;
}

void tt_test_enter_around(tt_test_around *a)
{
  a->next = first_around;
  first_around = a;
}

void tt_test_enter_command(tt_test_command *c)
{
  c->next = first_command;
  first_command = c;
}

/* A pattern names a suite, or a test as SUITE.TEST; with the wildcards of the shell. */
static int fits(const char *wanted, const tt_test_case *c)
{
  char suite[NAME_ROOM], whole[2 * NAME_ROOM];
  snprintf(whole, sizeof whole, "%s.%s", suite_of(c->file, suite), c->name);
  return !fnmatch(wanted, suite, 0) || !fnmatch(wanted, whole, 0);
}

static int is_wanted(const tt_test_case *c)
{
  for (int i = 0; i < patterns; i++)
    if (fits(pattern[i], c)) return 1;
  return !patterns;
}

static int print_names(void)
{
  char suite[NAME_ROOM];
  for (const tt_test_case *c = first_case; c; c = c->next)
    if (is_wanted(c)) printf("%s.%s\n", suite_of(c->file, suite), c->name);
  return 0;
}

static int print_help(const char *program)
{
  printf("%s [--list] [PATTERN...]\n"
         "Run the tests of this program, or those that a PATTERN names: SUITE or SUITE.TEST, with\n"
         "the wildcards of the shell. --list prints their names.\n",
         program);
  return 0;
}

int tt_tests_begin(int argc, char **argv)
{
  const char *word = argc > 1 ? argv[1] : "";
  for (const tt_test_command *c = first_command; c; c = c->next)
    if (!strcmp(word, c->word)) return c->run(argc, argv);
  if (!strcmp(word, "--help")) return print_help(argv[0]);
  int list = !strcmp(word, "--list");
  pattern = argv + 1 + list;
  patterns = argc > 1 + list ? argc - 1 - list : 0;
  for (int i = 0; i < patterns; i++) {
    const tt_test_case *c = first_case;
    while (c && !fits(pattern[i], c)) c = c->next;
    if (!c) return fprintf(stderr, "%s: no test is called %s\n", argv[0], pattern[i]), 1;
  }
  return list ? print_names() : -1;
}

const char *tt_tests_next(const char *suite)
{
  static char scratch[NAME_ROOM];
  char name[NAME_ROOM];
  const tt_test_case *c = first_case;
  if (suite) { /* skip it */
    while (strcmp(suite_of(c->file, name), suite) != 0) c = c->next;
    while (c && !strcmp(suite_of(c->file, name), suite)) c = c->next;
  }
  while (c && !is_wanted(c)) c = c->next;
  return c ? suite_of(c->file, scratch) : NULL;
}

char test_folder[64];

int enter_folder(void **unused)
{
  (void)unused;
  snprintf(test_folder, sizeof test_folder, "/tmp/tutti-test-XXXXXX");
  return mkdtemp(test_folder) ? chdir(test_folder) : -1;
}

int enter_folder_quietly(void **unused)
{
  tt_log_set_level(TT_LOG_ERROR);
  return enter_folder(unused);
}

void put_text(const char *file, const char *text)
{
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
}

/* Returns the number of failures. */
static int leave_folder(void)
{
  glob_t left;
  if (!*test_folder) return 0;
  int some = chdir(test_folder) || !glob(".tmp*", 0, NULL, &left);
  if (some) fprintf(stderr, "%s: a temporary file is left\n", test_folder);
  if (chdir("/") || tt_directory_remove(test_folder)) some = 1;
  test_folder[0] = '\0';
  return some;
}

static int64_t blocks_before;

static int count_blocks(void **unused)
{
  (void)unused;
  blocks_before = tt_mem_live_blocks();
  return 0;
}

/* Returns 0 if the test has freed what it has allocated. */
static int compare_blocks(void **unused)
{
  (void)unused;
  int64_t left = tt_mem_live_blocks() - blocks_before;
  if (left) fprintf(stderr, "%d blocks were not freed\n", (int)left);
  return left != 0;
}

int tt_tests_run(const char *suite)
{
  struct CMUnitTest tests[MOST_TESTS];
  char name[NAME_ROOM];
  size_t count = 0;
  tt_test_around around = {0};
  for (const tt_test_around *a = first_around; a; a = a->next)
    if (!strcmp(suite_of(a->file, name), suite)) around = *a;
  for (const tt_test_case *c = first_case; c; c = c->next)
    if (!strcmp(suite_of(c->file, name), suite) && is_wanted(c)) {
      if (count == MOST_TESTS) return fprintf(stderr, "%s: too many tests\n", suite), 1;
      tests[count++] = (struct CMUnitTest){c->name, c->run, count_blocks,
                                           around.end ? NULL : compare_blocks, NULL};
    }
  int64_t before = tt_mem_live_blocks();
  int failed = _cmocka_run_group_tests(suite, tests, count, around.begin, around.end);
  failed += leave_folder();
  int64_t left = tt_mem_live_blocks() - before;
  if (left) fprintf(stderr, "%s: %d blocks were not freed\n", suite, (int)left);
  return failed + (left != 0);
}
