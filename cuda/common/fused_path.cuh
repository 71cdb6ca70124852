/* fused_path.cuh — host side of the paths with one kernel for all steps of a call: as many
 * units (blocks of warps, blocks, clusters) as run at the same time take members from a queue.
 * C++17.
 *
 * A path is a class with
 *   plan                             the type of its plan
 *   make_plan(e, plan *)             1 if the members fit (cuda/plan/)
 *   scratch_floats(plan)             floats of device memory of a unit
 *   count_units(e, plan, unsigned *) units of a launch
 *   launch(e, data, steps)           up to `steps` steps of every member, on the engine's stream */
#ifndef TT_FUSED_PATH_CUH
#define TT_FUSED_PATH_CUH
#include "cuda/common/engine_internal.cuh"

#include "core/base/mem.h"

template <class PATH> struct tt_fused_path {
  struct data {
    typename PATH::plan plan;
    unsigned units;
    int32_t *next;  /* device: the first member that no unit has taken */
    float *scratch; /* device, [units][scratch_floats] */
  };

  static data *of(const tt_engine *e) { return static_cast<data *>(e->own); }

  static void release(tt_engine *e)
  {
    data *d = of(e);
    if (!d) return;
    tt_dev_free(d->next);
    tt_dev_free(d->scratch);
    tt_free(d);
    e->own = NULL;
  }

  static tt_err allocate(tt_engine *e, data *d)
  {
    if (!PATH::make_plan(e, &d->plan))
      return TT_FAIL(INTERNAL, "%s path: the members do not fit", e->path->name);
    TT_TRY(PATH::count_units(e, &d->plan, &d->units));
    TT_TRY(tt_dev_alloc(&d->next, 1, "queue of members"));
    int64_t floats = d->units * PATH::scratch_floats(&d->plan);
    return tt_dev_alloc(&d->scratch, floats, "optimizer state of the running members");
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

  static tt_err train(tt_engine *e, int64_t steps)
  {
    data *d = of(e);
    if (!d) return TT_OK;
    TT_TRY(tt_dev_zero(d->next, 1, e->dev.stream));
    TT_TRY(PATH::launch(e, d, steps));
    return tt_stream_synchronize(e->dev.stream);
  }

  /* The path's row in the engine; the other functions are those of tt_cuda_path. */
  static constexpr tt_cuda_path make(const char *name,
                                     void (*arithmetic)(const tt_engine *, char *, size_t),
                                     tt_err (*evaluate)(tt_engine *, tt_split, double *) = NULL)
  {
    return {name, prepare, train, release, arithmetic, evaluate, NULL, NULL,
            0,    NULL,    NULL,  NULL,    NULL,       NULL,     NULL, NULL};
  }
};

/* Units of a launch: at most `most`, which run at the same time, and not more than the members
 * need. */
static inline unsigned tt_fused_units(int64_t needed, int64_t most)
{
  return (unsigned)(needed < most ? needed : most);
}
#endif
