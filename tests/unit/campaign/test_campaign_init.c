/* test_campaign_init.c — tutti reads the campaign that `tutti campaign init` writes, for any names
 * and sizes. */
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/config/config.h"
#include "io/data/data.h"
#include "src/campaign/driver/init.h"
#include "tests/support/check.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static tt_config *must_parse(const char *file)
{
  char *text = NULL;
  int64_t bytes = 0;
  tt_config *c = NULL;
  TT_CHECK_OK(tt_config_read_file(file, &text, &bytes));
  tt_err e = tt_config_parse(file, text, bytes, NULL, 0, &c);
  if (e) fprintf(stderr, "%.*s\n", (int)bytes, text);
  TT_CHECK_OK(e);
  tt_free(text);
  return c;
}

static void write_table(const char *file, int64_t rows, int64_t targets, char **names)
{
  char *in[] = {"p", "q"}, *none[] = {"", "", "", ""};
  tt_columns input = {2, in, none, 1, NULL, NULL, 0},
             target = {targets, names, none, 1, NULL, NULL, 0};
  double *x = calloc((size_t)rows * 2, sizeof *x), *y = calloc((size_t)rows * 4, sizeof *y);
  TT_CHECK_OK(tt_data_write_local(file, rows, &input, &target, x, y));
  free(x);
  free(y);
}

TT_TEST (the_example_is_a_campaign_with_its_files) {
  tt_data_shape s;
  TT_CHECK_OK(tt_campaign_init_local("example/deep", NULL, NULL, NULL, NULL));
  tt_config *c = must_parse("example/deep/campaign.yaml");
  TT_CHECK(c->campaign, ==, 1);
  TT_CHECK(c->label_mode, ==, (int)TT_LABEL_hidden);
  TT_CHECK_OK(tt_data_read_shape_local(c->data_file, c->data_inputs, c->data_targets, &s));
  TT_CHECK(s.rows, ==, 80);
  tt_data_shape_free(&s);
  TT_CHECK_OK(tt_data_read_shape_local(c->pool_file, c->pool_inputs, c->pool_labels, &s));
  TT_CHECK(s.rows, ==, 2000);
  tt_data_shape_free(&s);
  tt_config_destroy(&c);
}

TT_TEST (files_of_any_size_and_names_become_a_campaign) {
  static char *odd[] = {"load", "two words", "a: \"b\" \\ #", "\xC3\xA9"};
  static const int64_t rows[] = {1, 7, 60, 99, 100, 3000};
  for (int i = 0; i < 6; i++) {
    char folder[32];
    snprintf(folder, sizeof folder, "files%d", i);
    write_table("d.h5", rows[i], 1 + i % 4, odd);
    write_table("p.h5", 50, i % 2 ? 1 + i % 4 : 0, odd);
    TT_CHECK_OK(tt_campaign_init_local(folder, "d.h5", i == 4 ? NULL : "p.h5", NULL, NULL));
    snprintf(folder, sizeof folder, "files%d/campaign.yaml", i);
    tt_config *c = must_parse(folder);
    TT_CHECK(c->ensembles, ==, 1 + i % 4);
    for (int k = 0; k < 1 + i % 4; k++) TT_CHECK(strcmp(c->ensemble[k].target, odd[k]), ==, 0);
    TT_CHECK(c->label_mode, ==, (int)(i % 2 ? TT_LABEL_hidden : TT_LABEL_command));
    TT_CHECK(strstr(c->data_file, "/d.h5") != NULL, ==, 1);
    tt_config_destroy(&c);
    unlink("d.h5");
    unlink("p.h5");
  }
}

TT_TEST (tables_become_a_campaign) {
  static const char data[] = "t.csv", pool[] = "pool.csv";
  put_text(data, "id,p,q,load,cost\n1,1,2,3,4\n2,3,4,5,6\n");
  put_text(pool, "q,p,load,cost\n4,5,6,7\n");
  for (int labels = 0; labels <= 1; labels++) {
    char folder[32], file[64];
    snprintf(folder, sizeof folder, "tables%d", labels);
    snprintf(file, sizeof file, "tables%d/campaign.yaml", labels);
    if (!labels) put_text(pool, "q,p\n4,5\n6,7\n");
    if (labels) put_text(pool, "q,p,cost,load\n4,5,6,7\n");
    TT_CHECK_OK(tt_campaign_init_local(folder, data, pool, "p,q", "load,cost"));
    tt_config *c = must_parse(file);
    TT_CHECK(strcmp(c->data_inputs, "p,q"), ==, 0);
    TT_CHECK(strcmp(c->data_targets, "load,cost"), ==, 0);
    TT_CHECK(strcmp(c->pool_inputs, "x"), ==, 0);
    TT_CHECK(strcmp(c->ensemble[1].target, "cost"), ==, 0);
    TT_CHECK(c->label_mode, ==, (int)(labels ? TT_LABEL_hidden : TT_LABEL_command));
    tt_config_destroy(&c);
  }
  unlink(data);
  unlink(pool);
}

static void refused(tt_err e, tt_err wanted, const char *part)
{
  TT_CHECK((int)e, ==, (int)wanted);
  TT_CHECK_HAS(tt_err_last(), part);
}

TT_TEST (bad_data_and_pools_are_rejected) {
  char *name[] = {"t"}, *in[] = {"a", "b", "c"}, *none[] = {"", "", ""};
  tt_columns three = {3, in, none, 1, NULL, NULL, 0}, no = {0, NULL, NULL, 0, NULL, NULL, 0};
  double x[3] = {0};
  write_table("d.h5", 20, 1, name);
  TT_CHECK_OK(tt_data_write_local("wide.h5", 1, &three, &no, x, NULL));
  TT_CHECK_OK(tt_campaign_init_local("once", "d.h5", NULL, NULL, NULL));
  refused(tt_campaign_init_local("once", "d.h5", NULL, NULL, NULL), TT_E_CANTCREAT,
          "once/campaign.yaml exists");
  refused(tt_campaign_init_local("x", NULL, "d.h5", NULL, NULL), TT_E_USAGE, "--pool needs --data");
  refused(tt_campaign_init_local("x", NULL, NULL, "p", NULL), TT_E_USAGE,
          "--inputs and --targets need --data");
  refused(tt_campaign_init_local("x", "none.h5", NULL, NULL, NULL), TT_E_NOINPUT, "none.h5");
  refused(tt_campaign_init_local("x", "wide.h5", NULL, NULL, NULL), TT_E_DATA, "wide.h5");
  refused(tt_campaign_init_local("x", "d.h5", "wide.h5", NULL, NULL), TT_E_DATA,
          "wide.h5: dataset 'x' has 3 columns: a, b, c; but");
  TT_CHECK(access("x/campaign.yaml", F_OK), !=, 0);
}

TT_SUITE(enter_folder_quietly, NULL)
