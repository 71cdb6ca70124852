/* hyper.h — what may differ from member to member: every scalar of training. Floor 1.
 *
 * A row is a field of tt_hyper, the option train.<name> it comes from, what `ensembles[].sweep` may
 * draw, and the variable <name> of results.h5. */
#ifndef TT_HYPER_H
#define TT_HYPER_H
#include <stdint.h>

/* name, C type, type in files, units, meaning */
#define TT_HYPERS(X)                                                                               \
  X(learning_rate, float, F32, "1", "step size")                                                   \
  X(l2, float, F32, "1", "L2 penalty in the gradient")                                             \
  X(weight_decay, float, F32, "1", "decoupled weight decay")                                       \
  X(momentum, float, F32, "1", "momentum of sgd and rmsprop")                                      \
  X(beta1, float, F32, "1", "decay of the first moment of adam")                                   \
  X(beta2, float, F32, "1", "decay of the second moment of adam, of the square of rmsprop")        \
  X(epsilon, float, F32, "1", "added to the root of the second moment")                            \
  X(clip_norm, float, F32, "1", "largest gradient norm; 0 = no clipping")                          \
  X(anchor, float, F32, "1", "pull towards the initial weights")                                   \
  X(dropout, float, F32, "1", "probability of a hidden unit to be left out of a step")             \
  X(label_noise, float, F32, "1", "standard deviation of the noise on normalised targets")         \
  X(adversarial_epsilon, float, F32, "1",                                                          \
    "step of adversarial inputs, part of each input's range")                                      \
  X(init_scale, float, F32, "1", "factor on the initial weights")                                  \
  X(feature_fraction, float, F32, "1", "part of the inputs a member sees")                         \
  X(warmup, float, F32, "epochs", "linear growth of the step size at the start")                   \
  X(schedule_gamma, float, F32, "1", "factor of a step of the schedule")                           \
  X(schedule_min, float, F32, "1", "lowest part of learning_rate")                                 \
  X(schedule_step, int32_t, I32, "epochs", "between steps; first cycle; patience of a plateau")    \
  X(average_decay, float, F32, "1", "of the exponential moving average of the weights")            \
  X(average_start, int32_t, I32, "epochs", "before weights are averaged")                          \
  X(min_delta, float, F32, "1", "how much better a validation loss must be to count")              \
  X(patience, int32_t, I32, "epochs", "epochs without a better loss; 0 = never stops")             \
  X(epochs, int32_t, I32, "epochs", "most epochs")                                                 \
  X(batch_order, int32_t, I32, NULL, "order of rows: 0 own, 1 shared")

typedef struct tt_hyper {
#define X(name, type, ...) type name;
  TT_HYPERS(X)
#undef X
} tt_hyper;

enum {
#define X(name, ...) TT_HYPER_##name,
  TT_HYPERS(X)
#undef X
      TT_HYPER_COUNT
};

/* Options that only some optimizers, schedules and averages use: a row of their tables has a set of
 * these bits, from which the rules of the configuration follow. */
enum {
#define X(name, ...) TT_USES_##name = 1 << TT_HYPER_##name,
  TT_HYPERS(X)
#undef X
      TT_USES_nesterov = 1 << TT_HYPER_COUNT,
  TT_USES_schedule_milestones = 2 << TT_HYPER_COUNT
};
#endif
