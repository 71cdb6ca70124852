/* flat.h — writing the networks of several cohorts as one flat dataset of parameters with tables of
 * shapes; docs/files.md, model.h5. For io/model only. */
#ifndef TT_MODEL_FLAT_H
#define TT_MODEL_FLAT_H
#include "io/hdf5/schema.h"
#include "io/model/model_file.h"

typedef struct tt_flat_nets tt_flat_nets;

/* The tables of all cohorts. Owner: the caller. Local. Errors: MEM. */
tt_err tt_flat_nets_create(const tt_trained_ensembles *all, tt_flat_nets **out);
void tt_flat_nets_destroy(tt_flat_nets **nets); /* accepts NULL */

/* Collective. Write the group /net.
 *   shard  [cohorts] weights of this rank's members */
void tt_flat_nets_write(tt_schema *s, const tt_model_shard *shard, const tt_flat_nets *nets);
#endif
