/* test_config_examples.c — every job and campaign in examples/ is a valid job file (those in the docs:
 * system.docs_commands); a job for images and profiles. */
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

TT_TEST (every_example_is_a_job) {
  glob_t all;
  TT_CHECK(glob(TUTTI_SOURCE "/examples/*/*.yaml", 0, NULL, &all), ==, 0);
  for (size_t f = 0; f < all.gl_pathc; f++) {
    char *text = NULL;
    int64_t bytes = 0;
    TT_CHECK_OK(tt_config_read_file(all.gl_pathv[f], &text, &bytes));
    must_be_job(all.gl_pathv[f], text, (size_t)bytes);
    tt_free(text);
  }
  globfree(&all);
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
