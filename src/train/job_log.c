/* job_log.c — see job_log.h. */
#include "src/train/job_log.h"

#include "core/base/log.h"
#include "core/base/text.h"

#include <inttypes.h>

enum { MOST_LISTED = 12 }; /* cohorts with a line of their own in the log */

static void log_cohort(const tt_cohort *c, int64_t number)
{
  char widths[TT_MODEL_WIDTHS_TEXT];
  tt_log_root(TT_LOG_INFO,
              "cohort %" PRId64 "%s%s%s: %" PRId64 " member%s in %" PRId64
              " ensemble%s, network %s, %" PRId64 " parameters each",
              number, *c->label ? " (" : "", c->label, *c->label ? ")" : "", c->members,
              tt_plural(c->members), c->ensembles, tt_plural(c->ensembles),
              tt_model_widths(&c->model, widths), tt_model_trained_params(&c->model));
}

/* Many cohorts in one line. */
static void log_range(const tt_cohorts *all)
{
  int64_t least[2] = {INT64_MAX, INT64_MAX}, most[2] = {0, 0}; /* parameters, members */
  for (int64_t i = 0; i < all->count; i++) {
    const int64_t value[2] = {tt_model_trained_params(&all->at[i]->model), all->at[i]->members};
    for (int k = 0; k < 2; k++) {
      if (value[k] < least[k]) least[k] = value[k];
      if (value[k] > most[k]) most[k] = value[k];
    }
  }
  tt_log_root(TT_LOG_INFO,
              "cohorts: %" PRId64 " to %" PRId64 " members, networks of %" PRId64 " to %" PRId64
              " parameters; `tutti plan` lists them",
              least[1], most[1], least[0], most[0]);
}

void tt_job_log_local(const tt_cohorts *all, const tt_columns *input, int ranks, const char *device)
{
  const char *s = tt_plural(ranks);
  char names[240];
  tt_log_root(TT_LOG_INFO, "%" PRId64 " input%s: %s%s%s", input->count, tt_plural(input->count),
              tt_columns_list(input, names, sizeof names), input->id ? "; ids: " : "",
              input->id ? input->id : "");
  if (all->count == 1) {
    char text[TT_MODEL_WIDTHS_TEXT];
    const tt_cohort *c = all->at[0];
    tt_log_root(TT_LOG_INFO,
                "%" PRId64 " member%s in %" PRId64 " ensemble%s, network %s, %" PRId64
                " parameters each, %d rank%s, %s",
                c->members, tt_plural(c->members), c->ensembles, tt_plural(c->ensembles),
                tt_model_widths(&c->model, text), tt_model_trained_params(&c->model), ranks, s,
                device);
    return;
  }
  tt_log_root(TT_LOG_INFO, "%" PRId64 " members in %" PRId64 " cohorts, %d rank%s, %s",
              tt_cohorts_members(all), all->count, ranks, s, device);
  if (all->count > MOST_LISTED) {
    log_range(all);
    return;
  }
  for (int64_t i = 0; i < all->count; i++) log_cohort(all->at[i], i);
}

/* Most parts of a batch of a member. */
static int64_t most_parts(const tt_cohorts *all)
{
  int64_t parts = 1;
  for (int64_t i = 0; i < all->count; i++)
    if (all->at[i]->parts > parts) parts = all->at[i]->parts;
  return parts;
}

void tt_job_log_idle_ranks_local(const tt_cohorts *all, const tt_config *cfg, int ranks, int teams)
{
  int alone = teams == ranks, least = ranks / teams;
  int64_t parts = most_parts(all), members = tt_cohorts_members(all);
  int shared = cfg->run_ranks_per_member > 1 || cfg->run_stages > 1;
  if (teams > members)
    tt_log_root(TT_LOG_WARN,
                "%d %s, but %" PRId64
                " member%s to train: the others are idle; start fewer ranks, or "
                "let %sranks share a member (%s: docs/large-members.md)",
                teams, alone ? "ranks" : "teams of ranks", members, tt_plural(members),
                alone ? "" : "more ",
                shared && parts == 1 ? "train.parts above 1, which run.ranks_per_member and "
                                       "run.stages need"
                                     : "run.ranks_per_member, run.stages");
  else if (cfg->run_stages <= 1 && least > parts)
    tt_log_root(TT_LOG_WARN,
                "%d ranks for each member, but its batches have %" PRId64
                " part%s: the others are idle; start fewer ranks, or set train.parts to %d or more "
                "(docs/large-members.md)",
                least, parts, tt_plural(parts), least);
}
