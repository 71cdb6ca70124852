/* test_config_units.c — values with units: durations and sizes; settings of the environment. */
#include "core/config/config_internal.h"
#include "tests/unit/config/config_job.h"

#include <stdlib.h>
#include <string.h>

/* JSON has no other way to write them. */
TT_TEST (auto_durations_and_sizes_may_be_quoted) {
  tt_config *c = must_parse(
      "{\"data\": {\"file\": \"d.h5\"}, \"ensembles\": [{\"name\": \"a\"}], \"checkpoint\": "
      "{\"every\": "
      "\"20s\"}, \"run\": {\"threads\": \"auto\", \"max_time\": \"auto\", \"memory\": \"2GiB\"}}",
      NULL, 0);
  TT_CHECK(c->checkpoint_every, ==, 20.0);
  TT_CHECK(c->run_threads, ==, -1);
  TT_CHECK(c->run_max_time, ==, -1.0);
  TT_CHECK(c->run_memory, ==, 2147483648.0);
  tt_config_destroy(&c);
}

TT_TEST (durations_and_sizes_have_units) {
  static const struct {
    const char *set;
    double seconds, bytes; /* of run.max_time and run.memory; -1: auto */
  } good[] = {{"run.max_time=20s", 20, -1},       {"run.max_time=0.5s", 0.5, -1},
              {"run.max_time=2h", 7200, -1},      {"run.max_time=1d", 86400, -1},
              {"run.max_time=20ms", 0.02, -1},    {"run.max_time=10 min", 600, -1},
              {"run.max_time=1.5e1min", 900, -1}, {"run.max_time=auto", -1, -1},
              {"run.memory=2MiB", -1, 2097152},   {"run.memory=1.5 GiB", -1, 1610612736},
              {"run.memory=3000kB", -1, 3e6},     {"run.memory=1TB", -1, 1e12}};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    tt_config *c = must_parse(least_job, &good[i].set, 1);
    TT_CHECK(c->run_max_time, ==, good[i].seconds);
    TT_CHECK(c->run_memory, ==, good[i].bytes);
    tt_config_destroy(&c);
  }
}

TT_TEST (settings_for_developers_come_from_the_environment) {
  tt_config *c = NULL;
  setenv("TUTTI_GPU_PATH", "block", 1);
  c = must_parse(main_job, NULL, 0);
  TT_CHECK(c->gpu_path, ==, (int)TT_GPU_PATH_block);
  TT_CHECK(c->simd, ==, (int)TT_SIMD_auto);
  tt_config_destroy(&c);
  setenv("TUTTI_GPU_PATH", "blok", 1);
  TT_CHECK((int)tt_config_parse("job.yaml", main_job, (int)strlen(main_job), NULL, 0, &c), ==,
           (int)TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(), "the environment variable TUTTI_GPU_PATH: 'blok' is not one of auto, "
                              "warp, block");
  unsetenv("TUTTI_GPU_PATH");
}
