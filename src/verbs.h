/* verbs.h — the verbs of the command line. Floor 5. */
#ifndef TT_VERBS_H
#define TT_VERBS_H
#include "base/err.h"

/* One verb: its own options (argp), its work. Usage errors end the process with 64 in argp. */
typedef struct tt_verb {
  const char *name, *summary;
  tt_err (*run)(int argc, char **argv); /* argv[0] is "tutti VERB" */
} tt_verb;

/* Ends with a NULL name. */
extern const tt_verb tt_verbs[];

/* The command line as one text, for provenance. Set by main. */
extern const char *tt_command_line;
#endif
