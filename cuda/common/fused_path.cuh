/* fused_path.cuh — host side of the paths whose kernel does many steps of whole members: as many
 * units (blocks of warps, blocks, clusters) as run at the same time take members from a queue. A
 * call is one launch, or several where that gives the units equal work (cuda/plan/launch_plan.h).
 * C++17.
 *
 * A path is a class with
 *   plan                             the type of its plan
 *   make_plan(e, plan *)             1 if the members fit (cuda/plan/)
 *   scratch_floats(plan)             floats of device memory of a unit
 *   count_units(e, plan, unsigned *) units of a launch
 *   members_of_unit(plan)            members that a unit trains at the same time
 *   launch(e, data, queue, steps)    up to `steps` steps of the members of the queue, on the
 *                                    engine's stream */
#ifndef TT_FUSED_PATH_CUH
#define TT_FUSED_PATH_CUH
#include "cuda/common/engine_internal.cuh"

#include "core/base/mem.h"
#include "cuda/plan/launch_plan.h"

/* What a launch costs besides its steps, in steps: an estimate, for steps of 10 us or more. Calls
 * of tests on the double are short. */
#ifdef TT_CUDA_DOUBLE
enum { TT_LAUNCH_OVERHEAD = 0 };
#else
enum { TT_LAUNCH_OVERHEAD = 2 };
#endif

template <class PLAN> struct tt_fused_data {
  PLAN plan;
  unsigned units;
  int32_t *next;   /* device: the first entry of the queue that no unit has taken */
  int32_t *member; /* device: [2][M] the members that train, twice one after the other */
  int32_t *listed; /* page-locked: what is copied to `member` */
  float *scratch;  /* device, [units][scratch_floats] */
};

template <class PATH> struct tt_fused_path {
  typedef tt_fused_data<typename PATH::plan> data;

  static data *of(const tt_engine *e) { return static_cast<data *>(e->own); }

  static void release(tt_engine *e)
  {
    data *d = of(e);
    if (!d) return;
#define X(name, ...) tt_dev_free(d->name);
    TT_FUSED_ARRAYS(X)
#undef X
    tt_pinned_free(d->listed);
    tt_free(d);
    e->own = NULL;
  }

  static tt_err allocate(tt_engine *e, data *d)
  {
    if (!PATH::make_plan(e, &d->plan))
      return TT_FAIL(INTERNAL, "%s path: the members do not fit", e->path->name);
    TT_TRY(PATH::count_units(e, &d->plan, &d->units));
    int64_t members = e->slice.count, floats = d->units * PATH::scratch_floats(&d->plan);
#define X(name, type, count, what)                                                                 \
  if ((count) > 0) TT_TRY(tt_dev_alloc(&d->name, count, what));
    TT_FUSED_ARRAYS(X)
#undef X
    return tt_pinned_alloc(&d->listed, 2 * members, "queue of members");
  }

  static tt_err prepare(tt_engine *e)
  {
    data *d = NULL;
    if (e->own || e->slice.count < 1) return TT_OK; /* nothing here depends on the data */
    TT_TRY(TT_ALLOC(d, 1));
    e->own = d;
    tt_err err = allocate(e, d);
    if (err) release(e);
    return err;
  }

  /* Write into d->member the numbers of the members that train; their count. No other copy reads
   * d->listed now, because a call of train waits for its end. */
  static tt_err list_members(tt_engine *e, data *d, int64_t *count)
  {
    int64_t n = 0;
    for (int64_t i = 0; i < e->slice.count; i++)
      if (e->status[i] == TT_STATUS_training) d->listed[n++] = (int32_t)i;
    for (int64_t i = 0; i < n; i++) d->listed[n + i] = d->listed[i];
    *count = n;
    return tt_dev_upload(d->member, d->listed, 2 * n, e->dev.stream);
  }

  static tt_err launch(tt_engine *e, data *d, tt_slice some, int64_t steps)
  {
    tt_member_queue queue = {d->member + some.first, (int32_t)some.count, 0, d->next};
    TT_TRY(tt_dev_zero(d->next, 1, e->dev.stream));
    return PATH::launch(e, d, queue, steps);
  }

  static tt_err train(tt_engine *e, int64_t steps)
  {
    data *d = of(e);
    int64_t members = 0;
    if (!d) return TT_OK;
    TT_TRY(list_members(e, d, &members));
    int64_t units = d->units * PATH::members_of_unit(&d->plan);
    tt_launch_plan p = tt_launch_plan_make(members, units, steps, TT_LAUNCH_OVERHEAD);
    for (int64_t k = 0; k < p.launches; k++)
      TT_TRY(launch(e, d, tt_launch_plan_members(&p, k), p.steps));
    return p.left ? launch(e, d, {0, members}, p.left) : TT_OK;
  }

  /* The path's row in the engine; the other functions are those of tt_cuda_path. */
  static constexpr tt_cuda_path make(const char *name,
                                     void (*arithmetic)(const tt_engine *, char *, size_t),
                                     tt_err (*evaluate)(tt_engine *, tt_split, double *) = NULL)
  {
    tt_cuda_path path = {};
    path.name = name;
    path.prepare = prepare;
    path.train = train;
    path.release = release;
    path.arithmetic = arithmetic;
    path.evaluate = evaluate;
    return path;
  }
};

/* Units of a launch: at most `most`, which run at the same time, and not more than the members
 * need. */
static inline unsigned tt_fused_units(int64_t needed, int64_t most)
{
  return (unsigned)(needed < most ? needed : most);
}
#endif
