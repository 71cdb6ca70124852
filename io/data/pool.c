/* pool.c — see pool.h. Rows are counted from 0 over all files here; candidates are
 * first + row. */
#include "io/data/pool.h"

#include "core/base/directory.h"
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "io/data/data_internal.h"
#include "io/hdf5/guarded_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum {
  HASH_BLOCKS = 64,
  HASH_ROWS = 256,
  BLOCK_VALUES = 1 << 17,  /* values read in one call for single candidates: 1 MiB */
  MAX_GAP_VALUES = 1 << 15 /* between two candidates: reading these costs less than another call */
};

struct tt_pool {
  int64_t files;
  char **file;    /* [files] */
  int64_t *start; /* [files + 1] number of rows in the files before */
  char *inputs, *labels;
  tt_columns input, target;
  const tt_net_inputs *net;
  tt_table_format format;        /* its marks are those of the file that was opened last */
  tt_row_marks *marks;           /* [files] */
  int64_t first, width, targets; /* width = input.count, targets = target.count */
  uint8_t *excluded;             /* [(rows + 7) / 8] one bit per row, or NULL */
  uint64_t hash;
  int64_t open;         /* the file that `rows` reads */
  tt_data_reader *rows; /* or NULL */
  int64_t texts_open;
  tt_data_reader *texts; /* of file texts_open, for tt_pool_read_text_local; or NULL */
  double *block;         /* [BLOCK_VALUES] or one row if that is larger */
};

int64_t tt_pool_first(const tt_pool *p) { return p->first; }
int64_t tt_pool_rows(const tt_pool *p) { return p->start[p->files]; }
uint64_t tt_pool_hash(const tt_pool *p) { return p->hash; }

int tt_pool_is_excluded(const tt_pool *p, int64_t row)
{
  int64_t offset = row - p->first;
  return p->excluded && p->excluded[offset >> 3] >> (offset & 7) & 1;
}

/* Rows of inputs or labels that the block holds, at least 1. */
static int64_t rows_of_block(const tt_pool *p)
{
  int64_t widest = p->width > p->targets ? p->width : p->targets;
  return widest < BLOCK_VALUES ? BLOCK_VALUES / widest : 1;
}

/* One file at a time */

static tt_data_spec spec_of(tt_pool *p, int64_t i)
{
  p->format.marks = &p->marks[i];
  return (tt_data_spec){.file = p->file[i],
                        .inputs = p->inputs,
                        .targets = p->labels,
                        .others = p->input.id != NULL,
                        .other = (const char *const *)&p->input.id,
                        .like_input = &p->input,
                        .like_target = &p->target,
                        .format = &p->format,
                        .net = p->net};
}

/* Open file i and close the previous one. */
static tt_err open_file(tt_pool *p, int64_t i, int notice)
{
  if (p->rows && p->open == i) return TT_OK;
  tt_data_reader_close_local(&p->rows);
  const tt_data_spec spec = spec_of(p, i);
  TT_TRY(tt_data_reader_open_spec_local(&spec, &p->rows));
  p->open = i;
  return tt_data_reader_match_local(p->rows, &p->input, &p->target, "data.file", notice);
}

/* The same, and check that the file has as many rows as on rank 0 at the start. */
static tt_err reopen_file(tt_pool *p, int64_t i)
{
  int64_t known = p->start[i + 1] - p->start[i];
  TT_TRY(open_file(p, i, 0));
  if (tt_data_reader_shape(p->rows)->rows == known) return TT_OK;
  tt_err e = TT_FAIL(DATA,
                     "%s: dataset '%s' has %" PRId64 " rows on this rank, but had %" PRId64
                     " on rank 0 at the start: the file is changing, or is not the same on all "
                     "nodes",
                     p->file[i], p->inputs, tt_data_reader_shape(p->rows)->rows, known);
  tt_data_reader_close_local(&p->rows);
  return e;
}

/* The file that contains the row: start[i] <= row < start[i + 1]. */
static int64_t file_of_row(const tt_pool *p, int64_t row)
{
  int64_t next = row + 1;
  return tt_lower_bound(&next, p->start, p->files, sizeof next, tt_compare_i64) - 1;
}

