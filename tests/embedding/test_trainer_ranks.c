/* test_trainer_ranks.c — tutti.h: on a communicator of the program, whose ranks give own rows and
 * have some of the members, a trainer has the bits of one process with all rows; an error of one
 * rank is an error of all. */
#include "src/api/tutti.h"
#include "tests/support/check.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"

#include <math.h>
#include <mpi.h>
#include <string.h>

enum { ROWS = 20, INPUTS = 3, TARGETS = 2, MEMBERS = 5, STEPS = 4, PARAMS = 64 };

static const char job[] = "model: {hidden: [8]}\n"
                          "train: {batch_size: 20, dropout: 0.1, average: ema}\n"
                          "ensembles: [{name: e, members: 2}, {name: f, members: 3}]\n"
                          "run: {seed: 5, share_gpu: true}\n";

static float x[ROWS * INPUTS], y[ROWS * TARGETS], weight[ROWS];
static int64_t first, count; /* rows of this rank */

static int make_rows(void **state)
{
  int64_t ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm), all = ranks * ranks;
  (void)state;
  first = ROWS * rank * rank / all;
  count = ROWS * (rank + 1) * (rank + 1) / all - first;
  if (ranks == 3 && rank < 2) first = 0, count = rank ? 9 : 0; /* one rank has no rows */
  if (ranks == 3 && rank == 2) first = 9, count = ROWS - 9;
  for (int i = 0; i < ROWS * INPUTS; i++) x[i] = sinf((float)(i * i));
  for (int i = 0; i < ROWS * TARGETS; i++) y[i] = cosf((float)i);
  for (int i = 0; i < ROWS; i++) weight[i] = 0.5f + (float)(i % 3);
  return 0;
}
TT_SUITE(make_rows, NULL)

static tutti_trainer *make_of(const char *text, int on_ranks)
{
  tutti_trainer *t = NULL;
  const tutti_trainer_options o = {.size = sizeof o,
                                   .options = text,
                                   .threads = 1,
                                   .inputs = INPUTS,
                                   .targets = TARGETS,
                                   .on_ranks = on_ranks,
                                   .comm = (int)MPI_Comm_c2f(MPI_COMM_WORLD)};
  TT_CHECK(tutti_trainer_create(&o, &t), ==, 0);
  return t;
}

static tutti_trainer *make(int on_ranks)
{
  tutti_trainer *t = make_of(job, on_ranks);
  TT_CHECK(tutti_trainer_members(t), ==, MEMBERS);
  return t;
}

/* All rows, or those of this rank. */
static tutti_batch batch(int own)
{
  tutti_batch b = {.size = sizeof b, .rows = ROWS, .x = x, .y = y, .weight = weight};
  if (!own) return b;
  b.rows = count;
  b.x += first * INPUTS, b.y += first * TARGETS, b.weight += first;
  return b;
}

static void same_weights(tutti_trainer *a, tutti_trainer *b)
{
  float u[PARAMS], v[PARAMS], all[MEMBERS * PARAMS];
  int64_t params = tutti_trainer_parameters(a);
  TT_CHECK(params, <=, PARAMS);
  TT_CHECK(tutti_trainer_get_weights(b, -1, all), ==, 0);
  for (int64_t m = 0; m < MEMBERS; m++) {
    TT_CHECK(tutti_trainer_get_weights(a, m, u), ==, 0);
    TT_CHECK(tutti_trainer_get_weights(b, m, v), ==, 0);
    TT_CHECK(memcmp(u, v, (size_t)params * sizeof *u), ==, 0);
    TT_CHECK(memcmp(all + m * params, v, (size_t)params * sizeof *u), ==, 0);
  }
  TT_CHECK(tutti_trainer_set_weights(b, -1, all), ==, 0);
}

