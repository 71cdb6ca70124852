/* plan_teams.c — see plan_internal.h. The formulas: docs/internals/scaling.md. */
#include "src/tools/plan_internal.h"

#include "core/base/mem.h"
#include "core/engine/pipeline.h"
#include "core/model/parts.h"
#include "src/host/memory_limits.h"

#include <inttypes.h>

enum { MOST_SHOWN = 8 }; /* ranks whose share is printed */

/* What a team does with a member. */
typedef struct team_plan {
  double speedup; /* at most, without the time of the exchange */
  double bubble;  /* fraction of the time in which a stage waits for others */
  double step;    /* bytes that a rank sends in a step, at most */
  double epoch;   /* and at the end of an epoch */
} team_plan;

/* A step: sums of the parts of a rank for the segments of the others, weights of its own segment
 * and words to each of them. */
static void add_rank(const tt_cohort *c, int ranks, int rank, team_plan *p)
{
  double params = (double)c->model.params;
  double own = (double)tt_part_segment(c->model.params, ranks, rank).count;
  int sums = tt_part_sums_of(c->parts, tt_part_slice(c->parts, ranks, rank), NULL).count;
  double step = 4.0 * (sums * (params - own) + (ranks - 1) * own);
  if (step > p->step) p->step = step;
}

static team_plan plan_parts(const tt_cohort *c, int ranks)
{
  team_plan p = {0};
  int64_t most = (c->parts + ranks - 1) / ranks;
  for (int r = 0; r < ranks; r++) add_rank(c, ranks, r, &p);
  p.speedup = (double)c->parts / (double)most;
  return p;
}

/* A step: outputs of each part to the next stage, gradients to the one before, words to every
 * rank; with several ranks for a stage, sums of the parts and new weights among them. At the end of
 * an epoch: weights and averages of the segment of a rank to each other rank. */
static void add_place(const tt_cohort *c, tt_pipeline_grid grid, int ranks, int rank, team_plan *p)
{
  const tt_model *m = &c->model;
  const tt_pipeline_place place = tt_pipeline_place_of(m, grid, c->parts, rank);
  int next = place.layers.first + place.layers.count, neighbors = grid.columns - 1;
  int before = place.stage > 0 && tt_pipeline_has_gradient(m, place.layers.first);
  int behind = place.stage < grid.stages - 1;
  int sums = neighbors ? tt_part_sums_of(c->parts, place.parts, NULL).count : 0;
  double values = (double)(before * tt_pipeline_values(m, place.layers.first) +
                           behind * tt_pipeline_values(m, next));
  double own = (double)place.segment.count, parts = (double)place.parts.count;
  double rows = (double)c->batch_size * parts / (double)c->parts;
  double step =
      4.0 * (values * rows + sums * ((double)place.layers.params.count - own) + neighbors * own);
  double arrays = c->average == TT_AVERAGE_none ? 1.0 : 2.0;
  double epoch = 4.0 * arrays * own * (ranks - 1);
  if (step > p->step) p->step = step;
  if (epoch > p->epoch) p->epoch = epoch;
}

static team_plan plan_stages(const tt_cohort *c, tt_pipeline_grid grid, int ranks)
{
  int64_t parts = tt_pipeline_column_parts(grid, c->parts);
  team_plan p = {.speedup = tt_pipeline_speedup(&c->model, grid, c->parts),
                 .bubble = tt_pipeline_bubble(grid.stages, parts)};
  for (int r = 0; r < grid.stages * grid.columns; r++) add_place(c, grid, ranks, r, &p);
  return p;
}

static void print_parts_of(FILE *out, const tt_cohort *c, int ranks)
{
  for (int r = 0; r < ranks && r < MOST_SHOWN; r++)
    fprintf(out, "%s %" PRId64, r ? " +" : "", tt_part_slice(c->parts, ranks, r).count);
  if (ranks > MOST_SHOWN) fprintf(out, " + ...");
}

