// everything.cpp MODEL CLASSES — everything of tutti.hpp, for check_bindings.py: one number a line.
// Writes the model file trained.h5.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <tutti.hpp>

template <class T> static void print(const std::vector<T> &v)
{
  for (T x : v) std::printf("%.17g\n", static_cast<double>(x));
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

// The member function `call` must throw an E.
template <class E, class F> static void expect(const char *what, F call)
{
  try {
    call();
  } catch (const E &) {
    return;
  }
  throw std::logic_error(what);
}

static tutti_trainer_options options()
{
  static const char *const inputs[] = {"angle", "speed"}, *const target[] = {"pull"};
  static const double x_mean[] = {0.25, 0.0}, x_scale[] = {2.0, 0.5}, y_mean[] = {0.5},
                      y_scale[] = {4.0};
  static const char *const set[] = {"train.learning_rate=0.02"};
  tutti_trainer_options o{};
  o.options = "{model: {hidden: [5, 4]}, train: {batch_size: 8, epochs: 40, schedule: cosine}, "
              "ensembles: [{name: e, members: 3}], run: {seed: 7}}";
  o.set = set;
  o.nset = 1;
  o.inputs = 2;
  o.targets = 1;
  o.input_name = inputs;
  o.target_name = target;
  o.x_mean = x_mean;
  o.x_scale = x_scale;
  o.y_mean = y_mean;
  o.y_scale = y_scale;
  o.epoch_rows = 6;
  o.threads = 2;
  return o;
}

// The steps of trainer_numbers() of check_bindings.py.
static void train_steps(tutti::trainer &t, const tutti::floats &x, const tutti::floats &y)
{
  const tutti::indices rows = {0, 1, 2, 3, 5, 5, 0, 4, 2, 1, 1, 3};
  print(t.step(x, y, {1, 2, 1, 2, 1, 2}));
  print(t.step(x, y, {}, rows));
  tutti_batch own{};
  own.rows = 6;
  own.own_rows = 1;
  own.x = x.data();
  own.y = y.data();
  print(t.step(own));
  tutti::floats output = t.forward(x);
  for (size_t i = 0; i < output.size(); i++) output[i] -= y[i % y.size()];
  print(t.backward_inputs(output));
  t.update();
  const tutti::floats part = t.forward(tutti::floats(x), rows);
  t.backward(part);
  t.update();
  print(part);
  const tutti::floats last = t.forward(own);
  print(last);
  t.backward(last);
  print(t.take_gradient());
}

static void train()
{
  tutti::floats x, y;
  for (int i = 0; i < 6; i++) {
    x.push_back(static_cast<float>(i % 3 - 1) / 2);
    x.push_back(static_cast<float>(i * i % 7 - 3) / 4);
    y.push_back(x[x.size() - 2] * x.back() - x[x.size() - 2]);
  }
  tutti::trainer first(options()), t = std::move(first);
  require(t.members() == 3 && t.outputs() == 1 && t.parameters() == 44, "sizes of a trainer");
  train_steps(t, x, y);
  t.set_learning_rate(0.01);
  t.set_learning_rate(0.03, 1);
  print(tutti::vector{t.learning_rate(0), t.learning_rate(1), t.learning_rate(2)});
  std::vector<char> state = t.get_state();
  const tutti::vector loss = t.step(x, y);
  t.set_state(state);
  require(t.step(x, y) == loss, "the step after set_state");
  print(loss);
  t.set_weights(1, t.get_weights(0));
  const tutti::floats all = t.get_weights(-1);
  require(all.size() == 3 * t.get_weights(0).size(), "weights of all");
  t.set_weights(-1, all);
  t.reset(2);
  print(t.get_weights(2));
  print(t.predict(x));
  const tutti::model model = t.model();
  require(model.input_name(1) == "speed" && model.column_label(0) == "pull", "names");
  print(model.predict(tutti::vector(x.begin(), x.end())).mean);
  t.save("trained.h5");

  state.pop_back();
  expect<tutti::error>("half a state", [&] { t.set_state(state); });
  expect<tutti::error>("no gradient", [&] { t.update(); });
  expect<tutti::error>("an unknown option", [] { tutti::trainer("{modell: 1}", 2, 1); });
  expect<tutti::error>("a communicator without MPI",
                       [] { tutti::trainer("{ensembles: [{name: e, members: 1}]}", 2, 1, 1, 0); });
  expect<std::invalid_argument>("half a row", [&] { t.step({1, 2, 3}, y); });
  expect<std::invalid_argument>("labels of other rows", [&] { t.step({1, 2}, y); });
  expect<std::invalid_argument>("weights of other rows", [&] { t.step(x, y, {1}); });
  expect<std::invalid_argument>("a part of an index", [&] { t.step(x, y, {}, {1, 2}); });
  t.forward(x);
  expect<std::invalid_argument>("gradients of other rows", [&] { t.backward({1}); });
  expect<std::invalid_argument>("weights of no member", [&] { t.set_weights(0, {1}); });
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
  train();
} catch (const std::exception &e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
