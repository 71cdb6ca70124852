/* cli_args.h — table of the options of all verbs; the arguments of one command line. */
#ifndef TT_CLI_ARGS_H
#define TT_CLI_ARGS_H
#include "io/data/data.h"
#include "src/cli/verbs.h"
#include "src/job/job.h"
#include "src/job/table_job.h"

enum { TT_CLI_MAX_FILES = 16, TT_CLI_MAX_OVERRIDES = 256, TT_CLI_MAX_NA = 16 };

/* Options that are not given: a text is NULL, a flag is 0. */
struct tt_cli_args {
  const tt_verb *verb; /* the one that runs */
  const char *name;    /* of the verb, "tutti campaign run" */
  int words;
  char *const *word; /* [words] as they were given */
  int files;
  const char *file[TT_CLI_MAX_FILES]; /* [files] positional arguments */
  int overrides;
  const char *override[TT_CLI_MAX_OVERRIDES]; /* [overrides] section.name=value, of --set */
  const char *delimiter, *decimal;            /* of a CSV file */
  int nas;
  const char *na[TT_CLI_MAX_NA]; /* [nas] texts of missing values in a CSV file */
  const char *classes, *group;   /* of a table: lists of targets that are classes; a column */
  const char *by;                /* of a table: list of columns */
  int member_count, epochs, budget, folds;
  const char *output, *inputs, *targets, *weights, *units, *quantiles, *resume, *from, *data, *pool,
      *site, *time, *preset, *method, *value, *better, *lease, *who;
  int points, hdf5, with_inputs, replace;
  int force, once, check, members, measure, jacobian, onnx, c_source, torch, config, markdown, json;
  int allow_different_device;
  int repeats, rows, seed;
  int ranks, nodes, gpus_per_node, exit_code, max_restarts;
};

/* ID, name, key, argument, kind (see cli_args.c), help. Options with the same name but another
 * meaning have one row each. */
