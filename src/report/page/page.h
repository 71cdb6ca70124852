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

/* Escaped text between tags, which are written as they are; ^2 and ^3 become superscripts. */
void tt_page_element(FILE *f, const char *before, const char *text, const char *after);
/* Write formatted text, escaped; cut after 1023 bytes. */
void tt_page_print(FILE *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The heading of a part of the page and, if `about` is not NULL, a paragraph below it. */
void tt_page_section(FILE *f, const char *title, const char *about);

/* A list of names and values. */
void tt_page_begin_pairs(FILE *f);
void tt_page_pair(FILE *f, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tt_page_end_pairs(FILE *f);

/* A table: its row of names, then the cells of each row after tt_page_next_row.
 *   heads  names of columns, separated by |; # before the name of a column of numbers */
void tt_page_begin_table(FILE *f, const char *heads);
void tt_page_head(FILE *f, const char *name, int is_number);
void tt_page_next_row(FILE *f);
void tt_page_text_cell(FILE *f, const char *text);
/* 4 digits; empty if the number is not finite. */
void tt_page_number_cell(FILE *f, double value);
void tt_page_end_table(FILE *f);

/* Charts beside each other; a chart in whose first series no point is finite is left out. */
void tt_page_begin_charts(FILE *f);
void tt_page_chart(FILE *f, const tt_chart *c);
void tt_page_end_charts(FILE *f);

/* The three parts of the verdict on top: a question, its answer as figure and as words. */
void tt_page_begin_verdict(FILE *f);
void tt_page_verdict(FILE *f, const char *question, const char *figure, const tt_sentences *words);
void tt_page_end_verdict(FILE *f);

/* Pairs of command, versions, host and device; NULL: not known. */
void tt_page_put_origin(FILE *f, char *const origin[TT_ORIGIN_COUNT]);
/* The configuration, folded until it is opened. */
void tt_page_put_config(FILE *f, const char *text);

/* page_style.c: the style sheet after tt_chart_style. */
extern const char tt_page_style[];
#endif
