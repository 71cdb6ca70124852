/* reference.h — a second implementation of networks, losses, optimizers and schedules from the
 * textbook, in double and as simple as possible; the laws compare the engines with it. Gradients
 * are finite differences. */
#ifndef TT_REFERENCE_H
#define TT_REFERENCE_H
#include "tests/support/reference_front.h"

static inline void ref_missing(const char *kind, const char *name)
{
  fprintf(stderr, "no textbook formula for %s %s\n", kind, name);
  fail();
}

static inline double ref_softplus(double x) { return fmax(x, 0.0) + log1p(exp(-fabs(x))); }

static inline double ref_activation(tt_activation a, double x)
{
  switch (a) {
  case TT_ACT_identity: return x;
  case TT_ACT_relu: return fmax(x, 0.0);
  case TT_ACT_leaky_relu: return fmax(x, 0.01 * x);
  case TT_ACT_tanh: return tanh(x);
  case TT_ACT_sigmoid: return 1.0 / (1.0 + exp(-x));
  case TT_ACT_silu: return x / (1.0 + exp(-x));
  case TT_ACT_gelu: return 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
  case TT_ACT_softplus: return ref_softplus(x);
  case TT_ACT_elu: return x > 0.0 ? x : expm1(x);
  case TT_ACT_sine: return sin(x);
  case TT_ACT_hardtanh: return fmin(fmax(x, -1.0), 1.0);
  default: break;
  }
  ref_missing("activation", tt_choice_activation[a]);
  return NAN;
}

static inline double ref_nll(double mean, double raw, double y, double floor)
{
  double v = ref_softplus(raw) + floor;
  return 0.5 * (log(v) + (y - mean) * (y - mean) / v);
}

/* -ln of the probability of class y. */
static inline double ref_cross_entropy(int32_t n, const double *o, int64_t step, int64_t y)
{
  double sum = 0.0;
  for (int32_t j = 0; j < n; j++) sum += exp(o[j * step] - o[y * step]);
  return log(sum);
}

static inline double ref_pinball(const tt_model *m, const double *o, double y)
{
  double sum = 0.0;
  for (int32_t j = 0; j < m->each; j++) {
    double e = y - o[j * m->targets], t = (double)m->level[j];
    sum += fmax(t * e, (t - 1.0) * e);
  }
  return sum / m->each;
}

/* One target of one row: its outputs at o[j * K]. `held`: outputs that a loss uses as constants of
 * its gradient; NULL: the value of the loss, which has no such factor. */
static inline double ref_loss(const tt_cohort *c, const double *o, const double *held, double y)
{
  int64_t k = c->model.targets;
  double e = fabs(o[0] - y), share = 1.0 / (double)k, delta = (double)c->huber_delta;
  double floor = (double)c->variance_floor, p = 1.0 / (1.0 + exp(-o[0]));
  if (isnan(y)) return 0.0; /* an unknown label */
  switch (c->loss) {
  case TT_LOSS_mse: return e * e * share;
  case TT_LOSS_mae: return e * share;
  case TT_LOSS_huber: return (e < delta ? e * e / 2.0 : delta * (e - delta / 2.0)) * share;
  case TT_LOSS_gaussian_nll:
    return (held ? pow(ref_softplus(held[k]) + floor, (double)c->nll_beta) : 1.0) * share *
           ref_nll(o[0], o[k], y, floor);
  case TT_LOSS_poisson: return (exp(o[0]) - y * o[0]) * share;
  case TT_LOSS_bce: return (-y * log(p) - (1.0 - y) * log(1.0 - p)) * share;
  case TT_LOSS_quantile: return ref_pinball(&c->model, o, y) * share;
  case TT_LOSS_cross_entropy: return ref_cross_entropy(c->model.each, o, k, (int64_t)y) * share;
  default: break;
  }
  ref_missing("loss", tt_choice_loss[c->loss]);
  return NAN;
}

/* networks */

