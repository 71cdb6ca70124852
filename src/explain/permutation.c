/* permutation.c — increase of the error when an input is permuted; see explain_internal.h. */
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "src/explain/explain_internal.h"
#include "src/score/score.h"

#include <math.h>
#include <string.h>

/* The rows with one column of the inputs permuted between them. */
typedef struct permuted_rows {
  const tt_explain_rows *rows;
  int64_t input; /* -1: none */
  tt_shuffle order;
} permuted_rows;

/* tt_row_source.read_local */
static tt_err read_permuted(void *src, int64_t first, int64_t count, float *x, double *y,
                            double *weight)
{
  const permuted_rows *p = src;
  const tt_explain_rows *r = p->rows;
  int64_t F = r->net->count, T = r->targets;
  memcpy(x, r->x + first * F, (size_t)(count * F) * sizeof *x);
  memcpy(y, r->y + first * T, (size_t)(count * T) * sizeof *y);
  memcpy(weight, r->weight + first, (size_t)count * sizeof *weight);
  for (int64_t i = 0; p->input >= 0 && i < count; i++) {
    int64_t other = r->place[tt_shuffle_at(&p->order, (uint32_t)(first + i))];
    int64_t from_input = r->net->first[p->input], end = r->net->first[p->input + 1];
    memcpy(x + i * F + from_input, r->x + other * F + from_input,
           (size_t)(end - from_input) * sizeof *x);
  }
  return TT_OK;
}

static tt_metric error_of(const tt_model *m)
{
  return tt_metric_fits(TT_METRIC_rmse, m->output) ? TT_METRIC_rmse : TT_METRIC_nll;
}

static tt_err score(tt_comm *c, const tt_explained *own, permuted_rows *p, tt_scores **out)
{
  const tt_row_source source = {.rows = p->rows->rows, .read_local = read_permuted, .from = p};
  return tt_score(c, own->m, NULL, own->ops, own->use, &source, out, NULL);
}

/* Weighted standard deviation of value[0], value[step], ..., of the members of weight > 0; NaN
 * without one. */
static double deviation(int64_t members, const double *weight, const double *value, int64_t step)
{
  double sum = 0.0, all = 0.0, squares = 0.0;
  for (int64_t i = 0; i < members; i++)
    if (weight[i] > 0.0) sum += weight[i] * value[i * step], all += weight[i];
  for (int64_t i = 0; i < members; i++) {
    double off = value[i * step] - sum / all;
    if (weight[i] > 0.0) squares += weight[i] * off * off;
  }
  return sqrt(squares / all);
}

/* Sums over the permutations of one input: [C] of the errors of the ensembles, [G][K] of those of
 * the members. */
typedef struct increases {
  int64_t columns, cells;
  double *ensemble, *member;
} increases;

static tt_err increases_create(const tt_scores *s, increases *n)
{
  *n = (increases){.columns = s->columns, .cells = s->members * s->targets};
  TT_TRY(TT_ALLOC(n->ensemble, n->columns));
  return TT_ALLOC(n->member, n->cells);
}

static void add_increases(const tt_scores *base, const tt_scores *s, tt_metric metric, increases *n)
{
  for (int64_t k = 0; k < n->columns; k++)
    n->ensemble[k] += s->ensemble[metric][k] - base->ensemble[metric][k];
  for (int64_t k = 0; k < n->cells; k++)
    n->member[k] += s->member[metric][k] - base->member[metric][k];
}

static void store(const tt_explained *own, const increases *n, int64_t input, int64_t repeats,
                  tt_importance *out)
{
  const tt_trained_ensemble *m = own->m;
  int64_t targets = tt_trained_ensemble_targets(m), width = tt_trained_ensemble_width(m);
  for (int64_t k = 0; k < n->columns; k++) {
    const tt_ensemble *e = &m->ensemble[k / width];
    int64_t offset = (own->column + k) * out->inputs + input;
    int64_t first = e->first * targets + k % width / m->model.quantities;
    out->permutation[offset] = n->ensemble[k] / (double)repeats;
    out->permutation_between[offset] =
        deviation(e->members, m->weight + e->first, n->member + first, targets) / (double)repeats;
  }
}

static tt_err permute_input(tt_comm *c, const tt_explained *own, permuted_rows *p,
                            const tt_explain_options *o, const tt_scores *base, increases *n)
{
  tt_err e = TT_OK;
  memset(n->ensemble, 0, (size_t)n->columns * sizeof *n->ensemble);
  memset(n->member, 0, (size_t)n->cells * sizeof *n->member);
  for (int64_t r = 0; !e && r < o->repeats; r++) {
    tt_scores *s = NULL;
    p->order = tt_shuffle_make((uint32_t)p->rows->rows, o->seed, (uint64_t)p->input + 1,
                               TT_PURPOSE_EXPLAIN, (uint32_t)r);
    e = score(c, own, p, &s);
    if (!e) add_increases(base, s, error_of(&own->m->model), n);
    tt_scores_destroy(&s);
  }
  return e;
}

tt_err tt_explain_permute(tt_comm *c, const tt_explained *own, const tt_explain_rows *rows,
                          const tt_explain_options *o, tt_importance *out)
{
  permuted_rows p = {.rows = rows, .input = -1};
  tt_metric metric = error_of(&own->m->model);
  tt_scores *base = NULL;
  increases n = {0};
  tt_err e = score(c, own, &p, &base);
  if (!e) e = tt_agree(c, increases_create(base, &n));
  for (int64_t k = 0; !e && k < n.columns; k++) {
    out->metric[own->column + k] = tt_metric_table[metric].name;
    out->error[own->column + k] = base->ensemble[metric][k];
  }
  for (p.input = 0; !e && p.input < rows->inputs; p.input++) {
    e = permute_input(c, own, &p, o, base, &n);
    if (!e) store(own, &n, p.input, o->repeats, out);
  }
  tt_free_all(&n.ensemble, &n.member);
  tt_scores_destroy(&base);
  return e;
}
