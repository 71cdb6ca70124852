/* buffers.c — buffers of a thread; see cpu_internal.h. */
#include "src/cpu/cpu_internal.h"

#include "core/base/mem.h"
#include "core/formulas/layer_norm.h"
#include "core/model/parts.h"

/* Sizes of the buffers. */
typedef struct buffer_sizes {
  const tt_model *m;
  int64_t rows, ld; /* as in tt_cpu_buffers */
  int64_t window, widest;
  int training, residual; /* 0 or 1 */
} buffer_sizes;

/* Name in tt_cpu_buffers, type, number of elements. 0 elements: no array. */
#define ARRAYS(X)                                                                                  \
  X(x, float, s->m->inputs * s->ld)                                                                \
  X(y, float, s->m->targets * s->ld)                                                               \
  X(variance, float, s->m->targets * s->ld)                                                        \
  X(weight, float, s->ld)                                                                          \
  X(window, int32_t, s->window)                                                                    \
  X(term, double, s->training * s->ld)                                                             \
  X(scratch, float, s->training * s->widest * s->ld)                                               \
  X(residual_gradient, float, s->training * s->residual * s->widest * s->ld)                       \
  X(gradient[0], float, s->training * s->m->params)

/* The same for layer l of the model. */
#define LAYER_ARRAYS(X)                                                                            \
  X(z[l], float, layer->out * s->ld)                                                               \
  X(h[l], float, is_last ? 0 : layer->out * s->ld)                                                 \
  X(delta[l], float, s->training *(is_last || layer->norm >= 0) * layer->out * s->ld)              \
  X(normalized[l], float, s->training *(layer->norm >= 0) * layer->out * s->ld)                    \
  X(inverse_std[l], float, s->training *(layer->norm >= 0) * s->ld)

/* An odd number of 64-byte cache lines, so that features are not in the same cache sets. */
int64_t tt_cpu_leading_dimension(int64_t rows)
{
  int64_t padded = tt_lanes_up(rows);
  return padded / TT_LANES % 2 ? padded : padded + TT_LANES;
}

static buffer_sizes sizes_of(const tt_model *m, int64_t batch, int64_t parts,
                             tt_cpu_buffers_use use)
{
  buffer_sizes s = {.m = m,
                    .rows = tt_lanes_up(tt_part_max_rows(batch, parts)),
                    .window = batch > TT_SAMPLER_WINDOW ? tt_lanes_up(batch) : TT_SAMPLER_WINDOW,
                    .widest = tt_model_widest(m),
                    .training = use == TT_BUFFERS_TRAIN};
  /* the positions of a channel follow one another, and no padding separates the channels' sets */
  s.ld = m->front.layers > 0 ? s.rows : tt_cpu_leading_dimension(s.rows);
  for (int l = 0; l < m->layers; l++) s.residual |= m->layer[l].residual;
  return s;
}

static tt_err allocate_layer(const buffer_sizes *s, int l, tt_cpu_buffers *b)
{
  const tt_layer *layer = &s->m->layer[l];
  int is_last = l == s->m->layers - 1;
#define X(name, type, count)                                                                       \
  if ((count) > 0) TT_TRY(TT_ALLOC_VALUES(b->name, count));
  LAYER_ARRAYS(X)
#undef X
  return TT_OK;
}

static tt_err allocate(const buffer_sizes *s, tt_cpu_buffers *b)
{
#define X(name, type, count)                                                                       \
  if ((count) > 0) TT_TRY(TT_ALLOC_VALUES(b->name, count));
  ARRAYS(X)
#undef X
  for (int l = 0; l < s->m->layers; l++) TT_TRY(allocate_layer(s, l, b));
  return s->m->front.layers ? tt_cpu_front_create(&s->m->front, s->ld, s->training, &b->front)
                            : TT_OK;
}

tt_err tt_cpu_buffers_create(const tt_model *model, int64_t batch, int64_t parts,
                             tt_cpu_buffers_use use, tt_cpu_buffers **out)
{
  const buffer_sizes s = sizes_of(model, batch, parts, use);
  tt_cpu_buffers *b = NULL;
  TT_TRY(TT_ALLOC(b, 1));
  b->rows = s.rows;
  b->ld = s.ld;
  b->window_size = s.window;
  b->running_share = tt_batch_norm_share(0, 1);
  tt_err e = allocate(&s, b);
  if (e)
    tt_cpu_buffers_destroy(&b);
  else
    *out = b;
  return e;
}

