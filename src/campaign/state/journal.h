/* journal.h — journal.jsonl: one line for every finished stage, appended and synced, never changed.
 * Floor 5; all local: rank 0's business.
 *
 * {"round": 12, "stage": "select", "inputs": "16 hex digits", "outputs": "...", "seconds": 0.41,
 *  "time": "2026-11-21T20:15:00Z", "incarnation": "..."}
 * inputs is the hash of everything the stage depends on, outputs that of what it left. A stage
 * whose last line has the inputs of now and the outputs that are still there need not be done
 * again. A line {"round": 12, "stage": "select", "again": true, ...} says that a person wants
 * everything from there on done again. A torn last line (killed while writing) counts as absent. */
#ifndef TT_JOURNAL_H
#define TT_JOURNAL_H
#include "core/stats/history.h"

typedef struct tt_journal tt_journal;

typedef struct tt_journal_entry {
  int64_t round;
  tt_stage stage;
  uint64_t inputs, outputs;
  double seconds;
} tt_journal_entry;

/* Read what is there (a missing file is an empty journal) and get ready to append. incarnation is
 * borrowed; NULL = only look, while another may be writing: nothing is made, changed or appended.
 * Errors: CANTCREAT, DATA (a line in the middle that is no entry: file:line), IO, MEM. */
tt_err tt_journal_open_local(const char *file, const char *incarnation, tt_journal **out);
void tt_journal_close_local(tt_journal **j); /* accepts NULL */

/* The last entry of a stage that nothing has undone since: by a later `again` of it or of an
 * earlier stage, of this or an earlier round. NULL = not done. Valid until the next append. */
const tt_journal_entry *tt_journal_find(const tt_journal *j, int64_t round, tt_stage stage);

/* Append and sync; a torn last line is cut off first. Errors: IO (disk full: nothing is lost, the
 * stage will be done again; the file has grown meanwhile: another life is writing). */
tt_err tt_journal_append_done_local(tt_journal *j, const tt_journal_entry *e);
tt_err tt_journal_append_redo_local(tt_journal *j, int64_t round, tt_stage stage);

/* Wall time of all finished stages, of all lives, those that were done again too. */
double tt_journal_seconds(const tt_journal *j);

/* XXH3 of a file's bytes. Errors: NOINPUT, IO. */
tt_err tt_file_hash_local(const char *path, uint64_t *hash);
#endif
