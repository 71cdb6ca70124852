/* sanitize.c — part of every test program built with sanitizers: memory that MPI and HDF5 keep to
 * the end is not a leak of tutti. */

/* Read by the leak checker: a record with one of these on its stack is not reported. HDF5 1.10
 * leaks memory when it rejects a damaged file; the checker does not report open handles. MPI is
 * built without frame pointers, so some stacks end at vasprintf; tutti does not call it. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
  return "leak:libmpi.so\nleak:libopen-rte.so\nleak:libopen-pal.so\nleak:libpmix.so\n"
         "leak:libhwloc.so\nleak:libevent\nleak:mca_\nleak:libucp.so\nleak:libucs.so\n"
         "leak:libfabric.so\nleak:libpsm\nleak:libibverbs\nleak:libxnvctrl\n"
         "leak:libhdf5\nleak:vasprintf\n";
}

__attribute__((visibility("default"))) const char *__lsan_default_options(void);
const char *__lsan_default_options(void) { return "print_suppressions=0"; }

/* MPI closes its plugins before the leak checker reads the stacks; functions of closed plugins have
 * no names. */
__attribute__((visibility("default"))) int dlclose(void *handle);
int dlclose(void *handle) { return handle ? 0 : -1; }
