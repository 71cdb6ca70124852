/* label_stage.c — see stage.h: label and merge, whose end is the commit of the round. */
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "src/campaign/label/oracle.h"
#include "src/campaign/driver/stage.h"
#include "core/stats/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *directory(const tt_campaign *k) { return k->cfg->campaign_directory; }

/* ---- label ---- */

static uint64_t picks_hash(const tt_campaign *k)
{
  const tt_picks *p = k->picks;
  uint64_t h = tt_hash_bytes((uint64_t)p->count, p->row, (size_t)p->count * sizeof *p->row);
  return tt_hash_bytes(h, p->x, (size_t)(p->count * p->inputs) * sizeof *p->x);
}

/* A mark says which picks the questions are about. Where these have changed since, groups of
 * candidates that are wanted still keep their answers; the jobs of Slurm are about all of them. */
static tt_err make_directory_local(tt_campaign *k, uint64_t inputs)
{
  char path[TT_PATH_ROOM], mark[TT_PATH_ROOM], is[32] = "", wanted[32];
  snprintf(wanted, sizeof wanted, "%016" PRIx64 "\n", inputs);
  tt_round_file(k, "label", path);
  tt_round_file(k, "label/picks", mark);
  if (!access(mark, F_OK)) {
    TT_TRY(tt_file_text_local(mark, is, sizeof is));
    if (!strcmp(is, wanted)) return TT_OK;
    if (k->cfg->label_mode == TT_LABEL_slurm) TT_TRY(tt_put_aside_local(path));
  }
  TT_TRY(tt_make_directory_local(path));
  return tt_file_replace_local(mark, wanted);
}

static int64_t failed_rows(const tt_answers *a)
{
  int64_t n = 0;
  for (int64_t i = 0; i < a->count; i++)
    n += a->answer[i] == TT_ANSWER_failed;
  return n;
}

/* Before the stage counts as done: what is mended by hand is looked at again. */
static tt_err check_failed(const tt_campaign *k)
{
  int64_t failed = failed_rows(k->answers), asked = k->picks->count;
  double most = k->cfg->label_max_failed;
  if ((double)failed <= most * (double)asked) return TT_OK;
  return TT_FAIL(DIVERGED,
                 "round %" PRId64 ": %" PRId64 " of %" PRId64 " rows asked for have no label, more "
                 "than label.max_failed = %g allows; the others are kept: see %s/round-%04" PRId64
                 "/label, and run again: with a larger label.max_failed to go on without them; "
                 "without the files 'failed' there to ask these groups again; with --from %" PRId64
                 ":label to ask for all rows again",
                 k->number, failed, asked, most, directory(k), k->number, k->number);
}

static tt_err bad_label(const tt_campaign *k, int64_t pick, int64_t target, const char *want)
{
  return TT_FAIL(DATA,
                 "round %" PRId64 ": the label of candidate %" PRId64 ", target '%s', is %g, but "
                 "has to be %s; nothing was learnt from it: correct the oracle (or give "
                 "model.classes), and run again with --from %" PRId64 ":label",
                 k->number, k->picks->row[pick], k->base->target.name[target],
                 k->answers->y[pick * k->base->targets + target], want, k->number);
}

/* What no training would take must not become history. */
static tt_err check_labels(const tt_campaign *k)
{
  const char *want = NULL;
  for (int64_t c = 0; c < k->model.count; c++)
    for (int64_t e = 0; e < k->model.at[c]->ensembles; e++) {
      const tt_ensemble *own = &k->model.at[c]->ensemble[e];
      for (int64_t i = 0; i < k->answers->count * own->targets; i++) {
        int64_t pick = i / own->targets, target = own->column[i % own->targets];
        double y = k->answers->y[pick * k->base->targets + target];
        if (!isnan(y) && !tt_label_fits(&k->model.at[c]->model, y, &want))
          return bad_label(k, pick, target, want);
      }
    }
  return TT_OK;
}

static tt_err do_ask(tt_campaign *k, const tt_work *w)
{
  char label[TT_PATH_ROOM], answers[TT_PATH_ROOM];
  tt_round_file(k, "label", label);
  tt_round_file(k, w->file[0], answers);
  tt_question q = {.cfg = k->cfg,
                   .file = k->o->job.file,
                   .set = k->o->job.set,
                   .nset = k->o->job.nset,
                   .campaign = directory(k),
                   .incarnation = k->id.incarnation,
                   .directory = label,
                   .round = k->number,
                   .picks = k->picks,
                   .pool = k->pool,
                   .input = &k->base->input,
                   .target = &k->base->target,
                   .deadline = tt_limit_deadline_local(&k->limit)};
  tt_err e = TT_OK;
  if (k->picks->count == 0) { /* the last round */
    e = tt_agree(k->c, tt_answers_create(0, k->base->targets, &k->answers));
  } else {
    if (tt_comm_is_root(k->c)) e = make_directory_local(k, w->inputs);
    e = tt_agree(k->c, e);
    if (!e) e = tt_ask(k->c, &q, &k->answers);
  }
  if (!e) e = check_labels(k);
  if (!e) e = check_failed(k);
  e = tt_agree(k->c, e);
  if (!e) e = tt_answers_write(k->c, answers, k->picks, k->answers, &k->base->target);
  tt_answers_destroy(&k->answers);
  return e;
}

