/* text.h — copies of texts, UTF-8, suggestions for misspelt words, durations, texts in lines.
 * Local. */
#ifndef TT_TEXT_H
#define TT_TEXT_H
#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>
TT_BEGIN_C

/* Replace *text by a copy of `value`. Errors: MEM. */
tt_err tt_text_set(char **text, const char *value);
/* Replace *text by what printf would print; *text may be one of the arguments. Errors: MEM. */
tt_err tt_text_format(char **text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for the name of a column: characters that are not printable become '?', as in the files
 * of models, so that a table fits the model that was trained on it. A name that is not UTF-8 stays.
 * Errors: MEM. */
tt_err tt_text_set_name(char **text, const char *value);

/* Whether the text is longer than `end`, and ends in it: a name of a file. */
int tt_text_ends_in(const char *text, const char *end);

/* Append a word to the list in `text`, behind the separator if it is not the first one; what does
 * not fit is cut. */
void tt_text_append(char *text, size_t capacity, const char *separator, const char *word);

/* Length in bytes of the UTF-8 character at `text`, 0 if it is not valid (RFC 3629: shortest form,
 * no surrogates). *text must not be NUL. */
int tt_utf8_char_bytes(const char *text);
/* The code point at *cursor, with *cursor moved behind it; -1 and one byte further if it is not
 * valid. */
int32_t tt_utf8_next(const char **cursor);

int tt_text_is_utf8(const char *text);

/* 1 if a code point of tt_utf8_next is valid, no control character, and does not change the
 * direction or the lines of the text around it (U+2028 to U+202E, U+2066 to U+2069). */
int tt_utf8_is_printable(int32_t code);
/* Replace characters that are not printable and bytes that are not UTF-8 by '?', in place: an
 * escape sequence in a name must not reach a terminal, and generated code must read as it runs.
 *   keep  control characters that stay, "" or "\n\t" */
void tt_text_make_printable(char *text, const char *keep);

/* The valid word that is nearest to a misspelt one, if it is near enough (edit distance, in which
 * upper and lower case are equal); or one that begins with the word: "load (kWh)" for "load".
 * Initialize with {.word = ...}, then call tt_suggestion_consider for each valid word. */
typedef struct tt_suggestion {
  const char *word;
  char best[128]; /* "" = none */
  int edit_distance;
} tt_suggestion;
void tt_suggestion_consider(tt_suggestion *s, const char *candidate);

/* "" for 1, "s" for any other count: printf("%d member%s", n, tt_plural(n)). */
const char *tt_plural(int64_t count);

/* Seconds as 3:07, 2:03:04, 1-02:03:04, the format of Slurm; "?" if negative. Returns text. */
const char *tt_duration_text(double seconds, char text[32]);

/* Some sentences, each cut after TT_SENTENCE - 1 bytes; more than TT_SENTENCES are left out. */
enum { TT_SENTENCES = 8, TT_SENTENCE = 512 };
typedef struct tt_sentences {
  int64_t count;
  char text[TT_SENTENCES][TT_SENTENCE];
} tt_sentences;
void tt_sentences_add(tt_sentences *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Print a word to standard output behind a blank, or in the next line if this one is full: of 80
 * columns, the words from column `indent` on.
 *   column  characters in this line so far, at first indent - 1 */
void tt_text_print_word(int *column, int indent, const char *word, int length);
/* Print the words of a text in this way, behind indent - 1 characters, and the end of the line. */
void tt_text_print_words(int indent, const char *text);
TT_END_C
#endif
