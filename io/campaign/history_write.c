/* history_write.c — campaign.h5; see campaign_files.h, the layout is in docs/files.md. */
#include "io/campaign/campaign_files.h"
#include "io/campaign/history_variables.h"

#include "core/base/int.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>

static void write_names(tt_schema *s, const tt_history *h, const tt_history_names *names)
{
  int64_t length = tt_schema_max_column_text(names->input);
  length = tt_max_i64(length, tt_schema_max_column_text(names->target));
  length = tt_max_i64(length, tt_h5_max_text_length(h->columns, names->column));
  length = tt_max_i64(length, tt_h5_max_text_length(TT_STAGE_COUNT, tt_stage_name));
  tt_schema_create_dimension(s, "name_strlen", length);
  tt_schema_create_dimension(s, "stage", TT_STAGE_COUNT);
  tt_schema_write_texts(s, "stage_name", "stage", "name_strlen", tt_stage_name,
                        "stages of a round");
  tt_schema_create_dimension(s, "column", h->columns);
  tt_schema_write_texts(s, "column_label", "column", "name_strlen", names->column,
                        "predicted columns");
  tt_schema_write_columns(s, "feature", "name_strlen", "feature_name", "feature_units",
                          names->input);
  tt_schema_write_columns(s, "target", "name_strlen", "target_name", "target_units", names->target);
}

static void write_hash(tt_h5_file *f, const char *name, uint64_t hash)
{
  char text[20];
  snprintf(text, sizeof text, "%016" PRIx64, hash);
  tt_h5_write_attr_text(f, "/", name, text);
}

/* array  room for the largest array of the history */
static void write_variables(tt_schema *s, const tt_history *h, void *array)
{
  for (int i = 0; i < tt_history_variable_count; i++) {
    const tt_history_variable *item = &tt_history_variables[i];
    tt_history_variable_get(h, item, array);
    if (item->location == TT_LOCATION_NUMBER)
      tt_schema_write_coordinate(s, &item->v, h->rounds, array);
    else
      tt_schema_write_from_root(s, &item->v, array);
    if (item->flags) tt_schema_write_flags(s, item->v.name, item->flags, item->meanings);
  }
}

static tt_err prepare_local(const tt_history *h, const tt_history_names *names,
                            tt_level_texts *levels, void *array, int64_t *bytes, uint64_t *hash)
{
  int64_t most = 0;
  *bytes = 1 << 16;
  for (int i = 0; i < tt_history_variable_count; i++) {
    int64_t dims[2];
    tt_history_variable_dims(h, &tt_history_variables[i], dims);
    int64_t size = dims[0] * dims[1] * tt_h5_type_bytes(tt_history_variables[i].v.type);
    most = tt_max_i64(most, size);
    *bytes += size;
  }
  TT_TRY(tt_level_texts_create(names->net, levels));
  *bytes += tt_level_texts_bytes(levels);
  TT_TRY(tt_alloc_bytes(array, most, 1, "history"));
  return tt_history_hash(h, hash);
}

tt_err tt_history_write(tt_comm *c, const char *file, const tt_history *h,
                        const tt_history_names *names, const tt_provenance *provenance)
{
  tt_schema s;
  tt_h5_file *f = NULL;
  void *array = NULL;
  int64_t bytes = 0;
  uint64_t hash = 0;
  tt_level_texts levels = {0};
  tt_err e = tt_agree(c, prepare_local(h, names, &levels, &array, &bytes, &hash));
  if (!e) e = tt_h5_create(c, file, bytes, &f);
  if (!e) {
    tt_schema_write_header(&s, c, f, TT_SCHEMA_CAMPAIGN, provenance);
    write_hash(f, "identity_data", h->identity.data);
    write_hash(f, "identity_pool", h->identity.pool);
    write_hash(f, "identity_seed", h->identity.seed);
    write_hash(f, "checksum", hash);
    tt_h5_write_attr_text(f, "/", "stop_rule", h->ended < 0 ? "" : tt_stop_rule_name[h->ended]);
    write_names(&s, h, names);
    tt_schema_create_dimension(&s, "query", h->queries);
    write_variables(&s, h, array);
    tt_level_texts_write(&s, &levels);
    e = tt_h5_commit(&f);
  }
  tt_level_texts_free(&levels);
  tt_free(array);
  return e;
}
