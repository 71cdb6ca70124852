/* test_timing.c — the model of the time of a step: its fit, its file, and a measurement. */
#include "src/timing/calibrate.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const tt_engine_ops tt_engine_cpu;

/* Sums of known terms give these terms back; a term that would be negative is 0. */
TT_TEST (a_fit_finds_the_terms) {
  const double want[3] = {2e-6, 3e-11, 0.0};
  double count[20][3], value[20], got[3];
  for (int k = 0; k < 20; k++) {
    count[k][0] = 1.0;
    count[k][1] = 1000.0 * (double)(1 + k * k);
    count[k][2] = (double)(1 + k % 7);
    value[k] = 0.0;
    for (int i = 0; i < 3; i++) value[k] += want[i] * count[k][i];
  }
  tt_step_fit(20, 3, count[0], value, got);
  for (int i = 0; i < 3; i++) TT_CHECK(fabs(got[i] - want[i]), <=, 1e-9 * (want[i] + 1e-6));
  for (int k = 0; k < 20; k++) value[k] -= 1e-8 * count[k][2];
  tt_step_fit(20, 3, count[0], value, got);
  TT_CHECK(got[2], ==, 0.0);
}

/* 8-16-1 with 20 rows, which are padded to 32. */
TT_TEST (terms_are_counted_in_padded_rows) {
  const int64_t hidden = 16;
  tt_model m;
  double count[TT_STEP_COST_COUNT];
  tt_model_shape shape = {.inputs = 8, .targets = 1, .hidden = &hidden, .layers = 1};
  TT_CHECK_OK(tt_model_lay_out(&shape, &m));
  tt_step_count(&m, 20, 0, count);
  TT_CHECK(count[TT_STEP_COST_flops], ==, tt_model_flops(&m, 32));
  TT_CHECK(count[TT_STEP_COST_values], ==, 32.0 * 17.0);
  TT_CHECK(count[TT_STEP_COST_params], ==, (double)m.params);
  tt_step_count(&m, 20, 1, count);
  TT_CHECK(count[TT_STEP_COST_flops], ==, 2.0 * 32.0 * (8.0 * 16.0 + 16.0));
  TT_CHECK(count[TT_STEP_COST_params] + count[TT_STEP_COST_step], ==, 0.0);
}

static int begin(void **unused)
{
  return setenv("TUTTI_MACHINE", "new/machine.json", 1) || enter_folder(unused);
}

/* One short trial of each case, so that the numbers mean little; but each is there, and the file gives it back. */
TT_TEST (a_measurement_is_kept_in_its_file) {
  const tt_resources use = {.threads = 2};
  char place[256];
  tt_machine m, back;
  TT_CHECK_OK(tt_machine_path(place, sizeof place));
  TT_CHECK(strcmp(place, "new/machine.json"), ==, 0);
  TT_CHECK((int)tt_machine_read(place, &back), ==, TT_E_NOINPUT);
  TT_CHECK_OK(tt_machine_measure(&(tt_timing){&tt_engine_cpu, &use, 1, 1e-4}, test_folder, &m));
  double sum = 0.0;
  for (int i = 0; i < TT_STEP_COST_COUNT; i++) sum += m.seconds.term[i];
  TT_CHECK(sum, >, 0.0);
  TT_CHECK(m.threads, ==, 2);
  TT_CHECK(m.cores, >, 0.0);
  TT_CHECK(m.write_rate, >, 1e5);
  TT_CHECK(isfinite(m.error) != 0, ==, 1);
  TT_CHECK_OK(tt_machine_write(place, &m));
  TT_CHECK_OK(tt_machine_read(place, &back));
  TT_CHECK(strcmp(back.processor, m.processor), ==, 0);
  TT_CHECK(back.threads, ==, m.threads);
  for (int i = 0; i < TT_STEP_COST_COUNT; i++)
    TT_CHECK(fabs(back.seconds.term[i] - m.seconds.term[i]), <=, 1e-12 * m.seconds.term[i]);
  for (int a = 0; a < TT_ACT_COUNT; a++)
    TT_CHECK(fabs(back.seconds.activation[a] - m.seconds.activation[a]), <=, 1e-18);
  TT_CHECK(m.seconds.activation[TT_ACT_relu], ==, 0.0);
  FILE *f = fopen(place, "w");
  fputs("{\"format\": \"tutti-machine-1.0\"}", f);
  fclose(f);
  TT_CHECK((int)tt_machine_read(place, &back), ==, TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "run it again");
}

TT_SUITE(begin, NULL)
