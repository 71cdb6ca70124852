/* warp.cu — the warp path: a warp trains a whole member, and one launch does all steps of a call,
 * for members so tiny that thousands of them train at the same time. Warps take members from a
 * queue, as the blocks of the block path do. Floor 3. */
#include "cuda/warp/warp_train.cuh"

#include "core/base/mem.h"

#include <stdio.h>

/* Blocks on a multiprocessor, at least: what the registers are dealt for. */
enum { THREADS_PER_BLOCK = TT_WARPS_PER_BLOCK * TT_WARP_SIZE, MIN_BLOCKS = 6 };

template <int N>
static __global__ void __launch_bounds__(THREADS_PER_BLOCK, MIN_BLOCKS) warp_train(tt_warp_args a)
{
  TT_SHARED_MEMORY(float, shared);
  tt_warp_train_queue<N>(a, shared);
}

template <int N>
static __global__ void __launch_bounds__(THREADS_PER_BLOCK, MIN_BLOCKS)
    warp_evaluate(tt_warp_args a)
{
  TT_SHARED_MEMORY(float, shared);
  tt_warp_evaluate_members<N>(a, shared);
}

typedef struct tt_warp_path_data {
  tt_warp_plan plan;
  unsigned blocks; /* of a launch */
  int32_t *next;   /* device */
} tt_warp_path_data;

typedef void (*warp_kernel)(tt_warp_args);

static int two_rows_per_lane(const tt_warp_plan *p) { return p->rows > TT_WARP_SIZE; }
static warp_kernel train_kernel(const tt_warp_plan *p)
{
  return two_rows_per_lane(p) ? warp_train<2> : warp_train<1>;
}
static warp_kernel evaluate_kernel(const tt_warp_plan *p)
{
  return two_rows_per_lane(p) ? warp_evaluate<2> : warp_evaluate<1>;
}

static size_t block_bytes(const tt_warp_plan *p) { return (size_t)(p->bytes * p->warps); }

static const char *unsupported_reason(const tt_cohort *cohort, tt_precision precision,
                                      int64_t shared_bytes)
{
  static char why[160];
  tt_warp_plan plan;
  return tt_warp_plan_make(cohort, precision, shared_bytes, &plan, why, sizeof why) ? NULL : why;
}

static void release(tt_engine *e)
{
  tt_warp_path_data *own = static_cast<tt_warp_path_data *>(e->own);
  if (!own) return;
  tt_dev_free(own->next);
  tt_free(own);
  e->own = NULL;
}

/* As many blocks as run at the same time, or what the members need if that is less. */
static tt_err count_blocks(const tt_engine *e, const tt_warp_plan *p, unsigned *out)
{
  int64_t most;
  TT_TRY(tt_dev_max_active_blocks(&e->dev, train_kernel(p), p->warps * TT_WARP_SIZE, block_bytes(p),
                                  &most));
  int64_t needed = tt_grid_size(e->slice.count, p->warps);
  *out = (unsigned)(needed < most ? needed : most);
  return TT_OK;
}

static tt_err allocate(tt_engine *e, tt_warp_path_data *own)
{
  char why[160];
  if (!tt_warp_plan_make(e->cohort, e->precision, e->dev.shared_bytes, &own->plan, why, sizeof why))
    return TT_FAIL(INTERNAL, "warp path: %s", why);
  TT_TRY(count_blocks(e, &own->plan, &own->blocks));
  return tt_dev_alloc(&own->next, 1, "queue of members");
}

static tt_err prepare(tt_engine *e)
{
  tt_warp_path_data *own = NULL;
  if (e->own || e->slice.count < 1) return TT_OK; /* nothing here depends on the data */
  TT_TRY(TT_ALLOC(own, 1));
  e->own = own;
  tt_err err = allocate(e, own);
  if (err) release(e);
  return err;
}

static tt_err launch_kernel(tt_engine *e, warp_kernel kernel, unsigned blocks,
                            const tt_warp_args &args)
{
  return tt_launch(kernel, blocks, (unsigned)(args.plan.warps * TT_WARP_SIZE),
                   block_bytes(&args.plan), e->dev.stream, args);
}

static tt_err train(tt_engine *e, int64_t steps)
{
  tt_warp_path_data *own = static_cast<tt_warp_path_data *>(e->own);
  if (!own) return TT_OK;
  tt_warp_args args = {e->view, own->plan, steps, own->next, TT_VALIDATION, NULL};
  TT_TRY(tt_dev_zero(own->next, 1, e->dev.stream));
  TT_TRY(launch_kernel(e, train_kernel(&own->plan), own->blocks, args));
  return tt_stream_synchronize(e->dev.stream);
}

static tt_err evaluate(tt_engine *e, tt_split split, double *loss)
{
  tt_warp_path_data *own = static_cast<tt_warp_path_data *>(e->own);
  if (!own) return TT_OK;
  tt_warp_args args = {e->view, own->plan, 0, NULL, (int32_t)split, NULL};
  TT_TRY(tt_dev_alloc(&args.loss, e->slice.count, "losses of the members"));
  tt_err err = launch_kernel(e, evaluate_kernel(&own->plan), own->blocks, args);
  if (!err) err = tt_dev_download_sync(loss, args.loss, e->slice.count, e->dev.stream);
  tt_dev_free(args.loss);
  return err;
}

static void arithmetic(const tt_engine *e, char *text, size_t room)
{
  char why[160];
  tt_warp_plan p;
  if (tt_warp_plan_make(e->cohort, e->precision, e->dev.shared_bytes, &p, why, sizeof why))
    snprintf(text, room, "r%d", (int)p.rows);
}

extern const tt_cuda_path tt_cuda_warp = {"warp",  unsupported_reason, NULL,     prepare, train,
                                          release, arithmetic,         evaluate, NULL,    NULL};
