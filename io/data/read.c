/* read.c — the samples of a job, each read once and sent to all ranks; see data.h.
 *
 * Rows are distributed in blocks of a fixed size. Sums and hashes are computed per block, gathered,
 * and combined in the order of the blocks on every rank: the result does not depend on the number
 * of ranks. Arrays of "own" rows belong to this rank, [first, first + count). */
#include "io/data/data_internal.h"

#include "core/base/mem.h"
#include "core/model/partition.h"
#include "io/columns/by_column.h"
#include "io/columns/components.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { HASHES = 4 }; /* the last one only with data.sigma */

typedef tt_sample_array sample_array;
typedef tt_loader loader;

static const char *weights_path(const tt_config *cfg)
{
  return *cfg->data_weights ? cfg->data_weights : NULL;
}

static tt_err create_dataset_local(loader *l, int64_t rows, const tt_columns *input,
                                   const tt_columns *target)
{
  const tt_config *cfg = l->cfg;
  if (rows > INT32_MAX)
    return TT_FAIL(DATA, "%s: %" PRId64 " rows; at most %" PRId32 " can be trained on", l->file,
                   rows, INT32_MAX);
  TT_TRY(tt_dataset_create(rows, l->net.count, target->count, weights_path(cfg) != NULL, &l->d));
  TT_TRY(tt_dataset_set_columns(l->d, input, target, &l->net));
  TT_TRY(TT_ALLOC(l->d->selected, cfg->selections * rows));
  l->d->selections = cfg->selections;
  l->d->unit_ordered = cfg->data_split_order && *cfg->data_split_order;
  if (tt_data_has_sigma(cfg)) TT_TRY(TT_ALLOC(l->d->label_variance, rows * target->count));
  l->d->partial_labels = cfg->data_partial_labels == TT_PARTIAL_LABELS_use;
  TT_TRY(TT_ALLOC(l->label, target->count));
  TT_TRY(TT_ALLOC(l->missing, input->count));
  TT_TRY(TT_ALLOC(l->indicator, input->count));
  tt_scaler *s = &l->d->scaler;
  TT_TRY(tt_data_missing_local(cfg, l->file, input, s->net.categories, l->missing, l->indicator));
  const tt_by_column option = {"data.normalize", cfg->data_normalize, tt_choice_normalize,
                               cfg->data_normalize ? TT_BY_DEFAULT : TT_NORMALIZE_none};
  TT_TRY(tt_by_column_resolve(&option, l->file, input, target, s->x_normalize, s->y_normalize));
  return tt_data_label_rules_local(cfg, l->file, &l->d->target, s, l->label);
}

static tt_err create_local(loader *l, int64_t rows)
{
  const tt_data_shape *s = tt_data_reader_shape(l->rows);
  tt_source *file = tt_data_reader_file_local(l->rows);
  const char *weights = weights_path(l->cfg);
  if (weights)
    TT_TRY(tt_source_column_open_local(file, "weights", TT_CELL_NUMBER, weights, s->rows,
                                       &l->weights));
  TT_TRY(tt_data_open_sigma_local(l->cfg, file, s->rows, s->targets, &l->sigma_matrix));
  return create_dataset_local(l, rows, &s->input, &s->target);
}

/* While a file is written, nodes may read different shapes. */
static tt_err check_same_shape(tt_comm *c, const char *file, const tt_data_shape *s)
{
  const int64_t mine[] = {s->rows, s->inputs, s->targets};
  int64_t root[] = {s->rows, s->inputs, s->targets};
  tt_bcast(c, root, sizeof root);
  tt_err e = TT_OK;
  if (memcmp(mine, root, sizeof mine))
    e = TT_FAIL(DATA,
                "%s: %" PRId64 " x %" PRId64 " inputs and %" PRId64
                " targets on this rank, but %" PRId64 " x %" PRId64 " and %" PRId64
                " on rank 0: the file is changing, or is not the same on "
                "all nodes",
                file, mine[0], mine[1], mine[2], root[0], root[1], root[2]);
  return tt_agree(c, e);
}

/* Without data.categories the inputs of the networks follow from the names of the columns. */
static tt_err open_file(loader *l)
{
  tt_comm *c = l->comm;
  int levels = tt_data_has_categories(l->cfg);
  tt_err e = levels ? tt_data_find_levels(c, l->cfg, &l->parts, &l->marks, &l->net) : TT_OK;
  if (!e) e = tt_data_reader_open_job(c, l->cfg, levels ? &l->net : NULL, &l->marks, &l->rows);
  if (!e && !levels) e = tt_agree(c, tt_data_find_net_inputs_local(l->cfg, l->rows, NULL, &l->net));
  return e ? e : check_same_shape(c, l->file, tt_data_reader_shape(l->rows));
}

