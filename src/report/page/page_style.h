/* page_style.h — style sheet and script of a page (page.h). */
#ifndef TT_PAGE_STYLE_H
#define TT_PAGE_STYLE_H

/* After tt_chart_style. */
extern const char tt_page_style[];

/* Shows what the nearest mark of a chart says (data-h, data-t), and marks one member in all charts
 * and tables (data-m). */
extern const char tt_page_script[];
#endif
