/* verify.c — see verify.h. */
#include "src/train/verify.h"

#include "core/base/clock.h"
#include "src/host/resources.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STATES = 4, TRIES = 8, MOST_PARAMETERS = 4 << 20 };
static const double gpu_interval = 60.0, most_share = 0.005; /* of the time */
const double tt_verify_tolerance[] = {[TT_PRECISION_fp32] = 1e-3, [TT_PRECISION_tf32] = 0.1};

/* The states of one member: before a step, after it, and after the same step computed again on the
 * same device and by the CPU. */
typedef struct repetition {
  tt_shard *shard;
  tt_slice member;
  tt_state *before, *after, *again, *cpu;
} repetition;

static int on_cpu(const tt_shard *shard) { return !strcmp(shard->ops->name, "cpu"); }

double tt_verify_interval(const tt_cohort *c, int gpu, double every)
{
  if (every >= 0.0) return every;
  return gpu && c->model.params <= MOST_PARAMETERS ? gpu_interval : 0.0;
}

static double interval(const tt_shard *shard, double every)
{
  return tt_verify_interval(shard->cohort, !on_cpu(shard), every);
}

/* Of the CPU: its engine is here too. */
static const tt_resources on_one_thread = {.threads = 1, .simd = TT_SIMD_auto};

double tt_verify_bytes_local(const tt_cohort *c, int64_t rows, int gpu)
{
  const tt_engine_ops *cpu;
  double bytes = STATES * (double)tt_state_size(1, tt_cohort_state_shape(c), NULL);
  if (!gpu || tt_resources_engine_local(TT_DEVICE_cpu, &cpu)) return bytes;
  return bytes + (double)cpu->host_bytes(c, (tt_slice){0, 1}, rows, NULL, &on_one_thread);
}

static int is_due(const tt_shard *shard, double every)
{
  return !shard->team.ranks && shard->engine && interval(shard, every) > 0.0 &&
         tt_monotonic_seconds() >= shard->verify_time;
}

/* An engine of the member alone, in the state before the step.
 *   arithmetic  it must have this one, or *out is NULL; NULL: any */
static tt_err open_engine(const repetition *k, const tt_engine_ops *ops, const tt_resources *use,
                          const char *arithmetic, tt_engine **out)
{
  tt_engine_info info;
  tt_engine *e = NULL;
  TT_TRY(ops->create(k->shard->cohort, k->member, use, &e));
  tt_err err = ops->info(e, &info);
  if (!err && (!arithmetic || !strcmp(info.arithmetic, arithmetic))) {
    err = ops->set_data(e, k->shard->data, NULL);
    if (!err) err = ops->load(e, k->member, k->before);
    if (!err) *out = e;
  }
  if (*out != e) ops->destroy(&e);
  return err;
}

static tt_err take_step(const repetition *k, const tt_engine_ops *ops, tt_engine *e,
                        tt_state *after)
{
  tt_progress progress;
  TT_TRY(ops->train(e, 1, &progress));
  return ops->save(e, k->member, after);
}

/* The path of a few members may be another than that of many. Without an engine of the same
 * arithmetic, or without memory for it, *done is 0. */
static tt_err compute_again(const repetition *k, int *done)
{
  const tt_shard *shard = k->shard;
  tt_resources use = *shard->use;
  tt_engine *e = NULL;
  tt_err err = open_engine(k, shard->ops, &use, shard->info.arithmetic, &e);
  for (int path = 0; !e && !on_cpu(shard) && path < TT_GPU_PATH_COUNT; path++) {
    use.path = (tt_gpu_path)path;
    err = open_engine(k, shard->ops, &use, shard->info.arithmetic, &e);
  }
  *done = e != NULL;
  if (!e) tt_err_clear();
  if (!e) return TT_OK;
  err = take_step(k, shard->ops, e, k->again);
  shard->ops->destroy(&e);
  return err;
}

static tt_err compute_on_cpu(const repetition *k)
{
  const tt_engine_ops *cpu;
  tt_engine *e = NULL;
  TT_TRY(tt_resources_engine_local(TT_DEVICE_cpu, &cpu));
  tt_err err = open_engine(k, cpu, &on_one_thread, NULL, &e);
  if (!err) err = take_step(k, cpu, e, k->cpu);
  if (e) cpu->destroy(&e);
  return err;
}

