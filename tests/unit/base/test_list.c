/* test_list.c — lists of texts in options. */
#include "core/base/list.h"
#include "core/base/mem.h"
#include "tests/support/check.h"

#include <string.h>

TT_TEST (lists_are_split_or_rejected) {
  static const struct {
    const char *text, *wanted; /* items joined by |, or the error */
  } row[] = {
      {"a", "a"},
      {"a, b,\"c,d\"", "a|b|c,d"},
      {" a b , \"x \"\"y\"\"\" ,\"\"\"\"", "a b|x \"y\"|\""},
      {"a\"b,c", "a\"b|c"},
      {"", "--inputs: item 1 of '' is empty"},
      {"a,,b", "--inputs: item 2 of 'a,,b' is empty"},
      {"a, ", "--inputs: item 2 of 'a, ' is empty"},
      {"a,\"\"", "--inputs: item 2 of 'a,\"\"' is empty"},
      {"a,\"b", "a quote is not closed, or text follows a closing quote: a,\"b"},
      {"\"", "a quote is not closed, or text follows a closing quote: \""},
      {"\"a\"b", "a quote is not closed, or text follows a closing quote: \"a\"b"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char got[128] = "", *again = NULL;
    tt_list *l = NULL, *twice = NULL;
    tt_err e = tt_list_parse("--inputs", row[i].text, &l);
    if (e) {
      assert_int_equal(e, TT_E_USAGE);
      TT_CHECK_HAS(tt_err_last(), row[i].wanted);
      continue;
    }
    for (int64_t k = 0; k < l->count; k++) {
      if (k) strcat(got, "|");
      strcat(got, l->item[k]);
      TT_CHECK_OK(tt_list_add(&again, l->item[k]));
    }
    assert_string_equal(got, row[i].wanted);
    TT_CHECK_OK(tt_list_parse("again", again, &twice)); /* what is written reads back */
    TT_CHECK(twice->count, ==, l->count);
    for (int64_t k = 0; k < l->count; k++) assert_string_equal(twice->item[k], l->item[k]);
    tt_free(again);
    tt_list_destroy(&l);
    tt_list_destroy(&twice);
  }
}
