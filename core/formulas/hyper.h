/* hyper.h — the hyper-parameters: scalars of training that may differ from member to member.
 *
 * A row is a field of tt_hyper, set by option train.<name>; `ensembles[].sweep` may draw it, and
 * results.h5 stores it as the variable <name>. */
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
  X(beta2, float, F32, "1", "decay of the second moment of adam and rmsprop")                      \
  X(epsilon, float, F32, "1", "added to the root of the second moment")                            \
  X(clip_norm, float, F32, "1", "largest gradient norm; 0 = no clipping")                          \
  X(dropout, float, F32, "1", "probability that a step leaves out a hidden unit")                  \
  X(label_noise, float, F32, "1", "standard deviation of the noise on normalized targets")         \
  X(init_scale, float, F32, "1", "factor on the initial weights")                                  \
  X(warmup, float, F32, "1", "linear growth of the step size at the start")                        \
  X(schedule_gamma, float, F32, "1", "factor of a step of the schedule")                           \
  X(schedule_min, float, F32, "1", "lowest learning rate, as a fraction of learning_rate")         \
  X(schedule_step, int32_t, I32, "1",                                                              \
    "epochs between steps; length of the first cycle; patience of a plateau")                      \
  X(average_decay, float, F32, "1", "decay of the exponential moving average of the weights")      \
  X(average_start, int32_t, I32, "1", "epochs before weights are averaged")                        \
  X(min_delta, float, F32, "1", "smallest decrease of the validation loss that counts")            \
  X(patience, int32_t, I32, "1", "epochs without a better loss before training stops; 0 = never")  \
  X(epochs, int32_t, I32, "1", "largest number of epochs")

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

/* Options that only some optimizers, schedules and averages use: each row of their tables has a set
 * of these bits, and the configuration checks options against them. */
enum {
#define X(name, ...) TT_USES_##name = 1 << TT_HYPER_##name,
  TT_HYPERS(X)
#undef X
      TT_USES_nesterov = 1 << TT_HYPER_COUNT,
  TT_USES_schedule_milestones = 2 << TT_HYPER_COUNT
};
#endif
