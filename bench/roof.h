/* roof.h — the fastest that the processor multiplies and adds, measured. */
#ifndef BENCH_ROOF_H
#define BENCH_ROOF_H

/* FLOP/s of `threads` threads that do nothing but fused multiply-adds of the widest vectors, in
 * registers; the best of several pieces, because other programs only slow it down. 0: no thread
 * could be started. */
double bench_cpu_roof(int threads);
#endif
