/* net_tables.h — the networks of a model.h5 as tables in the group /net, however many there are
 * (docs/files.md). For io/model only. */
#ifndef TT_MODEL_NET_TABLES_H
#define TT_MODEL_NET_TABLES_H
#include "io/hdf5/schema.h"
#include "io/model/model_file.h"

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
#endif
