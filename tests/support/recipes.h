/* recipes.h — settings of training steps for the law of steps: each row of the tables of
 * optimizers, schedules and averages is in one of them. */
#ifndef TT_RECIPES_H
#define TT_RECIPES_H
#include "tests/support/reference.h"

/* One setting; hyper-parameters of 0 get defaults. */
typedef struct recipe {
  const char *name;
  tt_optimizer optimizer;
  int nesterov, flags; /* of ref_network */
  tt_schedule schedule;
  tt_weight_average average;
  tt_hyper hyper;
} recipe;

#define RECIPE(name, opt, nesterov, flags, schedule, average, ...)                                 \
  {                                                                                                \
    name, TT_OPT_##opt, nesterov, flags, TT_SCHEDULE_##schedule, TT_AVERAGE_##average,             \
    {                                                                                              \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }

/* Recipes for particular cases; list_recipes adds one for each row of a table that none of them
 * uses. */
static const recipe recipes[] = {
    RECIPE("sgd", sgd, 0, 1, constant, none, .learning_rate = 0.1f),
    RECIPE("sgd, momentum, l2", sgd, 0, 1, constant, none, .learning_rate = 0.05f, .momentum = 0.9f,
           .l2 = 0.01f),
    RECIPE("sgd, nesterov, step", sgd, 1, 1, step, none, .learning_rate = 0.05f, .momentum = 0.8f,
           .schedule_gamma = 0.5f, .schedule_step = 5),
    RECIPE("sgd, clipped", sgd, 0, 1, exponential, none, .learning_rate = 0.3f, .momentum = 0.5f,
           .clip_norm = 0.2f, .schedule_gamma = 0.9f),
    RECIPE("adam, one_cycle", adam, 0, 1, one_cycle, none, .learning_rate = 0.02f),
    RECIPE("adam, l2, warm-up", adam, 0, 1, constant, none, .learning_rate = 0.01f, .l2 = 0.1f,
           .warmup = 7.5f),
    RECIPE("adam, clipped, cosine", adam, 0, 1, cosine, none, .learning_rate = 0.01f,
           .clip_norm = 0.1f, .l2 = 0.01f, .schedule_min = 0.1f),
    RECIPE("adamw, restarts", adamw, 0, 1, cosine_restarts, none, .learning_rate = 0.01f,
           .weight_decay = 0.5f, .schedule_step = 4, .warmup = 2.0f),
    RECIPE("adamw, l2, clipped", adamw, 0, 1, constant, none, .learning_rate = 0.01f,
           .weight_decay = 0.1f, .l2 = 0.05f, .clip_norm = 0.3f),
    RECIPE("rmsprop, multistep", rmsprop, 0, 1, multistep, none, .learning_rate = 0.005f,
           .momentum = 0.5f, .l2 = 0.01f, .schedule_gamma = 0.3f),
    RECIPE("adagrad, clipped", adagrad, 0, 1, constant, none, .learning_rate = 0.05f, .l2 = 0.01f,
           .clip_norm = 0.3f),
    RECIPE("amsgrad, plateau", amsgrad, 0, 1, reduce_on_plateau, none, .learning_rate = 0.02f,
           .weight_decay = 0.1f, .l2 = 0.01f, .schedule_gamma = 0.5f, .schedule_min = 0.1f,
           .schedule_step = 1, .min_delta = 3e-3f),
    RECIPE("clipped, ema", adam, 0, 1, constant, ema, .learning_rate = 0.02f, .clip_norm = 0.1f,
           .average_decay = 0.8f, .average_start = 3),
    RECIPE("clipped, swa", sgd, 0, 1, constant, swa, .learning_rate = 0.1f, .clip_norm = 0.3f,
           .average_start = 5),
    RECIPE("noise on labels", adam, 0, 0, constant, none, .learning_rate = 0.01f,
           .label_noise = 0.2f),
    RECIPE("dropout", sgd, 0, 0, constant, none, .learning_rate = 0.1f, .dropout = 0.3f),
    RECIPE("layers, dropout, ema", adam, 0, 7, cosine, ema, .learning_rate = 0.01f, .dropout = 0.2f,
           .average_decay = 0.9f),
    RECIPE("layers, dropout, noise", sgd, 0, 7, constant, swa, .learning_rate = 0.05f,
           .dropout = 0.1f, .label_noise = 0.1f),
    RECIPE("a frozen layer, clipped", adamw, 0, 8 + 1, cosine, ema, .learning_rate = 0.02f,
           .weight_decay = 0.1f, .l2 = 0.05f, .clip_norm = 0.3f, .average_decay = 0.8f,
           .average_start = 3),
    RECIPE("frozen layers, layer_norm", sgd, 1, 16 + 7, constant, swa, .learning_rate = 0.05f,
           .momentum = 0.5f, .dropout = 0.1f),
    RECIPE("a slow layer", rmsprop, 0, 24 + 3, constant, none, .learning_rate = 0.005f,
           .momentum = 0.5f),
};
enum { RECIPES = sizeof recipes / sizeof *recipes, BATCH = 20 };
enum { STEPS = SANITIZED ? 20 : 50, EPOCHS = STEPS / 2 };
enum { MAX_RECIPES = RECIPES + (int)TT_OPT_COUNT + (int)TT_SCHEDULE_COUNT + (int)TT_AVERAGE_COUNT };

/* Every row of the tables of optimizers, schedules and averages at least once; their number. */
static inline int list_recipes(recipe *out)
{
  const recipe plain = {.name = "a row of a table",
                        .flags = 1,
                        .hyper = {.learning_rate = 0.01f,
                                  .l2 = 0.01f,
                                  .weight_decay = 0.1f,
                                  .momentum = 0.5f,
                                  .schedule_gamma = 0.7f,
                                  .schedule_min = 0.1f,
                                  .schedule_step = 4,
                                  .average_decay = 0.8f,
                                  .average_start = 3}};
  int n = RECIPES, optimizer[TT_OPT_COUNT] = {0}, schedule[TT_SCHEDULE_COUNT] = {0};
  int average[TT_AVERAGE_COUNT] = {0};
  memcpy(out, recipes, sizeof recipes);
  for (int r = 0; r < RECIPES; r++)
    optimizer[out[r].optimizer] = schedule[out[r].schedule] = average[out[r].average] = 1;
  for (int i = 0; i < TT_OPT_COUNT; i++)
    if (!optimizer[i]) out[n] = plain, out[n++].optimizer = (tt_optimizer)i;
  for (int i = 0; i < TT_SCHEDULE_COUNT; i++)
    if (!schedule[i]) out[n] = plain, out[n++].schedule = (tt_schedule)i;
  for (int i = 0; i < TT_AVERAGE_COUNT; i++)
    if (!average[i]) out[n] = plain, out[n++].average = (tt_weight_average)i;
  return n;
}

/* The member of a recipe, with defaults for the values that the table leaves out. */
static inline tt_hyper filled(const recipe *r)
{
  tt_hyper h = r->hyper;
  h.beta1 = 0.9f;
  h.beta2 = 0.99f;
  h.epsilon = 1e-4f;
  h.epochs = EPOCHS;
  h.init_scale = 1.0f;
  return h;
}
#endif
