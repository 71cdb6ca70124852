/* hints.c — names of options in other programs, and what a job file has instead. */
#include "core/config/config_internal.h"

#include <stdio.h>
#include <string.h>

/* The option of a row is checked by the compiler; MEMBERS: that of an ensemble. */
enum { MEMBERS = -1 };
static const struct {
  const char *words; /* with a space before and behind each */
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

const tt_option *tt_hint_option(const char *word, int64_t *element)
{
  char padded[48];
  if (snprintf(padded, sizeof padded, " %s ", word) >= (int)sizeof padded) return NULL;
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    if (!strcasestr(options[i].words, padded)) continue;
    *element = options[i].option == MEMBERS ? 0 : -1;
    return *element < 0 ? &tt_option_table[options[i].option]
                        : &tt_ensemble_option_table[TT_ENSEMBLE_OPTION_members];
  }
  return NULL;
}