tt_err tt_stage_ask(tt_campaign *k)
{
  char path[TT_PATH_ROOM];
  tt_round *r = tt_round_now(k);
  tt_work w = {picks_hash(k), {"answers.h5", NULL}};
  tt_err e = tt_stage_run(k, TT_STAGE_label, &w, do_ask, &r->seconds[TT_STAGE_label]);
  tt_round_file(k, "answers.h5", path);
  if (!e) e = tt_answers_read(k->c, path, &k->answers);
  if (e) return e;
  if (k->answers->count != k->picks->count || k->answers->targets != k->base->targets)
    e = TT_FAIL(DATA, "%s does not fit picks.h5 beside it", path);
  r->unlabelled = failed_rows(k->answers);
  return tt_agree(k->c, e);
}

/* ---- merge ---- */

/* Part of the new labels that validates. */
static double validation_share(const tt_campaign *k)
{
  int64_t count[TT_SPLITS] = {0};
  if (k->cfg->label_validation >= 0.0) return k->cfg->label_validation;
  for (int64_t r = 0; r < k->base->rows; r++)
    if (k->base->split[r] >= 0) count[k->base->split[r]]++;
  return (double)count[TT_VALIDATION] / (double)(count[TT_TRAIN] + count[TT_VALIDATION]);
}

/* Depends on the candidate alone. */
static int8_t split_of(const tt_campaign *k, int64_t row, double share)
{
  tt_random4 r = tt_random((uint64_t)k->cfg->run_seed, (uint64_t)row, TT_FOR_SPLIT, 1, 0);
  return (double)tt_unit(r.v[0]) < share ? TT_VALIDATION : TT_TRAIN;
}

static tt_err take_answers_local(tt_campaign *k)
{
  tt_picked *pick = NULL;
  double share = validation_share(k);
  TT_TRY(TT_ALLOC(pick, k->picks->count));
  for (int64_t i = 0; i < k->picks->count; i++)
    pick[i] = (tt_picked){.row = k->picks->row[i],
                          .round = (int32_t)k->number,
                          .random = k->picks->random[i],
                          .answer = k->answers->answer[i],
                          .split = split_of(k, k->picks->row[i], share),
                          .score = k->picks->score[i]};
  tt_err e = tt_history_add_picks(k->h, k->picks->count, pick, k->picks->x, k->answers->y);
  tt_free(pick);
  return e;
}

static tt_err note_local(tt_campaign *k, double seconds)
{
  tt_entry line = {.round = k->number, .stage = TT_STAGE_merge, .seconds = seconds};
  return tt_comm_is_root(k->c) ? tt_journal_done_local(k->journal, &line) : TT_OK;
}

/* "12.3 %" of the candidates. */
static double percent(const tt_round *r, int64_t n)
{
  return r->pool > 0 ? 100.0 * (double)n / (double)r->pool : 0.0;
}

static void say(const tt_campaign *k)
{
  const tt_round *r = tt_round_now(k);
  double seconds = 0.0;
  char errors[160] = "";
  size_t used = 0;
  for (int s = 0; s < TT_STAGE_COUNT; s++)
    seconds += r->seconds[s];
  for (int64_t i = 0; i < k->columns && i < 4; i++)
    used += (size_t)snprintf(errors + used, sizeof errors - used, " %.4g", r->rmse[i]);
  tt_log_once(TT_LOG_INFO,
              "round %" PRId64 ": %" PRId64 " labels, test rmse%s%s; pool %" PRId64
              ": accurate %.1f %%, candidate %.1f %%, failed %.1f %%; asked %" PRId64
              ", without label %" PRId64 "; %.1f s",
              k->number, r->labels, errors, k->columns > 4 ? " ..." : "", r->pool,
              percent(r, r->accurate), percent(r, r->candidate), percent(r, r->failed), r->asked,
              r->unlabelled, seconds);
}

/* Not a stage of the journal's kind: campaign.h5 itself says whether it is done. */
tt_err tt_stage_merge(tt_campaign *k)
{
  double start = tt_clock_local(), seconds;
  k->stage = TT_STAGE_merge;
  tt_err e = tt_agree(k->c, take_answers_local(k));
  seconds = tt_clock_local() - start;
  tt_bcast(k->c, &seconds, sizeof seconds);
  tt_round_now(k)->seconds[TT_STAGE_merge] = seconds;
  if (!e) e = tt_campaign_commit(k);
  if (!e) e = tt_agree(k->c, note_local(k, tt_clock_local() - start));
  if (!e) e = tt_agree(k->c, tt_campaign_tidy_local(k));
  if (!e) say(k);
  return e;
}
