/* ensemble_rules.c — rules between the options of one ensemble: its own values of model and train,
 * or the job's. Values of the job are checked only in the ensembles that inherit them. */
#include "core/config/config_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* The ensemble that is checked. */
typedef struct rules {
  tt_config_reader *r;
  int64_t k;
  const tt_ensemble_config *own;
} rules;

/* The row of TT_HYPERS if the ensemble sweeps the option, else -1. */
static int swept(const rules *c, int row)
{
  for (int h = 0; h < TT_HYPER_COUNT; h++)
    if (tt_hyper_option[h] == row && c->r->swept[c->k][h].given) return h;
  return -1;
}

/* Where the value of an option was set. */
static const tt_source_location *location_of(const rules *c, int row)
{
  const tt_source_location *own = &c->r->own[c->k][row];
  int h = swept(c, row);
  if (h >= 0) return &c->r->swept[c->k][h];
  return own->given || tt_inherited_option[row] < 0 ? own : &c->r->job[tt_inherited_option[row]];
}
#define AT(name_) TT_ENSEMBLE_OPTION_##name_
#define INVALID(name_) (location_of(c, AT(name_))->bad)

static void path_of(const rules *c, int row, char path[TT_OPTION_PATH_SIZE])
{
  int h = swept(c, row);
  if (h >= 0)
    snprintf(path, TT_OPTION_PATH_SIZE, "ensembles[%" PRId64 "].sweep.%s", c->own->number,
             tt_hyper_name[h]);
  else
    tt_option_path(&tt_ensemble_option_table[row], c->r->own[c->k][row].given ? c->own->number : -1,
                   path);
}

/* Report an error at the location of option `row`; its path is put before the message. */
__attribute__((format(printf, 3, 4))) static void report_error(const rules *c, int row,
                                                               const char *fmt, ...)
{
  char path[TT_OPTION_PATH_SIZE], text[TT_REASON_SIZE];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  path_of(c, row, path);
  tt_config_error(c->r, location_of(c, row), "%s%s", path, text);
}

/* The largest value of a hyper-parameter in its sweep; `base` if it is not swept. */
static double largest_value(const rules *c, int h, double base)
{
  double largest = -1.0;
  for (int64_t i = 0; i < c->own->sweeps; i++)
    for (int64_t j = 0; c->own->sweep[i].hyper == h && j < c->own->sweep[i].count; j++)
      if (c->own->sweep[i].value[j] > largest) largest = c->own->sweep[i].value[j];
  return largest < 0.0 ? base : largest;
}
#define LARGEST(name_) largest_value(c, TT_HYPER_##name_, (double)c->own->train_##name_)

/* "adam (line 5)": value and location of an option of kind NAME. */
static const char *choice_and_origin(const rules *c, int row, char text[TT_OPTION_PATH_SIZE])
{
  const tt_option *o = &tt_ensemble_option_table[row];
  char origin[TT_OPTION_PATH_SIZE];
  int value = *(const int *)(const void *)((const char *)c->own + o->offset);
  snprintf(text, TT_OPTION_PATH_SIZE, "%s (%.60s)", value < 0 ? "auto" : o->choices[value],
           tt_location_text(location_of(c, row), origin));
  return text;
}

static void check_output(const rules *c)
{
  const tt_ensemble_config *own = c->own;
  char text[TT_OPTION_PATH_SIZE];
  if (INVALID(train_loss) || INVALID(model_output) || own->model_output < 0) return;
  const char *loss = tt_choice_loss[own->train_loss];
  tt_output need = tt_loss_output_head((tt_loss)own->train_loss);
  if ((int)need == own->model_output) return;
  if (location_of(c, AT(train_loss))->given)
    report_error(c, AT(train_loss), ": %s needs model.output: %s, but it is %s", loss,
                 tt_choice_output[need], choice_and_origin(c, AT(model_output), text));
  else
    report_error(
        c, AT(model_output),
        ": %s does not fit train.loss: %s (the default), which needs %s; change one of them",
        tt_choice_output[own->model_output], loss, tt_choice_output[need]);
}

static void check_levels(const rules *c)
{
  const tt_real_list *q = &c->own->model_quantiles;
  if (INVALID(model_quantiles)) return;
  if (q->count < 1 || q->count > TT_MAX_QUANTILES)
    report_error(c, AT(model_quantiles), ": %" PRId64 " levels; 1 to %d are possible", q->count,
                 TT_MAX_QUANTILES);
  for (int64_t i = 0; i < q->count; i++) {
    double x = q->value[i];
    if (x > 0.0 && x < 1.0 && (i == 0 || q->value[i - 1] < x)) continue;
    report_error(c, AT(model_quantiles),
                 "[%" PRId64 "]: %g; levels must ascend and be between 0 and 1", i, x);
    return;
  }
}

