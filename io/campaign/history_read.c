/* history_read.c — reads campaign.h5; see campaign_files.h. */
#include "io/campaign/campaign_files.h"
#include "io/campaign/history_variables.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static tt_err damage_error(tt_h5_reader *r, const char *what)
{
  return TT_FAIL(DATA, "%s: %s" TT_DAMAGED, tt_h5_file_name(r), what);
}

static tt_err read_hash(tt_h5_reader *r, const char *name, uint64_t *hash)
{
  char *text = NULL;
  TT_TRY(tt_h5_read_attr_text_local(r, "/", name, &text));
  int bad = strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16;
  *hash = strtoull(text, NULL, 16);
  tt_free(text);
  return bad ? damage_error(r, "a checksum is not a hexadecimal number") : TT_OK;
}

static tt_err read_ended(tt_h5_reader *r, int *ended)
{
  char *text = NULL;
  TT_TRY(tt_h5_read_attr_text_local(r, "/", "stop_rule", &text));
  int rule = 0;
  while (tt_stop_rule_name[rule] && strcmp(text, tt_stop_rule_name[rule]) != 0) rule++;
  int known = !*text || tt_stop_rule_name[rule];
  *ended = *text ? rule : -1;
  tt_free(text);
  return known ? TT_OK : damage_error(r, "attribute 'stop_rule' is not a known rule");
}

/* Sizes of a matrix, either of which may be 0. */
static tt_err read_shape(tt_h5_reader *r, const char *path, int64_t *rows, int64_t *columns)
{
  tt_h5_info info;
  TT_TRY(tt_h5_dataset_info_local(r, path, &info));
  if (info.ndims != 2) return damage_error(r, "a dataset has the wrong number of axes");
  *rows = info.dims[0];
  *columns = info.dims[1];
  return tt_schema_check_shape_local(r, path, 2, info.dims);
}

static tt_err read_variable(tt_h5_reader *r, const tt_history_variable *item, tt_history *h)
{
  int64_t dims[2];
  char *array = NULL;
  int n = tt_history_variable_dims(h, item, dims);
  TT_TRY(tt_schema_check_shape_local(r, item->v.name, n, dims));
  TT_TRY(
      tt_alloc_bytes(&array, dims[0] * dims[1], (size_t)tt_h5_type_bytes(item->v.type), "history"));
  tt_err e = tt_h5_read_rows_local(r, item->v.name, item->v.type, 0, dims[0], array);
  if (!e) tt_history_variable_set(h, item, array);
  tt_free(array);
  return e;
}

/* Allocate rounds and queries of these sizes, without values. */
static tt_err allocate_rounds(tt_history *h, int64_t rounds, int64_t columns, int64_t queries)
{
  tt_round *unused;
  for (int64_t i = 0; i < rounds; i++) TT_TRY(tt_history_add_round(h, columns, &unused));
  return tt_history_add_queries(h, queries, NULL, NULL, NULL);
}

/* Numbers that are used as indices; a checksum that fits proves nothing in a file of a stranger. */
static tt_err check_queries(tt_h5_reader *r, const tt_history *h)
{
  for (int64_t i = 0; i < h->queries; i++) {
    const tt_query *q = &h->query[i];
    const struct {
      const char *name;
      int64_t value, least, most;
    } of[] = {{"row", q->row, 0, INT64_MAX},
              {"round", q->round, 1, h->rounds},
              {"random", q->random, 0, 1},
              {"label_status", q->label_status, TT_LABEL_STATUS_failed, TT_LABEL_STATUS_labeled},
              {"split", q->split, TT_UNUSED_ROW, TT_SPLITS - 1}};
    for (size_t k = 0; k < sizeof of / sizeof *of; k++)
      if (of[k].value < of[k].least || of[k].value > of[k].most)
        return TT_FAIL(DATA, "%s: 'query_%s' of query %" PRId64 " is %" PRId64 TT_DAMAGED,
                       tt_h5_file_name(r), of[k].name, i, of[k].value);
  }
  return TT_OK;
}

