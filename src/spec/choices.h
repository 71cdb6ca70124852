/* choices.h — the words an option may take, each list from the table that implements it. Floor 1.
 */
#ifndef TT_CHOICES_H
#define TT_CHOICES_H
#include "spec/elementwise.h"
#include "spec/loss.h"
#include "spec/optimizer.h"
#ifdef __cplusplus
extern "C" {
#endif

/* name, meaning */
#define TT_NORMALIZES(X) X(none) X(standard)
#define TT_OUTPUTS(X)    X(mean) X(mean_variance)
#define TT_BATCHES(X)    X(own) X(shared)
#define TT_RESAMPLES(X)  X(none) X(bootstrap) X(subsample)
#define TT_DEVICES(X)    X(auto) X(gpu) X(cpu)
#define TT_SIMDS(X)      X(auto) X(avx512) X(avx2) X(generic)
#define TT_PATHS(X)      X(auto) X(warp) X(block) X(layered) X(cluster)
#define TT_PRECISIONS(X) X(fp32) X(tf32) X(3xtf32)

#define X(name) TT_PATH_##name,
typedef enum tt_path { TT_PATHS(X) TT_PATH_COUNT } tt_path;
#undef X
#define X(name) TT_PRECISION_##name,
typedef enum tt_precision { TT_PRECISIONS(X) TT_PRECISION_COUNT } tt_precision;
#undef X
#define X(name) TT_NORMALIZE_##name,
typedef enum tt_normalize { TT_NORMALIZES(X) TT_NORMALIZE_COUNT } tt_normalize;
#undef X
#define X(name) TT_OUTPUT_##name,
typedef enum tt_output { TT_OUTPUTS(X) TT_OUTPUT_COUNT } tt_output;
#undef X
#define X(name) TT_BATCHES_##name,
typedef enum tt_batches { TT_BATCHES(X) TT_BATCHES_COUNT } tt_batches;
#undef X
#define X(name) TT_RESAMPLE_##name,
typedef enum tt_resample { TT_RESAMPLES(X) TT_RESAMPLE_COUNT } tt_resample;
#undef X
#define X(name) TT_DEVICE_##name,
typedef enum tt_device { TT_DEVICES(X) TT_DEVICE_COUNT } tt_device;
#undef X

#define X(name) TT_SIMD_##name,
typedef enum tt_simd { TT_SIMDS(X) TT_SIMD_COUNT } tt_simd;
#undef X

/* NULL-terminated lists of names; the index is the enum value. */
extern const char *const tt_choice_normalize[];
extern const char *const tt_choice_output[];
extern const char *const tt_choice_batches[];
extern const char *const tt_choice_resample[];
extern const char *const tt_choice_device[];
extern const char *const tt_choice_simd[];
extern const char *const tt_choice_path[];
extern const char *const tt_choice_precision[];
extern const char *const tt_choice_activation[];
extern const char *const tt_choice_init[];
extern const char *const tt_choice_loss[];
extern const char *const tt_choice_optimizer[];
#ifdef __cplusplus
}
#endif
#endif
