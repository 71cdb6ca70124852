/* tutti.hpp — tutti.h for C++11 and later: models close themselves, errors are exceptions, arrays
 * are std::vector. Link with libtutti. Rows, columns and layouts are those of tutti.h. */
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

/* what() is the message, code the exit code of docs/exit-codes.md. */
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

} // namespace tutti
#endif
