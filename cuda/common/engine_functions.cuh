/* engine_functions.cuh — functions of the cuda engine's table that have their own files. */
#ifndef TT_ENGINE_FUNCTIONS_CUH
#define TT_ENGINE_FUNCTIONS_CUH
#include "cuda/common/engine_internal.cuh"

/* engine.h: set_data, evaluate and predict. */
tt_err tt_cuda_set_data(tt_engine *e, const tt_dataset *data, const tt_replay *replay);
tt_err tt_cuda_evaluate(tt_engine *e, tt_split split, double *loss);
tt_err tt_cuda_predict(const tt_trained_ensemble *c, const tt_resources *use, int64_t rows,
                       const float *x, tt_moments *into, float *members);

/* engine.h: steps of a member that several engines train together. */
tt_err tt_cuda_partial(tt_engine *e, int64_t m, tt_slice parts, int *training,
                       float *sum[TT_MAX_PART_SUMS], double loss[TT_MAX_PART_SUMS]);
tt_err tt_cuda_squares(tt_engine *e, int64_t m, tt_slice segment, float *gradient, double *block);
tt_err tt_cuda_advance(tt_engine *e, int64_t m, tt_slice segment, float *gradient, double squares,
                       float *w);
tt_err tt_cuda_accept(tt_engine *e, int64_t m, tt_slice of, const float *w, double loss,
                      const tt_epoch_sharing *share, int *epoch_ended);
tt_err tt_cuda_device_room(tt_engine *e, int64_t count, float **out);
tt_err tt_cuda_device_add(tt_engine *e, int64_t m, float *to, const float *from, int64_t count);
tt_err tt_cuda_device_copy(tt_engine *e, float *to, const float *from, int64_t count);
tt_err tt_cuda_stage_begin(tt_engine *e, int64_t m, const tt_pipeline_stage *stage, tt_slice parts,
                           int64_t window, tt_pipeline_step *out);
tt_err tt_cuda_stage_forward(tt_engine *e, int64_t part, const float *in, float *out);
tt_err tt_cuda_stage_backward(tt_engine *e, int64_t part, const float *in, float *out);

/* engine.h: link. */
extern const tt_device_link_ops tt_cuda_link;

/* Clusters of `ranks` blocks that run at the same time on the cluster path: 0 on parts of a GPU
 * that are too small. Needs e->cohort and e->dev. */
tt_err tt_cuda_cluster_places(const tt_engine *e, int ranks, int *out);

/* tt_cuda_path.arithmetic of the block path, and of the cluster path, which gives the same bits. */
void tt_cuda_block_arithmetic(const tt_engine *e, char *text, size_t room);

/* Free what set_data allocated. */
void tt_cuda_free_data(tt_engine *e);
#endif
