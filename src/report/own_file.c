/* own_file.c — see own_file.h. */
#include "src/report/own_file.h"

#include "core/base/directory.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int has_mark(const char *path, const char *mark)
{
  char text[513];
  FILE *f = NULL;
  if (tt_file_open_stream(path, &f)) return 0;
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = '\0';
  return strstr(text, mark) != NULL;
}

tt_err tt_own_file_check_local(const char *path, const char *mark)
{
  struct stat at;
  if (lstat(path, &at) != 0) return TT_OK; /* an error of the path is reported when it is written */
  if (S_ISREG(at.st_mode) && has_mark(path, mark)) return TT_OK;
  return TT_FAIL(CANTCREAT, "%s exists and was not written by tutti; --force replaces it", path);
}
