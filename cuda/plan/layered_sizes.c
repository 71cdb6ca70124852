/* layered_sizes.c — see layered_sizes.h. */
#include "cuda/plan/layered_sizes.h"

enum {
  TILE = 64,                 /* rows and columns of weights in a tile */
  MOST_TILES = 12,           /* of a layer whose gradient has few blocks */
  MOST_TILES_OF_ALL = 256,   /* of a layer of all members, whose chunks have blocks of their own */
  CONV_BLOCKS = 128,         /* of the gradient of a conv: its tiles times its chunks, at most */
  LEAST_CHUNK = 256,         /* inner indices of such a chunk */
  MOST_CHUNK = 4096,         /* a longer chain of sums would round more */
  LEAST_SUM_CHUNK = 512,     /* inner indices of a chunk of an output or input gradient of a conv */
  MOST_CONV_CHUNKS = 8 << 20 /* floats, of all members: 32 MiB */
};

static void find_residuals(const tt_cohort *c, tt_layered_sizes *s)
{
  for (int l = 0; l < c->model.layers; l++) s->residual |= c->model.layer[l].residual;
  for (int l = 0; l < c->model.front.layers; l++) {
    s->residual |= c->model.front.layer[l].skip != TT_FRONT_NO_SKIP;
    s->projections |= c->model.front.layer[l].projects;
  }
}

static int64_t find_widest(const tt_model *m)
{
  int64_t widest = 0;
  for (int l = 0; l < m->layers; l++)
    if (m->layer[l].out > widest) widest = m->layer[l].out;
  for (int l = 0; l < m->front.layers; l++)
    if (tt_front_values(&m->front.layer[l]) > widest) widest = tt_front_values(&m->front.layer[l]);
  return widest;
}

int tt_layered_is_narrow(const tt_layer *layer)
{
  return layer->in <= TT_NARROW_WIDTH || layer->out <= TT_NARROW_WIDTH;
}

/* Tiles of the weights of the largest layer. */
static int64_t most_tiles(const tt_model *m)
{
  int64_t most = 0;
  for (int l = 0; l < m->layers; l++) {
    int64_t down = tt_ceil_div(m->layer[l].out, TILE), across = tt_ceil_div(m->layer[l].in, TILE);
    if (down * across > most) most = down * across;
  }
  return most;
}

static int is_plain(const tt_layer *layer) { return layer->norm < 0 && !layer->residual; }

/* Whether the last layer can be computed with the loss: its outputs are few, and used once. */
static int has_head(const tt_layered_sizes *s, const tt_model *m)
{
  const tt_layer *last = &m->layer[m->layers - 1];
  return s->small && m->layers > 1 && last->out <= TT_NARROW_WIDTH && last->in <= TT_HEAD_WIDTH &&
         is_plain(last) && !last->dropout && last->activation == TT_ACT_identity;
}

/* Shared floats of the fused first layer: padded weights, padded rows, results, row indices. */
int64_t tt_layered_entry_floats(const tt_layer *first)
{
  int64_t ld = (first->in + 3) / 4 * 4 + 4;
  return (first->out + TT_GATHER_ROWS) * ld + TT_GATHER_ROWS * (first->out + 1);
}

/* Whether the first layer can be computed where its rows are gathered. */
static int has_entry(const tt_layered_sizes *s, const tt_model *m)
{
  const tt_layer *first = &m->layer[0];
  return s->small && m->layers > 1 && !s->streamed && is_plain(first) &&
         !(s->dropout && first->dropout) && tt_layered_entry_floats(first) <= TT_ENTRY_FLOATS;
}

/* The order of the sums follows from the shape; who computes them, from the options and the number
 * of members too. */
static void find_chunks(const tt_model *m, tt_layered_sizes *s)
{
  int64_t tiles = most_tiles(m);
  s->small = !m->front.layers && tiles <= MOST_TILES;
  for (int l = 0; l < m->layers; l++) s->small &= m->layer[l].norm < 0;
  s->chunk = s->small ? tt_min_i64(TT_CHUNK_ROWS, s->rows) : s->rows;
  s->head = has_head(s, m);
  s->entry = has_entry(s, m);
  s->copies = 1;
  if (s->small && !s->parts && s->members * tiles <= MOST_TILES_OF_ALL)
    s->copies = tt_ceil_div(s->rows, s->chunk);
}

