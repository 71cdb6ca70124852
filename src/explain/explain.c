/* explain.c — see explain.h. */
#include "core/base/log.h"
#include "io/files/files.h"
#include "io/model/model_file.h"
#include "src/explain/explain_internal.h"
#include "src/host/resources.h"

#include <inttypes.h>

static tt_err explain_all(tt_comm *c, const tt_explain_options *o, const tt_trained_ensembles *all,
                          tt_explained own, const tt_explain_rows *rows, tt_importance *out)
{
  tt_err e = tt_agree(c, tt_importance_create(all, out));
  out->rows = rows->rows;
  out->repeats = o->repeats;
  for (int64_t i = 0; !e && i < all->count; i++) {
    own.m = all->at[i];
    e = tt_explain_permute(c, &own, rows, o, out);
    own.column += tt_trained_ensemble_columns(own.m);
  }
  return e;
}

static tt_err write_and_print(tt_comm *c, const tt_explain_options *o,
                              const tt_trained_ensembles *all, const tt_explained *own,
                              const tt_importance *i)
{
  const tt_provenance provenance = {.device = own->ops->name,
                                    .model = o->model,
                                    .model_hash = all->hash,
                                    .seed = o->seed,
                                    .ranks = tt_comm_ranks(c),
                                    .threads = own->use->threads};
  tt_err e = tt_importance_write(c, o->output, all, i, &provenance);
  if (!e) e = tt_agree(c, tt_comm_is_root(c) ? tt_explain_print_local(all, i, o->json) : TT_OK);
  if (!e)
    tt_log_root(TT_LOG_INFO,
                "explained %" PRId64 " inputs with %" PRId64 " rows, %" PRId64
                " permutations each: %s",
                i->inputs, i->rows, i->repeats, o->output);
  return e;
}

tt_err tt_explain(tt_comm *c, const tt_explain_options *o)
{
  const char *const input[] = {o->model, o->rows.file};
  tt_trained_ensembles model = {0};
  tt_resources use;
  tt_explained own = {.use = &use};
  tt_score_file file = {0};
  tt_explain_rows rows = {0};
  tt_importance found = {0};
  tt_err e = tt_agree(c, tt_h5_check_output_local(o->output, o->force, input));
  if (!e) e = tt_resources_for_job(c, NULL, &own.ops, &use);
  if (!e) e = tt_model_read_group(c, o->model, (tt_model_choice){o->rows.group, 0}, &model);
  if (!e) own.ops = tt_resources_predict_engine(own.ops, &model);
  if (!e) e = tt_score_file_open(c, &model, &o->rows, &file);
  if (!e) e = tt_explain_rows_read(c, &file, o, &rows);
  if (!e) e = explain_all(c, o, &model, own, &rows, &found);
  if (!e) e = write_and_print(c, o, &model, &own, &found);
  tt_importance_free(&found);
  tt_explain_rows_free(&rows);
  tt_score_file_close_local(&file);
  tt_trained_ensembles_destroy(&model);
  return e;
}
