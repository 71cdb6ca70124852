/* config_job.h — valid job files and functions that the tests of the configuration share. */
#ifndef TT_CONFIG_JOB_H
#define TT_CONFIG_JOB_H
#include "core/base/mem.h"
#include "core/config/config.h"
#include "tests/support/check.h"

#include <string.h>

static const char main_job[] =
    "title: Heating and cooling load of buildings\n"
    "data:      {file: energy.h5, inputs: x, targets: y, normalize: standard,\n"
    "            split: {train: 0.8, validation: 0.1, test: 0.1, seed: 7}}\n"
    "model:     {hidden: [64, 64], activation: silu, output: mean_variance}\n"
    "ensembles: [{name: heating, target: heating_load, members: 50},\n"
    "            {name: cooling, target: cooling_load, members: 50}]\n"
    "train:     {loss: gaussian_nll, optimizer: adam, learning_rate: 1e-3, batch_size: 64,"
    " epochs: 200, resample: bootstrap, patience: 20}\n"
    "checkpoint: {every: 10min, keep: 2}\n"
    "run:       {seed: 2026, device: auto, threads: auto, directory: out}\n";
static const char least_job[] __attribute__((unused)) =
    "data: {file: d.h5}\nensembles: [{name: a}]\n";

static inline tt_err parse(const char *text, const char *const *set, int nset, tt_config **out)
{
  return tt_config_parse("job.yaml", text, (int64_t)strlen(text), set, nset, out);
}

static inline tt_config *must_parse(const char *text, const char *const *set, int nset)
{
  tt_config *cfg = NULL;
  TT_CHECK_OK(parse(text, set, nset, &cfg));
  return cfg;
}

static inline void same_text(const char *got, const char *wanted)
{
  if (strcmp(got, wanted) == 0) return;
  fprintf(stderr, "\"%s\" against \"%s\"\n", got, wanted);
  fail();
}

static inline uint64_t next_random(uint64_t *s) /* xorshift64, Marsaglia 2003 */
{
  *s ^= *s << 13;
  *s ^= *s >> 7;
  return *s ^= *s << 17;
}

/* The text of `c`, read back, gives the same text and hash. */
static inline void round_trip(tt_config *c)
{
  char *text = NULL, *again = NULL;
  TT_CHECK_OK(tt_config_to_yaml(c, &text));
  tt_config *back = NULL;
  TT_CHECK_OK(tt_config_parse("/other/place.yaml", text, (int64_t)strlen(text), NULL, 0, &back));
  TT_CHECK_OK(tt_config_to_yaml(back, &again));
  same_text(again, text);
  TT_CHECK(tt_config_result_hash(back) == tt_config_result_hash(c), ==, 1);
  tt_free(text);
  tt_free(again);
  tt_config_destroy(&back);
}
#endif
