/* mixed_predict.h — predictions of an ensemble of several networks, by an engine that predicts with
 * one network at a time. */
#ifndef TT_MIXED_PREDICT_H
#define TT_MIXED_PREDICT_H
#include "core/engine/engine.h"
TT_BEGIN_C

typedef tt_err tt_predict_one(const tt_trained_ensemble *c, const tt_resources *use, int64_t rows,
                              const float *x, tt_moments *dst, float *members);

/* As tt_engine_ops.predict, for an ensemble of several networks; the members are mixed in their
 * order.
 *   predict  of the engine, for one network. Errors: MEM, of predict. */
tt_err tt_mixed_predict(tt_predict_one *predict, const tt_trained_ensemble *c,
                        const tt_resources *use, int64_t rows, const float *x, tt_moments *dst,
                        float *members);
TT_END_C
#endif
