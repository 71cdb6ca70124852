/* labels.c — which target columns hold labels: classes, probabilities, counts; see
 * data_internal.h. */
#include "io/data/data_internal.h"

#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/model/cohort.h"
#include "io/columns/by_column.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const unsigned normalized = 1u << TT_LABEL_TYPE_real;

/* Add the requirements of one ensemble on a column. */
static void add_requirement(const tt_ensemble_config *own, tt_label_rule *l)
{
  tt_label_type type = tt_output_labels((tt_output)own->model_output);
  l->types |= 1u << type;
  if (type == TT_LABEL_TYPE_class_index && own->model_classes > 0 &&
      own->model_classes < l->classes)
    l->classes = (int32_t)own->model_classes;
}

int tt_label_rule_is_raw(const tt_label_rule *l) { return (l->types & ~normalized) != 0; }

/* Ensemble k and the earlier ensemble `before` use the column as different kinds. */
static tt_err conflicting_use_error(const tt_config *cfg, int64_t k, int64_t before,
                                    const char *target)
{
  const tt_ensemble_config *a = &cfg->ensemble[before], *b = &cfg->ensemble[k];
  return TT_FAIL(CONFIG,
                 "target '%s' is trained by ensemble %s with model.output: %s and by ensemble %s "
                 "with %s: labels are used "
                 "unchanged, measured values are normalized; give one of them a copy of the "
                 "column, or set data.normalize: none for it",
                 target, a->name, tt_choice_output[a->model_output], b->name,
                 tt_choice_output[b->model_output]);
}

static tt_err add_ensemble(const tt_config *cfg, const tt_columns *target, int64_t k,
                           const int8_t *normalize, tt_label_rule *label)
{
  int32_t *column = NULL;
  int64_t count = 0;
  tt_err e = TT_OK;
  TT_TRY(tt_cohort_target_columns(&cfg->ensemble[k], target, &count, &column));
  for (int64_t i = 0; !e && i < count; i++) {
    tt_label_rule *l = &label[column[i]];
    int known = l->types != 0;
    add_requirement(&cfg->ensemble[k], l);
    if (tt_label_rule_is_raw(l) && l->types & normalized &&
        normalize[column[i]] != TT_NORMALIZE_none)
      e = conflicting_use_error(cfg, k, l->by, target->name[column[i]]);
    if (!known) l->by = k;
  }
  tt_free(column);
  return e;
}

/* A mapping that chooses a normalization for labels would have no effect. */
static tt_err check_mapping(const tt_config *cfg, const char *file, const tt_columns *target,
                            const int8_t *normalize, const tt_label_rule *label)
{
  for (int64_t i = 0; i < target->count && tt_by_column_is_mapping(cfg->data_normalize); i++)
    if (tt_label_rule_is_raw(&label[i]) && normalize[i] != TT_NORMALIZE_none && normalize[i] >= 0)
      return TT_FAIL(
          CONFIG,
          "%s: data.normalize: '%s' is %s, but ensemble %s uses it as a label, unchanged; "
          "write '%s': none",
          file, target->name[i], tt_choice_normalize[normalize[i]], cfg->ensemble[label[i].by].name,
          target->name[i]);
  return TT_OK;
}

/* Names of classes are of targets that are trained as classes. */
static tt_err check_class_names(const tt_config *cfg, const char *file, const tt_columns *target,
                                const tt_label_rule *label)
{
  tt_list *columns = NULL, *names = NULL;
  char list[1024];
  if (!cfg->data_classes || !*cfg->data_classes) return TT_OK;
  TT_TRY(tt_list_parse("data.classes", cfg->data_classes, &columns));
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < columns->count; i++) {
    int64_t k = 0;
    e = tt_list_parse("data.classes", columns->item[i], &names);
    while (!e && k < target->count && strcmp(target->name[k], names->item[0])) k++;
    if (!e && k == target->count)
      e = TT_FAIL(CONFIG, "%s: data.classes: '%s' is none of the targets: %s", file, names->item[0],
                  tt_columns_list(target, list, sizeof list));
    else if (!e && label[k].types && !tt_label_rule_is_raw(&label[k]))
      e = TT_FAIL(CONFIG,
                  "%s: '%s' has classes (data.classes), but ensemble %s learns a number: set its "
                  "train.loss to cross_entropy",
                  file, names->item[0], cfg->ensemble[label[k].by].name);
    tt_list_destroy(&names);
  }
  tt_list_destroy(&columns);
  return e;
}

