/* cluster.c — molecular dynamics that explores with the model of an active-learning campaign: a
 * cluster of 13 atoms with Lennard-Jones energy, in its units.
 *
 *   cluster first OUTPUT.csv SEED           the first data: 40 rows to train, 200 to test
 *   cluster explore MODEL.h5 SEED OUT.csv   the pool of a round, from trajectories of the model
 *   cluster label INPUT.csv OUTPUT.csv      the oracle: id,u0,... -> id,energy
 *
 * The inputs of the model are 1 / distance of the 78 pairs of atoms in descending order, which do not
 * depend on the position of the cluster and on the order of its atoms. The forces are the
 * derivatives of the predicted energy. A trajectory ends where the members of the ensemble disagree,
 * because labels are needed there, or where atoms overlap. */
#include "tutti.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ATOMS = 13, PAIRS = ATOMS * (ATOMS - 1) / 2 };
enum { TRAIN_ROWS = 40, TEST_ROWS = 200, TEST_EVERY = 250 };      /* steps */
enum { TRAJECTORIES = 20, MOST_STEPS = 1000, FRAME_EVERY = 10 };  /* steps */
enum { DONE = 0, TRY_AGAIN = 2, WRONG_CALL = 64, NO_INPUT = 66 }; /* exit codes */
static const double time_step = 0.005, friction = 1, radius = 2.5, most_disagreement = 1,
                    overlap = 0.8;

typedef struct pair {
  double d;
  int i, j;
} pair;

typedef struct cluster {
  double at[ATOMS][3], speed[ATOMS][3], force[ATOMS][3];
  pair pair[PAIRS]; /* in ascending order of d */
} cluster;

/* The model, and what it predicts for one cluster. */
typedef struct surrogate {
  tutti_model *model;
  tutti_workspace *workspace;
  double energy, disagreement, slope[PAIRS]; /* slope: of the energy by each distance */
} surrogate;

/* Numbers: splitmix64, Steele et al. 2014, and Box and Muller 1958 */

static double draw(uint64_t *state)
{
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
}

static double draw_normal(uint64_t *state)
{
  double length = sqrt(-2 * log(draw(state)));
  return length * cos(6.283185307179586 * draw(state));
}

/* The cluster */

static int compare(const void *a, const void *b)
{
  double x = ((const pair *)a)->d, y = ((const pair *)b)->d;
  return (x > y) - (x < y);
}

static void measure(cluster *c)
{
  int n = 0;
  for (int i = 0; i < ATOMS; i++)
    for (int j = 0; j < i; j++, n++) {
      double sum = 0;
      for (int k = 0; k < 3; k++) sum += pow(c->at[i][k] - c->at[j][k], 2);
      c->pair[n] = (pair){sqrt(sum), i, j};
    }
  qsort(c->pair, PAIRS, sizeof(pair), compare);
}

/* Twelve atoms at the corners of an icosahedron and one at its center: no cluster has a lower energy
 * than this, -44.33.
 *   shake  standard deviation of a random displacement of each coordinate */
static void build(cluster *c, double shake, uint64_t *seed)
{
  const double golden = 1.618033988749895, scale = 1.082 / sqrt(1 + golden * golden);
  memset(c, 0, sizeof *c);
  for (int i = 0; i < 12; i++) {
    int axis = i / 4;
    c->at[i][axis] = i & 1 ? scale : -scale;
    c->at[i][(axis + 1) % 3] = i & 2 ? scale * golden : -scale * golden;
  }
  for (int i = 0; i < ATOMS; i++)
    for (int k = 0; k < 3; k++) c->at[i][k] += shake * draw_normal(seed);
  measure(c);
}

/* Energy from the inputs of the model: u = 1 / distance of each pair. */
static double energy(const double u[PAIRS])
{
  double sum = 0;
  for (int n = 0; n < PAIRS; n++) sum += 4 * (pow(u[n], 12) - pow(u[n], 6));
  return sum;
}

