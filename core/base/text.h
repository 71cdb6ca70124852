/* text.h — texts that own their memory, and the texts of files for other programs: UTF-8, JSON.
 * Floor 0. */
#ifndef TT_TEXT_H
#define TT_TEXT_H
#include "core/base/err.h"

#include <stdio.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Replace *text by a copy of `value`. Errors: MEM. */
tt_err tt_text_set(char **text, const char *value);

/* Bytes of the UTF-8 character at p, 0 if it is none (RFC 3629: shortest form, no surrogates). p is
 * not at the end of the text. */
int tt_utf8_char_bytes(const char *p);

/* A text as a JSON string, with its quotes: quotes and backslashes escaped, control characters as
 * blanks. NULL = "". */
void tt_json_write_string(FILE *f, const char *text);
/* A number; null where JSON has none: NaN, infinity. */
void tt_json_write_number(FILE *f, double value);

/* Seconds as 3:07, 2:03:04, 1-02:03:04, as Slurm has it; "?" if negative. Returns text. */
const char *tt_duration_text(double seconds, char text[32]);
#ifdef __cplusplus
}
#endif
#endif
