/* hints.c — see hints.h. */
#include "core/config/hints.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct hint {
  const char *words, *answer; /* words: with a space before and behind each */
} hint;

/* The option of a row is checked by the compiler; MEMBERS: that of an ensemble. */
enum { MEMBERS = -1 };
static const struct {
  const char *words;
  int option;
} options[] = {
    {" amp dtype mixed_precision ", TT_OPTION_run_precision},
    {" act activation_fn activation_function nonlinearity ", TT_OPTION_model_activation},
    {" bagging bootstrap ", TT_OPTION_train_resample},
    {" batch batchsize bs minibatch ", TT_OPTION_train_batch_size},
    {" checkpoint_every save_every save_freq ", TT_OPTION_checkpoint_every},
    {" clip clip_grad gradient_clip_val grad_clip max_grad_norm max_norm ",
     TT_OPTION_train_clip_norm},
    {" criterion loss_fn loss_function objective ", TT_OPTION_train_loss},
    {" csv data_file data_path dataset filename path ", TT_OPTION_data_file},
    {" device_map gpu_ids gpus ", TT_OPTION_run_gpu_map},
    {" cuda gpu use_cuda use_gpu ", TT_OPTION_run_device},
    {" dropout_rate drop_rate p_drop ", TT_OPTION_train_dropout},
    {" early_stopping_rounds es_patience n_iter_no_change tol ", TT_OPTION_train_patience},
    {" max_epochs max_iter n_epochs n_iter niter num_epochs ", TT_OPTION_train_epochs},
    {" ensemble_size models n_estimators n_members n_models nmodels num_members num_models ",
     MEMBERS},
    {" eta lr learningrate step_size ", TT_OPTION_train_learning_rate},
    {" features input x x_columns ", TT_OPTION_data_inputs},
    {" accumulate_grad_batches gradient_accumulation_steps micro_batches split_size ",
     TT_OPTION_train_parts},
    {" hidden_layer_sizes hidden_layers hidden_size hidden_sizes hidden_units layers n_hidden "
     "neurons nodes units width ",
     TT_OPTION_model_hidden},
    {" label labels output_columns y y_columns ", TT_OPTION_data_targets},
    {" lr_scheduler scheduler ", TT_OPTION_train_schedule},
    {" normalize normalization scaler scaling standardize ", TT_OPTION_data_normalize},
    {" n_jobs n_threads num_threads num_workers workers ", TT_OPTION_run_threads},
    {" log_dir out out_dir outdir output_dir save_dir save_path workdir ", TT_OPTION_run_directory},
    {" random_seed random_state rng_seed ", TT_OPTION_run_seed},
    {" pretrained weights_file ", TT_OPTION_train_init_from},
    {" sample_weight sample_weights ", TT_OPTION_data_weights},
    {" test_size ", TT_OPTION_data_split_test},
    {" time_limit timeout walltime ", TT_OPTION_run_max_time},
    {" val_size val_split validation_fraction validation_split ", TT_OPTION_data_split_validation},
    {" warmup_epochs warmup_steps ", TT_OPTION_train_warmup},
};

static const hint values[] = {
    {" bce_loss binary_cross_entropy binary_crossentropy ", "bce"},
    {" categorical_crossentropy ce crossentropy nll_loss ", "cross_entropy"},
    {" cuda nvidia ", "gpu"},
    {" gaussian nll ", "gaussian_nll"},
    {" l1 l1_loss mean_absolute_error ", "mae"},
    {" l2 l2_loss mean_squared_error mse_loss ", "mse"},
    {" linear none ", "identity"},
    {" logistic ", "sigmoid"},
    {" momentum nesterov ", "sgd"},
    {" pinball ", "quantile"},
    {" smooth_l1 ", "huber"},
    {" swish ", "silu"},
};

static const hint rows[] = {
    {" relu leaky_relu tanh sigmoid silu gelu softplus elu sine hardtanh activation identity ",
     "model.activation is applied after each conv; leave this layer out"},
    {" avg_pool avgpool avg_pool2d mean_pool ", "write pool mean SIZE"},
    {" adaptive_avg_pool gap global_avg_pool ", "write global_mean"},
    {" batchnorm batch_norm2d batchnorm2d bn ", "write batch_norm"},
    {" basicblock basic_block ", "write basic CHANNELS [stride N] [times K]"},
    {" bottleneck_block resnet50 ", "write bottleneck WIDTH CHANNELS [stride N] [times K]"},
    {" instance_norm layer_norm norm ", "write group_norm GROUPS"},
    {" conv1d conv2d convolution ", "write conv CHANNELS SIZE"},
    {" dense fc linear mlp ", "dense layers are those of model.hidden; leave this layer out"},
    {" flatten reshape ", "the dense layers take all values of the last one; leave this layer out"},
    {" max_pool max_pool2d maxpool ", "write pool max SIZE"},
    {" shortcut skip ", "write residual LAYERS before the layers"},
};

/* Whether the first word of a text, which ends at one of `ends`, is among `words`. */
static int has(const char *words, const char *text, const char *ends)
{
  char word[48];
  size_t length = strcspn(text, ends);
  if (!length || length > sizeof word - 3) return 0;
  snprintf(word, sizeof word, " %.*s ", (int)length, text);
  return strcasestr(words, word) != NULL;
}

const tt_option *tt_hint_option(const char *word, int64_t *element)
{
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    if (!has(options[i].words, word, "")) continue;
    *element = options[i].option == MEMBERS ? 0 : -1;
    return *element < 0 ? &tt_option_table[options[i].option]
                        : &tt_ensemble_option_table[TT_ENSEMBLE_OPTION_members];
  }
  return NULL;
}

const char *tt_hint_value(const char *word)
{
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (has(values[i].words, word, ":")) return values[i].answer;
  return NULL;
}

const char *tt_hint_front_row(const char *row)
{
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (has(rows[i].words, row, " (")) return rows[i].answer;
  return NULL;
}
