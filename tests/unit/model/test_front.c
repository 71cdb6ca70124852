/* test_front.c — the rows of a front: shapes, parameters, texts; rows that are not possible. */
#include "core/base/mem.h"
#include "core/model/model.h"
#include "tests/support/check.h"

#include <stdlib.h>
#include <string.h>

/* Lay out rows that are separated by commas. */
static int lay_out(int dims, const int64_t *size, const char *rows, tt_front *f,
                   tt_front_fault *why)
{
  int possible = 0;
  tt_front_shape shape = {.dims = dims, .size = size, .activation = TT_ACT_relu};
  TT_CHECK_OK(tt_front_read(rows, &shape, f, &possible, why));
  return possible;
}

static const int64_t image[] = {2, 9, 7}, profile[] = {3, 20};

/* out = floor((in + 2 pad - dilation (size - 1) - 1) / stride) + 1, as torch.nn.Conv2d. */
TT_TEST (sizes_follow_the_formula) {
  for (int size = 1; size <= 4; size++)
    for (int stride = 1; stride <= 3; stride++)
      for (int pad = 0; pad <= 2; pad++)
        for (int dilation = 1; dilation <= 2; dilation++) {
          char row[96];
          tt_front f;
          tt_front_fault why;
          int reach = dilation * (size - 1) + 1;
          snprintf(row, sizeof row, "conv 4 %d stride %d pad %d dilation %d groups 2", size, stride,
                   pad, dilation);
          TT_CHECK(lay_out(2, image, row, &f, &why), ==, 1);
          TT_CHECK(f.layer[0].out[0], ==, (9 + 2 * pad - reach) / stride + 1);
          TT_CHECK(f.layer[0].out[1], ==, (7 + 2 * pad - reach) / stride + 1);
          TT_CHECK(f.features, ==, 4 * f.layer[0].out[0] * f.layer[0].out[1]);
          TT_CHECK(f.params, ==, 4 * size * size + 4);
          tt_front_destroy(&f);
          TT_CHECK(lay_out(1, profile, row, &f, &why), ==, 0); /* 2 groups, 3 channels */
        }
}

TT_TEST (without_pad_a_conv_keeps_the_size) {
  tt_front f;
  tt_front_fault why;
  TT_CHECK(lay_out(1, profile, "conv 5 7, conv 6 3 dilation 4", &f, &why), ==, 1);
  for (int l = 0; l < 2; l++) TT_CHECK(f.layer[l].out[1], ==, 20);
  TT_CHECK(f.layer[0].in[0], ==, 1);
  TT_CHECK(f.layer[1].pad[1], ==, 4);
  TT_CHECK(f.params, ==, 5 * 3 * 7 + 5 + 6 * 5 * 3 + 6);
  tt_front_destroy(&f);
}

/* The activation follows the group_norm directly behind a conv, else the conv. */
TT_TEST (a_norm_takes_the_activation_of_its_conv) {
  tt_front f;
  tt_front_fault why;
  TT_CHECK(lay_out(2, image, "conv 4 3,group_norm 2,conv 4 3,pool max 2,group_norm 4", &f, &why),
           ==, 1);
  const int activated[] = {0, 1, 1, 0, 0};
  for (int l = 0; l < 5; l++) TT_CHECK(f.layer[l].activation == TT_ACT_relu, ==, activated[l]);
  tt_front_destroy(&f);
}

