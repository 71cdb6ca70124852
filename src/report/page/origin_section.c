/* origin_section.c — see run_page_internal.h: times, files, configuration, origin, citation. */
#include "core/base/directory.h"
#include "core/base/text.h"
#include "src/report/page/run_page_internal.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
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
                  {"metrics.jsonl", "", "losses and counts while training, one line each"},
                  {"status.json", "", "state of the run"},
                  {"history.tsv", "", "losses by epoch"},
                  {"predictions.tsv", "", "predictions of the test rows"},
                  {"learning.tsv", "", "learning curve"},
                  {"report.svg", "", "charts as a picture"},
                  {"learning.svg", "", "learning curve as a picture"},
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
  struct stat at;
  int n = scandir(directory, &name, is_known, alphasort);
  tt_page_begin_section(f, "Files", directory);
  fputs("<div class=\"wide\"><table>\n", f);
  for (int i = 0; i < n; i++) {
    int fits = snprintf(path, sizeof path, "%s/%s", directory, name[i]->d_name) < TT_PATH_MAX;
    if (i < MOST && fits && !stat(path, &at)) {
      fputs("<tr><td>", f);
      tt_page_put_verbatim(f, name[i]->d_name);
      fputs("</td>", f);
      if (S_ISREG(at.st_mode))
        put_size(f, (double)at.st_size);
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
  fputs("<details><summary>", f);
  tt_page_put(f, summary);
  fputs("</summary><pre>", f);
  tt_page_put_verbatim(f, text);
  fputs("</pre></details>\n", f);
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

static void put_times(const tt_run_page *p)
{
  const tt_result_details *d = p->d;
  char text[32];
  double epochs = 0, steps = d->epochs_trained;
  for (int64_t m = 0; m < d->members; m++)
    epochs += isfinite(d->epochs_done[m]) ? d->epochs_done[m] : 0;
  tt_page_begin_section(p->f, "Time", NULL);
  tt_page_begin_pairs(p->f);
  if (isfinite(d->wall_seconds)) {
    tt_page_pair(p->f, "wall time", "%s (the start that finished the run)",
                 tt_duration_text(d->wall_seconds, text));
    if (d->wall_seconds > 0 && d->members > 0)
      tt_page_pair(p->f, "per member", "%.3g s", d->wall_seconds / (double)d->members);
  }
  tt_page_pair(p->f, "epochs of all members", "%.0f", epochs);
  if (isfinite(steps) && d->epochs_planned > 0)
    tt_page_pair(p->f, "early stopping saved", "%.0f %% of the epochs",
                 100 * (1 - steps / d->epochs_planned));
  if (isfinite(d->ranks))
    tt_page_pair(p->f, "ranks, threads of a rank", "%.0f, %.0f", d->ranks, d->threads);
  tt_page_end_pairs(p->f);
  tt_page_end_section(p->f);
}

static void put_provenance(const tt_run_page *p)
{
  static const char *const name[TT_ORIGIN_COUNT] = {"command",
                                                    "program",
                                                    "MPI",
                                                    "HDF5",
                                                    "written",
                                                    "host",
                                                    "Slurm job",
                                                    "device",
                                                    "arithmetic",
                                                    "hash of the data",
                                                    "hash of the options",
                                                    "dependence"};
  tt_page_begin_section(p->f, "Origin", NULL);
  tt_page_begin_pairs(p->f);
  for (int i = 0; i < TT_ORIGIN_COUNT; i++)
    if (p->d->origin[i] && *p->d->origin[i]) tt_page_pair(p->f, name[i], "%s", p->d->origin[i]);
  if (isfinite(p->d->seed)) tt_page_pair(p->f, "seed", "%.0f", p->d->seed);
  tt_page_end_pairs(p->f);
  if (p->d->resolved)
    tt_page_put_folded(p->f, "Configuration with the values of all options", p->d->resolved);
  tt_page_end_section(p->f);
}

void tt_run_page_put_origin(const tt_run_page *p)
{
  if (p->d) put_times(p);
  tt_page_put_files(p->f, p->directory);
  if (p->d) put_provenance(p);
  tt_page_put_citation(p->f);
}
