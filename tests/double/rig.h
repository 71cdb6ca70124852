/* rig.h — shared by the tests of the double: an open device, arrays on it, hashes, schedules. */
#ifndef TT_DOUBLE_RIG_H
#define TT_DOUBLE_RIG_H
#include "cuda/common/device.cuh"
#include "tests/double/death.h"
#include "tests/double/runtime/double.h"

#include <cmath>
#include <cstring>
#include <vector>
extern "C" { /* the last one: cmocka's fail is a macro */
#include "tests/support/check.h"
}

/* One device for the whole program; its blocks are counted at the end. */
static tt_dev dev;

static inline int open_device(void **) { return tt_dev_open(0, &dev) ? -1 : 0; }
static inline int close_device(void **)
{
  tt_dev_close(&dev);
  tt_dev_memory_stats held = tt_dev_memory_allocated();
  return held.device_blocks + held.pinned_blocks ? -1 : 0;
}

static inline std::vector<float> numbers(int n)
{
  std::vector<float> v((size_t)n);
  for (int i = 0; i < n; i++) v[(size_t)i] = sinf(0.7f * (float)i) + 0.01f * (float)(i % 7);
  return v;
}

template <class T> static T *on_device(const std::vector<T> &from)
{
  T *place = nullptr;
  TT_CHECK_OK(tt_dev_alloc(&place, (int64_t)from.size(), "a test's array"));
  TT_CHECK_OK(tt_dev_upload_sync(place, from.data(), (int64_t)from.size(), dev.stream));
  return place;
}

template <class T> static std::vector<T> from_device(const T *src, int64_t count)
{
  std::vector<T> v((size_t)count);
  TT_CHECK_OK(tt_dev_download_sync(v.data(), src, count, dev.stream));
  return v;
}

/* FNV-1a over the bytes. */
template <class T> static uint64_t hash_of(const std::vector<T> &v)
{
  const unsigned char *byte = reinterpret_cast<const unsigned char *>(v.data());
  uint64_t h = 14695981039346656037ull;
  for (size_t i = 0; i < v.size() * sizeof(T); i++) h = (h ^ byte[i]) * 1099511628211ull;
  return h;
}

/* Every way to run a kernel that the double has. */
struct schedule {
  tt_double_order threads, blocks;
  uint64_t seed;
  int lazy;
};
static const schedule schedules[] = {{TT_DOUBLE_FORWARD, TT_DOUBLE_FORWARD, 1, 0},
                                     {TT_DOUBLE_REVERSE, TT_DOUBLE_REVERSE, 1, 1},
                                     {TT_DOUBLE_RANDOM, TT_DOUBLE_RANDOM, 1, 0},
                                     {TT_DOUBLE_RANDOM, TT_DOUBLE_RANDOM, 2, 1}};
static inline void use_schedule(const schedule &s)
{
  tt_double_set_schedule(s.threads, s.seed);
  tt_double_set_blocks(s.blocks, s.seed);
  tt_double_set_lazy(s.lazy);
}
#endif
