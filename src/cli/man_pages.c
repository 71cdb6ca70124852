/* man_pages.c — `tutti man`: a manual page for each verb, in the language mdoc: the text of its
 * --help, and the exit codes. */
#include "core/base/directory.h"
#include "io/files/files.h"
#include "src/cli/cli_args.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Text as it is, without blanks at ends of lines: nothing in it is a request, and each character
 * stands for itself. */
static void put_text(FILE *file, const char *text)
{
  static const char special[] = "\\`'^~-";
  static const char *const instead[] = {"\\e", "\\(ga", "\\(aq", "\\(ha", "\\(ti", "\\-"};
  for (const char *c = text; *c; c++) {
    const char *found = strchr(special, *c);
    if (*c == ' ' && c[1] == '\n') continue;
    if ((c == text || c[-1] == '\n') && *c == '.') fputs("\\&", file);
    if (found)
      fputs(instead[found - special], file);
    else
      fputc(*c, file);
  }
}

/* November 22, 2026 */
static void put_date(FILE *file)
{
  static const char *const months[] = {"January",   "February", "March",    "April",
                                       "May",       "June",     "July",     "August",
                                       "September", "October",  "November", "December"};
  const char *epoch = getenv("SOURCE_DATE_EPOCH");
  time_t now = epoch && *epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
  struct tm day;
  if (gmtime_r(&now, &day))
    fprintf(file, ".Dd %s %d, %d\n", months[day.tm_mon], day.tm_mday, 1900 + day.tm_year);
}

static void put_exit_status(FILE *file)
{
  int last = -1;
  fputs(".Sh EXIT STATUS\n.Bd -literal\n", file);
  for (int e = 0; e < TT_E_COUNT; e++) {
    int code = tt_err_exit_code((tt_err)e);
    if (code == last) continue;
    fprintf(file, "%2d  ", code);
    put_text(file, tt_err_text((tt_err)e));
    fputc('\n', file);
    last = code;
  }
  fputs(".Ed\n", file);
}

typedef struct manual_page {
  const char *words; /* "tutti campaign run" */
  char name[128];    /* "tutti-campaign-run" */
  const char *summary;
  const tt_verb *verb, *verbs; /* verb NULL: a family */
} manual_page;

static tt_err put_page(FILE *file, void *context)
{
  const manual_page *p = context;
  char *help = NULL;
  size_t bytes = 0;
  FILE *f = open_memstream(&help, &bytes);
  if (f && p->verb) tt_cli_print_help(f, p->words, p->verb);
  if (f && !p->verb) tt_cli_print_verbs(f, p->words, p->verbs);
  if (!f || fclose(f)) return TT_FAIL(MEM, "%s: out of memory", p->name);
  put_date(file);
  fputs(".Dt ", file);
  for (const char *c = p->name; *c; c++) fputc(toupper((unsigned char)*c), file);
  fprintf(file, " 1\n.Os\n.Sh NAME\n.Nm %s\n.Nd %s\n", p->name, p->summary);
  fputs(".Sh DESCRIPTION\n.Bd -literal\n", file);
  put_text(file, help);
  fputs(".Ed\n", file);
  put_exit_status(file);
  if (strcmp(p->name, "tutti") != 0) fputs(".Sh SEE ALSO\n.Xr tutti 1\n", file);
  free(help);
  return TT_OK;
}

/* Write the page of "tutti campaign run" to tutti-campaign-run.1. */
static tt_err write_page(const char *directory, const char *words, const char *summary,
                         const tt_verb *verb, const tt_verb *verbs)
{
  manual_page p = {.words = words, .summary = summary, .verb = verb, .verbs = verbs};
  char path[TT_PATH_MAX];
  snprintf(p.name, sizeof p.name, "%s", words);
  for (char *c = p.name; *c; c++)
    if (*c == ' ') *c = '-';
  if (snprintf(path, sizeof path, "%s/%s.1", directory, p.name) >= (int)sizeof path)
    return TT_FAIL(USAGE, "%s: the name is too long", directory);
  return tt_file_print_local(path, put_page, &p);
}

/* The pages of a family and of all its verbs. */
static tt_err write_family(const char *directory, const char *family, const char *summary,
                           const tt_verb *verbs)
{
  TT_TRY(write_page(directory, family, summary, NULL, verbs));
  for (const tt_verb *v = verbs; v->name; v++) {
    char words[128];
    snprintf(words, sizeof words, "%.63s %.63s", family, v->name);
    if (v->verbs)
      TT_TRY(write_family(directory, words, v->summary, v->verbs));
    else
      TT_TRY(write_page(directory, words, v->summary, v, NULL));
  }
  return TT_OK;
}

tt_err tt_verb_man(const tt_cli_args *args)
{
  TT_TRY(tt_directory_create(args->file[0]));
  return write_family(args->file[0], "tutti", "train ensembles of small neural networks together",
                      args->verbs);
}