enum { REF_WIDEST = 256, REF_PARAMS = 1536 };

static inline void ref_norm(int64_t n, const double *gain, double *z)
{
  double mean = 0.0, variance = 0.0;
  for (int64_t o = 0; o < n; o++) mean += z[o] / (double)n;
  for (int64_t o = 0; o < n; o++) variance += (z[o] - mean) * (z[o] - mean) / (double)n;
  for (int64_t o = 0; o < n; o++)
    z[o] = gain[o] * (z[o] - mean) / sqrt(variance + 1e-5) + gain[n + o];
}

/* Outputs of the network with weights w[P] for one row.
 *   mask  factors of the hidden units, or NULL */
static inline void ref_forward(const tt_model *m, const double *w, const double *x,
                               const double *mask, double *out)
{
  double in[REF_WIDEST];
  int64_t hidden = 0;
  for (int l = 0; l < m->layers - 1; l++) hidden += m->layer[l].out;
  if (m->front.layers)
    ref_front(&m->front, w, x, mask ? mask + hidden : NULL, in);
  else
    memcpy(in, x, (size_t)m->inputs * sizeof *in);
  for (int l = 0, unit = 0; l < m->layers; l++) {
    const tt_layer *layer = &m->layer[l];
    for (int64_t o = 0; o < layer->out; o++) {
      out[o] = w[layer->bias + o];
      for (int64_t i = 0; i < layer->in; i++)
        out[o] += w[layer->weight + o * layer->in + i] * in[i];
    }
    if (layer->norm >= 0) ref_norm(layer->out, w + layer->norm, out);
    for (int64_t o = 0; o < layer->out; o++) {
      out[o] = ref_activation(layer->activation, out[o]);
      if (mask && l < m->layers - 1) out[o] *= mask[unit++];
      if (layer->residual) out[o] += in[o];
    }
    memcpy(in, out, (size_t)layer->out * sizeof *in);
  }
}

/* Mean and variance of quantity j of one target by the textbook formula: its outputs are
 * o[each], in steps of K; with three levels or classes. */
static inline void ref_quantity(const tt_model *m, double floor, const double *o, int32_t j,
                                double *mean, double *variance)
{
  double p = 0.0, sum = 0.0, sorted[8];
  *mean = o[0];
  *variance = 0.0;
  switch (m->output) {
  case TT_OUTPUT_mean_variance: *variance = ref_softplus(o[m->targets]) + floor; return;
  case TT_OUTPUT_sigmoid: *mean = p = 1.0 / (1.0 + exp(-o[0])), *variance = p * (1.0 - p); return;
  case TT_OUTPUT_rate: *mean = *variance = exp(o[0]); return;
  case TT_OUTPUT_quantiles:
    for (int32_t i = 0; i < 3; i++) sorted[i] = o[i * m->targets];
    for (int32_t i = 0; i < 3; i++)
      for (int32_t k = 0; k < 2; k++)
        if (sorted[k] > sorted[k + 1]) p = sorted[k], sorted[k] = sorted[k + 1], sorted[k + 1] = p;
    *mean = sorted[j];
    return;
  case TT_OUTPUT_softmax:
    for (int32_t i = 0; i < 3; i++) {
      double log_p = -ref_cross_entropy(3, o, m->targets, i);
      if (i == j) p = exp(log_p);
      sum -= exp(log_p) * log_p;
    }
    *mean = j < 3 ? p : sum;
    *variance = j < 3 ? p * (1.0 - p) : 0.0;
    return;
  default: return;
  }
}

/* The rows of a batch, as one member uses them. */
typedef struct ref_batch {
  const problem *p;
  int64_t member;
  const int32_t *row;
  int64_t rows;
  int64_t step; /* optimizer steps taken before; -1: not in training */
} ref_batch;

