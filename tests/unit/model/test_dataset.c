/* test_dataset.c — laws of tt_columns_compare (core/model/dataset.h): columns of two files are matched by name. */
#include "core/base/mem.h"
#include "core/model/dataset.h"
#include "tests/support/check.h"

enum { MOST = 4 };

/* Letters are names: "abc" has columns a, b, c. Lower case: given by the user. */
static tt_columns columns(const char *letters, int given)
{
  tt_columns c = {0};
  TT_CHECK_OK(tt_columns_create((int64_t)strlen(letters), &c));
  for (int64_t i = 0; i < c.count; i++)
    TT_CHECK_OK(tt_text_set(&c.name[i], (char[]){letters[i], '\0'}));
  c.given = given;
  return c;
}

TT_TEST (columns_are_matched_by_name_then_by_position) {
  static const struct {
    const char *wanted, *here;
    int given;
    tt_columns_fit fit;
  } cases[] = {
      {"abc", "abc", 1, TT_COLUMNS_FIT_same},
      {"abc", "cab", 1, TT_COLUMNS_FIT_reordered},
      {"abc", "cab", 0, TT_COLUMNS_FIT_reordered},
      {"abc", "abd", 1, TT_COLUMNS_FIT_different},
      {"abc", "abd", 0, TT_COLUMNS_FIT_unnamed},
      {"abc", "ab", 0, TT_COLUMNS_FIT_different},
      {"aba", "aba", 1, TT_COLUMNS_FIT_same},
      {"aba", "aab", 1, TT_COLUMNS_FIT_different},
      {"", "", 1, TT_COLUMNS_FIT_same},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int side = 0; side < 2; side++) { /* which side has no names from the user */
      tt_columns wanted = columns(cases[i].wanted, side || cases[i].given);
      tt_columns here = columns(cases[i].here, !side || cases[i].given);
      int64_t found[MOST];
      tt_columns_fit fit;
      TT_CHECK_OK(tt_columns_compare(&wanted, &here, found, &fit));
      TT_CHECK((int)fit, ==, (int)cases[i].fit);
      for (int64_t k = 0; k < wanted.count && fit != TT_COLUMNS_FIT_different; k++)
        if (fit == TT_COLUMNS_FIT_reordered)
          assert_string_equal(here.name[found[k]], wanted.name[k]);
        else
          TT_CHECK(found[k], ==, k);
      tt_columns_free(&wanted);
      tt_columns_free(&here);
    }
}

TT_TEST (a_long_list_of_columns_is_cut) {
  char text[16];
  tt_columns c = columns("abcdefghij", 1);
  assert_string_equal(tt_columns_list(&c, text, sizeof text), "a, b, c, d, ...");
  c.count = 3;
  assert_string_equal(tt_columns_list(&c, text, sizeof text), "a, b, c");
  c.count = 10;
  tt_columns_free(&c);
}
