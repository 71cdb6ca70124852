/* export_internal.h — what the writers of src/export share. All functions are local. */
#ifndef TT_EXPORT_INTERNAL_H
#define TT_EXPORT_INTERNAL_H
#include "core/model/trained_ensemble.h"
#include "io/results/axis_labels.h"
#include "src/export/export.h"

#include <stdio.h>

/* The members of a trained ensemble that predictions use, those of an ensemble together. */
typedef struct tt_export_cohort {
  const tt_trained_ensemble *m;
  int64_t network, networks; /* the networks of its members: [network, network + networks) */
  int64_t members;           /* U */
  int64_t *member;           /* [U] number in m */
  int64_t *number;           /* [U] number in model.h5 */
  int64_t *of;               /* [U] its ensemble in m */
  double *share;             /* [U] member weight / sum of the weights of its ensemble */
  int64_t columns;           /* C of this cohort: ensembles * K q */
  double *offset;            /* [C] mean = value * scale + offset */
  double *scale;             /* [C] */
  double *std_scale;         /* [C] standard deviation = value * std_scale, with recalibration */
  double *noise;             /* [C] noise of recalibration, a standard deviation in these units */
  tt_transform *undo;        /* [C] transform of the target, which the members' values undo */
  double *lambda;            /* [C] its parameter */
  int transformed;           /* 1: one of them is not the identity */
} tt_export_cohort;

typedef struct tt_export_model {
  tt_export_format format;
  const tt_trained_ensemble *groups; /* `by`: one file for all its groups, and this model is that of
                                      * one of them; NULL: none */
  const char *file;                  /* to write, for messages and names */
  const char *model, *model_hash;    /* what it is made from: path, and hash of the content */
  const tt_trained_ensembles *all;
  const tt_axis_labels *labels;
  int64_t columns_in;      /* D columns of x */
  int64_t inputs, columns; /* F inputs of the networks, C columns of the results */
  const tt_net_inputs *net;
  int plain; /* 1: the inputs of the networks are the columns, none of which may be missing */
  tt_scaler *scaler; /* F inputs: levels and indicators are not normalized */
  int64_t cohorts;
  tt_export_cohort *cohort; /* [cohorts] */
  /* The used members of each network, as cohorts with one network; networks without any are left
   * out. What is not about members or weights is that of the cohort. */
  int64_t networks;
  tt_export_cohort *network; /* [networks] */
} tt_export_model;

/* One of x->groups; some of its members can predict. Owner: the caller. Errors: MEM. */
typedef struct tt_export_group {
  tt_trained_ensemble *m;
  tt_export_cohort cohort;
  tt_scaler scaler; /* as in tt_export_model */
} tt_export_group;
int tt_export_can_predict(const tt_trained_ensemble *m, int64_t ensemble);
tt_err tt_export_group_open(const tt_trained_ensemble *all, int64_t group, tt_export_group *out);
void tt_export_group_close(tt_export_group *g); /* accepts a zeroed one */

/* Parameters of all used members; with groups of all their members. */
int64_t tt_export_parameters(const tt_export_model *x);

#define X(name, file, meaning) tt_err tt_export_##name##_local(const tt_export_model *x, FILE *to);
TT_EXPORT_FORMATS(X)
#undef X

/* Whether a column of a cohort has this transform. */
int tt_export_undoes(const tt_export_cohort *k, tt_transform f);
/* Whether an input has this transform; any input, if the transform is TT_TRANSFORM_COUNT. */
int tt_export_uses_transform(const tt_export_model *x, tt_transform f);
tt_transform tt_export_transform(const tt_export_model *x, int64_t input);
const char *tt_export_transform_name(tt_transform f);

/* The text of torch_module.py. */
extern const char tt_torch_module[];

/* Refuse a row of a table that a format has no expression for.
 *   what  "output", "activation";  value  the row */
#define TT_EXPORT_REFUSE(x_, format_, what_, value_)                                               \
  TT_FAIL(USAGE, "%s: %s %s cannot be written as %s; use another format", (x_)->file, what_,       \
          value_, format_)
#endif