TT_TEST (a_front_is_read_as_it_is_written) {
  static const char *const rows[] = {
      "conv 4 3 stride 2 pad 0 dilation 1 groups 2, residual 2, conv 8 1, conv 4 3, pool max 2",
      "residual 1, pool mean 1, dropout, group_norm 2, residual 3, dropout, conv 6 3, conv 2 3, "
      "global_mean",
      "conv 4 3 activation tanh, batch_norm, pool max 3 stride 2 pad 1, basic 6 stride 2 times 2, "
      "residual 2 project, conv 6 3, group_norm 3, residual 1 project activate, conv 5 1, "
      "conv 5 3 activation none, batch_norm",
      "residual 1 activate, conv 2 3, batch_norm, bottleneck 2 8, residual 1 activate, pool max 1"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tt_front f, back;
    tt_front_fault why;
    char *text = NULL;
    size_t size = 0;
    TT_CHECK(lay_out(2, image, rows[i], &f, &why), ==, 1);
    FILE *file = open_memstream(&text, &size);
    tt_front_write(&f, file);
    fclose(file);
    TT_CHECK(lay_out(2, image, text, &back, &why), ==, 1);
    TT_CHECK(f.layers, ==, back.layers);
    TT_CHECK(memcmp(f.layer, back.layer, (size_t)f.layers * sizeof *f.layer), ==, 0);
    TT_CHECK(tt_front_equal(&f, &back), ==, 1);
    back.layer[0].skip = 0;
    TT_CHECK(tt_front_equal(&f, &back), ==, 0);
    free(text);
    tt_front_destroy(&f);
    tt_front_destroy(&back);
  }
}

TT_TEST (impossible_rows_are_refused) {
  static const struct {
    const char *rows, *why;
    int64_t row;
  } bad[] = {{"", "is not a layer", 0},
             {"conv", "'' is not a number of at least 1; write conv CHANNELS", 0},
             {"conv 0 3", "'0' is not a number", 0},
             {"conv 03 3", "'03' is not a number", 0},
             {"conv 4 3 stride", "'' is not a possible stride", 0},
             {"conv 4 3 stride 0", "'0' is not a possible stride", 0},
             {"conv 4 3 stride 1 stride 1", "stride is given twice", 0},
             {"pol max 2", "did you mean 'pool'?", 0},
             {"pool 2", "'2' is not a pool; pools are max", 0},
             {"pool max 2 groups 2", "'groups' does not belong here", 0},
             {"conv 4 99999999", "'99999999' is not a number", 0},
             {"conv 4 16000000 dilation 100", "a window of", 0},
             {"conv 16000000 3", "values; at most", 0},
             {"conv 4 4001 pad 4000", "read ", 0},
             {"conv 4 3, group_norm 3", "3 groups do not divide the 4 input channels", 1},
             {"residual 2, conv 2 3", "the list has only 1 more", 0},
             {"residual 2, conv 2 3, residual 1, conv 2 3", "begins inside", 2},
             {"residual 1, global_mean", "write residual LAYERS project", 0},
             {"conv 4 3 activation rel", "'rel' is not a possible activation", 0},
             {"pool max 2 pad 2", "pad 2 is more than half of the window of 2", 0},
             {"residual 2, conv 4 3, basic 4", "stands inside the residual of layer 0", 2},
             {"residual 1 project, conv 4 2 pad 3 stride 2", "the projected input", 0},
             {"batch_norm 4", "'4' does not belong here", 0},
             {"ple 4", "can only be the first layer", 0},
             {"ple", "'' is not a number of at least 1; write ple BINS", 0}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    tt_front f;
    tt_front_fault why;
    TT_CHECK(lay_out(2, image, bad[i].rows, &f, &why), ==, 0);
    if (!strstr(why.why, bad[i].why)) fprintf(stderr, "%s: %s\n", bad[i].rows, why.why);
    TT_CHECK(strstr(why.why, bad[i].why) != NULL, ==, 1);
    TT_CHECK(why.row, ==, bad[i].row);
  }
}