static void print_layers(FILE *out, const tt_cohort *c, int stages)
{
  tt_pipeline_stage stage[TT_MAX_STAGES];
  tt_pipeline_cut(&c->model, stages, stage);
  for (int s = 0; s < stages && s < MOST_SHOWN; s++)
    fprintf(out, "%s %d", s ? " +" : "", stage[s].count);
  if (stages > MOST_SHOWN) fprintf(out, " + ...");
}

static void print_parts(FILE *out, const tt_cohort *c, int ranks)
{
  const team_plan p = plan_parts(c, ranks);
  char step[32];
  fprintf(out, "%" PRId64 " parts of a batch are dealt", c->parts);
  print_parts_of(out, c, ranks);
  fprintf(out, "; a rank sends up to %s a step\n", tt_memory_text(p.step, step));
}

static void print_stages(FILE *out, const tt_cohort *c, int ranks, int stages)
{
  const tt_pipeline_grid grid = tt_pipeline_grid_of(&c->model, stages, ranks);
  const team_plan p = plan_stages(c, grid, ranks);
  int used = grid.stages * grid.columns;
  char step[32], epoch[32];
  fprintf(out, "%d layers in %d stage%s:", tt_pipeline_layers(&c->model), grid.stages,
          grid.stages == 1 ? "" : "s");
  print_layers(out, c, grid.stages);
  fprintf(out, "; with %" PRId64 " parts a stage waits %.0f %% of the time\n",
          tt_pipeline_column_parts(grid, c->parts), 100.0 * p.bubble);
  if (grid.columns > 1) {
    fprintf(out, "           %d ranks for each stage, to which the parts of a batch are dealt",
            grid.columns);
    print_parts_of(out, c, grid.columns);
    fprintf(out, "\n");
  }
  fprintf(out,
          "           at most %.2f times as fast as one rank; a rank sends up to %s a step, %s at "
          "the end of an epoch\n",
          p.speedup, tt_memory_text(p.step, step), tt_memory_text(p.epoch, epoch));
  if (used < ranks)
    fprintf(out, "           %d of %d ranks have no layers: %d stage%s of %d\n", ranks - used,
            ranks, grid.stages, grid.stages == 1 ? "" : "s", grid.columns);
}

static void print_number(FILE *out, const tt_cohorts *all, int64_t i)
{
  fprintf(out, "           ");
  if (all->count > 1) fprintf(out, "cohort %" PRId64 ": ", i);
}

void tt_plan_print_team(FILE *out, const tt_cohorts *all, int ranks, int stages)
{
  for (int64_t i = 0; i < all->count; i++) {
    const tt_cohort *c = all->at[i];
    print_number(out, all, i);
    if (c->parts == 1)
      fprintf(out, "no parts, one rank of a team trains\n");
    else if (stages > 1)
      print_stages(out, c, ranks, stages);
    else
      print_parts(out, c, ranks);
  }
}

void tt_plan_print_choice(FILE *out, const tt_cohorts *all, int ranks)
{
  int64_t members = tt_cohorts_members(all);
  int team = (int)((ranks + members - 1) / members);
  char step[32];
  fprintf(out, "ranks      fewer members than ranks: train.parts and run.ranks_per_member let "
               "several ranks train one member\n");
  for (int64_t i = 0; i < all->count && team > 1; i++) {
    const tt_cohort *c = all->at[i];
    if (c->parts == 1) continue;
    const tt_pipeline_grid grid = tt_pipeline_grid_of(&c->model, team, team);
    const team_plan parts = plan_parts(c, team), stages = plan_stages(c, grid, team);
    print_number(out, all, i);
    fprintf(out, "run.ranks_per_member: %d at most %.2f times as fast, %s a rank and step\n", team,
            parts.speedup, tt_memory_text(parts.step, step));
    print_number(out, all, i);
    fprintf(out, "run.stages: %d at most %.2f times as fast (waits %.0f %%), %s a rank and step\n",
            team, stages.speedup, 100.0 * stages.bubble, tt_memory_text(stages.step, step));
  }
}
