/* choices.h — the values of options of kind NAME; where the values have formulas, the list comes
 * from the table of formulas. */
#ifndef TT_CHOICES_H
#define TT_CHOICES_H
#include "core/config/search.h"
#include "core/formulas/acquisition.h"
#include "core/formulas/categories.h"
#include "core/formulas/elementwise.h"
#include "core/formulas/loss.h"
#include "core/formulas/missing.h"
#include "core/formulas/normalization.h"
#include "core/formulas/output.h"
#include "core/formulas/schedule.h"
TT_BEGIN_C

/* The values of options without formulas, each with the prefix P of its enum. */
#define TT_RESAMPLES(X, P) X(P, none) X(P, bootstrap) X(P, subsample) X(P, kfold)
#define TT_PARTIAL_LABELS(X, P) X(P, drop) X(P, use)
#define TT_BY_SMALLS(X, P) X(P, pooled) X(P, none)
#define TT_BY_TRANSFERS(X, P) X(P, none) X(P, pooled)
#define TT_BY_NORMALIZES(X, P) X(P, group) X(P, common)
#define TT_COMBINES(X, P) X(P, mean) X(P, weights) X(P, top_k) X(P, greedy)
#define TT_RECALIBRATES(X, P) X(P, auto) X(P, none) X(P, all)
#define TT_COMBINE_UNITS(X, P) X(P, member) X(P, network)
#define TT_DEVICES(X, P) X(P, auto) X(P, gpu) X(P, cpu)
#define TT_SIMDS(X, P) X(P, auto) X(P, avx512) X(P, avx2) X(P, generic)
#define TT_PRECISIONS(X, P) X(P, fp32) X(P, tf32)
#define TT_EXCHANGES(X, P) X(P, auto) X(P, host) X(P, device) X(P, nccl)
#define TT_WARM_STARTS(X, P) X(P, none) X(P, params)
#define TT_CAMPAIGN_MODES(X, P) X(P, rounds) X(P, asynchronous)
#define TT_LABELS(X, P) X(P, hidden) X(P, command) X(P, slurm) X(P, ask)
#define TT_FORMATS(X, P) X(P, hdf5) X(P, csv)
#define TT_DECIMALS(X, P) X(P, point) X(P, comma)

/* The enum of such values, its prefix, their names tt_choice_<name>, the values. */
#define TT_CHOICES(X)                                                                              \
  X(tt_resample, TT_RESAMPLE, resample, TT_RESAMPLES)                                              \
  X(tt_partial_labels, TT_PARTIAL_LABELS, partial_labels, TT_PARTIAL_LABELS)                       \
  X(tt_by_small, TT_BY_SMALL, by_small, TT_BY_SMALLS)                                              \
  X(tt_by_transfer, TT_BY_TRANSFER, by_transfer, TT_BY_TRANSFERS)                                  \
  X(tt_by_normalize, TT_BY_NORMALIZE, by_normalize, TT_BY_NORMALIZES)                              \
  X(tt_combine, TT_COMBINE, combine, TT_COMBINES)                                                  \
  X(tt_recalibrate, TT_RECALIBRATE, recalibrate, TT_RECALIBRATES)                                  \
  X(tt_combine_unit, TT_COMBINE_UNIT, combine_unit, TT_COMBINE_UNITS)                              \
  X(tt_device, TT_DEVICE, device, TT_DEVICES)                                                      \
  X(tt_simd, TT_SIMD, simd, TT_SIMDS)                                                              \
  X(tt_precision, TT_PRECISION, precision, TT_PRECISIONS)                                          \
  X(tt_exchange, TT_EXCHANGE, exchange, TT_EXCHANGES)                                              \
  X(tt_warm, TT_WARM_START, warm_start, TT_WARM_STARTS)                                            \
  X(tt_campaign_mode, TT_CAMPAIGN_MODE, campaign_mode, TT_CAMPAIGN_MODES)                          \
  X(tt_label_mode, TT_LABEL, label, TT_LABELS)                                                     \
  X(tt_label_format, TT_FORMAT, format, TT_FORMATS)                                                \
  X(tt_decimal, TT_DECIMAL, decimal, TT_DECIMALS)

