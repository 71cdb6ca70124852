/* test_config_bad.c — laws of the job file: errors are reported with their line and column. */
#include "core/base/mem.h"
#include "tests/support/check.h"
#include "tests/unit/config/config_bad.h"
#include "tests/unit/config/config_bad_rules.h"
#include "tests/unit/config/config_job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

TT_TEST (every_mistake_is_reported_with_its_place) {
  check_bad(bad, sizeof bad / sizeof *bad);
  check_bad(bad_rules, sizeof bad_rules / sizeof *bad_rules);
}

/* Every score with every loss: rejected exactly if the output lacks what the score needs; each
 * score that the message offers instead is accepted. */
static tt_err score_with_loss(int kind, int loss)
{
  tt_config *c = NULL;
  char text[512];
  snprintf(
      text, sizeof text,
      JOB
      "pool: {file: p.h5}\nlabel: {command: [f]}\nscore: {acquisition: %s}\ntrain: {loss: %s}\n",
      tt_choice_acquisition[kind], tt_choice_loss[loss]);
  tt_err e = parse(text, NULL, 0, &c);
  tt_config_destroy(&c);
  return e;
}

TT_TEST (scores_that_do_not_fit_the_output_are_rejected) {
  for (int loss = 0; tt_choice_loss[loss]; loss++)
    for (int kind = 0; kind < TT_ACQUISITION_COUNT; kind++) {
      char part[64];
      int fits = tt_acquisition_supports((tt_acquisition)kind, tt_loss_output_head((tt_loss)loss));
      tt_err e = score_with_loss(kind, loss);
      TT_CHECK(e, ==, fits ? TT_OK : (tt_err)TT_E_CONFIG);
      if (fits) continue;
      snprintf(part, sizeof part, "job.yaml:5:22: score.acquisition: %s does not fit ensembles[0]",
               tt_choice_acquisition[kind]);
      TT_CHECK_HAS(tt_err_last(), part);
      for (int other = 0; other < TT_ACQUISITION_COUNT; other++) {
        int offered =
            strstr(strstr(tt_err_last(), "; choose "), tt_choice_acquisition[other]) != NULL;
        TT_CHECK(
            offered, ==,
            tt_acquisition_supports((tt_acquisition)other, tt_loss_output_head((tt_loss)loss)));
      }
    }
}

TT_TEST (bytes_that_are_no_job_file_are_rejected) {
  enum { MOST = 1048576 };
  char *text = NULL;
  tt_config *c = NULL;
  TT_CHECK_OK(TT_ALLOC(text, MOST + 1));
  TT_CHECK(tt_config_parse("job.yaml", "a:\n \0", 5, NULL, 0, &c), ==, (tt_err)TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(), "job.yaml:2:2: a NUL byte");
  static const char *const deep[] = {"[", "{", "- ", "? ", "{a: ", "[\n"};
  for (size_t i = 0; i < sizeof deep / sizeof *deep; i++) {
    size_t unit = strlen(deep[i]);
    for (size_t offset = 0; offset + unit <= MOST; offset += unit)
      memcpy(text + offset, deep[i], unit);
    TT_CHECK(tt_config_parse("job.yaml", text, MOST, NULL, 0, &c), ==, (tt_err)TT_E_CONFIG);
    TT_CHECK_HAS(tt_err_last(), "nested too deeply; at most 64 levels are allowed");
  }
  memset(text, '[', 65);
  TT_CHECK(tt_config_parse("job.yaml", text, 64, NULL, 0, &c), ==, (tt_err)TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(), "job.yaml:2:1: YAML: did not find");
  TT_CHECK(tt_config_parse("job.yaml", text, 65, NULL, 0, &c), ==, (tt_err)TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(), "job.yaml:1:65: nested too deeply; at most 64 levels are allowed");
  memset(text, '#', MOST + 1);
  TT_CHECK(tt_config_parse("job.yaml", text, MOST + 1, NULL, 0, &c), ==, (tt_err)TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(), "job.yaml:1:1: 1048577 bytes; a job file has at most 1 MiB");
  memset(text, 'a', MOST);
  memcpy(text, "t: ", 3);
  TT_CHECK(tt_config_parse("job.yaml", text, MOST, NULL, 0, &c), ==, (tt_err)TT_E_CONFIG);
  memcpy(text, "title: ", 7);
  TT_CHECK(tt_config_parse("job.yaml", text, MOST, NULL, 0, &c), ==, (tt_err)TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(), "bytes long; at most 4096 are allowed");
  tt_free(text);
}

