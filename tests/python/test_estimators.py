"""EnsembleRegressor and EnsembleClassifier; the checks of scikit-learn where it is installed.

CI does not install scikit-learn: with SciPy it is 30 MB to fetch, 239 MB on disk, and its checks
start the program 300 times (15 s of CPU).
"""
import contextlib
import io
import os
import unittest
import warnings

import numpy as np

from common import SMALL, numbers
import tutti

try:
    import sklearn
    from sklearn.base import clone, is_classifier, is_regressor
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.utils.estimator_checks import check_estimator
except ImportError:
    sklearn = None

BETTER = {**SMALL, "hidden": [16], "members": 2, "epochs": 60, "batch_size": 16,
          "learning_rate": 2e-2}
# Checks that fail, with the reason.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data":
        "a weight scales the loss of a row; a row that is repeated is drawn into batches and into "
        "the validation rows of its own",
    "check_sample_weights_invariance":
        "as check_sample_weight_equivalence_on_dense_data, in scikit-learn before 1.6",
}


class Estimators(unittest.TestCase):
    def test_names_of_scikit_learn(self):
        x, y = numbers()
        small = {**SMALL, "threads": None}
        mean = tutti.EnsembleRegressor(**small, seed=3).fit(x, y).predict(x)
        same = tutti.EnsembleRegressor(**small, random_state=3, n_jobs=1)
        np.testing.assert_array_equal(same.fit(x, y).predict(x), mean)
        self.assertFalse(np.array_equal(same.set_params(random_state=4).fit(x, y).predict(x), mean))
        np.testing.assert_array_equal(
            same.set_params(random_state=5).partial_fit(x, y).predict(x),
            tutti.EnsembleRegressor(**small, seed=5).partial_fit(x, y).predict(x))
        for state in (np.random.RandomState(1), np.random.default_rng(1)):
            self.assertGreaterEqual(same.set_params(random_state=state).job()["run"]["seed"], 0)
        self.assertEqual(same.set_params(n_jobs=-1).job()["run"]["threads"], "auto")
        with self.assertRaisesRegex(ValueError, "random_state and seed mean the same"):
            tutti.EnsembleRegressor(random_state=1, seed=1).fit(x, y)

    def test_verbose(self):
        x, y = numbers()
        for kind, given, shown in ((tutti.EnsembleRegressor, {}, False),
                                   (tutti.EnsembleRegressor, {"verbose": 1}, True),
                                   (tutti.EnsembleRegressor, {"verbose": 0}, False),
                                   (tutti.Ensemble, {"verbose": 0}, False),
                                   (tutti.Ensemble, {}, True)):
            small = {name: value for name, value in SMALL.items() if name != "quiet"}
            with self.subTest(kind, given=given), contextlib.redirect_stderr(io.StringIO()) as said:
                kind(**small, **given).fit(x, y)
                self.assertEqual("epoch 3/3" in said.getvalue(), shown, said.getvalue())

    def test_regressor(self):
        x, y = numbers()
        fitted = tutti.EnsembleRegressor(**BETTER, loss="gaussian_nll").fit(x, y)
        mean, std = fitted.predict(x, return_std=True)
        np.testing.assert_array_equal(mean, fitted.predict(x))
        np.testing.assert_array_equal(std, fitted.distribution(x).std)
        error = np.sum((y - mean) ** 2) / np.sum((y - y.mean()) ** 2)
        self.assertAlmostEqual(fitted.score(x, y), 1 - error, places=12)
        self.assertGreater(fitted.score(x, y), 0.8)

    def test_classifier_has_labels_of_any_type(self):
        x, y = numbers()
        label = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
        fitted = tutti.EnsembleClassifier(**BETTER).fit(x, label)
        self.assertEqual(list(fitted.classes_), ["high", "low", "middle"])
        np.testing.assert_allclose(fitted.predict_proba(x).sum(axis=1), 1, atol=1e-6)
        self.assertEqual(fitted.score(x, label), np.mean(fitted.predict(x) == label))
        self.assertGreater(fitted.score(x, label), 0.8)
        with self.assertRaisesRegex(ValueError, "Unknown label type"):
            fitted.fit(x, y)

    def test_partial_fit(self):
        """Calls go on; equal calls give equal members; the batches decide, not the calls."""
        x, y = numbers()
        options = {"hidden": [16], "members": 3, "learning_rate": 2e-2, "batch_size": 16}
        one, two = (tutti.EnsembleRegressor(**options) for _ in range(2))
        first = one.partial_fit(x, y).score(x, y)
        for _ in range(40):
            one.partial_fit(x, y)
        self.assertGreater(one.score(x, y), max(0.8, first))
        for _ in range(41):
            two.partial_fit(x, y, sample_weight=np.ones(len(x)))
        mean, std = one.predict(x, return_std=True)
        np.testing.assert_array_equal(mean, two.predict(x))
        self.assertTrue((std > 0).all())
        self.assertEqual(one.n_features_in_, x.shape[1])
        one.set_params(hidden=[8]).partial_fit(x, y)  # another ensemble begins
        self.assertLess(one.run_.trainer.parameters, two.run_.trainer.parameters)
        one.set_params(**BETTER).fit(x, y)
        self.assertTrue(os.path.exists(one.run_.path("model.h5")))

    def test_partial_fit_takes_options_of_sections(self):
        x, y = numbers()
        short = tutti.EnsembleRegressor(hidden=[8], members=2, batch_size=7, seed=0)
        long = tutti.EnsembleRegressor(model={"hidden": [8]}, members=2, train={"batch_size": 7},
                                       run={"seed": 0})
        other = tutti.EnsembleRegressor(hidden=[8], members=2, batch_size=7, seed=1)
        for one in (short, long, other):
            one.partial_fit(x, y)
        np.testing.assert_array_equal(short.predict(x), long.predict(x))
        self.assertTrue((short.predict(x) != other.predict(x)).any())

    def test_partial_fit_of_classes(self):
        x, y = numbers()
        label = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
        fitted = tutti.EnsembleClassifier(hidden=[16], members=2, learning_rate=2e-2)
        for _ in range(40):
            fitted.partial_fit(x, label, classes=["low", "middle", "high", "none"])
        self.assertEqual(list(fitted.classes_), ["high", "low", "middle", "none"])
        self.assertGreater(fitted.score(x, label), 0.8)
        with self.assertRaisesRegex(ValueError, "'other', which is none of the classes"):
            fitted.partial_fit(x[:2], ["low", "other"])

    def test_parameters(self):
        one = tutti.EnsembleClassifier(hidden=[3], dropout=0.1, train={"l2": 0.5})
        two = tutti.EnsembleClassifier(**one.get_params())
        self.assertEqual(one.get_params(), two.get_params())
        self.assertIs(one.set_params(epochs=4, train__l2=0.25), one)
        self.assertEqual(one.get_params()["train"], {"l2": 0.25})
        self.assertEqual(two.get_params()["train"], {"l2": 0.5})
        self.assertEqual(repr(one), "EnsembleClassifier(hidden=[3], epochs=4, "
                         "train={'l2': 0.25}, dropout=0.1)")


