/* faulty_engine.c — see faulty_engine.h. */
#include "tests/double/self_check/faulty_engine.h"

#include "tests/support/faulty_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FLIPPED_STEP = 4 };
static tt_err count(int *devices);
static void versions(char *text, int64_t capacity) { tt_engine_cuda.versions(text, capacity); }
tt_engine_ops tt_engine_faulty = {.name = "cuda", .count = count, .versions = versions};

static char path[16], fault[16];
static int applies, calls; /* to the engine that was created last; calls of train */
static tt_state_shape shape;

static int is(const char *name) { return applies && !strcmp(fault, name); }

static tt_err create(const tt_cohort *c, tt_slice slice, const tt_resources *use, tt_engine **out)
{
  applies = !strcmp(path, tt_choice_gpu_kernel[use->path]);
  if (is("busy")) return TT_FAIL(DEVICE, "all CUDA-capable devices are busy or unavailable");
  shape = tt_cohort_state_shape(c);
  return is("formula") ? create_wrong(c, slice, use, out) : sound->create(c, slice, use, out);
}

/* The first row is used, but does not count. */
static tt_err set_data(tt_engine *e, const tt_dataset *data, const tt_replay *replay)
{
  static tt_dataset lost;
  static float weight[64];
  lost = *data;
  lost.weight = weight;
  for (int64_t r = 0; r < data->rows && r < 64; r++) weight[r] = r > 0 ? 1.0f : 0.0f;
  return sound->set_data(e, is("row") ? &lost : data, replay);
}

static tt_err flip(tt_engine *e)
{
  tt_state *s = NULL;
  tt_err err = tt_state_create((tt_slice){0, 1}, shape, &s);
  if (!err) err = sound->save(e, (tt_slice){0, 1}, s);
  if (!err) flip_a_bit(s->f_weights);
  if (!err) err = sound->load(e, (tt_slice){0, 1}, s);
  tt_state_destroy(&s);
  return err;
}

static tt_err train(tt_engine *e, int64_t steps, tt_progress *out)
{
  if (is("hang")) pause();
  if (is("crash")) abort();
  if (is("error")) return TT_FAIL(INTERNAL, "an illegal memory access was encountered");
  TT_TRY(sound->train(e, steps, out));
  return is("bit") && ++calls == FLIPPED_STEP ? flip(e) : TT_OK;
}

static tt_err count(int *devices)
{
  const char *given = getenv("TT_DOUBLE_FAULT");
  sound = &tt_engine_cuda;
  tt_engine_faulty = tt_engine_cuda;
  tt_engine_faulty.count = count;
  if (given && sscanf(given, "%15s %15s", path, fault) == 2) {
    tt_engine_faulty.create = create;
    tt_engine_faulty.set_data = set_data;
    tt_engine_faulty.train = train;
  }
  return sound->count(devices);
}
