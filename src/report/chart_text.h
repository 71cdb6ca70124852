/* chart_text.h — texts of an SVG picture. Local. */
#ifndef TT_CHART_TEXT_H
#define TT_CHART_TEXT_H
#include <stdio.h>

enum { TT_CHART_MAX_CHARACTERS = 80 };

/* Number of characters of a text, at most TT_CHART_MAX_CHARACTERS + 1. */
int tt_chart_count_characters(const char *text);

/* Write the character at *p, escaped for XML and its attributes; '?' for control characters and
 * bytes that are not UTF-8. Returns the number of bytes that were read.
 *   superscripts  1: ^2 and ^3 become superscripts */
int tt_chart_put_character(FILE *f, const char *p, int superscripts);

/* Write at most `most` characters, escaped for XML and its attributes; ^2 and ^3 become
 * superscripts. */
void tt_chart_put_text(FILE *f, const char *text, int most);

/* Write a text element at (x, y).
 *   how  its attributes, e.g. text-anchor="end" */
void tt_chart_put_label(FILE *f, double x, double y, const char *how, const char *text);

/* The same in at most `width` pixels: the characters of a long text become narrower, by at most a
 * quarter; if that is not enough, the text is cut.
 *   character  average width of a character */
void tt_chart_put_fitted(FILE *f, double x, double y, const char *how, double character,
                         double width, const char *text);
#endif
