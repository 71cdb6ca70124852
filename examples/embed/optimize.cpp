// optimize.cpp MODEL — an optimizer that calls an ensemble and its derivatives in every step: the
// angle at which a resting pendulum accelerates most, by gradient ascent. It maximizes
// mean - 2 std, so that it does not run to where the ensemble only guesses.
#include <cstdio>
#include <exception>
#include <tutti.hpp>

int main(int argc, char **argv)
try {
  const tutti::model model(argc > 1 ? argv[1] : "out/model.h5");
  const tutti::workspace work(model);                         // so that no step allocates memory
  tutti::vector x = {-0.5, 0.0}, mean_slope(2), std_slope(2); // angle, velocity
  double mean, std;
  tutti_prediction at{};
  at.workspace = work.get();
  at.mean = &mean;
  at.total = &std;
  at.mean_gradient = mean_slope.data();
  at.total_gradient = std_slope.data();
  for (int step = 0; step <= 200; step++) {
    model.predict(x, at);
    if (step % 50 == 0 && step < 200) std::printf("%3d %.17g %.17g %.17g\n", step, x[0], mean, std);
    if (step < 200) x[0] += 0.02 * (mean_slope[0] - 2.0 * std_slope[0]);
  }
  std::printf("best angle %.4f: %s %.4f +- %.4f\n", x[0], model.column_label(0).c_str(), mean, std);
} catch (const std::exception &e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
