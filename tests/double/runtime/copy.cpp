/* copy.cpp — copies and fills, checked against the allocation table when they are done. */
#include "tests/double/runtime/core.h"

#include <cstring>

using namespace tt_double;

namespace
{
struct copy {
  unsigned char *to;
  const unsigned char *from;
  size_t to_pitch, from_pitch, width, height; /* height rows of width bytes */
  cudaMemcpyKind kind;
  const char *call;
};

void check_side(const void *at, size_t bytes, bool device, const char *call)
{
  if (device)
    check_device_range(at, bytes, true, call);
  else
    check_host_range(at, bytes, call);
}

void do_copy(const copy &c)
{
  if (!c.width || !c.height) return;
  device_access open;
  size_t to_bytes = (c.height - 1) * c.to_pitch + c.width;
  size_t from_bytes = (c.height - 1) * c.from_pitch + c.width;
  bool any = c.kind == cudaMemcpyDefault;
  check_side(c.to, to_bytes,
             any ? is_device(c.to)
                 : c.kind == cudaMemcpyHostToDevice || c.kind == cudaMemcpyDeviceToDevice,
             c.call);
  check_side(c.from, from_bytes,
             any ? is_device(c.from)
                 : c.kind == cudaMemcpyDeviceToHost || c.kind == cudaMemcpyDeviceToDevice,
             c.call);
  if (c.to < c.from + from_bytes && c.from < c.to + to_bytes)
    fail_hard("%s: from and to overlap", c.call);
  if (is_device(c.to) && !is_device(c.from)) counts().uploaded += (int64_t)(c.width * c.height);
  for (size_t row = 0; row < c.height; row++)
    memcpy(c.to + row * c.to_pitch, c.from + row * c.from_pitch, c.width);
}

cudaError_t submit_copy(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                        size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream,
                        const char *call)
{
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
    return set_last_error(cudaErrorInvalidMemcpyDirection);
  if (width > to_pitch || width > from_pitch) return set_last_error(cudaErrorInvalidValue);
  copy c = {static_cast<unsigned char *>(to),
            static_cast<const unsigned char *>(from),
            to_pitch,
            from_pitch,
            width,
            height,
            kind,
            call};
  return submit(stream, [c] { do_copy(c); });
}

cudaError_t submit_fill(void *to, int value, size_t bytes, cudaStream_t stream, const char *call)
{
  return submit(stream, [=] {
    if (!bytes) return;
    device_access open;
    check_device_range(to, bytes, false, call);
    memset(to, value, bytes);
  });
}
} // namespace

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
  TT_DOUBLE_ENTER();
  return submit_copy(to, bytes, from, bytes, bytes, 1, kind, stream, "cudaMemcpyAsync");
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream)
{
  TT_DOUBLE_ENTER();
  return submit_copy(to, to_pitch, from, from_pitch, width, height, kind, stream,
                     "cudaMemcpy2DAsync");
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
  TT_DOUBLE_ENTER();
  if (cudaError_t e = fail_if_legacy_captures()) return e;
  TT_DOUBLE_FAIL_IF_CAPTURING();
  return submit_copy(to, bytes, from, bytes, bytes, 1, kind, nullptr, "cudaMemcpy");
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
  TT_DOUBLE_ENTER();
  return submit_fill(to, value, bytes, stream, "cudaMemsetAsync");
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
  TT_DOUBLE_ENTER();
  if (cudaError_t e = fail_if_legacy_captures()) return e;
  TT_DOUBLE_FAIL_IF_CAPTURING();
  return submit_fill(to, value, bytes, nullptr, "cudaMemset");
}
