/* script.c — see script.h. */
#include "slurm/script.h"

#include "slurm/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIGNAL_SECONDS = 300 }; /* of #SBATCH --signal, before the end of a long job */
static const char signal_line[] = "#SBATCH --signal=USR1@";

static const char *find_embedded(const char *name)
{
  for (const tt_embedded_file *t = tt_embedded_files; t->name; t++)
    if (!strcmp(t->name, name)) return t->text;
  return NULL;
}

static tt_err find_site_block(const char *site, const char **out)
{
  char name[128], known[512] = "";
  snprintf(name, sizeof name, "site/%s", site);
  *out = find_embedded(name);
  if (*out) return TT_OK;
  for (const tt_embedded_file *t = tt_embedded_files; t->name; t++) {
    size_t n = strlen(known);
    if (!strncmp(t->name, "site/", 5))
      snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", t->name + 5);
  }
  return TT_FAIL(USAGE, "--site: unknown site '%s'; the sites are %s", site, known);
}

static int starts_with(const char *line, const char *context)
{
  return !strncmp(line, context, strlen(context));
}

/* The number after `key` in a text, 0 if there is no key. */
static int read_number_after(const char *text, const char *key)
{
  const char *cursor = strstr(text, key);
  return cursor ? atoi(cursor + strlen(key)) : 0;
}

void tt_shell_print_quoted(FILE *file, const char *text)
{
  fputc('\'', file);
  for (; *text; text++)
    if (*text == '\'')
      fputs("'\\''", file);
    else
      fputc(*text, file);
  fputc('\'', file);
}

/* Slurm replaces %a in a pattern; a percent sign itself is written as %%. */
void tt_sbatch_print_pattern(FILE *file, const char *text)
{
  for (; *text; text++) {
    if (*text == '%') fputc('%', file);
    fputc(*text, file);
  }
}

/* Seconds before the end at which Slurm sends the signal: a tenth of short jobs. */
static int64_t signal_seconds(int64_t limit)
{
  int64_t tenth = limit / 10 > 0 ? limit / 10 : 1;
  return tenth < SIGNAL_SECONDS ? tenth : SIGNAL_SECONDS;
}

/* Print a line of the script; the given options replace its values. */
static void print_line(const tt_sbatch_script *b, const char *line, int n)
{
  static const char *const per_node[] = {
      "#SBATCH --ntasks-per-node=", "#SBATCH --gpus-per-node=", "#SBATCH --gres=gpu:"};
  if (b->nodes > 0 && starts_with(line, "#SBATCH --nodes=")) {
    printf("#SBATCH --nodes=%d\n", b->nodes);
    return;
  }
  if (b->time && starts_with(line, "#SBATCH --time=")) {
    printf("#SBATCH --time=%s\n", b->time);
    return;
  }
  if (b->time && starts_with(line, signal_line)) {
    printf("%s%" PRId64 "\n", signal_line, signal_seconds(tt_slurm_time_seconds(b->time)));
    return;
  }
  for (size_t i = 0; i < sizeof per_node / sizeof *per_node; i++)
    if (b->gpus_per_node > 0 && starts_with(line, per_node[i])) {
      printf("%s%d\n", per_node[i], b->gpus_per_node);
      return;
    }
  printf("%.*s\n", n, line);
}

/* Print the lines of a text, of a comment as they are. */
static void print_text(const tt_sbatch_script *b, const char *text, int comment)
{
  for (const char *line = text; *line;) {
    int n = (int)strcspn(line, "\n");
    if (comment)
      printf("# %.*s\n", n, line);
    else
      print_line(b, line, n);
    line += n + (line[n] == '\n');
  }
}

/* The template of a script. */
static const char *find_template(const tt_sbatch_script *b)
{
  char name[64];
  snprintf(name, sizeof name, "%.40s.sbatch",
           strcmp(b->script, "array") != 0 ? b->script : "train-array");
  return find_embedded(name);
}

tt_err tt_sbatch_script_check(tt_sbatch_script *b, int *ranks)
{
  const char *site;
  if (b->time && tt_slurm_time_seconds(b->time) < 1)
    return TT_FAIL(USAGE, "--time: '%s' is not a time in the format of Slurm: 30, 4:00:00 or 1-12",
                   b->time);
  TT_TRY(find_site_block(b->site, &site));
  int most = read_number_after(site, "#SBATCH --ntasks-per-node=");
  if (b->gpus_per_node > most && strcmp(b->site, "generic") != 0)
    return TT_FAIL(USAGE, "--gpus-per-node: %d, but the nodes of site %s have %d GPUs",
                   b->gpus_per_node, b->site, most);
  int nodes = b->nodes > 0 ? b->nodes : read_number_after(find_template(b), "#SBATCH --nodes=");
  if (b->gpus_per_node < 1 && b->useful_ranks > 0 && b->useful_ranks < (int64_t)nodes * most)
    b->gpus_per_node = (int)((b->useful_ranks + nodes - 1) / nodes);
  *ranks = nodes * (b->gpus_per_node > 0 ? b->gpus_per_node : most);
  return TT_OK;
}

tt_err tt_sbatch_script_print(const tt_sbatch_script *b, const char *comment)
{
  const char *line = find_template(b), *site;
  TT_TRY(find_site_block(b->site, &site));
  while (*line) {
    int n = (int)strcspn(line, "\n");
    if (starts_with(line, "# ---- site")) {
      print_text(b, site, 0);
      line = strstr(line, "# ---- end of site");
      n = (int)strcspn(line, "\n");
    } else if (starts_with(line, "job=")) {
      print_text(b, comment, 1);
      printf("job=");
      tt_shell_print_quoted(stdout, b->job);
      printf("\n");
    } else {
      print_line(b, line, n);
    }
    line += n + (line[n] == '\n');
  }
  return TT_OK;
}
