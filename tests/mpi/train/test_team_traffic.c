/* test_team_traffic.c — what ranks that train a member together send, and the memory that it takes, are
 * what the plan says. */
#include "tests/support/team_problem.h"

#include "src/train/memory_plan.h"

/* The memory of the device for an exchange, which the engine allocates, is that of the plan. */
static int64_t planned_scratch;
static tt_err checked_scratch(tt_engine *e, int64_t count, float **out)
{
  int64_t before = HELD;
  TT_CHECK_OK(ENGINE.team->device_scratch(e, count, out));
  TT_CHECK(HELD - before, ==, planned_scratch);
  planned_scratch = 0;
  return TT_OK;
}

/* What the plan says of the memory of the GPU of this rank, with the data set. */
static int64_t planned_bytes(problem *p, int stages)
{
  const char *text = "data: {file: a.h5}\nensembles: [{name: one}]\n";
  int ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm);
  tt_config *cfg = NULL;
  tt_cohort *cohort = &p->c;
  const tt_cohorts cohorts = {1, &cohort};
  tt_device_info info = {.capability = 0};
  tt_resources resources = use;
  tt_memory_plan plan;
  const tt_data_shape shape = {
      .rows = ROWS, .inputs = p->d->inputs, .net_inputs = p->d->inputs, .targets = p->d->targets};
  resources.device_exchange = on_device;
  TT_CHECK_OK(ENGINE.describe(0, &info));
  const tt_path_context gpu = {.shared_bytes = info.shared_bytes,
                               .capability = info.capability,
                               .multiprocessors = info.multiprocessors};
  TT_CHECK_OK(tt_config_parse("job.yaml", text, (int64_t)strlen(text), NULL, 0, &cfg));
  cfg->run_ranks_per_member = ranks;
  cfg->run_stages = stages;
  const tt_memory_job job = {.cfg = cfg,
                             .cohorts = &cohorts,
                             .shape = &shape,
                             .ops = &ENGINE,
                             .use = &resources,
                             .gpu = &gpu,
                             .gpu_bytes = 1e9};
  TT_CHECK_OK(tt_memory_plan_rank(&job, ranks, rank, &plan));
  tt_config_destroy(&cfg);
  return (int64_t)plan.device;
}

/* The GPU of a rank of a team with problem i holds what the plan says. */
static void gpu_holds_the_plan(int i, int stages)
{
  tt_team_ops team = *ENGINE.team;
  tt_engine_ops checked = ENGINE;
  problem p = make(i);
  cast c;
  int64_t before = HELD;
  team.device_scratch = checked_scratch;
  checked.team = &team;
  planned_scratch =
      tt_team_device_bytes_local(&p.c, stages, tt_comm_ranks(comm), tt_comm_rank(comm));
  TT_CHECK(planned_scratch, >=, 4 * p.c.model.params);
  start(&p, 1, stages, &checked, &c);
  TT_CHECK_OK(tt_team_train(c.shard, TT_OK, 1));
  TT_CHECK(planned_scratch == 0, ==, on_device); /* it was allocated */
  int64_t spare = planned_bytes(&p, stages) - (HELD - before);
  TT_CHECK(spare, >=, 0);
  TT_CHECK(spare, <=, 256); /* arrays without elements */
  end(&c);
  problem_free(&p);
}

TT_TEST (a_gpu_of_a_team_holds_the_planned_bytes) {
  for (int i = 1; i < 4 && DOUBLE; i += 2)
    for (int k = 0; k < 2 * WAYS; k++) {
      on_device = k % 2;
      gpu_holds_the_plan(i, stages_of(1, k / 2));
    }
  on_device = 0;
}

/* Bytes and messages of a step: a word to each other rank; the sums of the parts of each rank for
 * the segments of the others; the new weights of its own segment to each other rank. After the last
 * step of a call one more word. The same from memory of a device, to which nothing is copied then. */
