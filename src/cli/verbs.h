/* verbs.h — the verbs of the command line. A verb is a row here and a function in verbs_*.c; its
 * prototype, the command and the help follow from the row. */
#ifndef TT_VERBS_H
#define TT_VERBS_H
#include "mpi/comm.h"

enum { TT_VERB_MAX_OPTIONS = 20 };
typedef struct tt_cli_args tt_cli_args; /* cli_args.h */

/* One verb, or a family of verbs ("campaign run", "campaign step"). */
typedef struct tt_verb {
  const char *name, *files; /* files: positional arguments, as shown in the help */
  int min_files, max_files;
  tt_err (*run)(const tt_cli_args *args);
  const char *summary;                     /* at most 47 characters, for one line of the help */
  const char *help;                        /* text of `tutti VERB --help` */
  int8_t options[TT_VERB_MAX_OPTIONS + 1]; /* TT_CLI_SET ...; ends with TT_CLI_END */
  const struct tt_verb *verbs;             /* members of a family; NULL = this is one verb */
} tt_verb;

/* All ranks, NULL if the verb needs no MPI. The verb begins it. main ends it after it has printed
 * the error, because a launcher may drop the output of a rank that has finalized MPI. */
extern tt_comm *tt_world;

#define TT_CLI_TABLE_OPTIONS                                                                       \
  TT_CLI_TARGET_COLUMNS, TT_CLI_INPUT_COLUMNS, TT_CLI_CLASSES, TT_CLI_GROUP, TT_CLI_MEMBER_COUNT,  \
      TT_CLI_EPOCHS, TT_CLI_DELIMITER, TT_CLI_DECIMAL, TT_CLI_NA
#define TT_CLI_RUN_OPTIONS TT_CLI_ALLOW_DEVICE, TT_CLI_QUIET, TT_CLI_VERBOSE

/* The verbs, in the order of the help text.
 *   X  a verb: the fields of tt_verb up to `options`; function train is tt_verb_train
 *   F  a family: name, its verbs, summary */
#define TT_CAMPAIGN_VERBS(X)                                                                       \
  X("init", "DIRECTORY", 1, 1, campaign_init, "write a commented campaign.yaml",                   \
    "Write a commented campaign.yaml for the given data, or a small example.", TT_CLI_DATA,        \
    TT_CLI_POOL, TT_CLI_INPUTS, TT_CLI_TARGETS)                                                    \
  X("run", "CAMPAIGN.yaml", 1, 1, campaign_run, "run to the end; continue after a stop",           \
    "Repeat the rounds of a campaign (train, score the pool, select, label) until a rule of "      \
    "its section stop holds. After an interruption, run the same command again to continue.",      \
    TT_CLI_SET, TT_CLI_FROM, TT_CLI_RUN_OPTIONS)                                                   \
  X("step", "CAMPAIGN.yaml", 1, 1, campaign_step, "run one more round",                            \
    "Run one more round of a campaign; see tutti campaign run.", TT_CLI_SET, TT_CLI_FROM,          \
    TT_CLI_RUN_OPTIONS)                                                                            \
  X("pause", "DIRECTORY", 1, 1, campaign_pause, "stop at the next checkpoint",                     \
    "Stop a running campaign at its next checkpoint, with exit code 75. Continue it with "         \
    "tutti campaign run.",                                                                         \
    TT_CLI_END)                                                                                    \
  X("check", "DIRECTORY", 1, 1, campaign_check, "check the record of all points",                  \
    "Rebuild the state of every point from events.jsonl, print how many are in which state, and "  \
    "compare the labels with those of campaign.h5.",                                               \
    TT_CLI_END)                                                                                    \
  X("replay", "CAMPAIGN.yaml DIRECTORY", 2, 2, campaign_replay,                                    \
    "repeat a campaign without its oracle",                                                        \
    "Repeat the asynchronous campaign in DIRECTORY from the labels in its events.jsonl, in the "   \
    "order in which they came, without an oracle: the models are the same, bit by bit.",           \
    TT_CLI_SET, TT_CLI_RUN_OPTIONS)                                                                \
  X("task", "CAMPAIGN.yaml DIRECTORY", 2, 2, campaign_task, "label, as a task of a campaign",      \
    "Run the label command in the directory of a group, as the tasks of a Slurm array do "         \
    "(label.mode: slurm); with campaign.mode: asynchronous, for one group after the other.",       \
    TT_CLI_SET)

