/* sbatch_script.c — see sbatch_script.h. */
#include "src/slurm/sbatch_script.h"

#include "core/config/config.h"
#include "src/tools/plan.h"

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

static int starts_with(const char *line, const char *with)
{
  return !strncmp(line, with, strlen(with));
}

/* The number after `key` in a text, 0 if there is no key. */
static int read_number_after(const char *text, const char *key)
{
  const char *at = strstr(text, key);
  return at ? atoi(at + strlen(key)) : 0;
}

void tt_shell_print_quoted(FILE *to, const char *text)
{
  fputc('\'', to);
  for (; *text; text++)
    if (*text == '\'')
      fputs("'\\''", to);
    else
      fputc(*text, to);
  fputc('\'', to);
}

/* Slurm replaces %a in a pattern; a percent sign itself is written as %%. */
void tt_sbatch_print_pattern(FILE *to, const char *text)
{
  for (; *text; text++) {
    if (*text == '%') fputc('%', to);
    fputc(*text, to);
  }
}

/* The output of `tutti plan`; owner: the caller, free. */
static tt_err format_plan(const char *job, int ranks, char **text)
{
  size_t bytes;
  const tt_job_options o = {.file = job};
  FILE *out = open_memstream(text, &bytes);
  if (!out) return TT_FAIL(MEM, "out of memory for the plan of %s", job);
  tt_err e = tt_plan_print_local(&o, ranks, NULL, 0, out);
  return fclose(out) && !e ? TT_FAIL(MEM, "out of memory for the plan of %s", job) : e;
}

/* Most ranks that train the members of a job: for each member those that share it. */
static tt_err count_useful_ranks(const char *file, int64_t *ranks)
{
  tt_config *cfg = NULL;
  int64_t members = 0, parts = 1;
  TT_TRY(tt_config_load(file, NULL, 0, &cfg));
  for (int64_t i = 0; i < cfg->ensembles; i++) {
    members += cfg->ensemble[i].members;
    if (cfg->ensemble[i].train_parts > parts) parts = cfg->ensemble[i].train_parts;
  }
  int64_t team = cfg->run_ranks_per_member, stages = cfg->run_stages;
  if (team < 0) team = stages > 1 ? 1 : parts;
  if (stages > 1) team *= stages;
  *ranks = parts > 1 ? members * team : members;
  tt_config_destroy(&cfg);
  return TT_OK;
}

/* A campaign script needs the file of a campaign. */
static tt_err check_campaign(const char *file)
{
  tt_config *cfg = NULL;
  TT_TRY(tt_config_load(file, NULL, 0, &cfg));
  tt_err e = cfg->campaign
                 ? TT_OK
                 : TT_FAIL(USAGE,
                           "%s has none of the sections of a campaign (pool, label ...): did you "
                           "mean `tutti slurm train`? `tutti campaign init` writes one",
                           file);
  tt_config_destroy(&cfg);
  return e;
}

static void print_plan(const tt_sbatch_script *b, const char *text)
{
  if (!strcmp(b->script, "campaign"))
    printf("# Training of one round, from `tutti plan` with the initial data; every round adds "
           "select.batch rows:\n");
  for (const char *line = text; *line;) {
    int n = (int)strcspn(line, "\n");
    printf("# %.*s\n", n, line);
    line += n + (line[n] == '\n');
  }
}

/* Seconds of a time limit of sbatch: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
 * days-hours:minutes or days-hours:minutes:seconds; 0 if it is none of them. */
static int64_t time_limit_seconds(const char *text)
{
  int64_t days = 0, part[3] = {0};
  int n = 0, end = 0;
  const char *dash = strchr(text, '-'), *at = dash ? dash + 1 : text;
  if (dash && (sscanf(text, "%6" SCNd64 "-%n", &days, &end) != 1 || text + end != at)) return 0;
  while (n < 3 && sscanf(at, "%9" SCNd64 "%n", &part[n], &end) == 1 && part[n] >= 0) {
    n++;
    at += end;
    if (*at != ':') break;
    at++;
  }
  if (!n || *at || days < 0 || (n > 1 && at[-1] == ':')) return 0;
  if (dash || n == 3) return 86400 * days + 3600 * part[0] + 60 * part[1] + part[2];
  return 60 * part[0] + part[1];
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
    printf("%s%" PRId64 "\n", signal_line, signal_seconds(time_limit_seconds(b->time)));
    return;
  }
  for (size_t i = 0; i < sizeof per_node / sizeof *per_node; i++)
    if (b->gpus_per_node > 0 && starts_with(line, per_node[i])) {
      printf("%s%d\n", per_node[i], b->gpus_per_node);
      return;
    }
  printf("%.*s\n", n, line);
}

static void print_text(const tt_sbatch_script *b, const char *text, const char *until)
{
  for (const char *line = text; *line && !(until && starts_with(line, until));) {
    int n = (int)strcspn(line, "\n");
    print_line(b, line, n);
    line += n + (line[n] == '\n');
  }
}

static void print_script(const tt_sbatch_script *b, const char *script, const char *site,
                         const char *plan_text)
{
  const char *line = script;
  while (*line) {
    int n = (int)strcspn(line, "\n");
    if (starts_with(line, "# ---- site")) {
      print_text(b, site, NULL);
      line = strstr(line, "# ---- end of site");
      n = (int)strcspn(line, "\n");
    } else if (starts_with(line, "job=")) {
      print_plan(b, plan_text);
      printf("job=");
      tt_shell_print_quoted(stdout, b->job);
      printf("\n");
    } else {
      print_line(b, line, n);
    }
    line += n + (line[n] == '\n');
  }
}

tt_err tt_sbatch_script_print_local(const tt_sbatch_script *b)
{
  char *plan = NULL;
  const char *site;
  char name[64];
  snprintf(name, sizeof name, "%.40s.sbatch",
           strcmp(b->script, "array") != 0 ? b->script : "train-array");
  const char *script = find_embedded(name);
  if (b->time && time_limit_seconds(b->time) < 1)
    return TT_FAIL(USAGE, "--time: '%s' is not a time in the format of Slurm: 30, 4:00:00 or 1-12",
                   b->time);
  TT_TRY(find_site_block(b->site, &site));
  if (!strcmp(b->script, "campaign")) TT_TRY(check_campaign(b->job));
  int most = read_number_after(site, "#SBATCH --ntasks-per-node=");
  if (b->gpus_per_node > most && strcmp(b->site, "generic") != 0)
    return TT_FAIL(USAGE, "--gpus-per-node: %d, but the nodes of site %s have %d GPUs",
                   b->gpus_per_node, b->site, most);
  int nodes = b->nodes > 0 ? b->nodes : read_number_after(script, "#SBATCH --nodes=");
  tt_sbatch_script with = *b;
  if (b->gpus_per_node < 1 && strcmp(b->script, "campaign") != 0) {
    int64_t useful;
    TT_TRY(count_useful_ranks(b->job, &useful));
    if (useful < (int64_t)nodes * most) with.gpus_per_node = (int)((useful + nodes - 1) / nodes);
  }
  int per_node = with.gpus_per_node > 0 ? with.gpus_per_node : most;
  tt_err e = format_plan(b->job, nodes * per_node, &plan);
  if (!e) print_script(&with, script, site, plan);
  free(plan);
  return e;
}
