/* internal.h — what the self-check compares besides the calls of train:
 * rows.c, team.c. */
#ifndef TT_SELF_CHECK_INTERNAL_H
#define TT_SELF_CHECK_INTERNAL_H
#include "core/model/cohort.h"
#include "core/model/dataset.h"
#include "src/host/resources.h"

enum { TT_SELF_CHECK_WHY = 160, TT_SELF_CHECK_MEMBERS = 6, TT_SELF_CHECK_ROWS = 45 };
enum { TT_SELF_CHECK_VALUES = 2 * 5 * 3 }; /* of a row: inputs of an image; outputs are fewer */
/* One job on one path: the same members on the GPU and on the CPU. */
typedef struct tt_self_check_trial {
  const tt_engine_ops *gpu, *cpu;
  tt_resources use, on_cpu;
  int number, fused;
  int begun; /* the GPU has created an engine: a later error is one of the path */
  tt_config *cfg;
  tt_dataset *data;
  tt_cohorts cohorts;
  const tt_cohort *cohort;
  tt_engine *mine, *theirs;
  tt_state *before, *after, *again, *wanted; /* wanted: by the CPU */
  char why[TT_SELF_CHECK_WHY];               /* what the GPU computes wrong; "": nothing */
} tt_self_check_trial;

/* Keep the first thing that the GPU computes wrong. */
void tt_self_check_blame(tt_self_check_trial *t, int64_t member, const char *what);

/* 1 if values of the GPU are not those of the CPU; the tolerance of losses and predictions is
 * relative. */
int tt_self_check_are_apart(int64_t n, const float *mine, const float *theirs);
extern const double tt_self_check_tolerance;

/* Steps of the layered path on rows of a caller (engine.h: set_batch): by train, and by forward,
 * backward and update. Outputs, gradients and states are compared with those of the CPU. */
tt_err tt_self_check_given_rows(tt_self_check_trial *t);

/* Two engines on the GPU train the members together (team_ops.h), first each with a share of the
 * parts of a batch, then each with a stage: their bits must be those in t->after. On the layered
 * path; nothing happens without parts. */
tt_err tt_self_check_team(tt_self_check_trial *t);
#endif