TT_TEST (a_thousand_errors_are_counted_and_the_first_are_shown) {
  char text[20000] = "";
  tt_config *c = NULL;
  size_t used = 0;
  for (int i = 0; i < 1000; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "wombat%d: 1\n", i);
  TT_CHECK(parse(text, NULL, 0, &c), ==, (tt_err)TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(), "job.yaml:1:1: unknown key 'wombat0'");
  TT_CHECK_HAS(tt_err_last(), " more\n1002 errors; nothing was run");
}

/* Each unknown key takes a search for the nearest known one: 90,000 of them took half a minute. */
TT_TEST (a_megabyte_of_unknown_keys_is_refused_soon) {
  char *text = NULL;
  tt_config *c = NULL;
  size_t used = 0;
  TT_CHECK_OK(tt_alloc_bytes(&text, 1 << 20, 1, "text"));
  for (int i = 0; used + 16 < 1 << 20; i++)
    used += (size_t)snprintf(text + used, 16, "wombat%d: 1\n", i);
  TT_CHECK(tt_config_parse("job.yaml", text, (int64_t)used, NULL, 0, &c), ==, (tt_err)TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(), " errors or more; nothing was run");
  tt_free(text);
}

static int has_place(const char *message)
{
  int line = 0, column = 0;
  return sscanf(message, "job.yaml:%d:%d: ", &line, &column) == 2 && line > 0 && column > 0;
}

static size_t mutate(char *text, size_t n, size_t capacity, uint64_t *s)
{
  static const char spice[] = "{}[]:,-?&*!|>'\"%@`#\n\t \\\0\x80\xC3\xFF"
                              "09eE.~ax";
  size_t offset = next_random(s) % n, to = next_random(s) % n, length = 1 + next_random(s) % 12;
  switch (next_random(s) % 4) {
  case 0: text[offset] = (char)next_random(s); return n;
  case 1: text[offset] = spice[next_random(s) % (sizeof spice - 1)]; return n;
  case 2: /* cut */
    if (n < 2 * length || offset + length > n) return n;
    memmove(text + offset, text + offset + length, n - offset - length);
    return n - length;
  default: /* repeat a piece elsewhere */
    if (offset + length > n || n + length > capacity) return n;
    memmove(text + to + length, text + to, n - to);
    memmove(text + to, text + (offset < to ? offset : 0), length);
    return n + length;
  }
}

TT_TEST (damaged_files_give_a_config_or_an_error_with_its_place) {
  uint64_t s = 0x9E3779B97F4A7C15ull;
  int accepted = 0;
  for (int i = 0; i < 1000; i++) {
    char text[2048];
    size_t n = sizeof main_job - 1;
    memcpy(text, main_job, n);
    for (uint64_t k = 1 + next_random(&s) % 4; k > 0; k--) n = mutate(text, n, sizeof text, &s);
    char *exact = malloc(n); /* so that the sanitizers find a read past the end */
    assert_non_null(exact);
    memcpy(exact, text, n);
    tt_config *c = NULL;
    tt_err e = tt_config_parse("job.yaml", exact, (int64_t)n, NULL, 0, &c);
    free(exact);
    if (e == TT_OK) round_trip(c);
    if (e != TT_OK && !has_place(tt_err_last())) fprintf(stderr, "%s\n", tt_err_last());
    TT_CHECK(e == TT_OK || (e == TT_E_CONFIG && has_place(tt_err_last())), ==, 1);
    accepted += e == TT_OK;
    tt_config_destroy(&c);
  }
  TT_CHECK(accepted, >, 25); /* both outcomes must occur */
  TT_CHECK(accepted, <, 750);
}