/* Options whose value decides which other options are used.
 *   uses  [count] sets of TT_USES, one for each value */
typedef struct deciding_option {
  int row, count;
  const unsigned *uses;
} deciding_option;
#define X(name, slots, uses, source) uses,
static const unsigned optimizer_uses[] = {TT_OPTIMIZERS(X)};
#undef X
#define X(name, uses, source) uses,
static const unsigned schedule_uses[] = {TT_SCHEDULES(X)};
#undef X
#define X(name, uses) uses,
static const unsigned average_uses[] = {TT_AVERAGES(X)};
#undef X
static const deciding_option optimizer = {AT(train_optimizer), TT_OPT_COUNT, optimizer_uses},
                             schedule = {AT(train_schedule), TT_SCHEDULE_COUNT, schedule_uses},
                             average = {AT(train_average), TT_AVERAGE_COUNT, average_uses};

static int value_of(const rules *c, int row)
{
  return *(const int *)(const void *)((const char *)c->own + tt_ensemble_option_table[row].offset);
}

static int is_used(const rules *c, const deciding_option *decider, unsigned option)
{
  return (decider->uses[value_of(c, decider->row)] & option) != 0;
}

/* Report option `row` if the value of `decider` does not use it: " is for optimizers a and b, ...".
 *   instead  an option that every value uses, or NULL */
static void check_used(const rules *c, const deciding_option *decider, unsigned option, int row,
                       const char *instead)
{
  const tt_option *o = &tt_ensemble_option_table[decider->row];
  char users[TT_OPTION_PATH_SIZE] = "", hint[64] = "", text[TT_OPTION_PATH_SIZE];
  const char *first = NULL;
  int many = 0;
  if (location_of(c, decider->row)->bad || is_used(c, decider, option)) return;
  for (int i = 0; i < decider->count; i++) {
    if (!(decider->uses[i] & option)) continue;
    tt_text_append(users, sizeof users, " and ", o->choices[i]);
    if (first) many = 1;
    if (!first) first = o->choices[i];
  }
  if (instead) snprintf(hint, sizeof hint, "; use %s, or train.%s", first, instead);
  report_error(c, row, " is for %s%s %s, but train.%s is %s%s", o->name, many ? "s" : "", users,
               o->name, choice_and_origin(c, decider->row, text), hint);
}

static void check_optimizer(const rules *c)
{
  const tt_ensemble_config *own = c->own;
  if (LARGEST(weight_decay) > 0.0)
    check_used(c, &optimizer, TT_USES_weight_decay, AT(train_weight_decay), "l2");
  if (LARGEST(momentum) > 0.0)
    check_used(c, &optimizer, TT_USES_momentum, AT(train_momentum), "beta1");
  if (!own->train_nesterov || INVALID(train_momentum) || INVALID(train_optimizer)) return;
  if (LARGEST(momentum) <= 0.0)
    report_error(c, AT(train_nesterov), " needs train.momentum above 0, e.g. momentum: 0.9");
  else if (is_used(c, &optimizer, TT_USES_momentum))
    check_used(c, &optimizer, TT_USES_nesterov, AT(train_nesterov), NULL);
}

static void check_milestones(const rules *c)
{
  const tt_int_list *m = &c->own->train_schedule_milestones;
  if (INVALID(train_schedule) || INVALID(train_schedule_milestones)) return;
  if (is_used(c, &schedule, TT_USES_schedule_milestones) && m->count == 0)
    report_error(c, AT(train_schedule), ": %s needs train.schedule_milestones, e.g. [50, 80]",
                 tt_choice_schedule[c->own->train_schedule]);
  if (m->count)
    check_used(c, &schedule, TT_USES_schedule_milestones, AT(train_schedule_milestones), NULL);
  if (m->count > TT_MAX_MILESTONES)
    report_error(c, AT(train_schedule_milestones),
                 ": %" PRId64 " milestones; at most %d are possible", m->count, TT_MAX_MILESTONES);
  for (int64_t i = 1; i < m->count; i++) {
    if (m->value[i - 1] < m->value[i]) continue;
    report_error(c, AT(train_schedule_milestones),
                 "[%" PRId64 "]: %" PRId64 " after %" PRId64 "; milestones must ascend", i,
                 m->value[i], m->value[i - 1]);
    return;
  }
}

