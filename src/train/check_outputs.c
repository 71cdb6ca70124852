/* check_outputs.c — see check_outputs.h. */
#include "src/train/check_outputs.h"

#include "core/base/mem.h"
#include "io/checkpoint/checkpoint.h"
#include "io/model/model_file.h"
#include "io/results/results.h"

/* What this process would write as a rank without members. */
typedef struct outputs {
  tt_comm *c;
  tt_dataset data; /* columns and scales; no rows */
  tt_trained_ensembles all;
  int64_t parts;
  tt_cohort_part *part;    /* [parts] */
  tt_model_shard *model;   /* [parts] */
  tt_result_shard *result; /* [parts] */
  tt_ckpt_shard *shard;    /* [cohorts] */
} outputs;

static void free_outputs(const tt_cohorts *cohorts, outputs *o)
{
  for (int64_t i = 0; o->shard && i < cohorts->count; i++) tt_state_destroy(&o->shard[i].mine);
  tt_trained_ensembles_destroy(&o->all);
  tt_scaler_free(&o->data.scaler);
  tt_free_all(&o->part, &o->model, &o->result, &o->shard);
  tt_comm_end(&o->c);
}

static tt_err create_ensembles(outputs *o)
{
  int64_t count = 0;
  for (int64_t i = 0; i < o->parts; i++) count += !o->part[i].joined;
  TT_TRY(tt_trained_ensembles_create(count, &o->all));
  for (int64_t i = 0, at = 0, n; i < o->parts; i += n, at++) {
    for (n = 1; i + n < o->parts && o->part[i + n].joined;) n++;
    TT_TRY(tt_trained_ensemble_from_parts(n, o->part + i, &o->data, &o->all.at[at]));
  }
  return TT_OK;
}

static tt_err create_outputs(const tt_cohorts *cohorts, int64_t components,
                             const tt_data_shape *shape, outputs *o)
{
  o->data = (tt_dataset){.inputs = shape->net_inputs,
                         .targets = shape->targets,
                         .input = shape->input,
                         .target = shape->target};
  TT_TRY(tt_comm_alone_local(&o->c));
  TT_TRY(tt_scaler_create(shape->inputs, shape->targets, &o->data.scaler));
  TT_TRY(tt_scaler_add_components(&o->data.scaler, components));
  TT_TRY(tt_cohorts_parts(cohorts, &o->parts, &o->part));
  TT_TRY(TT_ALLOC(o->model, o->parts));
  TT_TRY(TT_ALLOC(o->result, o->parts));
  TT_TRY(TT_ALLOC(o->shard, cohorts->count));
  for (int64_t i = 0; i < cohorts->count; i++) {
    o->shard[i].members = cohorts->at[i]->members;
    TT_TRY(tt_state_create((tt_slice){0, 0}, tt_cohort_state_shape(cohorts->at[i]),
                           &o->shard[i].mine));
  }
  for (int64_t i = 0; i < o->parts; i++)
    o->result[i] = (tt_result_shard){.cohort = o->part[i].cohort,
                                     .mine = o->shard[o->part[i].number].mine,
                                     .members = o->part[i].members};
  return create_ensembles(o);
}

/* The error of a writer, which is the job's here. */
static tt_err refuse(const char *file, tt_err e)
{
  if (!e || e == TT_E_MEM) return e;
  return TT_FAIL(CONFIG, "%s of this job cannot be written: %s", file, tt_err_last());
}

static tt_err write_outputs(const tt_cohorts *cohorts, const outputs *o)
{
  static const tt_provenance provenance = {.title = "", .resolved = "", .original = ""};
  static const tt_run_id id;
  const tt_scores scores = {.forecasts = ~0u};
  const tt_test_predictions test = {.rows = 1};
  TT_TRY(refuse("model.h5", tt_model_write(o->c, NULL, &o->all, o->model, &provenance)));
  TT_TRY(refuse("results.h5", tt_results_write(o->c, NULL, o->result, &o->all, &scores, &scores,
                                               &test, NULL, &provenance)));
  return refuse("a checkpoint", tt_ckpt_write(o->c, NULL, &id, 1, 1, cohorts->count, o->shard));
}

tt_err tt_check_outputs_local(const tt_cohorts *cohorts, int64_t components,
                              const tt_data_shape *shape)
{
  outputs o = {.c = NULL};
  tt_err e = create_outputs(cohorts, components, shape, &o);
  if (!e) e = write_outputs(cohorts, &o);
  free_outputs(cohorts, &o);
  return e;
}
