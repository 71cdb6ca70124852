/* verify.h — run.verify: now and then a step of one member is computed a second time from the same
 * state, because processors exist that compute wrong without saying so (Dixit et al. 2021,
 * arXiv 2102.11245).
 *
 * Twice on the same device, the second time by an engine of this member alone: the bits must be the
 * same, as they never depend on the other members. On a GPU also by the cpu engine, which rounds
 * otherwise: with a the state of the GPU after the step, b that of the CPU, s the state before,
 * |a - b| / (|b - s| + 1e-5 |b|), for the weights and each optimizer slot, is at most 1e-3, in tf32
 * 0.1 (on the double sound engines are below 2e-5 and 0.02). A ReLU whose argument is nearly 0, and
 * Adam's first step where a gradient is nearly 0, can exceed this on a sound device; so three steps
 * in a row must. */
#ifndef TT_VERIFY_H
#define TT_VERIFY_H
#include "src/train/shard/shard.h"

/* Take one step of all members in each engine for which it is time, and verify that of one member,
 * another each time. Nothing happens for members of teams and methods whose members depend on each
 * other. Results do not depend on it. Local.
 *   every  seconds between two verifications, the first at once; 0: never; below 0: on a GPU 60, or
 *          more where that would take more than 0.5 % of the time, for members of at most 4 million
 *          parameters; on the CPU never
 * Errors: DEVICE (a device or this program computes wrong), of the engine. */
tt_err tt_verify_local(tt_shards *all, double every);
#endif
