/* oracle.h — stage label: ask for labels, by a command, through files, in Slurm jobs, or from the
 * pool itself. Floor 5; docs/oracle.md is the manual for those who write one.
 *
 * Picks are asked in groups of label.rows_per_call. DIR/round-0012/label/0003/ belongs to one
 * group: input.h5 (or .csv)   id [n] numbers of the candidates, x [n][D]; names and units as
 * data.file try-1/output.h5      what the first call wrote, beside what it said (messages.txt) and,
 * if it was not good, how it `ended`; each call has a directory of its own, so that a late writer
 * of an earlier one meets nobody accepted.h5            accepted: a group that has it is never
 * asked again failed               text: why its rows have no labels; never asked again unless it
 * is removed
 *
 * Beside the groups, header.csv is the line an output in CSV begins with. A group keeps its
 * candidates, whatever label.rows_per_call says later.
 *
 * An output holds y [n][T] (or [n] for one target) and, if in another order, id [n]; rows may be
 * missing, infinite, or NaN in all targets: these points failed. NaN in some targets: unlabelled
 * there. With mode files all rows must be there: one with fewer is still being written.
 *
 * exit code of a call   meaning
 *   0                   the output is there and is good; else the call counts as crashed
 *   75                  later: called again after label.poll_interval, for label.max_wait in all
 *   1                   the rows without labels in the output (all, if there is none) failed
 *   64 and above        stop the campaign (75 excepted)
 *   anything else, a signal (128 + its number, as shells say it), longer than label.timeout:
 *                       crashed, called again label.retries times, then the rows failed
 * A call starts in the directory of the campaign file, in a process group of its own that ends with
 * it. Outputs that a killed campaign left behind are looked at before anything is called again: one
 * that labels every row (a table: or says nan) is taken, unless its call was already found to be
 * bad. */
#ifndef TT_ORACLE_H
#define TT_ORACLE_H
#include "core/config/config.h"
#include "io/campaign/campaign_files.h"
#include "io/data/pool.h"
#include "mpi/comm.h"

typedef struct tt_label_request {
  const tt_config *cfg;   /* section label */
  const char *file;       /* the campaign file, for messages and jobs */
  const char *const *set; /* [nset] the settings given beside it, for jobs */
  int nset;
  const char *campaign;    /* campaign.directory: a file STOP there asks for a stop */
  const char *incarnation; /* of the owner of that directory: asked before every call */
  const char *directory;   /* DIR/round-0012/label: made if missing */
  int64_t round;
  const tt_queries *queries;
  tt_pool *pool; /* for hidden labels */
  const tt_columns *input, *target;
  double deadline; /* as tt_stop_agreed */
} tt_label_request;

/* Collective; rank 0 asks, all wait and feed the watchdog. Answers in the order of the picks, on
 * all ranks; owner: the caller. May be called again after any end: what was answered stays. Errors:
 * STOPPED (asked to stop; the oracle said later, or no file came, for label.max_wait; calls that
 * run are ended first), UNAVAILABLE (a call asked to stop the campaign: its exit code and the end
 * of its messages; the command cannot be started), CANTCREAT, IO, MEM. */
tt_err tt_oracle_label(tt_comm *c, const tt_label_request *q, tt_query_labels **out);

/* One group in its directory, from calls to accepted.h5 or `failed`: what a task of a Slurm array
 * does (tutti campaign task). Local. Errors: as tt_oracle_label. */
tt_err tt_oracle_label_group_local(const tt_config *cfg, const char *group);

/* `tutti campaign label DIR FILE`: answers by hand, HDF5 or CSV with ids, into the groups that wait
 * for them (label.mode: files). Says how many rows were taken. Local. Errors: NOINPUT, DATA (ids
 * that nobody asked for, twice, not finite, wrong shape), CANTCREAT, IO, MEM. */
tt_err tt_oracle_import_labels_local(const char *campaign, const char *file);
#endif
