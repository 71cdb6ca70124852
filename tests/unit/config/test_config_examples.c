/* test_config_examples.c — every job and campaign in README.md, docs/ and examples/ is a valid job
 * file; a job for images and profiles. */
#include "core/base/mem.h"
#include "core/config/config.h"
#include "tests/support/check.h"

#include <glob.h>
#include <string.h>

static void must_be_job(const char *file, const char *text, size_t bytes)
{
  tt_config *c = NULL;
  tt_err e = tt_config_parse(file, text, (int64_t)bytes, NULL, 0, &c);
  if (e) fprintf(stderr, "%.*s\n%s\n", (int)bytes, text, tt_err_last());
  TT_CHECK_OK(e);
  tt_config_destroy(&c);
}

/* Some sections of a campaign, completed with the least that is required. */
static void check_campaign(const char *file, const char *text)
{
  char job[8192];
  int hidden = strstr(text, "mode: hidden") != NULL;
  int n =
      snprintf(job, sizeof job, "%s%s%s%s%s", strstr(text, "data:") ? "" : "data: {file: d.h5}\n",
               strstr(text, "ensembles:") ? "" : "ensembles: [{name: a}]\n", text,
               strstr(text, "pool:") ? ""
               : hidden              ? "\npool: {file: p.h5, labels: y}\n"
                                     : "\npool: {file: p.h5}\n",
               strstr(text, "label:") ? "" : "label: {command: [a, '{input}', '{output}']}\n");
  must_be_job(file, job, (size_t)n);
}

static int is_campaign(const char *text)
{
  static const char *const section[] = {
      "campaign:", "pool:", "score:", "select:", "label:", "stop:"};
  for (size_t i = 0; i < sizeof section / sizeof *section; i++) {
    const char *cursor = strstr(text, section[i]);
    if (cursor && (cursor == text || cursor[-1] == '\n')) return 1;
  }
  return 0;
}

/* A whole job, or parts of one: each entry of the top level must be valid when completed with the
 * least that is required. */
static void check_block(const char *file, char *text)
{
  char job[4096];
  if (is_campaign(text)) {
    check_campaign(file, text);
    return;
  }
  if (strstr(text, "data:") && strstr(text, "ensembles:")) {
    must_be_job(file, text, strlen(text));
    return;
  }
  for (char *cursor = text, *end; *cursor; cursor = end) {
    end = cursor + strcspn(cursor, "\n");
    while (end[0] && (end[1] == ' ' || end[1] == '-')) end += 1 + strcspn(end + 1, "\n");
    end += *end == '\n';
    int n = snprintf(job, sizeof job, "%s%s%.*s",
                     strncmp(cursor, "data:", 5) ? "data: {file: d.h5}\n" : "",
                     strncmp(cursor, "ensembles:", 10) ? "ensembles: [{name: a}]\n" : "",
                     (int)(end - cursor), cursor);
    must_be_job(file, job, (size_t)n);
  }
}

/* Every ```yaml block of a page; a file that is no page is one block. */
static void check_examples(const char *file)
{
  char *text = NULL;
  int64_t bytes = 0;
  int page = strstr(file, ".md") != NULL;
  TT_CHECK_OK(tt_config_read_file(file, &text, &bytes)); /* room for one more byte */
  text[bytes] = '\0';
  if (!page) check_block(file, text);
  for (char *cursor = text; page && (cursor = strstr(cursor, "```yaml\n"));) {
    char *begin = cursor + 8, *end = strstr(begin, "```");
    assert_non_null(end);
    *end = '\0';
    check_block(file, begin);
    cursor = end + 1;
  }
  tt_free(text);
}

TT_TEST (every_example_is_a_job) {
  static const char *const place[] = {"README.md", "docs/*.md", "examples/*/*.yaml"};
  for (size_t i = 0; i < sizeof place / sizeof *place; i++) {
    char pattern[512];
    glob_t all;
    snprintf(pattern, sizeof pattern, "%s/%s", TUTTI_SOURCE, place[i]);
    TT_CHECK(glob(pattern, 0, NULL, &all), ==, 0);
    for (size_t f = 0; f < all.gl_pathc; f++) check_examples(all.gl_pathv[f]);
    globfree(&all);
  }
}

static tt_config *parsed(const char *text)
{
  tt_config *c = NULL;
  TT_CHECK_OK(tt_config_parse("job.yaml", text, (int64_t)strlen(text), NULL, 0, &c));
  return c;
}

/* A job's front is not that of an ensemble that says []; the resolved job says the same. */
TT_TEST (an_ensemble_switches_a_front_off) {
  static const char job[] = "data: {file: d.h5}\n"
                            "model: {image: [1, 8, 8], front: [conv 4 3, pool max 2]}\n"
                            "ensembles: [{name: a}, {name: b, model: {front: []}}]\n";
  char *text = NULL;
  tt_config *c = parsed(job);
  TT_CHECK(c->ensemble[0].model_front.count, ==, 2);
  TT_CHECK(c->ensemble[1].model_front.count, ==, 0);
  TT_CHECK_OK(tt_config_to_yaml(c, &text));
  tt_config_destroy(&c);
  c = parsed(text);
  TT_CHECK(c->ensemble[0].model_front.count, ==, 2);
  TT_CHECK(c->ensemble[1].model_front.count, ==, 0);
  TT_CHECK(c->ensemble[1].model_image.count, ==, 3);
  tt_config_destroy(&c);
  tt_free(text);
}
