/* block.cu — the block path: a thread block trains a whole member with its weights in shared
 * memory, and one launch does all steps of a call. Blocks take members from a queue, so that a
 * stopped member costs nothing and no block waits for the slowest member. */
#include "cuda/block/block_train.cuh"

#include "cuda/common/engine_functions.cuh"
#include "cuda/common/fused_path.cuh"

#include <inttypes.h>
#include <stdio.h>

/* Minimum of blocks of 256 threads per multiprocessor: it limits the registers per thread. */
template <class KIND> struct occupancy {
  enum {
    LARGE = KIND::has_tile(TT_BLOCK_TILE_8x8) || KIND::has_tile(TT_BLOCK_TILE_mma64),
    MIN_BLOCKS = LARGE ? 1 : 2
  };
};

template <class KIND>
static __global__ void __launch_bounds__(TT_BLOCK_MAX_WARPS *TT_WARP_SIZE,
                                         occupancy<KIND>::MIN_BLOCKS) block_train(tt_block_args a)
{
  TT_SHARED_MEMORY(float, shared);
  tt_block_train_queue<KIND>(a, shared);
}

typedef void (*block_kernel)(tt_block_args);

template <int LARGEST> static block_kernel kernel_instance()
{
  return block_train<tt_block_kernel_config<LARGEST>>;
}

static block_kernel select_kernel(const tt_block_plan *p)
{
  if (p->precision == TT_PRECISION_tf32) return kernel_instance<TT_BLOCK_TILE_mma64>();
  switch (p->largest_tile) {
  case TT_BLOCK_TILE_8x8: return kernel_instance<TT_BLOCK_TILE_8x8>();
  case TT_BLOCK_TILE_8x4: return kernel_instance<TT_BLOCK_TILE_8x4>();
  default: return kernel_instance<TT_BLOCK_TILE_4x4>();
  }
}

struct block_path {
  typedef tt_block_plan plan;

  static int make_plan(const tt_engine *e, tt_block_plan *out)
  {
    return tt_block_plan_make(e->cohort, e->precision, e->dev.shared_bytes, out);
  }

  static int64_t scratch_floats(const tt_block_plan *p) { return tt_block_scratch_floats(p); }

  static tt_err count_units(const tt_engine *e, const tt_block_plan *p, unsigned *out)
  {
    int64_t most;
    TT_TRY(
        tt_dev_max_active_blocks(&e->dev, select_kernel(p), p->threads, (size_t)p->bytes, &most));
    *out = tt_fused_units(e->slice.count, most);
    return TT_OK;
  }

  static int64_t members_of_unit(const tt_block_plan *) { return 1; }

  static tt_err launch(tt_engine *e, const tt_fused_data<plan> *d, const tt_member_queue &queue,
                       int64_t steps)
  {
    const tt_block_plan *p = &d->plan;
    tt_block_args args = {e->view, *p, steps, queue, d->scratch};
    return tt_launch(select_kernel(p), d->units, (unsigned)p->threads, (size_t)p->bytes,
                     e->dev.stream, args);
  }
};
typedef tt_fused_path<block_path> block_host;

/* What decides the order of sums (block_plan.h), and which products use tensor cores. */
void tt_cuda_block_arithmetic(const tt_engine *e, char *text, size_t work)
{
  tt_block_plan p;
  uint32_t groups = 0;
  if (!block_path::make_plan(e, &p)) return;
  for (int l = 0; l < p.layers; l++) {
    const tt_block_layer *n = &p.layer[l];
    int mma = TT_BLOCK_TILE_mma16; /* the first tile that uses tensor cores */
    groups = groups * 31 + (uint32_t)n->groups * 8 + (uint32_t)(n->forward >= mma) +
             2 * (uint32_t)(n->backward >= mma) + 4 * (uint32_t)(n->gradient >= mma);
  }
  snprintf(text, work, "c%d g%" PRIx32, (int)p.chunk, groups);
}

extern const tt_cuda_path tt_cuda_block = block_host::make("block", tt_cuda_block_arithmetic);
