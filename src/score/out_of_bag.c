/* out_of_bag.c — see out_of_bag.h. */
#include "src/score/out_of_bag.h"

#include "core/base/mem.h"
#include "src/score/row_source.h"

typedef struct oob_mask {
  tt_split_rows training;  /* first field: tt_split_rows_read_local reads it */
  const tt_cohort *cohort; /* whose members are marked */
  int64_t first;           /* row of its member 0 in `left`; below 0 if that is of another part */
  int64_t *number;         /* [N] number of a data row in training.row */
  int64_t stride;          /* bytes per member */
  uint8_t *left; /* [G][stride] one bit per training row: 1 = the member did not train on it */
} oob_mask;

static int is_out_of_bag(void *src, int64_t row, int64_t member)
{
  const oob_mask *b = src;
  return b->left[member * b->stride + row / 8] >> row % 8 & 1;
}

/*   member  of the cohort */
static void set_out_of_bag(oob_mask *b, int64_t member, int64_t data_row, int left)
{
  int64_t row = b->number[data_row];
  uint8_t *byte = &b->left[(b->first + member) * b->stride + row / 8];
  *byte = (uint8_t)(left ? *byte | 1u << row % 8 : *byte & ~(1u << row % 8));
}

static tt_err list_rows(const tt_dataset *d, int64_t members, oob_mask *b)
{
  TT_TRY(tt_split_rows_list(d, TT_TRAIN, &b->training));
  TT_TRY(TT_ALLOC(b->number, d->rows));
  for (int64_t i = 0; i < b->training.count; i++) b->number[b->training.row[i]] = i;
  b->stride = (b->training.count + 7) / 8;
  return TT_ALLOC(b->left, members * b->stride);
}

/* kfold: the validation fold of a row set is out of bag for its members. */
static tt_err mark_fold(oob_mask *b, int64_t row_set, int64_t member)
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
static tt_err mark_rows(oob_mask *b, int64_t member, int32_t attempt, int8_t *seen)
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

static tt_err mark_members_local(const tt_oob_members *src, const tt_dataset *d, int64_t members,
                                 oob_mask *b)
{
  int8_t *seen = NULL;
  tt_err e = list_rows(d, members, b);
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

tt_err tt_out_of_bag(tt_comm *c, const tt_oob_members *src, const tt_dataset *d,
                     const tt_trained_ensemble *all, const tt_engine_ops *ops,
                     const tt_resources *use, tt_scores **out)
{
  oob_mask b = {0};
  *out = NULL;
  if (src->part->cohort->resample == TT_RESAMPLE_none) return TT_OK;
  tt_err e = tt_agree(c, mark_members_local(src, d, all->members, &b));
  tt_row_source source = {.rows = b.training.count,
                          .read_local = tt_split_rows_read_local,
                          .from = &b,
                          .uses_member_local = is_out_of_bag};
  if (!e) source.read_variance_local = tt_split_rows_variance(&b.training);
  if (!e) e = tt_score(c, all, src->shard, ops, use, &source, out, NULL);
  tt_free_all(&b.training.row, &b.number, &b.left);
  return e;
}
