/* state.h — the complete training state of a range of members: the plain struct that engines and
 * files exchange. */
#ifndef TT_STATE_H
#define TT_STATE_H
#include "core/base/mem.h"
#include "core/model/partition.h"

#include <stdint.h>
TT_BEGIN_C

typedef enum tt_status {
  TT_STATUS_training = 0,
  TT_STATUS_finished = 1,      /* all epochs done */
  TT_STATUS_early_stopped = 2, /* no better loss for `patience` epochs */
  TT_STATUS_diverged = 3       /* loss or weights are not finite: not trained further, not used */
} tt_status;

/* Arrays of a member: name, C type, values per member (P parameters, Q of them in the segment of
 * this state, usually all; S optimizer slots, E epochs). All code that allocates, copies, writes,
 * reads or checks a state loops over this table. */
/* clang-format off */
#define TT_STATE_FIELDS(X)                                                                         \
  X(weights, float, s->params)                  /* [P] current */                                  \
  X(slots, float, s->slots * TT_OWN_PARAMS(s))  /* [S][Q] optimizer */                             \
  X(best_weights, float, TT_OWN_PARAMS(s))      /* [Q] at the best validation loss */              \
  X(best_loss, double, 1)                       /* +inf before the first validation */             \
  X(best_epoch, int32_t, 1)                     /* from 0; -1 before the first */                  \
  X(step, int64_t, 1)                           /* optimizer steps taken */                        \
  X(epoch, int32_t, 1)                          /* epochs completed */                             \
  X(batch, int32_t, 1)                          /* batches completed in this epoch */              \
  X(loss_sum, double, 1)                        /* sum over rows of this epoch */                  \
  X(status, int8_t, 1)                          /* tt_status */                                    \
  X(loss_train, float, s->epochs)               /* [E] NaN after the end */                        \
  X(loss_validation, float, s->epochs)          /* [E] NaN without validation */                   \
  X(average, float, s->averages * TT_OWN_PARAMS(s)) /* [Q] average of the weights */               \
  X(averaged, int64_t, 1)                       /* number of weights in the average */             \
  X(lr_factor, float, 1)      /* factor on the learning rate: plateaus, retries */                 \
  X(plateau_best, double, 1)  /* of reduce_on_plateau; +inf at the start */                        \
  X(plateau_wait, int32_t, 1) /* epochs without a better loss */                                   \
  X(attempt, int32_t, 1)      /* retries after divergence so far */
/* clang-format on */

typedef struct tt_state {
  int64_t first, count;          /* members [first, first + count) of the cohort */
  int64_t params, slots, epochs; /* P, S, E */
  int64_t averages;              /* averaged weights: 0 or 1 */
  /* The segment, of a rank that trains members together with others: Q = params - left_out
   * parameters from own_first on. Other fields are there for all parameters. */
  int64_t own_first, left_out;
#define X(name, type, length) type *f_##name; /* [count][length] */
  TT_STATE_FIELDS(X)
#undef X
} tt_state;
#define TT_FIELD(s_, name_) ((s_)->f_##name_)
#define TT_OWN_PARAMS(s_) ((s_)->params - (s_)->left_out)

/* The sizes that decide the lengths of the fields. */
typedef struct tt_state_shape {
  int64_t params, slots, epochs, averages;
} tt_state_shape;

/* Bytes of the values of one member, and of its largest field. */
int64_t tt_state_member_bytes(tt_state_shape shape);
int64_t tt_state_largest_field_bytes(tt_state_shape shape);

/* Allocate every field for the members `which`. Initial values: best_loss and plateau_best +inf,
 * best_epoch -1, lr_factor 1, losses per epoch NaN, else 0. Owner: the caller. Local. Errors: MEM.
 */
tt_err tt_state_create(tt_slice which, tt_state_shape shape, tt_state **out);
tt_err tt_state_create_segment(tt_slice which, tt_state_shape shape, tt_slice own, tt_state **out);
/* Set every field to its initial value. Local. */
void tt_state_reset(tt_state *s);
void tt_state_destroy(tt_state **s);

/* Bytes that such a state takes.
 *   own  the segment; NULL: all parameters */
int64_t tt_state_size(int64_t members, tt_state_shape shape, const tt_slice *own);

/* The table at run time, for loops in files and tests. */
typedef enum tt_field_type {
  TT_TYPE_float,
  TT_TYPE_double,
  TT_TYPE_int8_t,
  TT_TYPE_int32_t,
  TT_TYPE_int64_t
} tt_field_type;
typedef struct tt_state_field {
  const char *name;
  tt_field_type type;
  int64_t bytes;  /* of one value */
  int64_t length; /* values per member */
  void *data;     /* [count][length] */
} tt_state_field;
enum {
#define X(name, type, length) TT_STATE_FIELD_##name,
  TT_STATE_FIELDS(X)
#undef X
      TT_STATE_FIELD_COUNT
};
tt_state_field tt_state_get(const tt_state *s, int field);

/* The parameters of the segment; the number of vectors [Q] in a field of a member, or 0. */
tt_slice tt_state_own(const tt_state *s);
int64_t tt_state_own_vectors(const tt_state *s, int field);

/* Copy member i of [0, count) to member j of a state of the same shape. Of segments that differ,
 * the parameters that are in both; `dst` keeps the others. */
void tt_state_copy_member(const tt_state *src, int64_t i, tt_state *dst, int64_t j);

/* XXH3 (64 bits) over all fields of member `i` of [0, count), in table order; it does not depend on
 * the slice. Local. */
uint64_t tt_state_hash(const tt_state *s, int64_t i);

/* Weights for the predictions of a member: the best ones if there was a validation, else the
 * average of the weights if there is one, else the last. [P] */
const float *tt_state_prediction_weights(const tt_state *s, int64_t i);
TT_END_C
#endif
