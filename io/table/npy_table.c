/* npy_table.c — arrays of NumPy as tables: a .npy file has one array, a .npz file several; see
 * table.h. An array of one axis is a column with its name, one of two axes has columns NAME0,
 * NAME1, ... */
#include "io/table/npy.h"
#include "io/table/zip.h"

#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SLAB_BYTES = 1 << 20, SLAB_ROWS = 4096, MAX_COLUMNS = 1 << 20, NAME_SIZE = 256 };

typedef struct npy_member {
  tt_npy_array info;
  tt_zip_member *member;
  char name[NAME_SIZE];
  int64_t first_column; /* of the table */
  char *slab;           /* the last rows that were read: [slab_rows][columns] */
  int64_t slab_first, slab_rows;
} npy_member;

typedef struct npy_table {
  tt_zip zip; /* of a .npy file: one member, the file itself */
  int64_t arrays;
  npy_member *array;  /* [arrays] */
  npy_member **owner; /* [columns] */
} npy_table;

static void npy_close(void *own)
{
  npy_table *p = own;
  for (int64_t i = 0; p->array && i < p->arrays; i++) tt_free(p->array[i].slab);
  tt_free_all(&p->array, &p->owner);
  tt_zip_close_local(&p->zip);
  tt_free(p);
}

static tt_err wrong_type(const tt_table *t, const npy_member *a)
{
  return TT_FAIL(DATA,
                 "%s: array '%s' has the type %s; float32, float64 and integers in the byte order "
                 "of this computer can be read",
                 t->file, a->name, a->info.type);
}

static tt_err npy_use(tt_table *t, int64_t column, tt_cell_kind kind)
{
  const npy_table *p = t->own;
  const npy_member *a = p->owner[column];
  (void)kind;
  if (a->info.text && a->info.columns == 1 && a->info.rows >= 0 && t->levels && t->levels[column])
    return TT_OK;
  if (a->info.rows < 0)
    return TT_FAIL(DATA, "%s: array '%s' must have one or two axes", t->file, a->name);
  if (!a->info.kind) return wrong_type(t, a);
  if (a->info.fortran && a->info.columns > 1 && a->member->deflated)
    return TT_FAIL(DATA,
                   "%s: array '%s' is compressed and in Fortran order; save "
                   "numpy.ascontiguousarray of it",
                   t->file, a->name);
  return TT_OK;
}

/* Rows [first, first + count) of one column in Fortran order. */
static tt_err read_column(npy_table *p, npy_member *a, int64_t k, int64_t first, int64_t count,
                          double *dst, int64_t step)
{
  int64_t bytes = a->info.bytes, offset = a->info.data + (k * a->info.rows + first) * bytes;
  TT_TRY(tt_zip_read_local(&p->zip, a->member, offset, count * bytes, a->slab));
  tt_npy_convert(&a->info, a->slab, (size_t)bytes, count, dst, step);
  a->slab_rows = 0;
  return TT_OK;
}

/* The same rows of all columns in C order, in the slab. */
static tt_err read_slab(npy_table *p, npy_member *a, int64_t first, int64_t count)
{
  int64_t row = a->info.columns * a->info.bytes;
  if (a->slab_rows && first >= a->slab_first && first + count <= a->slab_first + a->slab_rows)
    return TT_OK;
  a->slab_rows = 0;
  TT_TRY(tt_zip_read_local(&p->zip, a->member, a->info.data + first * row, count * row, a->slab));
  a->slab_first = first;
  a->slab_rows = count;
  return TT_OK;
}

/* Numbers of `count` texts at `src`, which are rows `first` and later. */
static tt_err convert_texts(const tt_table *t, const npy_member *a, int64_t column, const char *src,
                            int64_t first, int64_t count, double *dst, int64_t step)
{
  char text[TT_NPY_TEXT], place[NAME_SIZE + TT_NPY_TEXT];
  for (int64_t i = 0; i < count; i++) {
    snprintf(place, sizeof place, "%.600s: array '%s', row %" PRId64 " (from 0)", t->file, a->name,
             first + i);
    if (!tt_npy_decode_text(&a->info, src + i * a->info.bytes, text))
      return TT_FAIL(DATA, "%s: this is no text in Unicode", place);
    TT_TRY(tt_levels_encode(t->levels[column], place, text, &dst[i * step]));
  }
  return TT_OK;
}

/* The columns of one array among the n wanted ones, at most rows_at_once rows. */
static tt_err read_array(const tt_table *t, npy_member *a, int64_t first, int64_t count, int64_t n,
                         const int64_t *column, double *value)
{
  npy_table *p = t->own;
  size_t bytes = (size_t)a->info.bytes, row = bytes * (size_t)a->info.columns;
  int by_column = a->info.fortran && a->info.columns > 1;
  if (!by_column) TT_TRY(read_slab(p, a, first, count));
  for (int64_t i = 0; i < n; i++) {
    int64_t k = column[i] - a->first_column;
    if (p->owner[column[i]] != a) continue;
    if (by_column) {
      TT_TRY(read_column(p, a, k, first, count, value + i, n));
      continue;
    }
    const char *src = a->slab + (size_t)(first - a->slab_first) * row + (size_t)k * bytes;
    if (a->info.text)
      TT_TRY(convert_texts(t, a, column[i], src, first, count, value + i, n));
    else
      tt_npy_convert(&a->info, src, row, count, value + i, n);
  }
  return TT_OK;
}

static tt_err create_slab(const tt_table *t, npy_member *a)
{
  if (a->slab) return TT_OK;
  return tt_alloc_bytes(&a->slab, t->rows_at_once * a->info.columns, (size_t)a->info.bytes,
                        "rows of an array");
}