/* Why a value is not valid; NULL: it is. */
static const char *fault_of(const tt_pool *p, int64_t column, int is_label, double value)
{
  if (is_label) return isinf(value) ? "a label must be finite, or NaN where unlabeled" : NULL;
  if (!isfinite(value)) return "every input of a candidate must be a finite number";
  return p->net ? tt_data_input_fault(p->net, column, 0, value) : NULL;
}

static tt_err bad_value(const tt_pool *p, int64_t row, int64_t column, int is_label, double value)
{
  char place[TT_ERR_MESSAGE_SIZE / 2];
  tt_data_reader_place_local(p->rows, is_label, row, column, place, sizeof place);
  return TT_FAIL(DATA, "%s: %g; %s (rows and columns count from 0, in the order of data.file)",
                 place, value, fault_of(p, column, is_label, value));
}

/* value [count][columns] are the rows of the open file from `row` on. */
static tt_err check_values(const tt_pool *p, int64_t row, int64_t count, int is_label,
                           const double *value)
{
  int64_t columns = is_label ? p->targets : p->width;
  for (int64_t i = 0; i < count * columns; i++)
    if (fault_of(p, i % columns, is_label, value[i]))
      return bad_value(p, row + i / columns, i % columns, is_label, value[i]);
  return TT_OK;
}

/* Inputs or labels of rows [at, at + count), out [count][columns]. */
static tt_err read_rows(tt_pool *p, int64_t offset, int64_t count, int is_label, double *out)
{
  while (count > 0) {
    int64_t i = file_of_row(p, offset), from = offset - p->start[i];
    int64_t n = p->start[i + 1] - offset < count ? p->start[i + 1] - offset : count;
    TT_TRY(reopen_file(p, i));
    TT_TRY(
        tt_data_reader_read_local(p->rows, from, n, is_label ? NULL : out, is_label ? out : NULL));
    TT_TRY(check_values(p, from, n, is_label, out));
    out += n * (is_label ? p->targets : p->width);
    offset += n;
    count -= n;
  }
  return TT_OK;
}

static int has_excluded(const tt_pool_options *options)
{
  return options->exclude && *options->exclude;
}

static tt_err copy_options(const tt_pool_options *options, tt_pool *p)
{
  TT_TRY(TT_ALLOC(p->file, options->files));
  p->files = options->files;
  p->first = options->first;
  p->net = options->net;
  if (options->format) p->format = *options->format;
  TT_TRY(TT_ALLOC(p->marks, options->files));
  TT_TRY(tt_columns_copy(options->input, &p->input));
  if (options->target) TT_TRY(tt_columns_copy(options->target, &p->target));
  p->width = p->input.count;
  p->targets = p->target.count;
  for (int64_t i = 0; i < p->files; i++) TT_TRY(tt_text_set(&p->file[i], options->file[i]));
  TT_TRY(TT_ALLOC(p->start, p->files + 1));
  TT_TRY(tt_text_set(&p->inputs, options->inputs));
  if (options->labels && *options->labels) TT_TRY(tt_text_set(&p->labels, options->labels));
  int64_t row = p->width > p->targets ? p->width : p->targets;
  return TT_ALLOC(p->block, row > BLOCK_VALUES ? row : BLOCK_VALUES);
}

/* Rank 0: the shapes of all files.
 *   notice  1: say how the columns of the first file are used, in the first round */
static tt_err read_shapes_local(const tt_pool_options *options, int notice, tt_pool *p)
{
  const char *labels = options->labels ? tt_optional_default(options->labels) : NULL;
  const char *id = options->input->id;
  char marked[TT_PATH_MAX];
  const char *const dataset[] = {tt_optional_default(options->inputs), labels, options->exclude,
                                 id ? marked : NULL};
  snprintf(marked, sizeof marked, "%%%s", id ? id : ""); /* it may be missing, or texts */
  for (int64_t i = 0; i < p->files; i++) {
    if (!options->checked) TT_TRY(tt_guarded_check_local(p->file[i], dataset, 4));
    TT_TRY(open_file(p, i, notice && i == 0 && p->first == 0));
    p->start[i + 1] = p->start[i] + tt_data_reader_shape(p->rows)->rows;
    TT_TRY(tt_row_marks_copy(tt_data_reader_marks(p->rows), &p->marks[i]));
  }
  return TT_OK;
}