/* Number of units and channels that dropout may set to 0. */
static inline uint32_t ref_droppable(const tt_model *m)
{
  int64_t units = 0;
  for (int l = 0; l < m->layers - 1; l++) units += m->layer[l].out;
  for (int l = 0; l < m->front.layers; l++)
    if (m->front.layer[l].kind == TT_FRONT_dropout) units += m->front.layer[l].channels;
  TT_CHECK(units, <=, (int64_t)(4 * REF_WIDEST));
  return (uint32_t)units;
}

static inline void ref_masks(const ref_batch *b, int64_t r, double *mask)
{
  const tt_cohort *c = &b->p->c;
  const tt_member *m = &c->member[b->member];
  double p = (double)m->hyper.dropout;
  for (uint32_t u = 0, units = ref_droppable(&c->model); u < units; u++) {
    tt_random4 draw =
        tt_dropout_draw(c->seed, m->stream, b->step, u, (uint32_t)r, (uint32_t)c->batch_size);
    mask[u] = (tt_uniform(draw.v[r % 4]) >= m->hyper.dropout) / (1.0 - p);
  }
}

static inline void ref_inputs(const ref_batch *b, int64_t r, double *x)
{
  const tt_dataset *d = b->p->d;
  for (int64_t i = 0; i < d->inputs; i++) x[i] = (double)d->x[b->row[r] * d->inputs + i];
}

/* Loss of one target with label y, whose error has a known variance; as ref_loss. */
static inline double ref_noisy_loss(const tt_cohort *c, const double *o, const double *held,
                                    double y, double variance)
{
  tt_cohort cohort = *c;
  cohort.variance_floor += (float)variance;
  cohort.nll_beta = 0.0f;
  double loss = ref_loss(&cohort, o, held, y);
  return c->loss == TT_LOSS_mse ? loss / ((double)c->variance_floor + variance) : loss;
}

/* The mean and variance of the inputs of layer l, a batch_norm, over the batch; those of the layers
 * before are known. */
static inline void ref_layer_moments(const ref_batch *b, int l, const double *w)
{
  static double value[1 + REF_LAYERS][REF_FRONT_VALUES];
  const tt_model *m = &b->p->c.model;
  const tt_front_layer *layer = &m->front.layer[l];
  int drops = b->p->c.member[b->member].hyper.dropout > 0.0f;
  double x[REF_WIDEST], mask[4 * REF_WIDEST], sum[REF_CHANNELS][2] = {{0.0}};
  int64_t place = tt_front_positions(layer), hidden = 0;
  for (int k = 0; k < m->layers - 1; k++) hidden += m->layer[k].out;
  for (int64_t r = 0; r < b->rows; r++) {
    ref_inputs(b, r, x);
    if (drops) ref_masks(b, r, mask);
    ref_front_values(&m->front, w, x, drops ? mask + hidden : NULL, l, value);
    for (int64_t i = 0; i < tt_front_values(layer); i++)
      for (int k = 0; k < 2; k++) sum[i / place][k] += pow(value[layer->from + 1][i], 1.0 + k);
  }
  for (int64_t c = 0; c < layer->channels; c++) {
    double mean = sum[c][0] / (double)(b->rows * place);
    ref_moments.of[l][c][0] = mean;
    ref_moments.of[l][c][1] = sum[c][1] / (double)(b->rows * place) - mean * mean;
  }
}

/* Those of all batch_norms that train; used until `use` is 0. */
static inline void ref_take_moments(const ref_batch *b, const double *w)
{
  const tt_model *m = &b->p->c.model;
  ref_moments.use = 1;
  for (int l = 0; l < m->front.layers; l++) {
    ref_moments.known[l] = tt_model_rate(m, l) > 0.0f;
    if (m->front.layer[l].kind == TT_FRONT_batch_norm) ref_layer_moments(b, l, w);
  }
}

