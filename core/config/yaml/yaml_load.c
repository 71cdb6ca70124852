/* yaml_load.c — YAML text to a tree of nodes with locations. A first pass over the events refuses
 * what a job file does not need: deep nesting (quadratic time in the parser), several documents,
 * anchors, aliases, tags. */
#include "core/config/yaml/yaml_nodes.h"

#include <string.h>

enum { MAX_DEPTH = 64 };

/* Line and column, counted in characters, of a byte. */
static tt_source_location location_of_byte(const tt_config_reader *r, const char *text, size_t byte)
{
  tt_source_location location = {.line = 1, .column = 1, .set = r->now};
  for (size_t i = 0; i < byte; i++) {
    if (text[i] == '\n')
      location.line++, location.column = 1;
    else if ((text[i] & 0xC0) != 0x80)
      location.column++;
  }
  return location;
}

static tt_source_location location_of_mark(const tt_config_reader *r, yaml_mark_t mark)
{
  tt_source_location location = {
      .line = (int64_t)mark.line + 1, .column = (int64_t)mark.column + 1, .set = r->now};
  return location;
}

tt_source_location tt_node_location(const tt_config_reader *r, const yaml_node_t *node)
{
  return location_of_mark(r, node->start_mark);
}

/* A common mistake: indentation by tabs, which YAML forbids and many editors do not show. */
static int line_has_tab(const char *text, size_t bytes, int64_t line)
{
  const char *cursor = text, *end = text + bytes;
  for (; line > 1 && cursor < end; line--) {
    const char *next = memchr(cursor, '\n', (size_t)(end - cursor));
    if (!next) return 0;
    cursor = next + 1;
  }
  const char *stop = memchr(cursor, '\n', (size_t)(end - cursor));
  return memchr(cursor, '\t', (size_t)((stop ? stop : end) - cursor)) != NULL;
}

static tt_err syntax_error(tt_config_reader *r, const yaml_parser_t *p, const char *text,
                           size_t bytes)
{
  if (p->error == YAML_MEMORY_ERROR) return TT_FAIL(MEM, "%s: out of memory", r->file);
  const char *problem = p->problem ? p->problem : "not YAML";
  if (p->error == YAML_READER_ERROR) {
    tt_source_location location =
        location_of_byte(r, text, p->problem_offset < bytes ? p->problem_offset : bytes);
    tt_config_error(r, &location, "YAML: %s; the file must be UTF-8 text", problem);
    return TT_OK;
  }
  tt_source_location location = location_of_mark(r, p->problem_mark);
  const char *tab =
      line_has_tab(text, bytes, location.line) ? "; indent with spaces, not tabs" : "";
  if (p->context && p->context_mark.line != p->problem_mark.line)
    tt_config_error(r, &location, "YAML: %s, %s that begins in line %zu%s", problem, p->context,
                    p->context_mark.line + 1, tab);
  else
    tt_config_error(r, &location, "YAML: %s%s%s%s", problem, p->context ? ", " : "",
                    p->context ? p->context : "", tab);
  return TT_OK;
}

typedef struct scan {
  int depth, documents;
  const char *refused; /* why the file is refused, NULL if it is not */
} scan;

static void scan_event(const yaml_event_t *event, scan *o)
{
  const yaml_char_t *anchor = NULL, *tag = NULL;
  int opens = 0;
  switch (event->type) {
  case YAML_DOCUMENT_START_EVENT:
    if (++o->documents > 1) o->refused = "a second document; one job file is one document";
    break;
  case YAML_ALIAS_EVENT: anchor = event->data.alias.anchor; break;
  case YAML_SCALAR_EVENT:
    anchor = event->data.scalar.anchor;
    tag = event->data.scalar.tag;
    break;
  case YAML_SEQUENCE_START_EVENT:
    anchor = event->data.sequence_start.anchor;
    tag = event->data.sequence_start.tag;
    opens = 1;
    break;
  case YAML_MAPPING_START_EVENT:
    anchor = event->data.mapping_start.anchor;
    tag = event->data.mapping_start.tag;
    opens = 1;
    break;
  case YAML_SEQUENCE_END_EVENT:
  case YAML_MAPPING_END_EVENT: opens = -1; break;
  default: break;
  }
  o->depth += opens;
  if (anchor)
    o->refused = "anchors (&x) and aliases (*x) are not supported; write the value itself";
  if (tag) o->refused = "tags (!x) are not supported; remove the tag";
  if (o->depth > MAX_DEPTH) o->refused = "nested too deeply; at most 64 levels are allowed";
}

static void open_parser(yaml_parser_t *p, const char *text, size_t bytes)
{
  yaml_parser_set_encoding(p, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(p, (const unsigned char *)text, bytes);
}

/* First pass: *good = 1 if the text is one valid document for the second pass. */
static tt_err scan_document(tt_config_reader *r, const char *text, size_t bytes, int *good)
{
  yaml_parser_t p;
  scan o = {0};
  tt_err e = TT_OK;
  int more = 1;
  if (!yaml_parser_initialize(&p)) return TT_FAIL(MEM, "%s: out of memory", r->file);
  open_parser(&p, text, bytes);
  while (more) {
    yaml_event_t event;
    if (!yaml_parser_parse(&p, &event)) {
      e = syntax_error(r, &p, text, bytes);
      break;
    }
    scan_event(&event, &o);
    if (o.refused) {
      tt_source_location location = location_of_mark(r, event.start_mark);
      tt_config_error(r, &location, "%s", o.refused);
    }
    *good = event.type == YAML_STREAM_END_EVENT;
    more = !*good && !o.refused;
    yaml_event_delete(&event);
  }
  yaml_parser_delete(&p);
  return e;
}

tt_err tt_yaml_load(tt_config_reader *r, const char *text, size_t bytes, yaml_document_t *doc,
                    int *good)
{
  yaml_parser_t p;
  tt_err e = TT_OK;
  *good = 0;
  const char *nul = memchr(text, '\0', bytes);
  if (nul) {
    tt_source_location location = location_of_byte(r, text, (size_t)(nul - text));
    tt_config_error(r, &location, "a NUL byte; the file must be UTF-8 text");
    return TT_OK;
  }
  int mark = bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* byte order mark */
  text += mark;
  bytes -= (size_t)mark;
  TT_TRY(scan_document(r, text, bytes, good));
  if (!*good) return TT_OK;
  if (!yaml_parser_initialize(&p)) return TT_FAIL(MEM, "%s: out of memory", r->file);
  open_parser(&p, text, bytes);
  *good = yaml_parser_load(&p, doc);
  if (!*good) e = syntax_error(r, &p, text, bytes);
  yaml_parser_delete(&p);
  return e;
}