/* torchvision's ResNets, with their output layer of 1,000 classes. */
TT_TEST (residual_networks_have_the_parameters_of_torchvision) {
  static const struct {
    const char *rows;
    int64_t params;
  } net[] = {{"basic 64 times 2, basic 128 stride 2 times 2, basic 256 stride 2 times 2, "
              "basic 512 stride 2 times 2",
              11689512},
             {"basic 64 times 3, basic 128 stride 2 times 4, basic 256 stride 2 times 6, "
              "basic 512 stride 2 times 3",
              21797672},
             {"bottleneck 64 256 times 3, bottleneck 128 512 stride 2 times 4, "
              "bottleneck 256 1024 stride 2 times 6, bottleneck 512 2048 stride 2 times 3",
              25557032},
             {"bottleneck 64 256 times 3, bottleneck 128 512 stride 2 times 4, "
              "bottleneck 256 1024 stride 2 times 23, bottleneck 512 2048 stride 2 times 3",
              44549160},
             {"bottleneck 64 256 times 3, bottleneck 128 512 stride 2 times 8, "
              "bottleneck 256 1024 stride 2 times 36, bottleneck 512 2048 stride 2 times 3",
              60192808}};
  const int64_t size[] = {3, 224, 224};
  for (size_t i = 0; i < sizeof net / sizeof *net; i++) {
    char rows[512];
    tt_front f;
    tt_front_fault why;
    snprintf(rows, sizeof rows,
             "conv 64 7 stride 2 pad 3, batch_norm, pool max 3 stride 2 pad 1, %s, global_mean",
             net[i].rows);
    TT_CHECK(lay_out(2, size, rows, &f, &why), ==, 1);
    TT_CHECK(f.params - tt_front_all_running(&f) + (f.features + 1) * 1000, ==, net[i].params);
    tt_front_destroy(&f);
  }
}

/* Of an input between the smallest and the largest value, the parts of the bins add up to it, and
 * each is -1, 1 or, in the bin of the input, between; a column of one value gives zeros. */
TT_TEST (piecewise_linear_outputs_add_up_to_the_input) {
  const int64_t size[2] = {2, 1};
  const double value[] = {-2.0, -1.0, 0.5, 0.75, 0.75, 3.0, 7.0}, edge[] = {-2.0, 0.5, 0.75, 7.0};
  tt_front f;
  tt_front_fault why;
  float w[16];
  TT_CHECK(lay_out(1, size, "ple 3", &f, &why), ==, 1);
  TT_CHECK(f.features, ==, 8);
  TT_CHECK(f.params, ==, 16);
  tt_front_set_pieces(&f.layer[0], 0, 7, value, w);
  tt_front_set_pieces(&f.layer[0], 1, 4, (const double[]){3.0, 3.0, 3.0, 3.0}, w);
  for (double x = -2.0; x <= 7.0; x += 0.25) {
    double sum = edge[0];
    for (int b = 0; b < 3; b++)
      sum += 0.5 * (edge[b + 1] - edge[b]) *
             (1.0 + fmin(1.0, fmax(-1.0, (double)w[1 + b] * x + (double)w[9 + b])));
    TT_CHECK(fabs(sum - x), <, 1e-6);
    TT_CHECK(fabs((double)w[0] * x + (double)w[8] - (2.0 * x - 5.0) / 9.0), <, 1e-6);
  }
  for (int b = 4; b < 8; b++) TT_CHECK((double)(w[b] * w[b] + w[8 + b] * w[8 + b]), ==, 0.0);
  tt_front_destroy(&f);
  TT_CHECK(lay_out(1, size, "conv 2 1, ple 3", &f, &why), ==, 0);
  TT_CHECK(strstr(why.why, "can only be the first layer") != NULL, ==, 1);
}

/* A block of one more layer follows each cut, and nothing limits their number but a typing error. */
TT_TEST (a_front_has_as_many_layers_as_its_rows_say) {
  tt_front f;
  tt_front_fault why;
  TT_CHECK(lay_out(2, image, "conv 4 3, basic 4 times 12500", &f, &why), ==, 1);
  TT_CHECK(f.layers, ==, 50001);
  for (int l = 0; l < f.layers; l++) TT_CHECK(tt_front_can_cut(&f, l), ==, l % 4 == 1 || l == 0);
  tt_front_destroy(&f);
  TT_CHECK(lay_out(2, image, "conv 4 3, basic 4 times 25000", &f, &why), ==, 0);
  TT_CHECK(strstr(why.why, "more than 100000 layers") != NULL, ==, 1);
  TT_CHECK(why.row, ==, 1);
}