/* Weighted loss of row r of a batch at w; the constants of its gradient are taken at `held`. */
static inline double ref_row_loss(const ref_batch *b, int64_t r, const double *w,
                                  const double *held)
{
  const tt_cohort *c = &b->p->c;
  const tt_dataset *d = b->p->d;
  const tt_member *m = &c->member[b->member];
  double x[REF_WIDEST], out[REF_WIDEST], fixed[REF_WIDEST], mask[4 * REF_WIDEST], sum = 0.0;
  int drops = b->step >= 0 && m->hyper.dropout > 0.0f;
  ref_inputs(b, r, x);
  if (drops) ref_masks(b, r, mask);
  ref_forward(&c->model, w, x, drops ? mask : NULL, out);
  if (held && c->model.output == TT_OUTPUT_mean_variance)
    ref_forward(&c->model, held, x, drops ? mask : NULL, fixed);
  for (int64_t k = 0; k < c->model.targets; k++) {
    int32_t column = c->ensemble[m->ensemble].column[k];
    double y = (double)d->y[b->row[r] * d->targets + column];
    if (b->step >= 0 && m->hyper.label_noise > 0.0f)
      y += (double)m->hyper.label_noise *
           (double)tt_label_noise(c->seed, m->stream, (uint32_t)column, (uint32_t)b->row[r]);
    if (d->label_variance)
      sum += ref_noisy_loss(c, out + k, held ? fixed + k : NULL, y,
                            (double)d->label_variance[b->row[r] * d->targets + column]);
    else
      sum += ref_loss(c, out + k, held ? fixed + k : NULL, y);
  }
  return d->weight ? (double)d->weight[b->row[r]] * sum : sum;
}

/* Weighted loss of all rows, divided by their number. */
static inline double ref_batch_loss(const ref_batch *b, const double *w, const double *held)
{
  double sum = 0.0;
  if (b->step >= 0) ref_take_moments(b, w);
  for (int64_t r = 0; r < b->rows; r++) sum += ref_row_loss(b, r, w, held);
  ref_moments.use = 0;
  return sum / (double)b->rows;
}

/* Derivative of the batch loss by *at: central differences, error about 1e-10 for smooth
 * networks. */
static inline double ref_slope(ref_batch *b, double *place, const double *w, const double *held)
{
  const double h = 1e-5, keep = *place;
  *place = keep + h;
  double above = ref_batch_loss(b, w, held);
  *place = keep - h;
  double below = ref_batch_loss(b, w, held);
  *place = keep;
  return (above - below) / (2.0 * h);
}

/* Gradient g[P] of the batch for one step of training. */
static inline void ref_gradient(ref_batch b, double *w, double *g)
{
  int64_t params = b.p->c.model.params;
  double held[REF_PARAMS];
  TT_CHECK(params, <=, (int64_t)REF_PARAMS);
  memcpy(held, w, (size_t)params * sizeof *w);
  for (int64_t i = 0; i < params; i++) g[i] = ref_slope(&b, &w[i], w, held);
}

/* schedules and optimizers */

static inline double ref_cosine(double begin, double end, double part)
{
  return end + (begin - end) * (1.0 + cos(acos(-1.0) * part)) / 2.0;
}

/* The position of an epoch in its cycle of cosine_restarts. */
static inline double ref_cycle(double epoch, double length, double growth)
{
  for (; epoch >= length; length *= growth) epoch -= length;
  return epoch / length;
}

static inline double ref_one_cycle(double step, double steps, double peak)
{
  double top = peak * steps - 1.0;
  return step <= top ? ref_cosine(0.04, 1.0, step / top)
                     : ref_cosine(1.0, 4e-6, (step - top) / (steps - 1.0 - top));
}