void tt_cpu_buffers_destroy(tt_cpu_buffers **w)
{
  tt_cpu_buffers *b = *w;
  if (!b) return;
#define X(name, type, count) tt_free(b->name);
  ARRAYS(X)
  for (int l = 0; l < TT_MAX_LAYERS; l++) {
    LAYER_ARRAYS(X)
  }
#undef X
  for (int i = 1; i < TT_MAX_PART_SUMS; i++) tt_free(b->gradient[i]);
  tt_cpu_front_destroy(&b->front);
  tt_free(*w);
}

/* Sums of parts */

int tt_cpu_threads_per_member(const tt_cohort *c, tt_slice slice, int threads)
{
  int64_t most = c->parts < threads ? c->parts : threads;
  return slice.count < threads ? (int)most : 1;
}

/* Most sums that are pending at a time on a thread with its share of a slice of the parts. */
static int pending_sums(int64_t parts, tt_slice slice, int threads, int thread)
{
  int most;
  tt_slice own = tt_part_slice(slice.count, threads, threads > 1 ? thread : 0);
  (void)tt_part_sums_of(parts, (tt_slice){slice.first + own.first, own.count}, &most);
  return most;
}

tt_err tt_cpu_reserve_sums(tt_engine *e, tt_slice parts, int threads)
{
  const tt_cohort *c = e->cohort;
  for (int t = 0; t < (threads > 1 ? threads : e->threads); t++)
    for (int i = 0; i < pending_sums(c->parts, parts, threads, t); i++)
      if (!e->buffers[t]->gradient[i])
        TT_TRY(TT_ALLOC_VALUES(e->buffers[t]->gradient[i], c->model.params));
  return TT_OK;
}

/* Slots of a stage */

/* What layers number [first, end) are. */
typedef struct slot_layers {
  int has_front, front_first, front_end; /* layers of the front, or its features are the input */
  int first, end;                        /* dense ones */
  int input; /* the input of the first one: IN_X, IN_FRONT, or h of this layer */
} slot_layers;
enum { IN_X = -1, IN_FRONT = -2 };

static slot_layers layers_of(const tt_model *m, int first, int end)
{
  int front = m->front.layers;
  slot_layers s = {.has_front = front > 0 && first <= front,
                   .front_first = first < front ? first : front,
                   .front_end = end < front ? end : front,
                   .first = first > front ? first - front : 0,
                   .end = end > front ? end - front : 0};
  s.input = first == 0 ? IN_X : s.has_front ? IN_FRONT : s.first - 1;
  return s;
}

static float **input_of(tt_cpu_buffers *b, const slot_layers *s)
{
  return s->input == IN_X ? &b->x : &b->h[s->input];
}

static int64_t input_size(const tt_model *m, const slot_layers *s)
{
  return s->input == IN_X ? m->inputs : m->layer[s->first].in;
}

tt_err tt_cpu_slot_allocate(const tt_model *model, int first, int end, tt_cpu_buffers *b)
{
  const buffer_sizes sizes = {.m = model, .ld = b->ld, .training = 1};
  const slot_layers s = layers_of(model, first, end);
  const tt_cpu_front *lists = b->front;
  for (int l = s.first; l < s.end; l++)
    b->z[l] = b->h[l] = b->delta[l] = b->normalized[l] = b->inverse_std[l] = NULL;
  if (s.has_front) b->front = NULL;
  if (s.input != IN_FRONT) {
    *input_of(b, &s) = NULL;
    TT_TRY(TT_ALLOC_VALUES(*input_of(b, &s), input_size(model, &s) * b->ld));
  }
  if (s.has_front)
    TT_TRY(tt_cpu_front_slot_create(&model->front, lists, s.front_first, s.front_end, b->ld,
                                    &b->front));
  for (int l = s.first; l < s.end; l++) TT_TRY(allocate_layer(&sizes, l, b));
  return TT_OK;
}

void tt_cpu_slot_free(const tt_model *model, int first, int end, tt_cpu_buffers *b)
{
  const slot_layers s = layers_of(model, first, end);
  if (s.input != IN_FRONT) tt_free(*input_of(b, &s));
  if (s.has_front) tt_cpu_front_destroy(&b->front);
  for (int l = s.first; l < s.end; l++)
    tt_free_all(&b->z[l], &b->h[l], &b->delta[l], &b->normalized[l], &b->inverse_std[l]);
}