#define TT_CLI_OPTIONS(X)                                                                          \
  X(SET, "set", 's', "KEY=VALUE", OVERRIDE, "override an option of the file: train.epochs=50")     \
  X(QUIET, "quiet", 'q', NULL, LOG(TT_LOG_WARN), "print only warnings and errors")                 \
  X(VERBOSE, "verbose", 'v', NULL, LOG(TT_LOG_DEBUG), "print more")                                \
  X(RESUME, "resume", 0, "HOW", TEXT(resume),                                                      \
    "auto (default): continue from the last checkpoint if there is one; never: remove it and "     \
    "start again, unless another start is running there; must: fail without one")                  \
  X(ALLOW_DEVICE, "allow-different-device", 0, NULL, FLAG(allow_different_device),                 \
    "continue on another device than the checkpoint's; the results are no longer bit-identical")   \
  X(RANKS, "ranks", 0, "N", COUNT(ranks, 1), "number of ranks to plan for (default 1)")            \
  X(MEASURE, "measure", 0, NULL, FLAG(measure),                                                    \
    "train for some seconds, in memory, to tell how long the job takes on this machine")           \
  X(PREDICTIONS, "output", 'o', "FILE", TEXT(output),                                              \
    "file to write (default pred.h5); with the name of a table, pred.csv, a table")                \
  X(SCORES, "output", 'o', "FILE", TEXT(output), "file to write the scores to (default none)")     \
  X(IMPORTANCE, "output", 'o', "FILE", TEXT(output), "file to write (default importance.h5)")      \
  X(REPEATS, "repeats", 0, "N", COUNT(repeats, 1), "permutations of each input (default 5)")       \
  X(MOST_ROWS, "rows", 0, "N", COUNT(rows, 2),                                                     \
    "use at most N rows of the file, drawn at random (default 10000)")                             \
  X(SEED, "seed", 0, "N", COUNT(seed, 0), "seed of rows and permutations (default 1)")             \
  X(RUN_FOLDER, "output", 'o', "DIR", TEXT(output),                                                \
    "of a table: directory of the run (default out), which gets job.yaml too")                     \
  X(CLASSES, "classes", 0, "C,D", TEXT(classes),                                                   \
    "of a table: targets that are classes, with the values 0, 1, ...")                             \
  X(GROUP, "group", 0, "NAME", TEXT(group),                                                        \
    "of a table: column whose rows with the same value stay in one part of the split")             \
  X(BY, "by", 0, "A,B", TEXT(by),                                                                  \
    "of a table: columns; an ensemble of its own for each of their values")                        \
  X(ONE_GROUP, "group", 0, "NAME", TEXT(group),                                                    \
    "of a model that was trained with by: only the ensemble of this value")                        \
  X(MEMBER_COUNT, "members", 0, "N", COUNT(member_count, 1),                                       \
    "of a table: members of each ensemble")                                                        \
  X(EPOCHS, "epochs", 0, "N", COUNT(epochs, 1), "of a table: most epochs of a member")             \
  X(PRESET, "preset", 0, "NAME", TEXT(preset), "fast, good (default) or best")                     \
  X(BUDGET, "budget", 0, "N", COUNT(budget, 2), "most trials (default: that of the preset)")       \
  X(SEARCH_TIME, "time", 0, "TIME", TEXT(time),                                                    \
    "wall time for everything, e.g. 2min: as many trials as fit (default: no limit)")              \
  X(FOLDS, "folds", 0, "N", COUNT(folds, 1), "members of a trial (default: that of the preset)")   \
  X(DATASET, "output", 'o', "FILE", TEXT(output), "data file to write")                            \
  X(PAGE, "output", 'o', "DIR", TEXT(output), "directory of report.html (default DIRECTORY)")      \
  X(WEIGHED, "output", 'o', "FILE", TEXT(output), "model file to write")                           \
  X(METHOD, "method", 0, "NAME", TEXT(method), "top_k, threshold or boltzmann")                    \
  X(VALUE, "value", 0, "VALUE", TEXT(value), "the number of the method")                           \
  X(BETTER, "better", 0, "WHICH", TEXT(better), "lower or higher: which scores are better")        \
  X(EXPORTED, "output", 'o', "FILE", TEXT(output),                                                 \
    "file to write (default model.onnx, model.c or model.py)")                                     \
  X(ONNX, "onnx", 0, NULL, FLAG(onnx), "write a graph for ONNX runtimes")                          \
  X(C_SOURCE, "c", 0, NULL, FLAG(c_source), "write one C file without dependencies")               \
  X(TORCH, "torch", 0, NULL, FLAG(torch), "write one Python file with a module of PyTorch")        \
  X(INPUTS, "inputs", 0, "NAME", TEXT(inputs),                                                     \
    "dataset or columns of the inputs (default x, or those of the model)")                         \
  X(TARGETS, "targets", 0, "NAME", TEXT(targets), "dataset or columns of the targets (default y)") \
  X(WEIGHTS, "weights", 0, "NAME", TEXT(weights), "dataset of the sample weights (default none)")  \
  X(DELIMITER, "delimiter", 0, "NAME", TEXT(delimiter),                                            \
    "what separates the columns of a CSV file: auto (default), comma, semicolon, tab, pipe")       \
  X(DECIMAL, "decimal", 0, "NAME", TEXT(decimal),                                                  \
    "decimal mark in a CSV file: point (default) or comma")                                        \
  X(NA, "na", 0, "TEXT", NA_TEXT,                                                                  \
    "text of a missing value in a CSV file, besides the usual ones; may be given several times")   \
  X(INPUT_COLUMNS, "inputs", 0, "A,B", TEXT(inputs), "columns that are inputs")                    \
  X(TARGET_COLUMNS, "targets", 0, "C,D", TEXT(targets),                                            \
    "columns that are targets; an empty cell is unlabeled")                                        \
  X(UNITS, "units", 0, "A=kg,C=m", TEXT(units), "units of columns")                                \
  X(FORCE, "force", 0, NULL, FLAG(force), "replace an output file that exists")                    \
  X(MEMBERS, "members", 0, NULL, FLAG(members), "also write each member's mean and variance")      \
  X(JACOBIAN, "jacobian", 0, NULL, FLAG(jacobian),                                                 \
    "also write the derivatives of mean and standard deviations by the inputs")                    \
  X(QUANTILES, "quantiles", 0, "LIST", TEXT(quantiles),                                            \
    "also write quantiles of the predictive mixture, e.g. 0.05,0.95")                              \
  X(CONFIG, "config", 0, NULL, FLAG(config),                                                       \
    "print the resolved configuration of the job that wrote the file")                             \
  X(MARKDOWN, "markdown", 0, NULL, FLAG(markdown), "print a Markdown page")                        \
  X(JSON, "json", 0, NULL, FLAG(json), "print one JSON object")                                    \
  X(ONCE, "once", 0, NULL, FLAG(once), "show the state once")                                      \
  X(CHECK, "check", 0, NULL, FLAG(check),                                                          \
    "compare each GPU with the CPU again, on every path that training can take")                   \
  X(FROM, "from", 0, "ROUND:STAGE", TEXT(from),                                                    \
    "repeat everything from this stage on, e.g. 12:select (stages: train, score, select, label, "  \
    "merge)")                                                                                      \
  X(DATA, "data", 0, "FILE.h5", TEXT(data), "labeled samples to start with")                       \
  X(POINTS, "points", 'k', "N", COUNT(points, 1), "at most N points (default 1)")                  \
  X(LEASE, "lease", 0, "TIME", TEXT(lease),                                                        \
    "time after which the points may be given to somebody else, e.g. 30min (default 2h)")          \
  X(WHO, "who", 0, "NAME", TEXT(who), "who labels, for the record (default user@host)")            \
  X(HDF5, "hdf5", 0, NULL, FLAG(hdf5), "print an HDF5 file, not a table")                          \
  X(NEW, "new", 0, NULL, FLAG(with_inputs),                                                        \
    "the table has inputs in place of ids: points that nobody has asked for")                      \
  X(REPLACE, "replace", 0, NULL, FLAG(replace), "replace labels that have other values")           \
  X(POOL, "pool", 0, "FILE.h5", TEXT(pool), "the candidates")                                      \
  X(SITE, "site", 0, "NAME", TEXT(site),                                                           \
    "computing center: a file of slurm/site (default generic)")                                    \
  X(NODES, "nodes", 0, "N", COUNT(nodes, 1), "number of nodes")                                    \
  X(GPUS, "gpus-per-node", 0, "G", COUNT(gpus_per_node, 1),                                        \
    "number of GPUs per node; one rank for each")                                                  \
  X(TIME, "time", 0, "TIME", TEXT(time), "time limit of each Slurm job, e.g. 4:00:00")             \
  X(EXIT_CODE, "exit-code", 0, "CODE", COUNT(exit_code, 0), "exit code of srun or mpirun")         \
  X(MAX_RESTARTS, "max-restarts", 0, "N", COUNT(max_restarts, 0),                                  \
    "how often Slurm may start the job again (default 50)")