static double apart(int64_t n, const float *a, const float *b, const float *before)
{
  double difference = 0.0, change = 0.0, size = 0.0;
  for (int64_t i = 0; i < n; i++) {
    difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    change += ((double)b[i] - before[i]) * ((double)b[i] - before[i]);
    size += (double)b[i] * b[i];
  }
  return difference == 0.0 ? 0.0 : sqrt(difference) / (sqrt(change) + 1e-5 * sqrt(size));
}

double tt_verify_apart(const tt_state *after, const tt_state *other, const tt_state *before,
                       int64_t i)
{
  int64_t params = after->params, slots = after->slots, own = i * params;
  double most =
      apart(params, after->f_weights + own, other->f_weights + own, before->f_weights + own);
  for (int64_t k = i * slots; k < (i + 1) * slots; k++) {
    int64_t first = k * params;
    double d =
        apart(params, after->f_slots + first, other->f_slots + first, before->f_slots + first);
    if (!(d <= most)) most = d;
  }
  return most;
}

static tt_err fail(const repetition *k, const char *what)
{
  const tt_member *m = &k->shard->cohort->member[k->member.first];
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return TT_FAIL(DEVICE,
                 "run.verify: %s on %s: step %" PRId64 " of member %d of ensemble %s %s. No "
                 "checkpoint has been written since; run again without this node (sbatch "
                 "--exclude=%s), and have the device tested",
                 k->shard->info.device, host, *k->before->f_step, m->index,
                 k->shard->cohort->ensemble[m->ensemble].name, what, host);
}

static tt_err compare(const repetition *k)
{
  tt_shard *shard = k->shard;
  char what[80];
  int done = 0;
  TT_TRY(compute_again(k, &done));
  if (done && tt_state_hash(k->after, 0) != tt_state_hash(k->again, 0))
    return fail(k, "has other bits when it is computed again");
  if (on_cpu(shard)) return TT_OK;
  TT_TRY(compute_on_cpu(k));
  double most = tt_verify_apart(k->after, k->cpu, k->before, 0);
  int near = most <= tt_verify_tolerance[shard->use->precision];
  shard->verify_misses = near ? 0 : shard->verify_misses + 1;
  if (shard->verify_misses < TT_VERIFY_MISSES) return TT_OK;
  snprintf(what, sizeof what, "is not that of the CPU (%.2g of the change)", most);
  return fail(k, what);
}

/* The next member that is in training. */
static tt_err choose_member(repetition *k)
{
  const tt_slice all = k->shard->slice;
  for (int i = 0; i < TRIES; i++) {
    k->member = (tt_slice){all.first + k->shard->verified++ % all.count, 1};
    k->before->first = k->after->first = k->again->first = k->cpu->first = k->member.first;
    TT_TRY(k->shard->ops->save(k->shard->engine, k->member, k->before));
    if (*k->before->f_status == TT_STATUS_training) return TT_OK;
  }
  k->member.count = 0;
  return TT_OK;
}

static tt_err repeat(repetition *k)
{
  tt_progress progress;
  TT_TRY(choose_member(k));
  if (k->member.count == 0) return TT_OK;
  TT_TRY(k->shard->ops->train(k->shard->engine, 1, &progress));
  TT_TRY(k->shard->ops->save(k->shard->engine, k->member, k->after));
  return compare(k);
}

static tt_err verify(tt_shard *shard, double every)
{
  repetition k = {.shard = shard};
  tt_state **const each[] = {&k.before, &k.after, &k.again, &k.cpu};
  const tt_state_shape shape = tt_cohort_state_shape(shard->cohort);
  double begin = tt_monotonic_seconds();
  tt_err e = TT_OK;
  for (int i = 0; !e && i < STATES; i++) e = tt_state_create((tt_slice){0, 1}, shape, each[i]);
  if (!e) e = repeat(&k);
  for (int i = 0; i < STATES; i++) tt_state_destroy(each[i]);
  double now = tt_monotonic_seconds(), least = every < 0.0 ? (now - begin) / most_share : 0.0;
  shard->verify_time = shard->verify_misses ? now : now + fmax(interval(shard, every), least);
  return e;
}

tt_err tt_verify_local(tt_shards *all, double every)
{
  for (int64_t i = 0; i < all->count; i++)
    if (is_due(&all->at[i], every)) TT_TRY(verify(&all->at[i], every));
  return TT_OK;
}