/* Blocks of rows, spread evenly; in a small pool the blocks overlap. */
static tt_err hash_blocks(tt_pool *p, XXH3_state_t *state)
{
  int64_t rows = tt_pool_rows(p), most = rows_of_block(p);
  if (most > HASH_ROWS) most = HASH_ROWS;
  for (int64_t b = 0; b < HASH_BLOCKS; b++) {
    int64_t offset = (int64_t)((double)rows / HASH_BLOCKS * (double)b);
    int64_t n = rows - offset < most ? rows - offset : most;
    TT_TRY(read_rows(p, offset, n, 0, p->block));
    XXH3_64bits_update(state, p->block, (size_t)(n * p->width) * sizeof(double));
    if (!p->labels) continue;
    TT_TRY(read_rows(p, offset, n, 1, p->block));
    XXH3_64bits_update(state, p->block, (size_t)(n * p->targets) * sizeof(double));
  }
  return TT_OK;
}

static tt_err hash_local(tt_pool *p)
{
  const int64_t shape[] = {tt_pool_rows(p), p->width, p->labels ? p->targets : 0, p->first};
  XXH3_state_t *state = XXH3_createState();
  if (!state) return TT_FAIL(MEM, "%s: no memory to hash it", p->file[0]);
  XXH3_64bits_reset(state);
  XXH3_64bits_update(state, shape, sizeof shape);
  if (p->excluded) XXH3_64bits_update(state, p->excluded, (size_t)((tt_pool_rows(p) + 7) / 8));
  tt_err e = hash_blocks(p, state);
  p->hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return e;
}

/* Rank 0: the excluded rows, and the hash of the pool. */
static tt_err read_excluded_and_hash_local(const tt_pool_options *options, tt_pool *p)
{
  TT_TRY(open_file(p, 0, 0));
  if (p->excluded)
    TT_TRY(tt_data_read_row_mask_local(tt_data_reader_file_local(p->rows), "pool.exclude",
                                       options->exclude, tt_pool_rows(p), p->excluded));
  return hash_local(p);
}

static tt_err open_all(tt_comm *c, const tt_pool_options *options, tt_pool *p)
{
  int root = tt_comm_is_root(c);
  tt_err e = tt_agree(c, copy_options(options, p));
  if (!e) e = tt_agree(c, root ? read_shapes_local(options, 1, p) : TT_OK);
  if (e) return e;
  tt_bcast(c, p->start, (p->files + 1) * (int64_t)sizeof *p->start);
  int64_t bytes = has_excluded(options) ? (tt_pool_rows(p) + 7) / 8 : 0;
  for (int64_t i = 0; !e && i < p->files; i++) e = tt_data_share_marks(c, &p->marks[i]);
  if (!e) e = tt_agree(c, has_excluded(options) ? TT_ALLOC(p->excluded, bytes) : TT_OK);
  if (!e) e = tt_agree(c, root ? read_excluded_and_hash_local(options, p) : TT_OK);
  if (e) return e;
  tt_bcast(c, &p->hash, sizeof p->hash);
  if (has_excluded(options)) tt_bcast(c, p->excluded, bytes);
  return tt_agree(c, reopen_file(p, 0));
}

tt_err tt_pool_open(tt_comm *c, const tt_pool_options *options, tt_pool **out)
{
  tt_pool *p = NULL;
  tt_err e = options->files < 1 || options->input->count < 1 ||
                     (options->files > 1 && has_excluded(options))
                 ? TT_FAIL(INTERNAL, "a pool of %" PRId64 " files, %" PRId64 " inputs",
                           options->files, options->input->count)
                 : TT_OK;
  if (!e) e = TT_ALLOC(p, 1);
  e = tt_agree(c, e);
  if (!e) e = open_all(c, options, p);
  if (e) tt_pool_close_local(&p);
  *out = p;
  return e;
}