/*   inputs  columns of the normalized values */
static tt_err sample_array_create(sample_array *p, const char *path, int64_t rows, int64_t columns,
                                  int64_t inputs)
{
  p->path = path;
  p->columns = columns;
  p->inputs = inputs;
  TT_TRY(tt_alloc_bytes(&p->own, rows * columns, sizeof *p->own, path));
  return tt_alloc_bytes(&p->normalized, rows * inputs, sizeof *p->normalized, path);
}

static void sample_array_free(sample_array *p)
{
  tt_free(p->own);
  tt_free(p->normalized);
}

static tt_err allocate_local(loader *l)
{
  const tt_dataset *d = l->d;
  int64_t D = d->scaler.inputs, T = d->targets, sigmas = d->label_variance ? T : 0;
  int64_t weights = d->weight ? 1 : 0;
  TT_TRY(sample_array_create(&l->x, l->cfg->data_inputs, l->count, D, d->inputs));
  TT_TRY(sample_array_create(&l->y, l->cfg->data_targets, l->count, T, T));
  TT_TRY(sample_array_create(&l->sigma, l->cfg->data_sigma, l->count, sigmas, sigmas));
  return sample_array_create(&l->w, l->cfg->data_weights, l->count, weights, weights);
}

/* Choose this rank's rows and allocate their arrays. */
static tt_err allocate_own_local(loader *l)
{
  const tt_dataset *d = l->d;
  l->blocks = (d->rows + TT_FIT_BLOCK_ROWS - 1) / TT_FIT_BLOCK_ROWS;
  TT_TRY(tt_partition_even(l->blocks, tt_comm_ranks(l->comm), tt_comm_rank(l->comm), &l->block));
  int64_t first = l->block.first * TT_FIT_BLOCK_ROWS;
  int64_t end = first + l->block.count * TT_FIT_BLOCK_ROWS;
  l->first = first < d->rows ? first : d->rows; /* all rows: a rank without blocks has none */
  l->count = (end < d->rows ? end : d->rows) - l->first;
  return allocate_local(l);
}

static tt_err read_local(loader *l)
{
  TT_TRY(tt_data_reader_read_local(l->rows, l->first, l->count, l->x.own, l->y.own));
  if (l->d->weight)
    TT_TRY(tt_source_matrix_read_local(tt_data_reader_file_local(l->rows), &l->weights, l->first,
                                       l->count, l->w.own));
  return tt_data_read_sigma_local(tt_data_reader_file_local(l->rows), &l->sigma_matrix, l->first,
                                  l->count, l->y.columns, l->y.own, l->sigma.own);
}

/* A rank that finds a bad value names all those of the file. */
static tt_err read_own_local(loader *l)
{
  TT_TRY(allocate_own_local(l));
  TT_TRY(read_local(l));
  tt_err e = tt_loader_check_local(l);
  tt_err listed = e == TT_E_DATA ? tt_data_check_local(l->cfg, NULL) : TT_OK;
  return listed ? listed : e;
}

/* Copy this rank's rows from memory instead of reading them. */
static tt_err copy_rows_local(loader *l, const tt_raw_dataset *t)
{
  if (tt_data_has_sigma(l->cfg) && !t->sigma)
    return TT_FAIL(CONFIG, "data.sigma needs a file: arrays in memory have no error bars");
  TT_TRY(tt_net_inputs_copy(t->net, &l->net));
  TT_TRY(create_dataset_local(l, t->rows, t->input, t->target));
  memcpy(l->d->split, t->split, (size_t)t->rows);
  if (t->unit) TT_TRY(TT_ALLOC(l->d->unit, t->rows));
  if (t->unit) memcpy(l->d->unit, t->unit, (size_t)t->rows * sizeof *t->unit);
  TT_TRY(allocate_own_local(l));
  int64_t D = t->input->count, T = t->target->count;
  memcpy(l->x.own, t->x + l->first * D, (size_t)(l->count * D) * sizeof *t->x);
  memcpy(l->y.own, t->y + l->first * T, (size_t)(l->count * T) * sizeof *t->y);
  if (l->d->label_variance)
    memcpy(l->sigma.own, t->sigma + l->first * T, (size_t)(l->count * T) * sizeof *t->sigma);
  return tt_loader_check_local(l);
}

