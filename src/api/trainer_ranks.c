/* trainer_ranks.c — see trainer_ranks.h. */
#include "src/api/trainer_ranks.h"

#include "core/base/mem.h"
#include "core/model/load_balance.h"

#include <inttypes.h>
#include <stddef.h>

tt_err tt_trainer_join(const tutti_trainer_options *o, tutti_trainer *t)
{
  return o->on_ranks ? tt_comm_of_program(o->comm, &t->comm) : tt_comm_alone_local(&t->comm);
}

tt_err tt_trainer_divide(tutti_trainer *t)
{
  int ranks = tt_comm_ranks(t->comm);
  t->slice = (tt_slice){0, t->cohort->members};
  if (ranks == 1) return TT_OK;
  tt_err e = TT_ALLOC(t->ranks, ranks);
  if (!e) e = tt_load_balance(&t->cohorts, 1, ranks, tt_comm_rank(t->comm), &t->slice);
  e = tt_agree(t->comm, e);
  return e ? e : tt_agree_same(t->comm, "options of the trainer", t->resolved);
}

/* What this rank passes. */
static tt_err check_own(const tutti_batch *b, int labels)
{
  if (b->index || b->own_rows || b->count)
    return TT_FAIL(USAGE, "batch has an index, own_rows or a count: with several ranks all members "
                          "train on all rows");
  if (b->rows < 0) return TT_FAIL(USAGE, "batch->rows is %" PRId64, b->rows);
  if (b->rows > 0 && !b->x) return TT_FAIL(USAGE, "batch->x is NULL");
  if (b->rows > 0 && labels && !b->y)
    return TT_FAIL(USAGE, "batch->y is NULL: a step needs labels");
  return TT_OK;
}

/* The rows of all ranks, in t->ranks. */
static tt_err count_rows(tutti_trainer *t, const tutti_batch *b, int labels, int64_t *rows,
                         int64_t *first, int *weighted)
{
  const tt_trainer_rank mine = {b->rows, labels && b->weight};
  int ranks = tt_comm_ranks(t->comm), others = 0;
  tt_allgatherv(t->comm, &mine, sizeof mine, t->ranks, NULL);
  *rows = 0;
  *weighted = 0;
  for (int r = 0; r < ranks; r++) {
    if (r == tt_comm_rank(t->comm) && first) *first = *rows;
    *rows += t->ranks[r].rows;
    if (t->ranks[r].rows) *weighted |= (int)t->ranks[r].weighted;
    if (t->ranks[r].rows) others |= !t->ranks[r].weighted;
  }
  if (*weighted && others)
    return TT_FAIL(USAGE, "some ranks give weights of their rows, others do not");
  return TT_OK;
}

/* *array becomes that of all ranks, in t->gathered[which]. */
static void gather(tutti_trainer *t, int which, int64_t values, const float **array)
{
  float *all = t->gathered[which].value;
  tt_allgatherv(t->comm, *array, values * (int64_t)sizeof **array, all, NULL);
  *array = all;
}

tt_err tt_trainer_gather_rows(tutti_trainer *t, tutti_batch *b, int labels, tt_err before,
                              int64_t *first)
{
  int64_t inputs = t->data->inputs, targets = t->data->targets, rows;
  int weighted;
  if (first) *first = 0;
  if (tt_comm_ranks(t->comm) == 1) return before;
  tt_err e = tt_agree(t->comm, before ? before : check_own(b, labels));
  if (!e) e = count_rows(t, b, labels, &rows, first, &weighted);
  if (e) return e;
  e = tt_trainer_reserve(&t->gathered[0], rows * inputs);
  if (!e && labels) e = tt_trainer_reserve(&t->gathered[1], rows * targets);
  if (!e && weighted) e = tt_trainer_reserve(&t->gathered[2], rows);
  e = tt_agree(t->comm, e);
  if (e) return e;
  gather(t, 0, b->rows * inputs, &b->x);
  if (labels) gather(t, 1, b->rows * targets, &b->y);
  if (weighted)
    gather(t, 2, b->rows, &b->weight);
  else
    b->weight = NULL;
  b->rows = rows;
  return TT_OK;
}

void tt_trainer_gather_members(const tutti_trainer *t, const void *mine, int64_t bytes, void *all)
{
  if (mine != all) tt_allgatherv(t->comm, mine, t->slice.count * bytes, all, NULL);
}

tt_err tt_trainer_own_floats(tutti_trainer *t, int64_t values, float *all, float **mine)
{
  int alone = tt_comm_ranks(t->comm) == 1;
  if (!alone) TT_TRY(tt_trainer_reserve(&t->own, t->slice.count * values));
  *mine = alone ? all : t->own.value;
  return TT_OK;
}
