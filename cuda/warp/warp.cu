/* warp.cu — the warp path: a warp trains a whole member, and one launch does all steps of a
 * call, for members so small that thousands of them train at the same time. Warps take members
 * from a queue, as blocks do in the block path. */
#include "cuda/warp/warp_train.cuh"

#include "cuda/common/fused_path.cuh"

#include <stdio.h>

/* Minimum of blocks per multiprocessor: it limits the registers per thread. */
enum { THREADS_PER_BLOCK = TT_WARPS_PER_BLOCK * TT_WARP_SIZE, MIN_BLOCKS = 6 };

template <class F, int N>
static __global__ void __launch_bounds__(THREADS_PER_BLOCK, MIN_BLOCKS) warp_train(tt_warp_args a)
{
  TT_SHARED_MEMORY(float, shared);
  tt_warp_train_queue<F, N>(a, shared);
}

template <int N>
static __global__ void __launch_bounds__(THREADS_PER_BLOCK, MIN_BLOCKS)
    warp_evaluate(tt_warp_args a)
{
  TT_SHARED_MEMORY(float, shared);
  tt_warp_evaluate_members<tt_warp_any_formulas, N>(a, shared);
}

typedef void (*warp_kernel)(tt_warp_args);

/* The most common formulas, which have kernels of their own. */
struct relu_mse_adam : tt_warp_fixed_formulas<TT_ACT_relu, TT_LOSS_mse, TT_OPT_adam> {
};

/* Kernels that train, for one and two rows per lane. A cohort takes the first row that fits. */
typedef struct train_kernels {
  bool (*fit)(const tt_cuda_state &);
  warp_kernel rows[2];
} train_kernels;

template <class F> static constexpr train_kernels kernels_with()
{
  return {F::fit, {warp_train<F, 1>, warp_train<F, 2>}};
}
static const train_kernels train_table[] = {kernels_with<relu_mse_adam>(),
                                            kernels_with<tt_warp_any_formulas>()};

static int two_rows_per_lane(const tt_warp_plan *p) { return p->rows > TT_WARP_SIZE; }
static warp_kernel train_kernel(const tt_cuda_state &v, const tt_warp_plan *p)
{
  const train_kernels *row = train_table;
  while (!row->fit(v)) row++;
  return row->rows[two_rows_per_lane(p)];
}
static warp_kernel evaluate_kernel(const tt_warp_plan *p)
{
  return two_rows_per_lane(p) ? warp_evaluate<2> : warp_evaluate<1>;
}

static size_t block_bytes(const tt_warp_plan *p) { return (size_t)(p->bytes * p->warps); }

static tt_err launch_kernel(tt_engine *e, warp_kernel kernel, unsigned blocks,
                            const tt_warp_args &args)
{
  return tt_launch(kernel, blocks, (unsigned)(args.plan.warps * TT_WARP_SIZE),
                   block_bytes(&args.plan), e->dev.stream, args);
}

struct warp_path {
  typedef tt_warp_plan plan;

  static int make_plan(const tt_engine *e, tt_warp_plan *out)
  {
    char why[TT_PATH_REASON_BYTES];
    return tt_warp_plan_make(e->cohort, e->dev.shared_bytes, out, why, sizeof why);
  }

  static int64_t scratch_floats(const tt_warp_plan *) { return 0; }

  static tt_err count_units(const tt_engine *e, const tt_warp_plan *p, unsigned *out)
  {
    int64_t most;
    TT_TRY(tt_dev_max_active_blocks(&e->dev, train_kernel(e->view, p), p->warps * TT_WARP_SIZE,
                                    block_bytes(p), &most));
    *out = tt_fused_units(tt_grid_size(e->slice.count, p->warps), most);
    return TT_OK;
  }

  static int64_t members_of_unit(const tt_warp_plan *p) { return p->warps; }

  static tt_err launch(tt_engine *e, const tt_fused_data<plan> *d, const tt_member_queue &queue,
                       int64_t steps)
  {
    int32_t most = (int32_t)(steps < INT32_MAX ? steps : INT32_MAX);
    tt_warp_args args = {e->view, d->plan, most, queue, TT_VALIDATION, NULL};
    return launch_kernel(e, train_kernel(e->view, &d->plan), d->units, args);
  }
};
typedef tt_fused_path<warp_path> warp_host;

static tt_err evaluate(tt_engine *e, tt_split split, double *loss)
{
  const warp_host::data *own = warp_host::of(e);
  if (!own) return TT_OK;
  tt_warp_args args = {e->view, own->plan, 0, {}, (int32_t)split, NULL};
  TT_TRY(tt_dev_alloc(&args.loss, e->slice.count, "losses of the members"));
  tt_err err = launch_kernel(e, evaluate_kernel(&own->plan), own->units, args);
  if (!err) err = tt_dev_download_sync(loss, args.loss, e->slice.count, e->dev.stream);
  tt_dev_free(args.loss);
  return err;
}

static void arithmetic(const tt_engine *e, char *text, size_t capacity)
{
  tt_warp_plan p;
  if (warp_path::make_plan(e, &p)) snprintf(text, capacity, "r%d", (int)p.rows);
}

extern const tt_cuda_path tt_cuda_warp = warp_host::make("warp", arithmetic, evaluate);
