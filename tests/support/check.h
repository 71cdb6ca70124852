/* check.h — TT_TEST and TT_CHECK over cmocka: a failure prints both values. A suite is the tests of
 * one file: test_metrics.c is the suite metrics. Tests register themselves in their program
 * (suites.h): there is no list of them. */
#ifndef TT_CHECK_H
#define TT_CHECK_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#ifdef __cplusplus
extern "C" {
#endif
typedef struct tt_test_case {
  const char *file, *name;
  int line;
  void (*run)(void **);
  struct tt_test_case *next;
} tt_test_case;
typedef struct tt_test_around {
  const char *file;
  int (*begin)(void **), (*end)(void **);
  struct tt_test_around *next;
} tt_test_around;
typedef struct tt_test_command {
  const char *word;
  int (*run)(int, char **);
  struct tt_test_command *next;
} tt_test_command;
void tt_test_enter_case(tt_test_case *c);
void tt_test_enter_around(tt_test_around *a);
void tt_test_enter_command(tt_test_command *c);

/* For TT_SUITE: make a directory for the suite and work in it, so that names of files are relative
 * to it; it is removed after the last test, and a file named .tmp... that is still there then counts
 * as a failed test. The second one also prints no warnings. Return 0, or -1. */
int enter_folder(void **unused);
int enter_folder_quietly(void **unused);

/* Its absolute path, "" if the suite has not entered it. */
extern char test_folder[64];

/* Write a new file. */
void put_text(const char *file, const char *text);
#ifdef __cplusplus
}
#endif

#define TT_TEST(name_)                                                                             \
  static void name_(void **);                                                                      \
  __attribute__((constructor)) static void tt_enter_##name_(void)                                  \
  {                                                                                                \
    static tt_test_case c = {__FILE__, #name_, __LINE__, name_, NULL};                             \
    tt_test_enter_case(&c);                                                                        \
  }                                                                                                \
  static void name_(void **cmocka_state __attribute__((unused)))

/* int begin_(void **), int end_(void **): before the first and after the last test of this file; 0
 * if all is well. Each may be NULL. */
#define TT_SUITE(begin_, end_)                                                                     \
  __attribute__((constructor)) static void tt_enter_suite(void)                                    \
  {                                                                                                \
    static tt_test_around a = {__BASE_FILE__, begin_, end_, NULL};                                 \
    tt_test_enter_around(&a);                                                                      \
  }

/* int main_(int argc, char **argv): run instead of the tests if the first argument of the program
 * is `word_`. */
#define TT_COMMAND(word_, main_)                                                                   \
  __attribute__((constructor)) static void tt_enter_##main_(void)                                  \
  {                                                                                                \
    static tt_test_command c = {word_, main_, NULL};                                               \
    tt_test_enter_command(&c);                                                                     \
  }

/* TT_CHECK(got, ==, wanted) for numbers of any type. */
#define TT_CHECK(a_, op_, b_)                                                                      \
  do {                                                                                             \
    __typeof__(a_) tt_a = (a_);                                                                    \
    __typeof__(b_) tt_b = (b_);                                                                    \
    if (!(tt_a op_ tt_b)) {                                                                        \
      fprintf(stderr, "%s:%d: %s %s %s: %.17g against %.17g\n", __FILE__, __LINE__, #a_, #op_,     \
              #b_, (double)tt_a, (double)tt_b);                                                    \
      fail();                                                                                      \
    }                                                                                              \
  } while (0)

/* A call that must succeed: prints the error record if it does not. */
#define TT_CHECK_OK(call_)                                                                         \
  do {                                                                                             \
    if ((call_) != 0) {                                                                            \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call_, tt_err_last());               \
      fail();                                                                                      \
    }                                                                                              \
  } while (0)

/* The text must contain `part`. */
#define TT_CHECK_HAS(text_, part_)                                                                 \
  do {                                                                                             \
    if (!strstr((text_), (part_))) {                                                               \
      fprintf(stderr, "%s:%d: \"%s\" is not in \"%s\"\n", __FILE__, __LINE__, (part_), (text_));   \
      fail();                                                                                      \
    }                                                                                              \
  } while (0)
#endif
