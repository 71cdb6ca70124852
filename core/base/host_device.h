/* host_device.h — qualifiers that depend on the compiler, and the names of a table.
 * TT_HD: functions that run on host and device; with TT_LOOPS they are always inlined.
 * TT_BEGIN_C, TT_END_C: declarations with C linkage. */
#ifndef TT_HOST_DEVICE_H
#define TT_HOST_DEVICE_H
#ifdef __CUDACC__
#define TT_HD static __host__ __device__ __forceinline__
#elif defined(TT_LOOPS)
/* In a large source gcc stops to inline, and does not vectorize loops with calls. */
#define TT_HD static inline __attribute__((always_inline))
#else
#define TT_HD static inline
#endif
#ifdef __cplusplus
#define TT_BEGIN_C extern "C" {
#define TT_END_C }
#else
#define TT_BEGIN_C
#define TT_END_C
#endif

/* For a table whose rows are X(name, ...): {TT_LOSSES(TT_ROW_NAME)} are the names. */
#define TT_ROW_NAME(name, ...) #name,
#endif
