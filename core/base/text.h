/* text.h — texts that own their memory, UTF-8, durations. Floor 0. */
#ifndef TT_TEXT_H
#define TT_TEXT_H
#include "core/base/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Replace *text by a copy of `value`. Errors: MEM. */
tt_err tt_text_set(char **text, const char *value);

/* Bytes of the UTF-8 character at p, 0 if it is none (RFC 3629: shortest form, no surrogates). p is
 * not at the end of the text. */
int tt_utf8_char_bytes(const char *p);

/* Seconds as 3:07, 2:03:04, 1-02:03:04, as Slurm has it; "?" if negative. Returns text. */
const char *tt_duration_text(double seconds, char text[32]);
#ifdef __cplusplus
}
#endif
#endif
