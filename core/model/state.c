/* state.c — see state.h. */
#include "core/model/state.h"

#include "core/base/mem.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

tt_state_field tt_state_get(const tt_state *s, int field)
{
  switch (field) {
#define X(name_, type_, length_)                                                                   \
  case TT_STATE_FIELD_##name_:                                                                     \
    return (tt_state_field){#name_, TT_TYPE_##type_, (int64_t)sizeof(type_), (length_),            \
                            s->f_##name_};
    TT_STATE_FIELDS(X)
#undef X
  default: return (tt_state_field){"", TT_TYPE_int8_t, 0, 0, NULL};
  }
}

/* In a state whose bytes are zero. */
static void set_initial_values(tt_state *s)
{
  if (tt_mem_counts()) return;
  for (int64_t i = 0; i < s->count; i++) {
    TT_FIELD(s, best_loss)[i] = TT_FIELD(s, plateau_best)[i] = INFINITY;
    TT_FIELD(s, lr_factor)[i] = 1.0f;
    TT_FIELD(s, best_epoch)[i] = -1;
  }
  for (int64_t i = 0; i < s->count * s->epochs; i++)
    TT_FIELD(s, loss_train)[i] = TT_FIELD(s, loss_validation)[i] = NAN;
}

static tt_err allocate(tt_state *s)
{
#define X(name, type, length)                                                                      \
  TT_TRY(tt_alloc_value_bytes(&s->f_##name, s->count *(length), sizeof(type),                      \
                              #name " of the members"));
  TT_STATE_FIELDS(X)
#undef X
  return TT_OK;
}

/* A state without arrays. */
static tt_state empty_state(tt_slice which, tt_state_shape shape, tt_slice own)
{
  return (tt_state){.own_first = own.first,
                    .left_out = shape.params - own.count,
                    .first = which.first,
                    .count = which.count,
                    .params = shape.params,
                    .slots = shape.slots,
                    .epochs = shape.epochs,
                    .averages = shape.averages};
}

static tt_slice all_of(tt_state_shape shape) { return (tt_slice){0, shape.params}; }

int64_t tt_state_member_bytes(tt_state_shape shape)
{
  const tt_state s = empty_state((tt_slice){0, 0}, shape, all_of(shape));
  int64_t bytes = 0;
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field field = tt_state_get(&s, f);
    bytes += field.bytes * field.length;
  }
  return bytes;
}

int64_t tt_state_largest_field_bytes(tt_state_shape shape)
{
  const tt_state s = empty_state((tt_slice){0, 0}, shape, all_of(shape));
  int64_t most = 0;
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field field = tt_state_get(&s, f);
    if (field.bytes * field.length > most) most = field.bytes * field.length;
  }
  return most;
}

tt_err tt_state_create_segment(tt_slice which, tt_state_shape shape, tt_slice own, tt_state **out)
{
  tt_state *s = NULL;
  TT_TRY(TT_ALLOC(s, 1));
  *s = empty_state(which, shape, own);
  tt_err e = allocate(s);
  if (e) {
    tt_state_destroy(&s);
    return e;
  }
  set_initial_values(s);
  *out = s;
  return TT_OK;
}

tt_err tt_state_create(tt_slice which, tt_state_shape shape, tt_state **out)
{
  return tt_state_create_segment(which, shape, all_of(shape), out);
}

void tt_state_reset(tt_state *s)
{
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field field = tt_state_get(s, f);
    memset(field.data, 0, (size_t)(s->count * field.length * field.bytes));
  }
  set_initial_values(s);
}

int64_t tt_state_size(int64_t members, tt_state_shape shape, const tt_slice *own)
{
  tt_state *s = NULL;
  tt_mem_count_begin();
  (void)tt_state_create_segment((tt_slice){0, members}, shape, own ? *own : all_of(shape), &s);
  int64_t size = tt_mem_count_end();
  tt_state_destroy(&s);
  return size;
}

void tt_state_destroy(tt_state **s)
{
  if (!*s) return;
#define X(name, type, length) tt_free((*s)->f_##name);
  TT_STATE_FIELDS(X)
#undef X
  tt_free(*s);
}

tt_slice tt_state_own(const tt_state *s) { return (tt_slice){s->own_first, TT_OWN_PARAMS(s)}; }

int64_t tt_state_own_vectors(const tt_state *s, int field)
{
  switch (field) {
  case TT_STATE_FIELD_slots: return s->slots;
  case TT_STATE_FIELD_best_weights: return 1;
  case TT_STATE_FIELD_average: return s->averages;
  default: return 0;
  }
}

/* Of vectors [Q], the parameters that are in both segments. */
static void copy_vectors(const tt_state *src, const float *a, tt_state *dst, float *b,
                         int64_t vectors)
{
  tt_slice own = tt_state_own(src), into = tt_state_own(dst);
  tt_slice both = tt_slice_intersect(own, into.first, into.count); /* counts from into.first */
  for (int64_t k = 0; both.count > 0 && k < vectors; k++)
    memcpy(b + k * into.count + both.first, a + k * own.count + both.first + into.first - own.first,
           (size_t)both.count * sizeof *b);
}

void tt_state_copy_member(const tt_state *src, int64_t i, tt_state *dst, int64_t j)
{
  int same = src->own_first == dst->own_first && src->left_out == dst->left_out;
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field a = tt_state_get(src, f), b = tt_state_get(dst, f);
    const char *source = (const char *)a.data + i * a.length * a.bytes;
    char *target = (char *)b.data + j * b.length * b.bytes;
    int64_t vectors = tt_state_own_vectors(src, f);
    if (vectors && !same)
      copy_vectors(src, (const float *)(const void *)source, dst, (float *)(void *)target, vectors);
    else
      memcpy(target, source, (size_t)(b.length * b.bytes));
  }
}

uint64_t tt_state_hash(const tt_state *s, int64_t i)
{
  uint64_t hash = 0;
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field field = tt_state_get(s, f);
    size_t bytes = (size_t)(field.bytes * field.length);
    hash = XXH3_64bits_withSeed((const char *)field.data + (size_t)i * bytes, bytes, hash);
  }
  return hash;
}

const float *tt_state_prediction_weights(const tt_state *s, int64_t i)
{
  int best = TT_FIELD(s, best_epoch)[i] >= 0;
  int averaged = s->averages && TT_FIELD(s, averaged)[i] > 0;
  const float *last = averaged ? TT_FIELD(s, average) : TT_FIELD(s, weights);
  return (best ? TT_FIELD(s, best_weights) : last) + i * s->params;
}
