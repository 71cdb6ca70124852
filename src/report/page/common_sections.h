/* common_sections.h — parts that the page of a run and of a campaign have. Local. */
#ifndef TT_COMMON_SECTIONS_H
#define TT_COMMON_SECTIONS_H
#include "io/hdf5/provenance.h"

#include <stdio.h>

/* The files in the directory of a run or campaign, with sizes and meanings; other files are left
 * out. */
void tt_page_put_files(FILE *f, const char *directory);
void tt_page_put_citation(FILE *f);
/* Pairs (tt_page_begin_pairs) of command, versions, host and device; NULL: not known. */
void tt_page_put_origin(FILE *f, char *const origin[TT_ORIGIN_COUNT]);
/* A text that is folded until it is opened: YAML. */
void tt_page_put_folded(FILE *f, const char *summary, const char *text);
#endif
