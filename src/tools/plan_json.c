/* plan_json.c — `tutti plan --json`; see plan_internal.h. */
#include "src/tools/plan_internal.h"

#include "src/host/resources.h"

#include <string.h>

static json_t *ensemble_to_json(const tt_job_plan *p, const tt_ensemble *src)
{
  json_t *row = json_object(), *targets = json_array();
  for (int64_t k = 0; k < src->targets; k++)
    json_array_append_new(targets, tt_json_text(p->shape.target.name[src->column[k]]));
  tt_json_set(&row, "name", tt_json_text(src->name));
  tt_json_set(&row, "members", json_integer(src->members));
  tt_json_set(&row, "targets", targets);
  return row;
}

/* The CUDA path on each GPU of a plan; an engine without CUDA has none. */
static json_t *paths_to_json(const tt_job_plan *p, const tt_cohort *c, int ranks)
{
  json_t *paths = json_array();
  if (!strcmp(p->ops->name, "cpu")) return paths;
  for (int i = 0; i < TT_PLAN_GPUS; i++) {
    json_t *row = json_object();
    tt_path_choice choice;
    int none = tt_plan_choose_path_local(p->cfg, c, tt_plan_gpus[i].on, ranks, &choice) != TT_OK;
    tt_json_set(&row, "gpu", tt_json_text(tt_plan_gpus[i].name));
    tt_json_set(&row, "path", none ? json_null() : tt_json_text(tt_choice_gpu_kernel[choice.path]));
    tt_json_set(&row, "why", tt_json_text(none ? tt_err_last() : choice.why));
    json_array_append_new(paths, row);
  }
  return paths;
}

static json_t *cohort_to_json(const tt_job_plan *p, const tt_cohort *c, int ranks)
{
  json_t *row = json_object(), *layers = json_array(), *ensembles = json_array();
  for (int l = 0; l < c->model.layers; l++)
    json_array_append_new(layers, json_integer(c->model.layer[l].out));
  for (int64_t e = 0; e < c->ensembles; e++)
    json_array_append_new(ensembles, ensemble_to_json(p, &c->ensemble[e]));
  tt_json_set(&row, "members", json_integer(c->members));
  tt_json_set(&row, "inputs", json_integer(c->model.inputs));
  if (c->model.front.layers) tt_json_set(&row, "front", tt_plan_front_to_json(&c->model.front));
  tt_json_set(&row, "layers", layers);
  tt_json_set(&row, "parameters", json_integer(tt_model_trained_params(&c->model)));
  tt_json_set(&row, "epochs", json_integer(c->max_epochs));
  tt_json_set(&row, "gflop_per_epoch",
              tt_json_number(1e-9 * (double)c->members *
                             tt_model_flops(&c->model, tt_plan_training_rows(p))));
  tt_json_set(&row, "ensembles", ensembles);
  tt_json_set(&row, "cuda_paths", paths_to_json(p, c, ranks));
  return row;
}

static json_t *memory_to_json(const tt_memory_plan *need)
{
  json_t *row = json_object();
  const struct {
    const char *name;
    double bytes;
  } part[] = {{"program", need->program}, {"data", need->data},   {"reading", need->reading},
              {"members", need->members}, {"files", need->files}, {"outputs", need->outputs},
              {"peak", need->peak}};
  for (size_t i = 0; i < sizeof part / sizeof *part; i++)
    tt_json_set(&row, part[i].name, tt_json_number(part[i].bytes));
  return row;
}

/* What the GPUs of a team exchange; null without teams or GPUs. */
static json_t *exchange_to_json(const tt_job_plan *p, int ranks)
{
  double bytes = 0.0;
  if (tt_plan_teams(p, ranks) == ranks || !strcmp(p->ops->name, "cpu")) return json_null();
  for (int64_t i = 0; i < p->all.count; i++)
    bytes += tt_plan_exchange_bytes(p, p->all.at[i], ranks);
  json_t *row = json_object();
  tt_json_set(&row, "from", tt_json_text(tt_choice_exchange[tt_plan_exchange(p)]));
  tt_json_set(&row, "gpu_bytes", tt_json_number(bytes));
  return row;
}

static json_t *time_to_json(const tt_time_estimate *t)
{
  if (!t) return json_null();
  json_t *row = json_object();
  tt_json_set(&row, "reading", tt_json_number(t->reading));
  tt_json_set(&row, "training", tt_json_number(t->training));
  tt_json_set(&row, "outputs", tt_json_number(t->outputs));
  return row;
}

static json_t *data_to_json(const tt_job_plan *p)
{
  json_t *row = json_object();
  tt_json_set(&row, "file", tt_json_text(p->cfg->data_file));
  tt_json_set(&row, "rows", json_integer(p->file_rows));
  tt_json_set(&row, "inputs", json_integer(p->shape.inputs));
  tt_json_set(&row, "targets", json_integer(p->shape.targets));
  tt_json_set(&row, "training_rows", json_integer(p->rows.part[TT_TRAIN]));
  tt_json_set(&row, "validation_rows", json_integer(p->rows.part[TT_VALIDATION]));
  tt_json_set(&row, "test_rows", json_integer(p->rows.part[TT_TEST]));
  tt_json_set(&row, "repeated_rows", json_integer(p->rows.repeated));
  tt_json_set(&row, "seen_rows", json_integer(p->rows.seen));
  return row;
}

tt_err tt_plan_print_json(tt_job_plan *p, int ranks)
{
  tt_memory_plan need;
  TT_TRY(tt_resources_engine_local(tt_resources_request(p->cfg).device, &p->ops));
  TT_TRY(tt_plan_memory(p, ranks, &need));
  json_t *all = json_object(), *cohorts = json_array(), *of_rank = json_array();
  int64_t candidates;
  tt_err e = p->cfg->campaign ? tt_plan_campaign_check_local(p, &candidates) : TT_OK;
  for (int64_t i = 0; i < p->all.count; i++)
    json_array_append_new(cohorts, cohort_to_json(p, p->all.at[i], ranks));
  for (int r = 0; !e && r < ranks; r++) {
    int64_t members = 0;
    e = tt_plan_rank_members(p, ranks, r, &members);
    json_array_append_new(of_rank, json_integer(members));
  }
  tt_json_set(&all, "data", data_to_json(p));
  tt_json_set(&all, "engine", tt_json_text(p->ops->name));
  tt_json_set(&all, "members", json_integer(tt_cohorts_members(&p->all)));
  tt_json_set(&all, "cohorts", cohorts);
  tt_json_set(&all, "ranks", json_integer(ranks));
  tt_json_set(&all, "members_of_rank", of_rank);
  tt_json_set(&all, "exchange", exchange_to_json(p, ranks));
  tt_json_set(&all, "memory_of_rank", memory_to_json(&need));
  tt_json_set(&all, "seconds", time_to_json(p->time));
  tt_json_set(&all, "directory", tt_json_text(p->cfg->run_directory));
  tt_json_set(&all, "model_bytes", tt_json_number(tt_plan_model_bytes(p)));
  tt_json_set(&all, "precision", tt_json_text(tt_choice_precision[p->cfg->run_precision]));
  tt_json_set(&all, "checkpoint_bytes", tt_json_number(tt_plan_checkpoint_bytes(p)));
  if (!e) return tt_json_print(all, 2);
  json_decref(all);
  return e;
}
