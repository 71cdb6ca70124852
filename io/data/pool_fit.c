/* pool_fit.c — inputs normalized by the candidates of a campaign; see data_internal.h.
 *
 * The pool is divided into blocks that depend on its size alone. Each rank reads whole blocks once,
 * and the statistics of the blocks are combined in their order on every rank (Chan et al. 1979). */
#include "io/data/data_internal.h"

#include "core/base/mem.h"
#include "core/model/partition.h"

#include <inttypes.h>
#include <math.h>

enum { MAX_BLOCKS = 1024, MAX_STATISTICS = 1 << 20, PIECE_VALUES = 1 << 16 };

/* Of one column over some rows. */
typedef struct column_sum {
  double rows, mean, squares; /* squares of the deviations from the mean */
  double low, high;
} column_sum;

typedef struct pool_fit {
  const tt_config *cfg;
  const tt_fitted *out;
  tt_data_reader *rows;
  int64_t inputs, count; /* D, rows of the pool */
  int64_t block, blocks; /* rows of a block; their number */
  int64_t chunk;         /* rows read in one call: the same in all blocks */
  tt_slice mine;         /* blocks of this rank */
  column_sum *sum, *all; /* [mine.count][D], [blocks][D] */
  double *x;             /* [piece][D] */
} pool_fit;

static void add_value(column_sum *s, double x)
{
  double from_mean = x - s->mean;
  s->rows++;
  s->mean += from_mean / s->rows;
  s->squares += from_mean * (x - s->mean);
  s->low = fmin(s->low, x);
  s->high = fmax(s->high, x);
}

static void add_sum(column_sum *dst, const column_sum *s)
{
  double rows = dst->rows + s->rows, between = s->mean - dst->mean;
  if (s->rows <= 0.0) return;
  dst->mean += between * s->rows / rows;
  dst->squares += s->squares + between * between * dst->rows * s->rows / rows;
  dst->rows = rows;
  dst->low = fmin(dst->low, s->low);
  dst->high = fmax(dst->high, s->high);
}

static tt_err add_rows(pool_fit *p, int64_t first, int64_t count, column_sum *sum)
{
  TT_TRY(tt_data_reader_read_local(p->rows, first, count, p->x, NULL));
  for (int64_t i = 0; i < count * p->inputs; i++) {
    if (!isfinite(p->x[i]))
      return TT_FAIL(DATA,
                     "%s: dataset '%s', row %" PRId64 ", column '%s': %g; every input of a "
                     "candidate must be a finite number",
                     p->cfg->pool_file, p->cfg->pool_inputs, first + i / p->inputs,
                     tt_data_reader_shape(p->rows)->input.name[i % p->inputs], p->x[i]);
    int64_t k = i % p->inputs;
    const tt_transform f = tt_fit_transform(p->out, k);
    if (!tt_transform_accepts(f, p->x[i]))
      return TT_FAIL(DATA,
                     "%s: dataset '%s', row %" PRId64 ", column '%s': %g; data.normalize: %s needs "
                     "a value %s",
                     p->cfg->pool_file, p->cfg->pool_inputs, first + i / p->inputs,
                     tt_data_reader_shape(p->rows)->input.name[k], p->x[i],
                     tt_choice_normalize[p->out->by[k]], tt_transform_wants(f));
    add_value(&sum[k], tt_transform_apply(f, p->out->lambda[k], p->x[i]));
  }
  return TT_OK;
}

static tt_err add_block(pool_fit *p, int64_t block, column_sum *sum)
{
  int64_t end = (block + 1) * p->block < p->count ? (block + 1) * p->block : p->count;
  for (int64_t k = 0; k < p->inputs; k++) sum[k] = (column_sum){0, 0, 0, INFINITY, -INFINITY};
  for (int64_t offset = block * p->block; offset < end; offset += p->chunk)
    TT_TRY(add_rows(p, offset, end - offset < p->chunk ? end - offset : p->chunk, sum));
  return TT_OK;
}

