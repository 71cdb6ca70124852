/* config_bad_case.h — one job file with a mistake. For config_bad*.h. */
#ifndef TT_CONFIG_BAD_CASE_H
#define TT_CONFIG_BAD_CASE_H
#include <stddef.h>

#define JOB "data: {file: d.h5}\nensembles: [{name: a}]\n" /* the case continues in line 3 */
#define DATA "data: {file: d.h5}\n"                        /* ... in line 2 */

typedef struct tt_bad {
  int errors;          /* number of errors that must be counted: one mistake is one error */
  const char *text;    /* of the file */
  const char *set;     /* --set, or NULL */
  const char *part[3]; /* what the message must contain */
} tt_bad;
#endif
