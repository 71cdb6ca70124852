/* print.c — tables and JSON of `tutti explain`; see explain_internal.h. */
#include "core/base/json.h"
#include "core/base/mem.h"
#include "src/explain/explain_internal.h"
#include "src/predict/prediction_block.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { MOST_LINES = 30 };

static void print_number(double v, int width)
{
  if (isnan(v))
    printf("%*s", width, "-");
  else
    printf("%*.4g", width, v);
}

static void print_table(const tt_columns *input, const tt_importance *i, int64_t column,
                        const tt_ranked *ranked)
{
  printf(" %-28s %12s %10s\n", "input", "permutation", "+- members");
  for (int64_t n = 0; n < i->inputs && n < MOST_LINES; n++) {
    int64_t offset = column * i->inputs + ranked[n].index;
    printf(" %-28.28s", input->name[ranked[n].index]);
    print_number(i->permutation[offset], 13);
    print_number(i->permutation_between[offset], 11);
    printf("\n");
  }
  if (i->inputs > MOST_LINES) printf(" and %" PRId64 " more\n", i->inputs - MOST_LINES);
}

static json_t *describe_input(const tt_columns *input, const tt_importance *i, int64_t column,
                              int64_t d)
{
  int64_t offset = column * i->inputs + d;
  json_t *o = json_object();
  tt_json_set(&o, "name", tt_json_text(input->name[d]));
  tt_json_set(&o, "permutation_importance", tt_json_number(i->permutation[offset]));
  tt_json_set(&o, "permutation_importance_std_members",
              tt_json_number(i->permutation_between[offset]));
  return o;
}

/* One predicted column. */
typedef struct predicted {
  const tt_trained_ensemble *m;
  int64_t own, column; /* its number in m, in the importance */
} predicted;

static json_t *describe_column(const predicted *p, const tt_importance *i, const tt_ranked *ranked)
{
  int32_t target;
  const tt_ensemble *e = tt_column_ensemble(p->m, p->own, &target);
  char *label = NULL;
  json_t *o = json_object(), *inputs = json_array();
  tt_err failed =
      tt_trained_ensemble_column_name(p->m, e, p->own % tt_trained_ensemble_width(p->m), &label);
  for (int64_t n = 0; n < i->inputs; n++)
    if (json_array_append_new(inputs, describe_input(&p->m->input, i, p->column, ranked[n].index)))
      inputs = NULL;
  tt_json_set(&o, "ensemble", tt_json_text(e->name));
  tt_json_set(&o, "target", tt_json_text(p->m->target.name[target]));
  tt_json_set(&o, "column", failed ? NULL : tt_json_text(label));
  tt_free(label);
  tt_json_set(&o, "error_metric", tt_json_text(i->metric[p->column]));
  tt_json_set(&o, "error", tt_json_number(i->error[p->column]));
  tt_json_set(&o, "inputs", inputs);
  return o;
}

/* A table for the column of the point forecast of each target. */
static void print_column(const predicted *p, const tt_importance *i, const tt_ranked *ranked)
{
  int32_t target;
  const tt_ensemble *e = tt_column_ensemble(p->m, p->own, &target);
  if (p->own % p->m->model.quantities != tt_model_point_quantity(&p->m->model)) return;
  printf("%s: %s, %s %.5g; increase by permutations of an input\n", e->name,
         p->m->target.name[target], i->metric[p->column], i->error[p->column]);
  print_table(&p->m->input, i, p->column, ranked);
}

static tt_err print_all(const tt_trained_ensembles *all, const tt_importance *i, json_t *columns)
{
  tt_ranked *ranked = NULL;
  int64_t column = 0;
  TT_TRY(TT_ALLOC(ranked, i->inputs));
  for (int64_t n = 0; n < all->count; n++)
    for (int64_t k = 0; k < tt_trained_ensemble_columns(all->at[n]); k++, column++) {
      const predicted p = {all->at[n], k, column};
      tt_importance_rank(i, column, ranked);
      if (!columns)
        print_column(&p, i, ranked);
      else
        json_array_append_new(columns, describe_column(&p, i, ranked));
    }
  tt_free(ranked);
  fflush(stdout);
  return TT_OK;
}

tt_err tt_explain_print_local(const tt_trained_ensembles *all, const tt_importance *i, int json)
{
  if (!json) return print_all(all, i, NULL);
  json_t *o = json_object(), *columns = json_array();
  tt_err e = print_all(all, i, columns);
  tt_json_set(&o, "rows", json_integer(i->rows));
  tt_json_set(&o, "repeats", json_integer(i->repeats));
  tt_json_set(&o, "columns", columns);
  if (!e) return tt_json_print(o, 1);
  json_decref(o);
  return e;
}
