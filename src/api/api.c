/* api.c — see tutti.h: models in memory. */
#include "src/api/model.h"

#include "core/base/mem.h"
#include "core/model/state.h"
#include "io/hdf5/h5.h"
#include "io/model/model_file.h"
#include "src/api/call.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

const char *tutti_version(void) { return TUTTI_VERSION; }
const char *tutti_error(void) { return tt_err_last(); }

/* HDF5 is not built for several threads: one file is used at a time. A fork waits for the end of
 * this, because the child would find HDF5 and the lock in the middle of it. */
static pthread_mutex_t files = PTHREAD_MUTEX_INITIALIZER;

static void lock_files(void) { pthread_mutex_lock(&files); }
static void unlock_files(void) { pthread_mutex_unlock(&files); }
static void guard_forks(void) { pthread_atfork(lock_files, unlock_files, unlock_files); }

static int hdf5_runs;

/* With another MPI library in the program, HDF5 would end the program if it started after
 * MPI_Init. */
__attribute__((constructor)) static void start_hdf5_early(void)
{
  int running;
  if (!tt_comm_check_library_local(&running) || running) return;
  tt_h5_start_local();
  hdf5_runs = 1;
}

static tt_err check_hdf5(void)
{
  int running;
  if (hdf5_runs || !tt_comm_check_library_local(&running) || !running) return TT_OK;
  return TT_FAIL(UNAVAILABLE, "%s: load libtutti, or open a first model, before MPI_Init",
                 tt_err_last());
}

/* The arguments of open_model. */
typedef struct model_source {
  const char *file, *group;
  const void *bytes;
  int64_t size;
  tt_trained_ensembles *out;
} model_source;

static tt_err read_source(void *source)
{
  const model_source *s = source;
  const void *bytes = s->file ? NULL : s->bytes ? s->bytes : "";
  return tt_model_read_group_local(s->file ? s->file : "the model in memory", bytes, s->size,
                                   (tt_model_choice){s->group, 0}, s->out);
}

tt_err tt_call_hdf5(tt_err (*function)(void *), void *argument)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, guard_forks);
  lock_files();
  tt_err e = check_hdf5();
  if (!e) e = tt_h5_call_as_guest_local(function, argument);
  hdf5_runs |= !e;
  unlock_files();
  return e;
}

static void free_single_rows(tutti_model *m)
{
  for (int64_t i = 0; m->single && i < m->all.count; i++) tt_single_row_destroy(&m->single[i]);
  tt_free(m->single);
}

static tt_err prepare_single_rows(tutti_model *m)
{
  int fit = tt_scaler_transformed_target(&m->all.at[0]->scaler) < 0;
  TT_TRY(TT_ALLOC(m->single, m->all.count));
  for (int64_t i = 0; fit && i < m->all.count; i++) {
    TT_TRY(tt_single_row_create(m->all.at[i], TT_SIMD_auto, &m->single[i]));
    fit = m->single[i] != NULL;
  }
  if (!fit) free_single_rows(m);
  return TT_OK;
}

tt_err tt_model_create(tt_trained_ensembles *all, tutti_model **out)
{
  tutti_model *m = NULL;
  tt_err e = TT_ALLOC(m, 1);
  if (e) {
    tt_trained_ensembles_destroy(all);
    return e;
  }
  m->all = *all;
  e = tt_axis_labels_create(&m->all, &m->labels);
  for (int64_t i = 0; !e && i < m->all.count; i++) {
    const tt_trained_ensemble *own = m->all.at[i];
    int64_t width = tt_trained_ensemble_width(own), levels = own->calibration.levels;
    m->width = width > m->width ? width : m->width;
    m->levels = levels > m->levels ? levels : m->levels;
    m->classes |= tt_output_is_class(own->model.output);
  }
  if (!e) e = prepare_single_rows(m);
  if (e)
    tutti_close(&m);
  else
    *out = m;
  return e;
}

/* Set the weights of the other members of its ensemble to 0. */
static tt_err use_member(const tt_trained_ensembles *all, int64_t member)
{
  int64_t i = 0, k = 0, g = member, members = tt_trained_ensembles_members(all);
  if (member < 0 || member >= members)
    return TT_FAIL(USAGE, "member %" PRId64 ": the model has members 0 to %" PRId64, member,
                   members - 1);
  for (; g >= all->at[i]->members; i++) g -= all->at[i]->members;
  const tt_trained_ensemble *m = all->at[i];
  if (m->status[g] == TT_STATUS_diverged)
    return TT_FAIL(USAGE, "member %" PRId64 " diverged in training: it cannot predict", member);
  while (g >= m->ensemble[k].first + m->ensemble[k].members) k++;
  for (int64_t j = 0; j < m->ensemble[k].members; j++)
    m->weight[m->ensemble[k].first + j] = m->ensemble[k].first + j == g;
  return TT_OK;
}