/* slope: derivatives of the energy by the distances; a soft wall holds atoms that evaporate. */
static void set_forces(cluster *c, const double slope[PAIRS])
{
  for (int i = 0; i < ATOMS; i++) {
    double r =
        sqrt(c->at[i][0] * c->at[i][0] + c->at[i][1] * c->at[i][1] + c->at[i][2] * c->at[i][2]);
    double wall = r > radius ? -20 * (r - radius) / r : 0;
    for (int k = 0; k < 3; k++) c->force[i][k] = wall * c->at[i][k];
  }
  for (int n = 0; n < PAIRS; n++) {
    const pair *p = &c->pair[n];
    for (int k = 0; k < 3; k++) {
      double f = -slope[n] * (c->at[p->i][k] - c->at[p->j][k]) / p->d;
      c->force[p->i][k] += f;
      c->force[p->j][k] -= f;
    }
  }
}

static void true_forces(cluster *c)
{
  double slope[PAIRS];
  for (int n = 0; n < PAIRS; n++) {
    double s = pow(c->pair[n].d, -6);
    slope[n] = -24 * s * (2 * s - 1) / c->pair[n].d;
  }
  set_forces(c, slope);
}

/* Langevin dynamics in the order BAOAB, Leimkuhler and Matthews 2013: before and after the forces. */
static void move(cluster *c, double temperature, uint64_t *seed)
{
  double keep = exp(-friction * time_step), noise = sqrt(temperature * (1 - keep * keep));
  for (int i = 0; i < ATOMS; i++)
    for (int k = 0; k < 3; k++) {
      double v = c->speed[i][k] + time_step / 2 * c->force[i][k];
      double w = keep * v + noise * draw_normal(seed);
      c->at[i][k] += time_step / 2 * (v + w);
      c->speed[i][k] = w;
    }
  measure(c);
}

static void finish_move(cluster *c)
{
  for (int i = 0; i < ATOMS; i++)
    for (int k = 0; k < 3; k++) c->speed[i][k] += time_step / 2 * c->force[i][k];
}

static void print_inputs(FILE *out, const cluster *c)
{
  for (int n = 0; n < PAIRS; n++) fprintf(out, "%s%.9g", n ? "," : "", 1 / c->pair[n].d);
}

static void print_header(FILE *out, const char *more)
{
  for (int n = 0; n < PAIRS; n++) fprintf(out, "%su%d", n ? "," : "", n);
  fprintf(out, "%s\n", more);
}

/* The first data: the icosahedron, shaken, to train; a long trajectory of the true forces to test. */

static void print_row(FILE *out, const cluster *c, int split)
{
  double u[PAIRS];
  for (int n = 0; n < PAIRS; n++) u[n] = 1 / c->pair[n].d;
  print_inputs(out, c);
  fprintf(out, ",%.9g,%d\n", energy(u), split);
}

static int first(FILE *out, uint64_t seed)
{
  cluster c;
  print_header(out, ",energy,split");
  for (int i = 0; i < TRAIN_ROWS; i++) {
    build(&c, 0.05 * draw(&seed), &seed);
    print_row(out, &c, 0);
  }
  build(&c, 0, &seed);
  true_forces(&c);
  for (int step = 1; step <= TEST_ROWS * TEST_EVERY; step++) {
    move(&c, 0.3, &seed);
    true_forces(&c);
    finish_move(&c);
    if (step % TEST_EVERY == 0) print_row(out, &c, 2);
  }
  return DONE;
}

/* The pool: trajectories of the model */

static int ask(surrogate *s, const cluster *c)
{
  double x[PAIRS];
  for (int n = 0; n < PAIRS; n++) x[n] = 1 / c->pair[n].d;
  const tutti_prediction p = {.size = sizeof p,
                              .workspace = s->workspace,
                              .mean = &s->energy,
                              .epistemic = &s->disagreement,
                              .mean_gradient = s->slope};
  int code = tutti_predict(s->model, 1, x, 1, &p);
  for (int n = 0; n < PAIRS; n++) s->slope[n] *= -x[n] * x[n];
  return code;
}