static void step_sends(problem *p)
{
  cast c;
  int ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm);
  int64_t params = p->c.model.params, own = tt_part_segment(params, ranks, rank).count;
  start(p, 1, 0, &ENGINE, &c);
  TT_CHECK_OK(tt_team_train(c.shard, TT_OK, 1)); /* allocates */
  tt_team_traffic before = tt_team_traffic_local(c.team);
  int64_t uploaded = UPLOADED;
  TT_CHECK_OK(tt_team_train(c.shard, TT_OK, 1)); /* one step of each member */
  tt_team_traffic after = tt_team_traffic_local(c.team);
  int sums = tt_part_sums_of(p->c.parts, tt_part_slice(p->c.parts, ranks, rank), NULL).count;
  int64_t word = 3 * 8 + TT_MAX_PART_SUMS * 8, full = own > 0, messages = 0;
  for (int r = 0; r < ranks; r++)
    messages += r != rank && tt_part_segment(params, ranks, r).count > 0;
  int64_t bytes = (ranks - 1) * word + 4 * sums * (params - own) + 4 * (ranks - 1) * own;
  TT_CHECK(after.bytes - before.bytes, ==, MEMBERS * (bytes + (ranks - 1) * word));
  TT_CHECK(after.messages - before.messages, ==,
           MEMBERS * (2 * (ranks - 1) + sums * messages + (ranks - 1) * full));
  if (DOUBLE && !on_device) TT_CHECK(UPLOADED - uploaded, >=, 4 * MEMBERS * params);
  if (on_device) TT_CHECK(UPLOADED - uploaded, <, 256);
  end(&c);
}

TT_TEST (a_step_sends_what_the_model_says) {
  problem p = make(1); /* not clipped */
  p.c.batch_size = 20; /* the second step does not end an epoch */
  for (on_device = 0; on_device <= DOUBLE; on_device++) step_sends(&p);
  on_device = 0;
  problem_free(&p);
}

/* Of a rank in the grid: outputs of a stage go to the next one, and as many gradients come back if
 * a layer before them trains; the ranks of a stage exchange the sums of their parts and the weights of their segments. */
static tt_team_traffic traffic_in_stages(const problem *p, tt_pipeline_grid grid, int rank)
{
  const tt_pipeline_place place = tt_pipeline_place_of(&p->c.model, grid, p->c.parts, rank);
  int sums = tt_part_sums_of(p->c.parts, place.parts, NULL).count;
  tt_team_traffic all = {0, 0};
  for (int64_t i = place.parts.first; i < place.parts.first + place.parts.count; i++) {
    int64_t rows = (tt_part_rows(p->c.batch_size, p->c.parts, i).count + 15) / 16 * 16;
    int64_t before = place.stage > 0 && place.layers.first > tt_model_frozen(&p->c.model);
    int64_t behind = place.stage < grid.stages - 1;
    const tt_layer *first = &p->c.model.layer[place.layers.first];
    all.messages += (before + behind) * (rows > 0);
    if (before) all.bytes += 4 * rows * first->in;
    if (behind) all.bytes += 4 * rows * first[place.layers.count - 1].out;
  }
  for (int column = 0; place.stage >= 0 && column < grid.columns; column++) {
    int64_t count = tt_part_segment_of(place.layers.params, grid.columns, column).count;
    if (column == place.column) continue;
    all.bytes += 4 * (sums * count + place.segment.count);
    all.messages += sums * (count > 0) + (place.segment.count > 0);
  }
  return all;
}

TT_TEST (a_step_in_stages_sends_what_the_model_says) {
  int ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm);
  for (int stages = 1; stages <= LAYERS && !DOUBLE; stages++) {
    problem p = make(1); /* not clipped */
    cast c;
    p.c.batch_size = 50; /* the second step does not end an epoch */
    TT_CHECK_OK(tt_model_set_rates(stages / 2, NULL, 0, &p.c.model));
    const tt_pipeline_grid grid = tt_pipeline_grid_of(&p.c.model, stages, ranks);
    start(&p, 1, stages, &ENGINE, &c);
    TT_CHECK_OK(tt_team_train(c.shard, TT_OK, 1));
    tt_team_traffic before = tt_team_traffic_local(c.team);
    TT_CHECK_OK(tt_team_train(c.shard, TT_OK, 1)); /* one step of each member */
    tt_team_traffic after = tt_team_traffic_local(c.team);
    tt_team_traffic want = traffic_in_stages(&p, grid, rank);
    int64_t word = 3 * 8 + TT_MAX_PART_SUMS * 8; /* three words to each other rank */
    TT_CHECK(after.bytes - before.bytes, ==, MEMBERS * (3 * (ranks - 1) * word + want.bytes));
    TT_CHECK(after.messages - before.messages, ==, MEMBERS * (3 * (ranks - 1) + want.messages));
    end(&c);
    problem_free(&p);
  }
}
