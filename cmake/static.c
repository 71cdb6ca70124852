/* static.c — what -DTUTTI_STATIC=ON adds to the program and the library. The linker replaces these
 * symbols (--wrap, cmake/dependencies.cmake). */
#include <stdio.h>
#include <sys/stat.h>

/* glibc before 2.33 has the three only under these names, as every later one does. 1 is the layout
 * of struct stat. */
#define STAT(name, old, type)                                                                      \
  int first_##name(int layout, type file, struct stat *out);                                       \
  __asm__(".symver first_" #name ", " #old "@GLIBC_2.2.5");                                        \
  int __wrap_##name(type file, struct stat *out);                                                  \
  int __wrap_##name(type file, struct stat *out) { return first_##name(1, file, out); }
STAT(stat, __xstat, const char *)
STAT(lstat, __lxstat, const char *)
STAT(fstat, __fxstat, int)

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

#ifdef TT_PROGRAM
/* The start of a program that was linked with glibc 2.34 or newer leaves the constructors to the C
 * library; an older one calls a function for them. */
typedef void constructor(int count, char **arguments, char **environment);
typedef int starter(int (*program)(int, char **, char **), int count, char **arguments,
                    constructor *begin, void (*end)(void), void (*unload)(void), void *stack);
extern constructor *__init_array_start[] __attribute__((visibility("hidden")));
extern constructor *__init_array_end[] __attribute__((visibility("hidden")));
starter __real___libc_start_main, __wrap___libc_start_main;

static void run_constructors(int count, char **arguments, char **environment)
{
  for (constructor **each = __init_array_start; each < __init_array_end; each++)
    (*each)(count, arguments, environment);
}

int __wrap___libc_start_main(int (*program)(int, char **, char **), int count, char **arguments,
                             constructor *begin, void (*end)(void), void (*unload)(void),
                             void *stack)
{
  (void)begin;
  return __real___libc_start_main(program, count, arguments, run_constructors, end, unload, stack);
}
#endif
