/* check.h — TT_TEST and TT_CHECK over cmocka: a failure prints both values. */
#ifndef TT_CHECK_H
#define TT_CHECK_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define TT_TEST(name) static void name(void **cmocka_state __attribute__((unused)))

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
