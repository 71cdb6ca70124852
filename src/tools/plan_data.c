/* plan_data.c — see plan_data.h. */
#include "src/tools/plan_data.h"

#include "core/base/mem.h"

/* Whether the number of outputs depends on the labels (classes to count). */
static int needs_class_count(const tt_config *cfg)
{
  for (int64_t k = 0; k < cfg->ensembles; k++)
    if (tt_output_forecast((tt_output)cfg->ensemble[k].model_output) == TT_FORECAST_categorical &&
        cfg->ensemble[k].model_classes < 0)
      return 1;
  return 0;
}

static tt_err copy_labels(tt_data_reader *src, tt_dataset *dst)
{
  enum { CHUNK_ROWS = 4096 };
  double *y = NULL;
  tt_err e = TT_OK;
  TT_TRY(TT_ALLOC(y, CHUNK_ROWS * dst->targets));
  for (int64_t first = 0; !e && first < dst->rows; first += CHUNK_ROWS) {
    int64_t count = first + CHUNK_ROWS < dst->rows ? CHUNK_ROWS : dst->rows - first;
    e = tt_data_reader_read_local(src, first, count, NULL, y);
    for (int64_t i = 0; !e && i < count * dst->targets; i++)
      dst->y[first * dst->targets + i] = (float)y[i];
  }
  tt_free(y);
  return e;
}

tt_err tt_plan_read_labels_local(const tt_config *cfg, const tt_data_shape *shape, tt_dataset **out)
{
  tt_data_reader *rows = NULL;
  if (!needs_class_count(cfg)) return TT_OK;
  TT_TRY(tt_data_reader_open_job_local(cfg, &rows));
  tt_err e = tt_dataset_create(shape->rows, 1, shape->targets, 0, out);
  if (!e) e = copy_labels(rows, *out);
  if (!e) tt_free((*out)->split); /* the split is not known */
  tt_data_reader_close_local(&rows);
  return e;
}
