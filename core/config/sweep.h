/* sweep.h — values of hyper-parameters that differ from member to member. Floor 1.
 *
 * A value follows from (seed, stream of the member, name of the option) or from the member's
 * number: never from ranks, slices or other members. */
#ifndef TT_SWEEP_H
#define TT_SWEEP_H
#include "core/formulas/hyper.h"
#ifdef __cplusplus
extern "C" {
#endif

/* name, meaning */
#define TT_SWEEPS(X)                                                                               \
  X(list, "as long as members: one value each, in their order")                                    \
  X(grid, "all combinations of the gridded options, in the order of the file")                     \
  X(uniform, "drawn from [a, b]")                                                                  \
  X(log_uniform, "drawn from [a, b] so that the logarithm is uniform")                             \
  X(choice, "one of the values, drawn")

typedef enum tt_sweep_kind {
#define X(name, meaning) TT_SWEEP_##name,
  TT_SWEEPS(X)
#undef X
      TT_SWEEP_COUNT
} tt_sweep_kind;

/* One swept option of an ensemble. */
typedef struct tt_sweep {
  int hyper; /* TT_HYPER_learning_rate, ... */
  tt_sweep_kind kind;
  int64_t count;
  double *value; /* [count]: the values, or a and b; of words their numbers. Owned. */
} tt_sweep;

/* One member of an ensemble. */
typedef struct tt_sweep_member {
  uint64_t seed, stream;
  int64_t index;    /* number in the ensemble: grids */
  int64_t position; /* number in the job's part of the ensemble: lists */
} tt_sweep_member;

/* Set what `sweeps` options sweep[] say about the member; the others stay. Options of whole numbers
 * get whole numbers. */
void tt_sweep_apply(int64_t sweeps, const tt_sweep *sweep, const tt_sweep_member *m, tt_hyper *h);

/* Number of combinations of the gridded options; 1 without any, above INT32_MAX only that it is. */
int64_t tt_sweep_combinations(int64_t sweeps, const tt_sweep *sweep);

extern const char *const tt_hyper_name[TT_HYPER_COUNT + 1]; /* ends in NULL */
extern const int8_t tt_hyper_is_whole[TT_HYPER_COUNT];
extern const char *const tt_choice_sweep[];
#ifdef __cplusplus
}
#endif
#endif