/* Means and scales */

static tt_fit_rows fit_rows(const loader *l, const sample_array *p, const tt_columns *names)
{
  return (tt_fit_rows){.file = l->file,
                       .dataset = p->path,
                       .names = names,
                       .columns = p->columns,
                       .blocks = l->blocks,
                       .block = l->block,
                       .first = l->first,
                       .count = l->count,
                       .own = p->own,
                       .split = l->d->split};
}

/* Collective. The mean weight of the training rows. */
static tt_err fit_weights(loader *l, double *mean)
{
  const int8_t standard = TT_NORMALIZE_standard;
  double lambda, scale;
  const tt_fit_rows rows = fit_rows(l, &l->w, NULL);
  const tt_fitted fitted = {&standard, &lambda, mean, &scale, 0, 0};
  TT_TRY(tt_fit_scales(l->comm, &rows, &fitted));
  if (*mean > 0) return TT_OK;
  return TT_FAIL(DATA, "%s: dataset '%s' (weights) is zero on all training rows", l->file,
                 l->w.path);
}

/* Collective. Weights are divided by their mean over the training rows, so that a learning rate has
 * the same effect with and without weights. */
static tt_err compute_scaler(loader *l, double *weight_mean)
{
  tt_scaler *s = &l->d->scaler;
  const tt_fitted x = tt_fitted_inputs(s), y = tt_fitted_targets(s);
  const tt_fit_rows inputs = fit_rows(l, &l->x, &l->d->input);
  const tt_fit_rows targets = fit_rows(l, &l->y, &l->d->target);
  tt_err e = TT_OK;
  if (tt_data_may_miss(l->cfg)) e = tt_fit_fills(l->comm, &inputs, l->missing, s->x_fill);
  if (e) return e;
  e = tt_fit_scales(l->comm, &inputs, &x);
  if (!e) e = tt_fit_scales(l->comm, &targets, &y);
  if (!e && l->d->weight) e = fit_weights(l, weight_mean);
  return tt_agree(l->comm, e);
}

/* Normalize and share */

static tt_err normalize_local(const loader *l, sample_array *p, const tt_fitted *f,
                              const tt_columns *names)
{
  for (int64_t i = 0; i < l->count * p->columns; i++) {
    int64_t k = i % p->columns;
    double t = tt_transform_apply(tt_fit_transform(f, k), f->lambda[k], p->own[i]);
    p->normalized[i] = (float)tt_normalize_value(t, f->mean[k], f->scale[k]);
    if (isinf(p->normalized[i]))
      return tt_loader_bad_value(l, p, names, i, "too large for single precision; use other units",
                                 NULL);
  }
  return TT_OK;
}

static tt_err normalize_inputs_local(const loader *l)
{
  const tt_net_inputs *net = &l->d->scaler.net;
  tt_scaler_normalize_inputs(&l->d->scaler, l->count, l->x.own, l->x.normalized);
  for (int64_t i = 0; i < l->count * net->count; i++)
    if (isinf(l->x.normalized[i]))
      return tt_loader_bad_value(l, &l->x, &l->d->input,
                                 i / net->count * net->columns + net->at[i % net->count].column,
                                 "too large for single precision; use other units", NULL);
  return TT_OK;
}

static tt_err normalize_all_local(loader *l, double weight_mean)
{
  const tt_scaler *s = &l->d->scaler;
  const int8_t none = TT_NORMALIZE_none;
  double zero = 0, one = 1;
  const tt_fitted y = tt_fitted_targets(s);
  TT_TRY(normalize_inputs_local(l));
  TT_TRY(normalize_local(l, &l->y, &y, &l->d->target));
  if (l->d->label_variance)
    tt_scaler_label_variance(s, l->count, l->y.own, l->sigma.own, l->sigma.normalized);
  return normalize_local(l, &l->w, &(tt_fitted){&none, &one, &zero, &weight_mean, 0, 0}, NULL);
}

static void gather_normalized(loader *l, const sample_array *p, float *all)
{
  tt_allgatherv(l->comm, p->normalized, l->count * p->inputs * (int64_t)sizeof *all, all, NULL);
}

