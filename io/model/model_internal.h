/* model_internal.h — what the files io/model/read*.c share. All functions are local. */
#ifndef TT_MODEL_INTERNAL_H
#define TT_MODEL_INTERNAL_H
#include "core/model/trained_ensemble.h"
#include "io/hdf5/h5.h"
#include "io/model/fold_scales.h"

/* The part of the file that belongs to one cohort. */
typedef struct tt_model_cohort_info {
  int64_t member, members;     /* first in the file, count */
  int64_t ensemble, ensembles; /* 0 ensembles: those of the cohort before */
  tt_model model;
  float variance_floor;
  int64_t first_parameter; /* of several cohorts: in net/parameters */
} tt_model_cohort_info;

typedef struct tt_model_file_info {
  int64_t cohorts, members, ensembles, targets; /* targets: the largest K */
  int64_t components; /* of the targets; 0: none. Otherwise `targets` is their number T */
  int flat;           /* 1: tables of the networks (read_flat.c), 0: one network with its tensors */
  tt_fold_tables folds;              /* owner: the caller */
  tt_model_cohort_info *cohort_info; /* [cohorts] */
} tt_model_file_info;

/* The attributes of a model file that reading depends on, for the hash of its content. */
extern const char *const tt_model_attributes[];

/* Read the sizes of everything in a model file, and the resulting networks. The caller frees
 * w->cohort_info and w->folds, also after an error. Errors: DATA, IO, MEM. */
tt_err tt_model_read_info_local(tt_h5_reader *r, tt_model_file_info *w);

/* Read all n values of a dataset with one axis. Errors: DATA, IO. */
tt_err tt_model_read_vector_local(tt_h5_reader *r, const char *path, tt_h5_type type, int64_t n,
                                  void *out);

/* Tables of all members and all ensembles of the file. */
typedef struct tt_model_tables {
  int64_t inputs, targets;            /* columns of the data */
  int8_t *status;                     /* [members] */
  double *weight;                     /* [members] */
  int32_t *index, *snapshot, *cohort; /* [members]; NULL: not in the file */
  char **name;                        /* [ensembles] */
  int64_t *first, *count, *key;       /* [ensembles] */
  int32_t *column;                    /* [ensembles][targets] */
} tt_model_tables;

/* Read all tables. The caller frees them, also after an error. Errors: DATA, IO, MEM. */
tt_err tt_model_read_tables_local(tt_h5_reader *r, const tt_model_file_info *w, tt_model_tables *t);
void tt_model_tables_free(const tt_model_file_info *w, tt_model_tables *t);
/* Copy and check the part of a cohort. Errors: DATA, MEM. */
tt_err tt_model_fill_tables_local(tt_h5_reader *r, const tt_model_file_info *w,
                                  const tt_model_tables *t, const tt_model_cohort_info *s,
                                  tt_trained_ensemble *m);

/* Path of a tensor of the only cohort: "net/layer0/weight", "net/front0/weight". */
enum { TT_MODEL_PATH_MAX = 96 };
void tt_model_tensor_path(int l, const char *which, char path[TT_MODEL_PATH_MAX]);
void tt_model_front_path(int l, const char *which, char path[TT_MODEL_PATH_MAX]);

/* What the file says of the shape of a network; `shape` points into the arrays. */
typedef struct tt_model_net {
  tt_model_shape shape;
  int32_t layers;
  int activation; /* of the hidden layers */
  int64_t width[TT_MAX_LAYERS];
  double level[TT_MAX_QUANTILES];
  tt_front front;
} tt_model_net;

/* The index of a text in a NULL-terminated list of names.
 *   object, name  for the message. Errors: DATA. */
tt_err tt_model_find_choice(tt_h5_reader *r, const char *object, const char *name, const char *text,
                            const char *const *choice, int *out);
/* The front from its texts and sizes; size: channels, height, width. Errors: DATA, MEM. */
tt_err tt_model_parse_front(tt_h5_reader *r, const char *group, const char *text, int32_t axes,
                            const int32_t size[3], tt_activation activation, tt_model_net *n);
/* Check the levels of quantiles, or their number. Errors: DATA. */
tt_err tt_model_check_levels(tt_h5_reader *r, const char *group, const float *level,
                             tt_model_net *n);
/* Lay out the model; inputs, layers, widths and output are set. Errors: DATA. */
tt_err tt_model_lay_out_net(tt_h5_reader *r, const char *group, tt_model_net *n, tt_model *out);
/* Check a least variance. Errors: DATA. */
tt_err tt_model_check_floor(tt_h5_reader *r, const char *group, float floor);

/* The networks of several cohorts (flat.h), and their members. Errors: DATA, IO, MEM. */
tt_err tt_model_read_flat_local(tt_h5_reader *r, tt_model_file_info *w);
#endif