#define TT_CHOICE_VALUE(P, name) P##_##name,
#define X(type, P, list, values)                                                                   \
  typedef enum type { values(TT_CHOICE_VALUE, P) P##_COUNT } type;                                 \
  extern const char *const tt_choice_##list[];
TT_CHOICES(X)
#undef X

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

#define X(name, options) TT_SELECT_##name,
typedef enum tt_select_method { TT_SELECTS(X) TT_SELECT_COUNT } tt_select_method;
#undef X
#define X(name, ...) TT_DELIMITER_##name,
typedef enum tt_delimiter { TT_DELIMITERS(X) TT_DELIMITER_COUNT } tt_delimiter;
#undef X

/* How the cuda engine trains. Without TUTTI_GPU_PATH it takes the first row that is `automatic`
 * and can train the networks; for few members it takes cluster instead of block.
 * name, automatic, fused (only what tt_cohort_needs_layered allows), the last precision that it
 * has, least compute capability */
#define TT_GPU_PATHS(X)                                                                            \
  X(warp, 1, 1, fp32, 0)     /* one warp for each member */                                        \
  X(block, 1, 1, tf32, 0)    /* one thread block for each member */                                \
  X(layered, 1, 0, tf32, 0)  /* all members layer by layer */                                      \
  X(cluster, 0, 1, fp32, 90) /* several thread blocks for each member, for few members */

typedef enum tt_gpu_path {
  TT_GPU_PATH_auto,
#define X(name, ...) TT_GPU_PATH_##name,
  TT_GPU_PATHS(X)
#undef X
      TT_GPU_PATH_COUNT
} tt_gpu_path;

/* A path in one precision, as a number below TT_GPU_PATH_WAYS and as a bit of a set. */
enum { TT_GPU_PATH_WAYS = (int)TT_GPU_PATH_COUNT * (int)TT_PRECISION_COUNT };
#define TT_GPU_PATH_WAY(path, precision) ((int)(path) * (int)TT_PRECISION_COUNT + (int)(precision))
#define TT_GPU_PATH_BIT(path, precision) (1u << TT_GPU_PATH_WAY(path, precision))

/* Sets of TT_GPU_PATH_BIT, by the self-check of a GPU. */
typedef struct tt_gpu_path_check {
  unsigned failed;   /* never taken */
  unsigned unproven; /* without a result: taken only by name, but for the layered path in fp32 */
} tt_gpu_path_check;

enum { TT_MAX_CONFORMAL = 16 }; /* largest number of levels of calibration.conformal */

/* Tables whose rows begin with a name. tt_choice_<name> lists these, ending in NULL; the index is
 * the enum value. */
#define TT_NAME_TABLES(X)                                                                          \
  X(activation, TT_ACTIVATIONS)                                                                    \
  X(init, TT_INITS)                                                                                \
  X(loss, TT_LOSSES)                                                                               \
  X(optimizer, TT_OPTIMIZERS)                                                                      \
  X(normalize, TT_NORMALIZES)                                                                      \
  X(missing, TT_MISSINGS)                                                                          \
  X(categories, TT_CATEGORIES)                                                                     \
  X(output, TT_OUTPUTS)                                                                            \
  X(average, TT_AVERAGES)                                                                          \
  X(schedule, TT_SCHEDULES)                                                                        \
  X(acquisition, TT_ACQUISITIONS)                                                                  \
  X(delimiter, TT_DELIMITERS)                                                                      \
  X(search, TT_SEARCHES)                                                                           \
  X(select, TT_SELECTS)
#define X(list, names) extern const char *const tt_choice_##list[];
TT_NAME_TABLES(X)
#undef X
extern const char *const tt_choice_target_reduction[];
extern const char *const tt_choice_ensemble_reduction[];
extern const char *const tt_choice_goal[];
extern const char *const tt_choice_gpu_kernel[];
extern const unsigned tt_select_options[]; /* [TT_SELECT_COUNT] sets of tt_select_option */
/* The name of a delimiter or decimal mark that is written as the character: "semicolon" for ";".
 * Other texts are returned. */
const char *tt_choice_of_character(const char *text);
TT_END_C
#endif
