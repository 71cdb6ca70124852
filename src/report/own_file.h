/* own_file.h — outputs replace only files that an earlier run of the same verb has written. */
#ifndef TT_OWN_FILE_H
#define TT_OWN_FILE_H
#include "core/base/err.h"

/* OK if there is nothing at `path`, or a file with `mark` in its first 512 bytes. A link is never
 * such a file. Local. Errors: CANTCREAT (the message names --force). */
tt_err tt_own_file_check_local(const char *path, const char *mark);
#endif
