/* path.c — see path.h. */
#include "cuda/path.h"

#include "cuda/block_plan.h"

#include <inttypes.h>
#include <stdio.h>

enum { KIB = 1024 };

static int64_t kib(int64_t bytes) { return (bytes + KIB - 1) / KIB; }

/* 1 if the block path can do it; `why` says why it can, or cannot. */
static int block_can(const tt_cohort *c, const tt_path_device *on, char *why, size_t room)
{
  tt_block_plan plan;
  int fits = tt_block_plan_make(c, on->precision, on->shared_bytes, &plan);
  if (!fits)
    snprintf(why, room, "a member needs %" PRId64 " KiB of shared memory, a block has %" PRId64,
             kib(tt_block_least_bytes(c, on->precision)), on->shared_bytes / KIB);
  else if (on->block_refuses)
    snprintf(why, room, "%s", on->block_refuses);
  else
    snprintf(why, room, "%" PRId64 " of %" PRId64 " KiB of shared memory, %d rows at a time",
             kib(plan.bytes), on->shared_bytes / KIB, (int)plan.rows);
  return fits && !on->block_refuses;
}

tt_err tt_path_choose(const tt_cohort *c, const tt_path_device *on, tt_path wanted,
                      tt_path_choice *out)
{
  char why[sizeof out->why];
  int block = block_can(c, on, why, sizeof why), layered = !on->layered_refuses;
  tt_path path = wanted != TT_PATH_auto ? wanted : block ? TT_PATH_block : TT_PATH_layered;
  const char *against = path == TT_PATH_block ? why : on->layered_refuses;
  if (path == TT_PATH_block ? !block : !layered)
    return wanted == TT_PATH_auto
               ? TT_FAIL(UNAVAILABLE,
                         "no way to train these members on this GPU; block: %s; layered: %s; use "
                         "run.device: cpu",
                         why, against)
               : TT_FAIL(UNAVAILABLE,
                         "run.path: %s cannot train these members: %s; use run.path: auto",
                         tt_choice_path[path], against);
  out->path = path;
  snprintf(out->why, sizeof out->why, "%s", wanted == TT_PATH_auto ? why : "as run.path says");
  return TT_OK;
}