int64_t tt_layered_conv_chunk(const tt_front_layer *l, int64_t rows)
{
  int64_t inner = rows * tt_front_positions(l);
  int64_t tiles = l->groups * tt_ceil_div(l->channels / l->groups, TILE) *
                  tt_ceil_div(tt_front_fan_in(l), TILE);
  int64_t chunks = tt_min_i64(tt_max_i64(CONV_BLOCKS / tiles, 1), tt_ceil_div(inner, LEAST_CHUNK));
  if (chunks * MOST_CHUNK < inner) chunks = tt_ceil_div(inner, MOST_CHUNK);
  return tt_round_up(tt_ceil_div(inner, chunks), 32);
}

int64_t tt_layered_conv_chunks(const tt_front_layer *l, int64_t rows)
{
  return tt_ceil_div(rows * tt_front_positions(l), tt_layered_conv_chunk(l, rows));
}

int64_t tt_layered_conv_sum_chunks(const tt_front_layer *l, int64_t rows, int backward)
{
  int64_t out = l->channels / l->groups, in = l->in_channels / l->groups;
  int64_t inner = (backward ? out : in) * l->size[0] * l->size[1];
  int64_t places = backward ? (int64_t)l->in[0] * l->in[1] : tt_front_positions(l);
  if (backward) inner /= (int64_t)l->stride[0] * l->stride[1]; /* that a position reads */
  int64_t tiles =
      l->groups * tt_ceil_div(backward ? in : out, TILE) * tt_ceil_div(rows * places, TILE);
  int64_t chunks = tt_min_i64(CONV_BLOCKS / tiles, inner / LEAST_SUM_CHUNK); /* TT_CONV_SUMS */
  return chunks < 1 ? 1 : chunks;
}

/* The most values of a layer whose chunks have blocks of their own: of the gradients of all
 * members, of the outputs and input gradients of at least one, for any number of rows up to that of
 * a batch, because callers may give fewer. */
static int64_t find_conv_chunks(const tt_model *m, const tt_layered_sizes *s)
{
  int64_t most = 0, sums = tt_min_i64(s->members * TT_CONV_SUMS, MOST_CONV_CHUNKS);
  for (int i = 0; i < m->front.layers; i++) {
    const tt_front_layer *l = &m->front.layer[i];
    if (l->kind != TT_FRONT_conv) continue;
    int64_t values = s->members * tt_layered_conv_chunks(l, s->rows) * tt_front_weights(l);
    int splits = tt_layered_conv_sum_chunks(l, 1, 0) > 1 || tt_layered_conv_sum_chunks(l, 1, 1) > 1;
    if (values > s->members * tt_front_weights(l) && values <= MOST_CONV_CHUNKS)
      most = tt_max_i64(most, values);
    if (splits) most = tt_max_i64(most, sums);
  }
  return most;
}

/* A network with a front is validated in pieces of one batch of rows: larger pieces would need more
 * memory than training, because the layers of a front have very many values. */
tt_layered_sizes tt_layered_sizes_of(const tt_cohort *c, tt_slice slice, int64_t rows, int weighted,
                                     int streamed)
{
  const tt_model *m = &c->model;
  const tt_used_options used = tt_cohort_used_options(c, slice);
  int most;
  (void)tt_part_sums_of(c->parts, (tt_slice){0, c->parts}, &most);
  tt_layered_sizes s = {.members = slice.count,
                        .inputs = m->inputs,
                        .targets = m->targets,
                        .stride = tt_param_stride(m->params),
                        .rows = tt_part_max_rows(tt_min_i64(c->batch_size, rows), c->parts),
                        .split_rows = tt_min_i64(TT_SPLIT_ROWS, rows),
                        .sums = most,
                        .blocks = tt_norm_blocks(m->params),
                        .weighted = weighted,
                        .streamed = streamed,
                        .dropout = used.dropout,
                        .label_noise = used.label_noise,
                        .clipping = used.clipping,
                        .folds = c->resample == TT_RESAMPLE_kfold,
                        .parts = c->parts > 1,
                        .batch_norm = tt_front_all_running(&m->front) > 0,
                        .widest = find_widest(m)};
  s.rates = m->rates > 0 || s.batch_norm;
  find_residuals(c, &s);
  find_chunks(m, &s);
  s.conv_chunks = find_conv_chunks(m, &s);
  if (s.parts || m->front.layers) s.split_rows = s.rows;
  s.terms = tt_ceil_div(rows, s.split_rows);
  s.capacity = tt_min_i64(TT_VALIDATION_ROWS, s.members * s.split_rows);
  if (s.capacity < s.members * s.rows) s.capacity = s.members * s.rows;
  s.split_group = s.capacity / s.split_rows;
  return s;
}