/* Factor on the learning rate after `step` steps of `steps` an epoch. */
static inline double ref_schedule(const tt_cohort *c, const tt_hyper *h, int64_t step,
                                  int64_t steps)
{
  const tt_schedule_options *s = &c->schedule_options;
  double epoch = floor((double)step / (double)steps), epochs = (double)h->epochs;
  double gamma = (double)h->schedule_gamma, low = (double)h->schedule_min, passed = 0.0;
  double every = (double)h->schedule_step, factor = 1.0;
  double ramp = (double)h->warmup * (double)steps;
  for (int32_t i = 0; i < s->milestones; i++) passed += epoch >= (double)s->milestone[i];
  switch (c->schedule) {
  case TT_SCHEDULE_constant:
  case TT_SCHEDULE_reduce_on_plateau: break;
  case TT_SCHEDULE_step: factor = pow(gamma, floor(epoch / every)); break;
  case TT_SCHEDULE_multistep: factor = pow(gamma, passed); break;
  case TT_SCHEDULE_exponential: factor = pow(gamma, epoch); break;
  case TT_SCHEDULE_cosine: factor = ref_cosine(1.0, low, epoch / epochs); break;
  case TT_SCHEDULE_cosine_restarts:
    factor = ref_cosine(1.0, low, ref_cycle(epoch, every, (double)s->growth));
    break;
  case TT_SCHEDULE_one_cycle:
    factor = ref_one_cycle((double)step, epochs * (double)steps, (double)s->peak);
    break;
  default: ref_missing("schedule", tt_choice_schedule[c->schedule]);
  }
  return ramp > 0.0 ? factor * fmin(1.0, (double)(step + 1) / ramp) : factor;
}

/* Adam's step of one parameter with its moments; v is the divisor. */
static inline double ref_adam(const tt_hyper *h, int64_t t, double m, double v)
{
  double correct1 = 1.0 - pow((double)h->beta1, (double)t);
  double correct2 = 1.0 - pow((double)h->beta2, (double)t);
  return (m / correct1) / (sqrt(v / correct2) + (double)h->epsilon);
}

/* Parameter w with gradient g after step t (from 1), by the textbook formula; its slots s[3] are
 * zero at first. */
static inline double ref_follow(const tt_cohort *c, const tt_hyper *h, double lr, int64_t t,
                                double w, double g, double *s)
{
  double b1 = (double)h->beta1, b2 = (double)h->beta2, mu = (double)h->momentum;
  double decayed = w - lr * (double)h->weight_decay * w;
  switch (c->optimizer) {
  case TT_OPT_sgd: s[0] = mu * s[0] + g; return w - lr * (c->nesterov ? g + mu * s[0] : s[0]);
  case TT_OPT_adagrad: s[0] += g * g; return w - lr * g / (sqrt(s[0]) + (double)h->epsilon);
  case TT_OPT_rmsprop:
    s[0] = b2 * s[0] + (1.0 - b2) * g * g;
    s[1] = mu * s[1] + g / (sqrt(s[0]) + (double)h->epsilon);
    return w - lr * s[1];
  default: break;
  }
  s[0] = b1 * s[0] + (1.0 - b1) * g;
  s[1] = b2 * s[1] + (1.0 - b2) * g * g;
  s[2] = fmax(s[2], s[1]);
  switch (c->optimizer) {
  case TT_OPT_adam: return w - lr * ref_adam(h, t, s[0], s[1]);
  case TT_OPT_adamw: return decayed - lr * ref_adam(h, t, s[0], s[1]);
  case TT_OPT_amsgrad: return decayed - lr * ref_adam(h, t, s[0], s[2]);
  default: break;
  }
  ref_missing("optimizer", tt_choice_optimizer[c->optimizer]);
  return NAN;
}

/* Factor on the learning rate of parameter p. */
static inline double ref_rate(const tt_model *m, int64_t p)
{
  double rate = 1.0;
  for (int l = 0; l < m->front.layers && m->rates; l++)
    if (m->front.layer[l].weight >= 0 && m->front.layer[l].weight <= p)
      rate = (double)tt_model_rate(m, l);
  for (int l = 0; l < m->layers && m->rates; l++)
    if (m->layer[l].weight <= p) rate = (double)tt_model_rate(m, m->front.layers + l);
  return rate;
}

