/* sanitize.c — part of every test program built with sanitizers: what MPI and HDF5 keep to the end
 * is not a leak of ours. */

/* Read by the leak checker: a record with one of these on its stack is not reported. HDF5 1.10
 * loses memory when it gives up a damaged file; handles of ours that stay open are no leak to the
 * checker anyway. MPI is built without frame pointers, so that vasprintf is the end of some stacks;
 * no code of ours calls it. */
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

/* MPI closes its plugins before the leak checker looks at stacks; closed, they have no names. */
__attribute__((visibility("default"))) int dlclose(void *handle);
int dlclose(void *handle) { return handle ? 0 : -1; }
