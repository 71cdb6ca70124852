/* test_text.c — texts from files that reach terminals and tables. */
#include "core/base/text.h"
#include "tests/support/check.h"

#include <string.h>

/* One row: what is in the text, what stays of it, and what stays if line ends are kept. */
static const char *const table[][3] = {
    {"heat load / kWh", "heat load / kWh", "heat load / kWh"},
    {"", "", ""},
    {"\x1B[2J\x1B]0;x\x07y", "?[2J?]0;x?y", "?[2J?]0;x?y"},
    {"a\tb\nc\rd\x7F", "a?b?c?d?", "a\tb\nc?d?"},
    {"\xC3\x85 \xF0\x9F\x98\x80", "\xC3\x85 \xF0\x9F\x98\x80", "\xC3\x85 \xF0\x9F\x98\x80"},
    {"\xC2\x9B"
     "2J\xC2\xA0",
     "?2J\xC2\xA0", "?2J\xC2\xA0"},
    {"\x9B"
     "2J\xE2\x82",
     "?2J??", "?2J??"},
    /* lines and directions: U+2028, 202A to 202E, 2066 to 2069; their neighbors stay */
    {"\xE2\x80\xA8\xE2\x80\xAA\xE2\x80\xAE\xE2\x81\xA6\xE2\x81\xA9", "?????", "?????"},
    {"\xE2\x80\xA7\xE2\x80\xAF\xE2\x81\xA5", "\xE2\x80\xA7\xE2\x80\xAF\xE2\x81\xA5",
     "\xE2\x80\xA7\xE2\x80\xAF\xE2\x81\xA5"}};

TT_TEST (no_control_character_reaches_a_terminal) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    for (int kept = 0; kept < 2; kept++) {
      char text[64];
      strcpy(text, table[i][0]);
      tt_text_make_printable(text, kept ? "\n\t" : "");
      assert_string_equal(text, table[i][1 + kept]);
    }
}

TT_TEST (a_suggestion_has_something_in_common_with_the_word) {
  static const char *const row[][3] = {/* word, valid word, suggestion */
                                       {"train", "tran", "tran"},
                                       {"y", "a", ""},
                                       {"y", "Y", "Y"},
                                       {"y", "y [m]", "y [m]"},
                                       {"y", "year", ""},
                                       {"load", "Load_kwh", "Load_kwh"},
                                       {"epochs", "batch_size", ""}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tt_suggestion near = {.word = row[i][0]};
    tt_suggestion_consider(&near, row[i][1]);
    assert_string_equal(near.best, row[i][2]);
  }
}