TT_TEST (steps_have_the_bits_of_one_process) {
  double here[MEMBERS], there[MEMBERS];
  tutti_trainer *one = make(0), *all = make(1);
  for (int s = 0; s < STEPS; s++) {
    const tutti_batch whole = batch(0), own = batch(1);
    TT_CHECK(tutti_trainer_step(one, &whole, here), ==, 0);
    TT_CHECK(tutti_trainer_step(all, &own, there), ==, 0);
    TT_CHECK(memcmp(here, there, sizeof here), ==, 0);
    if (s == 1) TT_CHECK(tutti_trainer_reset(one, 3), ==, 0);
    if (s == 1) TT_CHECK(tutti_trainer_reset(all, 3), ==, 0);
  }
  same_weights(one, all);
  tutti_trainer_destroy(&one);
  tutti_trainer_destroy(&all);
}

TT_TEST (an_own_loss_has_the_bits_of_one_process) {
  static float here[2][MEMBERS * ROWS * TARGETS], slope[2][MEMBERS * ROWS * INPUTS];
  static float gradient[2][MEMBERS * PARAMS];
  tutti_trainer *t[2] = {make(0), make(1)};
  for (int s = 0; s < STEPS; s++) {
    for (int k = 0; k < 2; k++) {
      const tutti_batch b = batch(k);
      TT_CHECK(tutti_trainer_forward(t[k], &b, here[k]), ==, 0);
      TT_CHECK(tutti_trainer_backward(t[k], here[k], slope[k]), ==, 0);
      TT_CHECK(tutti_trainer_update(t[k]), ==, 0);
      TT_CHECK(tutti_trainer_forward(t[k], &b, here[k]), ==, 0);
      TT_CHECK(tutti_trainer_backward(t[k], here[k], NULL), ==, 0);
      TT_CHECK(tutti_trainer_take_gradient(t[k], gradient[k]), ==, 0);
    }
    TT_CHECK(memcmp(gradient[0], gradient[1], sizeof gradient[0]), ==, 0);
    TT_CHECK(memcmp(here[0], here[1], sizeof here[0]), ==, 0);
    TT_CHECK(memcmp(slope[0], slope[1], sizeof slope[0]), ==, 0);
  }
  same_weights(t[0], t[1]);
  tutti_trainer_destroy(&t[0]);
  tutti_trainer_destroy(&t[1]);
}

/* Predictions, models, files and states are those of all members. */
TT_TEST (what_comes_out_is_of_all_members) {
  static float all[MEMBERS][ROWS][TARGETS], mine[MEMBERS * ROWS * TARGETS];
  static char state[2][1 << 16];
  double in[ROWS * INPUTS], mean[3][ROWS * 2 * TARGETS];
  tutti_trainer *t[2] = {make(0), make(1)};
  tutti_model *model[3];
  char path[2 * SCRATCH_ROOM];
  snprintf(path, sizeof path, "%s/ranks.h5", scratch);
  for (int k = 0; k < 2; k++) {
    const tutti_batch b = batch(k);
    TT_CHECK(tutti_trainer_step(t[k], &b, NULL), ==, 0);
    TT_CHECK(tutti_trainer_model(t[k], &model[k]), ==, 0);
    TT_CHECK(tutti_trainer_state_bytes(t[k]), <=, (int64_t)sizeof state[k]);
    TT_CHECK(tutti_trainer_get_state(t[k], state[k]), ==, 0);
  }
  TT_CHECK(memcmp(state[0], state[1], sizeof state[0]), ==, 0);
  TT_CHECK(tutti_trainer_predict(t[0], ROWS, x, all[0][0]), ==, 0);
  TT_CHECK(tutti_trainer_predict(t[1], count, x + first * INPUTS, mine), ==, 0);
  for (int64_t m = 0; m < MEMBERS; m++)
    TT_CHECK(
        memcmp(all[m][first], mine + m * count * TARGETS, (size_t)(count * TARGETS) * sizeof *mine),
        ==, 0);
  TT_CHECK(tutti_trainer_save(t[1], path), ==, 0);
  TT_CHECK(tutti_open(path, &model[2]), ==, 0);
  for (int i = 0; i < ROWS * INPUTS; i++) in[i] = (double)x[i];
  for (int k = 0; k < 3; k++) {
    const tutti_prediction p = {.size = sizeof p, .mean = mean[k]};
    TT_CHECK(tutti_predict(model[k], ROWS, in, 1, &p), ==, 0);
    TT_CHECK(memcmp(mean[k], mean[0], sizeof mean[0]), ==, 0);
    tutti_close(&model[k]);
  }
  const tutti_batch own = batch(1), whole = batch(0);
  TT_CHECK(tutti_trainer_step(t[1], &own, NULL), ==, 0);
  TT_CHECK(tutti_trainer_set_state(t[1], state[0], tutti_trainer_state_bytes(t[1])), ==, 0);
  TT_CHECK(tutti_trainer_step(t[1], &own, NULL), ==, 0);
  TT_CHECK(tutti_trainer_step(t[0], &whole, NULL), ==, 0);
  same_weights(t[0], t[1]);
  tutti_trainer_destroy(&t[0]);
  tutti_trainer_destroy(&t[1]);
}

