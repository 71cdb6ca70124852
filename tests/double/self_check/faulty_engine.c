/* faulty_engine.c — see faulty_engine.h. */
#include "tests/double/self_check/faulty_engine.h"

#include "tests/support/faulty_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_ROWS = 512, EIGHTH = 8, THIRD = 3 };
static tt_err count_devices(int *devices);
static void versions(char *text, int64_t capacity) { tt_engine_cuda.versions(text, capacity); }
tt_engine_ops tt_engine_faulty = {.name = "cuda", .count = count_devices, .versions = versions};

static char path[16], fault[16];
static int applies; /* to the engine that was created last */
static tt_state_shape shape;
static tt_slice members;       /* of that engine */
static tt_engine *alone;       /* the last engine of one member */
static int steps, steps_alone; /* calls of one step; by that engine */
static int bad_step;

static int is(const char *name) { return applies && !strcmp(fault, name); }

static tt_err create(const tt_cohort *c, tt_slice slice, const tt_resources *use, tt_engine **out)
{
  const char *mine = tt_choice_gpu_kernel[use->path], *busy = getenv("TT_DOUBLE_BUSY");
  applies = !strcmp(path, mine);
  if (busy && !strcmp(busy, mine))
    return TT_FAIL(DEVICE, "all CUDA-capable devices are busy or unavailable");
  shape = tt_cohort_state_shape(c);
  members = slice;
  TT_TRY(is("formula") ? create_wrong(c, slice, use, out) : sound->create(c, slice, use, out));
  if (slice.count == 1) alone = *out;
  return TT_OK;
}

/* Every eighth row is used, but does not count. */
static tt_err set_data(tt_engine *e, const tt_dataset *data, const tt_replay *replay)
{
  static tt_dataset lost;
  static float weight[MOST_ROWS];
  if (!is("row")) return sound->set_data(e, data, replay);
  if (data->rows > MOST_ROWS) return TT_FAIL(INTERNAL, "more than %d rows", MOST_ROWS);
  lost = *data;
  lost.weight = weight;
  for (int64_t r = 0; r < data->rows; r++) weight[r] = r % EIGHTH > 0 ? 1.0f : 0.0f;
  return sound->set_data(e, &lost, replay);
}

/* Of the first weight of a member: a bit that later steps do not round away. */
static tt_err flip(tt_engine *e)
{
  enum { BIT = 1 << 4 };
  uint32_t bits;
  tt_state *s = NULL;
  tt_err err = tt_state_create((tt_slice){members.first, 1}, shape, &s);
  if (!err) err = sound->save(e, (tt_slice){members.first, 1}, s);
  if (!err) {
    memcpy(&bits, s->f_weights, sizeof bits);
    bits ^= BIT;
    memcpy(s->f_weights, &bits, sizeof bits);
  }
  if (!err) err = sound->load(e, (tt_slice){members.first, 1}, s);
  tt_state_destroy(&s);
  return err;
}

static tt_err train(tt_engine *e, int64_t count, tt_progress *out)
{
  if (is("hang")) pause();
  if (is("crash")) abort();
  if (is("error")) return TT_FAIL(INTERNAL, "an illegal memory access was encountered");
  TT_TRY(sound->train(e, count, out));
  if (count != 1) return TT_OK;
  steps++;
  steps_alone += e == alone;
  if (is("race") && steps % THIRD == 0) return flip(e);
  int flips = bad_step > 0 ? steps == bad_step : e == alone && steps_alone == -bad_step;
  return is("bit") && flips ? flip(e) : TT_OK;
}

static tt_err count_devices(int *devices)
{
  const char *given = getenv("TT_DOUBLE_FAULT");
  sound = &tt_engine_cuda;
  tt_engine_faulty = tt_engine_cuda;
  tt_engine_faulty.count = count_devices;
  if (given && sscanf(given, "%15s %15s %d", path, fault, &bad_step) >= 2) {
    tt_engine_faulty.create = create;
    tt_engine_faulty.set_data = set_data;
    tt_engine_faulty.train = train;
  }
  return sound->count(devices);
}
