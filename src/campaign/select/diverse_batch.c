/* diverse_batch.c — picks that lie apart, by kcenter and penalty: see select_internal.h. */
#include "src/campaign/select/select_internal.h"

#include "core/base/mem.h"
#include "src/host/stop_request.h"
#include "src/host/watchdog.h"
#include "core/stats/k_center.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { AUTO_BATCHES = 100, AUTO_ROWS = 200000 };
enum { READ = 1 << 22 };          /* values at once */
enum { CENTRES = 64, LOOK = 64 }; /* centres, picks until a request to stop is looked for */

typedef struct far_apart {
  tt_chooser *k;
  int by_penalty;
  tt_ranked *item; /* [count] the prefiltered, by row: positions are those of this list */
  int64_t count;
  int64_t best; /* position of the highest score */
  tt_apart part;
  float *centre;  /* [CENTRES][D] */
  double *inputs; /* [picks of this round so far][D] in the user's units */
  int centres;    /* whether there is one yet */
} far_apart;

static int by_row(const void *a, const void *b)
{
  const tt_ranked *x = a, *y = b;
  return (x->row > y->row) - (x->row < y->row);
}

static int64_t prefilter(const tt_selection *s, int64_t most)
{
  int64_t m = s->cfg->select_prefilter;
  if (m < 0) m = s->most < AUTO_ROWS / AUTO_BATCHES ? s->most * AUTO_BATCHES : AUTO_ROWS;
  return m > most ? m : most;
}

static void normalise(const tt_scaler *s, const double *x, int64_t rows, float *out)
{
  for (int64_t i = 0; i < rows; i++)
    for (int64_t d = 0; d < s->inputs; d++)
      out[i * s->inputs + d] = (float)((x[i * s->inputs + d] - s->x_mean[d]) / s->x_scale[d]);
}

/* ---- this rank's part of the list ---- */

static tt_err read_part_local(far_apart *f, int64_t at_once, double *piece, int64_t *row, float *x)
{
  const tt_scaler *scaler = f->k->s->scaler;
  for (int64_t at = 0, n = 0; at < f->part.count; at += n) {
    n = f->part.count - at < at_once ? f->part.count - at : at_once;
    for (int64_t i = 0; i < n; i++)
      row[i] = f->item[f->part.first + at + i].row;
    TT_TRY(tt_pool_pick_local(f->k->s->pool, row, n, piece, NULL));
    normalise(scaler, piece, n, x);
    tt_apart_load(&f->part, at, n, x);
    tt_watchdog_alive_local("select");
  }
  return TT_OK;
}

static tt_err read_local(far_apart *f)
{
  int64_t width = f->part.inputs, at_once = READ / width + 1, *row = NULL;
  double *piece = NULL;
  float *x = NULL;
  if (at_once > f->part.count) at_once = f->part.count;
  tt_err e = TT_ALLOC(row, at_once);
  if (!e) e = TT_ALLOC(piece, at_once * width);
  if (!e) e = TT_ALLOC(x, at_once * width);
  if (!e) e = read_part_local(f, at_once, piece, row, x);
  tt_free(row);
  tt_free(piece);
  tt_free(x);
  return e;
}

/* Scores of the penalty from 0 on: as they are, or, if one is negative, above the lowest. Those
 * that stand for no finite score are 0. */
static void shift_scores(const far_apart *f, tt_slice part, double *score)
{
  double lowest = 0.0;
  for (int64_t i = 0; i < f->count; i++)
    if (f->item[i].score > -(double)FLT_MAX) lowest = fmin(lowest, f->item[i].score);
  for (int64_t i = 0; i < part.count; i++)
    score[i] = fmax(0.0, fmin(f->item[part.first + i].score, (double)FLT_MAX) - lowest);
}

static tt_err load_local(far_apart *f)
{
  tt_comm *c = f->k->c;
  int64_t width = f->k->s->scaler->inputs;
  double *score = NULL;
  tt_slice part = {0};
  tt_err e = tt_plan_slice(f->count, tt_comm_ranks(c), tt_comm_rank(c), &part);
  if (!e && f->by_penalty) e = TT_ALLOC(score, part.count);
  if (!e && f->by_penalty) shift_scores(f, part, score);
  if (!e) e = tt_apart_create(part.first, part.count, width, score, &f->part);
  if (!e) e = read_local(f);
  if (!e) e = TT_ALLOC(f->centre, CENTRES * width);
  if (!e) e = TT_ALLOC(f->inputs, f->k->count * width);
  tt_free(score);
  return e;
}