/* A projection is behind the rows of its residual, and its norm is theirs. */
TT_TEST (a_projection_reads_the_input_of_its_residual) {
  tt_front f;
  tt_front_fault why;
  TT_CHECK(lay_out(2, image,
                   "conv 4 3, residual 3 project activate, conv 6 3 stride 2, dropout, "
                   "conv 8 3, batch_norm",
                   &f, &why),
           ==, 1);
  tt_front_destroy(&f);
  TT_CHECK(lay_out(2, image,
                   "conv 4 3, residual 3 project activate, conv 6 3 stride 2, conv 8 3, "
                   "group_norm 2",
                   &f, &why),
           ==, 1);
  TT_CHECK(f.layers, ==, 6);
  TT_CHECK(f.layer[4].from, ==, 0);
  TT_CHECK(f.layer[4].stride[0], ==, 2);
  TT_CHECK(f.layer[4].size[1], ==, 1);
  TT_CHECK(f.layer[5].kind == TT_FRONT_group_norm && f.layer[5].groups == 2, ==, 1);
  TT_CHECK(f.layer[5].skip, ==, 3);
  TT_CHECK(f.layer[5].activates_sum, ==, 1);
  TT_CHECK(f.layer[5].activation == TT_ACT_relu, ==, 1);
  TT_CHECK(f.layer[3].activation == TT_ACT_identity, ==, 1);
  for (int l = 0; l <= f.layers; l++) TT_CHECK(tt_front_can_cut(&f, l), ==, l < 2 || l == 6);
  tt_front_destroy(&f);
}

/* Variance of the weights of a conv: fan_in is channels of a group times kernel (he: 2 / fan_in). */
static double mean_square(const float *w, int64_t n)
{
  double sum = 0.0;
  for (int64_t i = 0; i < n; i++) sum += (double)w[i] * (double)w[i];
  return sum / (double)n;
}

/* Of a dense layer, whose initializations tests/unit/model/test_spec.c compares with the textbook. */
static double dense_weight_variance(tt_init init, int64_t in, int64_t out)
{
  float *w = NULL;
  tt_model m;
  TT_CHECK_OK(tt_model_lay_out(
      &(tt_model_shape){
          .inputs = in, .targets = 1, .hidden = &out, .layers = 1, .activation = TT_ACT_relu},
      &m));
  TT_CHECK_OK(TT_ALLOC(w, m.params));
  tt_model_init_weights(&m, init, 1, 2, w);
  double variance = mean_square(w + m.layer[0].weight, in * out);
  tt_free(w);
  return variance;
}

TT_TEST (initial_weights_follow_the_fan_rules) {
  const int64_t size[] = {8, 8, 8}, hidden = 8;
  tt_front f;
  tt_front_fault why;
  tt_model m;
  float *w = NULL;
  TT_CHECK(lay_out(2, size, "conv 64 3 groups 2, group_norm 8", &f, &why), ==, 1);
  const tt_model_shape shape = {.inputs = 512,
                                .targets = 1,
                                .hidden = &hidden,
                                .layers = 1,
                                .activation = TT_ACT_relu,
                                .front = &f};
  TT_CHECK_OK(tt_model_lay_out(&shape, &m));
  TT_CHECK_OK(TT_ALLOC(w, m.params));
  for (int i = 0; i < TT_INIT_COUNT; i++) {
    tt_model_init_weights(&m, (tt_init)i, 1, 2, w);
    double ratio = mean_square(w, 64 * 36) / dense_weight_variance((tt_init)i, 4 * 9, 64 * 9);
    TT_CHECK(fabs(ratio - 1.0), <=, 0.1);
    TT_CHECK((double)w[f.layer[1].weight], ==, 1.0);
    TT_CHECK((double)w[f.layer[1].bias + 63], ==, 0.0);
  }
  tt_free(w);
  tt_front_destroy(&f);
}

TT_TEST (inputs_must_fit_the_front) {
  tt_front f;
  tt_front_fault why;
  tt_model m;
  TT_CHECK(lay_out(2, image, "conv 4 3", &f, &why), ==, 1);
  TT_CHECK((int)tt_model_lay_out(&(tt_model_shape){.inputs = 100, .targets = 1, .front = &f}, &m),
           ==, TT_E_CONFIG);
  TT_CHECK(strstr(tt_err_last(), "model.image: 2 * 9 * 7 = 126 values, but data.inputs has 100 "
                                 "columns") != NULL,
           ==, 1);
  tt_front_destroy(&f);
}