#define TT_SLURM_SCRIPT(X, name, file, summary)                                                    \
  X(name, file, 1, 1, slurm_script, summary,                                                       \
    "Print a batch script that trains the job, or runs the campaign, through time limits and "     \
    "preemption. Change its lines marked CHANGE. Example: tutti slurm train job.yaml > job.sh",    \
    TT_CLI_SITE, TT_CLI_NODES, TT_CLI_GPUS, TT_CLI_TIME)
#define TT_SLURM_VERBS(X)                                                                          \
  TT_SLURM_SCRIPT(X, "train", "JOB.yaml", "print a batch script for a job")                        \
  TT_SLURM_SCRIPT(X, "array", "JOB.yaml", "print one for an array of runs")                        \
  TT_SLURM_SCRIPT(X, "campaign", "CAMPAIGN.yaml", "print one for a campaign")                      \
  X("requeue", "JOB.yaml", 1, 1, slurm_requeue, "in such a script: requeue the job if needed",     \
    "For batch scripts, after `srun tutti train JOB.yaml` or `srun tutti campaign run "            \
    "JOB.yaml`: requeue the job if the run was stopped, hung, or was killed after it wrote "       \
    "a new checkpoint; not if it is done, failed, was stopped by a person, or makes no "           \
    "progress. Prints the checkpoint and the reason, and exits with the exit code of the "         \
    "run.",                                                                                        \
    TT_CLI_SET, TT_CLI_EXIT_CODE, TT_CLI_MAX_RESTARTS)

