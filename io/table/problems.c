/* problems.c — see problems.h. */
#include "io/table/problems.h"

#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { GROUPS = 24, SHOWN = 48, NAME = 128 };

/* The problems of one column with one cure. */
typedef struct problem_group {
  int64_t count;
  char column[NAME], cure[320];
  char first[640];  /* up to the cure */
  char text[SHOWN]; /* the cell shown last */
  char more[TT_PROBLEM_EXAMPLES * 20 + SHOWN];
  const char *option, *value;
} problem_group;

struct tt_problems {
  int64_t rows;
  int64_t groups, left_out; /* cells of more groups than there is room for */
  problem_group group[GROUPS];
};

tt_err tt_problems_create(int64_t rows, tt_problems **out)
{
  TT_TRY(TT_ALLOC(*out, 1));
  (*out)->rows = rows;
  return TT_OK;
}

void tt_problems_destroy(tt_problems **p) { tt_free(*p); }

static problem_group *find_group(tt_problems *p, const char *column, const char *cure)
{
  for (int64_t i = 0; i < p->groups; i++)
    if (!strncmp(p->group[i].column, column, NAME - 1) &&
        !strncmp(p->group[i].cure, cure, sizeof p->group->cure - 1))
      return &p->group[i];
  if (p->groups == GROUPS) return NULL;
  problem_group *g = &p->group[p->groups++];
  snprintf(g->column, NAME, "%s", column);
  snprintf(g->cure, sizeof g->cure, "%s", cure);
  return g;
}

void tt_problems_add(tt_problems *p, const tt_problem *one)
{
  char shown[SHOWN], example[SHOWN + 32];
  problem_group *g = find_group(p, one->column ? one->column : "", one->cure);
  snprintf(shown, sizeof shown, "%s", one->text ? one->text : "");
  tt_text_make_printable(shown, "");
  if (!g) {
    p->left_out++;
    return;
  }
  if (++g->count == 1) {
    const char *quote = one->text ? "'" : "", *blank = one->text ? " " : "";
    snprintf(g->first, sizeof g->first, "%s: %s%s%s%s%s", one->place, quote, shown, quote, blank,
             one->what);
    g->option = one->option;
    g->value = one->value;
  } else if (g->count <= TT_PROBLEM_EXAMPLES) {
    int same = !one->text || !strcmp(shown, g->text);
    snprintf(example, sizeof example, same ? "%" PRId64 : "%" PRId64 " '%s'", one->number, shown);
    tt_text_append(g->more, sizeof g->more, ", ", example);
  }
  memcpy(g->text, shown, sizeof shown);
}

static int print_group(const problem_group *g, char *text, size_t size)
{
  char more[sizeof g->more + 80] = "";
  int64_t others = g->count - 1;
  if (others)
    snprintf(more, sizeof more, "; %" PRId64 " more: %s%s", others, g->more,
             g->count > TT_PROBLEM_EXAMPLES ? ", ..." : "");
  return snprintf(text, size, "%s%s%s%s\n", g->first, *g->cure ? "; " : "", g->cure, more);
}

static int is_of(const problem_group *g, const char *option)
{
  return g->option && !strcmp(g->option, option);
}

/* Levels are offered for a column of texts, not for one text among numbers. A column of levels has
 * no mean. */
static const char *offered_value(const tt_problems *p, const problem_group *g)
{
  if (is_of(g, "categories") && 2 * g->count < p->rows) return NULL;
  for (int64_t i = 0; is_of(g, "missing") && i < p->groups; i++) {
    const problem_group *other = &p->group[i];
    if (is_of(other, "categories") && !strcmp(other->column, g->column) && offered_value(p, other))
      return "indicator";
  }
  return g->value;
}

/* "missing: {age: mean, te: mean}" of the groups with this option. */
static void print_option(const tt_problems *p, const char *option, char *text, size_t size)
{
  int is_date = !strcmp(option, "dates"), is_list = is_date || !strcmp(option, "inputs"),
      is_map = !is_list && strcmp(option, "decimal"), n = 0;
  for (int64_t i = 0; i < p->groups; i++) {
    const problem_group *g = &p->group[i];
    const char *value = is_of(g, option) ? offered_value(p, g) : NULL;
    char entry[2 * NAME];
    if (!value || (n && !is_map && !is_list)) continue;
    snprintf(entry, sizeof entry, "%s: %s", option,
             is_map    ? "{"
             : is_date ? "["
             : is_list ? "['*', "
                       : value);
    tt_text_append(text, size, ", ", n++ ? "" : entry);
    int plain = !g->column[strcspn(g->column, " ,:'\"[]{}#&*!|>%@`")];
    if (is_list)
      snprintf(entry, sizeof entry, is_date ? "'%s'" : "'!%s'", g->column);
    else
      snprintf(entry, sizeof entry, plain ? "%s: %s" : "'%s': %s", g->column, value);
    if (is_map || is_list) tt_text_append(text, size, "", entry);
  }
  if (n && (is_map || is_list)) tt_text_append(text, size, "", is_map ? "}" : "]");
}

tt_err tt_problems_error(const tt_problems *p)
{
  static const char *const option[] = {"decimal", "dates", "inputs", "categories", "missing"};
  char all[TT_ERR_MESSAGE_SIZE - 512] = "", options[2048] = "", more[96] = "";
  size_t used = 0;
  int64_t cells = p->left_out, shown = 0;
  if (!p->groups) return TT_OK;
  for (int64_t i = 0; i < p->groups; i++) cells += p->group[i].count;
  for (size_t i = 0; i < sizeof option / sizeof *option; i++)
    print_option(p, option[i], options, sizeof options);
  for (int64_t i = 0; i < p->groups; i++) {
    char line[2048];
    size_t length = (size_t)print_group(&p->group[i], line, sizeof line);
    if (used + length + sizeof options + 256 > sizeof all) break;
    memcpy(all + used, line, length + 1);
    used += length;
    shown += p->group[i].count;
  }
  if (cells == 1 || (p->groups == 1 && !*options)) {
    all[used - 1] = '\0';
    return TT_FAIL(DATA, "%s", all);
  }
  if (cells > shown) snprintf(more, sizeof more, "and %" PRId64 " more\n", cells - shown);
  return TT_FAIL(DATA, "%s%s%" PRId64 " cells or rows cannot be used%s%s%s", all, more, cells,
                 *options ? "; into the job: data: {" : "", options, *options ? "}" : "");
}
