/* initial_model.h — train.init_from: members begin with the weights of trained members, and inputs
 * and targets are normalized as in their model, so that they predict what those predict. */
#ifndef TT_INITIAL_MODEL_H
#define TT_INITIAL_MODEL_H
#include "core/model/trained_ensemble.h"
#include "mpi/comm.h"

/* Collective. Read the model, give every member its initial weights, normalize the data set as the
 * model does, and add the content of the model to the hash of the data set; nothing without
 * train.init_from.
 *   model  owner: the caller; the cohorts `all` point to its weights
 *   A member begins with the member of the same number of the ensemble of the same name, or of the
 *   only ensemble of the model: numbers begin again behind the last one, and a diverged member
 *   counts as the next one that has not. train.init_member is one number for all.
 *   train.init_layers is the number of first layers that get these weights; the others begin
 *   randomly.
 *   Targets that the model does not have keep the normalization of their training rows; labels that
 *   are classes, probabilities or counts have none.
 * Errors: of tt_model_read; DATA (other inputs, layers or normalization: the message names them; no
 * such ensemble or member; all have diverged), MEM. */
tt_err tt_initial_model_apply(tt_comm *c, const tt_config *cfg, tt_dataset *d,
                              const tt_cohorts *all, tt_trained_ensembles *model);
#endif
