/* schedule.h — learning rate schedules, as a factor on train.learning_rate. For gcc and nvcc; in
 * double, with +, *, / only: the same bits on every machine.
 *
 * The factor changes between epochs only, as with PyTorch schedulers stepped once per epoch; but
 * one_cycle and the warm-up change it at every step. */
#ifndef TT_SCHEDULE_H
#define TT_SCHEDULE_H
#include "core/formulas/optimizer.h"

enum { TT_MAX_MILESTONES = 16 };

/* Options of the schedule that all members of a cohort share. */
typedef struct tt_schedule_options {
  int32_t milestones;
  int32_t milestone[TT_MAX_MILESTONES]; /* ascending, in epochs */
  float growth;                         /* length of a cycle divided by that of the cycle before */
  float peak; /* one_cycle: fraction of the steps before the highest rate */
} tt_schedule_options;

/* Position of a member in its training. */
typedef struct tt_schedule_args {
  double gamma, min;     /* schedule_gamma, schedule_min */
  int32_t every;         /* schedule_step, epochs */
  int32_t epoch, epochs; /* epochs completed, and in total */
  int64_t step, steps;   /* optimizer steps taken, and steps per epoch */
} tt_schedule_args;

/* From `a` at t = 0 to `b` at t = 1 along half a cosine. */
TT_HD double tt_cosine_anneal(double a, double b, double t)
{
  return b + (a - b) * 0.5 * (1.0 + tt_cospi(t < 0.0 ? 0.0 : t > 1.0 ? 1.0 : t));
}

TT_HD double tt_schedule_constant(const tt_schedule_args *args, const tt_schedule_options *s)
{
  (void)args, (void)s;
  return 1.0;
}

TT_HD double tt_schedule_step(const tt_schedule_args *args, const tt_schedule_options *s)
{
  (void)s;
  return tt_power(args->gamma, args->every > 0 ? args->epoch / args->every : 0);
}

TT_HD double tt_schedule_multistep(const tt_schedule_args *args, const tt_schedule_options *s)
{
  int64_t passed = 0;
  for (int32_t i = 0; i < s->milestones; i++) passed += s->milestone[i] <= args->epoch;
  return tt_power(args->gamma, passed);
}

TT_HD double tt_schedule_exponential(const tt_schedule_args *args, const tt_schedule_options *s)
{
  (void)s;
  return tt_power(args->gamma, args->epoch);
}

TT_HD double tt_schedule_cosine(const tt_schedule_args *args, const tt_schedule_options *s)
{
  (void)s;
  return tt_cosine_anneal(1.0, args->min, (double)args->epoch / (double)args->epochs);
}

/* Cycles of `every` epochs, each `growth` times as long as the one before. */
TT_HD double tt_schedule_cosine_restarts(const tt_schedule_args *args, const tt_schedule_options *s)
{
  double length = args->every > 0 ? (double)args->every : (double)args->epochs;
  double dst = (double)args->epoch, growth = s->growth > 1.0f ? (double)s->growth : 1.0;
  while (dst >= length) {
    dst -= length;
    length *= growth;
  }
  return tt_cosine_anneal(1.0, args->min, dst / length);
}

/* From 1/25 up to 1 in the first fraction `peak` of the steps, then down to 1/250000. */
TT_HD double tt_schedule_one_cycle(const tt_schedule_args *args, const tt_schedule_options *s)
{
  const double start = 1.0 / 25.0, end = start / 1e4;
  double last = (double)(args->epochs * args->steps) - 1.0, step = (double)args->step;
  double top = (double)s->peak * (last + 1.0) - 1.0;
  if (step <= top) return tt_cosine_anneal(start, 1.0, top > 0.0 ? step / top : 1.0);
  return tt_cosine_anneal(1.0, end, last > top ? (step - top) / (last - top) : 1.0);
}

/* The factor is in the state of the member, see tt_plateau_end_epoch. */
TT_HD double tt_schedule_reduce_on_plateau(const tt_schedule_args *args,
                                           const tt_schedule_options *s)
{
  return tt_schedule_constant(args, s);
}

/* name, options it uses, source */
#define TT_SCHEDULES(X)                                                                            \
  X(constant, 0, "")                                                                               \
  X(step, TT_USES_schedule_gamma | TT_USES_schedule_step, "torch.optim.lr_scheduler.StepLR")       \
  X(multistep, TT_USES_schedule_gamma | TT_USES_schedule_milestones,                               \
    "torch.optim.lr_scheduler.MultiStepLR")                                                        \
  X(exponential, TT_USES_schedule_gamma, "torch.optim.lr_scheduler.ExponentialLR")                 \
  X(cosine, TT_USES_schedule_min, "Loshchilov & Hutter 2017; torch CosineAnnealingLR")             \
  X(cosine_restarts, TT_USES_schedule_min | TT_USES_schedule_step,                                 \
    "Loshchilov & Hutter 2017; torch CosineAnnealingWarmRestarts")                                 \
  X(one_cycle, 0, "Smith & Topin 2019; torch OneCycleLR, cycle_momentum False")                    \
  X(reduce_on_plateau, TT_USES_schedule_gamma | TT_USES_schedule_min | TT_USES_schedule_step,      \
    "torch ReduceLROnPlateau, threshold_mode abs")

typedef enum tt_schedule {
#define X(name, ...) TT_SCHEDULE_##name,
  TT_SCHEDULES(X)
#undef X
      TT_SCHEDULE_COUNT
} tt_schedule;

/* Factor on the learning rate of the next step.
 *   warmup  epochs of linear growth at the start, on top of the schedule; 0 = none */
TT_HD double tt_schedule_factor(tt_schedule kind, const tt_schedule_args *args,
                                const tt_schedule_options *shape, double warmup)
{
  double ramp = warmup * (double)args->steps, factor = 1.0;
  switch (kind) {
#define X(name, ...)                                                                               \
  case TT_SCHEDULE_##name: factor = tt_schedule_##name(args, shape); break;
    TT_SCHEDULES(X)
#undef X
  default: break;
  }
  double grown = (double)(args->step + 1) / (ramp > 0.0 ? ramp : 1.0);
  return ramp > 0.0 && grown < 1.0 ? factor * grown : factor;
}

/* State of reduce_on_plateau for one member. */
typedef struct tt_plateau {
  float rate; /* factor on the learning rate */
  double best;
  int32_t wait; /* epochs without a better loss */
} tt_plateau;

/* Call it at the end of an epoch with validation loss `loss`. After more than `every` epochs
 * without a loss below best - min_delta it multiplies the rate by gamma, but not to less than
 * `min`. It never raises the rate: after a retry (train.on_diverged) the rate may already be below
 * `min`. */
TT_HD tt_plateau tt_plateau_end_epoch(tt_plateau p, double loss, float gamma, float min,
                                      int32_t every, float min_delta)
{
  int better = loss < p.best - (double)min_delta;
  if (better) p.best = loss;
  p.wait = better ? 0 : p.wait + 1;
  if (p.wait <= every) return p;
  p.wait = 0;
  float lower = p.rate * gamma < min ? min : p.rate * gamma;
  if (lower < p.rate) p.rate = lower;
  return p;
}
#endif
