/* out_of_bag.c — see out_of_bag.h. */
#include "src/score/out_of_bag.h"

#include "core/base/mem.h"
#include "src/score/row_source.h"

struct tt_oob {
  tt_split_rows training;  /* first field: tt_split_rows_read_local reads it */
  const tt_cohort *cohort; /* whose members are marked */
  int64_t first;           /* row of its member 0 in `left`; below 0 if that is of another part */
  int64_t stride;          /* bytes per member */
  uint8_t *left; /* [G][stride] one bit per data row: 1 = the member did not train on it */
};

int tt_oob_has(void *oob, int64_t data_row, int64_t member)
{
  const tt_oob *b = oob;
  return b->left[member * b->stride + data_row / 8] >> data_row % 8 & 1;
}

/* Of the rows of the source. */
static int is_out_of_bag(void *src, int64_t row, int64_t member)
{
  return tt_oob_has(src, ((const tt_oob *)src)->training.row[row], member);
}

/* Store whether a member, by its number in its cohort, did not train on a row. */
static void set_out_of_bag(tt_oob *b, int64_t member, int64_t data_row, int left)
{
  uint8_t *byte = &b->left[(b->first + member) * b->stride + data_row / 8];
  *byte = (uint8_t)(left ? *byte | 1u << data_row % 8 : *byte & ~(1u << data_row % 8));
}

/* kfold: the validation fold of a row set is out of bag for its members. */
static tt_err mark_fold(tt_oob *b, int64_t row_set, int64_t member)
{
  int32_t *row = NULL;
  int64_t count = 0;
  if (b->cohort->resample != TT_RESAMPLE_kfold) return TT_OK;
  TT_TRY(tt_cohort_rows(b->cohort, b->training.d, row_set, TT_VALIDATION, &row, &count));
  for (int64_t i = 0; i < count; i++) set_out_of_bag(b, member, row[i], 1);
  tt_free(row);
  return TT_OK;
}

/* seen  [rows of the data set] scratch */
static tt_err mark_rows(tt_oob *b, int64_t member, int32_t attempt, int8_t *seen)
{
  const tt_member *m = &b->cohort->member[member];
  int64_t row_set = tt_member_row_set(b->cohort, m), count = 0;
  int32_t *row = NULL;
  TT_TRY(tt_cohort_rows(b->cohort, b->training.d, row_set, TT_TRAIN, &row, &count));
  tt_member_row_mask(b->cohort, m, attempt, count, seen);
  for (int64_t i = 0; i < count; i++) set_out_of_bag(b, member, row[i], !seen[i]);
  tt_free(row);
  return mark_fold(b, row_set, member);
}

static tt_err mark_members(const tt_oob_members *src, int64_t members, tt_oob *b)
{
  const tt_dataset *d = b->training.d;
  int8_t *seen = NULL;
  b->stride = (d->rows + 7) / 8;
  tt_err e = TT_ALLOC(b->left, members * b->stride);
  if (!e) e = TT_ALLOC(seen, d->rows);
  for (int64_t k = 0, at = 0; !e && k < src->count; k++) {
    const tt_slice m = src->part[k].members;
    b->cohort = src->part[k].cohort;
    b->first = at - m.first;
    for (int64_t i = m.first; !e && i < m.first + m.count; i++)
      e = mark_rows(b, i, src->attempt[b->first + i], seen);
    at += m.count;
  }
  tt_free(seen);
  return e;
}

tt_err tt_oob_create(const tt_oob_members *src, const tt_dataset *d, int64_t members, tt_oob **out)
{
  tt_oob *b = NULL;
  if (src->part->cohort->resample == TT_RESAMPLE_none) return TT_OK;
  TT_TRY(TT_ALLOC(b, 1));
  tt_err e = tt_split_rows_list(d, TT_TRAIN, &b->training);
  if (!e) e = mark_members(src, members, b);
  if (e) tt_oob_destroy(&b);
  *out = b;
  return e;
}

void tt_oob_destroy(tt_oob **b)
{
  if (!*b) return;
  tt_free_all(&(*b)->training.row, &(*b)->left);
  tt_free(*b);
}

tt_err tt_out_of_bag(tt_comm *c, tt_oob *b, const tt_model_shard *shard,
                     const tt_trained_ensemble *all, const tt_engine_ops *ops,
                     const tt_resources *use, tt_scores **out)
{
  *out = NULL;
  if (!b) return TT_OK;
  tt_row_source source = {.rows = b->training.count,
                          .read_local = tt_split_rows_read_local,
                          .from = b,
                          .uses_member_local = is_out_of_bag,
                          .read_variance_local = tt_split_rows_variance(&b->training)};
  return tt_score(c, all, shard, ops, use, &source, out, NULL);
}
