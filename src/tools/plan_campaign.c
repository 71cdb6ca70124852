/* plan_campaign.c — see plan_internal.h. */
#include "src/tools/plan_internal.h"

#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Labels of a campaign: those of data.file, and at most those of all rounds. */
typedef struct label_counts {
  int64_t first, rounds, last;
  int exact; /* 0 = data.split uses a dataset: the first number is an upper limit */
} label_counts;

static label_counts count_labels(const tt_config *cfg, int64_t rows)
{
  double used = cfg->data_split_train + cfg->data_split_validation;
  int exact = !*cfg->data_split_column && !*cfg->data_split_group;
  label_counts c = {.first = exact ? (int64_t)llround(used * (double)rows) : rows,
                    .rounds = cfg->stop_rounds,
                    .exact = exact};
  int64_t wanted = cfg->stop_labels - c.first, batch = cfg->select_batch;
  if (cfg->stop_labels >= 0 && wanted < c.rounds * batch) {
    c.rounds = wanted > 0 ? (wanted + batch - 1) / batch : 0;
    c.last = wanted > 0 ? cfg->stop_labels : c.first;
  } else {
    c.last = c.first + c.rounds * batch;
  }
  return c;
}

/* Rows of the pool: 0 if pool.command makes it. */
static tt_err find_candidates(const tt_config *cfg, const tt_data_shape *shape, int64_t *candidates)
{
  tt_data_reader *r = NULL;
  *candidates = 0;
  if (cfg->pool_command.count) return TT_OK;
  const tt_table_format format = tt_data_format(cfg);
  const tt_data_spec spec = {.file = cfg->pool_file,
                             .inputs = cfg->pool_inputs,
                             .targets = *cfg->pool_labels ? cfg->pool_labels : NULL,
                             .like_input = &shape->input,
                             .like_target = &shape->target,
                             .format = &format,
                             .names_only = 1};
  TT_TRY(tt_data_reader_open_spec_local(&spec, &r));
  tt_err e = tt_data_reader_match_local(r, &shape->input, &shape->target, "data.file", 0);
  *candidates = tt_data_reader_shape(r)->rows;
  tt_data_reader_close_local(&r);
  return e;
}

static void print_pool(const tt_config *cfg, int64_t candidates, FILE *out)
{
  if (cfg->pool_command.count)
    fprintf(out, "pool       %s (pool.command), %" PRId64 " call%s in each round\n",
            cfg->pool_command.value[0], cfg->pool_chunks, tt_plural(cfg->pool_chunks));
  else
    fprintf(out, "pool       %s: %" PRId64 " row%s%s\n", cfg->pool_file, candidates,
            tt_plural(candidates), *cfg->pool_labels ? ", with hidden labels" : "");
}

/* Calls of the oracle in a round, or 0 if it is no program. */
static int64_t count_calls(const tt_config *cfg)
{
  int64_t each = cfg->label_rows_per_call;
  int is_program = cfg->label_mode == TT_LABEL_command || cfg->label_mode == TT_LABEL_slurm;
  return is_program ? (cfg->select_batch + each - 1) / each : 0;
}

static void print_rounds(const tt_config *cfg, const label_counts *c, FILE *out)
{
  fprintf(out, "rounds     at most %" PRId64 " of %" PRId64 " quer%s each, then a last training\n",
          c->rounds, cfg->select_batch, cfg->select_batch == 1 ? "y" : "ies");
  fprintf(out, "labels     %s%" PRId64 " in data.file, %" PRId64 " new, %" PRId64 " at the end\n",
          c->exact ? "" : "at most ", c->first, c->last - c->first, c->last);
  int64_t calls = count_calls(cfg);
  if (calls)
    fprintf(out, "oracle     %s: %" PRId64 " %s in each round, %" PRId64 " at a time\n",
            cfg->label_command.value[0], calls,
            cfg->label_mode == TT_LABEL_slurm ? "Slurm tasks" : "calls",
            cfg->label_concurrency < calls ? cfg->label_concurrency : calls);
  else
    fprintf(out, "oracle     label.mode: %s\n", tt_choice_label[cfg->label_mode]);
}

tt_err tt_plan_campaign_check_local(const tt_job_plan *p, int64_t *candidates)
{
  TT_TRY(tt_job_check_commands_local(p->cfg));
  return find_candidates(p->cfg, &p->shape, candidates);
}

tt_err tt_plan_campaign_print_local(const tt_job_plan *p)
{
  const label_counts labels = count_labels(p->cfg, p->shape.rows);
  int64_t candidates;
  fprintf(p->out, "campaign in %s\n", p->cfg->campaign_directory);
  TT_TRY(tt_plan_campaign_check_local(p, &candidates));
  print_pool(p->cfg, candidates, p->out);
  print_rounds(p->cfg, &labels, p->out);
  return TT_OK;
}