static void gather_all(loader *l)
{
  gather_normalized(l, &l->x, l->d->x);
  gather_normalized(l, &l->y, l->d->y);
  if (l->d->weight) gather_normalized(l, &l->w, l->d->weight);
  if (l->d->label_variance) gather_normalized(l, &l->sigma, l->d->label_variance);
}

/* Collective. */
static tt_err gather_hash(loader *l)
{
  const sample_array *const parts[HASHES] = {&l->x, &l->y, &l->w, &l->sigma};
  tt_fit_rows part[HASHES];
  for (int k = 0; k < HASHES; k++) part[k] = fit_rows(l, parts[k], NULL);
  return tt_data_gather_hash(l->comm, part, l->d->label_variance ? HASHES : HASHES - 1, l->d);
}

/* Collective. Rank 0 finds the parts of the rows, and their ids. */
static tt_err find_parts(loader *l)
{
  const tt_fit_rows x = fit_rows(l, &l->x, NULL);
  tt_row_key *key = NULL;
  tt_err e = tt_data_gather_row_keys(l->comm, &x, l->d->rows, &key);
  if (!e && tt_comm_is_root(l->comm))
    e = tt_data_read_rows_local(l->rows, l->cfg, key, &l->parts, l->d);
  tt_free(key);
  e = tt_agree(l->comm, e);
  return e ? e : tt_data_add_ids(l->comm, l->cfg, tt_data_reader_marks(l->rows), l->d);
}

/* Collective. */
static tt_err share_parts(loader *l)
{
  tt_dataset *d = l->d;
  int64_t counts[] = {d->repeated_rows, d->seen_rows, d->unit != NULL};
  tt_bcast(l->comm, counts, sizeof counts);
  d->repeated_rows = counts[0];
  d->seen_rows = counts[1];
  tt_err e = tt_agree(l->comm, counts[2] && !d->unit ? TT_ALLOC(d->unit, d->rows) : TT_OK);
  if (e) return e;
  tt_bcast(l->comm, d->split, d->rows);
  if (d->unit) tt_bcast(l->comm, d->unit, d->rows * (int64_t)sizeof *d->unit);
  tt_bcast(l->comm, d->selected, d->selections * d->rows);
  if (tt_data_split_by(l->cfg) < TT_SPLIT_BY_fractions || d->repeated_rows)
    tt_data_log_split(l->file, d);
  return TT_OK;
}

/* Collective. Read everything except the scales. */
static tt_err load_raw(loader *l, const tt_data_hook *hook)
{
  tt_err e = tt_agree(l->comm, tt_comm_is_root(l->comm) ? tt_data_check_job_local(l->cfg) : TT_OK);
  if (!e) e = open_file(l);
  if (!e && hook) {
    tt_data_shape shape = *tt_data_reader_shape(l->rows);
    shape.net_inputs = l->net.count;
    e = hook->check(l->comm, &shape, hook->arg);
  }
  if (!e) e = tt_agree(l->comm, create_local(l, tt_data_reader_shape(l->rows)->rows));
  if (!e) e = tt_agree(l->comm, read_own_local(l));
  if (!e) e = find_parts(l);
  if (!e) e = share_parts(l);
  return e;
}

/* Collective. Compute the normalized values, on all ranks. */
static tt_err normalize(loader *l)
{
  double weight_mean = 1;
  tt_err e = compute_scaler(l, &weight_mean);
  if (!e) e = tt_agree(l->comm, normalize_all_local(l, weight_mean));
  if (!e) gather_all(l);
  if (!e && l->cfg->data_targets_pca)
    e = tt_fit_components(l->comm, l->file, l->cfg->data_targets_pca, l->d);
  if (!e) e = gather_hash(l);
  return e;
}

static void free_all(loader *l)
{
  tt_data_reader_close_local(&l->rows);
  tt_free_all(&l->label, &l->missing, &l->indicator, &l->marks.mark);
  tt_row_parts_free(&l->parts);
  tt_net_inputs_free(&l->net);
  sample_array_free(&l->x);
  sample_array_free(&l->y);
  sample_array_free(&l->w);
  sample_array_free(&l->sigma);
  tt_source_matrix_free(&l->weights);
  tt_source_matrix_free(&l->sigma_matrix);
}

tt_err tt_loader_finish(loader *l, tt_err e, tt_dataset **out)
{
  if (e)
    tt_dataset_destroy(&l->d);
  else
    *out = l->d;
  free_all(l);
  return e;
}

