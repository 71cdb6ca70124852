/* test_model.c — laws of core/model: plan, model, initial weights, split, rows, state. */
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "core/model/dataset.h"
#include "core/model/model.h"
#include "core/model/partition.h"
#include "core/model/state.h"
#include "tests/support/check.h"
#include "tests/support/plain_model.h"

#include <math.h>
#include <string.h>

static void fails(tt_err got, tt_err wanted) { TT_CHECK((int)got, ==, (int)wanted); }

/* plan */

TT_TEST (a_plan_covers_every_member_once) {
  for (int64_t members = 0; members <= 30; members++)
    for (int ranks = 1; ranks <= 12; ranks++) {
      int64_t next = 0, least = members / ranks;
      for (int rank = 0; rank < ranks; rank++) {
        tt_slice s;
        TT_CHECK_OK(tt_partition_even(members, ranks, rank, &s));
        TT_CHECK(s.first, ==, next);
        TT_CHECK(s.count - least, >=, 0);
        TT_CHECK(s.count - least, <=, 1);
        for (int64_t i = s.first; i < s.first + s.count; i++)
          TT_CHECK(tt_partition_owner(members, ranks, i), ==, rank);
        next += s.count;
      }
      TT_CHECK(next, ==, members);
    }
}

TT_TEST (an_impossible_plan_is_rejected) {
  tt_slice s = {-7, -7};
  fails(tt_partition_even(5, 2, 2, &s), TT_E_INTERNAL);
  fails(tt_partition_even(5, 2, -1, &s), TT_E_INTERNAL);
  fails(tt_partition_even(5, 0, 0, &s), TT_E_INTERNAL);
  fails(tt_partition_even(-1, 2, 0, &s), TT_E_INTERNAL);
  TT_CHECK(s.first, ==, -7);
}

/* model */

/* Offsets of layer l, with `in` inputs and parameters from `next` on; returns their end. */
static int64_t tiles(const tt_model *m, int l, int64_t in, int64_t next, int norm, int residual)
{
  const tt_layer *layer = &m->layer[l];
  int last = l == m->layers - 1;
  TT_CHECK(layer->in, ==, in);
  TT_CHECK(layer->weight, ==, next);
  TT_CHECK(layer->bias, ==, next + in * layer->out);
  next = layer->bias + layer->out;
  TT_CHECK(layer->norm, ==, norm && !last ? next : -1);
  TT_CHECK((int)layer->residual, ==, residual && !last && l > 0 && in == layer->out);
  TT_CHECK((int)layer->dropout, ==, !last);
  TT_CHECK((int)layer->activation, ==, last ? TT_ACT_identity : TT_ACT_relu);
  return norm && !last ? next + 2 * layer->out : next;
}

TT_TEST (layers_cover_the_parameters_once) {
  const int64_t hidden[] = {5, 17, 1, 33, 33};
  /* outputs and quantities per target, if more than one */
  const int64_t more[TT_OUTPUT_COUNT] = {
      [TT_OUTPUT_mean_variance] = 1, [TT_OUTPUT_quantiles] = 2, [TT_OUTPUT_softmax] = 2};
  const int64_t q[TT_OUTPUT_COUNT] = {[TT_OUTPUT_quantiles] = 2, [TT_OUTPUT_softmax] = 3};
  const double level[] = {0.1, 0.5, 0.9};
  for (int64_t layers = 0; layers <= 5; layers++)
    for (int output = 0; output < TT_OUTPUT_COUNT; output++)
      for (int kind = 0; kind < 4; kind++) {
        tt_model m;
        tt_model_shape shape = {5,        3,        hidden, layers, TT_ACT_relu, (tt_output)output,
                                kind & 1, kind & 2, 0,      3,      level,       NULL};
        TT_CHECK_OK(tt_model_lay_out(&shape, &m));
        int64_t next = 0, in = 5;
        TT_CHECK(m.layers, ==, layers + 1);
        for (int l = 0; l < m.layers; in = m.layer[l++].out)
          next = tiles(&m, l, in, next, kind & 1, kind & 2);
        TT_CHECK(m.params, ==, next);
        TT_CHECK(in, ==, 3 * (1 + more[output]));
        TT_CHECK(m.outputs, ==, in);
        TT_CHECK((int64_t)m.quantities, ==, 1 + q[output]);
      }
}

