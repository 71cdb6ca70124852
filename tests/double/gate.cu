/* gate.cu — what nvcc must be able to compile for every architecture, without running it: the
 * headers that host and device share, the layer of cuda/common/device.cuh, the samples. */
#include "tests/double/cluster_sample.cuh"
#include "tests/double/formulas.cuh"
#include "tests/double/product.cuh"
#include "tests/double/sample.cuh"

tt_err launch_everything(cudaStream_t stream, formula_args f, sample_args s, sum_args u,
                         queue_args q, fill_args v, product_args p, ring_args r);

tt_err launch_everything(cudaStream_t stream, formula_args f, sample_args s, sum_args u,
                         queue_args q, fill_args v, product_args p, ring_args r)
{
  const size_t shared_bytes = 100 * 1024;
  TT_TRY(tt_launch(formulas, 4, 64, 0, stream, f));
  TT_TRY(tt_launch(neighbors<true>, dim3(2, 2), dim3(256), shared_bytes, stream, s));
  TT_TRY(tt_launch(warp_neighbors<true>, 2, 256, 1024, stream, s));
  TT_TRY(tt_launch(sums, 2, 256, 1024, stream, u));
  TT_TRY(tt_launch(shift_and_double, 2, 256, 0, stream, s));
  TT_TRY(tt_launch(early_end, 2, 256, 0, stream, s));
  TT_TRY(tt_launch(fill, 2, 256, 0, stream, v));
  TT_TRY(tt_launch(products<4>, 1, 96, 0, stream, p));
  TT_TRY(tt_launch_cluster(ring<true>, 4, 8, 64, 256, stream, r));
  TT_TRY(tt_launch_cluster(independent_ranks, 4, 8, 64, 256, stream, r));
  TT_TRY(tt_launch_cluster(ends_too_early, 4, 8, 64, 256, stream, r));
  TT_TRY(tt_launch_cluster(writes_late, 4, 8, 64, 256, stream, r));
  TT_TRY(tt_launch_cluster(two_cluster_barriers, 4, 8, 64, 256, stream, r));
  TT_TRY(tt_launch_cluster(half_a_rank, 4, 8, 64, 256, stream, r));
  TT_TRY(tt_launch_cluster(maps_wrongly, 4, 8, 64, 256, stream, r));
  return tt_launch(pull, 2, 256, sizeof(int), stream, q);
}
