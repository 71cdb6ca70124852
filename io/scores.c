/* scores.c — memory of tt_scores, see results_io.h. */
#include "base/mem.h"
#include "io/results_io.h"

static tt_err allocate(tt_scores *s)
{
  for (int v = 0; v < TT_METRIC_COUNT; v++) {
    TT_TRY(TT_ALLOC(s->member[v], s->members * s->targets));
    TT_TRY(TT_ALLOC(s->ensemble[v], s->columns));
  }
  TT_TRY(TT_ALLOC(s->coverage, TT_INTERVALS * s->columns));
  TT_TRY(TT_ALLOC(s->diversity, s->columns));
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
  for (int v = 0; v < TT_METRIC_COUNT; v++) {
    tt_free((*s)->member[v]);
    tt_free((*s)->ensemble[v]);
  }
  tt_free((*s)->coverage);
  tt_free((*s)->diversity);
  tt_free((*s)->rows);
  tt_free(*s);
}
