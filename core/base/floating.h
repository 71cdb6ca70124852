/* floating.h — the floating-point environment of a thread: rounding, traps, flags, denormals.
 * Floor 0. */
#ifndef TT_FLOATING_H
#define TT_FLOATING_H
#if defined(                                                                                       \
    __x86_64__) /* all arithmetic is that of SSE: fegetenv and fesetenv take ten times as long */
#include <xmmintrin.h>
typedef unsigned tt_floating;
enum { TT_FLOATING_DEFAULT = 0x1f80 };
#else
#include <fenv.h>
typedef fenv_t tt_floating;
#endif

/* Compute with the default environment: to nearest, no traps, denormals are kept. The program that
 * uses the library may have set another one, which threads of OpenMP inherit. Returns the one of
 * the caller. Local. */
static inline tt_floating tt_floating_begin(void)
{
#if defined(__x86_64__)
  tt_floating caller = _mm_getcsr();
  _mm_setcsr(TT_FLOATING_DEFAULT);
#else
  tt_floating caller;
  fegetenv(&caller);
  fesetenv(FE_DFL_ENV);
#endif
  return caller;
}

/* Put back the environment of the caller with its flags. Local. */
static inline void tt_floating_end(tt_floating caller)
{
#if defined(__x86_64__)
  _mm_setcsr(caller);
#else
  fesetenv(&caller);
#endif
}
#endif
