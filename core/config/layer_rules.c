/* layer_rules.c — rules about the layers of the network of an ensemble: factors on the learning
 * rate, layers that keep their weights, heads. */
#include "core/config/config_internal.h"

#include <inttypes.h>

#define AT(name_) TT_ENSEMBLE_OPTION_train_##name_

static const tt_source_location *location_of(const tt_config_reader *r, int64_t k, int row)
{
  const tt_source_location *own = &r->own[k][row];
  return own->given ? own : &r->job[tt_inherited_option[row]];
}

/* Layers as tt_model_all_layers counts them; -1: the options of the network are not valid. */
static int64_t count_layers(const tt_config_reader *r, int64_t k)
{
  const tt_ensemble_config *own = &r->cfg->ensemble[k];
  tt_front front;
  tt_front_fault fault;
  static const int rows[] = {TT_ENSEMBLE_OPTION_model_image, TT_ENSEMBLE_OPTION_model_profile,
                             TT_ENSEMBLE_OPTION_model_front, TT_ENSEMBLE_OPTION_model_hidden};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (location_of(r, k, rows[i])->bad) return -1;
  if (own->model_front.count && !tt_config_has_front_shape(own)) return -1;
  if (!tt_config_front(own, 1, &front, &fault)) return -1;
  int64_t layers = front.layers + own->model_hidden.count + 1;
  tt_front_destroy(&front);
  return layers;
}

/* Whether a layer behind the first `freeze` ones has a factor above 0. */
static int trains(const tt_ensemble_config *own, int64_t layers)
{
  const tt_real_list *rates = &own->train_layer_rates;
  for (int64_t l = own->train_freeze; l < layers; l++)
    if (!rates->count || rates->value[l] > 0.0) return 1;
  return 0;
}

void tt_config_check_layers(tt_config_reader *r, int64_t k)
{
  const tt_ensemble_config *own = &r->cfg->ensemble[k];
  const tt_source_location *freeze = location_of(r, k, AT(freeze)),
                           *rates = location_of(r, k, AT(layer_rates));
  int64_t layers = count_layers(r, k), count = own->train_layer_rates.count;
  if (layers < 0 || freeze->bad || rates->bad) return;
  char path[TT_OPTION_PATH_SIZE];
  int by_rates = !own->train_freeze || count;
  tt_option_path(&tt_ensemble_option_table[by_rates ? AT(layer_rates) : AT(freeze)],
                 r->own[k][by_rates ? AT(layer_rates) : AT(freeze)].given ? own->number : -1, path);
  if (count && count != layers)
    tt_config_error(r, rates,
                    "%s: %" PRId64 " factors, but the network has %" PRId64
                    " layers with the output layer; write one for each",
                    path, count, layers);
  else if (!trains(own, layers))
    tt_config_error(r, by_rates ? rates : freeze,
                    "%s: all %" PRId64
                    " layers would keep their weights; leave one to train (the output layer is "
                    "the last one)",
                    path, layers);
}