void tt_pool_close_local(tt_pool **pool)
{
  tt_pool *p = *pool;
  if (!p) return;
  tt_data_reader_close_local(&p->rows);
  tt_data_reader_close_local(&p->texts);
  for (int64_t i = 0; i < p->files; i++) tt_free(p->file[i]);
  for (int64_t i = 0; p->marks && i < p->files; i++) tt_free(p->marks[i].mark);
  tt_columns_free(&p->input);
  tt_columns_free(&p->target);
  tt_free_all(&p->file, &p->start, &p->inputs, &p->labels, &p->marks, &p->excluded, &p->block,
              pool);
}

static tt_err check_all_values(tt_pool *p)
{
  int64_t rows = tt_pool_rows(p), most = rows_of_block(p);
  for (int64_t offset = 0; offset < rows; offset += most) {
    int64_t n = rows - offset < most ? rows - offset : most;
    TT_TRY(read_rows(p, offset, n, 0, p->block));
    if (p->labels) TT_TRY(read_rows(p, offset, n, 1, p->block));
  }
  return TT_OK;
}

tt_err tt_pool_check_local(const tt_pool_options *options)
{
  tt_pool *p = NULL;
  tt_pool_options full_check = *options;
  full_check.checked = 0;
  full_check.exclude = NULL;
  TT_TRY(TT_ALLOC(p, 1));
  tt_err e = copy_options(&full_check, p);
  if (!e) e = read_shapes_local(&full_check, 0, p);
  if (!e) e = check_all_values(p);
  tt_pool_close_local(&p);
  return e;
}

static tt_err check_range(const tt_pool *p, int64_t row, int64_t count)
{
  int64_t rows = tt_pool_rows(p), at = row - p->first;
  if (at >= 0 && count >= 0 && at <= rows - count) return TT_OK;
  return TT_FAIL(DATA,
                 "%s: candidates %" PRId64 " to %" PRId64 " are needed, but the pool has %" PRId64
                 " to %" PRId64 "; it is not the pool they were selected from",
                 p->file[0], row, row + count - 1, p->first, p->first + rows - 1);
}

tt_err tt_pool_read_local(tt_pool *p, int64_t row, int64_t count, double *x)
{
  TT_TRY(check_range(p, row, count));
  return read_rows(p, row - p->first, count, 0, x);
}

/* Number of candidates from row[0] on, all in the open file, to read in one call: at most
 * MAX_GAP_VALUES between neighbors, at most one block in total. */
static int64_t count_near_rows(const tt_place *row, int64_t count, int64_t columns)
{
  int64_t most = columns < BLOCK_VALUES ? BLOCK_VALUES / columns : 1,
          near = MAX_GAP_VALUES / columns;
  int64_t n = 1;
  while (n < count && row[n].number - row[n - 1].number <= near + 1 &&
         row[n].number - row[0].number < most)
    n++;
  return n;
}

/* Inputs or labels of candidates that are all in the open file, ascending. */
static tt_err read_rows_of_open_file(tt_pool *p, const tt_place *row, int64_t count, int is_label,
                                     double *out)
{
  int64_t columns = is_label ? p->targets : p->width;
  int64_t before = p->first + p->start[p->open];
  for (int64_t i = 0, n; i < count; i += n) {
    n = count_near_rows(row + i, count - i, columns);
    int64_t begin = row[i].number - before, size = row[i + n - 1].number - row[i].number + 1;
    TT_TRY(tt_data_reader_read_local(p->rows, begin, size, is_label ? NULL : p->block,
                                     is_label ? p->block : NULL));
    for (int64_t j = i; j < i + n; j++) {
      const double *one = p->block + (row[j].number - row[i].number) * columns;
      TT_TRY(check_values(p, row[j].number - before, 1, is_label, one));
      memcpy(out + row[j].index * columns, one, (size_t)columns * sizeof *out);
    }
  }
  return TT_OK;
}