TT_TEST (models_too_large_are_refused) {
  int64_t hidden[TT_MAX_LAYERS];
  tt_model m = {.params = -7};
  for (int l = 0; l < TT_MAX_LAYERS; l++) hidden[l] = 2;
  TT_CHECK_OK(tt_model_plain(1, 1, hidden, TT_MAX_LAYERS - 1, TT_ACT_tanh, TT_OUTPUT_mean, &m));
  int64_t before = m.params;
  fails(tt_model_plain(1, 1, hidden, TT_MAX_LAYERS, TT_ACT_tanh, TT_OUTPUT_mean, &m), TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(), "64");
  hidden[0] = hidden[1] = 65536;
  fails(tt_model_plain(1, 1, hidden, 2, TT_ACT_tanh, TT_OUTPUT_mean, &m), TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(), "2147483647 parameters");
  TT_CHECK(m.params, ==, before);
}

TT_TEST (work_is_three_products_per_layer_and_two_in_the_first) {
  const int64_t hidden[] = {32, 16};
  tt_model m;
  TT_CHECK_OK(tt_model_plain(8, 1, hidden, 2, TT_ACT_relu, TT_OUTPUT_mean, &m));
  double products = 2.0 * 8 * 32 + 3.0 * 32 * 16 + 3.0 * 16 * 1;
  TT_CHECK(tt_model_flops(&m, 10), ==, 2.0 * 10 * products);
}

/* initial weights */

/* Textbook bounds: weights are uniform in [-bound, bound], or normal; returns 1 if normal. */
static int book(tt_init init, double in, double out, double *weights, double *biases)
{
  *biases = 0.0;
  switch (init) {
  case TT_INIT_he_normal: *weights = sqrt(2.0 / in); return 1;
  case TT_INIT_glorot_normal: *weights = sqrt(2.0 / (in + out)); return 1;
  case TT_INIT_lecun_normal: *weights = sqrt(1.0 / in); return 1;
  case TT_INIT_fan_in_uniform: *weights = *biases = 1.0 / sqrt(in); return 0;
  case TT_INIT_he_uniform: *weights = sqrt(6.0 / in); return 0;
  case TT_INIT_glorot_uniform: *weights = sqrt(6.0 / (in + out)); return 0;
  case TT_INIT_lecun_uniform: *weights = sqrt(3.0 / in); return 0;
  default: fprintf(stderr, "no textbook bounds for %s\n", tt_choice_init[init]), fail();
  }
  return 0;
}

/* Moments up to the fourth, and the share beyond one standard deviation. */
static void normal(const float *w, int64_t n, double sd)
{
  double sum[5] = {0}, beyond = 0.0, count = (double)n;
  for (int64_t i = 0; i < n; i++) {
    double v = (double)w[i] / sd;
    sum[1] += v, sum[2] += v * v, sum[3] += v * v * v, sum[4] += v * v * v * v;
    beyond += fabs(v) > 1.0;
  }
  if (n < 1000) return;
  TT_CHECK(fabs(sum[1] / count), <=, 5.0 / sqrt(count));
  TT_CHECK(fabs(sum[2] / count - 1.0), <=, 5.0 * sqrt(2.0 / count));
  TT_CHECK(fabs(sum[3] / count), <=, 5.0 * sqrt(15.0 / count));
  TT_CHECK(fabs(sum[4] / count - 3.0), <=, 5.0 * sqrt(96.0 / count));
  TT_CHECK(fabs(beyond / count - 0.317310508), <=, 5.0 * sqrt(0.2166 / count));
}

static void uniform(const float *w, int64_t n, double bound)
{
  double sum = 0.0, squares = 0.0, most = 0.0;
  for (int64_t i = 0; i < n; i++) {
    double v = (double)w[i];
    sum += v, squares += v * v, most = fmax(most, fabs(v));
  }
  TT_CHECK(most, <=, bound * (1.0 + 1e-6));
  if (n < 1000) return;
  TT_CHECK(most, >=, 0.98 * bound);
  TT_CHECK(fabs(sum / (double)n), <=, 5.0 * bound / sqrt(3.0 * (double)n));
  TT_CHECK(fabs(squares / (double)n - bound * bound / 3.0), <=,
           5.0 * bound * bound * sqrt(4.0 / 45.0 / (double)n));
}

