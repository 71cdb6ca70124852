/* scores.c — memory of tt_scores, see results_io.h. */
#include "base/mem.h"
#include "io/results_io.h"

static tt_err allocate(tt_scores *s)
{
  TT_TRY(TT_ALLOC(s->member_rmse, s->members * s->targets));
  TT_TRY(TT_ALLOC(s->member_mae, s->members * s->targets));
  TT_TRY(TT_ALLOC(s->member_nll, s->members * s->targets));
  TT_TRY(TT_ALLOC(s->rmse, s->columns));
  TT_TRY(TT_ALLOC(s->mae, s->columns));
  TT_TRY(TT_ALLOC(s->nll, s->columns));
  TT_TRY(TT_ALLOC(s->coverage50, s->columns));
  TT_TRY(TT_ALLOC(s->coverage90, s->columns));
  TT_TRY(TT_ALLOC(s->coverage95, s->columns));
  return TT_ALLOC(s->rows, s->columns);
}

tt_err tt_scores_create(int64_t members, int64_t targets, int64_t columns, tt_scores **out)
{
  tt_scores *s = NULL;
  TT_TRY(TT_ALLOC(s, 1));
  s->members = members;
  s->targets = targets;
  s->columns = columns;
  tt_err e = allocate(s);
  if (e)
    tt_scores_destroy(&s);
  else
    *out = s;
  return e;
}

void tt_scores_destroy(tt_scores **s)
{
  if (!*s) return;
  tt_free((*s)->member_rmse);
  tt_free((*s)->member_mae);
  tt_free((*s)->member_nll);
  tt_free((*s)->rmse);
  tt_free((*s)->mae);
  tt_free((*s)->nll);
  tt_free((*s)->coverage50);
  tt_free((*s)->coverage90);
  tt_free((*s)->coverage95);
  tt_free((*s)->rows);
  tt_free(*s);
}
