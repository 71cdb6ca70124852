/* device_language.h — CUDA's device language for a host compiler: qualifiers, vector
 * types, thread numbers, barriers, warp functions, integer atomics, a few intrinsics. */
#ifndef TT_DOUBLE_DEVICE_LANGUAGE_H
#define TT_DOUBLE_DEVICE_LANGUAGE_H
#include <cmath>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(bytes_) __attribute__((aligned(bytes_)))

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct uint3 {
  unsigned x, y, z;
};

#define TT_DOUBLE_VECTORS(type_)                                                                   \
  struct alignas(2 * sizeof(type_)) type_##2 { type_ x, y; };                                      \
  struct alignas(4 * sizeof(type_)) type_##4 { type_ x, y, z, w; };                                \
  static inline type_##2 make_##type_##2(type_ x, type_ y) { return {x, y}; }                      \
  static inline type_##4 make_##type_##4(type_ x, type_ y, type_ z, type_ w)                       \
  {                                                                                                \
    return {x, y, z, w};                                                                           \
  }
typedef unsigned int uint;
TT_DOUBLE_VECTORS(float)
TT_DOUBLE_VECTORS(int)
TT_DOUBLE_VECTORS(uint)
#undef TT_DOUBLE_VECTORS

/* Indices of the running thread; set at every switch of fibers. */
inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
static const int warpSize = 32;

/* interface of the scheduler: fiber.cpp */

namespace tt_double
{
struct site { /* a place in the source, for messages and for comparing places */
  const char *what, *file;
  int line;
};
struct label { /* of a launch */
  const char *file, *text;
  int line;
};
enum { SLOT_BYTES = 64 }; /* the largest value that lanes can exchange */

/* Put `value` where the other lanes of the warp see it, wait for them, and return the slots of
 * lanes 0 to 31, SLOT_BYTES apart; they stay until the warp's next exchange but one. */
const unsigned char *exchange(unsigned mask, const void *value, size_t bytes, site at);
/* Wait for the whole block; the combined values of its threads. */
struct votes {
  int any, all, count;
};
votes block_barrier(int vote, site at);
/* Wait for all blocks of the cluster. */
void cluster_barrier(site at);
int lane();

template <class T> T from_lane(const unsigned char *slots, int source)
{
  T value;
  memcpy(&value, slots + source * SLOT_BYTES, sizeof value);
  return value;
}
template <class T> const unsigned char *exchange(unsigned mask, const T &value, site at)
{
  static_assert(sizeof(T) <= SLOT_BYTES, "too large for an exchange between lanes");
  return exchange(mask, &value, sizeof value, at);
}
} // namespace tt_double

/* For TT_SHARED_MEMORY, tt_launch and cuda/common/thread_block_cluster.cuh. */
void *tt_double_shared();
int tt_double_cluster_size();
int tt_double_cluster_rank();
void *tt_double_cluster_map(void *at, int rank); /* `at` is in the block's own shared memory */
[[noreturn]] void tt_double_misaligned(const void *at, size_t bytes);
static inline void tt_double_check_alignment(const void *at, size_t bytes)
{
  if (reinterpret_cast<uintptr_t>(at) % bytes) tt_double_misaligned(at, bytes);
}
void tt_double_set_launch_site(const char *file, int line, const char *text);
/* For cuda/common/copy_async.cuh. */
void tt_double_copy_async(void *to, const void *from, size_t bytes, bool valid);
void tt_double_copy_commit();
void tt_double_copy_wait(int newest);

/* barriers */

#define TT_DOUBLE_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(TT_DOUBLE_HERE)
{
  tt_double::block_barrier(0, {"__syncthreads", file, line});
}
static inline int __syncthreads_or(int vote, TT_DOUBLE_HERE)
{
  return tt_double::block_barrier(vote, {"__syncthreads_or", file, line}).any;
}
static inline int __syncthreads_and(int vote, TT_DOUBLE_HERE)
{
  return tt_double::block_barrier(vote, {"__syncthreads_and", file, line}).all;
}
static inline int __syncthreads_count(int vote, TT_DOUBLE_HERE)
{
  return tt_double::block_barrier(vote, {"__syncthreads_count", file, line}).count;
}
static inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, TT_DOUBLE_HERE)
{
  tt_double::exchange(mask, 0, {"__syncwarp", file, line});
}
static inline void tt_double_cluster_sync(TT_DOUBLE_HERE)
{
  tt_double::cluster_barrier({"tt_cluster_sync", file, line});
}
/* Threads switch only at barriers, so memory is always up to date. */
static inline void __threadfence() {}
static inline void __threadfence_block() {}

/* warp functions; `width` lanes form a group, 32 by default */

