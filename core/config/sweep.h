/* sweep.h — values of hyper-parameters that differ between members.
 *
 * A value follows from (seed, stream of the member, name of the option) or from the number of
 * the member: never from ranks, slices or other members. */
#ifndef TT_SWEEP_H
#define TT_SWEEP_H
#include "core/base/rng.h"
#include "core/formulas/hyper.h"
TT_BEGIN_C

/* name, meaning */
#define TT_SWEEPS(X)                                                                               \
  X(list, "one value for each member, in the order of the members")                                \
  X(grid, "all combinations of the options with grid; the last one in the file changes fastest")   \
  X(uniform, "drawn uniformly from [a, b]")                                                        \
  X(log_uniform, "drawn from [a, b] so that the logarithm is uniform")                             \
  X(choice, "one of the values, drawn at random")

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
  double *value; /* [count] values, or a and b. Owned. */
} tt_sweep;

/* One member of an ensemble. */
typedef struct tt_sweep_member {
  uint64_t seed, stream;
  int64_t index;    /* number in the ensemble, for grid */
  int64_t position; /* number in the part of the ensemble that the job trains, for list */
} tt_sweep_member;

/* Set the fields of *h that sweep[sweeps] names to the values of the member; other fields stay.
 * Options of whole numbers get whole numbers. */
void tt_sweep_apply(int64_t sweeps, const tt_sweep *sweep, const tt_sweep_member *m, tt_hyper *h);

/* Values to draw from; of a choice of texts their numbers. */
typedef struct tt_sweep_range {
  tt_sweep_kind kind; /* uniform, log_uniform, choice */
  int is_whole;
  int64_t count;
  const double *value; /* [count] borrowed */
} tt_sweep_range;
double tt_sweep_draw(const tt_sweep_range *s, tt_random4 r);
/* Why these are no bounds of uniform or log_uniform; NULL if they are, or for other kinds. */
const char *tt_sweep_range_fault(const tt_sweep_range *s, int is_name);

/* Number of combinations of the options with grid; 1 if there is none. Stops multiplying above
 * INT32_MAX: then the result is only a lower bound. */
int64_t tt_sweep_combinations(int64_t sweeps, const tt_sweep *sweep);

extern const char *const tt_hyper_name[TT_HYPER_COUNT + 1]; /* ends in NULL */
extern const int8_t tt_hyper_is_whole[TT_HYPER_COUNT];
extern const char *const tt_choice_sweep[];
TT_END_C
#endif
