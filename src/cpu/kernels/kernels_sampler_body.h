/* kernels_sampler_body.h — row order of an epoch, rows of a batch; a fragment of kernels_body.h. */

/* The shuffle for many slots at once. Values outside [0, n) need another pass (cycle walking); they
 * are collected and processed together, so that the compiler vectorizes each pass. */
static void shuffle_all(const tt_shuffle *s, int32_t *restrict slot, int64_t count)
{
  enum { CHUNK = 1024 };
  uint32_t value[CHUNK];
  int32_t slot_of[CHUNK];
  for (int64_t first = 0; first < count; first += CHUNK) {
    int64_t n = count - first < CHUNK ? count - first : CHUNK, left = n;
    for (int64_t i = 0; i < n; i++) value[i] = (uint32_t)slot[first + i], slot_of[i] = (int32_t)i;
    while (left > 0) {
      for (int64_t i = 0; i < left; i++) value[i] = tt_shuffle_pass(s, value[i]);
      int64_t unfinished = 0;
      for (int64_t i = 0; i < left; i++) {
        slot[first + slot_of[i]] = (int32_t)value[i];
        slot_of[unfinished] = slot_of[i];
        value[unfinished] = value[i];
        unfinished += value[i] >= s->n;
      }
      left = unfinished;
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

static void gather(int64_t columns, int64_t width, const int32_t *pick, const float *table,
                   const int32_t *row, int64_t rows, int64_t n, float *x, int64_t ld)
{
  for (int64_t k = 0; k < columns; k++) {
    const float *src = table + (pick ? pick[k] : k);
    float *restrict dst = x + k * ld;
    for (int64_t r = 0; r < rows; r++) dst[r] = src[row[r] * width];
    for (int64_t r = rows; r < n; r++) dst[r] = 0.0f;
  }
}