static void check_average(const rules *c)
{
  const tt_ensemble_config *own = c->own;
  int64_t start = own->train_average_start, epochs = own->train_epochs;
  if (own->train_average == TT_AVERAGE_none || INVALID(train_average)) return;
  if (INVALID(train_average_start) || INVALID(train_epochs) || epochs < 0 ||
      swept(c, AT(train_average_start)) >= 0 || swept(c, AT(train_epochs)) >= 0 || start < epochs)
    return;
  report_error(c, AT(train_average_start),
               ": %" PRId64 " must be less than train.epochs (%" PRId64 ")", start, epochs);
}

/* Early stopping needs validation rows: those of the split, or the fold of the member. */
static void check_stopping(const rules *c, int has_validation, const char *fix)
{
  const tt_ensemble_config *own = c->own;
  int folds = own->train_resample == TT_RESAMPLE_kfold;
  if (LARGEST(patience) > 0.0 && !has_validation && !folds)
    report_error(c, AT(train_patience), " needs validation rows; %s, or set patience: 0", fix);
}

static void check_noise(const rules *c)
{
  const tt_ensemble_config *own = c->own;
  char text[TT_OPTION_PATH_SIZE];
  if (INVALID(train_loss) || LARGEST(label_noise) <= 0.0) return;
  if (tt_output_labels(tt_loss_output_head((tt_loss)own->train_loss)) != TT_LABEL_TYPE_real)
    report_error(c, AT(train_label_noise), " is for real-valued targets, but train.loss is %s",
                 choice_and_origin(c, AT(train_loss), text));
}

/* Returns 1 if the inputs have a shape that fits a front. */
static int check_input_shape(const rules *c)
{
  const tt_int_list *image = &c->own->model_image, *profile = &c->own->model_profile;
  int front = c->own->model_front.count > 0;
  if (INVALID(model_image) || INVALID(model_profile) || INVALID(model_front)) return 0;
  if (image->count && profile->count)
    report_error(c, AT(model_profile), " and model.image are both given; keep one");
  else if (image->count && image->count != 3)
    report_error(c, AT(model_image), ": %" PRId64 " numbers; write [channels, height, width]",
                 image->count);
  else if (profile->count && profile->count != 2)
    report_error(c, AT(model_profile), ": %" PRId64 " numbers; write [channels, length]",
                 profile->count);
  else if (front && !tt_config_has_front_shape(c->own))
    report_error(c, AT(model_front),
                 " needs model.image: [channels, height, width] or "
                 "model.profile: [channels, length]");
  else if (!front && !location_of(c, AT(model_front))->given && (image->count || profile->count))
    report_error(c, image->count ? AT(model_image) : AT(model_profile),
                 " needs model.front, e.g. front: [conv 16 3, pool max 2]; [] for dense networks");
  else
    return front;
  return 0;
}

static void report_row(const rules *c, const tt_front_fault *fault)
{
  report_error(c, AT(model_front), "[%" PRId64 "]: '%.60s': %s", fault->row,
               c->own->model_front.value[fault->row], fault->why);
}

static void check_front(const rules *c)
{
  tt_front front;
  tt_front_fault fault = {.row = -1};
  if (!check_input_shape(c)) return;
  while (!tt_config_front_from(c->own, 1, fault.row + 1, &front, &fault) && fault.row >= 0)
    report_row(c, &fault);
  tt_front_destroy(&front);
  if (fault.row < 0 && *fault.why)
    report_error(c, c->own->model_image.count > 0 ? AT(model_image) : AT(model_profile), ": %s",
                 fault.why);
}

/* Units of the hidden layers and channels of the front that may be dropped. */
static double dropped_units(const rules *c)
{
  const tt_int_list *hidden = &c->own->model_hidden;
  tt_front front;
  tt_front_fault fault;
  double units = 0.0;
  for (int64_t i = 0; i < hidden->count; i++) units += (double)hidden->value[i];
  if (!check_input_shape(c) || !tt_config_front(c->own, 1, &front, &fault)) return units;
  for (int l = 0; l < front.layers; l++)
    if (front.layer[l].kind == TT_FRONT_dropout) units += (double)front.layer[l].channels;
  tt_front_destroy(&front);
  return units;
}

/* The index of a dropout mask (unit and row) has 32 bits. */
static void check_dropout(const rules *c)
{
  double rows = (double)c->own->train_batch_size;
  if (LARGEST(dropout) <= 0.0 || INVALID(model_hidden) || INVALID(train_batch_size)) return;
  double units = dropped_units(c);
  if (units * rows >= 4294967296.0)
    report_error(c, AT(train_dropout),
                 ": %.0f hidden units times batch_size %.0f reach 2^32; reduce one of them", units,
                 rows);
}

