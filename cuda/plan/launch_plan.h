/* launch_plan.h — launches of a call that trains more members than the GPU trains at a time. Plain
 * C, no CUDA.
 *
 * A path has `units` that train one member each at the same time: blocks, clusters or warps. If
 * units took whole members from a queue, 140 members on 132 units would take as long as 264: after
 * the first 132, 8 units train the other 8 members and 124 have no work. So the steps of every
 * member are divided into `portions` of the same size, and a launch runs at most one portion on
 * each unit: the portions, first portion 0 of all members, then portion 1 of all members, and so
 * on, are dealt to the launches in this order, as equally as possible.
 *
 * A launch has at most as many portions as units, so fewer than there are members: no member is
 * twice in a launch, and its portions run in order. The state of a member between two launches is
 * that between two calls, so portions do not change any bit. */
#ifndef TT_LAUNCH_PLAN_H
#define TT_LAUNCH_PLAN_H
#include "core/model/partition.h"
TT_BEGIN_C

enum { TT_LAUNCH_MAX_PORTIONS = 16 };

typedef struct tt_launch_plan {
  int64_t members;
  int64_t chunks;   /* of the steps of a member; 1: one launch, whose units take whole members */
  int64_t launches; /* of portions; 0 without members */
  int64_t steps;    /* of a portion */
  int64_t left;     /* steps of all members in one more launch; 0: there is none */
} tt_launch_plan;

/* The plan in which the slowest unit is ready first.
 *   members   that train, at least 0;  units >= 1;  steps >= 1 of each member
 *   overhead  of a launch, in steps: it loads and stores its members and waits for its last unit
 * Local. */
tt_launch_plan tt_launch_plan_make(int64_t members, int64_t units, int64_t steps, int64_t overhead);

/* Launch number k of p->launches: `count` members from number `first` on; after the last member
 * comes the first one. Local. */
tt_slice tt_launch_plan_members(const tt_launch_plan *p, int64_t k);
TT_END_C
#endif
