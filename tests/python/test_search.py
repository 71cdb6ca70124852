"""TuttiSearch: the bits of `tutti tune`, and the table of its trials."""
import pathlib
import pickle
import tempfile
import unittest

import numpy as np

from common import SMALL, numbers
import tutti

ONE = {**SMALL, "hidden": None, "members": None, "epochs": 13}


def loss_of(search):
    """Of each trial."""
    return -search.cv_results_["mean_test_score"]


class Search(unittest.TestCase):
    def tuned(self, columns, folds):
        """`tutti tune` of a CSV file with these columns, by their names."""
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder, "t.csv")
            rows = [",".join(str(value) for value in row) for row in zip(*columns.values())]
            table.write_text("\n".join([",".join(columns), *rows]) + "\n")
            run = tutti.tune(table, "t", budget=4, folds=folds, directory=folder + "/out",
                             quiet=True, overrides=["train.epochs=13", "run.threads=1",
                                        "run.baselines=false"])
            return run.predict(np.stack([columns[c] for c in "abc"], axis=1)), run.results()

    def test_bits_of_tune(self):
        x, y = numbers()
        columns = dict(zip("abc", x.T.tolist()))
        label, named = np.where(y > 0, "up", "down"), tutti.EnsembleClassifier(**ONE, name="t")
        regressor = tutti.EnsembleRegressor(**ONE)
        for estimator, t, given, folds in ((regressor, y.tolist(), {"t": y}, 2),
                                           (regressor, y.tolist(), {"t": y}, 1),
                                           (named, label, label, 2)):
            with self.subTest(estimator, folds=folds):
                p, results = self.tuned({**columns, "t": t}, folds)
                found = tutti.TuttiSearch(estimator, n_trials=4, folds=folds).fit(columns, given)
                same = found.distribution(x)
                for name in ("mean", "std"):
                    np.testing.assert_array_equal(same[name], p[name])
                np.testing.assert_array_equal(loss_of(found), results["trial_score"][:, -1])
                np.testing.assert_array_equal(found.cv_results_["weight"], results["trial_weight"])

    def test_table_of_trials(self):
        """A trial that came farther is better, then one of lower loss; parameters train as they
        are; a text of a trial is read back."""
        x, y = numbers()
        space = {"model": {"hidden": {"choice": [[4], [5, 3]]}}}
        found = tutti.TuttiSearch(tutti.EnsembleRegressor(**ONE), budget=8, folds=2,
                                  space=space).fit(x, y)
        table, loss = found.cv_results_, loss_of(found)
        order = np.argsort(table["rank_test_score"])
        np.testing.assert_array_equal(np.sort(table["rank_test_score"]), np.arange(1, 9))
        for one, next_ in zip(order, order[1:]):
            self.assertLessEqual((-table["rung"][one], loss[one]),
                                 (-table["rung"][next_], loss[next_]))
        self.assertEqual((found.best_index_, found.best_score_), (order[0], -loss[order[0]]))
        self.assertAlmostEqual(table["weight"].sum(), 1)
        for params, width in zip(table["params"][4:], table["param_model__hidden"][4:]):
            self.assertEqual(params["model__hidden"], width)
            self.assertIn(width, ([4], [5, 3]))
            self.assertEqual((params["train__optimizer"], params["train__folds"]), ("adamw", 2))
        self.assertEqual(found.best_params_, table["params"][found.best_index_])
        again = tutti.EnsembleRegressor(**ONE).set_params(**found.best_params_, members=2)
        job = again.fit(x, y).job()
        for name, value in found.best_params_.items():
            section, _, option = name.partition("__")
            self.assertEqual(job[section][option], value)
        with self.assertRaisesRegex(tutti.InputError, "did you mean 'l2'"):
            found.set_params(space={"train": {"lr": {"choice": [1, 2]}}}).fit(x, y)
        with self.assertRaisesRegex(tutti.InputError, "^n_trials: 'x' is not a whole number"):
            tutti.TuttiSearch(n_trials="x").fit(x, y)

    def test_conventions(self):
        x, y = numbers()
        label = np.where(y > 0, "up", "down")
        small = {"n_trials": 2, "folds": 2}
        found = tutti.TuttiSearch(tutti.EnsembleClassifier(**ONE), **small).fit(x, label)
        self.assertEqual(list(found.classes_), ["down", "up"])
        self.assertEqual(found.score(x, label), np.mean(found.predict(x) == label))
        self.assertGreater(found.score(x, label), 0.8)
        copy = pickle.loads(pickle.dumps(found))
        np.testing.assert_array_equal(copy.predict_proba(x), found.predict_proba(x))
        regressor = tutti.TuttiSearch(tutti.EnsembleRegressor(**ONE), **small)
        self.assertFalse(hasattr(regressor, "predict_proba"))
        with self.assertRaisesRegex(ValueError, "this TuttiSearch is not fitted yet"):
            regressor.predict(x)
        mean, std = regressor.fit(x, y).predict(x, return_std=True)
        self.assertGreater(regressor.score(x, y), 0.8)
        self.assertTrue((std > 0).all())
        again = tutti.TuttiSearch(**regressor.get_params(deep=False)).fit(x, y)
        np.testing.assert_array_equal(again.predict(x), mean)
        other = again.set_params(random_state=5, estimator__threads=2, time=600).fit(x, y)
        self.assertEqual((other.best_estimator_.job()["run"]["seed"],
                          other.best_estimator_.search["seed"]), (5, 5))
        self.assertFalse(np.array_equal(other.predict(x), mean))
        for wrong, text in (({"n_trials": 2, "budget": 2}, "n_trials and budget mean the same"),
                            ({"n_jobs": 1, **small}, "n_jobs and threads mean the same"),
                            ({"estimator": tutti.EnsembleRegressor(ensembles=[{}, {}])},
                             "has 2 ensembles")):
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                tutti.TuttiSearch(**{"estimator": regressor.estimator, **wrong}).fit(x, y)
        with self.assertRaisesRegex(ValueError, "no parameter 'trials'; it has estimator, preset"):
            found.set_params(trials=3)


if __name__ == "__main__":
    unittest.main()