int tt_layered_stores_slope(const tt_layered_sizes *s, const tt_model *m, int l)
{
  const tt_layer *layer = &m->layer[l];
  return l < m->layers - 1 && (tt_act_grad_needs_input(layer->activation) || layer->norm >= 0 ||
                               layer->residual || (s->dropout && layer->dropout));
}

int tt_layered_stores_front_slope(const tt_front_layer *layer)
{
  return layer->activation != TT_ACT_identity &&
         (tt_act_grad_needs_input(layer->activation) ||
          (layer->skip != TT_FRONT_NO_SKIP && !layer->activates_sum));
}

int64_t tt_layered_front_moments(const tt_layered_sizes *s, const tt_front_layer *layer)
{
  if (layer->kind == TT_FRONT_group_norm) return 2 * s->members * s->rows * layer->groups;
  return layer->kind == TT_FRONT_batch_norm ? TT_BATCH_NORM_MOMENTS * s->members * layer->channels
                                            : 0;
}

#define X(name, type, count, what) bytes += (int64_t)sizeof(type) * (count);
static int64_t layer_bytes(const tt_layered_sizes *s, const tt_model *m, int l)
{
  const tt_layer *layer = &m->layer[l];
  int64_t bytes = 0;
  TT_LAYERED_LAYER_ARRAYS(X)
  return bytes;
}

static int64_t front_layer_bytes(const tt_layered_sizes *s, const tt_model *m, int l)
{
  const tt_front_layer *layer = &m->front.layer[l];
  int64_t bytes = 0;
  TT_LAYERED_FRONT_ARRAYS(X)
  return bytes;
}

/* Layers [first, end), which are numbered as in pipeline.h. */
static int64_t layers_bytes(const tt_layered_sizes *s, const tt_model *m, int first, int end)
{
  int64_t bytes = 0;
  for (int l = first; l < end; l++)
    bytes +=
        l < m->front.layers ? front_layer_bytes(s, m, l) : layer_bytes(s, m, l - m->front.layers);
  return bytes;
}

/* Of all staging buffers, if there are any: on the device, and the same on the host. */
static int64_t staging_bytes(const tt_layered_sizes *s)
{
  int64_t bytes = 0;
  TT_STAGING_ARRAYS(X)
  return s->streamed ? TT_STAGING_BUFFERS * bytes : 0;
}

int64_t tt_layered_bytes(const tt_layered_sizes *s, const tt_model *m)
{
  int64_t bytes = s->sums * s->copies * s->members * s->stride * (int64_t)sizeof(float);
  TT_LAYERED_ARRAYS(X)
  return bytes + staging_bytes(s) + layers_bytes(s, m, 0, tt_pipeline_layers(m));
}

int64_t tt_layered_pinned_bytes(const tt_layered_sizes *s)
{
  int64_t bytes = staging_bytes(s);
  TT_LAYERED_PINNED_ARRAYS(X)
  return bytes;
}
#undef X

tt_layered_sizes tt_layered_slot_sizes(const tt_layered_sizes *s)
{
  tt_layered_sizes one = *s;
  one.members = 1;
  one.capacity = s->rows;
  return one;
}

/* The engine has one slot; if its rows come from the host, without the inputs. */
static int64_t stage_bytes(const tt_layered_sizes *s, const tt_model *m,
                           const tt_engine_share *share)
{
  const tt_layered_sizes slot = tt_layered_slot_sizes(s);
  int first = share->stage->first, end = first + share->stage->count;
  int64_t values = s->rows * tt_pipeline_values(m, first) * (int64_t)sizeof(float);
  int64_t bytes = (share->window - 1) * (values + layers_bytes(&slot, m, first, end));
  return first == 0 && s->streamed ? bytes + values : bytes;
}

int64_t tt_layered_share_bytes(const tt_layered_sizes *s, const tt_cohort *c,
                               const tt_engine_share *share)
{
  int most;
  (void)tt_part_sums_of(c->parts, share->parts, &most);
  int64_t further = most > s->sums ? most - s->sums : 0;
  int64_t bytes = further * s->stride * (int64_t)sizeof(float);
  return share->stage ? bytes + stage_bytes(s, &c->model, share) : bytes;
}

int64_t tt_layered_exchanged_bytes(const tt_cohort *c, const tt_engine_share *share)
{
  int64_t sums = tt_part_sums_of(c->parts, share->parts, NULL).count;
  if (share->stage && sums < 1) sums = 1;
  return sums * c->model.params * (int64_t)sizeof(float);
}
