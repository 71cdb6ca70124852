/* common_sections.c — see page.h. */
#include "src/report/page/page.h"

#include "core/base/directory.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Files of a directory of a run or a campaign: begin and end of the name, meaning. */
static const struct {
  const char *begin, *end, *meaning;
} known_file[] = {{"model.h5", "", "the trained members; tutti predict reads it"},
                  {"results.h5", "", "histories, scores and predictions of the test rows"},
                  {"campaign.h5", "", "the history of the campaign"},
                  {"journal.jsonl", "", "one line for every finished stage"},
                  {"config.yaml", "", "the values of all options"},
                  {"importance.h5", "", "how much each input matters, by tutti explain"},
                  {"metrics.jsonl", "", "losses and counts while training, one line each"},
                  {"status.json", "", "state of the run"},
                  {"ckpt-g", ".h5", "checkpoint"},
                  {"round-", "", "training, queries and labels of a round"}};

static const char *meaning_of(const char *name)
{
  size_t n = strlen(name);
  for (size_t i = 0; i < sizeof known_file / sizeof *known_file; i++) {
    const char *begin = known_file[i].begin, *end = known_file[i].end;
    size_t b = strlen(begin), e = strlen(end);
    int is_whole = strchr(begin, '.') != NULL;
    if (is_whole ? !strcmp(name, begin)
                 : n >= b + e && !strncmp(name, begin, b) && !strcmp(name + n - e, end))
      return known_file[i].meaning;
  }
  return NULL;
}

static void put_size(FILE *f, double bytes)
{
  static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
  int u = 0;
  for (; bytes >= 999.5 && u < 4; u++) bytes /= 1000;
  fprintf(f, "<td class=\"number\">%.3g %s</td>", bytes, unit[u]);
}

static int is_known(const struct dirent *d) { return meaning_of(d->d_name) != NULL; }

void tt_page_put_files(FILE *f, const char *directory)
{
  enum { MOST = 40 };
  char path[TT_PATH_MAX];
  struct dirent **name = NULL;
  struct stat info;
  int n = scandir(directory, &name, is_known, alphasort);
  tt_page_begin_section(f, "Files", directory);
  fputs("<div class=\"wide\"><table>\n", f);
  for (int i = 0; i < n; i++) {
    int fits = snprintf(path, sizeof path, "%s/%s", directory, name[i]->d_name) < TT_PATH_MAX;
    if (i < MOST && fits && !stat(path, &info)) {
      fputs("<tr><td>", f);
      tt_page_put_verbatim(f, name[i]->d_name);
      fputs("</td>", f);
      if (S_ISREG(info.st_mode))
        put_size(f, (double)info.st_size);
      else
        fputs("<td></td>", f);
      fprintf(f, "<td class=\"words\">%s</td></tr>\n", meaning_of(name[i]->d_name));
    }
    free(name[i]);
  }
  free(name);
  fputs("</table></div>\n", f);
  if (n > MOST) tt_page_print(f, "and %d more", n - MOST);
  tt_page_end_section(f);
}

void tt_page_put_folded(FILE *f, const char *summary, const char *text)
{
  tt_page_element(f, "<details><summary>", summary, "</summary><pre>");
  tt_page_put_verbatim(f, text);
  fputs("</pre></details>\n", f);
}

void tt_page_put_origin(FILE *f, char *const origin[TT_ORIGIN_COUNT])
{
  static const char *const label[] = {
#define X(name, text) text,
      TT_ORIGIN_TEXTS(X)
#undef X
  };
  for (int i = 0; i < TT_ORIGIN_COUNT; i++) {
    const char *text = origin[i] ? origin[i] : "";
    int is_zero = strspn(text, "0") == strlen(text); /* no hash, no Slurm job */
    if (!is_zero) tt_page_pair(f, label[i], "%s", text);
  }
}

void tt_page_put_citation(FILE *f)
{
  tt_page_begin_section(f, "How to cite", NULL);
  fputs("<pre>@software{tutti,\n"
        "  author  = {{The tutti developers}},\n"
        "  title   = {tutti: training ensembles of small neural networks all together},\n"
        "  version = {" TUTTI_VERSION "},\n"
        "  license = {BSD-3-Clause}\n"
        "}</pre>\n",
        f);
  tt_page_end_section(f);
}