TT_TEST (initial_weights_have_the_bounds_of_their_table) {
  const int64_t hidden[] = {101, 53};
  tt_model m;
  TT_CHECK_OK(tt_model_plain(23, 2, hidden, 2, TT_ACT_relu, TT_OUTPUT_mean, &m));
  float *w = NULL;
  TT_CHECK_OK(TT_ALLOC(w, m.params));
  for (int init = 0; init < TT_INIT_COUNT; init++) {
    tt_model_init_weights(&m, (tt_init)init, 7, 8, w);
    for (int l = 0; l < m.layers; l++) {
      const tt_layer *layer = &m.layer[l];
      double weights, biases;
      if (book((tt_init)init, (double)layer->in, (double)layer->out, &weights, &biases))
        normal(w + layer->weight, layer->in * layer->out, weights);
      else
        uniform(w + layer->weight, layer->in * layer->out, weights);
      uniform(w + layer->bias, layer->out, biases);
      for (int64_t o = 0; o < layer->out;
           o++) /* from their own random numbers, not those of the weights */
        TT_CHECK(w[layer->bias + o], !=, w[layer->weight + o]);
    }
  }
  tt_free(w);
}

/* Layers of 9 x 9: the biases begin inside a block of four random words. */
TT_TEST (initial_weights_are_the_words_of_their_counter) {
  enum { H = 9 };
  const int64_t hidden[] = {H, H};
  tt_model m;
  TT_CHECK_OK(tt_model_plain(H, 1, hidden, 2, TT_ACT_relu, TT_OUTPUT_mean, &m));
  float w[400] = {0};
  double weights, biases;
  tt_model_init_weights(&m, TT_INIT_fan_in_uniform, 7, 8, w);
  for (int l = 0; l < m.layers; l++) {
    const tt_layer *layer = &m.layer[l];
    int64_t count = layer->in * layer->out;
    (void)book(TT_INIT_fan_in_uniform, (double)layer->in, (double)layer->out, &weights, &biases);
    for (uint32_t i = 0; i < count + layer->out; i++) {
      tt_random4 r = tt_random(7, 8, TT_PURPOSE_INIT, (uint32_t)l, i / 4);
      double word = 2.0 * (double)tt_uniform(r.v[i % 4]) - 1.0;
      if (i < count)
        TT_CHECK(fabs((double)w[layer->weight + i] - weights * word), <, 1e-6);
      else
        TT_CHECK(fabs((double)w[layer->bias + i - count] - biases * word), <, 1e-6);
    }
  }
}

TT_TEST (initial_weights_depend_on_seed_and_stream_alone) {
  enum { H = 9 };
  const int64_t hidden[] = {H, H, H};
  tt_model m, wide;
  TT_CHECK_OK(tt_model_plain(H, 1, hidden, 3, TT_ACT_relu, TT_OUTPUT_mean, &m));
  TT_CHECK_OK(tt_model_plain(H, 1, hidden, 2, TT_ACT_tanh, TT_OUTPUT_mean_variance, &wide));
  float a[400] = {0}, b[400] = {0}, c[400] = {0};
  tt_model_init_weights(&m, TT_INIT_he_uniform, 1, 2, a);
  tt_model_init_weights(&m, TT_INIT_he_uniform, 1, 2, b);
  tt_model_init_weights(&wide, TT_INIT_he_uniform, 1, 2, c);
  TT_CHECK(memcmp(a, b, sizeof a), ==, 0);
  TT_CHECK(memcmp(a, c, (size_t)m.layer[2].weight * sizeof *a), ==, 0); /* the layers in common */
  TT_CHECK(memcmp(a, a + m.layer[1].weight, H * H * sizeof *a), !=, 0);
  tt_model_init_weights(&m, TT_INIT_he_uniform, 2, 2, b);
  tt_model_init_weights(&m, TT_INIT_he_uniform, 1, 3, c);
  for (int64_t i = 0; i < H * H; i++) {
    TT_CHECK(a[i], !=, b[i]);
    TT_CHECK(a[i], !=, c[i]);
  }
}

/* split */

static void counted(int64_t rows, const double fraction[TT_SPLITS], const int8_t *split)
{
  int64_t count[TT_SPLITS + 1] = {0}, left = rows;
  for (int64_t i = 0; i < rows; i++) count[split[i] + 1]++;
  for (int k = 0; k < TT_SPLITS; k++) {
    int64_t want = (int64_t)llround(fraction[k] * (double)rows);
    if (want > left) want = left; /* halves round up until the rows run out */
    TT_CHECK(count[k + 1], ==, want);
    left -= want;
  }
  TT_CHECK(count[0], ==, left);
}

