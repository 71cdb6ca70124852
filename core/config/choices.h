/* choices.h — the values of options of kind NAME; where the values have formulas, the list comes
 * from the table of formulas. */
#ifndef TT_CHOICES_H
#define TT_CHOICES_H
#include "core/formulas/acquisition.h"
#include "core/formulas/categories.h"
#include "core/formulas/elementwise.h"
#include "core/formulas/loss.h"
#include "core/formulas/missing.h"
#include "core/formulas/normalization.h"
#include "core/formulas/output.h"
#include "core/formulas/schedule.h"
TT_BEGIN_C

/* name */
#define TT_BATCH_ORDERS(X) X(own) X(shared)
#define TT_RESAMPLES(X) X(none) X(bootstrap) X(subsample) X(kfold)
#define TT_METHODS(X) X(independent) X(fusion) X(snapshot)
#define TT_EARLY_STOPPINGS(X) X(member) X(ensemble)
#define TT_NORMALIZE_INPUT_ROWS(X) X(training) X(pool)
#define TT_NORMALIZE_FOLDS(X) X(own) X(all)
#define TT_PARTIAL_LABELS(X) X(drop) X(use)
#define TT_COMBINES(X) X(mean) X(weights) X(top_k) X(greedy)
#define TT_DEVICES(X) X(auto) X(gpu) X(cpu)
#define TT_SIMDS(X) X(auto) X(avx512) X(avx2) X(generic)
#define TT_PRECISIONS(X) X(fp32) X(tf32) X(3xtf32)
#define TT_EXCHANGES(X) X(auto) X(host) X(device) X(nccl)
#define TT_WARM_STARTS(X) X(none) X(params) X(optimizer) X(shrink_perturb)
#define TT_LABELS(X) X(hidden) X(command) X(files) X(slurm)
#define TT_FORMATS(X) X(hdf5) X(csv)
#define TT_DECIMALS(X) X(point) X(comma)

/* name, character; 0 = found in the header */
#define TT_DELIMITERS(X) X(auto, 0) X(comma, ',') X(semicolon, ';') X(tab, '\t') X(pipe, '|')

/* Options of section select that only some methods use, as bits. */
typedef enum tt_select_option {
  TT_SELECT_PREFILTER = 1,
  TT_SELECT_LENGTH = 2,
  TT_SELECT_TEMPERATURE = 4
} tt_select_option;

/* name, options that only some methods use; the function is tt_select_<name> in
 * src/campaign/select. */
#define TT_SELECTS(X)                                                                              \
  X(top, 0)                                                                                        \
  X(kcenter, TT_SELECT_PREFILTER)                                                                  \
  X(penalty, TT_SELECT_PREFILTER | TT_SELECT_LENGTH)                                               \
  X(stochastic, TT_SELECT_TEMPERATURE)

#define X(name) TT_WARM_START_##name,
typedef enum tt_warm { TT_WARM_STARTS(X) TT_WARM_START_COUNT } tt_warm;
#undef X
#define X(name, options) TT_SELECT_##name,
typedef enum tt_select_method { TT_SELECTS(X) TT_SELECT_COUNT } tt_select_method;
#undef X
#define X(name) TT_LABEL_##name,
typedef enum tt_label_mode { TT_LABELS(X) TT_LABEL_COUNT } tt_label_mode;
#undef X
#define X(name) TT_DECIMAL_##name,
typedef enum tt_decimal { TT_DECIMALS(X) TT_DECIMAL_COUNT } tt_decimal;
#undef X
#define X(name, ...) TT_DELIMITER_##name,
typedef enum tt_delimiter { TT_DELIMITERS(X) TT_DELIMITER_COUNT } tt_delimiter;
#undef X
#define X(name) TT_FORMAT_##name,
typedef enum tt_label_format { TT_FORMATS(X) TT_FORMAT_COUNT } tt_label_format;
#undef X

/* How the cuda engine trains. Without TUTTI_GPU_PATH it takes the first row that is `automatic`
 * and can train the networks; for few members it takes cluster instead of block.
 * name, automatic, fused (only what tt_cohort_needs_layered allows), the last precision that it
 * has, least compute capability */
#define TT_GPU_PATHS(X)                                                                            \
  X(warp, 1, 1, fp32, 0)    /* one warp for each member */                                         \
  X(block, 1, 1, 3xtf32, 0) /* one thread block for each member */                                 \
  X(layered, 1, 0, tf32, 0) /* all members layer by layer */                                       \
  X(cluster, 0, 1, fp32, 90) /* several thread blocks for each member, for few members */

