/* portfolio.h — the recipes of `model: auto`: networks that train together as one ensemble, whose
 * members are weighted by greedy selection on the validation rows. */
#ifndef TT_PORTFOLIO_H
#define TT_PORTFOLIO_H

/* label, what a network has in place of the defaults, written as an element of `networks`. Chosen
 * by bench/studies/portfolio.py: each next recipe is the one that lowers the error most. */
#define TT_RECIPES(X)                                                                              \
  X(residual, "model: {residual: true}")                                                           \
  X(sine, "model: {residual: true, activation: sine}, "                                            \
          "train: {optimizer: adamw, weight_decay: 0.1}")                                          \
  X(decay, "model: {residual: false}, train: {optimizer: adamw, weight_decay: 0.1}")               \
  X(ple, "model: {residual: true, front: [ple 16]}, "                                              \
         "train: {optimizer: adamw, weight_decay: 0.1}")
#endif
