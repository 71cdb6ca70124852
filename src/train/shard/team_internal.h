/* team_internal.h — what a step in parts (team_training.c) and a step in stages (team_stages.c)
 * share: team_exchange.c. */
#ifndef TT_TEAM_INTERNAL_H
#define TT_TEAM_INTERNAL_H
#include "src/train/shard/shard.h"

/* What the ranks tell each other in each step. */
typedef struct tt_team_word {
  int64_t failed, stop, training;
  double loss[TT_MAX_PART_SUMS]; /* of the sums of this rank's parts, in the last stage */
} tt_team_word;

/* One block of memory; the arrays follow the struct. Without stages the grid has one stage. */
typedef struct tt_team_buffers {
  tt_pipeline_grid grid;
  tt_pipeline_place place; /* of this rank */
  tt_slice group, last;    /* ranks that share the parts: with this one; of the last stage */
  tt_part_sums *sums;      /* [ranks] of the parts of each rank */
  tt_team_word *word;      /* [ranks] */
  tt_slice *segment;       /* [ranks] of the parameters that each rank updates */
  tt_slice *blocks;        /* [ranks] of the norm, whose squares each rank adds */
  tt_slice *shares;        /* [ranks] of any array */
  tt_team_message *send, *receive; /* [ranks * TT_MAX_PART_SUMS] */
  double *block;                   /* [blocks of the parameters] sums of squares */
  /* Of the engine's device, if the team is on_device. */
  float *w;        /* [P] of tt_team_scratch, unless that is a sum */
  float *incoming; /* sums of other ranks for the segment of this rank: where it is in a float4 */
  int64_t stride;  /* from one of them to the next: whole float4 */
  float *lane;     /* [8][values of a part between two stages, at most]; with stages */
} tt_team_buffers;

/* One member in a call. */
typedef struct tt_team_member {
  tt_shard *shard;
  tt_shard_team *team;
  int64_t m; /* number in the cohort */
  int ranks, rank;
  tt_slice segment;
  float *sum[TT_MAX_PART_SUMS]; /* of this rank's parts */
  tt_err error;                 /* of this rank; the next tt_team_word tells the others */
} tt_team_member;

/* Largest number of values of a part that pass from one stage to the next of several. */
int64_t tt_team_lane_values(const tt_cohort *c);

/* Tell the others mine, but for failed and stop, which this function sets. Returns 1 if the step is
 * taken, 0 if the member does not train, -1 if the call ends because of an error of a rank. *stop:
 * a rank is to stop after this step. */
int tt_team_exchange_words(tt_team_member *x, tt_team_word *mine, int *stop);

/* The loss of the batch: those of the words, added in tree order. */
double tt_team_add_losses(const tt_team_member *x);

/* Reduce-scatter among the ranks that share the parts of a batch: the sums of all of them for the
 * segment of this rank, added in tree order. Returns the gradient [segment.count]. */
float *tt_team_reduce(tt_team_member *x);

/* Memory for one value of each parameter [P]. On the host it is the first sum of this rank, and
 * overwrites it. On a device it is separate: kernels expect that sums are 0 for frozen layers. */
float *tt_team_scratch(const tt_team_member *x);

/* The state of a team with member m of the cohort, and its number there: on rank 0 that of all
 * members, on the others one for each member in turn. */
tt_state *tt_team_state(const tt_shard *shard, int64_t m, int64_t *i);

/* The first messages of the buffers: values of the engine's memory. An error is in x->error. */
void tt_team_exchange_values(tt_team_member *x, int64_t sends, int64_t receives);

/* Of some ranks, each has its slice of an array of the engine's memory and gets those of the
 * others.
 *   slice  [ranks of the team] slice of each rank */
void tt_team_exchange_slices(tt_team_member *x, tt_slice ranks, const tt_slice *slice,
                             float *array);

/* How the ranks share the end of an epoch. The sums of the parts must not be needed any more. */
tt_epoch_sharing tt_team_share(tt_team_member *x);

/* Sum of squares of the whole gradient, if the member is clipped, else 0. */
double tt_team_squares(tt_team_member *x, tt_slice blocks, float *gradient);
int tt_team_is_clipped(const tt_team_member *x);

/* One step of a team with stages. Returns as tt_team_exchange_words. */
int tt_team_stage_step(tt_team_member *x, int *epoch_ended, int *stop);
#endif
