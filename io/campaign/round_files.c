/* round_files.c — queries.h5 of a round, and the labels of a round in memory; see campaign_files.h.
 */
#include "io/campaign/campaign_files.h"
#include "io/campaign/history_variables.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <math.h>

tt_err tt_queries_create(int64_t count, int64_t inputs, tt_queries **out)
{
  tt_queries *p = NULL;
  *out = NULL;
  tt_err e = TT_ALLOC(p, 1);
  if (!e) p->count = count, p->inputs = inputs;
  if (!e) e = TT_ALLOC(p->row, count);
  if (!e) e = TT_ALLOC(p->score, count);
  if (!e) e = TT_ALLOC(p->random, count);
  if (!e) e = TT_ALLOC(p->x, count * inputs);
  if (e) tt_queries_destroy(&p);
  *out = p;
  return e;
}

void tt_queries_destroy(tt_queries **p)
{
  if (!*p) return;
  tt_free_all(&(*p)->row, &(*p)->score, &(*p)->random, &(*p)->x, p);
}

tt_err tt_query_labels_create(int64_t count, int64_t targets, tt_query_labels **out)
{
  tt_query_labels *a = NULL;
  *out = NULL;
  tt_err e = TT_ALLOC(a, 1);
  if (!e) a->count = count, a->targets = targets;
  if (!e) e = TT_ALLOC(a->y, count * targets);
  for (int64_t i = 0; !e && i < count * targets; i++) a->y[i] = NAN;
  if (e) tt_query_labels_destroy(&a);
  *out = a;
  return e;
}

void tt_query_labels_destroy(tt_query_labels **a)
{
  if (!*a) return;
  tt_free_all(&(*a)->y, a);
}

void tt_labels_widen(double *y, int64_t rows, int64_t targets, int64_t width)
{
  for (int64_t r = rows - 1; r >= 0; r--)
    for (int64_t k = width - 1; k >= 0; k--)
      y[r * width + k] = k < targets ? y[r * targets + k] : NAN;
}

int64_t tt_labeled_rows(const double *y, int64_t rows, int64_t targets)
{
  int64_t n = 0;
  for (int64_t i = 0; i < rows; i++) {
    int any = 0;
    for (int64_t k = 0; k < targets; k++) any |= !isnan(y[i * targets + k]);
    n += any;
  }
  return n;
}

/* Writing */

/* Collective. */
static void write_queries(tt_comm *c, tt_schema *s, const tt_queries *p, const tt_columns *input,
                          const tt_level_texts *levels, const tt_provenance *provenance)
{
  tt_schema_write_header(s, c, s->file, TT_SCHEMA_QUERIES, provenance);
  tt_schema_create_dimension(s, "name_strlen", tt_schema_max_column_text(input));
  tt_schema_create_dimension(s, "query", p->count);
  tt_schema_write_columns(s, "feature", "name_strlen", "feature_name", "feature_units", input);
  TT_SCHEMA_WRITE(s, p->row, "row", I64, NULL, "number of the candidate", NULL, "query");
  TT_SCHEMA_WRITE(s, p->score, "score", F64, NULL,
                  "score at selection, missing if selected at random", NULL, "query");
  TT_SCHEMA_WRITE(s, p->random, "random", I8, NULL, "how it was selected", NULL, "query");
  tt_schema_write_flags(s, "random", 2, "by_score at_random");
  TT_SCHEMA_WRITE(s, p->x, "x", F64, NULL, "inputs", "feature_name feature_units", "query",
                  "feature");
  tt_level_texts_write(s, levels);
}

tt_err tt_queries_write(tt_comm *c, const char *file, const tt_queries *p, const tt_columns *input,
                        const tt_net_inputs *net, const tt_row_ids *ids,
                        const tt_provenance *provenance)
{
  tt_schema s = {0};
  tt_level_texts levels;
  tt_err e = tt_agree(c, tt_level_texts_create(net, &levels));
  int64_t bytes = p->count * (input->count + 3) * 8 + (1 << 14);
  if (!e) e = tt_h5_create(c, file, bytes + tt_level_texts_bytes(&levels), &s.file);
  if (!e) write_queries(c, &s, p, input, &levels, provenance);
  if (!e) e = tt_schema_write_ids(&s, c, "query", ids, NULL);
  if (!e) e = tt_h5_commit(&s.file);
  tt_h5_discard(&s.file);
  tt_level_texts_free(&levels);
  return e;
}

/* Reading */

/* Number of queries, which may be 0, and of inputs. */
static tt_err read_sizes(tt_h5_reader *r, int64_t *count, int64_t *inputs)
{
  tt_h5_info info;
  TT_TRY(tt_h5_dataset_info_local(r, "x", &info));
  if (info.ndims != 2 || info.dims[1] < 1)
    return TT_FAIL(DATA, "%s: 'x' has no columns" TT_DAMAGED, tt_h5_file_name(r));
  *count = info.dims[0];
  *inputs = info.dims[1];
  return tt_schema_check_shape_local(r, "x", 2, info.dims);
}

static tt_err invalid_entry_error(tt_h5_reader *r, const char *name, int64_t i)
{
  return TT_FAIL(DATA, "%s: '%s', entry %" PRId64 " has an impossible value" TT_DAMAGED,
                 tt_h5_file_name(r), name, i);
}

static tt_err read_queries(tt_h5_reader *r, tt_queries **out)
{
  int64_t count = 0, inputs = 0;
  TT_TRY(tt_schema_check_local(r, TT_SCHEMA_QUERIES, "queries"));
  TT_TRY(read_sizes(r, &count, &inputs));
  TT_TRY(tt_queries_create(count, inputs, out));
  const tt_queries *p = *out;
  TT_TRY(tt_schema_read_local(r, "row", TT_H5_I64, 1, &count, p->row));
  TT_TRY(tt_schema_read_local(r, "score", TT_H5_F64, 1, &count, p->score));
  TT_TRY(tt_schema_read_local(r, "random", TT_H5_I8, 1, &count, p->random));
  TT_TRY(tt_h5_read_rows_local(r, "x", TT_H5_F64, 0, count, p->x));
  for (int64_t i = 0; i < count; i++) {
    if (p->row[i] < 0) return invalid_entry_error(r, "row", i);
    if (p->random[i] < 0 || p->random[i] > 1) return invalid_entry_error(r, "random", i);
  }
  return TT_OK;
}

/* Read from r and close it. */
static tt_err read_and_close(tt_h5_reader *r, tt_queries **out)
{
  *out = NULL;
  tt_err e = read_queries(r, out);
  tt_h5_close_local(&r);
  if (e) tt_queries_destroy(out);
  return e;
}

tt_err tt_queries_read_local(const char *file, tt_queries **out)
{
  tt_h5_reader *r = NULL;
  TT_TRY(tt_h5_open_local(file, &r));
  return read_and_close(r, out);
}

tt_err tt_queries_read(tt_comm *c, const char *file, tt_queries **out)
{
  tt_h5_reader *r = NULL;
  TT_TRY(tt_h5_open(c, file, &r));
  tt_err e = tt_agree(c, read_and_close(r, out));
  if (e) tt_queries_destroy(out);
  return e;
}
