/* job.c — see job.h. */
#include "src/job/job.h"

#include "core/base/mem.h"
#include "core/base/process.h"
#include "src/host/resources.h"
#include "src/job/initial_model.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void tt_job_close(tt_job **job)
{
  if (!*job) return;
  if ((*job)->base) {
    tt_free((*job)->cfg);
  } else {
    tt_config_destroy(&(*job)->cfg);
    tt_free((*job)->original);
  }
  tt_dataset_destroy(&(*job)->data);
  tt_cohorts_destroy(&(*job)->cohorts);
  tt_trained_ensembles_destroy(&(*job)->initial);
  tt_free((*job)->resolved);
  tt_free(*job);
}

/* Rank 0 reads the job file; job->original is the same on all ranks. */
static tt_err broadcast_file(tt_comm *c, const tt_job_options *o, tt_job *job)
{
  tt_err e = TT_OK;
  if (o->text) {
    job->bytes = (int64_t)strlen(o->text);
    return tt_text_set(&job->original, o->text);
  }
  if (tt_comm_is_root(c)) e = tt_config_read_file(o->file, &job->original, &job->bytes);
  e = tt_agree(c, e);
  if (e) return e;
  int64_t bytes = job->bytes + 1; /* with the 0 at its end */
  e = tt_bcast_block(c, &job->original, &bytes);
  job->bytes = bytes - 1;
  return e;
}

static tt_err parse_local(const tt_job_options *o, tt_job *job)
{
  TT_TRY(tt_config_parse(o->file, job->original, job->bytes, o->set, o->nset, &job->cfg));
  return tt_config_to_yaml(job->cfg, &job->resolved);
}

tt_err tt_job_open(tt_comm *c, const tt_job_options *o, tt_job **out)
{
  tt_job *job = NULL;
  tt_err e = tt_agree(c, TT_ALLOC(job, 1));
  if (!e) e = broadcast_file(c, o, job);
  if (!e) e = tt_agree(c, parse_local(o, job));
  if (!e) e = tt_agree_same(c, "configuration", job->resolved);
  if (e) tt_job_close(&job);
  *out = job;
  return e;
}

tt_err tt_job_derive_local(const tt_job *base, char *directory, int64_t seed, tt_job **out)
{
  tt_job *job = NULL;
  TT_TRY(TT_ALLOC(job, 1));
  *job = (tt_job){.base = base,
                  .original = base->original,
                  .bytes = base->bytes,
                  .ops = base->ops,
                  .use = base->use};
  tt_err e = TT_ALLOC(job->cfg, 1);
  if (!e) {
    *job->cfg = *base->cfg;
    job->cfg->run_directory = directory;
    job->cfg->run_seed = seed;
    e = tt_config_to_yaml(job->cfg, &job->resolved);
  }
  if (e) tt_job_close(&job);
  *out = job;
  return e;
}

/* The hook for a data set that is in memory. */
static tt_err check_data(tt_comm *c, const tt_job *job, const tt_data_hook *hook)
{
  const tt_dataset *d = job->data;
  if (!hook) return TT_OK;
  const tt_data_shape shape = {d->rows,   d->scaler.inputs, d->targets,
                               d->inputs, d->input,         d->target};
  return hook->check(c, &shape, hook->arg);
}

tt_err tt_job_load(tt_comm *c, tt_job *job, const tt_data_hook *hook)
{
  const int given = job->data != NULL, by = job->cfg->top_by.count > 0;
  tt_err e = job->ops ? TT_OK : tt_resources_for_job(c, job->cfg, &job->ops, &job->use);
  if (!e && !given) e = (by ? tt_data_read_groups : tt_data_read)(c, job->cfg, hook, &job->data);
  if (!e && (given || by)) e = check_data(c, job, hook); /* the groups are known now */
  if (!e) job->training = tt_dataset_for_training(job->data);
  if (!e)
    e = tt_agree(c, tt_cohorts_create(job->cfg, job->data->inputs, &job->data->target,
                                      &job->training, &job->cohorts));
  if (!e) e = tt_initial_model_apply(c, job->cfg, job->data, &job->cohorts, &job->initial);
  if (!e) job->training = tt_dataset_for_training(job->data); /* with the scales of the model */
  return e;
}

tt_provenance tt_job_provenance(const tt_job *job, const char *device, const char *arithmetic,
                                int ranks, double seconds)
{
  return (tt_provenance){.title = job->cfg->top_title,
                         .resolved = job->resolved,
                         .original = job->original,
                         .device = device,
                         .arithmetic = arithmetic,
                         .seed = (uint64_t)job->cfg->run_seed,
                         .data_hash = job->data ? job->data->hash : 0,
                         .repeated_rows = job->data ? job->data->repeated_rows : 0,
                         .seen_rows = job->data ? job->data->seen_rows : 0,
                         .result_hash = tt_config_result_hash(job->cfg),
                         .ranks = ranks,
                         .threads = job->use.threads,
                         .wall_seconds = seconds};
}

static tt_err check_command(const tt_config *cfg, const char *option, const tt_text_list *command)
{
  int why = command->count ? tt_process_find(command->value[0], cfg->directory) : 0;
  if (!why) return TT_OK;
  return TT_FAIL(UNAVAILABLE, "%s: '%s' cannot be started in %s: %s; %s", option, command->value[0],
                 cfg->directory, strerror(why),
                 why == EACCES ? "make it executable (chmod +x)" : "correct the name");
}

/* With label.mode slurm a program without a path may exist in the jobs alone. */
tt_err tt_job_check_commands_local(const tt_config *cfg)
{
  int slurm = cfg->label_mode == TT_LABEL_slurm, command = cfg->label_mode == TT_LABEL_command;
  TT_TRY(check_command(cfg, "pool.command", &cfg->pool_command));
  if (slurm && access(cfg->label_script, R_OK))
    return TT_FAIL(NOINPUT, "label.script: %s: %s", cfg->label_script, strerror(errno));
  if (command || (slurm && strchr(cfg->label_command.value[0], '/')))
    TT_TRY(check_command(cfg, "label.command", &cfg->label_command));
  return TT_OK;
}
