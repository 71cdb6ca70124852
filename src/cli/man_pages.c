/* man_pages.c — `tutti man`: a manual page for each verb, in the language mdoc, from the tables of
 * verbs and options. */
#include "core/base/directory.h"
#include "io/hdf5/files.h"
#include "src/cli/cli_args.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A character that stands for itself. Returns its length in the page. */
static int put_character(FILE *to, char c)
{
  switch (c) {
  case '\\': return fputs("\\e", to), 2;
  case '`': return fputs("\\(ga", to), 4;
  case '\'': return fputs("\\(aq", to), 4;
  case '^': return fputs("\\(ha", to), 4;
  case '~': return fputs("\\(ti", to), 4;
  default: return fputc(c, to), 1;
  }
}

/* Does a sentence end with the character before the space at c? */
static int ends_sentence(const char *text, const char *c)
{
  return c - text >= 4 && strchr(".;:", c[-1]) && strncmp(c - 4, "e.g.", 4) != 0;
}

/* Text of a paragraph: sentences begin on new lines, as mdoc asks for, lines are short, and nothing
 * in them is a request. */
static void put_text(FILE *to, const char *text)
{
  enum { LONGEST_LINE = 76 };
  int column = 0;
  for (const char *c = text; *c; c++) {
    size_t word = strcspn(c + (*c == ' '), " ");
    if (*c == ' ' && (ends_sentence(text, c) || column + (int)word >= LONGEST_LINE)) {
      fputc('\n', to);
      column = 0;
      continue;
    }
    if (column == 0 && (*c == '.' || *c == '\'')) fputs("\\&", to);
    column += put_character(to, *c);
  }
  fputc('\n', to);
}

/* November 22, 2026 */
static void put_date(FILE *to)
{
  static const char *const months[] = {"January",   "February", "March",    "April",
                                       "May",       "June",     "July",     "August",
                                       "September", "October",  "November", "December"};
  const char *epoch = getenv("SOURCE_DATE_EPOCH");
  time_t now = epoch && *epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
  struct tm day;
  if (gmtime_r(&now, &day))
    fprintf(to, ".Dd %s %d, %d\n", months[day.tm_mon], day.tm_mday, 1900 + day.tm_year);
}

/* "tutti campaign run" as the name of a page: tutti-campaign-run. */
static void put_page_name(FILE *to, const char *name, int (*letter)(int))
{
  for (; *name; name++) fputc(*name == ' ' ? '-' : letter((unsigned char)*name), to);
}

static int same_letter(int c) { return c; }

static void put_head(FILE *to, const char *name, const char *summary)
{
  put_date(to);
  fputs(".Dt ", to);
  put_page_name(to, name, toupper);
  fputs(" 1\n.Os\n.Sh NAME\n.Nm ", to);
  put_page_name(to, name, same_letter);
  fprintf(to, "\n.Nd %s\n.Sh SYNOPSIS\n.Nm %s\n", summary, name);
}

/* Positional arguments; those in brackets are optional. */
static void put_files(FILE *to, const char *files)
{
  while (*files) {
    size_t length = strcspn(files, " ");
    if (*files == '[')
      fprintf(to, ".Op Ar %.*s\n", (int)(length - 2), files + 1);
    else
      fprintf(to, ".Ar %.*s\n", (int)length, files);
    files += length + (files[length] == ' ');
  }
}

static void put_option(FILE *to, const tt_cli_option_text *o)
{
  fputs(".It ", to);
  if (o->letter) fprintf(to, "Fl %c , ", o->letter);
  fprintf(to, "Fl Fl %s", o->name);
  if (o->argument) fprintf(to, " Ns = Ns Ar %s", o->argument);
  fputc('\n', to);
  put_text(to, o->help);
}

