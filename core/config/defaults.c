/* defaults.c — the defaults of the option table, parsed into a record; see config_internal.h. */
#include "core/config/config_internal.h"

#include <stdlib.h>
#include <string.h>

static tt_err store_default(const tt_option *o, void *record)
{
  tt_literal from = {o->preset, strlen(o->preset), 0};
  tt_value value;
  char why[TT_WHY_TEXT];
  if (!tt_value_parse(o, &from, &value, why))
    return TT_FAIL(INTERNAL, "the default of %s.%s: %s", o->section, o->name, why);
  return tt_value_store(o, record, &value, 1);
}

/* "[64, 64]" */
static tt_err store_default_list(const tt_option *o, void *record)
{
  enum { MOST = 16 };
  tt_value value[MOST];
  int64_t count = 0;
  for (const char *at = o->preset; *at && count < MOST;) {
    char *end = NULL;
    at += strspn(at, "[], ");
    if (o->kind == TT_KIND_REALS)
      value[count].real = strtod(at, &end);
    else
      value[count].whole = strtoll(at, &end, 10);
    if (end == at) break;
    at = end;
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
    else if (o->preset && *o->preset)
      TT_TRY(store_default(o, record));
    else if (o->kind == TT_KIND_TEXT || o->kind == TT_KIND_PATH)
      TT_TRY(tt_value_store(o, record, &nothing, 1));
  }
  return TT_OK;
}
