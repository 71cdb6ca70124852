/* engine_functions.cuh — functions of the cuda engine's table that have their own files. */
#ifndef TT_ENGINE_FUNCTIONS_CUH
#define TT_ENGINE_FUNCTIONS_CUH
#include "cuda/common/engine_internal.cuh"

/* engine.h: set_data, evaluate and predict. */
tt_err tt_cuda_set_data(tt_engine *e, const tt_dataset *data, const tt_replay *replay);
tt_err tt_cuda_evaluate(tt_engine *e, tt_split split, double *loss);
tt_err tt_cuda_predict(const tt_trained_ensemble *c, const tt_resources *use, int64_t rows,
                       const float *x, tt_moments *into, float *members);

/* Free what set_data allocated. */
void tt_cuda_free_data(tt_engine *e);
#endif
