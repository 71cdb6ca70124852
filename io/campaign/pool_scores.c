/* pool_scores.c — see pool_scores.h. */
#include "io/campaign/pool_scores.h"

#include "core/base/mem.h"
#include "io/hdf5/schema.h"

static const char dataset[] = "score", attribute[] = "first";

struct tt_pool_scores_writer {
  tt_h5_file *file;
  int64_t lists, first;
};

static tt_err create_variables(tt_schema s, int64_t lists, const char *const *list, int64_t first,
                               int64_t rows)
{
  static const tt_variable score =
      TT_VARIABLE("score", F32, NULL,
                  "score of a candidate, the higher the more useful its label; NaN = queried or "
                  "excluded; candidates are first, first + 1, ...",
                  NULL, "list", "candidate");
  tt_schema_create_dimension(&s, "list", lists);
  tt_schema_create_dimension(&s, "candidate", rows);
  if (lists > 1) {
    tt_schema_create_dimension(&s, "name_strlen", tt_h5_max_text_length(lists, list));
    tt_schema_write_texts(&s, "list_name", "list", "name_strlen", list, "ensemble of the list");
  }
  tt_schema_create_variable(&s, &score);
  return tt_h5_write_attr(s.file, dataset, attribute, TT_H5_I64, 1, &first);
}

tt_err tt_pool_scores_create(tt_comm *c, const char *file, int64_t lists, const char *const *list,
                             int64_t first, int64_t rows, const tt_provenance *provenance,
                             tt_pool_scores_writer **out)
{
  tt_schema s;
  tt_pool_scores_writer *f = NULL;
  *out = NULL;
  tt_err e = tt_agree(c, TT_ALLOC(f, 1));
  if (!e) e = tt_h5_create(c, file, lists * rows * 4 + rows + (1 << 16), &f->file);
  if (!e) {
    tt_schema_write_header(&s, c, f->file, TT_SCHEMA_POOL_SCORES, provenance);
    e = create_variables(s, lists, list, first, rows);
  }
  if (e) {
    tt_pool_scores_discard(&f);
    return e;
  }
  f->lists = lists;
  f->first = first;
  *out = f;
  return TT_OK;
}

tt_err tt_pool_scores_write(tt_pool_scores_writer *f, int64_t first, int64_t count,
                            const float *score)
{
  const int64_t begin[] = {0, count ? first - f->first : 0};
  const int64_t size[] = {count ? f->lists : 0, count};
  return tt_h5_write_block(f->file, dataset, begin, size, score);
}

tt_err tt_pool_scores_commit(tt_pool_scores_writer **f)
{
  tt_err e = tt_h5_commit(&(*f)->file);
  tt_free(*f);
  return e;
}

void tt_pool_scores_discard(tt_pool_scores_writer **f)
{
  if (!*f) return;
  tt_h5_discard(&(*f)->file);
  tt_free(*f);
}

static tt_err read_header_local(tt_pool_scores_reader *r)
{
  tt_h5_info info;
  TT_TRY(tt_h5_dataset_info_local(r->file, dataset, &info));
  if (info.ndims != 2 || info.kind != TT_H5_FLOAT || info.dims[0] < 1)
    return TT_FAIL(DATA, "%s: dataset '%s' is not a table of scores, lists x candidates",
                   tt_h5_file_name(r->file), dataset);
  r->lists = info.dims[0];
  r->rows = info.dims[1];
  return tt_h5_read_attr_local(r->file, dataset, attribute, TT_H5_I64, 1, &r->first);
}

tt_err tt_pool_scores_open_local(const char *file, tt_pool_scores_reader **out)
{
  tt_pool_scores_reader *r = NULL;
  TT_TRY(TT_ALLOC(r, 1));
  tt_err e = tt_h5_open_local(file, &r->file);
  if (!e) e = read_header_local(r);
  if (e) tt_pool_scores_close_local(&r);
  *out = r;
  return e;
}

tt_err tt_pool_scores_read_local(tt_pool_scores_reader *r, int64_t list, int64_t first,
                                 int64_t count, float *score)
{
  const int64_t begin[] = {list, first - r->first}, size[] = {1, count};
  return tt_h5_read_block_local(r->file, dataset, TT_H5_F32, begin, size, score);
}

void tt_pool_scores_close_local(tt_pool_scores_reader **r)
{
  if (!*r) return;
  tt_h5_close_local(&(*r)->file);
  tt_free(*r);
}
