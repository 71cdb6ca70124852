/* kernels_sampler_body.h — row order of an epoch, rows of a batch; a fragment of kernels_body.h. */

/* tt_shuffle_pass for `count` values, a multiple of TT_LANES. Each round is computed for a block of
 * values before the next round: the operations on one value wait for each other, those on different
 * values do not. */
static void shuffle_pass(const tt_shuffle *s, uint32_t *restrict value, int64_t count)
{
  enum { BLOCK = 128 };
  uint32_t left[BLOCK], right[BLOCK];
  uint32_t left_mask = (1u << s->left_bits) - 1u, right_mask = (1u << s->right_bits) - 1u;
  for (; count > 0; count -= BLOCK, value += BLOCK) {
    int64_t n = count < BLOCK ? count : BLOCK;
    for (int64_t i = 0; i < n; i++) left[i] = value[i] >> s->right_bits;
    for (int64_t i = 0; i < n; i++) right[i] = value[i] & right_mask;
    for (int r = 0; r < TT_SHUFFLE_ROUNDS; r += 2) {
      uint32_t key = s->key[r], next = s->key[r + 1];
      for (int64_t i = 0; i < n; i++) left[i] ^= tt_shuffle_round(right[i], key, left_mask);
      for (int64_t i = 0; i < n; i++) right[i] ^= tt_shuffle_round(left[i], next, right_mask);
    }
    for (int64_t i = 0; i < n; i++) value[i] = (left[i] << s->right_bits) | right[i];
  }
}

/* Move the values >= limit, which need another pass, and the numbers of their slots to the front of
 * the arrays. Returns how many they are. Both arrays have TT_LANES more elements than `count`. */
static int64_t collect(uint32_t limit, int64_t count, uint32_t *value, int32_t *slot_of)
{
  int64_t kept = 0;
#if WIDTH == 16
  const __m512i least = _mm512_set1_epi32((int)limit);
  for (int64_t i = 0; i < count; i += TT_LANES) {
    unsigned inside = count - i < TT_LANES ? (1u << (count - i)) - 1u : 0xFFFFu;
    __m512i v = _mm512_loadu_si512(value + i), s = _mm512_loadu_si512(slot_of + i);
    __mmask16 again = _mm512_mask_cmpge_epu32_mask((__mmask16)inside, v, least);
    _mm512_storeu_si512(value + kept, _mm512_maskz_compress_epi32(again, v));
    _mm512_storeu_si512(slot_of + kept, _mm512_maskz_compress_epi32(again, s));
    kept += __builtin_popcount(again);
  }
#else
  for (int64_t i = 0; i < count; i++) {
    slot_of[kept] = slot_of[i];
    value[kept] = value[i];
    kept += value[i] >= limit;
  }
#endif
  return kept;
}

/* The shuffle for many slots at once. Values outside [0, n) need another pass (cycle walking); they
 * are collected and processed together, so that the compiler vectorizes each pass. */
static void shuffle_all(const tt_shuffle *s, int32_t *restrict slot, int64_t count)
{
  enum { CHUNK = 1024 };
  uint32_t value[CHUNK + TT_LANES] = {0};
  int32_t slot_of[CHUNK + TT_LANES];
  for (int64_t first = 0; first < count; first += CHUNK, slot += CHUNK) {
    int64_t n = count - first < CHUNK ? count - first : CHUNK;
    for (int64_t i = 0; i < n; i++) value[i] = (uint32_t)slot[i];
    for (int64_t i = 0; i < n + TT_LANES; i++) slot_of[i] = (int32_t)i;
    shuffle_pass(s, value, tt_lanes_up(n));
    for (int64_t i = 0; i < n; i++) slot[i] = (int32_t)value[i];
    for (int64_t left = n; (left = collect(s->n, left, value, slot_of)) > 0;) {
      shuffle_pass(s, value, tt_lanes_up(left));
      for (int64_t i = 0; i < left; i++) slot[slot_of[i]] = (int32_t)value[i];
    }
  }
}

static void order(const tt_sampler *o, const int32_t *list, int64_t first, int64_t count,
                  int32_t *row)
{
  for (int64_t i = 0; i < count; i++) row[i] = (int32_t)(first + i);
  shuffle_all(&o->epoch, row, count);
  if (o->resample == TT_RESAMPLE_subsample) shuffle_all(&o->subset, row, count);
  if (o->resample == TT_RESAMPLE_bootstrap)
    for (int64_t i = 0; i < count; i++) {
      tt_random4 r = tt_random(o->seed, o->stream, TT_PURPOSE_RESAMPLE, 0, (uint32_t)row[i]);
      row[i] = (int32_t)tt_uniform_below(r.v[0], r.v[1], o->labeled);
    }
  for (int64_t i = 0; i < count; i++) row[i] = list[row[i]];
}

#ifndef NARROW
/* Gather whole groups of 16 rows, four columns at a time; returns the number of rows gathered. If
 * the number of columns is not a multiple of 4, the last four overlap the four before them. */
static int64_t gather_16_rows(int64_t columns, int64_t width, const float *table,
                              const int32_t *row, int64_t rows, float *x, int64_t ld)
{
  int64_t r = 0;
  for (; columns >= 4 && r + TT_LANES <= rows; r += TT_LANES)
    for (int64_t k = 0; k < columns; k += 4) {
      int64_t column = k + 4 <= columns ? k : columns - 4;
      gather_4_columns(table + column, width, row + r, x + column * ld + r, ld);
    }
  return r;
}
#endif

static void gather(int64_t columns, int64_t width, const int32_t *pick, const float *table,
                   const int32_t *row, int64_t rows, int64_t n, float *x, int64_t ld)
{
  int64_t done = 0;
#ifndef NARROW
  if (!pick) done = gather_16_rows(columns, width, table, row, rows, x, ld);
#endif
  for (int64_t k = 0; k < columns; k++) {
    const float *src = table + (pick ? pick[k] : k);
    float *restrict dst = x + k * ld;
    for (int64_t r = done; r < rows; r++) dst[r] = src[row[r] * width];
    for (int64_t r = rows; r < n; r++) dst[r] = 0.0f;
  }
}
