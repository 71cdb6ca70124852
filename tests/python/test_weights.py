"""Weights of a trained model as arrays, and trainers that begin with them."""
import json
import os
import subprocess
import tempfile
import unittest
import warnings

import numpy as np

from common import SMALL, TUTTI, numbers
import tutti

LAYERS = {**SMALL, "hidden": [6, 6], "recalibrate": "none"}
NETWORKS = {
    "mean": {}, "scales": {"data": {"normalize": "minmax"}, "residual": True},
    "variance": {"loss": "gaussian_nll", "layer_norm": True, "variance_floor": 1e-3},
    "quantiles": {"loss": "quantile", "quantiles": [0.1, 0.5, 0.9]},
    "no hidden layer": {"hidden": [], "loss": "mae"}}


def layers_of(a, m, h):
    """Outputs of a member, computed from its arrays."""
    for l, layer in enumerate(a["layers"]):
        z = h @ layer["weight"][m].T + layer["bias"][m]
        if "gain" in layer:
            z = (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-5)
            z = z * layer["gain"][m] + layer["shift"][m]
        if l + 1 < len(a["layers"]):
            z = z / (1 + np.exp(-z))  # silu
            z = z + h if a["residual"] and z.shape == h.shape and l else z
        h = z
    return h


class Weights(unittest.TestCase):
    def setUp(self):
        self.x, self.y = numbers(targets=2)
        self.x = self.x * [1, 10, 0.1] + 5
        self.ensembles = []  # the last object of a run removes its files

    def fit(self, x, y, **options):
        self.ensembles.append(tutti.Ensemble(**{**LAYERS, **options}).fit(x, y))
        return self.ensembles[-1].run_.model

    def same(self, model, ensemble=None, columns=slice(None)):
        """A trainer of these members predicts what the model predicts, in bits."""
        made = tutti.Trainer.from_model(model, ensemble).model()
        want, got = model.predict(self.x), made.predict(self.x)
        for name in ("mean", "std", "epistemic"):
            w, g = (getattr(p, name).reshape(len(self.x), -1) for p in (want, got))
            np.testing.assert_array_equal(w[:, columns], g, name)
        return made

    def test_trainers_begin_with_a_model(self):
        for name, options in NETWORKS.items():
            with self.subTest(name):
                self.same(self.fit(self.x, self.y, **options))
        for loss in ("cross_entropy", "bce", "poisson"):
            with self.subTest(loss):
                self.same(self.fit(self.x, np.arange(60) % (2 if loss == "bce" else 3), loss=loss))

    def test_layers_are_the_networks(self):
        for name, options in NETWORKS.items():
            with self.subTest(name):
                model = self.fit(self.x, self.y, **options)
                a, trainer = model.arrays(), tutti.Trainer.from_model(model)
                h = (self.x - a["x_mean"]) / a["x_scale"]
                out = trainer.predict(self.x)
                for m in range(3):
                    np.testing.assert_allclose(layers_of(a, m, h), out[m], rtol=0, atol=2e-5)
                self.assertEqual(a["parameters"].shape, (3, trainer.parameters))

    def test_several_ensembles(self):
        model = self.fit(self.x, self.y, members=None, ensembles=[
            {"name": "second", "members": 2, "targets": ["y1"], "first_member": 4},
            {"name": "first", "members": 3, "targets": ["y0"], "model": {"hidden": [5]}}])
        self.assertEqual(list(model.arrays("second")["member_index"]), [4, 5])
        self.assertEqual(self.same(model, "second", slice(0, 1)).ensembles, ["second"])
        self.assertEqual(self.same(model, "first", slice(1, 2)).targets, ["y0"])
        for name in (None, "third"):
            with self.assertRaisesRegex(ValueError, "the model has second, first"):
                model.arrays(name)

    def test_members_that_predictions_use(self):
        model = self.fit(self.x, self.y, members=5, combine={"method": "top_k", "k": 2})
        a = model.arrays()
        self.assertEqual(a["parameters"].shape[0], 2)
        every = model.predict(self.x, members=True).member_mean[a["member_index"]]
        with tutti.Trainer.from_model(model) as trainer, trainer.model() as made:
            np.testing.assert_array_equal(made.predict(self.x, members=True).member_mean, every)

    def weigh(self, model, rows, method, value, better):
        """tutti weigh: its exit code and message, and the model."""
        with tempfile.TemporaryDirectory() as folder:
            file, table, best = (os.path.join(folder, name) for name in ("m.h5", "s.csv", "best.h5"))
            with open(file, "wb") as f:
                f.write(model)
            with open(table, "w") as f:
                f.write("score,note,member\n" + "".join(f"{s},a,{m}\n" for m, s in rows))
            done = subprocess.run([TUTTI, "weigh", file, table, "-o", best, "--method", method, "--value",
                                   str(value), "--better", better], capture_output=True, text=True)
            if done.returncode:
                return done.returncode, done.stderr, None
            info = subprocess.run([TUTTI, "info", "--json", best], capture_output=True, text=True)
            return 0, json.loads(info.stdout)["provenance"]["member_weights"], tutti.Model(best).predict(
                self.x, members=True)

    def test_scores_of_a_simulation_are_weights(self):
        model = self.fit(self.x, self.y, members=None, recalibrate="none", ensembles=[
            {"name": "a", "members": 4, "targets": ["y0"]}, {"name": "b", "members": 3, "targets": ["y1"]}])
        score = np.array([3, 0.5, 2, 1, 7, np.inf, 6])
        for better in ("lower", "higher"):
            s = score if better == "lower" else -score
            for method, value in (("top_k", 2), ("threshold", s[2]), ("boltzmann", 1.5)):
                with self.subTest(f"{method}, {better}"):
                    if method == "threshold":
                        s = np.where(np.arange(7) == 6, s[2], s)
                    code, how, p = self.weigh(model._bytes, list(enumerate(s))[::-1], method, value, better)
                    self.assertEqual(code, 0, how)
                    self.assertIn(f"{method}, value {value}, {better} is better", how)
                    for e, own in enumerate((slice(0, 4), slice(4, 7))):
                        loss = abs(s[own])
                        w = {"top_k": 1.0 * (loss <= np.sort(loss)[1]), "threshold": 1.0 * (loss <= 2),
                             "boltzmann": np.exp(-(loss - loss.min()) / 1.5)}[method]
                        mean = p.member_mean[own].reshape(len(w), len(self.x), -1)[:, :, 0]
                        np.testing.assert_allclose(p.mean[:, e], w @ mean / w.sum(), rtol=1e-6, atol=1e-6)
        good = list(enumerate([1] * 7))
        for rows, method, code, message in (
                (good[:6] + [(9, 1)], "top_k", 65, "s.csv:8: column 'member': '9' is no member"),
                (good[:6] + [(2, 1)], "top_k", 65, "s.csv:8: column 'member': '2' is a member that has a row"),
                (good[:6] + [(6, "nan")], "top_k", 65, "s.csv:8: column 'member': '6' is a member without"),
                (good[:6] + [(6, "-inf")], "boltzmann", 65, "'6' is a member with an infinitely good"),
                (good[:5], "top_k", 65, "no score of members 5, 6"),
                ([(m, 5) for m, _ in good], "threshold", 65, "no member of ensemble 'a' would be used"),
                (good, "greedy", 64, "'greedy' is not top_k, threshold or boltzmann")):
            with self.subTest(message):
                got = self.weigh(model._bytes, rows, method, 2, "lower")
                self.assertEqual(got[0], code, got[1])
                self.assertIn(message, got[1])

    def test_a_model_of_arrays_is_the_model(self):
        """Of all arrays, and of those alone that a network of any origin has."""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "again.h5")
            for name, options in NETWORKS.items():
                with self.subTest(name):
                    model = self.fit(self.x, self.y, **options)
                    a = model.arrays()
                    tutti.write_model(file, a)
                    want, got = model.predict(self.x), tutti.Model(file).predict(self.x)
                    np.testing.assert_array_equal(got.mean, want.mean)
                    np.testing.assert_array_equal(got.std, want.std)
                    a["layers"][-1]["bias"][1] += 1
                    tutti.write_model(file, {name: a[name] for name in (
                        "layers", "activation", "output", "level", "variance_floor", "residual",
                        "x_mean", "x_scale", "y_mean", "y_scale")})
                    self.assertTrue((tutti.Model(file).predict(self.x).mean != want.mean).any())
            bare = {"layers": [{"weight": np.ones((2, 1, 3)), "bias": np.zeros((2, 1))}],
                    "activation": "identity"}
            tutti.write_model(file, bare)
            np.testing.assert_allclose(tutti.Model(file).predict(self.x).mean, self.x.sum(1), atol=1e-5)
            with self.assertRaisesRegex(ValueError, "3 outputs are no targets with the output mean_var"):
                tutti.write_model(file, {**bare, "output": "mean_variance", "layers": [
                    {"weight": np.ones((2, 3, 3)), "bias": np.zeros((2, 3))}]})

    def test_what_a_trainer_leaves_out(self):
        model = self.fit(self.x, self.y, loss="gaussian_nll", recalibrate="all", conformal=[0.8])
        with self.assertWarnsRegex(UserWarning, "noise and factor of the standard deviations and the "
                                   "conformal intervals are left out.*init_from") as caught:
            tutti.Trainer.from_model(model)
        self.assertEqual(caught.filename, __file__)
        model = self.fit(self.x, self.y, recalibrate="auto")  # six validation rows: no factor
        with self.assertWarnsRegex(UserWarning, "noise and factor of the standard deviations are"):
            tutti.Trainer.from_model(model)
        plain = self.fit(self.x, self.y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tutti.Trainer.from_model(plain)

    def test_training_goes_on(self):
        trainer = tutti.Trainer.from_model(self.fit(self.x, self.y), learning_rate=1e-2, batch_size=60)
        losses = [trainer.step(self.x, self.y).mean() for _ in range(50)]
        self.assertLess(losses[-1], 0.9 * losses[0])

    def test_refusals_name_the_reason(self):
        with tempfile.NamedTemporaryFile(suffix=".h5") as file, tutti.Trainer(inputs=3) as trainer:
            trainer.save(file.name)
            self.assertEqual(len(tutti.Model(file.name).arrays()["layers"]), 4)
            with self.assertRaisesRegex(ValueError, "weights are read from the file"):
                trainer.model().arrays()
        for words, options in (
                ("categories", {"data": {"categories": {"x0": "zeros"}}}),
                ("images or profiles", {"model": {"profile": [1, 3], "front": ["conv 2 3"]}}),
                ("data.targets_pca", {"data": {"targets_pca": 1}}),
                ("several networks", {"members": None, "hidden": None, "ensembles": [
                    {"networks": [{"members": 2, "model": {"hidden": [n]}} for n in (3, 4)]}]}),
                ("x1 has the transform yeo_johnson", {"data": {"normalize": {"x1": "yeo_johnson"}}}),
                ("different weights", {"combine": {"method": "weights"}})):
            x = self.x.copy()
            x[:, 0] = np.where(words == "categories", np.arange(60) % 2, x[:, 0])
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                tutti.Trainer.from_model(self.fit(x, self.y, **options))
        with self.assertRaisesRegex(TypeError, "multiple values.*hidden"):
            tutti.Trainer.from_model(self.fit(self.x, self.y), hidden=[4])


if __name__ == "__main__":
    unittest.main()
