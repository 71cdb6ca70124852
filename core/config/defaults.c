/* defaults.c — the defaults of the option table, parsed into a record; see config_internal.h. */
#include "core/config/config_internal.h"

#include <stdlib.h>
#include <string.h>

static tt_err store_default(const tt_option *o, void *record)
{
  tt_yaml_scalar scalar = {o->default_value, strlen(o->default_value), 0};
  tt_value value;
  char why[TT_REASON_SIZE];
  if (!tt_value_parse(o, &scalar, &value, why))
    return TT_FAIL(INTERNAL, "the default of %s.%s: %s", o->section, o->name, why);
  return tt_value_store(o, record, &value, 1);
}

/* "[64, 64]" */
static tt_err store_default_list(const tt_option *o, void *record)
{
  enum { MAX_ITEMS = 16 };
  tt_value value[MAX_ITEMS];
  int64_t count = 0;
  for (const char *cursor = o->default_value; *cursor && count < MAX_ITEMS;) {
    char *end = NULL;
    cursor += strspn(cursor, "[], ");
    if (o->kind == TT_KIND_REALS)
      value[count].real = strtod(cursor, &end);
    else
      value[count].whole = strtoll(cursor, &end, 10);
    if (end == cursor) break;
    cursor = end;
    count++;
  }
  return tt_value_store(o, record, value, count);
}

tt_err tt_config_defaults(const tt_option *table, int64_t count, void *record)
{
  static const tt_value nothing = {.text = ""};
  for (int64_t i = 0; i < count; i++) {
    const tt_option *o = &table[i];
    if (o->kind == TT_KIND_LIST || o->kind == TT_KIND_REALS)
      TT_TRY(store_default_list(o, record));
    else if (o->kind == TT_KIND_TEXTLIST)
      TT_TRY(tt_value_store(o, record, NULL, 0));
    else if (o->default_value && *o->default_value)
      TT_TRY(store_default(o, record));
    else if (tt_option_kind_table[o->kind].type == TT_VALUE_STRING)
      TT_TRY(tt_value_store(o, record, &nothing, 1));
  }
  return TT_OK;
}
