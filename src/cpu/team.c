/* team.c — members are dealt to threads; several threads share a member; see cpu_internal.h. */
#include "src/cpu/cpu_internal.h"

#include <omp.h>
#include <sched.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

/* Looks at a value before a waiting thread gives its core to others: about 30 us. */
enum { SPINS = 2000 };
/* Looks before a leader does the share of a thread that has not begun: about 3 us. That thread may
 * have lost its core to another program. */
enum { PATIENCE = 200 };

/* `call` of a team: the number of a tt_cpu_team_run and its threads; 0 threads end the team. */
enum { THREAD_BITS = 16 };
static int threads_of(uint64_t call) { return (int)(call & ((1u << THREAD_BITS) - 1)); }
static uint64_t next_call(uint64_t call, int threads)
{
  return ((call >> THREAD_BITS) + 1) << THREAD_BITS | (uint64_t)threads;
}

/* 1 for the one thread that is to do a share of this call. A call ends after all its shares, so
 * that a thread that is late finds its share taken by this call or a later one. */
static int take_share(tt_cpu_team *t, int share, uint64_t call)
{
  uint64_t taken = atomic_load_explicit(&t->taken[share], memory_order_relaxed);
  return taken < call && atomic_compare_exchange_strong(&t->taken[share], &taken, call);
}

static void pause_briefly(int *waited)
{
  if (*waited >= SPINS) {
    (void)sched_yield();
    return;
  }
  ++*waited;
#if defined(__SSE2__)
  _mm_pause();
#endif
}

int tt_cpu_team_threads(const tt_cpu_team *t)
{
  return t ? atomic_load_explicit(&t->size, memory_order_acquire) : 1;
}

void tt_cpu_team_set_left(tt_cpu_team *t, int64_t left)
{
  if (t) atomic_store_explicit(&t->left, left, memory_order_relaxed);
}

void tt_cpu_team_run(tt_cpu_team *t, tt_cpu_work *work, void *context)
{
  tt_cpu_team_run_on(t, tt_cpu_team_threads(t), work, context);
}

void tt_cpu_team_run_on(tt_cpu_team *t, int threads, tt_cpu_work *work, void *context)
{
  int waited = 0, own = 1; /* shares that this thread does */
  if (threads == 1) {
    work(context, 0, 1);
    return;
  }
  uint64_t call = next_call(atomic_load_explicit(&t->call, memory_order_relaxed), threads);
  t->work = work;
  t->with = context;
  atomic_store_explicit(&t->finished, 0, memory_order_relaxed);
  atomic_store_explicit(&t->call, call, memory_order_release);
  work(context, 0, threads);
  while (atomic_load_explicit(&t->finished, memory_order_acquire) < threads - own) {
    pause_briefly(&waited);
    for (int k = 1; waited == PATIENCE && k < threads; k++)
      if (take_share(t, k, call)) {
        work(context, k, threads);
        own++;
      }
  }
}

void tt_cpu_fork(int threads, tt_cpu_work *work, void *context)
{
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int t = 0; t < threads; t++) {
    unsigned mode = tt_cpu_flush_denormals();
    work(context, t, threads);
    tt_cpu_restore_denormals(mode);
  }
}

/* A thread does its share of every call of a team that counts it in, until the team ends. */
static void help(tt_cpu_team *t, int thread)
{
  for (uint64_t done = 0;;) {
    uint64_t call;
    int waited = 0;
    while ((call = atomic_load_explicit(&t->call, memory_order_acquire)) == done)
      pause_briefly(&waited);
    if (threads_of(call) == 0) return;
    if (thread < threads_of(call) && take_share(t, thread, call)) {
      t->work(t->with, thread, threads_of(call));
      atomic_fetch_add_explicit(&t->finished, 1, memory_order_release);
    }
    done = call;
  }
}

/* The members of one call of tt_cpu_each_member. */
typedef struct deal {
  tt_engine *e;
  int64_t steps; /* as for tt_cpu_each_member */
  tt_cpu_job *job;
  void *with;
  int leaders;       /* threads that begin with a member of their own */
  atomic_llong next; /* first member that no thread has taken */
} deal;

tt_slice tt_cpu_share_of_rows(int64_t rows, int thread, int threads)
{
  tt_slice blocks = tt_part_slice(tt_ceil_div(rows, TT_LANES), threads, thread);
  int64_t first = blocks.first * TT_LANES, end = first + blocks.count * TT_LANES;
  return (tt_slice){first, tt_min_i64(end, rows) - first};
}

