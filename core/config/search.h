/* search.h — `search:` of a job: presets, the space that trials are drawn from, and rungs.
 *
 * A trial is a network of an ensemble: a configuration, with members that each leave out a fold.
 * The first trials are the recipes of `model: auto` (portfolio.h); trial i after them follows from
 * search.seed and i alone. At each rung one trial in three goes on (src/train/search.h). */
#ifndef TT_SEARCH_H
#define TT_SEARCH_H
#include <stdint.h>

/* name, trials, folds; chosen by bench/tune/study.py */
#define TT_SEARCHES(X)                                                                             \
  X(none, 0, 0)                                                                                    \
  X(fast, 16, 5)                                                                                   \
  X(good, 48, 8)                                                                                   \
  X(best, 200, 10)

typedef enum tt_search_preset {
#define X(name, ...) TT_SEARCH_##name,
  TT_SEARCHES(X)
#undef X
      TT_SEARCH_COUNT
} tt_search_preset;

/* What a trial has in common with all others: rungs are at the ends of cycles of the learning rate,
 * where it is 0, so that a trial that stops there is as good as it can be (bench/tune/rungs.py). */
#define TT_SEARCH_COMMON "train: {schedule: cosine_restarts, schedule_growth: 3, optimizer: adamw}"

/* section, option, how it is drawn (as `sweep` is written); `search.space` replaces rows */
#define TT_SEARCH_SPACE(X)                                                                         \
  X(model, hidden,                                                                                 \
    "{choice: [[64, 64], [64, 64, 64], [64, 64, 64, 64], [128, 128], [128, 128, 128], "            \
    "[256, 256]]}")                                                                                \
  X(model, activation, "{choice: [silu, gelu, tanh, relu]}")                                       \
  X(train, learning_rate, "{log_uniform: [1e-3, 2e-2]}")                                           \
  X(train, weight_decay, "{log_uniform: [1e-3, 1]}")                                               \
  X(train, batch_size, "{choice: [16, 32, 64, 128]}")                                              \
  X(train, dropout, "{choice: [0, 0, 0.05, 0.1, 0.2]}")                                            \
  X(train, beta2, "{choice: [0.95, 0.99, 0.999]}")

/* A trial is compared with the others after 1/13, 4/13 and all of its epochs; these places are the
 * rungs. From one rung to the next it trains three times as long as before, and a third of the
 * trials is left. */
enum { TT_RUNGS = 3, TT_RUNG_UNITS = 13, TT_RUNG_FACTOR = 3 };

/* Epochs of the first rung of a member with so many epochs; all rungs are multiples of it. */
static inline int64_t tt_rung_unit(int64_t epochs)
{
  int64_t unit = (epochs + TT_RUNG_UNITS / 2) / TT_RUNG_UNITS;
  return unit > 0 ? unit : 1;
}

/* Epochs of rung 0, 1, ...; and those at which it ends. */
static inline int64_t tt_rung_length(int64_t unit, int64_t rung)
{
  return rung > 0 ? TT_RUNG_FACTOR * tt_rung_length(unit, rung - 1) : unit;
}
static inline int64_t tt_rung_end(int64_t unit, int64_t rung)
{
  return rung < 0 ? 0 : tt_rung_end(unit, rung - 1) + tt_rung_length(unit, rung);
}
#endif
