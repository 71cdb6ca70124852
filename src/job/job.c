/* job.c — see job.h. */
#include "src/job/job.h"

#include "core/base/mem.h"
#include "io/data/data.h"
#include "src/host/resources.h"

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
  tt_free((*job)->resolved);
  tt_free(*job);
}

/* Rank 0 reads the job file; job->original is the same on all ranks. */
static tt_err broadcast_file(tt_comm *c, const tt_job_options *o, tt_job *job)
{
  tt_err e = TT_OK;
  if (tt_comm_is_root(c)) e = tt_config_read_file(o->file, &job->original, &job->bytes);
  e = tt_agree(c, e);
  if (e) return e;
  tt_bcast(c, &job->bytes, sizeof job->bytes);
  if (!tt_comm_is_root(c)) e = TT_ALLOC(job->original, job->bytes + 1);
  e = tt_agree(c, e);
  if (!e) tt_bcast(c, job->original, job->bytes);
  return e;
}

static tt_err parse_local(const tt_job_options *o, tt_job *job)
{
  job->command = o->command;
  TT_TRY(tt_config_parse(o->file, job->original, job->bytes, o->set, o->nset, &job->cfg));
  return tt_config_to_yaml(job->cfg, &job->resolved);
}

tt_err tt_job_open(tt_comm *c, const tt_job_options *o, tt_job **out)
{
  tt_job *job = NULL;
  tt_err e = tt_agree(c, TT_ALLOC(job, 1));
  if (!e) e = broadcast_file(c, o, job);
  if (!e) e = tt_agree(c, parse_local(o, job));
  if (e)
    tt_job_close(&job);
  else
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
                  .command = base->command,
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

tt_err tt_job_load(tt_comm *c, tt_job *job)
{
  tt_err e = job->ops ? TT_OK : tt_resources_for_job(c, job->cfg, &job->ops, &job->use);
  if (!e && !job->data) e = tt_data_read(c, job->cfg, &job->data);
  if (!e)
    e = tt_agree(c, tt_cohorts_create(job->cfg, job->data->inputs, &job->data->target, job->data,
                                      &job->cohorts));
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
                         .command = job->command ? job->command : "",
                         .seed = (uint64_t)job->cfg->run_seed,
                         .data_hash = job->data ? job->data->hash : 0,
                         .result_hash = tt_config_result_hash(job->cfg),
                         .ranks = ranks,
                         .threads = job->use.threads,
                         .wall_seconds = seconds};
}
