/* config_bad_case.h — one job file with a mistake, and the check that it is reported. For the tables
 * of such files. */
#ifndef TT_CONFIG_BAD_CASE_H
#define TT_CONFIG_BAD_CASE_H
#include "tests/unit/config/config_job.h"

#define JOB "data: {file: d.h5}\nensembles: [{name: a}]\n" /* the case continues in line 3 */
#define DATA "data: {file: d.h5}\n"                        /* ... in line 2 */

typedef struct tt_bad {
  int errors;          /* number of errors that must be counted: one mistake is one error */
  const char *text;    /* of the file */
  const char *set;     /* --set, or NULL */
  const char *part[3]; /* what the message must contain */
} tt_bad;

/* One error of a file; of a file and --set; `errors` of a file. Last what the message contains. */
#define BAD(text, ...)                                                                             \
  {                                                                                                \
    1, text, NULL, { __VA_ARGS__ }                                                                 \
  }
#define BAD_SET(text, set, ...)                                                                    \
  {                                                                                                \
    1, text, set, { __VA_ARGS__ }                                                                  \
  }
#define BADS(errors, text, ...)                                                                    \
  {                                                                                                \
    errors, text, NULL, { __VA_ARGS__ }                                                            \
  }

static inline void check_bad(const tt_bad *table, size_t n)
{
  for (const tt_bad *b = table; b < table + n; b++) {
    tt_config *c = NULL;
    char end[64];
    tt_err e = parse(b->text, &b->set, b->set != NULL, &c);
    if (e != TT_E_CONFIG) fprintf(stderr, "accepted: %s%s\n", b->text, b->set ? b->set : "");
    TT_CHECK(e, ==, (tt_err)TT_E_CONFIG);
    TT_CHECK(c == NULL, ==, 1);
    for (int i = 0; i < 3 && b->part[i]; i++) TT_CHECK_HAS(tt_err_last(), b->part[i]);
    snprintf(end, sizeof end, "\n%d error%s; nothing was run", b->errors,
             b->errors == 1 ? "" : "s");
    TT_CHECK_HAS(tt_err_last(), end);
  }
}
#endif