TT_TEST (ranks_may_have_no_members) {
  static const char lonely[] = "model: {hidden: [8]}\ntrain: {batch_size: 20}\n"
                               "ensembles: [{name: e, members: 1}]\nrun: {share_gpu: true}\n";
  tutti_trainer *t[2] = {make_of(lonely, 0), make_of(lonely, 1)};
  static float w[2][PARAMS], here[2][ROWS * TARGETS], slope[2][ROWS * INPUTS];
  char path[2 * SCRATCH_ROOM];
  double loss[2];
  for (int k = 0; k < 2; k++) {
    const tutti_batch b = batch(k);
    TT_CHECK(tutti_trainer_step(t[k], &b, &loss[k]), ==, 0);
    TT_CHECK(tutti_trainer_forward(t[k], &b, here[k]), ==, 0);
    TT_CHECK(tutti_trainer_backward(t[k], here[k], slope[k]), ==, 0);
    TT_CHECK(tutti_trainer_update(t[k]), ==, 0);
    TT_CHECK(tutti_trainer_reset(t[k], 0), ==, 0);
    TT_CHECK(tutti_trainer_get_weights(t[k], 0, w[k]), ==, 0);
    TT_CHECK(tutti_trainer_set_weights(t[k], 0, w[k]), ==, 0);
  }
  TT_CHECK(memcmp(w[0], w[1], sizeof w[0]), ==, 0);
  TT_CHECK(memcmp(slope[0], slope[1], sizeof slope[0]), ==, 0);
  TT_CHECK(memcmp(&loss[0], &loss[1], sizeof loss[0]), ==, 0);
  snprintf(path, sizeof path, "%s/lonely.h5", scratch);
  TT_CHECK(tutti_trainer_save(t[1], path), ==, 0);
  tutti_trainer_destroy(&t[0]);
  tutti_trainer_destroy(&t[1]);
}

TT_TEST (an_error_of_one_rank_is_one_of_all) {
  tutti_trainer *t = make(1);
  int last = tt_comm_rank(comm) == tt_comm_ranks(comm) - 1;
  tutti_batch b = batch(1);
  if (last) b.x = NULL;
  TT_CHECK(tutti_trainer_step(t, &b, NULL), ==, 64);
  TT_CHECK(strstr(tutti_error(), "x is NULL") != NULL, ==, 1);
  b = batch(1);
  if (last) b.weight = NULL;
  int mixed = tt_comm_ranks(comm) > 1;
  TT_CHECK(tutti_trainer_step(t, &b, NULL), ==, mixed ? 64 : 0);
  b = batch(1), b.own_rows = 1;
  if (mixed) TT_CHECK(tutti_trainer_step(t, &b, NULL), ==, 64);
  b = batch(1);
  TT_CHECK(tutti_trainer_step(t, &b, NULL), ==, 0);
  tutti_trainer_destroy(&t);
  tutti_trainer_options o = {.size = sizeof o, .options = job, .inputs = 1, .targets = 1};
  o.on_ranks = 1;
  o.comm = (int)MPI_Comm_c2f(MPI_COMM_NULL);
  TT_CHECK(tutti_trainer_create(&o, &t), ==, 69);
  TT_CHECK(strstr(tutti_error(), "no communicator") != NULL, ==, 1);
}