static tt_err heard(tt_comm *c, const tt_selection *s)
{
  tt_stop why = tt_stop_agreed(c, s->deadline, s->directory);
  if (why == TT_STOP_no) return TT_OK;
  return TT_FAIL(STOPPED, "stopped by %s while selecting; nothing is lost: run it again to go on",
                 tt_stop_text(why));
}

/* ---- centres ---- */

static tt_err add_centres(far_apart *f, const double *x, int64_t count)
{
  int64_t width = f->part.inputs;
  tt_err e = TT_OK;
  for (int64_t at = 0, n = 0; at < count && !e; at += n) {
    n = count - at < CENTRES ? count - at : CENTRES;
    normalise(f->k->s->scaler, x + at * width, n, f->centre);
    tt_apart_centres(&f->part, f->centre, n);
    f->centres = 1;
    tt_watchdog_alive_local("select");
    e = heard(f->k->c, f->k->s);
  }
  return e;
}

/* What the picks keep away from: this round's so far, for kcenter also what has labels. */
static tt_err start(far_apart *f)
{
  const tt_selection *s = f->k->s;
  tt_err e = tt_select_inputs(f->k, f->k->chosen, f->k->count, f->inputs);
  if (!e) e = add_centres(f, f->inputs, f->k->count);
  if (!e && !f->by_penalty) e = add_centres(f, s->labelled, s->labelled_count);
  return e;
}

/* ---- picks ---- */

/* The position of the next pick; -1 = none is left. */
static int64_t next(far_apart *f)
{
  int64_t key = f->by_penalty ? tt_apart_penalised(&f->part, f->k->s->cfg->select_length)
                              : tt_apart_farthest(&f->part);
  tt_max_i64(f->k->c, &key, 1);
  if (key == TT_APART_NONE) return -1;
  return f->centres || f->by_penalty ? tt_apart_position(key) : f->best;
}

/* Greedy: one pass over the candidates a pick. */
static tt_err pick(far_apart *f, int64_t most, tt_ranked *picked, int64_t *count)
{
  tt_err e = TT_OK;
  for (*count = 0; *count < most; ++*count) {
    if (*count % LOOK == 0) e = heard(f->k->c, f->k->s);
    int64_t at = e ? -1 : next(f);
    if (at < 0) break;
    picked[*count] = f->item[at];
    int mine = tt_apart_take(&f->part, at, f->centre + f->part.inputs);
    tt_allgather(f->k->c, f->centre + f->part.inputs,
                 mine ? f->part.inputs * (int64_t)sizeof *f->centre : 0, f->centre, NULL);
    tt_apart_centres(&f->part, f->centre, 1);
    f->centres = 1;
    tt_watchdog_alive_local("select");
  }
  return e;
}

static void free_all(far_apart *f)
{
  tt_free(f->item);
  tt_free(f->centre);
  tt_free(f->inputs);
  tt_apart_free(&f->part);
}

tt_err tt_choose_apart(tt_chooser *k, int64_t list, int64_t most)
{
  far_apart f = {.k = k, .by_penalty = k->s->cfg->select_method == TT_SELECT_penalty};
  tt_wish wish = {.list = list, .key = tt_key_of_score, .s = k->s};
  tt_ranked *picked = NULL;
  int64_t count = 0;
  tt_err e = tt_select_best(k, &wish, prefilter(k->s, most), &f.item, &f.count);
  if (!e && f.count > 0) {
    int64_t row = f.item[0].row;
    qsort(f.item, (size_t)f.count, sizeof *f.item, by_row);
    while (f.item[f.best].row != row)
      f.best++;
    e = tt_agree(k->c, load_local(&f));
    if (!e) e = tt_agree(k->c, TT_ALLOC(picked, most < f.count ? most : f.count));
    if (!e) e = start(&f);
    if (!e) e = pick(&f, most < f.count ? most : f.count, picked, &count);
    if (!e) tt_choose_add_local(k, picked, count);
  }
  tt_free(picked);
  free_all(&f);
  return e;
}
