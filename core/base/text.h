/* text.h — texts that own their memory, UTF-8, durations, the nearest word. Floor 0. */
#ifndef TT_TEXT_H
#define TT_TEXT_H
#include "core/base/err.h"

#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Replace *text by a copy of `value`. Errors: MEM. */
tt_err tt_text_set(char **text, const char *value);

/* Bytes of the UTF-8 character at p, 0 if it is none (RFC 3629: shortest form, no surrogates). p is
 * not at the end of the text. */
int tt_utf8_char_bytes(const char *p);
/* Its code point and *at moved behind it; -1 and one byte further if it is none. */
int32_t tt_utf8_next(const char **at);

/* The nearest of several words to a misspelt one, if one is near enough to be what was meant.
 * Start with {.word = ...}. */
typedef struct tt_suggestion {
  const char *word;
  char best[128]; /* "" = none */
  int edit_distance;
} tt_suggestion;
void tt_suggestion_consider(tt_suggestion *s, const char *candidate);

/* Seconds as 3:07, 2:03:04, 1-02:03:04, as Slurm has it; "?" if negative. Returns text. */
const char *tt_duration_text(double seconds, char text[32]);
#ifdef __cplusplus
}
#endif
#endif
