/* pipeline.h — stages of a member: contiguous layers that one rank computes for all parts of a
 * batch (run.stages), and the order in which it computes them. No MPI, no CUDA.
 *
 * The layers are numbered through: first those of the front, then the dense ones. Layers inside a
 * residual of the front are in one stage, so that one array passes from stage to stage.
 *
 * The parts of a batch (core/model/parts.h) go through the stages one behind the other. The order
 * of a stage is 1F1B (Narayanan et al. 2019, PipeDream): forward passes until the window is full,
 * then one backward pass and one forward pass in turn. The window is the largest number of parts
 * that wait for their backward pass: it bounds the activations in memory. */
#ifndef TT_PIPELINE_H
#define TT_PIPELINE_H
#include "core/model/model.h"
#include "core/model/parts.h"
TT_BEGIN_C

enum { TT_MAX_STAGES = 64 }; /* of run.stages */

typedef struct tt_pipeline_stage {
  int first, count; /* layers [first, first + count); count 0: the stage has none */
  tt_slice params;  /* of these layers */
} tt_pipeline_stage;

int tt_pipeline_layers(const tt_model *m);

/* Values for each row between layer - 1 and layer; of layer 0 the inputs, of the number of layers
 * the outputs. */
int64_t tt_pipeline_values(const tt_model *m, int layer);

/* Whether a layer before `layer` trains, so that gradients go back through it (train.freeze). */
int tt_pipeline_has_gradient(const tt_model *m, int layer);

/* Cut the layers of a model so that the largest cost of a stage is as small as possible; the cost
 * of a layer is that of its products, as in tt_model_flops. If there are more stages than places
 * to cut, the last stages have no layers.
 *   out  [stages] */
void tt_pipeline_cut(const tt_model *m, int stages, tt_pipeline_stage *out);

/* Stages with layers. */
int tt_pipeline_used(const tt_model *m, int stages);

/* The ranks of a team in a grid: each stage with layers has `columns` ranks, which share the parts
 * of a batch. Rank r has stage r / columns and column r % columns; the ranks from
 * stages * columns on have no layers. */
typedef struct tt_pipeline_grid {
  int stages, columns;
} tt_pipeline_grid;

/* The grid of `ranks` ranks with up to `stages` stages: as many stages as possible. 0: as 1. */
tt_pipeline_grid tt_pipeline_grid_of(const tt_model *m, int stages, int ranks);

/* What a rank has of the grid: its stage, its parts of a batch, and the parameters that it updates,
 * a segment of those of its stage; nothing, if it has no layers. */
typedef struct tt_pipeline_place {
  int stage, column; /* -1: none */
  tt_pipeline_stage layers;
  tt_slice parts, segment;
} tt_pipeline_place;
tt_pipeline_place tt_pipeline_place_of(const tt_model *m, tt_pipeline_grid grid, int64_t parts,
                                       int rank);

/* Window of a stage of `stages` stages with layers, for `parts` parts. */
int64_t tt_pipeline_window(int stages, int stage, int64_t parts);

/* What a stage does after `forward` forward and `backward` backward passes: 1 the next forward
 * pass, 0 the next backward pass. It ends when backward is parts. */
int tt_pipeline_is_forward(int64_t parts, int64_t window, int64_t forward, int64_t backward);

/* Fraction of the time in which a stage waits, if all have the same cost: (s - 1) / (G + s - 1). */
double tt_pipeline_bubble(int stages, int64_t parts);

/* How many times as fast as one rank, without the time of the exchange: cost of all layers by that
 * of the largest stage, less the bubble, times the parts by the most parts of a column. */
double tt_pipeline_speedup(const tt_model *m, tt_pipeline_grid grid, int64_t parts);

/* Most parts of a column. */
int64_t tt_pipeline_column_parts(tt_pipeline_grid grid, int64_t parts);
TT_END_C
#endif
