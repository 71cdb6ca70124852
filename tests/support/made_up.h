/* made_up.h — a trained ensemble and a provenance with known contents, for the tests of files. */
#ifndef TT_MADE_UP_H
#define TT_MADE_UP_H
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "core/model/state.h"
#include "core/model/trained_ensemble.h"
#include "io/hdf5/provenance.h"
#include "mpi/comm.h"
#include "tests/support/check.h"
#include "tests/support/ranks.h"
#include "tests/support/trained.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MADE_UP_INPUTS = 3, MADE_UP_TARGETS = 4, MADE_UP_K = 2 };

static inline float made_up_number(int64_t i)
{
  return 4.0f * tt_uniform(tt_random(11, 22, TT_PURPOSE_INIT, 0, (uint32_t)i).v[0]) - 2.0f;
}

static inline void made_up_columns(tt_columns *c, int64_t count, const char *prefix)
{
  char text[32];
  TT_CHECK_OK(tt_columns_create(count, c));
  for (int64_t i = 0; i < count; i++) {
    snprintf(text, sizeof text, "%s_%d", prefix, (int)i);
    TT_CHECK_OK(tt_text_set(&c->name[i], text));
    TT_CHECK_OK(tt_text_set(&c->units[i], i % 2 ? "\xC3\x85" : "kW h m-2"));
  }
}

/* One ensemble of all members, or two where there are two members; column i of ensemble e is (e + 2
 * * i) of four. The second member of each ensemble diverged: NaN weights, member weight 0. The
 * shape has up to MADE_UP_K targets; its inputs are not used. */
static inline tt_trained_ensemble *made_up_shape(int64_t members, tt_model_shape shape)
{
  tt_trained_ensemble *m = NULL;
  tt_model model;
  int64_t ensembles = members > 1 ? 2 : 1, k = shape.targets;
  memset(&model, 0, sizeof model); /* padding too: the test compares bytes */
  shape.inputs = MADE_UP_INPUTS;
  TT_CHECK_OK(tt_model_lay_out(&shape, &model));
  TT_CHECK_OK(trained_create(&model, ensembles, members, &m));
  m->variance_floor = 1e-6f;
  for (int64_t i = 0; i < ensembles; i++) {
    tt_ensemble *e = &m->ensemble[i];
    TT_CHECK_OK(tt_text_set(&e->name, i ? "cooling" : "heating-1"));
    e->first = i ? members / 3 + 1 : 0;
    e->members = (i + 1 < ensembles ? members / 3 + 1 : members) - e->first;
    e->targets = k;
    e->key = 0xFFFFFFF0u + (uint32_t)i;
    TT_CHECK_OK(tt_alloc_bytes(&e->column, k, sizeof *e->column, "columns"));
    for (int j = 0; j < k; j++) e->column[j] = (int32_t)i + 2 * j;
    for (int64_t j = 0; j < e->members; j++) {
      m->index[e->first + j] = (int32_t)(10 + j);
      m->status[e->first + j] = j == 1 ? TT_STATUS_diverged : TT_STATUS_finished;
      m->weight[e->first + j] = j == 1 ? 0.0 : 1.0 / 3.0;
    }
  }
  for (int64_t i = 0; i < members; i++)
    for (int64_t j = 0; j < model.params; j++) {
      int gone = m->status[i] == TT_STATUS_diverged && j % 2;
      m->w[i * model.params + j] = gone ? NAN : made_up_number(i * model.params + j);
    }
  made_up_columns(&m->input, MADE_UP_INPUTS, "feature");
  made_up_columns(&m->target, MADE_UP_TARGETS, "\xCE\xB8"); /* a Greek letter */
  TT_CHECK_OK(tt_scaler_create(MADE_UP_INPUTS, MADE_UP_TARGETS, &m->scaler));
  for (int i = 0; i < MADE_UP_INPUTS; i++) m->scaler.x_mean[i] = 1.0 / (i + 3.0);
  int scaled = tt_output_labels(shape.output) == TT_LABEL_TYPE_real;
  for (int i = 0; scaled && i < MADE_UP_TARGETS; i++) m->scaler.y_scale[i] = 7.0 / (i + 3.0);
  return m;
}

/* Place of a target of the file among those of a member; -1: the member does not have it. */
static inline int64_t made_up_place(const tt_trained_ensemble *m, int64_t member, int64_t target)
{
  const tt_ensemble *e = m->ensemble;
  while (member >= e->first + e->members) e++;
  for (int64_t k = 0; k < e->targets; k++)
    if (e->column[k] == target) return k;
  return -1;
}

/* A trained ensemble with MADE_UP_K targets. */
static inline tt_trained_ensemble *made_up_committee(int64_t members, const int64_t *hidden,
                                                     int layers, tt_output output)
{
  return made_up_shape(members, (tt_model_shape){.targets = MADE_UP_K,
                                                 .hidden = hidden,
                                                 .layers = layers,
                                                 .activation = TT_ACT_tanh,
                                                 .output = output});
}

static inline tt_provenance made_up_provenance(const tt_comm *c)
{
  return (tt_provenance){.title = "made up",
                         .resolved = "model: {hidden: [5, 3]}\n",
                         .original = "# a comment\nmodel: {hidden: [5, 3]}\n",
                         .device = "CPU, 1 thread",
                         .arithmetic = "generic",
                         .seed = 2026,
                         .data_hash = 0xDEADBEEFull,
                         .result_hash = 0xFFFFFFFFFFFFFFFFull,
                         .ranks = tt_comm_ranks(c),
                         .threads = 1,
                         .wall_seconds = 0.25 * tt_comm_rank(c)};
}
#endif