typedef enum tt_gpu_path {
  TT_GPU_PATH_auto,
#define X(name, ...) TT_GPU_PATH_##name,
  TT_GPU_PATHS(X)
#undef X
      TT_GPU_PATH_COUNT
} tt_gpu_path;

#define X(name) TT_PRECISION_##name,
typedef enum tt_precision { TT_PRECISIONS(X) TT_PRECISION_COUNT } tt_precision;
#undef X
#define X(name) TT_EXCHANGE_##name,
typedef enum tt_exchange { TT_EXCHANGES(X) TT_EXCHANGE_COUNT } tt_exchange;
#undef X
#define X(name) TT_BATCH_ORDER_##name,
typedef enum tt_batch_order { TT_BATCH_ORDERS(X) TT_BATCH_ORDER_COUNT } tt_batch_order;
#undef X
#define X(name) TT_RESAMPLE_##name,
typedef enum tt_resample { TT_RESAMPLES(X) TT_RESAMPLE_COUNT } tt_resample;
#undef X
#define X(name) TT_METHOD_##name,
typedef enum tt_train_method { TT_METHODS(X) TT_METHOD_COUNT } tt_train_method;
#undef X
#define X(name) TT_NORMALIZE_INPUTS_##name,
typedef enum tt_normalize_inputs {
  TT_NORMALIZE_INPUT_ROWS(X) TT_NORMALIZE_INPUTS_COUNT
} tt_normalize_inputs;
#undef X
#define X(name) TT_NORMALIZE_FOLDS_##name,
typedef enum tt_normalize_folds {
  TT_NORMALIZE_FOLDS(X) TT_NORMALIZE_FOLDS_COUNT
} tt_normalize_folds;
#undef X
#define X(name) TT_PARTIAL_LABELS_##name,
typedef enum tt_partial_labels { TT_PARTIAL_LABELS(X) TT_PARTIAL_LABELS_COUNT } tt_partial_labels;
#undef X
#define X(name) TT_EARLY_STOPPING_##name,
typedef enum tt_early_stopping { TT_EARLY_STOPPINGS(X) TT_EARLY_STOPPING_COUNT } tt_early_stopping;
#undef X
#define X(name) TT_COMBINE_##name,
typedef enum tt_combine { TT_COMBINES(X) TT_COMBINE_COUNT } tt_combine;
#undef X
enum { TT_MAX_CONFORMAL = 16 }; /* largest number of levels of calibration.conformal */
#define X(name) TT_DEVICE_##name,
typedef enum tt_device { TT_DEVICES(X) TT_DEVICE_COUNT } tt_device;
#undef X

#define X(name) TT_SIMD_##name,
typedef enum tt_simd { TT_SIMDS(X) TT_SIMD_COUNT } tt_simd;
#undef X

/* NULL-terminated lists of names; the index is the enum value. */
extern const char *const tt_choice_normalize[];
extern const char *const tt_choice_missing[];
extern const char *const tt_choice_categories[];
extern const char *const tt_choice_output[];
extern const char *const tt_choice_batch_order[];
extern const char *const tt_choice_resample[];
extern const char *const tt_choice_method[];
extern const char *const tt_choice_average[];
extern const char *const tt_choice_normalize_inputs[];
extern const char *const tt_choice_normalize_folds[];
extern const char *const tt_choice_partial_labels[];
extern const char *const tt_choice_early_stopping[];
extern const char *const tt_choice_combine[];
extern const char *const tt_choice_device[];
extern const char *const tt_choice_simd[];
extern const char *const tt_choice_gpu_kernel[];
extern const char *const tt_choice_precision[];
extern const char *const tt_choice_exchange[];
extern const char *const tt_choice_activation[];
extern const char *const tt_choice_init[];
extern const char *const tt_choice_loss[];
extern const char *const tt_choice_optimizer[];
extern const char *const tt_choice_schedule[];
extern const char *const tt_choice_acquisition[];
extern const char *const tt_choice_target_reduction[];
extern const char *const tt_choice_ensemble_reduction[];
extern const char *const tt_choice_goal[];
extern const char *const tt_choice_warm_start[];
extern const char *const tt_choice_select[];
extern const unsigned tt_select_options[]; /* [TT_SELECT_COUNT] sets of tt_select_option */
extern const char *const tt_choice_label[];
extern const char *const tt_choice_format[];
extern const char *const tt_choice_decimal[];
extern const char *const tt_choice_delimiter[];
TT_END_C
#endif
