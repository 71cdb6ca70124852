/* config_set.c — "section.name=value" from the command line, and the defaults of the table. */
#include "spec/config_load.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void unknown(tt_reader *r, const tt_where *at, const tt_nearest *near)
{
  char shown[TT_SHOW_TEXT];
  tt_show(near->word, shown);
  if (*near->best)
    tt_fault(r, at, "unknown option '%s'; did you mean '%s'?", shown, near->best);
  else
    tt_fault(r, at, "unknown option '%s'", shown);
}

/* "[3]." or ".heating.": the element and *rest behind it, or -1. A name may hold dots. */
static int64_t find_element(const tt_reader *r, const char *key, const char **rest)
{
  if (*key == '[') {
    char *end = NULL;
    int64_t i = strtoll(key + 1, &end, 10);
    int fine = strchr("0123456789", key[1]) && end[0] == ']' && end[1] == '.';
    *rest = fine ? end + 2 : key;
    return fine && i < r->cfg->ensembles ? i : -1;
  }
  const char *dot = strrchr(key, '.');
  size_t length = dot && dot > key ? (size_t)(dot - key) - 1 : 0;
  *rest = dot ? dot + 1 : key;
  for (int64_t i = 0; length && i < r->cfg->ensembles; i++) {
    const char *name = r->cfg->ensemble[i].name;
    if (strlen(name) == length && strncmp(name, key + 1, length) == 0) return i;
  }
  return -1;
}

static int find_own(tt_reader *r, const tt_where *at, const char *key, tt_slot *out)
{
  const char *rest = key;
  int64_t element = find_element(r, key, &rest);
  tt_nearest near = {.word = rest};
  if (element < 0) {
    tt_fault(r, at,
             "no such ensemble; write ensembles[i].option=value with i below %" PRId64
             ", or ensembles.NAME.option=value",
             r->cfg->ensembles);
    return 0;
  }
  for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++) {
    *out = tt_slot_own(r, element, i);
    if (strcmp(out->option->name, rest) == 0) return 1;
    tt_nearest_offer(&near, out->option->name);
  }
  unknown(r, at, &near);
  return 0;
}

static int find_job(tt_reader *r, const tt_where *at, const char *key, tt_slot *out)
{
  char path[TT_PATH_TEXT];
  tt_nearest near = {.word = key};
  for (int i = 0; i < TT_OPTION_COUNT; i++) {
    *out = tt_slot_job(r, i);
    tt_option_path(out->option, -1, path);
    if (strcmp(path, key) == 0) return 1;
    tt_nearest_offer(&near, path);
  }
  unknown(r, at, &near);
  return 0;
}

static tt_err assign_text(tt_reader *r, const tt_slot *s, const tt_where *at, const char *text)
{
  yaml_document_t doc;
  char path[TT_PATH_TEXT];
  int good = 0;
  TT_TRY(tt_config_load(r, text, strlen(text), &doc, &good));
  if (!good) return TT_OK;
  yaml_node_t *root = yaml_document_get_root_node(&doc);
  tt_option_path(s->option, s->element, path);
  tt_err e = TT_OK;
  if (root)
    e = tt_slot_assign(r, &doc, s, at, root);
  else
    tt_fault(r, at, "%s has no value; write '' for an empty text", path);
  yaml_document_delete(&doc);
  return e;
}

tt_err tt_config_read_set(tt_reader *r)
{
  const char *text = r->set[r->now - 1], *equals = strchr(text, '=');
  tt_where at = {.line = 1, .column = 1, .set = r->now};
  char key[TT_PATH_TEXT];
  tt_slot s;
  size_t length = equals ? (size_t)(equals - text) : 0;
  if (length == 0 || length >= sizeof key) {
    tt_fault(r, &at, "expected section.option=value");
    return TT_OK;
  }
  memcpy(key, text, length);
  key[length] = '\0';
  int own = strncmp(key, "ensembles", 9) == 0 && (key[9] == '[' || key[9] == '.');
  int found = own ? find_own(r, &at, key + 9, &s) : find_job(r, &at, key, &s);
  return found ? assign_text(r, &s, &at, equals + 1) : TT_OK;
}

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
    if (o->kind == TT_KIND_LIST)
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
