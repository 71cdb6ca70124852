// everything.cpp MODEL CLASSES — everything of tutti.hpp, for check_bindings.py: one number a line.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <tutti.hpp>

static void print(const tutti::vector &v)
{
  for (double x : v) std::printf("%.17g\n", x);
}

static void print(const tutti::moments &m)
{
  print(m.mean);
  print(m.total);
  print(m.aleatoric);
  print(m.epistemic);
}

// What only the struct of tutti.h has, of a model that predicts three classes and an entropy.
static void print_classes(const tutti::model &model, const tutti::vector &x)
{
  tutti::vector entropy(12), information(12), mean(36), variance(36);
  tutti_prediction out{};
  out.entropy = entropy.data();
  out.mutual_information = information.data();
  out.member_mean = mean.data();
  out.member_variance = variance.data();
  model.predict(x, out);
  print(entropy);
  print(information);
  print(mean);
  print(variance);
}

static void require(bool truth, const char *what)
{
  if (!truth) throw std::logic_error(what);
}

int main(int, char **argv)
try {
  try {
    tutti::model none("none.h5");
    require(false, "open of a missing file");
  } catch (const tutti::error &e) {
    require(e.code == 66 && std::string(e.what()).find("none.h5") != std::string::npos, e.what());
  }
  std::ifstream in(argv[1], std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const tutti::model first(bytes.data(), static_cast<int64_t>(bytes.size())), model = first;
  require(model.inputs() == 2 && model.columns() == 1 && model.members() == 5, "sizes");
  require(model.levels() == 2 && model.level(1) == 0.9 && !model.has_classes(), "levels, classes");
  require(std::isnan(model.level(2)), "a level that does not exist");
  require(model.input_name(1) == "velocity" && model.input_name(2).empty(), "input_name");
  require(model.column_label(0) == "acceleration" && model.target_units(0).empty(), "label");
  const tutti::vector x = {0.5, -1.0, 1.0, 2.0, -3.0, 0.25};
  const tutti::moments value = model.predict(x, 2), slopes = model.predict_gradient(x, 2);
  require(value.mean == slopes.mean && value.epistemic == slopes.epistemic, "values");
  print(value);
  print({slopes.mean_gradient,
         slopes.total_gradient,
         slopes.aleatoric_gradient,
         slopes.epistemic_gradient,
         {},
         {},
         {},
         {}});
  const tutti::workspace work(model);
  tutti::vector slope(6);
  tutti_prediction force{};
  force.workspace = work.get();
  force.mean_gradient = slope.data();
  model.predict(x, force);
  require(slope == slopes.mean_gradient, "workspace");
  print(model.quantiles(x, {0.1, 0.9}));
  print(model.intervals(x).first);
  print(model.intervals(x).second);
  const tutti::model classes(argv[2]);
  require(classes.has_classes() && classes.columns() == 4, "classes");
  print_classes(classes, x);
  try {
    model.predict({0.0, HUGE_VAL});
    require(false, "an infinite input");
  } catch (const tutti::error &e) {
    require(e.code == 65, e.what());
  }
  try {
    model.predict({0.0, 0.0, 0.0});
    require(false, "one and a half rows");
  } catch (const std::invalid_argument &) {
  }
} catch (const std::exception &e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
