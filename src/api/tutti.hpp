/* tutti.hpp — tutti.h for C++11 and later: models and trainers close themselves, errors are
 * exceptions, arrays are std::vector. Link with libtutti. Rows, columns and layouts are those of
 * tutti.h. */
#ifndef TUTTI_HPP
#define TUTTI_HPP
#include <tutti.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tutti
{
using vector = std::vector<double>;
using floats = std::vector<float>; /* of a trainer */
using indices = std::vector<int32_t>;

/* what() is the message, code the exit code of docs/troubleshooting.md. */
struct error : std::runtime_error {
  int code;
  explicit error(int code_) : std::runtime_error(tutti_error()), code(code_) {}
};

/* For the functions of tutti.h that return an exit code. */
inline void check(int code)
{
  if (code) throw error(code);
}

/* [rows][columns]; their derivatives, if they are wanted, [rows][columns][inputs]. */
struct moments {
  vector mean, total, aleatoric, epistemic;
  vector mean_gradient, total_gradient, aleatoric_gradient, epistemic_gradient;
};

/* A trained ensemble. Copies share it; const functions may be called from several threads. Of the
 * functions that predict, x is [rows][inputs]; threads 0: all cores. */
class model
{
public:
  explicit model(const std::string &file) : model(file.c_str(), nullptr, 0) {}
  model(const void *bytes, int64_t size) : model(nullptr, bytes, size) {}
  explicit model(tutti_model *opened) { own(opened); }    /* which it closes */
  const tutti_model *get() const { return model_.get(); } /* for the functions of tutti.h */

  int64_t inputs() const { return tutti_inputs(get()); }
  int64_t columns() const { return tutti_columns(get()); }
  int64_t members() const { return tutti_members(get()); }
  int64_t levels() const { return tutti_levels(get()); }
  double level(int64_t l) const { return tutti_level(get(), l); }
  bool has_classes() const { return tutti_has_classes(get()) != 0; }
  std::string input_name(int64_t i) const { return text(tutti_input_name(get(), i)); }
  std::string column_label(int64_t c) const { return text(tutti_column_label(get(), c)); }
  std::string target_units(int64_t c) const { return text(tutti_target_units(get(), c)); }
  /* Levels of an input, none for amounts; the number that stands for a level in x. */
  std::vector<std::string> input_levels(int64_t i) const
  {
    std::vector<std::string> levels(static_cast<size_t>(tutti_input_levels(get(), i)));
    for (size_t l = 0; l < levels.size(); l++)
      levels[l] = tutti_input_level(get(), i, static_cast<int64_t>(l));
    return levels;
  }
  double level_value(int64_t i, const std::string &level) const
  {
    return tutti_level_value(get(), i, level.c_str());
  }

  moments predict(const vector &x, int threads = 1) const { return compute(x, 0, threads); }
  /* With the derivatives by the inputs. */
  moments predict_gradient(const vector &x, int threads = 1) const
  {
    return compute(x, inputs(), threads);
  }
  /* Anything of tutti_prediction, whose size is set here; the arrays belong to the caller. With a
   * workspace nothing is allocated (tutti.h). */
  void predict(const vector &x, const tutti_prediction &out, int threads = 1) const
  {
    tutti_prediction wanted = out;
    wanted.size = sizeof wanted;
    check(tutti_predict(get(), rows(x), x.data(), threads, &wanted));
  }
  /* [probability][rows][columns] quantiles of the mixture. */
  vector quantiles(const vector &x, const vector &probability, int threads = 1) const
  {
    vector q(probability.size() * static_cast<size_t>(rows(x) * columns()));
    tutti_prediction out{};
    out.quantiles = static_cast<int64_t>(probability.size());
    out.probability = probability.data();
    out.quantile = q.data();
    predict(x, out, threads);
    return q;
  }
  /* Conformal intervals: lower, then upper, [levels][rows][columns] each. */
  std::pair<vector, vector> intervals(const vector &x, int threads = 1) const
  {
    const vector v(static_cast<size_t>(levels() * rows(x) * columns()));
    std::pair<vector, vector> bounds(v, v);
    tutti_prediction out{};
    out.lower = bounds.first.data();
    out.upper = bounds.second.data();
    predict(x, out, threads);
    return bounds;
  }

private:
  std::shared_ptr<tutti_model> model_;

  model(const char *file, const void *bytes, int64_t size)
  {
    tutti_model *m = nullptr;
    check(file ? tutti_open(file, &m) : tutti_open_memory(bytes, size, &m));
    own(m);
  }
  void own(tutti_model *m)
  {
    model_.reset(m, [](tutti_model *closed) { tutti_close(&closed); });
  }
  static std::string text(const char *t) { return t ? t : ""; }
  int64_t rows(const vector &x) const
  {
    const int64_t size = static_cast<int64_t>(x.size());
    if (size % inputs()) throw std::invalid_argument("x is no whole number of rows");
    return size / inputs();
  }
  moments compute(const vector &x, int64_t slopes, int threads) const
  {
    const vector v(static_cast<size_t>(rows(x) * columns()));
    const vector g(v.size() * static_cast<size_t>(slopes));
    moments m{v, v, v, v, g, g, g, g};
    tutti_prediction out{};
    out.mean = m.mean.data();
    out.total = m.total.data();
    out.aleatoric = m.aleatoric.data();
    out.epistemic = m.epistemic.data();
    if (slopes) {
      out.mean_gradient = m.mean_gradient.data();
      out.total_gradient = m.total_gradient.data();
      out.aleatoric_gradient = m.aleatoric_gradient.data();
      out.epistemic_gradient = m.epistemic_gradient.data();
    }
    predict(x, out, threads);
    return m;
  }
};

/* Memory for calls of model.predict, one at a time: see tutti.h. It keeps its model open. */
class workspace
{
public:
  explicit workspace(const model &of, int threads = 1) : of_(of)
  {
    tutti_workspace *w = nullptr;
    check(tutti_workspace_create(of.get(), threads, &w));
    work_.reset(w);
  }
  tutti_workspace *get() const { return work_.get(); } /* for tutti_prediction */

private:
  struct destroy {
    void operator()(tutti_workspace *w) const { tutti_workspace_destroy(&w); }
  };
  model of_;
  std::unique_ptr<tutti_workspace, destroy> work_;
};

/* Members that are trained step by step (docs/trainer.md); for one call at a time. x [rows][inputs],
 * y [rows][targets]; outputs and gradients by them [members][rows of a step][outputs]. */
class trainer
{
public:
  /* YAML text with sections of a job file, and the columns of x and y; threads 0: all cores. */
  trainer(const std::string &options, int64_t inputs, int64_t targets, int threads = 1)
      : trainer(describe(options, inputs, targets, threads))
  {
  }
  /* On the ranks of a communicator of the program, given as MPI_Comm_c2f(comm). */
  trainer(const std::string &options, int64_t inputs, int64_t targets, int threads, int comm)
      : trainer(describe(options, inputs, targets, threads, 1, comm))
  {
  }
  /* Anything of tutti_trainer_options, whose size is set here. */
  explicit trainer(const tutti_trainer_options &options)
      : inputs_(options.inputs), targets_(options.targets), on_ranks_(options.on_ranks)
  {
    tutti_trainer_options wanted = options;
    tutti_trainer *t = nullptr;
    wanted.size = sizeof wanted;
    check(tutti_trainer_create(&wanted, &t));
    trainer_.reset(t);
  }
  tutti_trainer *get() const { return trainer_.get(); } /* for the functions of tutti.h */

  int64_t members() const { return tutti_trainer_members(get()); }
  int64_t outputs() const { return tutti_trainer_outputs(get()); }
  int64_t parameters() const { return tutti_trainer_parameters(get()); }

  /* One optimizer step of every member; the mean loss of each. Each member takes all rows, or those
   * that index [members][rows of a step] names. weight [rows] in the loss; empty: not given. */
  vector step(const floats &x, const floats &y, const floats &weight = {},
              const indices &index = {})
  {
    tutti_batch b = batch(x, index);
    require(y.size() == static_cast<size_t>(b.rows * targets_), "y has not the rows of x");
    require(weight.empty() || weight.size() == static_cast<size_t>(b.rows),
            "weight has not the rows of x");
    b.y = y.data();
    b.weight = weight.empty() ? nullptr : weight.data();
    return step(b);
  }
  /* Anything of tutti_batch, whose size is set here, e.g. own_rows. */
  vector step(const tutti_batch &rows)
  {
    tutti_batch b = rows;
    b.size = sizeof b;
    vector loss(static_cast<size_t>(members()));
    check(tutti_trainer_step(get(), &b, loss.data()));
    return loss;
  }
  /* Outputs as a training step computes them, for a loss of the program; x and index are copied, as
   * backward reads them again. */
  floats forward(const floats &x, const indices &index = {})
  {
    batch(x, index); /* throws before anything has changed */
    x_ = x;
    index_ = index;
    return forward(batch(x_, index_));
  }
  /* The arrays belong to the caller, and must be there until backward. */
  floats forward(const tutti_batch &rows)
  {
    require(!on_ranks_, "on ranks use tutti_trainer_forward, with room for the rows of all ranks");
    tutti_batch b = rows;
    b.size = sizeof b;
    const int64_t all = b.own_rows ? b.rows / members() : b.rows;
    rows_ = b.count > 0 ? b.count : all > 0 ? all : 0;
    floats output(values(rows_, outputs()));
    check(tutti_trainer_forward(get(), &b, output.data()));
    return output;
  }
  /* Add up gradients for update; the derivatives of the loss by the outputs are given. */
  void backward(const floats &gradient)
  {
    require(gradient.size() == values(rows_, outputs()),
            "gradient has not the size of the outputs");
    check(tutti_trainer_backward(get(), gradient.data(), nullptr));
  }
  /* The same; returns the derivatives of the loss by x, [members][rows of a step][inputs]. */
  floats backward_inputs(const floats &gradient)
  {
    require(gradient.size() == values(rows_, outputs()),
            "gradient has not the size of the outputs");
    floats slope(values(rows_, inputs_));
    check(tutti_trainer_backward(get(), gradient.data(), slope.data()));
    return slope;
  }
  void update() { check(tutti_trainer_update(get())); }
  /* [members][parameters], instead of update, for an optimizer of the program. */
  floats take_gradient()
  {
    floats gradient(values(1, parameters()));
    check(tutti_trainer_take_gradient(get(), gradient.data()));
    return gradient;
  }

  /* [members][rows][outputs] as in predictions, without dropout. */
  floats predict(const floats &x)
  {
    const int64_t count = batch(x, {}).rows;
    floats output(values(count, outputs()));
    check(tutti_trainer_predict(get(), count, x.data(), output.data()));
    return output;
  }
  /* The members as they are now. */
  tutti::model model()
  {
    tutti_model *m = nullptr;
    check(tutti_trainer_model(get(), &m));
    return tutti::model(m);
  }
  void save(const std::string &file) { check(tutti_trainer_save(get(), file.c_str())); }

  floats get_weights(int64_t member) /* -1: of all */
  {
    floats weights(static_cast<size_t>(parameters() * (member == -1 ? members() : 1)));
    check(tutti_trainer_get_weights(get(), member, weights.data()));
    return weights;
  }
  void set_weights(int64_t member, const floats &weights)
  {
    require(weights.size() == static_cast<size_t>(parameters() * (member == -1 ? members() : 1)),
            "weights are not those of a member, or of all");
    check(tutti_trainer_set_weights(get(), member, weights.data()));
  }
  double learning_rate(int64_t member) const { return tutti_trainer_learning_rate(get(), member); }
  void set_learning_rate(double rate, int64_t member = -1) /* -1: of all */
  {
    check(tutti_trainer_set_learning_rate(get(), member, rate));
  }
  void reset(int64_t member) { check(tutti_trainer_reset(get(), member)); }
  std::vector<char> get_state()
  {
    std::vector<char> state(static_cast<size_t>(tutti_trainer_state_bytes(get())));
    check(tutti_trainer_get_state(get(), state.data()));
    return state;
  }
  void set_state(const std::vector<char> &state)
  {
    check(tutti_trainer_set_state(get(), state.data(), static_cast<int64_t>(state.size())));
  }

private:
  struct destroy {
    void operator()(tutti_trainer *t) const { tutti_trainer_destroy(&t); }
  };
  std::unique_ptr<tutti_trainer, destroy> trainer_;
  int64_t inputs_, targets_, rows_ = 0; /* rows of the last forward, for each member */
  floats x_;                            /* of the last forward */
  indices index_;
  int on_ranks_;

  static tutti_trainer_options describe(const std::string &options, int64_t inputs, int64_t targets,
                                        int threads, int on_ranks = 0, int comm = 0)
  {
    tutti_trainer_options o{};
    o.options = options.c_str();
    o.inputs = inputs;
    o.targets = targets;
    o.threads = threads;
    o.on_ranks = on_ranks;
    o.comm = comm;
    return o;
  }
  static void require(bool truth, const char *what)
  {
    if (!truth) throw std::invalid_argument(what);
  }
  size_t values(int64_t count, int64_t each) const
  {
    return static_cast<size_t>(members() * count * each);
  }
  tutti_batch batch(const floats &x, const indices &index) const
  {
    tutti_batch b{};
    b.rows = static_cast<int64_t>(x.size()) / inputs_;
    b.count = static_cast<int64_t>(index.size()) / members();
    require(x.size() == static_cast<size_t>(b.rows * inputs_), "x is no whole number of rows");
    require(index.size() == static_cast<size_t>(b.count * members()),
            "index has not the same number of rows for each member");
    b.x = x.data();
    b.index = index.empty() ? nullptr : index.data();
    return b;
  }
};

} // namespace tutti
#endif
