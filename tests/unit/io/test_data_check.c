/* test_data_check.c — input files are first opened by a child process, which may crash. This
 * program is also the child: TUTTI_EXE names it. */
#include "core/base/log.h"
#include "io/hdf5/guarded_check.h"
#include "io/hdf5/h5.h"
#include "tests/support/check.h"

#include <fcntl.h>
#include <hdf5.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char path[] = "foreign.h5";
static const double v[6] = {1, 2, 3, 4, 5, 6};

static void make_plain(const char *file)
{
  tt_h5_file *f = NULL;
  const char *const texts[] = {"a", "b"};
  TT_CHECK_OK(tt_h5_create(NULL, file, 0, &f));
  TT_CHECK_OK(tt_h5_write_from_root(f, "x", TT_H5_F64, 2, (const int64_t[]){3, 2}, v));
  TT_CHECK_OK(tt_h5_write_texts(f, "feature_name", 2, 4, texts));
  TT_CHECK_OK(tt_h5_commit(&f));
}

static void dataset(hid_t f, const char *name, hid_t type, hid_t plist)
{
  hsize_t dims[] = {3, 2};
  hid_t space = H5Screate_simple(2, dims, NULL);
  hid_t d = H5Dcreate2(f, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
  assert_true(d >= 0);
  if (type == H5T_NATIVE_DOUBLE) (void)H5Dwrite(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, v);
  H5Dclose(d);
  H5Sclose(space);
}

static hid_t chunked(void)
{
  hsize_t chunk[] = {2, 2};
  hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(p, 2, chunk);
  return p;
}

/* All kinds of rejected datasets, and the filters that are accepted. */
static void make_foreign(void)
{
  hid_t f = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t good = chunked(), bad = chunked(), raw = H5Pcreate(H5P_DATASET_CREATE);
  hid_t virtual = H5Pcreate(H5P_DATASET_CREATE), lengths = H5Tvlen_create(H5T_NATIVE_DOUBLE);
  hsize_t dims[] = {3, 2};
  hid_t space = H5Screate_simple(2, dims, NULL);
  H5Pset_shuffle(good), H5Pset_deflate(good, 4), H5Pset_fletcher32(good);
  H5Pset_nbit(bad);
  H5Pset_external(raw, "elsewhere.bin", 0, H5F_UNLIMITED);
  H5Pset_virtual(virtual, space, "other.h5", "x", space);
  dataset(f, "good", H5T_NATIVE_DOUBLE, good);
  dataset(f, "nbit", H5T_NATIVE_DOUBLE, bad);
  dataset(f, "external", H5T_NATIVE_INT, raw);
  dataset(f, "virtual", H5T_NATIVE_INT, virtual);
  dataset(f, "lengths", lengths, H5P_DEFAULT);
  assert_true(H5Lcreate_external("other.h5", "/", f, "away", H5P_DEFAULT, H5P_DEFAULT) >= 0);
  assert_true(H5Lcreate_soft("/good", f, "soft", H5P_DEFAULT, H5P_DEFAULT) >= 0);
  H5Pclose(good), H5Pclose(bad), H5Pclose(raw), H5Pclose(virtual), H5Tclose(lengths);
  H5Sclose(space), H5Fclose(f);
}

static tt_err check_one(const char *file, const char *name)
{
  const char *const dataset_name[] = {NULL, "", name};
  return tt_guarded_check_local(file, dataset_name, 3);
}

TT_TEST (valid_files_are_accepted) {
  make_plain(path);
  TT_CHECK_OK(check_one(path, "x"));
  make_foreign();
  TT_CHECK_OK(check_one(path, "good"));
  TT_CHECK_OK(check_one(path, "soft"));
}

TT_TEST (links_to_other_files_and_plugins_are_rejected) {
  static const struct {
    const char *name, *part;
  } bad[] = {
      {"away/x", "'away' is a link into another file"},
      {"away", "'away' is a link into another file"},
      {"external", "is stored in other files"},
      {"virtual", "is stored in other files"},
      {"nbit", "is compressed with the filter 5 (nbit)"},
      {"lengths", "values of variable length"},
      {"missing", "there is no dataset 'missing'; there are: external, good"},
  };
  make_plain("other.h5");
  make_foreign();
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(check_one(path, bad[i].name), TT_E_DATA);
    TT_CHECK_HAS(tt_err_last(), bad[i].part);
  }
}

TT_TEST (bad_files_keep_their_error_code) {
  assert_int_equal(check_one("/tmp/no/such.h5", "x"), TT_E_NOINPUT);
  TT_CHECK_HAS(tt_err_last(), "/tmp/no/such.h5");
  make_plain(path);
  assert_int_equal(truncate(path, 1000), 0);
  assert_int_equal(check_one(path, "x"), TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "truncated");
}

TT_TEST (a_crashing_reader_is_bad_data) {
  assert_int_equal(check_one("crash", "x"), TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "crash is damaged: the process that checks the file crashed");
  assert_int_equal(check_one("kill", "x"), TT_E_IO);
  TT_CHECK_HAS(tt_err_last(), "was ended by signal 9");
}

TT_TEST (a_file_is_checked_again_after_a_crash) {
  make_plain("once.h5");
  TT_CHECK_OK(check_one("once.h5", "x"));
  assert_int_equal(unlink("crashed"), 0); /* the first child has crashed */
  assert_int_equal(unlink("once.h5"), 0);
}

/* A damaged file of the old format can crash HDF5: for every damage the result is a tt_err, and
 * this process does not crash. */
TT_TEST (damaged_files_never_crash_this_process) {
  unsigned char bytes[1 << 15], hurt[1 << 15];
  make_foreign();
  FILE *f = fopen(path, "rb");
  size_t n = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  uint32_t s = 12345;
  for (int i = 0; i < 40; i++) {
    memcpy(hurt, bytes, n);
    for (int k = 0; k < 6; k++) {
      s = s * 1664525u + 1013904223u;
      hurt[(s >> 8) % (n < 3000 ? n : 3000)] = (unsigned char)(s >> 24);
    }
    f = fopen(path, "wb");
    assert_int_equal(fwrite(hurt, 1, n, f), n);
    fclose(f);
    tt_err e = check_one(path, "good");
    assert_true(e == TT_OK || e == TT_E_DATA || e == TT_E_IO || e == TT_E_MEM);
  }
}

TT_TEST (without_a_tutti_program_there_is_no_check) {
  char exe[256];
  snprintf(exe, sizeof exe, "%s", getenv("TUTTI_EXE"));
  unsetenv("TUTTI_EXE");
  TT_CHECK_OK(check_one("crash", "x"));
  setenv("TUTTI_EXE", "/tmp/no/such/tutti", 1);
  TT_CHECK_OK(check_one("crash", "x"));
  setenv("TUTTI_EXE", exe, 1);
}

static int child(int argc, char **argv)
{
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(SIGABRT, SIG_DFL);
  if (!strcmp(argv[2], "crash")) raise(SIGSEGV);
  if (!strcmp(argv[2], "kill")) raise(SIGKILL);
  if (!strcmp(argv[2], "once.h5") && access("crashed", F_OK)) {
    close(creat("crashed", 0600));
    raise(SIGSEGV);
  }
  return tt_guarded_check_child_local(argc, argv);
}

static int begin(void **unused)
{
  setenv("TUTTI_EXE", "/proc/self/exe", 1);
  return enter_folder_quietly(unused);
}

TT_SUITE(begin, NULL)
TT_COMMAND("check-data", child)
