"""fit and predict: equal to the command line, names and units, errors, resume."""
import multiprocessing
import os
import pathlib
import pickle
import subprocess
import tempfile
import unittest

import h5py
import numpy as np

from common import SMALL, TUTTI, numbers
import tutti


def predict_by_command(model, x, *options):
    """What `tutti predict` writes for rows x."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "x.h5"), os.path.join(folder, "p.h5")
        with h5py.File(source, "w") as f:
            f["x"] = x
        subprocess.run([TUTTI, "predict", model, source, "-o", target, "-q", *options], check=True)
        with h5py.File(target) as f:
            return {name: f[name][()] for name in f if isinstance(f[name], h5py.Dataset)}


# Names of Prediction and of the variables of a prediction file.
VARIABLES = {"mean": "y_pred_mean", "std": "y_pred_std", "aleatoric": "y_pred_std_aleatoric",
             "epistemic": "y_pred_std_epistemic", "quantiles": "y_pred_quantile",
             "lower": "y_pred_lower", "upper": "y_pred_upper", "entropy": "y_entropy",
             "mutual_information": "y_mutual_information", "member_mean": "y_member_mean",
             "member_variance": "y_member_variance", "extrapolation": "extrapolation"}


# In a process of a pool: the model of the parent, and what it predicts here.
_inherited = []


def _use(model):
    _inherited[:] = [model]


def _predict(x):
    p = _inherited[0].predict(x, gradient=True)
    return p.mean, p.mean_gradient


class FitAndPredict(unittest.TestCase):
    def check_bits(self, fitted, x, names, options=(), **call):
        p = fitted.predict(x, **call)
        model = fitted.run_.path("model.h5")
        file = predict_by_command(model, x, "--jacobian", *options)
        self.assertEqual(set(p), {"mean", "std", "aleatoric", "epistemic", "extrapolation",
                                  *names})
        for name in p:
            expected = file[VARIABLES[name]]
            np.testing.assert_array_equal(p[name].reshape(expected.shape), expected, err_msg=name)
            self.assertFalse(np.isnan(p[name]).all(), name)
        labels = file["column_label"].view(f"S{file['column_label'].shape[1]}")[:, 0]
        self.assertEqual([c.rpartition(": ")[2] for c in p.columns],
                         [label.decode() for label in labels])
        slopes = tutti.Model(model).predict(x, gradient=True)
        for name in ("mean", "std", "aleatoric", "epistemic"):  # in single precision, and in double
            expected = file[VARIABLES[name] + "_jacobian"]
            np.testing.assert_array_equal(slopes[name], p[name], err_msg=name)
            np.testing.assert_allclose(slopes[name + "_gradient"].reshape(expected.shape), expected,
                                       rtol=0, atol=1e-4 * abs(expected).max(), err_msg=name)
        return p

    def test_bits_of_everything(self):
        x, y = numbers(rows=300, targets=2)
        fitted = tutti.Ensemble(**SMALL, loss="gaussian_nll", conformal=[0.5, 0.8]).fit(x, y)
        p = self.check_bits(fitted, x, ("quantiles", "lower", "upper", "member_mean",
                                        "member_variance"), ("--quantiles", "0.1,0.9",
                                                             "--members"),
                            quantiles=[0.1, 0.9], members=True)
        self.assertEqual(p.quantiles.shape, (2, 300, 2))
        self.assertEqual(tutti.Model(fitted.run_.path("model.h5")).levels, [0.5, 0.8])
        self.assertEqual(p.member_mean.shape, (3, 300, 2))
        many = np.tile(x, (20, 1))  # more rows than the library predicts at a time
        q = fitted.predict(many, quantiles=[0.1, 0.9], members=True)
        self.assertGreater(fitted.predict(2 * x).extrapolation.max(), 0.1)
        for name in set(p) - {"extrapolation"}:
            rows = q[name].shape[-2]
            self.assertEqual(rows, 6000)
            np.testing.assert_array_equal(q[name][..., 5700:, :], p[name], err_msg=name)

    def test_gradient_is_the_slope_of_predict(self):
        x, y = numbers(rows=40, targets=2)
        fitted = tutti.Ensemble(**SMALL, loss="gaussian_nll", activation="tanh").fit(x, y)
        model = tutti.Model(fitted.run_.path("model.h5"))
        slopes, step = model.predict(x, gradient=True), 0.03  # predictions are in single precision
        for i, move in enumerate(step * np.eye(3)):
            low, high = model.predict(x - move), model.predict(x + move)
            for name in ("mean", "std", "aleatoric", "epistemic"):
                np.testing.assert_allclose(slopes[name + "_gradient"][:, :, i], (high[name] - low[name]) / (2 * step),
                                           rtol=0.05, atol=0.01, err_msg=name)

    def test_processes_of_a_pool_predict(self):
        x, y = numbers(rows=600)  # enough for several threads
        fitted = tutti.Ensemble(**SMALL).fit(x, y)
        model = tutti.Model(fitted.run_.path("model.h5"))
        p = model.predict(x, gradient=True)
        expected = p.mean, p.mean_gradient
        with multiprocessing.get_context("fork").Pool(2, _use, (model,)) as pool:
            for results in pool.map_async(_predict, [x, x]).get(60):
                for got, want in zip(results, expected):
                    np.testing.assert_array_equal(got, want)

    def test_bits_of_several_networks(self):
        x, y = numbers(targets=2)
        two = [{"name": "a", "target": "y0", "model": {"hidden": [3]}},
               {"name": "b", "targets": ["y1", "y0"], "train": {"loss": "gaussian_nll"}}]
        fitted = tutti.Ensemble(**SMALL, ensembles=two).fit(x, y)
        p = self.check_bits(fitted, x, ("member_mean", "member_variance"), ["--members"],
                            members=True)
        self.assertEqual(p.columns, ["a: y0", "b: y1", "b: y0"])

    def test_bits_of_classes_and_levels(self):
        x, y = numbers()
        for loss, target in (("cross_entropy", np.digitize(y, [-0.5, 0.5])), ("bce", y > 0)):
            fitted = tutti.Ensemble(**SMALL, loss=loss).fit(x, target)
            self.check_bits(fitted, x, ("entropy", "mutual_information"))
            with self.assertRaisesRegex(tutti.InputError, "only classes or quantiles"):
                fitted.predict(x, quantiles=[0.5])
        p = self.check_bits(tutti.Ensemble(**SMALL, loss="quantile", model={
            "quantiles": [0.1, 0.9]}).fit(x, y), x, ())
        self.assertEqual(p.columns, ["y0 q0.1", "y0 q0.9"])
        with self.assertRaisesRegex(tutti.InputError, "quantile 1 is not between 0 and 1"):
            tutti.Ensemble(**SMALL).fit(x, y).predict(x, quantiles=[1])

    def test_the_job_is_that_of_a_person(self):
        x, y = numbers()
        with tempfile.TemporaryDirectory() as folder:
            a, b = os.path.join(folder, "a"), os.path.join(folder, "b")
            tutti.Ensemble(**SMALL, directory=a).fit(x, y)
            os.mkdir(b)
            pathlib.Path(b, "job.yaml").write_text(
                "data: {file: ../a/data.h5}\nmodel: {hidden: [4]}\ntrain: {epochs: 3}\n"
                "ensembles: [{name: ensemble, members: 3}]\nrun: {device: cpu, directory: .}\n")
            subprocess.run([TUTTI, "train", b + "/job.yaml", "-q"], check=True,
                           stdout=subprocess.DEVNULL)
            one, two = (h5py.File(d + "/model.h5")["net/parameters"][()] for d in (a, b))
            np.testing.assert_array_equal(one, two)

    def test_files_are_relative_to_the_caller(self):
        x, y = numbers()
        self.addCleanup(os.chdir, os.getcwd())
        with tempfile.TemporaryDirectory() as here:
            os.chdir(here)
            old = tutti.Ensemble(**SMALL, directory="old").fit(x, y)
            expected = old.predict(x).mean
            for start in ("old/model.h5", pathlib.Path("old/model.h5"), old.run_):
                new = tutti.Ensemble(**SMALL, init_from=start, learning_rate=1e-12,
                                     directory="new").fit(x, y, resume=False)
                np.testing.assert_allclose(new.predict(x).mean, expected, atol=1e-5)
            os.chdir("/")

    def test_one_column_has_one_dimension(self):
        x, y = numbers()
        p = tutti.Ensemble(**SMALL).fit(x, y).predict(x[:5])
        self.assertEqual(p.mean.shape, (5,))
        self.assertIs(p["std"], p.std)

    def test_pickle_and_two_objects(self):
        x, y = numbers()
        first = tutti.Ensemble(**SMALL).fit(x, y)
        second = tutti.Ensemble(**{**SMALL, "seed": 2}).fit(x, y)
        copy = pickle.loads(pickle.dumps(first))
        mean = first.predict(x).mean
        self.assertTrue((mean != second.predict(x).mean).any())
        del first
        np.testing.assert_array_equal(copy.predict(x).mean, mean)


class Parameters(unittest.TestCase):
    def test_names_are_those_of_the_yaml(self):
        job = tutti.Ensemble(hidden=[8], epochs=5, dropout=0.1, conformal=[0.9], seed=3,
                             validation=0.2, train={"l2": 0.5}, train__patience=4,
                             checkpoint={"every": "10min"}, members=7).job()
        self.assertEqual(job, {
            "model": {"hidden": [8]}, "train": {"l2": 0.5, "patience": 4, "epochs": 5,
                                                "dropout": 0.1},
            "run": {"baselines": False, "seed": 3}, "calibration": {"conformal": [0.9]},
            "data": {"split": {"validation": 0.2}}, "checkpoint": {"every": "10min"},
            "ensembles": [{"name": "ensemble", "members": 7}]})
        named = tutti.Ensemble(name="heat", members=2).job()
        self.assertEqual(named["ensembles"], [{"name": "heat", "members": 2}])

    def test_values_reach_the_program(self):
        x, y = numbers()
        fitted = tutti.Ensemble(**SMALL, checkpoint={"every": "7min"}, title="a: 1 # b",
                                learning_rate=np.float64(1e-5), max_time="auto").fit(x, y)
        config = fitted.run_.config()
        for line in ('title: "a: 1 # b"', "learning_rate: 1e-05", "every: 420"):
            self.assertIn(line, config)

    def test_the_program_refuses_unknown_names(self):
        x, y = numbers()
        for wrong, text in (({"epoch": 3}, "unknown parameter 'epoch'; did you mean 'epochs'?"),
                            ({"n_models": 3}, "unknown parameter 'n_models'; did you mean 'members'?"),
                            ({"train": {"epoch": 3}}, "unknown key 'epoch' in train; did you mean "
                                                      "'epochs'?"),
                            ({"train": {"dropout": 2.5}}, "train.dropout: 2.5 is out of range: 0 to"),
                            ({"train__dropout": 2.5}, "train__dropout: 2.5 is out of range: 0 to"),
                            ({"dropout": 2.5}, "dropout: 2.5 is out of range: 0 to 0.99"),
                            ({"n_jobs": "x"}, "n_jobs: 'x' is not a whole number"),
                            ({"members": 0}, "members: 0 is out of range"),
                            ({"hidden": "big"}, "hidden: expected a list; write it in brackets, "
                                                "e.g. [64, 64] (hidden='big')"),
                            ({"hidden": ["a"]}, "hidden[0]")):
            with tempfile.TemporaryDirectory() as folder:
                for directory in (None, folder):
                    with self.subTest(wrong), self.assertRaises(tutti.InputError) as caught:
                        tutti.Ensemble(quiet=True, directory=directory, **wrong).fit(x, y)
                    self.assertEqual(caught.exception.code, 78)
                    message = str(caught.exception)
                    self.assertTrue(message.startswith(text), message)
                    self.assertEqual(message, caught.exception.message)
                    self.assertIn("nothing was run", message)

    def test_wrong_data(self):
        x, y = numbers()
        bad = x.copy()
        bad[3, 1] = np.nan
        fitted = tutti.Ensemble(**SMALL).fit(x, y)
        for call, text in ((lambda: fitted.fit(bad, y), "row 3, column 1 is nan"),
                           (lambda: fitted.predict(bad), "row 3, column 1 is nan"),
                           (lambda: fitted.fit(x, y[:9]), "X has 60, y has 9"),
                           (lambda: fitted.predict(x[:, :2]), "X has 2 features"),
                           (lambda: fitted.fit(x[0], y), "Expected 2D array"),
                           (lambda: tutti.Ensemble().predict(x), "not fitted")):
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                call()

    def test_a_program_that_does_not_exist(self):
        with self.assertRaisesRegex(FileNotFoundError, "/no/tutti is not a program"):
            tutti.Ensemble(program="/no/tutti").fit(*numbers())


if __name__ == "__main__":
    unittest.main()
