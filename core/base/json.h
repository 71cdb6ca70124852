/* json.h — functions that jansson does not have; json_pack, json_unpack and others are called
 * directly. */
#ifndef TT_JSON_H
#define TT_JSON_H
#include "core/base/err.h"

#include <jansson.h>
TT_BEGIN_C

/* A JSON string: control characters become spaces, bytes that are not UTF-8 become question marks.
 * NULL = "". Returns NULL when out of memory. */
json_t *tt_json_text(const char *text);
/* A JSON number; null for NaN and infinity, which JSON does not have. */
json_t *tt_json_number(double value);

/* Set a key of *object, which takes ownership of `value`. When out of memory, *object is freed and
 * set to NULL; later calls leave it NULL, and tt_json_format reports the error. */
void tt_json_set(json_t **object, const char *key, json_t *value);

/* `value` as text that ends in a newline, the numbers with 15 digits; takes ownership of `value`.
 *   indent  spaces per level, with one key per line; 0 = all on one line
 *   text    owner: the caller, tt_free
 * Errors: MEM (also if value is NULL). */
tt_err tt_json_format(json_t *value, int indent, char **text);
/* Write the same text to standard output. Errors: MEM. */
tt_err tt_json_print(json_t *value, int indent);

/* Read a file; the caller owns *out, json_decref. Errors: NOINPUT, DATA (not JSON; the message is
 * "file:line: text"). */
tt_err tt_json_read_file(const char *path, json_t **out);
TT_END_C
#endif
