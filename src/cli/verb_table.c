/* verb_table.c — table of the verbs, in the order of the help text. */
#include "src/cli/cli_args.h"

#define VERB(name_, files_, min_, max_, run_, summary_, help_, ...)                                \
  {                                                                                                \
    name_, files_, min_, max_, summary_, help_, {__VA_ARGS__}, run_, NULL                          \
  }
#define FAMILY(name_, verbs_, summary_)                                                            \
  {                                                                                                \
    name_, "VERB ...", 0, 0, summary_, NULL, {TT_CLI_END}, NULL, verbs_                            \
  }
#define RUN_OPTIONS TT_CLI_MAX_TIME, TT_CLI_ALLOW_DEVICE, TT_CLI_QUIET, TT_CLI_VERBOSE

static const tt_verb campaign_verbs[] = {
    VERB("init", "DIRECTORY", 1, 1, tt_verb_campaign_init, "write a commented campaign.yaml",
         "Write a commented campaign.yaml for the given data, or a small example.", TT_CLI_DATA,
         TT_CLI_POOL),
    VERB("run", "CAMPAIGN.yaml", 1, 1, tt_verb_campaign_run,
         "run to the end; continue after a stop",
         "Repeat the rounds of a campaign (train, score the pool, select, label) until a rule of "
         "its section stop holds. After an interruption, run the same command again to continue.",
         TT_CLI_SET, TT_CLI_FROM, RUN_OPTIONS),
    VERB("step", "CAMPAIGN.yaml", 1, 1, tt_verb_campaign_step, "run one more round",
         "Run one more round of a campaign; see tutti campaign run.", TT_CLI_SET, TT_CLI_FROM,
         RUN_OPTIONS),
    VERB("status", "DIRECTORY", 1, 1, tt_verb_campaign_status, "show its state, or why it ended",
         "Show the state of the campaign in a directory (campaign.directory), or why it ended. "
         "Reads its files only, so it is safe while the campaign runs.",
         TT_CLI_JSON),
    VERB("label", "DIRECTORY LABELS", 2, 2, tt_verb_campaign_label, "import labels made by hand",
         "Import labels made by hand (label.mode: files): an HDF5 or CSV file with the numbers of "
         "the candidates and their targets.",
         TT_CLI_END),
    VERB("pause", "DIRECTORY", 1, 1, tt_verb_campaign_pause, "stop at the next checkpoint",
         "Stop a running campaign at its next checkpoint, with exit code 75. Continue it with "
         "tutti campaign run.",
         TT_CLI_END),
    VERB("report", "DIRECTORY [BASELINE...]", 1, TT_CLI_MAX_FILES, tt_verb_campaign_report,
         "write rounds and learning curve",
         "Print a table of all rounds and write the learning curve as learning.tsv and "
         "learning.svg, together with the curves of other campaigns, e.g. one with "
         "score.acquisition: random.",
         TT_CLI_TABLES),
    VERB("task", "CAMPAIGN.yaml GROUP", 2, 2, tt_verb_campaign_task,
         "label one group, as a Slurm array task",
         "Run the label command for one group of candidates, in the group's directory. The tasks "
         "of a Slurm array (label.mode: slurm) run this.",
         TT_CLI_SET),
    {0}};

#define SCRIPT(name_, file_, summary_)                                                             \
  VERB(name_, file_, 1, 1, tt_verb_slurm_script, summary_,                                         \
       "Print a batch script that trains the job, or runs the campaign, to the end, through time " \
       "limits and preemption. Example: tutti slurm train job.yaml > job.sbatch; sbatch "          \
       "job.sbatch",                                                                               \
       TT_CLI_SITE, TT_CLI_NODES, TT_CLI_GPUS, TT_CLI_TIME)

