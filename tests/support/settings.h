/* settings.h — settings of all options of a cohort, and of optional features of its members, which
 * together use every row of every table, with shapes and batch sizes that are no multiple of a
 * vector; for laws about members. */
#ifndef TT_SETTINGS_H
#define TT_SETTINGS_H
#include "tests/support/problem.h"

enum { ROWS = DOUBLE ? 37 : 67, INPUTS = 3, EPOCHS = 3, EACH = 3, ENSEMBLES = 2 };

/* One setting of all options that a cohort shares, and of optional features of its members. */
typedef struct setting {
  int number;
  tt_optimizer optimizer;
  tt_resample resample;
  tt_loss loss;
  tt_schedule schedule;
  tt_weight_average average;
  int layer_norm, residual, rates;
  int parts;          /* of a batch */
  int dropout, noise; /* 0 or 1 */
} setting;

/* Settings below PLAIN are supported by every path of every engine: optimizers of at most two
 * slots, losses of at most two outputs, all resamplings but kfold. The others cover every row of
 * the tables. */
enum { PLAIN = 18, RICH = 24, SETTINGS = PLAIN + RICH };

static inline setting setting_of(int number)
{
  static const int parts[] = {1, 3, 1, 8, 2, 1, 4};
  setting v = {.number = number,
               .optimizer = (tt_optimizer)(number % 4),
               .resample = (tt_resample)((number + number / 3) % 3),
               .loss = (tt_loss)((2 * number + number / 2) % 7),
               .parts = parts[number % 7],
               .schedule = (tt_schedule)(number % TT_SCHEDULE_COUNT)};
  if (number < PLAIN) return v;
  int k = number - PLAIN;
  int half = k / 3 % 2, i = 3 * (k / 6) + k % 3; /* 0 to 11 in each half (is_dealt) */
  v.optimizer = (tt_optimizer)((i + half) % TT_OPT_COUNT);
  v.resample = (tt_resample)(k % TT_RESAMPLE_COUNT);
  v.loss = (tt_loss)((i + 5 * half) % TT_LOSS_COUNT);
  v.schedule = (tt_schedule)((i + 3 * half) % TT_SCHEDULE_COUNT);
  v.average = (tt_weight_average)(k % TT_AVERAGE_COUNT);
  v.layer_norm = k % 2;
  v.residual = k % 3 != 1;
  v.rates = k % 4 == 1;
  v.dropout = k % 4 < 2;
  v.noise = k % 5 == 1 && v.loss != TT_LOSS_cross_entropy;
  return v;
}

/* Hyper-parameters of a member, computed from its ensemble and number. */
static inline tt_hyper hyper_of(setting v, int64_t ensemble, int64_t index)
{
  tt_hyper h = usual_hyper();
  float k = (float)(3 * ensemble + index);
  h.learning_rate = 4e-3f * (1.0f + k);
  h.momentum = 0.1f * k;
  h.l2 = index == 1 ? 1e-3f : 0.0f;
  h.weight_decay = 1e-2f * k;
  h.clip_norm = index == 2 ? 0.5f : 0.0f;
  h.patience = index == 0 ? 1 : 0;
  h.epochs = EPOCHS - (int32_t)(index % 2);
  h.schedule_gamma = 0.3f + 0.05f * k;
  h.schedule_min = 0.1f;
  h.schedule_step = 1;
  h.warmup = 0.4f * k;
  h.average_decay = 0.7f;
  h.average_start = (int32_t)(index % 2);
  h.dropout = v.dropout ? 0.05f + 0.07f * k : 0.0f;
  h.label_noise = v.noise ? 0.1f * k : 0.0f;
  return h;
}

/* The network of a setting: widths that are no multiple of a vector, no hidden layer, equal widths
 * with residual layers. */
static inline tt_model network(setting v)
{
  static const int64_t hidden[][3] = {{1}, {3, 17}, {33}, {0}, {17, 1, 33}, {32}, {17, 17}};
  static const int64_t layers[] = {1, 2, 1, 0, 3, 1, 2};
  int which = v.residual && v.number % 2 ? 6 : v.number % 7;
  tt_model m;
  tt_model_shape shape =
      usual_shape(INPUTS, 1, hidden[which], layers[which], (tt_activation)(v.number % TT_ACT_COUNT),
                  tt_loss_output_head(v.loss));
  shape.layer_norm = v.layer_norm;
  shape.residual = v.residual;
  TT_CHECK_OK(tt_model_lay_out(&shape, &m));
  if (v.rates) set_rates(&m, v.number / 4);
  return m;
}

/* Some rows have no label of target 1, so that the ensembles have different rows. */
static inline void thin_out(tt_dataset *d)
{
  for (int64_t r = 0; r < d->rows; r += 6) d->y[r * d->targets + 1] = NAN;
}

static inline void settle(problem *p, setting v)
{
  static const int64_t batch[] = {7, 16, 20, 1000, 33};
  p->c.model = network(v);
  p->c.loss = v.loss;
  p->c.optimizer = v.optimizer;
  p->c.nesterov = v.number % 2;
  p->c.resample = v.resample;
  p->c.init = (tt_init)(v.number % TT_INIT_COUNT);
  p->c.batch_size = batch[v.number % 5];
  p->c.parts = v.parts;
  p->c.max_epochs = EPOCHS;
  p->c.schedule = v.schedule;
  p->c.schedule_options = (tt_schedule_options){1, {1}, 2.0f, 0.4f};
  p->c.average = v.average;
}

/* A cohort of ensembles id[0..n), `each` members that begin with number `begin`. */
static inline problem cast(setting v, const int64_t *id, int64_t n, int64_t begin, int64_t each)
{
  const int64_t none = 1;
  problem p =
      problem_make(ROWS, INPUTS, 2, n, each, &none, 1, TT_ACT_tanh, tt_loss_output_head(v.loss));
  settle(&p, v);
  for (int64_t i = 0; i < n * each; i++) {
    tt_ensemble *e = &p.c.ensemble[i / each];
    int64_t who = id[i / each], index = begin + i % each;
    e->key = (uint32_t)who + 7;
    e->column[0] = (int32_t)(who % 2);
    p.c.member[i].index = (int32_t)index;
    p.c.member[i].stream = (uint64_t)e->key << 32 | (uint32_t)index;
    p.c.member[i].hyper = hyper_of(v, who, index);
  }
  thin_out(p.d);
  if (v.number % 3) return p;
  TT_CHECK_OK(TT_ALLOC(p.d->weight, ROWS));
  for (int64_t r = 0; r < ROWS; r++) p.d->weight[r] = 0.5f + (float)(r % 5) / 4.0f;
  return p;
}

static const int64_t usual_ids[ENSEMBLES] = {0, 1};
static inline problem usual(setting v) { return cast(v, usual_ids, ENSEMBLES, 0, EACH); }

static inline const char *tell(setting v, way variant, const char *what)
{
  static char text[256];
  snprintf(text, sizeof text, "%s, setting %d, %s, %s, %s: %s", variant.name, v.number,
           tt_choice_optimizer[v.optimizer], tt_choice_resample[v.resample], tt_choice_loss[v.loss],
           what);
  return text;
}
#endif