int64_t tt_cpu_steps_left(const tt_engine *e, int64_t i, int64_t steps)
{
  const tt_member *m = &e->cohort->member[e->slice.first + i];
  const tt_cpu_row_lists *lists = &e->lists[tt_member_row_set(e->cohort, m)];
  int64_t rows = tt_cohort_epoch_rows(e->cohort, lists->count[TT_TRAIN]);
  int64_t batches = tt_ceil_div(rows, e->cohort->batch_size);
  if (TT_FIELD(e->state, status)[i] != TT_STATUS_training) return 0;
  if (e->batch) return 1;
  int64_t left =
      (m->hyper.epochs - TT_FIELD(e->state, epoch)[i]) * batches - TT_FIELD(e->state, batch)[i];
  return tt_min_i64(left, steps);
}

static int64_t work_of(const deal *d, int64_t i)
{
  return d->steps ? tt_cpu_steps_left(d->e, i, d->steps) : 1;
}

/* The team with the most work for each thread that may take another one; -1: none.
 *   *unknown  1 if a leader is between two members */
static int busiest(const deal *d, int *unknown)
{
  int best = -1;
  double most = 0.0;
  *unknown = 0;
  for (int k = 0; k < d->leaders; k++) {
    tt_cpu_team *t = &d->e->team[k];
    int64_t left = atomic_load_explicit(&t->left, memory_order_relaxed);
    int size = atomic_load_explicit(&t->size, memory_order_relaxed);
    *unknown |= left < 0;
    if (size >= d->e->most_sharing || (double)left / (double)size <= most) continue;
    most = (double)left / (double)size;
    best = k;
  }
  return best;
}

/* Deal the threads: one to each member; each further one where there is most work for a thread. */
static void begin(deal *d, int threads)
{
  tt_engine *e = d->e;
  int unknown;
  d->leaders = e->slice.count < threads ? (int)e->slice.count : threads;
  atomic_store(&d->next, d->leaders);
  for (int t = 0; t < threads; t++) {
    atomic_store(&e->team[t].call, next_call(atomic_load(&e->team[t].call), 1));
    atomic_store(&e->team[t].size, 1);
    atomic_store(&e->team[t].left, t < d->leaders ? work_of(d, t) : 0);
    e->team[t].leader = t < d->leaders ? t : -1;
    e->team[t].thread = 0;
  }
  for (int t = d->leaders; t < threads; t++) {
    int joined = busiest(d, &unknown);
    if (joined < 0) return;
    e->team[t].leader = joined;
    e->team[t].thread = atomic_fetch_add(&e->team[joined].size, 1);
  }
}

/* Thread t trains members until none is left to take. */
static void lead(deal *d, int t)
{
  tt_cpu_team *team = &d->e->team[t];
  for (int64_t i = t; i < d->e->slice.count; i = atomic_fetch_add(&d->next, 1)) {
    tt_cpu_team_set_left(team, work_of(d, i));
    d->job(d->e, d->e->buffers[t], team, i, d->with);
    tt_cpu_team_set_left(team, -1);
  }
  tt_cpu_team_set_left(team, 0);
  atomic_store_explicit(&team->call, next_call(atomic_load(&team->call), 0), memory_order_release);
}

/* Join teams as long as one has work. All members are taken: a team that still works has its last
 * member, so that its size can grow but not shrink. */
static void help_others(deal *d)
{
  int waited = 0;
  while (d->e->most_sharing > 1) {
    int unknown, joined = busiest(d, &unknown);
    if (joined < 0 && !unknown) return;
    if (joined < 0) {
      pause_briefly(&waited);
      continue;
    }
    tt_cpu_team *team = &d->e->team[joined];
    int size = atomic_load(&team->size);
    if (size < d->e->most_sharing && atomic_compare_exchange_strong(&team->size, &size, size + 1))
      help(team, size);
  }
}

void tt_cpu_each_member(tt_engine *e, int64_t steps, tt_cpu_job *job, void *context)
{
  deal d = {.e = e, .steps = steps, .job = job, .with = context};
#pragma omp parallel num_threads(e->threads)
  {
    unsigned mode = tt_cpu_flush_denormals();
    int t = omp_get_thread_num();
#pragma omp single
    begin(&d, omp_get_num_threads());
    tt_cpu_team *own = &e->team[t];
    if (own->leader == t)
      lead(&d, t);
    else if (own->leader >= 0)
      help(&e->team[own->leader], own->thread);
    help_others(&d);
    tt_cpu_restore_denormals(mode);
  }
}