static int run_trajectory(surrogate *s, double temperature, uint64_t *seed, FILE *out)
{
  cluster c;
  int code = 0;
  build(&c, 0.02, seed);
  for (int step = 1; step <= MOST_STEPS; step++) {
    if (c.pair[0].d < overlap) break;
    code = ask(s, &c);
    if (code) break;
    set_forces(&c, s->slope);
    if (step > 1) finish_move(&c);
    int last = !(s->disagreement < most_disagreement);
    if (last || step % FRAME_EVERY == 0) {
      print_inputs(out, &c);
      fputc('\n', out);
    }
    if (last) break;
    move(&c, temperature, seed);
  }
  return code;
}

static int explore(const char *model, uint64_t seed, FILE *out)
{
  surrogate s = {0};
  int code = tutti_open(model, &s.model);
  if (!code && (tutti_inputs(s.model) != PAIRS || tutti_columns(s.model) != 1)) code = NO_INPUT;
  if (!code) code = tutti_workspace_create(s.model, 1, &s.workspace);
  print_header(out, "");
  for (int i = 0; i < TRAJECTORIES && !code; i++)
    code = run_trajectory(&s, 0.1 + 0.3 * draw(&seed), &seed, out);
  if (code) fprintf(stderr, "cluster: %s: %s\n", model, tutti_error());
  tutti_workspace_destroy(&s.workspace);
  tutti_close(&s.model);
  return code;
}

/* The oracle */

static int label(const char *input, FILE *out)
{
  long long id;
  double u[PAIRS];
  FILE *in = fopen(input, "r");
  if (!in || fscanf(in, "%*[^\n]") == EOF) {
    fprintf(stderr, "cluster: %s: %s\n", input, strerror(errno));
    return NO_INPUT;
  }
  fprintf(out, "id,energy\n");
  while (fscanf(in, "%lld", &id) == 1) {
    int n = 0;
    while (n < PAIRS && fscanf(in, ",%lf", &u[n]) == 1) n++;
    if (n == PAIRS) fprintf(out, "%lld,%.17g\n", id, energy(u));
  }
  int code = feof(in) ? DONE : NO_INPUT;
  fclose(in);
  return code;
}

/* The output gets its name when it is complete: after a kill the campaign reads every output that
 * exists. */
static int write_file(const char *output, char **argv)
{
  char part[4096];
  if (snprintf(part, sizeof part, "%s.part", output) >= (int)sizeof part) return WRONG_CALL;
  FILE *out = fopen(part, "w");
  int code = !out                ? TRY_AGAIN
             : argv[1][0] == 'f' ? first(out, strtoull(argv[3], NULL, 10))
             : argv[1][0] == 'e' ? explore(argv[2], strtoull(argv[3], NULL, 10), out)
                                 : label(argv[2], out);
  if (out && (fclose(out) || (!code && rename(part, output)))) code = TRY_AGAIN;
  if (code == TRY_AGAIN) fprintf(stderr, "cluster: %s: %s\n", output, strerror(errno));
  return code;
}

int main(int argc, char **argv)
{
  if (argc == 4 && !strcmp(argv[1], "first")) return write_file(argv[2], argv);
  if (argc == 5 && !strcmp(argv[1], "explore")) return write_file(argv[4], argv);
  if (argc == 4 && !strcmp(argv[1], "label")) return write_file(argv[3], argv);
  fprintf(stderr, "usage: cluster first OUTPUT.csv SEED | explore MODEL.h5 SEED OUTPUT.csv | "
                  "label INPUT.csv OUTPUT.csv\n");
  return WRONG_CALL;
}
