/* page.h — one HTML page in one file: no other file, no network, no script; readable in print
 * and on a dark screen. Local. */
#ifndef TT_PAGE_H
#define TT_PAGE_H
#include "core/base/text.h"
#include "io/hdf5/provenance.h"
#include "src/report/chart.h"

#include <stdio.h>

/* Write a page to `file`, complete or not at all: with its title, a line below it that says what
 * the page is about, and what `put` writes. force: 1 = also replace a file that tutti report did
 * not write. Errors: of put; CANTCREAT, IO, MEM. */
tt_err tt_page_write(const char *title, const char *about, const char *file, int force,
                     tt_err (*put)(FILE *f, void *context), void *context);

/* Error if a file or a link is at `path` that tutti report did not write; force: 1 = it may be
 * replaced. Errors: CANTCREAT. */
tt_err tt_page_check_place(const char *path, int force);

/* Write text: escaped; ^2 and ^3 become superscripts, unless verbatim. */
void tt_page_put(FILE *f, const char *text);
void tt_page_put_verbatim(FILE *f, const char *text);
/* Escaped text between tags, which are written as they are. */
void tt_page_element(FILE *f, const char *before, const char *text, const char *after);
/* Write formatted text, escaped; cut after 1023 bytes. */
void tt_page_print(FILE *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A part of the page with its heading; a paragraph; a row of a table of names and values. */
void tt_page_begin_section(FILE *f, const char *title, const char *about);
void tt_page_end_section(FILE *f);
void tt_page_begin_pairs(FILE *f);
void tt_page_pair(FILE *f, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tt_page_end_pairs(FILE *f);

/* A cell with a number, 4 digits; empty if it is not finite. */
void tt_page_number_cell(FILE *f, double value);

/* Charts beside each other; a chart that has no series is left out. */
void tt_page_begin_charts(FILE *f);
void tt_page_chart(FILE *f, const tt_chart *c);
void tt_page_end_charts(FILE *f);

/* The three parts of the verdict on top: a question, its answer as figure and as words. */
void tt_page_begin_verdict(FILE *f);
void tt_page_verdict(FILE *f, const char *question, const char *figure, const tt_sentences *words);
void tt_page_end_verdict(FILE *f);

/* Sections of the page of a run and of a campaign. */

/* The files in the directory of a run or campaign, with sizes and meanings; other files are left
 * out. */
void tt_page_put_files(FILE *f, const char *directory);
void tt_page_put_citation(FILE *f);
/* Pairs (tt_page_begin_pairs) of command, versions, host and device; NULL: not known. */
void tt_page_put_origin(FILE *f, char *const origin[TT_ORIGIN_COUNT]);
/* A text that is folded until it is opened: YAML. */
void tt_page_put_folded(FILE *f, const char *summary, const char *text);

/* page_style.c: the style sheet after tt_chart_style. */
extern const char tt_page_style[];
#endif
