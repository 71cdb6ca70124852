/* journal.h — journal.jsonl: one line for every finished stage, appended and synced, never changed.
 * All functions are local; only rank 0 calls them.
 *
 * {"round": 12, "stage": "select", "inputs": "16 hex digits", "outputs": "...", "seconds": 0.41,
 *  "time": "2026-11-21T20:15:00Z", "incarnation": "..."}
 * inputs is the hash of everything the stage depends on, outputs the hash of the files it wrote. A
 * stage is skipped if its last line has the present inputs and its files still have the hash
 * outputs. A line {"round": 12, "stage": "select", "again": true, ...} (option --from) requests
 * that this stage and all later ones run again (line_log.h: what a kill leaves). */
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

/* Read the file (a missing file is an empty journal) and open it to append: its complete lines are
 * copied to a new file that replaces it.
 *   incarnation  of this process, copied; NULL = open read-only: the file is not created or
 *                changed, and another process may write to it
 * Errors: CANTCREAT, DATA (a complete line is not an entry: file:line), IO, MEM, STOPPED (another
 * start owns the directory). */
tt_err tt_journal_open_local(const char *file, const char *incarnation, tt_journal **out);
void tt_journal_close_local(tt_journal **j); /* accepts NULL */

/* The last entry of a stage. NULL if there is none, or if an `again` line of this stage or of an
 * earlier one (of this or an earlier round) follows it. Valid until the next append. */
const tt_journal_entry *tt_journal_find(const tt_journal *j, int64_t round, tt_stage stage);

/* Append one line and sync the file. Errors: IO, STOPPED (tt_line_log_append_local; after IO the
 * stage will run again). */
tt_err tt_journal_append_done_local(tt_journal *j, const tt_journal_entry *e);
tt_err tt_journal_append_redo_local(tt_journal *j, int64_t round, tt_stage stage);

/* Sum of the wall times in seconds of all entries, those of stages that ran again included. */
double tt_journal_seconds(const tt_journal *j);

/* XXH3 of a file's bytes. Errors: NOINPUT, IO. */
tt_err tt_file_hash_local(const char *path, uint64_t *hash);
#endif
