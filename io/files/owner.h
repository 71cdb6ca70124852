/* owner.h — the directories that this start of the program owns. All functions are local and may be
 * called by any thread.
 *
 * The first line of DIR/owner is the incarnation of the start that owns DIR (tt_ckpt_claim; the
 * other lines are for later starts). A later
 * start takes the directory over: it writes its own incarnation, then removes the temporary files
 * of the earlier start. The earlier start must change nothing any more (the fence):
 * tt_file_publish_local checks the owner before every rename into an owned directory. If the
 * earlier start is paused between check and rename, its temporary file is gone and the rename
 * fails. Thus a file of the earlier start is never published after the take-over. Code that removes
 * files, or renames directories, checks the owner directly before; there a pause between check and
 * action is not detected. */
#ifndef TT_OWNER_H
#define TT_OWNER_H
#include "core/base/err.h"

/* Begin of the name of a temporary file in an owned directory. */
#define TT_OWNER_TEMPORARY ".tmp-owned-"

/* Record that `incarnation` is this start and owns `directory` and all directories below it; an
 * earlier record of the same directory is replaced. Errors: MEM. */
tt_err tt_owner_begin_local(const char *directory, const char *incarnation);
void tt_owner_end_local(const char *directory); /* without a record it does nothing */

/* Is `path` an owned directory, or below one? */
int tt_owner_covers_local(const char *path);

/* Check that this start still owns each of its directories that contains `path` (or is `path`).
 * OK if there is none. Errors: STOPPED (another start owns it), IO (the directory or its file
 * `owner` has vanished, or cannot be read). */
tt_err tt_owner_check_local(const char *path);
#endif
