/* model_internal.h — what io/model/read.c and read_shape.c share. All functions are local. */
#ifndef TT_MODEL_INTERNAL_H
#define TT_MODEL_INTERNAL_H
#include "core/model/model.h"
#include "io/hdf5/h5.h"

/* The part of the file that belongs to one cohort. */
typedef struct tt_model_cohort_info {
  char prefix[24];         /* path of its networks: "" or "cohort3/" */
  int64_t member, members; /* first in the file, count */
  int64_t ensemble, ensembles;
  tt_model model;
} tt_model_cohort_info;

typedef struct tt_model_file_info {
  int64_t cohorts, members, ensembles, targets; /* targets: the largest K */
  tt_model_cohort_info *cohort_info;            /* [cohorts] */
} tt_model_file_info;

/* Read the sizes of everything in a model file, and the resulting networks. The caller frees
 * w->cohort_info, also after an error. Errors: DATA, IO, MEM. */
tt_err tt_model_read_info_local(tt_h5_reader *r, tt_model_file_info *w);

/* Read all n values of a dataset with one axis. Errors: DATA, IO. */
tt_err tt_model_read_vector_local(tt_h5_reader *r, const char *path, tt_h5_type type, int64_t n,
                                  void *out);

/* Path of a tensor: "net/layer0/weight". */
enum { TT_MODEL_PATH_MAX = 96 };
void tt_model_tensor_path(const tt_model_cohort_info *s, int l, const char *which,
                          char path[TT_MODEL_PATH_MAX]);
/* "net/front0/weight". */
void tt_model_front_path(const tt_model_cohort_info *s, int l, const char *which,
                         char path[TT_MODEL_PATH_MAX]);
#endif
