/* model_internal.h — what the files of model.h5 (docs/files.md) share: the parts of the file that
 * both the writer and the reader know, then what the reader alone needs. For io/model only. */
#ifndef TT_MODEL_INTERNAL_H
#define TT_MODEL_INTERNAL_H
#include "io/hdf5/schema.h"
#include "io/model/model_file.h"

/* The group /calibration */

/* Join the calibrations of all cohorts over all columns; *out is not changed if no cohort has one.
 * Local; owner: the caller, tt_calibration_free. Errors: MEM. */
tt_err tt_calibration_concat(const tt_trained_ensembles *all, tt_calibration *out);

/* Collective. Writes nothing if *k is zeroed. */
void tt_calibration_write(tt_schema *s, const tt_calibration *k);

/* Local. Read the calibration into the cohorts, if the file has one. Errors: DATA, IO, MEM. */
tt_err tt_calibration_read_local(tt_h5_reader *r, tt_trained_ensembles *all);

/* Scales and ranges of the columns, with `by` of each group, and the names of the groups */

/* Size of `scratch`: the largest number of values of one array of the file. Local. */
int64_t tt_model_scale_values(const tt_trained_ensemble *m);
/* Collective. Write them into the group /scaler, and the group /by.
 *   scratch  [tt_model_scale_values] */
void tt_model_write_scales(tt_schema *s, const tt_trained_ensemble *m, double *scratch);
/* Local. Read them; m->scaler has its columns, but no numbers yet. Errors: DATA, IO, MEM. */
tt_err tt_model_read_scales_local(tt_h5_reader *r, tt_trained_ensemble *m);

/* The inputs of the networks, if they are not the columns themselves */

/* The arrays of the file. Owner: the caller, tt_net_inputs_table_free, also after an error. */
typedef struct tt_net_inputs_table {
  int64_t count;           /* F; 0: each column is one input, and nothing is written */
  int32_t *column;         /* [F] */
  int8_t *kind;            /* [F] */
  double *level;           /* [F] */
  const char **level_name; /* [F] borrowed, "" where levels are numbers */
  const char **categories; /* [D] */
  int64_t longest;         /* bytes of the longest text */
} tt_net_inputs_table;

/* Local. Errors: MEM. */
tt_err tt_net_inputs_table_create(const tt_net_inputs *n, tt_net_inputs_table *out);
void tt_net_inputs_table_free(tt_net_inputs_table *t);

/* Dimension of the inputs of the networks: "feature" if each column is one of them. */
const char *tt_net_inputs_dimension(const tt_net_inputs *n);

/* Collective. Dimensions feature and name_strlen exist. */
void tt_net_inputs_write(tt_schema *s, const tt_net_inputs_table *t);

/* Local. `columns` of the table, `count` inputs of the networks; *out is zeroed or created, and is
 * replaced. Errors: DATA, IO, MEM. */
tt_err tt_net_inputs_read_local(tt_h5_reader *r, int64_t columns, int64_t count,
                                tt_net_inputs *out);

/* The networks as tables in the group /net, however many there are */

/* C type, type in the file, field and name in the file, first and second axis, meaning. Offsets are
 * in the parameters of a member. */
#define TT_NET_TABLES(X)                                                                           \
  X(int32_t, I32, network_of_member, members, one, "network of the member, from 0")                \
  X(int64_t, I64, first_parameter, members, one, "index of the first parameter of the member")     \
  X(int32_t, I32, n_layers, networks, one, "number of layers")                                     \
  X(int8_t, I8, layer_norm, networks, one, "1 = with layer_norm")                                  \
  X(int8_t, I8, residual, networks, one, "1 = with residual layers")                               \
  X(int32_t, I32, levels, networks, one, "number of quantiles or classes, else 0")                 \
  X(float, F32, variance_floor, networks, one, "least variance of mean_variance")                  \
  X(int32_t, I32, front_axes, networks, one, "axes of the front; 0 = no front")                    \
  X(float, F32, level, networks, most_levels, "quantiles; NaN after the last")                     \
  X(int64_t, I64, layer_in, networks, layers, "number of inputs; 0 after the last layer")          \
  X(int64_t, I64, layer_out, networks, layers, "number of outputs; 0 after the last layer")        \
  X(int64_t, I64, weight_offset, networks, layers, "offset of the weights, out x in")              \
  X(int64_t, I64, bias_offset, networks, layers, "offset of the biases")                           \
  X(int64_t, I64, gain_offset, networks, layers,                                                   \
    "offset of the gains of layer_norm, before the shifts; -1 = none")

/* The same for texts; of the fronts only if there are any. */
#define TT_NET_TEXTS(X)                                                                            \
  X(output, "output of the network")                                                               \
  X(activation, "activation of the first layer, and of all hidden layers")
#define TT_NET_FRONT_TEXTS(X)                                                                      \
  X(front, "rows of the front")                                                                    \
  X(front_activation, "activation of the front")

typedef struct tt_net_tables {
  int64_t members, networks, layers, most_levels; /* layers, most_levels: the largest numbers */
  int64_t one;                                    /* 1 */
#define X(type, h5, name, ...) type *name;
  TT_NET_TABLES(X)
#undef X
#define X(name, ...) char **name; /* [networks] */
  TT_NET_TEXTS(X)
  TT_NET_FRONT_TEXTS(X)
#undef X
  int32_t *front_shape; /* [networks][3] channels, height, width; NULL: there is no front */
  int64_t parameters;   /* of all members */
  tt_h5_part *part;     /* [networks] room for the writer */
} tt_net_tables;

/* The tables of all networks. Owner: the caller, tt_net_tables_free, also after an error. Local.
 * Errors: MEM. */
tt_err tt_net_tables_create(const tt_trained_ensembles *all, tt_net_tables *out);
void tt_net_tables_free(tt_net_tables *t);

/* Collective. Write the group /net; the dimension member exists.
 *   shard  [networks] weights of this rank's members */
void tt_net_tables_write(tt_schema *s, const tt_net_tables *t, const tt_model_shard *shard);

/* Read the tables of a file with so many members, without a check of their values. The same owner.
 * Local. Errors: DATA, IO, MEM. */
tt_err tt_net_tables_read_local(tt_h5_reader *r, int64_t members, tt_net_tables *out);

/* What the files read*.c share. All functions are local. */

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
  tt_model_network_info *network_info; /* [networks] */
} tt_model_file_info;

/* The attributes of a model file that reading depends on, for the hash of its content. */
extern const char *const tt_model_attributes[];

/* Read the sizes of everything in a model file, and the resulting networks. Owner: the caller,
 * tt_model_info_free, also after an error. Errors: DATA, IO, MEM. */
tt_err tt_model_read_info_local(tt_h5_reader *r, tt_model_file_info *w);
void tt_model_info_free(tt_model_file_info *w);

/* Tables of all members and all ensembles of the file. */
typedef struct tt_model_tables {
  int64_t inputs, targets;        /* columns of the data */
  int8_t *status;                 /* [members] */
  double *weight;                 /* [members] */
  int32_t *index, *head, *cohort; /* [members]; head NULL: not in the file */
  char **name;                    /* [ensembles] */
  int64_t *first, *count, *key;   /* [ensembles] */
  int32_t *column;                /* [ensembles][targets] */
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