/* Layers as tt_model_all_layers counts them; -1: the options of the network are not valid. */
static int64_t count_layers(const rules *c)
{
  const tt_ensemble_config *own = c->own;
  tt_front front;
  tt_front_fault fault;
  if (INVALID(model_image) || INVALID(model_profile) || INVALID(model_front) ||
      INVALID(model_hidden) || (own->model_front.count && !tt_config_has_front_shape(own)) ||
      !tt_config_front(own, 1, &front, &fault))
    return -1;
  int64_t layers = front.layers + own->model_hidden.count + 1;
  tt_front_destroy(&front);
  return layers;
}

/* Factors on the learning rates of layers, and layers that keep their weights: one must train. */
static void check_layers(const rules *c)
{
  const tt_ensemble_config *own = c->own;
  const tt_real_list *rates = &own->train_layer_rates;
  int64_t layers = count_layers(c), l = own->train_freeze;
  if (layers < 0 || INVALID(train_freeze) || INVALID(train_layer_rates)) return;
  if (rates->count && rates->count != layers) {
    report_error(c, AT(train_layer_rates),
                 ": %" PRId64 " factors, but the network has %" PRId64
                 " layers with the output layer; write one for each",
                 rates->count, layers);
    return;
  }
  while (l < layers && rates->count && rates->value[l] <= 0.0) l++;
  if (l >= layers)
    report_error(c, !own->train_freeze || rates->count ? AT(train_layer_rates) : AT(train_freeze),
                 ": all %" PRId64
                 " layers would keep their weights; leave one to train (the output layer is "
                 "the last one)",
                 layers);
}

static void check_sweeps(const rules *c)
{
  const tt_ensemble_config *own = c->own;
  int64_t product = tt_sweep_combinations(own->sweeps, own->sweep), last = -1, members = 0;
  if (INVALID(members)) return;
  for (int64_t i = 0; i < own->sweeps; i++) {
    members = tt_swept_members(c->r, c->k, own->sweep[i].hyper);
    if (own->sweep[i].kind == TT_SWEEP_grid) last = i;
    if (own->sweep[i].kind != TT_SWEEP_list || own->sweep[i].count == members) continue;
    report_error(c, tt_hyper_option[own->sweep[i].hyper],
                 ": list: length %" PRId64 ", but members is %" PRId64
                 "; give one value for each member",
                 own->sweep[i].count, members);
  }
  if (last >= 0) members = tt_swept_members(c->r, c->k, own->sweep[last].hyper);
  int is_part = c->r->own[c->k][AT(first_member)].given; /* other jobs train the rest of the grid */
  if (last >= 0 && members % product && !is_part)
    report_error(c, tt_hyper_option[own->sweep[last].hyper],
                 ": grid: members (%" PRId64
                 ") must be a multiple of the number of combinations (%" PRId64
                 "); give first_member to train a part of the grid",
                 members, product);
}

/* Reject sweeping a hyper-parameter that the optimizer, schedule or average ignores: the members
 * would be equal. */
static void check_sweep_has_effect(const rules *c)
{
  static const deciding_option *const all[] = {&optimizer, &schedule, &average};
  const unsigned reported = TT_USES_momentum | TT_USES_weight_decay; /* by check_optimizer */
  char text[TT_OPTION_PATH_SIZE];
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const deciding_option *by = all[i];
    unsigned some = 0;
    for (int value = 0; value < by->count; value++) some |= by->uses[value];
    if (location_of(c, by->row)->bad) continue;
    for (int h = 0; h < TT_HYPER_COUNT; h++) {
      unsigned option = 1u << h;
      if (!(some & option & ~reported) || is_used(c, by, option)) continue;
      if (swept(c, tt_hyper_option[h]) < 0) continue;
      report_error(c, tt_hyper_option[h], ": has no effect with train.%s: %s",
                   tt_ensemble_option_table[by->row].name, choice_and_origin(c, by->row, text));
    }
  }
}

void tt_config_check_ensemble(tt_config_reader *r, int64_t k, int has_validation, const char *fix)
{
  const rules c = {r, k, &r->cfg->ensemble[k]};
  check_output(&c);
  check_levels(&c);
  check_optimizer(&c);
  check_milestones(&c);
  check_average(&c);
  check_stopping(&c, has_validation, fix);
  check_noise(&c);
  check_front(&c);
  check_layers(&c);
  check_dropout(&c);
  check_sweeps(&c);
  check_sweep_has_effect(&c);
}
