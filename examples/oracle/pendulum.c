/* pendulum.c — a simulator that an active-learning campaign calls: a damped pendulum let go at an
 * angle. The only part that depends on tutti is its exit codes.
 *
 *   pendulum INPUT.csv OUTPUT.csv     label: id,length,damping,angle -> id,period,swing
 *   pendulum --design N SEED          N random points with their labels: the first data
 *   pendulum --candidates N SEED      N random points without: the pool
 *
 * angle'' = -g / length * sin(angle) - damping * angle', by Runge and Kutta's method of order 4.
 * period: seconds until the pendulum is back on the initial side; swing: largest angle there, in
 * degrees. Both are nan for a pendulum that does not come back within a minute. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Exit codes: 65 = these points cannot be labeled, others from 64 on stop the campaign, others: try
 * again. */
enum { DONE = 0, TRY_AGAIN = 2, WRONG_CALL = 64, NO_INPUT = 66 };

typedef struct point {
  double length, damping, angle; /* m, 1/s, degrees */
} point;

static const double degree = 3.14159265358979323846 / 180.0;

static double pull(const point *p, double angle, double speed)
{
  return -9.81 / p->length * sin(angle) - p->damping * speed;
}

static void step(const point *p, double h, double *angle, double *speed)
{
  double a = *angle, s = *speed;
  double a1 = s, s1 = pull(p, a, s);
  double a2 = s + h / 2 * s1, s2 = pull(p, a + h / 2 * a1, s + h / 2 * s1);
  double a3 = s + h / 2 * s2, s3 = pull(p, a + h / 2 * a2, s + h / 2 * s2);
  double a4 = s + h * s3, s4 = pull(p, a + h * a3, s + h * s3);
  *angle += h / 6 * (a1 + 2 * a2 + 2 * a3 + a4);
  *speed += h / 6 * (s1 + 2 * s2 + 2 * s3 + s4);
}

/* The direction changes twice: on the far side, and back on the initial side. */
static void simulate(const point *p, double *period, double *swing)
{
  const double h = 1e-3;
  double angle = p->angle * degree, speed = 0, before = 0;
  int turns = 0;
  *period = *swing = NAN;
  for (int64_t n = 0; n < 60000 && turns < 2; n++) {
    before = speed;
    step(p, h, &angle, &speed);
    turns += turns ? before > 0 && speed <= 0 : before < 0 && speed >= 0;
    if (turns < 2) continue;
    *period = h * ((double)n + before / (before - speed));
    *swing = angle / degree;
  }
}

/* Uniform in [low, high): splitmix64, Steele et al. 2014. */
static double draw(uint64_t *state, double low, double high)
{
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return low + (high - low) * (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static int print_points(int64_t n, uint64_t seed, int labeled)
{
  printf("length,damping,angle%s\n", labeled ? ",period,swing" : "");
  while (n-- > 0) {
    point p = {draw(&seed, 0.1, 2.0), draw(&seed, 0.0, 1.0), draw(&seed, 5.0, 175.0)};
    printf("%.9g,%.9g,%.9g", p.length, p.damping, p.angle);
    double period, swing;
    if (labeled) {
      simulate(&p, &period, &swing);
      printf(",%.9g,%.9g", period, swing);
    }
    putchar('\n');
  }
  return DONE;
}

static int label(FILE *in, FILE *out)
{
  long long id;
  point p;
  double period, swing;
  if (fscanf(in, "%*[^\n]") == EOF) return NO_INPUT; /* column names */
  fprintf(out, "id,period,swing\n");
  while (fscanf(in, "%lld,%lf,%lf,%lf", &id, &p.length, &p.damping, &p.angle) == 4) {
    simulate(&p, &period, &swing);
    fprintf(out, "%lld,%.17g,%.17g\n", id, period, swing);
  }
  return feof(in) ? DONE : NO_INPUT;
}

/* Use another name until the file is complete: after a kill the campaign reads existing outputs. */
static int label_file(const char *input, const char *output)
{
  char part[4096];
  if (snprintf(part, sizeof part, "%s.part", output) >= (int)sizeof part) return WRONG_CALL;
  FILE *in = fopen(input, "r");
  if (!in) {
    fprintf(stderr, "pendulum: %s: %s\n", input, strerror(errno));
    return NO_INPUT;
  }
  FILE *out = fopen(part, "w");
  int code = out ? label(in, out) : TRY_AGAIN;
  if (out && (fclose(out) || (!code && rename(part, output)))) code = TRY_AGAIN;
  if (code) fprintf(stderr, "pendulum: %s: %s\n", output, strerror(errno));
  fclose(in);
  return code;
}

int main(int argc, char **argv)
{
  int labeled = argc == 4 && !strcmp(argv[1], "--design");
  if (labeled || (argc == 4 && !strcmp(argv[1], "--candidates")))
    return print_points(atoll(argv[2]), (uint64_t)atoll(argv[3]), labeled);
  if (argc == 3) return label_file(argv[1], argv[2]);
  fprintf(stderr, "usage: pendulum INPUT.csv OUTPUT.csv | --design N SEED | --candidates N SEED\n");
  return WRONG_CALL;
}
