/* oracle.h — stage label: get the labels of the queries by a command, by Slurm jobs, from others
 * (tutti ask, tutti tell), or from the pool itself. docs/oracle.md is the manual for authors of an
 * oracle.
 *
 * The queries are divided into groups of label.rows_per_call. DIR/round-0012/label/0003/ is the
 * directory of one group:
 *   input.h5 (or .csv)  id [n] numbers of the candidates, x [n][D]; names and units as in data.file
 *   try-1/output.h5     output of the first call, with its printed output (messages.txt) and, if it
 *                       was not accepted, the reason (`ended`); each call has its own directory, so
 *                       that a late write of an earlier call cannot damage it
 *   accepted.h5         the accepted labels; a group with this file is never called again
 *   failed              text: why its rows have no labels; a group with this file is not called
 *                       again unless the user removes the file
 * In label/ itself, header.csv is the first line of a CSV output. A group keeps its candidates if
 * label.rows_per_call changes later. A row of an output that is missing, infinite, or NaN in all
 * targets failed. The exit codes of a call are in docs/oracle.md.
 *
 * A call starts in the directory of the campaign file, in its own process group, which is killed
 * when the call ends. Before a group is called again, outputs of a killed campaign are checked: an
 * output that labels every row (CSV: or contains nan for it) is accepted, unless its call already
 * has a file `ended`. */
#ifndef TT_ORACLE_H
#define TT_ORACLE_H
#include "core/config/config.h"
#include "io/campaign/campaign_files.h"
#include "io/data/pool.h"
#include "mpi/comm.h"
#include "src/campaign/points/points.h"

typedef struct tt_workers tt_workers;
typedef struct tt_label_request {
  const tt_config *cfg;   /* section label */
  const char *file;       /* the campaign file, for messages and jobs */
  const char *const *set; /* [nset] the arguments of --set, for jobs */
  int nset;
  const char *campaign;    /* campaign.directory: a file STOP in it requests a stop */
  const char *incarnation; /* of this process as owner of campaign, for the names of jobs */
  const char *directory;   /* DIR/round-0012/label: created if missing */
  int64_t round;
  const tt_queries *queries;
  tt_points *points; /* the record of the campaign, on rank 0 */
  /* with campaign.mode asynchronous, on rank 0: */
  tt_workers *workers;     /* NULL: others ask and tell */
  int64_t answered;        /* points that needed no label when this round began */
  int64_t answered_failed; /* those of them without one */
  int64_t trained;         /* labels that its model was trained on */
  tt_pool
      *pool; /* for label.mode hidden, and for texts of inputs that are no levels of the model */
  const tt_columns *input, *target;
  const tt_net_inputs *net; /* levels of the inputs, or NULL */
  double deadline;          /* as in tt_stop_agreed */
} tt_label_request;

/* Get the labels of all queries. Collective: rank 0 runs the calls; all ranks wait and send the
 * heartbeat of the watchdog. *out: the labels in the order of the queries, on all ranks; owner: the
 * caller. May be called again after any error or kill: accepted labels are kept.
 * Errors: STOPPED (stop request; exit code 75, or no output file, for label.max_wait; running calls
 * are killed first), UNAVAILABLE (a call stopped the campaign: the message has its exit code and
 * its first lines; the command cannot be started), DIVERGED (more rows have failed than
 * label.max_failed allows, and others are not labeled yet: these are not asked, running calls are
 * killed, Slurm jobs are canceled), CANTCREAT, IO, MEM. STOPPED also if another start owns the
 * campaign: no call is made and no label accepted. */
tt_err tt_oracle_label(tt_comm *c, const tt_label_request *request, tt_query_labels **out);

/* Workers: campaign.mode asynchronous
 *
 * label.concurrency processes label beside the campaign, `tutti campaign task CAMPAIGN.yaml
 * DIR/label/0003`: children of rank 0, or with label.mode slurm the tasks of an array. A worker
 * asks for points of the record as `tutti ask` does, labels them in its group DIR/label/0003/0017,
 * tells the labels, and asks again, until the campaign has ended. Its newest group stays, and its
 * failed ones. Killed at any moment, it goes on with its newest group, or asks by the name of this
 * group for the same points again. label/0003/worker.log has its messages; `later` or `stop`, why
 * the oracle stopped it. */

/* Start them, and those of earlier starts that have not told their labels. Local. Errors:
 * UNAVAILABLE, CANTCREAT, DATA, IO, MEM, STOPPED. */
tt_err tt_workers_begin_local(const tt_label_request *request, tt_workers **out);
/* Start those again that have ended.
 *   progressed  1 = labels have come
 * Local. Errors: STOPPED (exit code 75 for label.max_wait), UNAVAILABLE, as above. */
tt_err tt_workers_poll_local(tt_workers *w, int progressed);
/* Kill them; with label.mode slurm they go on, unless the campaign has ended. Accepts NULL.
 * Local. */
void tt_workers_end_local(tt_workers **w, int ended);

/* The process of one worker, by its directory. Local. Errors: as tt_oracle_label. */
tt_err tt_worker_run_local(const tt_config *cfg, const char *directory);

/* train.when.labels: the number of new labels that begin the next training. */
static inline int64_t tt_labels_until_training(const tt_config *cfg)
{
  return cfg->train_when_labels > 0 ? cfg->train_when_labels : cfg->select_batch;
}

/* Nobody shall label the queued points of the record but those of the queries. Local. Errors: IO,
 * MEM, STOPPED. */
tt_err tt_oracle_withdraw_local(const tt_label_request *request);

/* Record the accepted labels of the groups in a directory that is about to be moved aside: their
 * campaign may have been killed before it did so. The directory may be missing.
 *   q  points, target, net
 * Local; rank 0 does it. Errors: DATA, CANTCREAT, IO, MEM. */
tt_err tt_oracle_record_labels_local(const tt_label_request *q, const char *directory);

/* The error of a round in which more than label.max_failed of the queries failed.
 *   unasked  queries that were not labeled because of this */
tt_err tt_label_failed_error(const tt_config *cfg, int64_t round, int64_t queried, int64_t failed,
                             int64_t unasked);

/* Label one group in its directory: call the command until accepted.h5 or `failed` exists. Used by
 * a task of a Slurm array (tutti campaign task). Local. Errors: as tt_oracle_label. */
tt_err tt_oracle_label_group_local(const tt_config *cfg, const char *group);
#endif
