/* level_texts.c — see history_variables.h. */
#include "io/campaign/history_variables.h"

#include "core/base/mem.h"

tt_err tt_level_texts_create(const tt_net_inputs *net, tt_level_texts *out)
{
  *out = (tt_level_texts){0};
  if (!net) return TT_OK;
  TT_TRY(TT_ALLOC(out->column, net->count));
  TT_TRY(TT_ALLOC(out->value, net->count));
  TT_TRY(TT_ALLOC(out->text, net->count));
  for (int64_t i = 0; i < net->count; i++) {
    if (!net->at[i].is_text) continue;
    out->column[out->count] = net->at[i].column;
    out->value[out->count] = net->at[i].level;
    out->text[out->count++] = net->at[i].name;
  }
  return TT_OK;
}

void tt_level_texts_free(tt_level_texts *t) { tt_free_all(&t->column, &t->value, &t->text); }

int64_t tt_level_texts_bytes(const tt_level_texts *t)
{
  return t->count * (12 + tt_h5_max_text_length(t->count, t->text));
}

void tt_level_texts_write(tt_schema *s, const tt_level_texts *t)
{
  if (!t->count) return;
  tt_schema_create_dimension(s, "level_strlen", tt_h5_max_text_length(t->count, t->text));
  tt_schema_create_dimension(s, "text_level", t->count);
  TT_SCHEMA_WRITE(s, t->column, "level_column", I32, NULL, "input that has the level, from 0", NULL,
                  "text_level");
  TT_SCHEMA_WRITE(s, t->value, "level", F64, NULL, "number of the level among the inputs", NULL,
                  "text_level");
  tt_schema_write_texts(s, "level_name", "text_level", "level_strlen", t->text,
                        "text of the level");
}