/* One step t (from 1) of one member at step size lr; s[P][3] are its slots. */
static inline void ref_step(const tt_cohort *c, const tt_hyper *h, double lr, int64_t t, double *w,
                            const double *g, double *s)
{
  int64_t n = c->model.params;
  double norm = 0.0, clip = (double)h->clip_norm;
  for (int64_t i = 0; i < n; i++) norm += ref_rate(&c->model, i) > 0.0 ? g[i] * g[i] : 0.0;
  norm = sqrt(norm) + 1e-6;
  double scale = clip > 0.0 && norm > clip ? clip / norm : 1.0;
  for (int64_t i = 0; i < n; i++) {
    double rate = ref_rate(&c->model, i);
    double gi = g[i] * scale + (double)h->l2 * w[i];
    if (rate > 0.0) w[i] = ref_follow(c, h, lr * rate, t, w[i], gi, &s[3 * i]);
  }
}

/* problems small enough for finite differences */

enum { REF_ROWS = 45, REF_COLUMNS = 2 };

static inline double ref_largest(const double *v, int64_t n)
{
  double most = 0.0;
  for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(v[i]));
  return most;
}

/* One ensemble of two members that learn the last `k` columns, in reverse order.
 *   flags  1: rows have weights, 2: layer_norm, 4: residual layers; 8, 16, 24: factors on the
 *          learning rates of the layers */
static inline problem ref_network(tt_activation activation, tt_loss loss, int64_t k, int flags)
{
  const int64_t hidden[] = {7, flags & 4 ? 7 : 5};
  tt_output output = tt_loss_output_head(loss);
  problem p = problem_make(REF_ROWS, 3, REF_COLUMNS, 1, 2, hidden, 2, activation, output);
  tt_model_shape shape = usual_shape(3, k, hidden, 2, activation, output);
  shape.layer_norm = flags & 2;
  shape.residual = flags & 4;
  TT_CHECK_OK(tt_model_lay_out(&shape, &p.c.model));
  static const double rate[][3] = {{0.0, 0.5, 1.0}, {0.0, 0.0, 2.0}, {1.0, 0.0, 0.25}};
  if (flags >= 8) TT_CHECK_OK(tt_model_set_rates(0, rate[flags / 8 - 1], 3, &p.c.model));
  p.c.loss = loss;
  p.c.variance_floor = 1e-3f;
  tt_free(p.c.ensemble[0].column);
  TT_CHECK_OK(TT_ALLOC(p.c.ensemble[0].column, k));
  for (int64_t t = 0; t < k; t++) p.c.ensemble[0].column[t] = (int32_t)(REF_COLUMNS - 1 - t);
  p.c.ensemble[0].targets = k;
  if (!(flags & 1)) return p;
  TT_CHECK_OK(TT_ALLOC(p.d->weight, REF_ROWS));
  for (int64_t r = 0; r < REF_ROWS; r++) p.d->weight[r] = (float)(r % 4) / 2.0f;
  return p;
}

/* The order "rows ascending" for all members and epochs; owned by the caller. */
static inline int32_t *ref_in_turn(problem *p, int64_t *rows)
{
  int32_t *row = NULL, *order = NULL;
  TT_CHECK_OK(tt_dataset_rows(p->d, TT_TRAIN, (tt_slice){0, 0}, p->c.ensemble[0].column,
                              p->c.ensemble[0].targets, &row, rows));
  TT_CHECK_OK(TT_ALLOC(order, p->c.members * p->c.max_epochs * *rows));
  for (int64_t i = 0; i < p->c.members * p->c.max_epochs; i++)
    memcpy(order + i * *rows, row, (size_t)*rows * sizeof *row);
  tt_free(row);
  p->replay.order = order;
  return order;
}

static inline tt_hyper ref_plain(float rate)
{
  return (tt_hyper){rate, .epochs = 1, .init_scale = 1.0f};
}
#endif
