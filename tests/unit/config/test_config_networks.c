/* test_config_networks.c — laws of the job file: ensembles of several networks. */
#include "core/config/portfolio.h"
#include "tests/support/check.h"
#include "tests/unit/config/config_job.h"

#include <string.h>

static const char networks_job[] =
    "data: {file: d.h5}\n"
    "train: {loss: mae, epochs: 7}\n"
    "ensembles:\n"
    "- {name: z}\n"
    "- name: mix\n"
    "  first_member: 10\n"
    "  model: {activation: tanh}\n"
    "  train: {epochs: 9}\n"
    "  sweep: {l2: {list: [1, 2, 3, 4, 5, 6]}, dropout: {uniform: [0, 0.5]}}\n"
    "  networks:\n"
    "  - {members: 4, model: {hidden: [3, 3]}}\n"
    "  - {members: 2, model: {activation: relu}, train: {loss: huber, epochs: 5, dropout: 0.25}}\n"
    "- {name: last}\n";

/* An ensemble of several networks: an element for each, with the values of the ensemble. */
TT_TEST (an_ensemble_may_have_several_networks) {
  tt_config *c = must_parse(networks_job, NULL, 0);
  const tt_ensemble_config *a = &c->ensemble[1], *b = &c->ensemble[2];
  TT_CHECK(c->ensembles, ==, 4);
  TT_CHECK(tt_config_ensembles(c), ==, 3);
  TT_CHECK(a->networks == 2 && a->network == 0 && b->network == 1 && b->number == 1, ==, 1);
  TT_CHECK(c->ensemble[3].number == 2 && c->ensemble[3].networks == 1, ==, 1);
  TT_CHECK(strcmp(a->name, "mix") || strcmp(b->name, "mix"), ==, 0);
  TT_CHECK(a->first_member, ==, 10);
  TT_CHECK(b->first_member, ==, 14);
  TT_CHECK(a->train_epochs, ==, 9);
  TT_CHECK(b->train_epochs, ==, 5);
  TT_CHECK(a->model_activation, ==, (int)TT_ACT_tanh);
  TT_CHECK(b->model_activation, ==, (int)TT_ACT_relu);
  TT_CHECK(b->train_loss, ==, (int)TT_LOSS_huber);
  TT_CHECK(a->sweeps, ==, 2);
  TT_CHECK(b->sweeps, ==, 1); /* its own dropout replaces that sweep */
  TT_CHECK(a->sweep[0].count, ==, 4);
  TT_CHECK(b->sweep[0].count == 2 && b->sweep[0].value[0] == 5.0, ==, 1);
  round_trip(c);
  tt_config_destroy(&c);
}

TT_TEST (set_changes_one_network_or_all) {
  static const char *const set[] = {
      "ensembles.mix.train.epochs=30", "ensembles[1].networks[1].model.hidden=[5]",
      "ensembles.mix.networks[0].members=1", "ensembles.mix.sweep.l2={list: [7, 8, 9]}",
      "ensembles[2].members=3"};
  tt_config *c = must_parse(networks_job, set, 5);
  const tt_ensemble_config *a = &c->ensemble[1], *b = &c->ensemble[2];
  TT_CHECK(a->train_epochs == 30 && b->train_epochs == 30, ==, 1);
  TT_CHECK(a->model_hidden.count == 2 && b->model_hidden.count == 1, ==, 1);
  TT_CHECK(a->members == 1 && b->members == 2 && b->first_member == 11, ==, 1);
  TT_CHECK(a->sweep[0].value[0] == 7.0 && b->sweep[0].value[1] == 9.0, ==, 1);
  TT_CHECK(c->ensemble[3].members, ==, 3);
  round_trip(c);
  tt_config_destroy(&c);
}

/* `model: auto` is the list of its recipes, weighted by greedy selection of networks. */
#define LISTED(label, options) "{label: " #label ", members: 5, " options "}, "
#define OWN(label, options) "{label: " #label ", members: 3, " options "}, "
TT_TEST (model_auto_is_the_list_of_its_recipes) {
  static const char data[] = "data: {file: d.h5}\n";
  static const struct {
    const char *automatic, *listed;
  } job[] = {{"model: auto\nensembles: [{name: a}]\n",
              "combine: {method: greedy, unit: network}\n"
              "ensembles: [{name: a, networks: [" TT_RECIPES(LISTED) "]}]\n"},
             {"combine: {method: mean}\nensembles: [{name: a, members: 3, model: auto},"
              " {name: b, model: {hidden: [2]}}, {name: c}]\n",
              "combine: {method: mean}\nensembles: [{name: a, networks: [" TT_RECIPES(
                  OWN) "]},"
                       " {name: b, model: {hidden: [2]}}, {name: c}]\n"}};
  for (size_t i = 0; i < sizeof job / sizeof *job; i++) {
    char text[2][4096], *resolved[2] = {NULL, NULL};
    snprintf(text[0], sizeof text[0], "%s%s", data, job[i].automatic);
    snprintf(text[1], sizeof text[1], "%s%s", data, job[i].listed);
    for (int k = 0; k < 2; k++) {
      tt_config *c = must_parse(text[k], NULL, 0);
      TT_CHECK_OK(tt_config_to_yaml(c, &resolved[k]));
      round_trip(c);
      tt_config_destroy(&c);
    }
    same_text(resolved[0], resolved[1]);
    for (int k = 0; k < 2; k++) tt_free(resolved[k]);
  }
}

/* A value that the job or the ensemble gives replaces that of every recipe. */
TT_TEST (the_job_replaces_values_of_recipes) {
  static const char *const set[] = {"train.epochs_factor=2", "ensembles.b.train.batch_size=7"};
  tt_config *c = must_parse("data: {file: d.h5}\nmodel: auto\n"
                            "train: {optimizer: amsgrad, learning_rate: 0.25}\n"
                            "ensembles: [{name: a, train: {weight_decay: 0.5}}, {name: b}, "
                            "{name: c, model: {hidden: [9]}}]\n",
                            set, 2);
  int64_t recipes = c->ensemble[0].networks;
  TT_CHECK(recipes, >=, 2);
  TT_CHECK(c->ensembles, ==, 2 * recipes + 1);
  for (int64_t k = 0; k < 2 * recipes; k++) {
    const tt_ensemble_config *own = &c->ensemble[k];
    TT_CHECK(own->train_learning_rate, ==, 0.25);
    TT_CHECK(own->train_epochs_factor, ==, 2.0);
    TT_CHECK(own->train_optimizer, ==, (int)TT_OPT_amsgrad);
    if (k < recipes) TT_CHECK(own->train_weight_decay, ==, 0.5);
    if (k >= recipes) TT_CHECK(own->train_batch_size, ==, 7);
  }
  round_trip(c);
  tt_config_destroy(&c);
}
