// optimise.cpp MODEL — an optimiser that calls an ensemble and its derivatives in every step: the
// angle at which a resting pendulum accelerates most, by gradient ascent. It maximises
// mean - 2 std, so that it does not run to where the ensemble only guesses.
#include <cstdio>
#include <exception>
#include <tutti.hpp>

int main(int argc, char **argv)
try {
  const tutti::model model(argc > 1 ? argv[1] : "out/model.h5");
  tutti::vector x = {-0.5, 0.0}; // angle, velocity
  for (int step = 0; step < 200; step++) {
    const tutti::moments value = model.predict(x), slope = model.gradient(x);
    if (step % 50 == 0)
      std::printf("%3d %.17g %.17g %.17g\n", step, x[0], value.mean[0], value.total[0]);
    x[0] += 0.02 * (slope.mean[0] - 2.0 * slope.total[0]);
  }
  const tutti::moments best = model.predict(x);
  std::printf("best angle %.4f: %s %.4f +- %.4f\n", x[0], model.column_label(0).c_str(),
              best.mean[0], best.total[0]);
} catch (const std::exception &e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