TT_TEST (a_split_has_exact_fractions) {
  const double fractions[][TT_SPLITS] = {
      {0.8, 0.1, 0.1}, {1.0, 0.0, 0.0}, {0.5, 0.5, 0.0}, {0.3, 0.2, 0.1}, {0.34, 0.33, 0.33}};
  static int8_t split[1000], again[1000], other[1000];
  for (int f = 0; f < 5; f++)
    for (int64_t rows = 2; rows <= 1000; rows += rows < 50 ? 1 : 73) {
      TT_CHECK_OK(tt_split_fractions(rows, fractions[f], 7, split));
      counted(rows, fractions[f], split);
      TT_CHECK_OK(tt_split_fractions(rows, fractions[f], 7, again));
      TT_CHECK(memcmp(split, again, (size_t)rows), ==, 0);
      TT_CHECK_OK(tt_split_fractions(rows, fractions[f], 8, other));
      counted(rows, fractions[f], other);
      if (rows >= 50 && f != 1) TT_CHECK(memcmp(split, other, (size_t)rows), !=, 0);
    }
}

TT_TEST (impossible_splits_are_refused) {
  int8_t split[10];
  fails(tt_split_fractions(10, (double[]){0.0, 0.5, 0.5}, 1, split), TT_E_DATA);
  fails(tt_split_fractions(1, (double[]){0.4, 0.3, 0.3}, 1, split), TT_E_DATA);
  fails(tt_split_fractions(1ll << 33, (double[]){0.8, 0.1, 0.1}, 1, split), TT_E_DATA);
}

TT_TEST (rows_of_a_split_are_labeled_and_ascending) {
  tt_dataset *d = NULL;
  const int32_t columns[] = {2, 0};
  TT_CHECK_OK(tt_dataset_create(60, 1, 3, 0, &d));
  for (int64_t r = 0; r < 60; r++) {
    d->split[r] = (int8_t)(r % 4 - 1);
    if (r % 5 == 0) d->y[r * 3 + 2] = NAN;
    if (r % 7 == 0) d->y[r * 3] = NAN;
    if (r % 3 == 0) d->y[r * 3 + 1] = NAN; /* a column that no ensemble uses */
  }
  for (int k = 0; k < TT_SPLITS; k++) {
    int32_t *row = NULL;
    int64_t count, n = 0;
    TT_CHECK_OK(tt_dataset_rows(d, (tt_split)k, (tt_slice){0, 0}, columns, 2, &row, &count));
    for (int64_t r = 0; r < 60; r++)
      if (r % 4 - 1 == k && r % 5 && r % 7) {
        TT_CHECK(n, <, count);
        TT_CHECK(row[n++], ==, r);
      }
    TT_CHECK(n, ==, count);
    tt_free(row);
  }
  tt_dataset_destroy(&d);
}

/* state */

TT_TEST (the_state_table_is_complete) {
  static const int64_t bytes[] = {[TT_TYPE_float] = 4,
                                  [TT_TYPE_double] = 8,
                                  [TT_TYPE_int8_t] = 1,
                                  [TT_TYPE_int32_t] = 4,
                                  [TT_TYPE_int64_t] = 8};
  tt_state *s = NULL;
  TT_CHECK_OK(tt_state_create((tt_slice){3, 4}, (tt_state_shape){10, 2, 6, 1}, &s));
  TT_CHECK(sizeof(tt_state), ==,
           2 * sizeof(tt_slice) + sizeof(tt_state_shape) + TT_STATE_FIELD_COUNT * sizeof(void *));
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field a = tt_state_get(s, f);
    TT_CHECK(a.data != NULL, ==, 1);
    TT_CHECK(a.bytes, ==, bytes[a.type]);
    TT_CHECK(a.length, >, 0);
    for (int g = 0; g < f; g++) TT_CHECK(strcmp(a.name, tt_state_get(s, g).name), !=, 0);
  }
  TT_CHECK(tt_state_get(s, TT_STATE_FIELD_slots).length, ==, 20);
  TT_CHECK(tt_state_get(s, TT_STATE_FIELD_loss_train).length, ==, 6);
  TT_CHECK(TT_FIELD(s, best_loss)[3], ==, (double)INFINITY);
  TT_CHECK(TT_FIELD(s, best_epoch)[3], ==, -1);
  TT_CHECK(isnan(TT_FIELD(s, loss_train)[23]), !=, 0);
  TT_CHECK(TT_FIELD(s, status)[3], ==, TT_STATUS_training);
  tt_state_destroy(&s);
  tt_state_destroy(&s);
}

