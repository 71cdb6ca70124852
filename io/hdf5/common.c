/* common.c — see h5_internal.h: types, errors, votes and sizes for writing and reading. */
#include "io/hdf5/h5_internal.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hid_t tt_h5_native(tt_h5_type type)
{
  switch (type) {
#define X(name, ctype, h5)                                                                         \
  case TT_H5_##name: return h5;
    TT_H5_TYPES(X)
#undef X
  default: return -1;
  }
}

int64_t tt_h5_type_bytes(tt_h5_type type)
{
  static const int64_t bytes[] = {
#define X(name, ctype, h5) (int64_t)sizeof(ctype),
      TT_H5_TYPES(X)
#undef X
  };
  return (unsigned)type < TT_H5_TYPE_COUNT ? bytes[type] : 0;
}

void tt_h5_silence(void) { H5Eset_auto2(H5E_DEFAULT, NULL, NULL); }

void tt_h5_start_local(void) { (void)H5open(); }

tt_err tt_h5_call_as_guest_local(tt_err (*function)(void *), void *argument)
{
  tt_err e;
  fenv_t caller;
  fegetenv(&caller);
  fesetenv(FE_DFL_ENV);
  H5E_BEGIN_TRY { e = function(argument); }
  H5E_END_TRY;
  fesetenv(&caller);
  return e;
}

typedef struct reason {
  char *text;
  size_t capacity;
} reason;

static herr_t copy_first_message(unsigned n, const H5E_error2_t *entry, void *arg)
{
  const reason *r = arg;
  if (n == 0) snprintf(r->text, r->capacity, "%s", entry->desc ? entry->desc : "");
  return 0;
}

void tt_h5_last_message(char *text, size_t capacity)
{
  reason r = {text, capacity};
  text[0] = 0;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, copy_first_message, &r);
}

/* HDF5 reports a failed system call as "file write failed: time = ..., errno = 28, error message =
 * 'No space left on device', buf = ...": keep the cause alone. Returns the errno, 0 if there is
 * none. */
static int shorten_system_error(char *text)
{
  static const char quote[] = "error message = '";
  const char *number = strstr(text, "errno = "), *cause = strstr(text, quote);
  if (!number || !cause) return 0;
  int error_number = atoi(number + strlen("errno = "));
  cause += strlen(quote);
  size_t length = strcspn(cause, "'");
  memmove(text, cause, length);
  text[length] = 0;
  return error_number;
}

int tt_h5_disk_error(void)
{
  char text[1024];
  tt_h5_last_message(text, sizeof text);
  int error_number = shorten_system_error(text);
  return tt_errno_is_disk(error_number) ? error_number : 0;
}

tt_err tt_h5_fail_at(const char *source, int line, tt_err e, const char *file, const char *object,
                     const char *what)
{
  char text[1024];
  tt_h5_last_message(text, sizeof text);
  H5Eclear2(H5E_DEFAULT);
  if (tt_errno_is_disk(shorten_system_error(text))) {
    if (e == TT_E_DATA) what = "cannot be read"; /* not damaged */
    e = TT_E_IO;
  }
  int named = object && object[0] && strcmp(object, "/") != 0;
  return tt_fail_at(source, line, e, "%s: %s%s%s%s%s%s", file, named ? "'" : "",
                    named ? object : "", named ? "': " : "", what, text[0] ? ": " : "", text);
}

static int has_failed_close;

herr_t tt_h5_close_file(hid_t file)
{
  herr_t e = H5Fclose(file);
  if (e < 0) has_failed_close = 1;
  return e;
}

int tt_h5_exit_is_unsafe_local(void) { return has_failed_close; }

void tt_h5_close_ids(size_t n, const hid_t *id)
{
  for (size_t i = 0; i < n; i++)
    if (id[i] >= 0 && H5Iget_type(id[i]) == H5I_DATASET)
      H5Dclose(id[i]); /* also if its data cannot be written */
    else if (id[i] >= 0)
      H5Idec_ref(id[i]);
}

tt_err tt_h5_vote(tt_h5_file *f, tt_err mine)
{
  f->error = f->comm ? tt_agree(f->comm, mine) : mine;
  return f->error;
}

int64_t tt_h5_product(int begin, int ndims, const int64_t *dims)
{
  int64_t n = 1;
  for (int i = begin; i < ndims; i++) n *= dims[i];
  return n;
}

void tt_h5_to_hsize(int ndims, const int64_t *dims, hsize_t *out)
{
  for (int i = 0; i < ndims; i++) out[i] = (hsize_t)dims[i];
}

hid_t tt_h5_serial_fapl(void)
{
  hid_t p = H5Pcreate(H5P_FILE_ACCESS);
  /* flock fails on some parallel file systems; locks are not needed, because a committed file never
   * changes */
  int ok =
      p >= 0 && H5Pset_file_locking(p, 0, 1) >= 0 && H5Pset_fclose_degree(p, H5F_CLOSE_STRONG) >= 0;
  return ok ? p : -1;
}
