/* online.c — a simulation that trains its own surrogate while it runs: driven pendulums, one on each
 * rank, whose restoring force stands for a function that is expensive. One ensemble, whose members
 * are divided among the ranks, learns it from the calls that all of them make anyway; where its
 * members agree, their mean replaces the call. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti.h>

enum {
  MEMBERS = 10,
  BATCH = 32,
  BUFFER = 1000,
  STEPS = 6000
};                                              /* BATCH: rows of a rank in a step */
static const double dt = 0.01, tolerance = 0.1; /* s; standard deviation of members in rad/s^2 */
static const double x_mean[2] = {0, 0}, x_scale[2] = {2, 5}, y_mean = 0, y_scale = 8;
static const char options[] = "model: {hidden: [32, 32], activation: tanh}\n"
                              "train: {batch_size: 4096, learning_rate: 3e-3}\n"
                              "ensembles: [{name: force, members: 10}]\n"
                              "run: {seed: 1}\n";

/* The last BUFFER labels of this rank: a step needs rows of all places that the pendulum has visited, because a
 * network that learns only the newest rows forgets the others. */
static float buffer_x[BUFFER][2], buffer_y[BUFFER];
static int labels; /* calls until now; label i is in row i % BUFFER */

static void require(int code)
{
  if (!code) return;
  fprintf(stderr, "%s\n", tutti_error());
  exit(code);
}

static double expensive(const double state[2]) { return -9.81 * sin(state[0]) - 0.3 * state[1]; }

/* Mean of the members, and their standard deviation. Outputs are in units of y_scale. */
static double predict(tutti_trainer *trainer, const double state[2], double *deviation)
{
  const float x[2] = {(float)state[0], (float)state[1]};
  float output[MEMBERS];
  double mean = 0, squares = 0;
  require(tutti_trainer_predict(trainer, 1, x, output));
  for (int m = 0; m < MEMBERS; m++) mean += (double)output[m] / MEMBERS;
  for (int m = 0; m < MEMBERS; m++) squares += (output[m] - mean) * (output[m] - mean) / MEMBERS;
  *deviation = sqrt(squares) * y_scale;
  return mean * y_scale + y_mean;
}

static double call_and_keep(const double state[2])
{
  const double force = expensive(state);
  const int row = labels++ % BUFFER;
  buffer_x[row][0] = (float)state[0];
  buffer_x[row][1] = (float)state[1];
  buffer_y[row] = (float)force;
  return force;
}

/* One step with random rows of the buffers of all ranks. */
static void train(tutti_trainer *trainer)
{
  static int64_t random = 1;
  static float x[BATCH][2], y[BATCH];
  const tutti_batch batch = {.size = sizeof batch, .rows = BATCH, .x = x[0], .y = y};
  for (int i = 0; i < BATCH; i++) {
    random = 16807 * random % 2147483647; /* Park & Miller 1988 */
    const int row = (int)(random % (labels < BUFFER ? labels : BUFFER));
    x[i][0] = buffer_x[row][0], x[i][1] = buffer_x[row][1], y[i] = buffer_y[row];
  }
  require(tutti_trainer_step(trainer, &batch, NULL));
}

/* One time step; the drive is known, so that it is not learned. */
static void move(double state[2], double force, int step)
{
  state[1] += dt * (force + 5 * cos(1.5 * dt * step));
  state[0] += dt * state[1];
}

/* The pendulum of one rank. */
static void simulate(int rank)
{
  const tutti_trainer_options wanted = {.size = sizeof wanted,
                                        .options = options,
                                        .threads = 1,
                                        .inputs = 2,
                                        .targets = 1,
                                        .x_mean = x_mean,
                                        .x_scale = x_scale,
                                        .y_mean = &y_mean,
                                        .y_scale = &y_scale,
                                        .on_ranks = 1,
                                        .comm = MPI_Comm_c2f(MPI_COMM_WORLD)};
  const double begin = 2 - 0.5 * rank; /* angle */
  tutti_trainer *trainer = NULL;
  double state[2] = {begin, 0}, exact[2] = {begin, 0}, worst = 0, deviation; /* angle, velocity */
  require(tutti_trainer_create(&wanted, &trainer));
  for (int step = 0; step < STEPS; step++) {
    double force = predict(trainer, state, &deviation);
    if (step % 1000 == 0)
      printf("%d %2.0f %.17g %.3f %d\n", rank, dt * step, state[0], deviation, labels);
    if (labels < BATCH || deviation > tolerance) force = call_and_keep(state);
    train(trainer);
    move(state, force, step);
    move(exact, expensive(exact), step); /* only to judge the result */
    worst = fmax(worst, fabs(state[0] - exact[0]));
  }
  printf("rank %d: %d calls in %d steps, angle within %.3f rad\n", rank, labels, STEPS, worst);
  require(tutti_trainer_save(trainer, "online.h5"));
  tutti_trainer_destroy(&trainer);
}

int main(void)
{
  int rank;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  simulate(rank);
  MPI_Finalize();
  return 0;
}
