/* shared_data.cuh — the values of a data set on a GPU, once per process and GPU: all engines that
 * train on the data set read the same copy. C++17. */
#ifndef TT_SHARED_DATA_CUH
#define TT_SHARED_DATA_CUH
#include "cuda/common/device.cuh"

#include "core/model/dataset.h"

typedef struct tt_shared_data {
  float *x, *y, *weight; /* device, [N][D], [N][T], [N] or NULL; not to be written */
  float *label_variance; /* [N][T] or NULL */
  const tt_dataset *of;
  int device;
  int64_t users;
  struct tt_shared_data *next;
} tt_shared_data;

/* The copy of data set `d` on an open GPU; the first user uploads it. The data set must not change
 * and must not be destroyed while it has users.
 *   out  tt_shared_data_release; NULL on error
 * Errors: MEM. */
tt_err tt_shared_data_acquire(const tt_dev *dev, const tt_dataset *d, tt_shared_data **out);

/* One user less; the last one frees the copy. Accepts NULL, sets it to NULL. */
void tt_shared_data_release(tt_shared_data **s);
#endif