tt_err tt_data_label_rules_local(const tt_config *cfg, const char *file, const tt_columns *target,
                                 tt_scaler *s, tt_label_rule *label)
{
  int8_t *normalize = s->y_normalize;
  for (int64_t i = 0; i < target->count; i++) label[i] = (tt_label_rule){.classes = TT_MAX_CLASSES};
  for (int64_t k = 0; k < cfg->ensembles; k++)
    TT_TRY(add_ensemble(cfg, target, k, normalize, label));
  TT_TRY(check_mapping(cfg, file, target, normalize, label));
  TT_TRY(check_class_names(cfg, file, target, label));
  for (int64_t i = 0; i < target->count; i++) {
    if (normalize[i] == TT_BY_DEFAULT) normalize[i] = TT_NORMALIZE_standard;
    if (tt_label_rule_is_raw(&label[i])) normalize[i] = TT_NORMALIZE_none;
  }
  for (int64_t i = 0; i < s->inputs; i++) {
    if (s->x_normalize[i] == TT_BY_DEFAULT) s->x_normalize[i] = TT_NORMALIZE_standard;
    if (tt_net_inputs_is_category(&s->net, i)) s->x_normalize[i] = TT_NORMALIZE_none;
  }
  return TT_OK;
}

const char *tt_label_invalid_reason(const tt_label_rule *l, double y)
{
  static const char *const reason[] = {
#define X(name, condition, text) "the label must be " text,
      TT_LABEL_TYPES(X)
#undef X
  };
  for (int type = 0; !isnan(y) && type < TT_LABEL_TYPE_COUNT; type++)
    if (l->types >> type & 1u && !tt_label_fits((tt_label_type)type, l->classes, y))
      return reason[type];
  return NULL;
}

/* Error bars */

int tt_data_has_sigma(const tt_config *cfg) { return cfg->data_sigma && *cfg->data_sigma; }

tt_err tt_data_open_sigma_local(const tt_config *cfg, tt_source *s, int64_t rows, int64_t targets,
                                tt_source_matrix *out)
{
  int by_column = 0;
  if (!tt_data_has_sigma(cfg)) return TT_OK;
  TT_TRY(tt_source_is_by_column_local(s, cfg->data_sigma, &by_column));
  const tt_source_role role = {"sigma", TT_CELL_LABEL, NULL, by_column};
  TT_TRY(tt_source_matrix_open_local(s, &role, cfg->data_sigma, out));
  if (out->rows == rows && (out->columns == 1 || out->columns == targets)) return TT_OK;
  return TT_FAIL(DATA,
                 "%s: '%s' (data.sigma) is %" PRId64 " x %" PRId64 "; it must have one value, or "
                 "one for each of the %" PRId64 " targets, in each of the %" PRId64 " rows",
                 tt_source_file_name(s), cfg->data_sigma, out->rows, out->columns, targets, rows);
}

static tt_err bad_sigma(const tt_source *s, const tt_source_matrix *m, int64_t row, int64_t column,
                        double value)
{
  char place[TT_ERR_MESSAGE_SIZE / 2];
  tt_source_place_local(s, m, row, m->columns > 1 ? column : 0, NULL, place, sizeof place);
  return TT_FAIL(DATA,
                 "%s: %g; data.sigma must be a finite number and not negative where there is a "
                 "label",
                 place, value);
}

tt_err tt_data_read_sigma_local(const tt_source *s, const tt_source_matrix *m, int64_t first,
                                int64_t count, int64_t targets, const double *y, double *sigma)
{
  if (!m->path) return TT_OK;
  TT_TRY(tt_source_matrix_read_local(s, m, first, count, sigma));
  for (int64_t r = count - 1; m->columns == 1 && r >= 0; r--)
    for (int64_t k = targets - 1; k >= 0; k--) sigma[r * targets + k] = sigma[r];
  for (int64_t i = 0; i < count * targets; i++)
    if (!isnan(y[i]) && !(sigma[i] >= 0.0 && sigma[i] < INFINITY))
      return bad_sigma(s, m, first + i / targets, i % targets, sigma[i]);
  return TT_OK;
}
