/* json.h — JSON by jansson: json_pack and json_unpack are used as they are; here is what jansson
 * does not have. Floor 0. */
#ifndef TT_JSON_H
#define TT_JSON_H
#include "core/base/err.h"

#include <jansson.h>
#ifdef __cplusplus
extern "C" {
#endif

/* A text as a value: control characters become blanks, bytes that are not UTF-8 question marks.
 * NULL = "". Returns NULL when memory is out. */
json_t *tt_json_text(const char *text);
/* A number as a value; null where JSON has none (NaN, infinity). */
json_t *tt_json_number(double value);

/* Set a key of *object, which takes over `value`. When memory is out *object is freed and becomes
 * NULL, and stays NULL: tt_json_format reports it. */
void tt_json_set(json_t **object, const char *key, json_t *value);

/* `value` as text that ends in a newline, the numbers with 15 digits; takes over `value`.
 *   indent  blanks before each key, every key on its own line; 0 = all on one line
 *   text    owner: the caller, tt_free
 * Errors: MEM (also if value is NULL). */
tt_err tt_json_format(json_t *value, int indent, char **text);
/* The same to standard output. Errors: MEM. */
tt_err tt_json_print(json_t *value, int indent);

/* Read a file. *out: json_decref. Errors: NOINPUT, DATA (not JSON: "file:line: what"). */
tt_err tt_json_read_file(const char *path, json_t **out);
#ifdef __cplusplus
}
#endif
#endif
