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

/* The largest of these for member i of [0, count) of three states of all parameters, NaN if one is;
 * the largest that is right in a precision; and how many steps in a row must exceed it. */
double tt_verify_apart(const tt_state *after, const tt_state *other, const tt_state *before,
                       int64_t i);
extern const double tt_verify_tolerance[]; /* [TT_PRECISION_COUNT] */
enum { TT_VERIFY_MISSES = 3 };

/* Seconds between two verifications, by run.verify; 0: never, also where the members of an ensemble
 * stop together.
 *   every  above 0: so many; 0: never; below 0: on a GPU 60, for members of at most 4 million
 *          parameters; on the CPU never */
double tt_verify_interval(const tt_cohort *c, int gpu, double every);

/* Host memory for a verified step of one member, beside that of its engine. Local. */
double tt_verify_bytes_local(const tt_cohort *c, int64_t rows, int gpu);

/* Take one step of all members in each engine for which it is time, and verify that of one member,
 * another each time. Nothing happens for members of teams, and for members that depend on each
 * other. Results do not depend on it. Local.
 *   every  as in tt_verify_interval; the first at once; below 0, the interval is longer where a
 *          verification takes more than 0.5 % of it
 * Errors: DEVICE (a device or this program computes wrong), of the engine. */
tt_err tt_verify_local(tt_shards *all, double every);
#endif