/* Collective. */
static tt_err open_pool(tt_comm *c, pool_fit *p, const tt_columns *input, const tt_net_inputs *net)
{
  const tt_table_format format = tt_data_format(p->cfg);
  const tt_data_spec spec = {.file = p->cfg->pool_file,
                             .inputs = p->cfg->pool_inputs,
                             .like_input = input,
                             .format = &format,
                             .net = net};
  return tt_data_reader_open(c, &spec, &p->rows);
}

static tt_err read_own_local(const tt_comm *c, pool_fit *p, const tt_columns *input)
{
  TT_TRY(tt_data_reader_match_local(p->rows, input, NULL, "data.file", 0));
  p->inputs = input->count;
  p->count = tt_data_reader_shape(p->rows)->rows;
  int64_t most = MAX_STATISTICS / p->inputs < MAX_BLOCKS ? MAX_STATISTICS / p->inputs : MAX_BLOCKS;
  if (most < 1) most = 1;
  p->block = (p->count + most - 1) / most;
  p->blocks = (p->count + p->block - 1) / p->block;
  p->chunk = p->inputs < PIECE_VALUES ? PIECE_VALUES / p->inputs : 1;
  TT_TRY(tt_partition_even(p->blocks, tt_comm_ranks(c), tt_comm_rank(c), &p->mine));
  TT_TRY(TT_ALLOC(p->x, p->chunk * p->inputs));
  TT_TRY(TT_ALLOC(p->sum, p->mine.count * p->inputs));
  TT_TRY(TT_ALLOC(p->all, p->blocks * p->inputs));
  for (int64_t b = 0; b < p->mine.count; b++)
    TT_TRY(add_block(p, p->mine.first + b, p->sum + b * p->inputs));
  return TT_OK;
}

static tt_err fit_columns(const pool_fit *p)
{
  double *offset = p->out->mean, *scale = p->out->scale;
  for (int64_t k = 0; k < p->inputs; k++) {
    column_sum s = {0, 0, 0, INFINITY, -INFINITY};
    for (int64_t b = 0; b < p->blocks; b++) add_sum(&s, &p->all[b * p->inputs + k]);
    const tt_column_stats stats = {
        s.rows, s.low == s.high ? s.low : s.mean, sqrt(s.squares / s.rows), s.low, s.high, 0, 0, 0};
    tt_normalize_fit((tt_normalize)p->out->by[k], &stats, &offset[k], &scale[k]);
    if (!isfinite(offset[k]) || !isfinite(scale[k]) || scale[k] == 0.0)
      return TT_FAIL(DATA,
                     "%s: dataset '%s', column '%s': values from %g to %g cannot be normalized; "
                     "use other units",
                     p->cfg->pool_file, p->cfg->pool_inputs,
                     tt_data_reader_shape(p->rows)->input.name[k], s.low, s.high);
  }
  return TT_OK;
}

/* The pool is read once, so that a column is never in memory as a whole. */
static tt_err check_transforms(const pool_fit *p, const tt_columns *input)
{
  for (int64_t k = 0; k < input->count; k++) {
    p->out->lambda[k] = 1.0;
    if (tt_normalize_needs_values((tt_normalize)p->out->by[k]))
      return TT_FAIL(CONFIG,
                     "data.normalize: %s for the input '%s' needs all values at once, which "
                     "data.normalize_inputs: pool does not have; use another one",
                     tt_choice_normalize[p->out->by[k]], input->name[k]);
  }
  return TT_OK;
}

tt_err tt_data_fit_pool(tt_comm *c, const tt_config *cfg, const tt_columns *input,
                        const tt_net_inputs *net, const tt_fitted *out)
{
  pool_fit p = {.cfg = cfg, .out = out};
  tt_err e = tt_agree(c, check_transforms(&p, input));
  if (!e) e = open_pool(c, &p, input, net);
  if (!e) e = tt_agree(c, read_own_local(c, &p, input));
  if (!e) {
    tt_allgatherv(c, p.sum, p.mine.count * p.inputs * (int64_t)sizeof *p.sum, p.all, NULL);
    e = tt_agree(c, fit_columns(&p));
  }
  tt_data_reader_close_local(&p.rows);
  tt_free(p.x);
  tt_free(p.sum);
  tt_free(p.all);
  return e;
}
