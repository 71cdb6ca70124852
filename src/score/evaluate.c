/* evaluate.c — see evaluate.h. */
#include "src/score/evaluate.h"

#include "core/base/mem.h"
#include "io/files/files.h"
#include "io/model/model_file.h"
#include "src/host/resources.h"
#include "src/score/score.h"

static tt_err write_scores(tt_comm *c, const tt_evaluate_options *o,
                           const tt_trained_ensembles *all, const tt_engine_ops *ops,
                           const tt_resources *use, const tt_scores *const *part)
{
  tt_scores *joined = NULL;
  tt_provenance provenance = {.device = ops->name,
                              .model = o->model,
                              .model_hash = all->hash,
                              .ranks = tt_comm_ranks(c),
                              .threads = use->threads};
  tt_err e = tt_agree(c, tt_scores_concat(all, part, &joined));
  if (!e) e = tt_scores_write(c, o->output, all, joined, &provenance);
  tt_scores_destroy(&joined);
  return e;
}

static tt_err score_all(tt_comm *c, const tt_evaluate_options *o, const tt_trained_ensembles *all,
                        const tt_engine_ops *ops, const tt_resources *use,
                        const tt_row_source *source)
{
  tt_scores **part = NULL;
  tt_err e = tt_agree(c, TT_ALLOC(part, all->count));
  for (int64_t i = 0; !e && i < all->count; i++) {
    e = tt_score(c, all->at[i], NULL, ops, use, source, &part[i], NULL);
    if (!e && !o->json) tt_score_print_local(c, all->at[i], part[i], 0);
  }
  if (!e && o->json)
    e = tt_agree(c, tt_score_print_json_local(c, all, (const tt_scores *const *)part));
  if (!e && o->output) e = write_scores(c, o, all, ops, use, (const tt_scores *const *)part);
  for (int64_t i = 0; part && i < all->count; i++) tt_scores_destroy(&part[i]);
  tt_free(part);
  return e;
}

tt_err tt_evaluate(tt_comm *c, const tt_evaluate_options *o)
{
  const char *const input[] = {o->model, o->rows.file};
  tt_trained_ensembles model = {0};
  const tt_engine_ops *ops;
  tt_resources use;
  tt_score_file l = {0};
  tt_err e = o->output ? tt_h5_check_output_local(o->output, o->force, input) : TT_OK;
  e = tt_agree(c, e);
  if (!e) e = tt_resources_for_job(c, NULL, &ops, &use);
  if (!e) e = tt_model_read_group(c, o->model, (tt_model_choice){o->rows.group, 0}, &model);
  if (!e) ops = tt_resources_predict_engine(ops, &model);
  if (!e) e = tt_score_file_open(c, &model, &o->rows, &l);
  if (!e) {
    tt_row_source source = {.rows = tt_data_reader_shape(l.rows)->rows,
                            .read_local = tt_score_file_read_local,
                            .from = &l};
    e = score_all(c, o, &model, ops, &use, &source);
  }
  tt_score_file_close_local(&l);
  tt_trained_ensembles_destroy(&model);
  return e;
}