static const tt_verb slurm_verbs[] = {
    SCRIPT("train", "JOB.yaml", "print a batch script for a job"),
    SCRIPT("array", "JOB.yaml", "print one for an array of runs"),
    SCRIPT("campaign", "CAMPAIGN.yaml", "print one for a campaign"),
    VERB("requeue", "JOB.yaml", 1, 1, tt_verb_slurm_requeue,
         "in such a script: requeue the job if needed",
         "For batch scripts, after `srun tutti train JOB.yaml` or `srun tutti campaign run "
         "JOB.yaml`: requeue the job if the run was stopped, hung, or was killed after it wrote "
         "a new checkpoint; not if it is done, failed, was stopped by a person, or makes no "
         "progress. Prints the checkpoint and the reason, and exits with the exit code of the "
         "run.",
         TT_CLI_SET, TT_CLI_EXIT_CODE, TT_CLI_MAX_RESTARTS),
    {0}};

const tt_verb tt_verbs[] = {
    VERB("train", "JOB.yaml", 1, 1, tt_verb_train, "train all members, or continue after a stop",
         "Train all members of a job; write model.h5 and results.h5. After an interruption, run "
         "the same command again to continue from the last checkpoint.",
         TT_CLI_SET, TT_CLI_RESUME, TT_CLI_GPU_MAP, TT_CLI_SHARE_GPU, RUN_OPTIONS),
    VERB("predict", "MODEL.h5 DATA.h5", 2, 2, tt_verb_predict, "predict rows, with uncertainties",
         "Predict every row: the mean, and the total, aleatoric and epistemic standard deviation.",
         TT_CLI_PREDICTIONS, TT_CLI_INPUTS, TT_CLI_MEMBERS, TT_CLI_QUANTILES, TT_CLI_QUIET,
         TT_CLI_VERBOSE),
    VERB("evaluate", "MODEL.h5 DATA.h5", 2, 2, tt_verb_evaluate, "score a model on labelled rows",
         "Score a model on all labelled rows of a file.", TT_CLI_SCORES, TT_CLI_INPUTS,
         TT_CLI_TARGETS, TT_CLI_QUIET, TT_CLI_VERBOSE),
    FAMILY("campaign", campaign_verbs, "active learning: train, select, label, repeat"),
    VERB("plan", "JOB.yaml", 1, 1, tt_verb_plan, "check a job; show memory, ranks, file sizes",
         "Check a job and print what it will need. Starts no MPI and writes nothing; of the "
         "samples, only the labels are read, to count classes.",
         TT_CLI_SET, TT_CLI_RANKS),
    VERB("doctor", "[JOB.yaml]", 0, 1, tt_verb_doctor, "show ranks, GPUs, libraries, and problems",
         "Show the cores and the GPU of each rank, the libraries in use, and all problems with "
         "their fix; the exit code is 69 if there are any. Start it with srun or mpirun, as train.",
         TT_CLI_SET, TT_CLI_GPU_MAP, TT_CLI_SHARE_GPU),
    VERB("import", "TABLE.csv", 1, 1, tt_verb_import, "convert a CSV or TSV table to a data file",
         "Convert a CSV or TSV table to a data file.", TT_CLI_DATASET, TT_CLI_INPUT_COLUMNS,
         TT_CLI_TARGET_COLUMNS, TT_CLI_UNITS, TT_CLI_FORCE, TT_CLI_QUIET, TT_CLI_VERBOSE),
    VERB("info", "FILE.h5", 1, 1, tt_verb_info, "show what a file holds and which job wrote it",
         "Show what a file holds and which job wrote it.", TT_CLI_CONFIG),
    VERB("report", "RESULTS.h5", 1, 1, tt_verb_report, "draw the results of a run; write tables",
         "Write report.svg (predicted against measured, learning curves, calibration) and its "
         "numbers: predictions.tsv, history.tsv.",
         TT_CLI_TABLES),
    VERB("status", "DIRECTORY", 1, 1, tt_verb_status, "show the state of a run or a campaign",
         "Show the state of the run (run.directory) or the campaign (campaign.directory) in a "
         "directory, or why it ended. Reads its files only, so it is safe during the run.",
         TT_CLI_JSON),
    FAMILY("slurm", slurm_verbs, "write batch scripts; requeue a stopped job"),
    VERB("options", "", 0, 0, tt_verb_options, "explain every option of a job file",
         "Explain every option of a job file.", TT_CLI_MARKDOWN),
    {0}};