enum {
  TT_CLI_END, /* marks the end of the options of a verb */
#define X(id, ...) TT_CLI_##id,
  TT_CLI_OPTIONS(X)
#undef X
      TT_CLI_OPTION_COUNT
};

/* What --help prints of a family of verbs, "tutti campaign"; the last one has name NULL. */
void tt_cli_print_verbs(FILE *file, const char *family, const tt_verb *verbs);

/* Parse the arguments of a verb. Exits with 64 on a wrong command line, with 0 on --help.
 *   argv  argv[0] is the name in messages, "tutti train" */
void tt_cli_parse(const tt_verb *verb, int argc, char **argv, tt_cli_args *args);

/* Begin MPI (tt_world) for a verb of several ranks, and check that all ranks have the same program,
 * verb, files and options, but for --quiet and --verbose.
 *   singletons  1 = singletons are no error (tt_comm_begin_singletons)
 * Ends the process with 75 if MPI does not start within ten minutes.
 * Collective. Errors: as tt_comm_begin; CONFIG (the message names the first difference), MEM. */
tt_err tt_cli_begin(const tt_cli_args *args, int singletons);

/* Job options: the first positional argument is the job file, with all overrides. */
tt_job_options tt_cli_job(const tt_cli_args *args);

/* Whether the first positional argument is a table, and no job. */
int tt_cli_has_table(const tt_cli_args *args);
/* Errors: USAGE (options that a job file cannot have). */
tt_err tt_cli_no_table_options(const tt_cli_args *args);
/* Local. The job of the table (src/job/table_job.h), as it is printed; *text also after an error of
 * the data. Owner: the caller, tt_free. Errors: as tt_table_job_write_local; CONFIG; DATA (the
 * message has all cells that cannot be used). */
tt_err tt_cli_table_job_local(const tt_cli_args *args, char **text);
/* Collective. The job of the table, on all ranks, and in the file job.yaml of its directory, which
 * rank 0 writes if the data can be used.
 *   file  [TT_PATH_MAX] receives its name
 * Errors: the same; CANTCREAT (the file has another job), IO. */
tt_err tt_cli_table_job(tt_comm *c, const tt_cli_args *args, char *file, char **text);

/* How the CSV file of a verb is written. Errors: USAGE. */
tt_err tt_cli_format(const tt_cli_args *args, tt_table_format *out);
/* Collective. What the command line does not say of it is as in the data of the model, the first
 * positional argument; nothing changes if that is no model.
 *   job  owns texts of *out; owner: the caller, tt_config_destroy
 * Errors: MEM. */
tt_err tt_cli_format_of_model(tt_comm *c, const tt_cli_args *args, tt_table_format *out,
                              tt_config **job);
#endif