static tt_err read_all(tt_h5_reader *r, tt_history **out)
{
  int64_t rounds = 0, columns = 0, queries = 0, inputs = 0, targets = 0;
  uint64_t wanted = 0, hash = 0;
  TT_TRY(tt_schema_check_local(r, TT_SCHEMA_CAMPAIGN, "campaign"));
  TT_TRY(read_shape(r, "rmse", &rounds, &columns));
  TT_TRY(read_shape(r, "query_x", &queries, &inputs));
  TT_TRY(read_shape(r, "query_y", &queries, &targets));
  TT_TRY(tt_history_create(inputs, targets, out));
  TT_TRY(allocate_rounds(*out, rounds, columns, queries));
  for (int i = 0; i < tt_history_variable_count; i++)
    TT_TRY(read_variable(r, &tt_history_variables[i], *out));
  TT_TRY(read_ended(r, &(*out)->ended));
  TT_TRY(read_hash(r, "identity_data", &(*out)->identity.data));
  TT_TRY(read_hash(r, "identity_pool", &(*out)->identity.pool));
  TT_TRY(read_hash(r, "identity_seed", &(*out)->identity.seed));
  TT_TRY(read_hash(r, "checksum", &wanted));
  TT_TRY(tt_history_hash(*out, &hash));
  if (hash != wanted) return damage_error(r, "the values do not match the checksum");
  return check_queries(r, *out);
}

/* Read from r and close it. */
static tt_err read_and_close(tt_h5_reader *r, tt_history **out)
{
  *out = NULL;
  tt_err e = read_all(r, out);
  tt_h5_close_local(&r);
  if (e) tt_history_destroy(out);
  return e;
}

tt_err tt_history_read_local(const char *file, tt_history **out)
{
  tt_h5_reader *r = NULL;
  TT_TRY(tt_h5_open_local(file, &r));
  return read_and_close(r, out);
}

tt_err tt_history_read(tt_comm *c, const char *file, tt_history **out)
{
  tt_h5_reader *r = NULL;
  TT_TRY(tt_h5_open(c, file, &r));
  tt_err e = tt_agree(c, read_and_close(r, out));
  if (e) tt_history_destroy(out);
  return e;
}

/* Names */

static tt_err read_columns(tt_h5_reader *r, const char *name, const char *units, tt_columns *out)
{
  TT_TRY(tt_h5_read_texts_local(r, name, &out->count, &out->name));
  out->given = tt_schema_names_given_local(r, name);
  return tt_schema_read_texts_local(r, units, out->count, &out->units);
}

static tt_err read_texts(tt_h5_reader *r, tt_history_metadata *t)
{
  TT_TRY(tt_schema_check_local(r, TT_SCHEMA_CAMPAIGN, "campaign"));
  TT_TRY(read_columns(r, "feature_name", "feature_units", &t->input));
  TT_TRY(read_columns(r, "target_name", "target_units", &t->target));
  TT_TRY(tt_h5_read_texts_local(r, "column_label", &t->columns, &t->column));
  TT_TRY(tt_origin_read_local(r, t->origin));
  return tt_h5_read_text_local(r, "provenance/resolved_config", &t->resolved);
}

tt_err tt_history_read_metadata_local(const char *file, tt_history_metadata *out)
{
  tt_h5_reader *r = NULL;
  *out = (tt_history_metadata){0};
  TT_TRY(tt_h5_open_local(file, &r));
  tt_err e = read_texts(r, out);
  tt_h5_close_local(&r);
  if (e) tt_history_metadata_free(out);
  return e;
}

void tt_history_metadata_free(tt_history_metadata *t)
{
  tt_columns_free(&t->input);
  tt_columns_free(&t->target);
  tt_h5_texts_free(t->columns, &t->column);
  tt_free(t->resolved);
  for (int i = 0; i < TT_ORIGIN_COUNT; i++) tt_free(t->origin[i]);
  *t = (tt_history_metadata){0};
}
