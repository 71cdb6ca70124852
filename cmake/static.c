/* static.c — what -DTUTTI_STATIC=ON adds to the program and the library. The linker replaces these
 * symbols (--wrap, cmake/dependencies.cmake). */
#include <stdio.h>

/* The first version of the function; that of glibc 2.35 differs in how it reports an overflow. */
double first_hypot(double x, double y);
__asm__(".symver first_hypot, hypot@GLIBC_2.2.5");
double __wrap_hypot(double x, double y);
double __wrap_hypot(double x, double y) { return first_hypot(x, y); }

/* Archives of a distribution are compiled for programs: they address the variables of the C library
 * directly, which a shared library cannot. These stand in the library itself. */
extern FILE *__real_stdin, *__real_stdout, *__real_stderr;
FILE *__wrap_stdin, *__wrap_stdout, *__wrap_stderr;
static __attribute__((constructor(101))) void copy_streams(void)
{
  __wrap_stdin = __real_stdin;
  __wrap_stdout = __real_stdout;
  __wrap_stderr = __real_stderr;
}
