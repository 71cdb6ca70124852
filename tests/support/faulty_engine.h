/* faulty_engine.h — faults of a GPU, planted into a sound engine: functions for a copy of its
 * tt_engine_ops. */
#ifndef TT_FAULTY_ENGINE_H
#define TT_FAULTY_ENGINE_H
#include "core/engine/engine.h"

#include <stdint.h>
#include <string.h>

static const tt_engine_ops *sound;
static int saves, bad_save;

static inline void flip_a_bit(float *w)
{
  uint32_t bits;
  memcpy(&bits, w, sizeof bits);
  bits ^= 1u;
  memcpy(w, &bits, sizeof bits);
}

/* The copy of a state with this number has another bit. */
static inline tt_err save_with_a_flip(tt_engine *e, tt_slice which, tt_state *dst)
{
  TT_TRY(sound->save(e, which, dst));
  if (++saves == bad_save) flip_a_bit(dst->f_weights);
  return TT_OK;
}

/* A learning rate that is wrong by a hundredth, in the same way each time; the cohort itself, which
 * the CPU trains too, remains as it is. */
static inline tt_err create_wrong(const tt_cohort *c, tt_slice slice, const tt_resources *use,
                                  tt_engine **out)
{
  static tt_cohort wrong;
  static tt_member member[64];
  if (c->members > 64) return TT_FAIL(INTERNAL, "more than 64 members");
  wrong = *c;
  wrong.member = member;
  memcpy(member, c->member, (size_t)c->members * sizeof *member);
  for (int64_t m = 0; m < c->members; m++) member[m].hyper.learning_rate *= 1.01f;
  return sound->create(&wrong, slice, use, out);
}
#endif
