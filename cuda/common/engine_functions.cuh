/* engine_functions.cuh — functions of the cuda engine's table that have their own files. */
#ifndef TT_ENGINE_FUNCTIONS_CUH
#define TT_ENGINE_FUNCTIONS_CUH
#include "cuda/common/engine_internal.cuh"

/* engine.h: set_data, evaluate and predict. */
tt_err tt_cuda_set_data(tt_engine *e, const tt_dataset *data, const tt_replay *replay);
tt_err tt_cuda_evaluate(tt_engine *e, tt_split split, double *loss);
tt_err tt_cuda_predict(const tt_trained_ensemble *c, const tt_resources *use, int64_t rows,
                       const float *x, tt_moments *dst, float *members);

/* team_ops.h: link. */
extern const tt_device_link_ops tt_cuda_link;

/* Clusters of `ranks` blocks that run at the same time on the cluster path: 0 on parts of a GPU
 * that are too small. Needs e->cohort and e->dev. */
tt_err tt_cuda_cluster_places(const tt_engine *e, int ranks, int *out);

/* tt_cuda_path.arithmetic of the block path, and of the cluster path, which gives the same bits. */
void tt_cuda_block_arithmetic(const tt_engine *e, char *text, size_t capacity);

/* engine.h: steps on rows of the caller; train takes one step. members_changed is set_hyper, and
 * for a change of the state. */
tt_err tt_cuda_set_batch(tt_engine *e, const tt_batch *batch);
tt_err tt_cuda_train_given(tt_engine *e);
tt_err tt_cuda_forward_given(tt_engine *e, float *output);
tt_err tt_cuda_backward(tt_engine *e, const float *delta, float *input_gradient);
tt_err tt_cuda_update(tt_engine *e);
tt_err tt_cuda_take_gradient(tt_engine *e, float *gradient);
void tt_cuda_members_changed(tt_engine *e);
void tt_cuda_given_destroy(tt_engine *e);

/* Free what set_data allocated. */
void tt_cuda_free_data(tt_engine *e);
#endif
