/* model_internal.h — what the files io/model/read*.c share. All functions are local. */
#ifndef TT_MODEL_INTERNAL_H
#define TT_MODEL_INTERNAL_H
#include "core/model/trained_ensemble.h"
#include "io/hdf5/h5.h"
#include "io/model/fold_scales.h"

/* The part of the file that belongs to one network. */
typedef struct tt_model_network_info {
  int64_t member, members;     /* first in the file, count */
  int64_t ensemble, ensembles; /* 0 ensembles: those of the network before */
  tt_model model;
  float variance_floor;
  int64_t first_parameter; /* in net/parameters */
} tt_model_network_info;

typedef struct tt_model_file_info {
  int64_t networks, members, ensembles, targets; /* targets: the largest K */
  int64_t components; /* of the targets; 0: none. Otherwise `targets` is their number T */
  tt_fold_tables folds;
  tt_model_network_info *network_info; /* [networks] */
} tt_model_file_info;

/* The attributes of a model file that reading depends on, for the hash of its content. */
extern const char *const tt_model_attributes[];

/* Read the sizes of everything in a model file, and the resulting networks. Owner: the caller,
 * tt_model_info_free, also after an error. Errors: DATA, IO, MEM. */
tt_err tt_model_read_info_local(tt_h5_reader *r, tt_model_file_info *w);
void tt_model_info_free(tt_model_file_info *w);

/* Read all n values of a dataset with one axis. Errors: DATA, IO. */
tt_err tt_model_read_vector_local(tt_h5_reader *r, const char *path, tt_h5_type type, int64_t n,
                                  void *out);

/* Tables of all members and all ensembles of the file. */
typedef struct tt_model_tables {
  int64_t inputs, targets;            /* columns of the data */
  int8_t *status;                     /* [members] */
  double *weight;                     /* [members] */
  int32_t *index, *snapshot, *cohort; /* [members]; snapshot NULL: not in the file */
  char **name;                        /* [ensembles] */
  int64_t *first, *count, *key;       /* [ensembles] */
  int32_t *column;                    /* [ensembles][targets] */
} tt_model_tables;

/* Read all tables, and find the ensembles of each network. The caller frees the tables, also after
 * an error. Errors: DATA, IO, MEM. */
tt_err tt_model_read_tables_local(tt_h5_reader *r, tt_model_file_info *w, tt_model_tables *t);
void tt_model_tables_free(const tt_model_file_info *w, tt_model_tables *t);
/* Copy and check the part of a trained ensemble. Errors: DATA, MEM. */
tt_err tt_model_fill_tables_local(tt_h5_reader *r, const tt_model_file_info *w,
                                  const tt_model_tables *t, const tt_model_network_info *s,
                                  tt_trained_ensemble *m);
#endif