template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32, TT_DOUBLE_HERE)
{
  const unsigned char *slots = tt_double::exchange(mask, value, {"__shfl_sync", file, line});
  int first = tt_double::lane() & ~(width - 1);
  return tt_double::from_lane<T>(slots, first + (source & (width - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, TT_DOUBLE_HERE)
{
  const unsigned char *slots = tt_double::exchange(mask, value, {"__shfl_xor_sync", file, line});
  int lane = tt_double::lane(), source = lane ^ bits, end = (lane & ~(width - 1)) + width;
  return tt_double::from_lane<T>(slots, source < end ? source : lane);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, int by, int width = 32, TT_DOUBLE_HERE)
{
  const unsigned char *slots = tt_double::exchange(mask, value, {"__shfl_up_sync", file, line});
  int lane = tt_double::lane(), source = lane - by, first = lane & ~(width - 1);
  return tt_double::from_lane<T>(slots, source >= first ? source : lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int by, int width = 32, TT_DOUBLE_HERE)
{
  const unsigned char *slots = tt_double::exchange(mask, value, {"__shfl_down_sync", file, line});
  int lane = tt_double::lane(), source = lane + by, end = (lane & ~(width - 1)) + width;
  return tt_double::from_lane<T>(slots, source < end ? source : lane);
}
static inline unsigned __ballot_sync(unsigned mask, int vote, TT_DOUBLE_HERE)
{
  int mine = vote != 0;
  const unsigned char *slots = tt_double::exchange(mask, mine, {"__ballot_sync", file, line});
  unsigned ballot = 0;
  for (int lane = 0; lane < 32; lane++)
    ballot |= (unsigned)tt_double::from_lane<int>(slots, lane) << lane;
  return ballot;
}
static inline int __any_sync(unsigned mask, int vote, TT_DOUBLE_HERE)
{
  return __ballot_sync(mask, vote, file, line) != 0;
}
static inline int __all_sync(unsigned mask, int vote, TT_DOUBLE_HERE)
{
  return __ballot_sync(mask, vote, file, line) == 0xFFFFFFFFu;
}

/* integer atomics: sums of floats in the order of arrival are not offered */

/* Not seen by the check of races. */
template <class T>
__attribute__((no_sanitize_thread)) static inline T tt_double_atomic_add(T *at, T value)
{
  T old = *at;
  *at = (T)(old + value);
  return old;
}
static inline int atomicAdd(int *at, int value) { return tt_double_atomic_add(at, value); }
static inline unsigned atomicAdd(unsigned *at, unsigned value)
{
  return tt_double_atomic_add(at, value);
}
static inline unsigned long long atomicAdd(unsigned long long *at, unsigned long long value)
{
  return tt_double_atomic_add(at, value);
}

/* intrinsics */

template <class T> static inline T __ldg(const T *at) { return *at; }
static inline unsigned __umulhi(unsigned a, unsigned b)
{
  return (unsigned)(((uint64_t)a * b) >> 32);
}
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }

template <class To, class From> static inline To tt_double_bits(From from)
{
  static_assert(sizeof(To) == sizeof(From), "same size");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
static inline float __int_as_float(int bits) { return tt_double_bits<float>(bits); }
static inline int __float_as_int(float x) { return tt_double_bits<int>(x); }
static inline float __uint_as_float(unsigned bits) { return tt_double_bits<float>(bits); }
static inline unsigned __float_as_uint(float x) { return tt_double_bits<unsigned>(x); }

/* tensor cores */

/* cvt.rn.tf32.f32: nearest with 10 bits behind the leading one, ties to even. */
static inline float tt_double_tf32(float x)
{
  unsigned bits = __float_as_uint(x);
  if ((bits & 0x7F800000u) != 0x7F800000u) bits = (bits + 0xFFFu + (bits >> 13 & 1u)) & 0xFFFFE000u;
  return __uint_as_float(bits);
}

/* mma.sync.m16n8k8 of TF32 numbers, fragments as the PTX ISA has them. As the hardware does, it
 * ignores the bits that TF32 does not have. The sum is one of floats in ascending order; a GPU's
 * has its own order and truncates instead of rounding. */
static inline void tt_double_mma(float (&c)[4], const float (&a)[4], const float (&b)[2],
                                 TT_DOUBLE_HERE)
{
  struct fragments {
    float number[6]; /* of a, then of b */
  } mine = {{a[0], a[1], a[2], a[3], b[0], b[1]}};
  for (float &x : mine.number) x = __uint_as_float(__float_as_uint(x) & 0xFFFFE000u);
  const unsigned char *slots = tt_double::exchange(0xFFFFFFFFu, mine, {"mma.sync", file, line});
  auto number = [slots](int lane, int i) {
    return tt_double::from_lane<float>(slots + (size_t)i * sizeof(float), lane);
  };
  int row = tt_double::lane() / 4, pair = tt_double::lane() % 4;
  float sum[4] = {};
  for (int k = 0; k < 8; k++) {
    int left = 4 * row + k % 4, even = 8 * pair + k % 4, odd = even + 4, half = k / 4;
    float upper = number(left, 2 * half), lower = number(left, 2 * half + 1);
    sum[0] += upper * number(even, 4 + half);
    sum[1] += upper * number(odd, 4 + half);
    sum[2] += lower * number(even, 4 + half);
    sum[3] += lower * number(odd, 4 + half);
  }
  for (int q = 0; q < 4; q++) c[q] += sum[q];
}

#define TT_DOUBLE_MINMAX(type_)                                                                    \
  static inline type_ min(type_ a, type_ b) { return b < a ? b : a; }                              \
  static inline type_ max(type_ a, type_ b) { return a < b ? b : a; }
TT_DOUBLE_MINMAX(int)
TT_DOUBLE_MINMAX(unsigned)
TT_DOUBLE_MINMAX(long)
TT_DOUBLE_MINMAX(unsigned long)
TT_DOUBLE_MINMAX(long long)
TT_DOUBLE_MINMAX(unsigned long long)
#undef TT_DOUBLE_MINMAX
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
#endif
