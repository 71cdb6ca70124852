/* verb_table.c — the verbs in the order of the help text. */
#include "src/cli/verbs.h"

#include <stddef.h>

const tt_verb tt_verbs[] = {
    {"train", "train all members of a job, or go on where it stopped", tt_verb_train},
    {"predict", "mean and uncertainty for every row of a file", tt_verb_predict},
    {"evaluate", "score a model on a labelled file", tt_verb_evaluate},
    {"campaign", "active learning: train, score, select, label, again", tt_verb_campaign},
    {"plan", "check a job; memory, split over ranks, file sizes", tt_verb_plan},
    {"doctor", "what each rank has, and what is wrong with it", tt_verb_doctor},
    {"import", "make a dataset file from a CSV or TSV table", tt_verb_import},
    {"info", "what a file holds and where it comes from", tt_verb_info},
    {"report", "tables of predictions and learning curves from results.h5", tt_verb_report},
    {"status", "what a run does, or why it ended", tt_verb_status},
    {"slurm", "batch scripts, and whether a job is queued again", tt_verb_slurm},
    {"options", "explain every option of a job file", tt_verb_options},
    {NULL, NULL, NULL}};