static void put_options(FILE *to, const tt_verb *verb)
{
  static const tt_cli_option_text help = {"help", NULL, "print a short help text", '?'};
  fputs("The options are:\n.Bl -tag -width Ds\n", to);
  for (const int8_t *id = verb->options; *id; id++) {
    tt_cli_option_text o = tt_cli_describe_option(*id);
    put_option(to, &o);
  }
  put_option(to, &help);
  fputs(".El\n", to);
}

static void put_exit_status(FILE *to)
{
  int last = -1;
  fputs(".Sh EXIT STATUS\n.Bl -tag -width 3n -compact\n", to);
  for (int e = 0; e < TT_E_COUNT; e++) {
    int code = tt_err_exit_code((tt_err)e);
    if (code == last) continue;
    fprintf(to, ".It %d\n", code);
    put_text(to, tt_err_text((tt_err)e));
    last = code;
  }
  fputs(".El\n", to);
}

/* The verbs of a family, with their pages. */
static void put_verbs(FILE *to, const char *family, const tt_verb *verbs)
{
  fputs(".Bl -tag -width Ds\n", to);
  for (const tt_verb *v = verbs; v->name; v++) {
    fprintf(to, ".It Nm %s %s\n", family, v->name);
    put_text(to, v->summary);
  }
  fputs(".El\n.Pp\nEach has a page of its own, for example\n.Xr ", to);
  put_page_name(to, family, same_letter);
  fprintf(to, "-%s 1 .\n", verbs->name);
}

/* Write the page of "tutti campaign run" to tutti-campaign-run.1.
 *   verb  the verb; NULL: the family `verbs` */
static tt_err write_page(const char *directory, const char *name, const char *summary,
                         const tt_verb *verb, const tt_verb *verbs)
{
  char path[TT_PATH_MAX], *text = NULL;
  size_t bytes = 0;
  int n = snprintf(path, sizeof path, "%s/%s.1", directory, name);
  if (n >= (int)sizeof path) return TT_FAIL(USAGE, "%s: the name is too long", directory);
  for (char *c = path + n - (int)strlen(name) - 2; *c; c++)
    if (*c == ' ') *c = '-';
  FILE *to = open_memstream(&text, &bytes);
  if (!to) return TT_FAIL(MEM, "%s: out of memory", path);
  put_head(to, name, summary);
  if (verb) {
    fputs(".Op Ar OPTION ...\n", to);
    put_files(to, verb->files);
  } else {
    fputs(".Ar VERB\n.Op Ar OPTION ...\n", to);
  }
  fputs(".Sh DESCRIPTION\n", to);
  if (verb) {
    put_text(to, verb->help);
    fputs(".Pp\n", to);
    put_options(to, verb);
  } else {
    fputs("The verbs are:\n", to);
    put_verbs(to, name, verbs);
  }
  put_exit_status(to);
  if (strcmp(name, "tutti") != 0) fputs(".Sh SEE ALSO\n.Xr tutti 1\n", to);
  int bad = ferror(to);
  bad |= fclose(to) != 0;
  tt_err e = bad ? TT_FAIL(MEM, "%s: out of memory", path) : tt_file_write_atomic_local(path, text);
  free(text);
  return e;
}

/* The pages of a family and of all its verbs. */
static tt_err write_family(const char *directory, const char *family, const char *summary,
                           const tt_verb *verbs)
{
  TT_TRY(write_page(directory, family, summary, NULL, verbs));
  for (const tt_verb *v = verbs; v->name; v++) {
    char name[128];
    snprintf(name, sizeof name, "%.63s %.63s", family, v->name);
    if (v->verbs)
      TT_TRY(write_family(directory, name, v->summary, v->verbs));
    else
      TT_TRY(write_page(directory, name, v->summary, v, NULL));
  }
  return TT_OK;
}

tt_err tt_verb_man(const tt_cli_args *args)
{
  TT_TRY(tt_directory_create(args->file[0]));
  return write_family(args->file[0], "tutti", "train ensembles of small neural networks together",
                      args->verbs);
}