static void gather_raw(loader *l, const sample_array *p, double *all)
{
  tt_allgatherv(l->comm, p->own, l->count * p->columns * (int64_t)sizeof *all, all, NULL);
}

/* Collective. The values of all rows, and their hash.
 *   sigma  NULL: not needed */
static tt_err gather_values(loader *l, double **x, double **y, double **sigma)
{
  int errors = sigma && l->d->label_variance;
  tt_err e = TT_ALLOC(*x, l->d->rows * l->d->scaler.inputs);
  if (!e) e = TT_ALLOC(*y, l->d->rows * l->d->targets);
  if (!e && errors) e = TT_ALLOC(*sigma, l->d->rows * l->d->targets);
  e = tt_agree(l->comm, e);
  if (e) return e;
  gather_raw(l, &l->x, *x);
  gather_raw(l, &l->y, *y);
  if (errors) gather_raw(l, &l->sigma, *sigma);
  return gather_hash(l);
}

tt_err tt_data_read(tt_comm *c, const tt_config *cfg, const tt_data_hook *hook, tt_dataset **out)
{
  loader l = {.comm = c, .cfg = cfg, .file = cfg->data_file};
  tt_err e = load_raw(&l, hook);
  if (!e) e = normalize(&l);
  return tt_loader_finish(&l, e, out);
}

tt_err tt_data_from_memory(tt_comm *c, const tt_config *cfg, const tt_raw_dataset *t,
                           tt_dataset **out)
{
  loader l = {.comm = c, .cfg = cfg, .file = t->name};
  tt_err e = tt_agree(c, copy_rows_local(&l, t));
  if (!e) e = normalize(&l);
  return tt_loader_finish(&l, e, out);
}

tt_err tt_loader_read_values(loader *l, const tt_data_hook *hook, double **x, double **y,
                             double **sigma)
{
  tt_err e = load_raw(l, hook);
  if (!e) e = gather_values(l, x, y, sigma);
  if (e) tt_free_all(x, y);
  if (e && sigma) tt_free(*sigma);
  return e;
}

tt_err tt_data_read_raw(tt_comm *c, const tt_config *cfg, tt_dataset **d, double **x, double **y,
                        double **sigma)
{
  loader l = {.comm = c, .cfg = cfg, .file = cfg->data_file};
  tt_err e = tt_loader_read_values(&l, NULL, x, y, sigma);
  return tt_loader_finish(&l, e, d);
}

/* Check */

/* In pieces of rows. */
static tt_err check_rows_local(loader *l)
{
  enum { CHUNK_ROWS = 4096 };
  int64_t rows = tt_data_reader_shape(l->rows)->rows;
  l->count = rows < CHUNK_ROWS ? rows : CHUNK_ROWS;
  TT_TRY(create_local(l, l->count));
  TT_TRY(allocate_local(l));
  TT_TRY(tt_problems_create(rows, &l->problems));
  for (; l->first < rows; l->first += l->count) {
    if (l->count > rows - l->first) l->count = rows - l->first;
    TT_TRY(read_local(l));
    TT_TRY(tt_loader_check_local(l));
  }
  return tt_problems_error(l->problems);
}

static tt_err count_rows_local(const loader *l, tt_row_counts *out)
{
  tt_row_parts parts = {0};
  tt_row_ids ids = {0};
  int64_t rows = tt_data_reader_shape(l->rows)->rows;
  tt_err e = tt_data_find_parts_local(l->rows, l->cfg, NULL, &parts);
  if (!e) e = tt_data_job_ids_local(l->cfg, tt_data_reader_marks(l->rows), rows, &ids);
  tt_row_ids_free(&ids);
  *out = (tt_row_counts){.repeated = parts.repeated, .seen = parts.seen};
  for (int64_t i = 0; !e && i < rows; i++)
    if (parts.split[i] >= 0) out->part[parts.split[i]]++;
  tt_row_parts_free(&parts);
  return e;
}

tt_err tt_data_check_local(const tt_config *cfg, tt_row_counts *out)
{
  loader l = {.cfg = cfg, .file = cfg->data_file};
  tt_err e = tt_comm_alone_local(&l.comm);
  if (!e) e = open_file(&l);
  if (!e) e = check_rows_local(&l);
  if (!e && out) e = count_rows_local(&l, out);
  tt_dataset_destroy(&l.d);
  tt_problems_destroy(&l.problems);
  free_all(&l);
  tt_comm_end(&l.comm);
  return e;
}