#define TT_VERBS(X, F)                                                                             \
  X("train", "JOB.yaml|TABLE", 1, 1, train, "train all members, or continue after a stop",         \
    "Train all members of a job; write model.h5 and results.h5. After an interruption, run "       \
    "the same command again to continue from the last checkpoint. A table (.csv, .tsv, .npy, "     \
    ".npz, .h5) with --targets may take the place of the job: tutti proposes a job (tutti init), " \
    "writes it into the directory of the run, and trains it.",                                     \
    TT_CLI_TABLE_OPTIONS, TT_CLI_BY, TT_CLI_RUN_FOLDER, TT_CLI_SET, TT_CLI_RESUME,                 \
    TT_CLI_RUN_OPTIONS)                                                                            \
  X("tune", "TABLE", 1, 1, tune, "search for the best networks for a table",                       \
    "Train many networks (trials) with other widths, learning rates and so on, on folds of the "   \
    "table; at each of three rungs the worse ones stop. The model predicts with a weighted "       \
    "selection of the best ones. Writes the job that it runs into the directory of the run, as "   \
    "tutti train does: tutti train out/job.yaml continues. Example: tutti tune energy.csv "        \
    "--targets heating_load --time 2min",                                                          \
    TT_CLI_PRESET, TT_CLI_BUDGET, TT_CLI_SEARCH_TIME, TT_CLI_FOLDS, TT_CLI_TABLE_OPTIONS,          \
    TT_CLI_RUN_FOLDER, TT_CLI_SET, TT_CLI_RESUME, TT_CLI_RUN_OPTIONS)                              \
  X("init", "TABLE", 1, 1, init, "propose a job for a table",                                      \
    "Read a table (.csv, .tsv, .npy, .npz, .h5), and print a job for it, with a comment for each " \
    "column: what stands in it, how it is used, and why. All cells that cannot be used are "       \
    "named at once. Example: tutti init energy.csv --targets heating_load > job.yaml",             \
    TT_CLI_TABLE_OPTIONS, TT_CLI_BY, TT_CLI_SET, TT_CLI_QUIET)                                     \
  X("predict", "MODEL.h5 DATA.h5", 2, 2, predict, "predict rows, with uncertainties",              \
    "Predict every row: the mean, and the total, aleatoric and epistemic standard deviation. "     \
    "DATA.h5 may be a table: .csv, .tsv, .npy, .npz.",                                             \
    TT_CLI_PREDICTIONS, TT_CLI_FORCE, TT_CLI_INPUTS, TT_CLI_DELIMITER, TT_CLI_DECIMAL, TT_CLI_NA,  \
    TT_CLI_MEMBERS, TT_CLI_QUANTILES, TT_CLI_JACOBIAN, TT_CLI_ONE_GROUP, TT_CLI_QUIET,             \
    TT_CLI_VERBOSE)                                                                                \
  X("evaluate", "MODEL.h5 DATA.h5", 2, 2, evaluate, "score a model on labeled rows",               \
    "Score a model on all labeled rows of a file, which may be a table: .csv, .tsv, .npy, .npz.",  \
    TT_CLI_SCORES, TT_CLI_FORCE, TT_CLI_INPUTS, TT_CLI_DELIMITER, TT_CLI_DECIMAL, TT_CLI_NA,       \
    TT_CLI_TARGETS, TT_CLI_WEIGHTS, TT_CLI_ONE_GROUP, TT_CLI_JSON, TT_CLI_QUIET, TT_CLI_VERBOSE)   \
  X("explain", "MODEL.h5 DATA.h5", 2, 2, explain, "how much each input matters",                   \
    "Show how much each input matters for the predictions on labeled rows: the increase of the "   \
    "error when its values are permuted between the rows, with its spread over the members. "      \
    "DATA.h5 may be a table: .csv, .tsv, .npy, .npz.",                                             \
    TT_CLI_IMPORTANCE, TT_CLI_FORCE, TT_CLI_INPUTS, TT_CLI_DELIMITER, TT_CLI_DECIMAL, TT_CLI_NA,   \
    TT_CLI_TARGETS, TT_CLI_WEIGHTS, TT_CLI_REPEATS, TT_CLI_MOST_ROWS, TT_CLI_SEED,                 \
    TT_CLI_ONE_GROUP, TT_CLI_JSON, TT_CLI_QUIET, TT_CLI_VERBOSE)                                   \
  X("weigh", "MODEL.h5 SCORES.csv", 2, 2, weigh, "weigh members by scores of your own",            \
    "Write a model whose members have the weights that follow from a score of each member, which " \
    "another program has found, for example in a simulation with each member. SCORES.csv has the " \
    "columns member and score. With --value VALUE, the weights of the members of an ensemble are " \
    "by --method top_k: 1 for the VALUE best ones; threshold: 1 for a score of VALUE or better; "  \
    "boltzmann: exp(-|score - best score| / VALUE).",                                              \
    TT_CLI_METHOD, TT_CLI_VALUE, TT_CLI_BETTER, TT_CLI_WEIGHED, TT_CLI_FORCE, TT_CLI_DELIMITER,    \
    TT_CLI_DECIMAL, TT_CLI_NA, TT_CLI_QUIET)                                                       \
  X("export", "MODEL.h5", 1, 1, export, "write a model for other programs",                        \
    "Write a trained model as a file that other programs run without tutti: inputs in the units "  \
    "of the training data; mean, total, aleatoric and epistemic standard deviation. Choose one "   \
    "format.",                                                                                     \
    TT_CLI_ONNX, TT_CLI_C_SOURCE, TT_CLI_TORCH, TT_CLI_EXPORTED, TT_CLI_ONE_GROUP, TT_CLI_FORCE,   \
    TT_CLI_QUIET, TT_CLI_VERBOSE)                                                                  \
  F("campaign", campaign, "active learning: train, select, label, repeat")                         \
  X("ask", "DIRECTORY", 1, 1, ask, "get points of a campaign to label",                            \
    "Print points that the campaign in a directory wants labeled, with their ids. Nobody else "    \
    "gets them until the lease ends. The exit code is 75 if there are none now, and 1 if the "     \
    "campaign has ended. Example: tutti ask campaign -k 8 > points.csv",                           \
    TT_CLI_POINTS, TT_CLI_LEASE, TT_CLI_WHO, TT_CLI_HDF5)                                          \
  X("tell", "DIRECTORY LABELS", 2, 2, tell, "give labels to a campaign",                           \
    "Give the labels in a file to the campaign in a directory: the ids of tutti ask, the targets " \
    "by their names, and optionally status (ok, impossible, crashed, later). All rows are taken "  \
    "or none; what is known already changes nothing.",                                             \
    TT_CLI_NEW, TT_CLI_REPLACE, TT_CLI_WHO, TT_CLI_DELIMITER, TT_CLI_DECIMAL, TT_CLI_NA)           \
  X("plan", "JOB.yaml|TABLE", 1, 1, plan, "check a job; show memory, ranks, file sizes",           \
    "Check a job and its data, and print what it will need: what train refuses, plan refuses "     \
    "too. "                                                                                        \
    "Needs no MPI and writes nothing. A table in the place of a job is as in tutti train.",        \
    TT_CLI_TABLE_OPTIONS, TT_CLI_BY, TT_CLI_SET, TT_CLI_RANKS, TT_CLI_MEASURE, TT_CLI_JSON)        \
  X("doctor", "[JOB.yaml]", 0, 1, doctor, "show ranks, GPUs, libraries, and problems",             \
    "Show the cores and the GPU of each rank, the libraries in use, and all problems with "        \
    "their fix; the exit code is 69 if there are any. Start it with srun or mpirun, as train.",    \
    TT_CLI_SET, TT_CLI_CHECK, TT_CLI_JSON)                                                         \
  X("import", "TABLE.csv", 1, 1, import, "convert a CSV or TSV table to a data file",              \
    "Convert a CSV or TSV table to a data file.", TT_CLI_DATASET, TT_CLI_INPUT_COLUMNS,            \
    TT_CLI_TARGET_COLUMNS, TT_CLI_UNITS, TT_CLI_FORCE, TT_CLI_DELIMITER, TT_CLI_DECIMAL,           \
    TT_CLI_NA, TT_CLI_QUIET, TT_CLI_VERBOSE)                                                       \
  X("info", "FILE.h5", 1, 1, info, "show what a file holds and which job wrote it",                \
    "Show what a file holds and which job wrote it.", TT_CLI_CONFIG, TT_CLI_JSON)                  \
  X("report", "DIRECTORY...", 1, TT_CLI_MAX_FILES, report,                                         \
    "write a page about a run or a campaign",                                                      \
    "Write report.html about the run or the campaign in a directory: one page with a verdict, "    \
    "charts, configuration and origin. Further campaigns are drawn as learning curves for "        \
    "comparison. A file that tutti report did not write is replaced only with --force.",           \
    TT_CLI_PAGE, TT_CLI_FORCE, TT_CLI_JSON)                                                        \
  X("status", "DIRECTORY", 1, 1, status, "show the state of a run or a campaign",                  \
    "Show the state of the run (run.directory) or the campaign (campaign.directory) in a "         \
    "directory, or why it ended. Reads its files only, so it is safe during the run.",             \
    TT_CLI_JSON)                                                                                   \
  X("watch", "DIRECTORY", 1, 1, watch, "show the state again and again until the end",             \
    "Show the state of the run or the campaign in a directory every second until it ends. If "     \
    "the output is not a terminal, show it once. Reads its files only.",                           \
    TT_CLI_ONCE)                                                                                   \
  F("slurm", slurm, "write batch scripts; requeue a stopped job")                                  \
  X("options", "[NAME]", 0, 1, options, "explain the options of a job file",                       \
    "Explain every option of a job file, or those of a name: an option (train.loss, or loss) or "  \
    "a section (data.split).",                                                                     \
    TT_CLI_MARKDOWN)

#define X(name, files, min_files, max_files, function, ...)                                        \
  tt_err tt_verb_##function(const tt_cli_args *args);
#define F(...)
TT_CAMPAIGN_VERBS(X)
TT_SLURM_VERBS(X)
TT_VERBS(X, F)
#undef X
#undef F
#endif
