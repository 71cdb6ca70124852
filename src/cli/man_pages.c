/* man_pages.c — `tutti man`: a manual page for each verb, in the language mdoc, from the tables of
 * verbs and options. */
#include "core/base/directory.h"
#include "io/files/files.h"
#include "src/cli/cli_args.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A character that stands for itself. Returns its length in the page. */
static int put_character(FILE *file, char c)
{
  switch (c) {
  case '\\': return fputs("\\e", file), 2;
  case '`': return fputs("\\(ga", file), 4;
  case '\'': return fputs("\\(aq", file), 4;
  case '^': return fputs("\\(ha", file), 4;
  case '~': return fputs("\\(ti", file), 4;
  default: return fputc(c, file), 1;
  }
}

/* Does a sentence end with the character before the space at c? */
static int ends_sentence(const char *text, const char *c)
{
  return c - text >= 4 && strchr(".;:", c[-1]) && strncmp(c - 4, "e.g.", 4) != 0;
}

/* Text of a paragraph: sentences begin on new lines, as mdoc asks for, lines are short, and nothing
 * in them is a request. */
static void put_text(FILE *file, const char *text)
{
  enum { LONGEST_LINE = 76 };
  int column = 0;
  for (const char *c = text; *c; c++) {
    size_t word = strcspn(c + (*c == ' '), " ");
    if (*c == ' ' && (ends_sentence(text, c) || column + (int)word >= LONGEST_LINE)) {
      fputc('\n', file);
      column = 0;
      continue;
    }
    if (column == 0 && (*c == '.' || *c == '\'')) fputs("\\&", file);
    column += put_character(file, *c);
  }
  fputc('\n', file);
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

/* "tutti campaign run" as the name of a page: tutti-campaign-run. */
static void put_page_name(FILE *file, const char *name, int (*letter)(int))
{
  for (; *name; name++) fputc(*name == ' ' ? '-' : letter((unsigned char)*name), file);
}

static int same_letter(int c) { return c; }

static void put_head(FILE *file, const char *name, const char *summary)
{
  put_date(file);
  fputs(".Dt ", file);
  put_page_name(file, name, toupper);
  fputs(" 1\n.Os\n.Sh NAME\n.Nm ", file);
  put_page_name(file, name, same_letter);
  fprintf(file, "\n.Nd %s\n.Sh SYNOPSIS\n.Nm %s\n", summary, name);
}

/* Positional arguments; those in brackets are optional. */
static void put_files(FILE *file, const char *files)
{
  while (*files) {
    size_t length = strcspn(files, " ");
    if (*files == '[')
      fprintf(file, ".Op Ar %.*s\n", (int)(length - 2), files + 1);
    else
      fprintf(file, ".Ar %.*s\n", (int)length, files);
    files += length + (files[length] == ' ');
  }
}

static void put_option(FILE *file, const tt_cli_option_text *o)
{
  fputs(".It ", file);
  if (o->letter) fprintf(file, "Fl %c , ", o->letter);
  fprintf(file, "Fl Fl %s", o->name);
  if (o->argument) fprintf(file, " Ns = Ns Ar %s", o->argument);
  fputc('\n', file);
  put_text(file, o->help);
}

static void put_options(FILE *file, const tt_verb *verb)
{
  static const tt_cli_option_text help = {"help", NULL, "print a short help text", '?'};
  fputs("The options are:\n.Bl -tag -width Ds\n", file);
  for (const int8_t *id = verb->options; *id; id++) {
    tt_cli_option_text o = tt_cli_describe_option(*id);
    put_option(file, &o);
  }
  put_option(file, &help);
  fputs(".El\n", file);
}

static void put_exit_status(FILE *file)
{
  int last = -1;
  fputs(".Sh EXIT STATUS\n.Bl -tag -width 3n -compact\n", file);
  for (int e = 0; e < TT_E_COUNT; e++) {
    int code = tt_err_exit_code((tt_err)e);
    if (code == last) continue;
    fprintf(file, ".It %d\n", code);
    put_text(file, tt_err_text((tt_err)e));
    last = code;
  }
  fputs(".El\n", file);
}

/* The verbs of a family, with their pages. */
static void put_verbs(FILE *file, const char *family, const tt_verb *verbs)
{
  fputs(".Bl -tag -width Ds\n", file);
  for (const tt_verb *v = verbs; v->name; v++) {
    fprintf(file, ".It Nm %s %s\n", family, v->name);
    put_text(file, v->summary);
  }
  fputs(".El\n.Pp\nEach has a page of its own, for example\n.Xr ", file);
  put_page_name(file, family, same_letter);
  fprintf(file, "-%s 1 .\n", verbs->name);
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
  FILE *file = open_memstream(&text, &bytes);
  if (!file) return TT_FAIL(MEM, "%s: out of memory", path);
  put_head(file, name, summary);
  if (verb) {
    fputs(".Op Ar OPTION ...\n", file);
    put_files(file, verb->files);
  } else {
    fputs(".Ar VERB\n.Op Ar OPTION ...\n", file);
  }
  fputs(".Sh DESCRIPTION\n", file);
  if (verb) {
    put_text(file, verb->help);
    fputs(".Pp\n", file);
    put_options(file, verb);
  } else {
    fputs("The verbs are:\n", file);
    put_verbs(file, name, verbs);
  }
  put_exit_status(file);
  if (strcmp(name, "tutti") != 0) fputs(".Sh SEE ALSO\n.Xr tutti 1\n", file);
  int bad = ferror(file);
  bad |= fclose(file) != 0;
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
