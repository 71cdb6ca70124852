/* device_sizes.h — the arrays of the cuda engine: it allocates what the tables say, and the plan of
 * the memory adds it up before there is an engine. Plain C that does not call CUDA. */
#ifndef TT_DEVICE_SIZES_H
#define TT_DEVICE_SIZES_H
#include "core/engine/engine.h"
#include "core/engine/progress.h"
#include "cuda/plan/layered_sizes.h"
#include "cuda/plan/path.h"
TT_BEGIN_C

/* The rows of one row set (cohort.h), by split; device pointers. */
typedef struct tt_dev_row_lists {
  const int32_t *row[TT_SPLITS];
  int32_t count[TT_SPLITS];
} tt_dev_row_lists;

/* Members of a slice. */
typedef struct tt_device_sizes {
  int64_t members, row_sets, columns; /* columns: target columns of all ensembles */
} tt_device_sizes;
tt_device_sizes tt_device_sizes_of(const tt_cohort *c, tt_slice slice);

/* Name in tt_engine, type of an element, number of elements, what it is. 0 elements: no array. The
 * training state, the lists of rows and the arrays of a path come in addition. */
#define TT_DEVICE_ARRAYS(X)                                                                        \
  X(model, tt_model, 1, "shape of a member")                                                       \
  X(member, tt_member, s->members, "settings of the members")                                      \
  X(standing, tt_member_progress, s->members, "report")                                            \
  X(before, int64_t, s->members, "report")                                                         \
  X(view_of_member, int32_t, s->members, "row sets of the members")                                \
  X(epoch_rows, int32_t, s->members, "rows of an epoch")                                           \
  X(lists, tt_dev_row_lists, s->row_sets, "row lists")                                             \
  X(column, int32_t, s->columns, "target columns")

/* The same in tt_fused_data, the arrays of the other paths than layered; `floats` of scratch. */
#define TT_FUSED_ARRAYS(X)                                                                         \
  X(next, int32_t, 1, "queue of members")                                                          \
  X(member, int32_t, 2 * members, "queue of members")                                              \
  X(scratch, float, floats, "optimizer state of the running members")

/* The training state on the device: its sizes, without arrays. */
tt_state tt_device_state(const tt_cohort *c);

/* An engine that is to be created. Borrowed. */
typedef struct tt_device_job {
  const tt_cohort *cohort;
  tt_slice slice;
  int64_t rows; /* of the data set */
  int weighted; /* 1: rows have weights */
  int streamed; /* 1: the data set does not fit, and the layered path reads rows from the host */
  const tt_path_context *context;
  tt_gpu_path wanted;           /* TUTTI_GPU_PATH */
  const tt_engine_share *share; /* of members that several engines train together; or NULL */
  int device_exchange;          /* 1: what they exchange is on the device; it is not counted */
} tt_device_job;

/* Bytes that the engine allocates. It may need less: rows without labels are counted here, because
 * they are not known yet. Errors: those of tt_path_choose. */
typedef struct tt_device_need {
  int64_t device; /* without the data set */
  int64_t pinned; /* page-locked memory of the host */
  int64_t lists;  /* of rows, in other memory of the host; the rest there is small */
} tt_device_need;
tt_err tt_device_need_of(const tt_device_job *job, tt_device_need *need);
TT_END_C
#endif