/* Candidates in ascending order. */
static tt_err read_places(tt_pool *p, const tt_place *row, int64_t count, double *x, double *y)
{
  TT_TRY(check_range(p, row[0].number, 1));
  TT_TRY(check_range(p, row[count - 1].number, 1));
  for (int64_t i = 0, n; i < count; i += n) {
    int64_t file = file_of_row(p, row[i].number - p->first), end = p->first + p->start[file + 1];
    for (n = 1; i + n < count && row[i + n].number < end; n++) continue;
    TT_TRY(reopen_file(p, file));
    if (x) TT_TRY(read_rows_of_open_file(p, row + i, n, 0, x));
    if (y && p->labels) TT_TRY(read_rows_of_open_file(p, row + i, n, 1, y));
  }
  for (int64_t i = 0; y && !p->labels && i < count * p->targets; i++) y[i] = NAN;
  return TT_OK;
}

tt_err tt_pool_read_rows_local(tt_pool *p, const int64_t *row, int64_t count, double *x, double *y)
{
  tt_place *sorted = NULL;
  if (count < 1) return TT_OK;
  TT_TRY(tt_places_sort(row, count, &sorted));
  tt_err e = read_places(p, sorted, count, x, y);
  tt_free(sorted);
  return e;
}

/* Texts that are no level */

static tt_err open_texts(tt_pool *p, int64_t i)
{
  if (p->texts && p->texts_open == i) return TT_OK;
  tt_data_reader_close_local(&p->texts);
  tt_data_spec spec = spec_of(p, i);
  spec.targets = NULL;
  spec.keeps_texts = 1;
  TT_TRY(tt_data_reader_open_spec_local(&spec, &p->texts));
  p->texts_open = i;
  return tt_data_reader_match_local(p->texts, &p->input, NULL, "data.file", 0);
}

/* The ids of those candidates that are in file i, to their places in text[count]. */
static tt_err read_ids_of_file(tt_pool *p, int64_t i, const int64_t *row, int64_t count,
                               char **text)
{
  int64_t *src = NULL, *dst = NULL, n = 0;
  char **found = NULL;
  tt_err e = TT_ALLOC(src, count);
  if (!e) e = TT_ALLOC(dst, count);
  if (!e) e = TT_ALLOC(found, count);
  for (int64_t k = 0; !e && k < count; k++)
    if (file_of_row(p, row[k] - p->first) == i)
      dst[n] = k, src[n++] = row[k] - p->first - p->start[i];
  const tt_table_format *format = spec_of(p, i).format;
  if (!e && n) e = tt_data_read_some_ids_local(p->file[i], format, p->input.id, n, src, found);
  for (int64_t k = 0; k < n; k++) text[dst[k]] = found[k];
  tt_free_all(&src, &dst, &found);
  return e;
}

tt_err tt_pool_read_ids_local(tt_pool *p, const int64_t *row, int64_t count, tt_row_ids *out)
{
  int there = p->input.id != NULL;
  *out = (tt_row_ids){0};
  for (int64_t i = 0; there && i < p->files; i++) {
    TT_TRY(open_file(p, i, 0));
    TT_TRY(tt_data_reader_has_column_local(p->rows, p->input.id, &there));
  }
  if (!there || !count) return TT_OK;
  out->rows = count;
  tt_err e = TT_ALLOC(out->text, count);
  for (int64_t i = 0; !e && i < p->files; i++) e = read_ids_of_file(p, i, row, count, out->text);
  if (!e) e = tt_row_ids_simplify(out);
  if (e) tt_row_ids_free(out);
  return e;
}

tt_err tt_pool_read_text_local(tt_pool *p, int64_t row, int64_t column, const char **text)
{
  TT_TRY(check_range(p, row, 1));
  int64_t i = file_of_row(p, row - p->first);
  TT_TRY(open_texts(p, i));
  TT_TRY(tt_data_reader_read_local(p->texts, row - p->first - p->start[i], 1, p->block, NULL));
  *text = tt_data_reader_text_local(p->texts, column, p->block[column]);
  if (*text) return TT_OK;
  return TT_FAIL(DATA,
                 "%s: the text of '%s' of candidate %" PRId64 " is not known: the column has "
                 "numbers, or more than %d texts",
                 p->file[i], p->input.name[column], row, TT_MAX_LEVELS);
}