TT_TEST (a_state_that_is_reset_is_like_a_new_one) {
  const tt_state_shape shape = {10, 2, 6, 1};
  tt_state *s = NULL, *new = NULL;
  TT_CHECK_OK(tt_state_create((tt_slice){3, 4}, shape, &new));
  TT_CHECK_OK(tt_state_create((tt_slice){3, 4}, shape, &s));
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field a = tt_state_get(s, f);
    memset(a.data, 7 + f, (size_t)(4 * a.bytes * a.length));
  }
  for (int i = 0; i < 4; i++) TT_CHECK(tt_state_hash(s, i), !=, tt_state_hash(new, i));
  tt_state_reset(s);
  for (int i = 0; i < 4; i++) TT_CHECK(tt_state_hash(s, i), ==, tt_state_hash(new, i));
  tt_state_destroy(&s);
  tt_state_destroy(&new);
}

/* Two segments of a member, copied to a whole state, are the member; and back. */
TT_TEST (segments_of_a_member_make_the_member) {
  enum { PARAMS = 7 };
  const tt_state_shape shape = {PARAMS, 2, 5, 1};
  for (int64_t cut = 0; cut <= PARAMS; cut++) {
    tt_state *src = NULL, *part[2] = {NULL, NULL}, *to = NULL;
    const tt_slice own[] = {{0, cut}, {cut, PARAMS - cut}};
    TT_CHECK_OK(tt_state_create((tt_slice){3, 4}, shape, &src));
    TT_CHECK_OK(tt_state_create((tt_slice){5, 1}, shape, &to));
    for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
      tt_state_field a = tt_state_get(src, f);
      for (int64_t i = 0; i < 4 * a.bytes * a.length; i++)
        ((char *)a.data)[i] = (char)(17 * i + 3 * f + 1);
    }
    for (int k = 0; k < 2; k++) {
      TT_CHECK_OK(tt_state_create_segment((tt_slice){5, 1}, shape, own[k], &part[k]));
      TT_CHECK(tt_state_get(part[k], TT_STATE_FIELD_slots).length, ==, 2 * own[k].count);
      TT_CHECK(tt_state_get(part[k], TT_STATE_FIELD_weights).length, ==, PARAMS);
      tt_state_copy_member(src, 2, part[k], 0);
      tt_state_copy_member(part[k], 0, to, 0);
    }
    TT_CHECK(tt_state_hash(to, 0), ==, tt_state_hash(src, 2));
    for (int k = 0; k < 2; k++) tt_state_destroy(&part[k]);
    tt_state_destroy(&src);
    tt_state_destroy(&to);
  }
}

/* Member 5 in a state of members 3 to 6 and in a state of this member alone. */
TT_TEST (the_hash_of_a_member_does_not_depend_on_its_slice) {
  tt_state *many = NULL, *one = NULL;
  TT_CHECK_OK(tt_state_create((tt_slice){3, 4}, (tt_state_shape){7, 2, 5, 1}, &many));
  TT_CHECK_OK(tt_state_create((tt_slice){5, 1}, (tt_state_shape){7, 2, 5, 1}, &one));
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field a = tt_state_get(many, f), b = tt_state_get(one, f);
    int64_t each = a.bytes * a.length;
    for (int64_t i = 0; i < 4 * each; i++) ((char *)a.data)[i] = (char)(17 * i + 3 * f + 1);
    memcpy(b.data, (char *)a.data + 2 * each, (size_t)each);
  }
  TT_CHECK(tt_state_hash(many, 2), ==, tt_state_hash(one, 0));
  TT_CHECK(tt_state_hash(many, 1), !=, tt_state_hash(one, 0));
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) { /* the last byte of every field counts */
    tt_state_field b = tt_state_get(one, f);
    char *last = (char *)b.data + b.bytes * b.length - 1;
    *last = (char)(*last ^ 1);
    TT_CHECK(tt_state_hash(many, 2), !=, tt_state_hash(one, 0));
    *last = (char)(*last ^ 1);
  }
  TT_CHECK(tt_state_hash(many, 2), ==, tt_state_hash(one, 0));
  tt_state_destroy(&many);
  tt_state_destroy(&one);
}

TT_TEST (a_member_predicts_with_its_best_weights) {
  tt_state *s = NULL;
  TT_CHECK_OK(tt_state_create((tt_slice){0, 2}, (tt_state_shape){3, 1, 1, 0}, &s));
  TT_FIELD(s, best_epoch)[1] = 0;
  TT_CHECK(tt_state_prediction_weights(s, 0) - TT_FIELD(s, weights), ==, 0);
  TT_CHECK(tt_state_prediction_weights(s, 1) - TT_FIELD(s, best_weights), ==, 3);
  tt_state_destroy(&s);
}