static tt_err npy_read(tt_table *t, int64_t first, int64_t count, int64_t n, const int64_t *column,
                       double *value)
{
  npy_table *p = t->own;
  for (int64_t done = 0, rows; done < count; done += rows) {
    rows = count - done < t->rows_at_once ? count - done : t->rows_at_once;
    for (int64_t i = 0; i < n; i++) {
      npy_member *a = p->owner[column[i]];
      if (i && a == p->owner[column[i - 1]]) continue;
      TT_TRY(create_slab(t, a));
      TT_TRY(read_array(t, a, first + done, rows, n, column, value + done * n));
    }
  }
  return TT_OK;
}

/* The header of one array, and how its size fits the file. */
static tt_err read_array_header(npy_table *p, npy_member *a)
{
  static const size_t most = TT_NPY_HEADER + 12;
  char *head = NULL;
  int64_t capacity = a->member->size < (int64_t)most ? a->member->size : (int64_t)most;
  TT_TRY(tt_alloc_bytes(&head, capacity + 1, 1, "the header of an array"));
  tt_err e = tt_zip_read_local(&p->zip, a->member, 0, capacity, head);
  if (!e) e = tt_npy_header_parse(p->zip.file, head, (size_t)capacity, &a->info);
  if (!e && (a->info.kind || a->info.text) && a->info.rows >= 0 &&
      a->info.size != a->member->size - a->info.data)
    e = TT_FAIL(DATA,
                "%s: array '%s' has %" PRId64 " bytes of values, but its header says %" PRId64
                ": the file is truncated or damaged",
                p->zip.file, a->name, a->member->size - a->info.data, a->info.size);
  tt_free(head);
  return e;
}

static int64_t columns_of(const npy_member *a)
{
  return a->info.kind && a->info.rows >= 0 ? a->info.columns : 1;
}

static tt_err name_columns(tt_table *t, npy_member *a, int is_single)
{
  npy_table *p = t->own;
  int made_up = is_single || (columns_of(a) > 1);
  for (int64_t i = 0; i < columns_of(a); i++) {
    char name[NAME_SIZE + 24];
    int64_t k = a->first_column + i;
    snprintf(name, sizeof name, "%s%" PRId64, is_single ? "c" : a->name, i);
    TT_TRY(tt_text_set_name(&t->name[k], made_up ? name : a->name));
    t->group[k] = made_up ? (is_single ? "" : a->name) : NULL;
    t->rows[k] = a->info.rows;
    p->owner[k] = a;
    t->hidden[k] = !a->info.kind || a->info.rows < 0;
  }
  return TT_OK;
}

static tt_err describe_columns(tt_table *t, int is_single)
{
  npy_table *p = t->own;
  int64_t columns = 0, rows = SLAB_ROWS;
  for (int64_t i = 0; i < p->arrays; i++) {
    npy_member *a = &p->array[i];
    TT_TRY(read_array_header(p, a));
    a->first_column = columns;
    if (columns_of(a) > MAX_COLUMNS - columns)
      return TT_FAIL(DATA, "%s: more than %d columns", t->file, MAX_COLUMNS);
    columns += columns_of(a);
    int64_t fit = SLAB_BYTES / (columns_of(a) * 8 + 1);
    rows = fit < rows ? fit : rows;
  }
  if (columns < 1) return TT_FAIL(DATA, "%s: there is no column", t->file);
  t->rows_at_once = rows < 1 ? 1 : rows;
  TT_TRY(TT_ALLOC(t->name, columns));
  t->columns = columns;
  TT_TRY(TT_ALLOC(t->group, columns));
  TT_TRY(TT_ALLOC(t->rows, columns));
  TT_TRY(TT_ALLOC(t->hidden, columns));
  TT_TRY(TT_ALLOC(p->owner, columns));
  for (int64_t i = 0; i < p->arrays; i++) TT_TRY(name_columns(t, &p->array[i], is_single));
  return TT_OK;
}

static tt_err create(tt_table *t, npy_table **out)
{
  npy_table *p = NULL;
  TT_TRY(TT_ALLOC(p, 1));
  t->own = *out = p;
  t->use = npy_use;
  t->read = npy_read;
  t->close = npy_close;
  return TT_OK;
}

tt_err tt_npy_table_open_local(tt_table *t)
{
  npy_table *p;
  TT_TRY(create(t, &p));
  p->zip.file = t->file;
  TT_TRY(tt_bytes_open_local(t->file, &p->zip.bytes));
  TT_TRY(TT_ALLOC(p->zip.member, 1));
  p->zip.members = 1;
  TT_TRY(tt_bytes_size_local(p->zip.bytes, &p->zip.member[0].size));
  TT_TRY(TT_ALLOC(p->array, 1));
  p->arrays = 1;
  p->array[0].member = &p->zip.member[0];
  snprintf(p->array[0].name, NAME_SIZE, "c");
  TT_TRY(describe_columns(t, 1));
  return p->array[0].info.kind || p->array[0].info.text ? TT_OK : wrong_type(t, &p->array[0]);
}

tt_err tt_npz_table_open_local(tt_table *t)
{
  npy_table *p;
  TT_TRY(create(t, &p));
  TT_TRY(tt_zip_open_local(t->file, &p->zip));
  TT_TRY(TT_ALLOC(p->array, p->zip.members));
  for (int64_t i = 0; i < p->zip.members; i++) {
    tt_zip_member *m = &p->zip.member[i];
    size_t length = strlen(m->name);
    if (length < 5 || strcmp(m->name + length - 4, ".npy")) continue;
    npy_member *a = &p->array[p->arrays++];
    a->member = m;
    snprintf(a->name, NAME_SIZE, "%.*s", (int)(length - 4), m->name);
  }
  return describe_columns(t, 0);
}