@unittest.skipUnless(sklearn, "scikit-learn is not installed")
class ScikitLearn(unittest.TestCase):
    def test_clone_and_search(self):
        x, y = numbers()
        for kind in (tutti.Ensemble, tutti.EnsembleRegressor):
            scores = cross_val_score(clone(kind(**BETTER)), x, y, cv=3)
            self.assertGreater(scores.min(), 0.5)
        search = GridSearchCV(tutti.EnsembleRegressor(**BETTER), {"epochs": [1, 60]}, cv=2)
        self.assertEqual(search.fit(x, y).best_params_, {"epochs": 60})
        self.assertTrue(is_regressor(tutti.EnsembleRegressor()))
        self.assertTrue(is_classifier(tutti.EnsembleClassifier()))

    def test_checks_of_scikit_learn(self):
        warnings.simplefilter("ignore")
        both = [kind(**BETTER) for kind in (tutti.EnsembleRegressor, tutti.EnsembleClassifier)]
        searches = [tutti.TuttiSearch(clone(one), n_trials=2, folds=2) for one in both]
        for estimator in both + searches:
            failed, passed = run_checks(estimator)
            print(f"\n{estimator}, scikit-learn {sklearn.__version__}: {len(passed)} checks "
                  f"passed, failed as expected: {sorted(failed)}")
            self.assertEqual({name: why for name, why in failed.items() if name not in EXPECTED},
                             {})
            self.assertGreater(len(passed), 30)


def run_checks(estimator):
    """Failed checks with their exceptions, and names of those that passed."""
    failed, passed = {}, []
    if hasattr(estimator, "__sklearn_tags__") and hasattr(sklearn.utils, "Tags"):
        for result in check_estimator(estimator, on_fail=None, on_skip=None):
            if result["status"] == "passed":
                passed.append(result["check_name"])
            elif result["status"] == "failed":
                failed[result["check_name"]] = repr(result["exception"])[:300]
        return failed, passed
    for instance, check in check_estimator(estimator, generate_only=True):
        name = check.func.__name__
        try:
            check(instance)
            passed.append(name)
        except unittest.SkipTest:
            pass
        except Exception as why:  # a check may raise anything
            failed[name] = repr(why)[:300]
    return failed, passed


if __name__ == "__main__":
    unittest.main()
