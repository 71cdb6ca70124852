/* host_device.h — TT_HD: qualifiers of functions that run on host and device. */
#ifndef TT_HOST_DEVICE_H
#define TT_HOST_DEVICE_H
#ifdef __CUDACC__
#define TT_HD static __host__ __device__ __forceinline__
#else
#define TT_HD static inline
#endif
#endif
