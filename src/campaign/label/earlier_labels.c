/* earlier_labels.c — see oracle.h and oracle_internal.h: DIR/earlier_labels.h5. */
#include "core/base/mem.h"
#include "io/campaign/oracle_files.h"
#include "src/campaign/label/oracle_internal.h"
#include "src/campaign/state/file_names.h"

#include <string.h>

/* Append the rows that have a label and are not in `used`. */
static tt_err append(tt_history *h, const tt_used_rows *used, int64_t count, const int64_t *row,
                     const double *x, const double *y)
{
  for (int64_t i = 0; i < count; i++) {
    const tt_query query = {.row = row[i], .label_status = TT_LABEL_STATUS_labeled};
    const double *label = y + i * h->targets;
    if (tt_labeled_rows(label, 1, h->targets) && !(used && tt_is_row_used(used, row[i])))
      TT_TRY(tt_history_add_queries(h, 1, &query, x + i * h->inputs, label));
  }
  return TT_OK;
}

/* The same of two files: candidates with inputs, and their labels; they may be one file. */
static tt_err append_files(tt_history *h, const tt_used_rows *used, const tt_label_request *q,
                           const char *candidates, const char *labels)
{
  tt_oracle_input *in = NULL;
  tt_oracle_output *out = NULL;
  double *y = NULL;
  int64_t given = 0;
  tt_err e = tt_oracle_input_read_local(candidates, q->net, &in);
  if (!e) e = tt_accepted_labels_read_local(labels, q->target, &out, NULL, 0);
  if (!e) e = TT_ALLOC(y, in->count * h->targets);
  if (!e) e = tt_oracle_output_align(out, in->count, in->id, y, &given);
  if (!e) e = append(h, used, in->count, in->id, in->x, y);
  tt_free(y);
  tt_oracle_input_destroy(&in);
  tt_oracle_output_destroy(&out);
  return e;
}

tt_err tt_earlier_labels_read_local(const tt_label_request *q, tt_history **out)
{
  char path[TT_PATH_MAX];
  int exists = 0;
  tt_path_join(q->campaign, TT_EARLIER_LABELS_FILE, path);
  TT_TRY(tt_file_exists(path, &exists));
  TT_TRY(tt_history_create(q->input->count, q->target->count, out));
  return exists ? append_files(*out, NULL, q, path, path) : TT_OK;
}

/* The accepted labels of the groups in the directory `label`. */
static tt_err append_groups(tt_history *h, const tt_used_rows *used, const tt_label_request *q,
                            const char *label)
{
  char path[TT_PATH_MAX], input[TT_PATH_MAX], accepted[TT_PATH_MAX];
  int64_t *number = NULL, count = 0;
  TT_TRY(tt_label_groups_list_local(label, &number, &count));
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < count; i++) {
    tt_label_group g = {0};
    tt_label_group_directory(label, number[i], path);
    e = tt_label_group_open(path, &g);
    tt_path_join(g.directory, g.csv ? "input.csv" : "input.h5", input);
    tt_path_join(g.directory, TT_LABEL_ACCEPTED_FILE, accepted);
    if (!e && g.state == TT_LABEL_GROUP_labeled) e = append_files(h, used, q, input, accepted);
    if (e == TT_E_NOINPUT) e = TT_OK; /* its creation was interrupted */
    tt_label_group_free(&g);
  }
  tt_free(number);
  return e;
}

static tt_err write_file(const tt_label_request *q, const tt_history *h)
{
  char path[TT_PATH_MAX];
  int64_t *id = NULL;
  TT_TRY(TT_ALLOC(id, h->queries));
  for (int64_t i = 0; i < h->queries; i++) id[i] = h->query[i].row;
  tt_path_join(q->campaign, TT_EARLIER_LABELS_FILE, path);
  tt_err e = tt_labeled_inputs_write_local(path, h->queries, id, h->x, q->input, h->y, q->target);
  tt_free(id);
  return e;
}

tt_err tt_oracle_keep_labels_local(const tt_label_request *q, const tt_history *h, int64_t round,
                                   const char *label)
{
  tt_history *all = NULL;
  tt_used_rows used = {0};
  if (q->cfg->label_mode == TT_LABEL_hidden) return TT_OK;
  tt_err e = tt_earlier_labels_read_local(q, &all);
  if (!e) e = tt_history_used_rows(all, &used);
  int64_t before = e ? 0 : all->queries;
  for (int64_t i = 0; !e && h && i < h->queries; i++)
    if (h->query[i].round >= round)
      e = append(all, &used, 1, &h->query[i].row, h->x + i * h->inputs, h->y + i * h->targets);
  if (!e) e = append_groups(all, &used, q, label);
  if (!e && all->queries > before) e = write_file(q, all);
  tt_used_rows_free(&used);
  tt_history_destroy(&all);
  return e;
}
