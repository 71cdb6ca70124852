/* block.cu — the block path: a thread block trains a whole member, weights in shared memory, and
 * one launch does all steps of a call. Blocks take members from a queue, so that one that has
 * stopped costs nothing and nobody waits for the slowest. Floor 3. */
#include "cuda/block/block_train.cuh"

#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>

/* Blocks of 256 threads on a multiprocessor, at least: what the registers are dealt for. */
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
  tt_block_context *note = tt_block_context_of(shared);
  tt_block_zero(tt_block_gradient_array(a, shared), a.plan.params);
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) note->member = atomicAdd(a.next, 1);
    __syncthreads();
    if (note->member >= a.view.members) return;
    if (a.view.status[note->member] == TT_STATUS_training) tt_block_train_member<KIND>(a, shared);
  }
}

typedef struct tt_block_path_data {
  tt_block_plan plan;
  unsigned blocks; /* of a launch */
  int32_t *next;   /* device */
  float *scratch;  /* device, [blocks][tt_block_scratch_floats] */
} tt_block_path_data;

typedef void (*block_kernel)(tt_block_args);

template <int LARGEST, tt_precision PRECISION> static block_kernel kernel_instance()
{
  return block_train<tt_block_kernel_config<LARGEST, PRECISION>>;
}

template <tt_precision PRECISION> static block_kernel select_mma_kernel(int largest_tile)
{
  return largest_tile > TT_BLOCK_TILE_mma32 ? kernel_instance<TT_BLOCK_TILE_mma64, PRECISION>()
                                            : kernel_instance<TT_BLOCK_TILE_mma32, PRECISION>();
}

static block_kernel select_kernel(const tt_block_plan *p)
{
  if (p->precision == TT_PRECISION_tf32)
    return select_mma_kernel<TT_PRECISION_tf32>(p->largest_tile);
  if (p->precision == TT_PRECISION_3xtf32)
    return select_mma_kernel<TT_PRECISION_3xtf32>(p->largest_tile);
  switch (p->largest_tile) {
  case TT_BLOCK_TILE_8x8: return kernel_instance<TT_BLOCK_TILE_8x8, TT_PRECISION_fp32>();
  case TT_BLOCK_TILE_8x4: return kernel_instance<TT_BLOCK_TILE_8x4, TT_PRECISION_fp32>();
  default: return kernel_instance<TT_BLOCK_TILE_4x4, TT_PRECISION_fp32>();
  }
}

static const char *unsupported_reason(const tt_cohort *cohort, tt_precision precision,
                                      int64_t shared_bytes)
{
  static char why[160];
  tt_block_plan plan;
  if (tt_block_plan_make(cohort, precision, shared_bytes, &plan)) return NULL;
  snprintf(why, sizeof why,
           "the weights of a member and its activations for %d rows take %" PRId64
           " bytes; a block has %" PRId64,
           TT_BLOCK_TILE_ROWS, tt_block_min_bytes(cohort, precision), shared_bytes);
  return why;
}

static void release(tt_engine *e)
{
  tt_block_path_data *own = static_cast<tt_block_path_data *>(e->own);
  if (!own) return;
  tt_dev_free(own->next);
  tt_dev_free(own->scratch);
  tt_free(own);
  e->own = NULL;
}

/* As many blocks as run at the same time, or one for each member if they are fewer. */
static tt_err count_blocks(const tt_engine *e, const tt_block_plan *p, unsigned *out)
{
  int64_t most;
  TT_TRY(tt_dev_max_active_blocks(&e->dev, select_kernel(p), p->threads, (size_t)p->bytes, &most));
  *out = (unsigned)(e->slice.count < most ? e->slice.count : most);
  return TT_OK;
}

static tt_err allocate(tt_engine *e, tt_block_path_data *own)
{
  if (!tt_block_plan_make(e->cohort, e->precision, e->dev.shared_bytes, &own->plan))
    return TT_FAIL(INTERNAL, "block path: %s",
                   unsupported_reason(e->cohort, e->precision, e->dev.shared_bytes));
  TT_TRY(count_blocks(e, &own->plan, &own->blocks));
  TT_TRY(tt_dev_alloc(&own->next, 1, "queue of members"));
  return tt_dev_alloc(&own->scratch, own->blocks * tt_block_scratch_floats(&own->plan),
                      "optimiser state of the running members");
}

static tt_err prepare(tt_engine *e)
{
  tt_block_path_data *own = NULL;
  if (e->own || e->slice.count < 1) return TT_OK; /* nothing here depends on the data */
  TT_TRY(TT_ALLOC(own, 1));
  e->own = own;
  tt_err err = allocate(e, own);
  if (err) release(e);
  return err;
}

static tt_err train(tt_engine *e, int64_t steps)
{
  tt_block_path_data *own = static_cast<tt_block_path_data *>(e->own);
  if (!own) return TT_OK;
  tt_block_args args = {e->view, own->plan, steps, own->next, own->scratch};
  TT_TRY(tt_dev_zero(own->next, 1, e->dev.stream));
  TT_TRY(tt_launch(select_kernel(&own->plan), own->blocks, (unsigned)own->plan.threads,
                   (size_t)own->plan.bytes, e->dev.stream, args));
  return tt_stream_synchronize(e->dev.stream);
}

static void arithmetic(const tt_engine *e, char *text, size_t room)
{
  tt_block_plan p;
  uint32_t groups = 0;
  if (!tt_block_plan_make(e->cohort, e->precision, e->dev.shared_bytes, &p)) return;
  for (int l = 0; l < p.layers; l++) {
    const tt_block_layer *n = &p.layer[l];
    int mma = TT_BLOCK_TILE_mma16; /* from here on: tensor cores */
    groups = groups * 31 + (uint32_t)n->groups * 8 + (uint32_t)(n->forward >= mma) +
             2 * (uint32_t)(n->backward >= mma) + 4 * (uint32_t)(n->gradient >= mma);
  }
  snprintf(text, room, "r%d w%d g%" PRIx32, (int)p.rows, p.threads / TT_WARP_SIZE, groups);
}

extern const tt_cuda_path tt_cuda_block = {"block", unsupported_reason, NULL, prepare, train,
                                           release, arithmetic,         NULL, NULL,    NULL};
