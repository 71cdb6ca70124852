/* nccl_abi.cpp — compiled, not run: the declarations of cuda/common/nccl.cuh are those of nccl.h. */
#include "cuda/common/nccl.cuh"

#include <nccl.h>
#include <type_traits>

/* How an argument is passed. */
template <class T> constexpr int kind()
{
  return std::is_pointer<T>::value ? -1
         : std::is_class<T>::value ? -(int)sizeof(T)
                                   : (int)sizeof(T);
}
template <class R, class... A, class S, class... B> constexpr bool same(R (*)(A...), S (*)(B...))
{
  if (sizeof...(A) != sizeof...(B) || kind<R>() != kind<S>()) return false;
  const int a[] = {0, kind<A>()...}, b[] = {0, kind<B>()...};
  for (unsigned i = 0; i <= sizeof...(A); i++)
    if (a[i] != b[i]) return false;
  return true;
}
#define X(name, result, parameters)                                                                \
  static_assert(same(static_cast<decltype(&::name)>(nullptr), decltype(tt_nccl::name)(nullptr)),   \
                #name);
TT_NCCL_FUNCTIONS(X)
#undef X

static_assert(sizeof(tt_device_link_id) == sizeof(ncclUniqueId), "the unique id");
static_assert((int)TT_NCCL_SUCCESS == ncclSuccess && (int)TT_NCCL_IN_PROGRESS == ncclInProgress &&
                  (int)TT_NCCL_INT8 == ncclInt8,
              "numbers");
static_assert(offsetof(tt_nccl_config, magic) == offsetof(ncclConfig_t, magic) &&
                  offsetof(tt_nccl_config, version) == offsetof(ncclConfig_t, version) &&
                  offsetof(tt_nccl_config, blocking) == offsetof(ncclConfig_t, blocking),
              "the configuration");
constexpr ncclConfig_t usual = NCCL_CONFIG_INITIALIZER;
static_assert(usual.magic == TT_NCCL_MAGIC, "its first word");
static_assert(TT_NCCL_OLDEST == NCCL_VERSION(2, 14, 0), "the code of a version");
