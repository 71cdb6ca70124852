/* network_rules.c — rules between the networks of one ensemble (`networks`): they predict the same
 * quantities from the same rows, so that their predictions have one mean and one uncertainty. */
#include "core/config/config_internal.h"

#include <inttypes.h>
#include <string.h>

/* Options with one value for all networks of an ensemble, and the reason. */
typedef struct common_option {
  int row;
  const char *why;
} common_option;
#define AT(name_) TT_ENSEMBLE_OPTION_##name_
static const char same_output[] = "their predictions would not be the same quantities";
static const char same_rows[] = "they must train, validate and be scored on the same rows";
static const common_option common[] = {
    {AT(model_output), same_output},
    {AT(model_quantiles), same_output},
    {AT(model_classes), same_output},
    {AT(train_variance_floor), "it is part of the distribution that the ensemble predicts"},
    {AT(train_resample), same_rows},
    {AT(train_folds), same_rows},
};

int64_t tt_swept_members(const tt_config_reader *r, int64_t k, int hyper)
{
  const tt_ensemble_config *own = &r->cfg->ensemble[k], *first = own - own->network;
  int64_t members = 0;
  if (!r->swept[k][hyper].shared) return own->members;
  for (int64_t j = 0; j < own->networks; j++) members += first[j].members;
  return members;
}

static const tt_source_location *location_of(const tt_config_reader *r, int64_t k, int row)
{
  return r->own[k][row].given ? &r->own[k][row] : &r->job[tt_inherited_option[row]];
}

/* 1 if the networks have different values; the output follows from the loss. */
static int differs(const tt_config_reader *r, int64_t k, int row)
{
  const tt_ensemble_config *own = &r->cfg->ensemble[k], *first = own - own->network;
  if (row == AT(model_output)) return tt_ensemble_output(own) != tt_ensemble_output(first);
  return !tt_value_equal(&tt_ensemble_option_table[row], own, first);
}

static void check_common(tt_config_reader *r, int64_t k, const common_option *o)
{
  const tt_ensemble_config *own = &r->cfg->ensemble[k];
  int64_t first = k - own->network;
  int row = o->row;
  char path[TT_OPTION_PATH_SIZE], place[TT_OPTION_PATH_SIZE];
  if (location_of(r, k, row)->bad || location_of(r, first, row)->bad || !differs(r, k, row)) return;
  if (row == AT(model_output) && own->model_output < 0) row = AT(train_loss);
  const tt_source_location *location = location_of(r, k, row);
  tt_option_path(&tt_ensemble_option_table[row], -1, path);
  tt_config_error(r, location,
                  "ensembles[%" PRId64 "].networks[%" PRId64
                  "]: %s differs from that of the first network (%s), but it must be the same for "
                  "all networks of an ensemble: %s",
                  own->number, own->network, path,
                  tt_location_text(location_of(r, first, row), place), o->why);
}

static void check_label(tt_config_reader *r, int64_t k)
{
  const tt_ensemble_config *own = &r->cfg->ensemble[k];
  size_t good = strspn(own->label, TT_NAME_CHARACTERS);
  char shown[TT_PRINTABLE_SIZE];
  if (!own->label[good] && good < TT_LABEL_SIZE) return;
  tt_printable(own->label, shown);
  tt_config_error(r, &r->own[k][AT(label)],
                  "ensembles[%" PRId64 "].label: '%s': write 1 to %d letters, digits and . _ -",
                  own->number, shown, TT_LABEL_SIZE - 1);
}

void tt_config_check_networks(tt_config_reader *r, int64_t k)
{
  const tt_ensemble_config *own = &r->cfg->ensemble[k];
  const tt_source_location *members = &r->own[k][AT(members)];
  if (r->networks[k].given && members->given && members->shared)
    tt_config_error(r, members,
                    "ensembles[%" PRId64
                    "].members: the members are given in `networks`; remove it here",
                    own->number);
  check_label(r, k);
  if (own->networks < 2) return;
  for (size_t i = 0; own->network > 0 && i < sizeof common / sizeof *common; i++)
    check_common(r, k, &common[i]);
}