/*   file    NULL: the model is in memory, bytes[size]
 *   group   NULL: the model has none
 *   member  NULL: with the weights of the file */
static tt_err open_model(const char *file, const void *bytes, int64_t size, const char *group,
                         const int64_t *member, tutti_model **out)
{
  tt_trained_ensembles all = {0};
  model_source source = {file, group, bytes, size, &all};
  TT_TRY(tt_call_hdf5(read_source, &source));
  tt_err e = member ? use_member(&all, *member) : TT_OK;
  if (e) tt_trained_ensembles_destroy(&all);
  return e ? e : tt_model_create(&all, out);
}

static int call_open(const char *file, const void *bytes, int64_t size, const char *group,
                     const int64_t *member, tutti_model **out)
{
  tt_call caller = tt_call_begin();
  if (out) *out = NULL;
  tt_err e = out ? TT_OK : TT_FAIL(USAGE, "out is NULL: there is no place for the model");
  if (!e && !file && !bytes && size != 0)
    e = TT_FAIL(USAGE, "%s is NULL", size < 0 ? "file" : "bytes");
  return tt_call_end(caller, e ? e : open_model(file, bytes, size, group, member, out));
}

int tutti_open(const char *file, tutti_model **out)
{
  return call_open(file, NULL, -1, NULL, NULL, out);
}

int tutti_open_member(const char *file, int64_t member, tutti_model **out)
{
  return call_open(file, NULL, -1, NULL, &member, out);
}

int tutti_open_group(const char *file, const char *group, tutti_model **out)
{
  return call_open(file, NULL, -1, group, NULL, out);
}

int tutti_open_memory(const void *bytes, int64_t size, tutti_model **out)
{
  return call_open(NULL, bytes, size > 0 ? size : 0, NULL, NULL, out);
}

void tutti_close(tutti_model **model)
{
  if (!model || !*model) return;
  free_single_rows(*model);
  tt_axis_labels_free(&(*model)->labels);
  tt_trained_ensembles_destroy(&(*model)->all);
  tt_free(*model);
}

/* The input of the networks for a level, NULL: there is none. */
static const tt_net_input *find_level(const tutti_model *model, int64_t input, int64_t level)
{
  if (level < 0 || level >= tutti_input_levels(model, input)) return NULL;
  const tt_net_inputs *net = &model->all.at[0]->scaler.net;
  return &net->at[net->first[input] + level];
}

int64_t tutti_input_levels(const tutti_model *model, int64_t input)
{
  if (input < 0 || input >= tutti_inputs(model)) return 0;
  return tt_net_inputs_levels(&model->all.at[0]->scaler.net, input);
}

const char *tutti_input_level(const tutti_model *model, int64_t input, int64_t level)
{
  const tt_net_input *entry = find_level(model, input, level);
  return entry ? entry->name : NULL;
}

double tutti_level_value(const tutti_model *model, int64_t input, const char *level)
{
  const tt_net_input *entry;
  for (int64_t k = 0; level && (entry = find_level(model, input, k)); k++)
    if (!strcmp(entry->name, level)) return entry->level;
  return NAN;
}

int64_t tutti_inputs(const tutti_model *model)
{
  return model ? model->all.at[0]->scaler.inputs : 0;
}

int64_t tutti_columns(const tutti_model *model) { return model ? model->labels.columns : 0; }
int64_t tutti_members(const tutti_model *model) { return model ? model->labels.members : 0; }
int64_t tutti_member_columns(const tutti_model *model) { return model ? model->width : 0; }
int64_t tutti_levels(const tutti_model *model) { return model ? model->levels : 0; }
int tutti_has_classes(const tutti_model *model) { return model && model->classes; }

/* The levels are the same in all trained ensembles that have them. */
double tutti_level(const tutti_model *model, int64_t level)
{
  for (int64_t i = 0; model && level >= 0 && i < model->all.count; i++) {
    const tt_calibration *k = &model->all.at[i]->calibration;
    if (level < k->levels) return k->level[level];
  }
  return NAN;
}

const char *tutti_input_name(const tutti_model *model, int64_t input)
{
  const tt_columns *c = model ? &model->all.at[0]->input : NULL;
  return c && input >= 0 && input < c->count ? c->name[input] : NULL;
}

static int has_column(const tutti_model *model, int64_t column)
{
  return column >= 0 && column < tutti_columns(model);
}

const char *tutti_ensemble_name(const tutti_model *model, int64_t column)
{
  return has_column(model, column) ? model->labels.ensemble[column] : NULL;
}

const char *tutti_target_name(const tutti_model *model, int64_t column)
{
  return has_column(model, column) ? model->labels.target[column] : NULL;
}

const char *tutti_column_label(const tutti_model *model, int64_t column)
{
  return has_column(model, column) ? model->labels.label[column] : NULL;
}

const char *tutti_target_units(const tutti_model *model, int64_t column)
{
  return has_column(model, column) ? model->labels.units[column] : NULL;
}
